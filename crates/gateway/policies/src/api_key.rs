//! `api_key`: authenticates clients by a key. Keys are stored and looked up as SHA-256 hashes, so that neither memory nor timing reveals
//! a key.

mod in_body;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use fault::{Fault, Kind};
use kit::percent;
use message::RequestHead;
use policy::{Decision, Exchange, Flow, Identity, IdentityScheme, OnHead, Onward, Policy, Step};

use in_body::KeysInBody;

use crate::credential_check::CredentialCheck;
use crate::credentials::{Holder, sha256};
use crate::identity::holder;
use crate::query;

/// The maximum length of a key, in bytes.
const KEY_BYTES_MAX: usize = 1024;

/// Keys with their owners, and the places where requests may have a key.
pub struct Keys {
    headers: Vec<String>,
    queries: Vec<String>,
    forward: bool,
    holders: HashMap<[u8; 32], Arc<Identity>>,
}

/// The error for an invalid list of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeysError {
    /// Two subjects have the same key. The values are their indices in the list.
    Shared(usize, usize),
    /// A slow password hash, which cannot be looked up. The value is its index in the list.
    Slow(usize),
}

impl Keys {
    pub fn new(
        headers: Vec<String>,
        queries: Vec<String>,
        forward: bool,
        list: Vec<Holder>,
    ) -> Result<Keys, KeysError> {
        let mut holders = HashMap::new();
        let mut places = HashMap::new();
        for (at, owner) in list.into_iter().enumerate() {
            let digest = owner.secret.digest().ok_or(KeysError::Slow(at))?;
            if let Some(other) = places.insert(digest, at) {
                return Err(KeysError::Shared(other, at));
            }
            holders.insert(digest, Arc::new(holder(owner, IdentityScheme::ApiKey)));
        }
        Ok(Keys { headers, queries, forward, holders })
    }

    /// Returns the request's key, from any of the configured places, or `None` if there is none. Two different keys are a fault.
    fn find<'h>(&'h self, head: &'h RequestHead) -> Result<Option<Cow<'h, [u8]>>, Fault> {
        let in_header = self.headers.iter().flat_map(|name| head.headers.get_all(name));
        let query_text = head.query().unwrap_or(b"");
        let in_query = self.queries.iter().flat_map(|name| query::values(query_text, name));
        // Harmless: the ranges were computed from this text.
        let in_query = in_query.filter_map(|range| query_text.get(range));
        let in_query = in_query.map(|key| percent::decoded(key, false));
        one(in_header.map(Cow::Borrowed).chain(in_query))
    }

    /// Returns the identity of the key's owner.
    fn holder(&self, key: &[u8]) -> Result<Arc<Identity>, Fault> {
        // The look-up compares hashes, not keys, so its timing reveals nothing about a key.
        let holder = if key.len() <= KEY_BYTES_MAX { self.holders.get(&sha256(key)) } else { None };
        let unknown = || refused(Kind::Unauthenticated, 900_901, "api_key: unknown key");
        holder.cloned().ok_or_else(unknown)
    }

    fn remove(&self, head: &mut RequestHead) {
        self.headers.iter().for_each(|name| head.headers.remove(name));
        self.queries.iter().for_each(|name| query::remove(head, name));
    }
}

/// Returns the only key, or `None` if there is none. Two different keys are a fault.
fn one<'k>(found: impl Iterator<Item = Cow<'k, [u8]>>) -> Result<Option<Cow<'k, [u8]>>, Fault> {
    let mut found = found.filter(|key| !key.is_empty());
    let key = found.next();
    if found.any(|other| Some(&other) != key.as_ref()) {
        Err(refused(Kind::Unauthenticated, 900_901, "api_key: two different keys"))
    } else {
        Ok(key)
    }
}

impl CredentialCheck for Keys {
    fn is_present(&self, _ex: &Exchange, head: &RequestHead) -> bool {
        !matches!(self.find(head), Ok(None))
    }

    fn strip(&self, head: &mut RequestHead) {
        if !self.forward {
            self.remove(head);
        }
    }

    fn challenge(&self) -> Option<String> {
        Some(CHALLENGE.to_owned())
    }

    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        Decision::Ready(self.on_head(ex, head))
    }
}

/// Returns the policy for these keys.
pub fn policy(keys: Keys) -> Policy {
    Policy { name: "api_key", request: Some(Step::Head(Box::new(keys))), response: None }
}

/// Returns the policy for these keys. If the head has no key, the policy searches the body for a form field or a JSON member with one of
/// these names.
pub fn policy_with_bodies(keys: Keys, names: Vec<String>, bytes_max: usize) -> Policy {
    let step = KeysInBody { keys, names, bytes_max };
    Policy { name: "api_key", request: Some(Step::Buffered(Box::new(step))), response: None }
}

impl OnHead<RequestHead> for Keys {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let Some(key) = self.find(head)? else {
            return Err(missing());
        };
        let holder = self.holder(&key)?;
        self.strip(head);
        ex.identity = Some(holder);
        Ok(Onward::Next)
    }
}

/// There is no registered scheme for keys. WSO2 and others use this one.
const CHALLENGE: &str = "ApiKey realm=\"tidegate\"";

fn missing() -> Fault {
    refused(Kind::CredentialMissing, 900_902, "api_key: no key")
}

fn refused(kind: Kind, code: u32, why: &str) -> Fault {
    Fault::new(kind, why).with_code(code).with_header("WWW-Authenticate", CHALLENGE)
}
