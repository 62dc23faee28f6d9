//! `authenticate`: authenticates clients by one of several kinds of credential. The first kind whose credential is in the request decides.
//!
//! Owns the choice of the kind, and the challenges if there is no credential. Each kind is a [`CredentialCheck`].

use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Decision, Exchange, OnCall, Onward, Policy, Step};

use crate::credential_check::CredentialCheck;

/// Returns the policy for these kinds. If `anonymous`, a request without any of the credentials passes.
pub fn policy(kinds: Vec<Box<dyn CredentialCheck>>, anonymous: bool) -> Policy {
    let step = Authenticate { kinds, anonymous };
    Policy { name: "authenticate", request: Some(Step::Call(Box::new(step))), response: None }
}

struct Authenticate {
    kinds: Vec<Box<dyn CredentialCheck>>,
    anonymous: bool,
}

impl OnCall<RequestHead> for Authenticate {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let found = self.kinds.iter().position(|kind| kind.is_present(ex, head));
        for (at, kind) in self.kinds.iter().enumerate() {
            if Some(at) != found {
                kind.strip(head);
            }
        }
        match found.and_then(|at| self.kinds.get(at)) {
            Some(kind) => kind.check(ex, head),
            None if self.anonymous => Decision::Ready(Ok(Onward::Next)),
            None => Decision::Ready(Err(self.missing())),
        }
    }
}

impl Authenticate {
    fn missing(&self) -> Fault {
        let why = "authenticate: the request has no accepted credential";
        let fault = Fault::new(Kind::CredentialMissing, why).with_code(900_902);
        // Harmless: a kind without a challenge adds no header.
        let challenges = self.kinds.iter().filter_map(|kind| kind.challenge());
        challenges.fold(fault, |fault, challenge| fault.with_header("WWW-Authenticate", challenge))
    }
}
