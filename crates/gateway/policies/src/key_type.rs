//! `key_type`: requests with production tokens and with sandbox tokens go to different upstreams.

use fault::{Fault, Kind};
use message::RequestHead;
use policy::{Exchange, Flow, OnHead, Onward, Policy, Step};

use crate::rebased;

/// The destination of sandbox requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// The index among the route's diversions.
    pub diversion: usize,
    /// A path prefix, and its replacement for the sandbox.
    pub path: Option<(String, String)>,
}

struct KeyType {
    claim: String,
    production: bool,
    sandbox: Option<Sandbox>,
}

/// Returns the policy. A request for an environment that does not exist is refused.
pub fn policy(claim: String, production: bool, sandbox: Option<Sandbox>) -> Policy {
    let key_type = KeyType { claim, production, sandbox };
    Policy { name: "key_type", request: Some(Step::Head(Box::new(key_type))), response: None }
}

impl KeyType {
    fn is_sandbox(&self, ex: &Exchange) -> bool {
        let claims = ex.identity.as_ref().and_then(|identity| identity.claims.as_ref());
        let said = claims.and_then(|claims| claims.get(&self.claim)).and_then(|said| said.as_str());
        said.is_some_and(|said| said.eq_ignore_ascii_case("SANDBOX"))
    }
}

impl OnHead<RequestHead> for KeyType {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        match (self.is_sandbox(ex), &self.sandbox) {
            (false, _) if self.production => Ok(Onward::Next),
            (true, Some(sandbox)) => {
                ex.notes().divert = Some(sandbox.diversion);
                if let Some((base, other)) = &sandbox.path {
                    ex.notes().target = Some(rebased::target(ex, head, base, other));
                }
                Ok(Onward::Next)
            }
            (true, None) => Err(refused("a sandbox")),
            (false, _) => Err(refused("production")),
        }
    }
}

fn refused(what: &str) -> Fault {
    let cause = format!("key_type: the token is for {what}, which the route does not have");
    Fault::new(Kind::Unauthenticated, cause)
        .with_code(900_901)
        .with_header("WWW-Authenticate", "Bearer realm=\"tidegate\", error=\"invalid_token\"")
}
