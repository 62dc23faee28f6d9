//! `authenticate`: one of several kinds of credential shows who asks. The first kind whose credential the request has decides.
//!
//! Owns the choice and the challenge where there is none. What a kind does with its credential is that policy's own.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Decision, Exchange, OnCall, OnHead, Onward, Policy, Step};

use crate::api_key::Keys;
use crate::basic::Users;
use crate::jwt::{OnToken, Verifier};
use crate::mutual_tls::{OnCertificate, TrustedCertificates};

/// One kind of credential.
pub enum CredentialKind {
    Jwt(Arc<Verifier>),
    ApiKey(Keys),
    Basic(Users),
    MutualTls(TrustedCertificates),
}

/// The policy of these kinds. A request with none of the credentials passes if `anonymous`.
pub fn policy(kinds: Vec<CredentialKind>, anonymous: bool) -> Policy {
    let step = Authenticate { kinds: kinds.into_iter().map(CheckedKind::of).collect(), anonymous };
    Policy { name: "authenticate", request: Some(Step::Call(Box::new(step))), response: None }
}

struct Authenticate {
    kinds: Vec<CheckedKind>,
    anonymous: bool,
}

/// A kind with the step that checks it.
enum CheckedKind {
    Jwt(OnToken),
    ApiKey(Keys),
    Basic(Users),
    MutualTls(OnCertificate),
}

impl CheckedKind {
    fn of(kind: CredentialKind) -> CheckedKind {
        match kind {
            CredentialKind::Jwt(verifier) => CheckedKind::Jwt(OnToken(verifier)),
            CredentialKind::ApiKey(keys) => CheckedKind::ApiKey(keys),
            CredentialKind::Basic(users) => CheckedKind::Basic(users),
            CredentialKind::MutualTls(trusted) => {
                CheckedKind::MutualTls(OnCertificate::new(trusted))
            }
        }
    }

    /// True if the request has a credential of this kind, good or not.
    fn is_there(&self, ex: &Exchange, head: &RequestHead) -> bool {
        match self {
            CheckedKind::Jwt(step) => step.0.is_there(head),
            CheckedKind::ApiKey(keys) => keys.is_there(head),
            CheckedKind::Basic(_) => Users::is_there(head),
            CheckedKind::MutualTls(step) => step.is_there(ex, head),
        }
    }

    /// Removes what the upstream must not see of a kind that did not decide: its credential, and lines that tell of claims.
    fn strip(&self, head: &mut RequestHead) {
        match self {
            CheckedKind::Jwt(step) => step.0.strip(head),
            CheckedKind::ApiKey(keys) => keys.strip(head),
            CheckedKind::Basic(users) => users.strip(head),
            CheckedKind::MutualTls(step) => step.strip(head),
        }
    }

    fn challenge(&self) -> Option<String> {
        match self {
            CheckedKind::Jwt(step) => Some(step.0.challenge()),
            CheckedKind::ApiKey(_) => Some(crate::api_key::CHALLENGE.to_owned()),
            CheckedKind::Basic(users) => Some(users.challenge_text()),
            // TLS asks for a certificate itself.
            CheckedKind::MutualTls(_) => None,
        }
    }
}

impl OnCall<RequestHead> for Authenticate {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let found = self.kinds.iter().position(|kind| kind.is_there(ex, head));
        for (at, kind) in self.kinds.iter().enumerate() {
            if Some(at) != found {
                kind.strip(head);
            }
        }
        match found.and_then(|at| self.kinds.get(at)) {
            Some(CheckedKind::Jwt(step)) => step.on_call(ex, head),
            Some(CheckedKind::ApiKey(keys)) => Decision::Ready(keys.on_head(ex, head)),
            Some(CheckedKind::Basic(users)) => users.on_call(ex, head),
            Some(CheckedKind::MutualTls(step)) => Decision::Ready(step.on_head(ex, head)),
            None if self.anonymous => Decision::Ready(Ok(Onward::Next)),
            None => Decision::Ready(Err(self.missing())),
        }
    }
}

impl Authenticate {
    fn missing(&self) -> Fault {
        let why = "authenticate: none of the credentials is there";
        let fault = Fault::new(Kind::CredentialMissing, why).with_code(900_902);
        let challenges = self.kinds.iter().filter_map(CheckedKind::challenge);
        challenges.fold(fault, |fault, challenge| fault.with_header("WWW-Authenticate", challenge))
    }
}
