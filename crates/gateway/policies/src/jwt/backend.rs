//! `backend_jwt`: passes the client identity to the upstream in a token signed by the gateway. `jwks`: publishes the keys for these tokens.

use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use jose::{Object, Signer};
use kit::clock;
use message::{Body, Reply, RequestHead};
use policy::{Exchange, Flow, Identity, OnHead, Onward, Policy, Step};
use serde_json::{Value, json};

use crate::verdict_cache::{VerdictCache, next_number};

/// The contents of the tokens.
pub struct BackendJwtSettings {
    pub header: String,
    pub issuer: String,
    pub audiences: Vec<String>,
    pub ttl: Duration,
    /// Claims to copy from the client's token.
    pub copy: Vec<String>,
    /// Claims to add.
    pub claims: Vec<(String, String)>,
}

/// The public keys of all `backend_jwt` policies of a plan, as one JWK set. It is set when the plan is complete.
pub type OwnKeys = OnceLock<Arc<str>>;

/// Issues tokens, and caches them for as long as they are fresh.
struct Issue {
    number: u64,
    settings: BackendJwtSettings,
    signer: Arc<Signer>,
}

/// An issued token.
struct IssuedToken {
    /// Kept alive, so that its address, which is the cache key, is not reused.
    identity: Arc<Identity>,
    token: Arc<str>,
    /// When a new token must be issued, in seconds since the Unix epoch.
    stale: u64,
}

/// The maximum number of tokens in a worker's cache.
const MADE_MAX: usize = 16 * 1024;
/// The maximum total size of a worker's cached tokens, in bytes.
const MADE_BYTES_MAX: usize = 16 * 1024 * 1024;

thread_local! {
    static MADE: RefCell<VerdictCache<IssuedToken>> = RefCell::new(VerdictCache::new(MADE_MAX, MADE_BYTES_MAX));
}

/// Returns the policy that signs with this key.
pub fn policy(settings: BackendJwtSettings, signer: Arc<Signer>) -> Policy {
    let issue = Issue { number: next_number(), settings, signer };
    Policy { name: "backend_jwt", request: Some(Step::Head(Box::new(issue))), response: None }
}

/// Returns the policy that publishes the keys.
pub fn publishing(keys: Arc<OwnKeys>, max_age: Duration) -> Policy {
    let publish = Publish { keys, max_age: format!("max-age={}", max_age.as_secs()) };
    Policy { name: "jwks", request: Some(Step::Head(Box::new(publish))), response: None }
}

/// Returns the JWK set with these keys.
pub fn document<'s>(signers: impl Iterator<Item = &'s Arc<Signer>>) -> Arc<str> {
    let mut keys: Vec<Value> = Vec::new();
    for signer in signers {
        let key = signer.jwk();
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    json!({ "keys": keys }).to_string().into()
}

impl OnHead<RequestHead> for Issue {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        head.headers.remove(&self.settings.header);
        if let Some(identity) = &ex.identity {
            let token = self.token(identity)?;
            head.headers.add_known(&self.settings.header, token.as_bytes());
        }
        Ok(Onward::Next)
    }
}

impl Issue {
    fn token(&self, identity: &Arc<Identity>) -> Result<Arc<str>, Fault> {
        let now = clock::wall().as_secs();
        // There is one identity per credential, so its address identifies it for as long as it is alive.
        let place = Arc::as_ptr(identity).addr().to_le_bytes();
        let known = MADE.with_borrow_mut(|memory| {
            let made = memory.get(self.number, &place)?;
            let fresh = Arc::ptr_eq(&made.identity, identity) && made.stale > now;
            fresh.then(|| made.token.clone())
        });
        if let Some(token) = known {
            return Ok(token);
        }
        let claims = self.claims(identity, now);
        let token = self.signer.sign(&claims);
        let token: Arc<str> = token
            .map_err(|error| Fault::new(Kind::Internal, format!("backend_jwt: {error}")))?
            .into();
        // A token is replaced well before it expires, so that no request arrives with an expired token.
        let stale = now.saturating_add((self.settings.ttl * 4 / 5).as_secs());
        let made = IssuedToken { identity: identity.clone(), token: token.clone(), stale };
        MADE.with_borrow_mut(|memory| {
            memory.put(self.number, &place, made, token.len() + 128);
        });
        Ok(token)
    }

    fn claims(&self, identity: &Identity, now: u64) -> Object {
        let BackendJwtSettings { issuer, audiences, ttl, copy, claims, .. } = &self.settings;
        let mut said = Object::new();
        if let Some(theirs) = &identity.claims {
            for name in copy {
                said.extend(theirs.at(name).map(|value| (name.clone(), value.clone())));
            }
        }
        said.extend(claims.iter().map(|(name, value)| (name.clone(), value.as_str().into())));
        let audience = match audiences.as_slice() {
            [] => None,
            [one] => Some(Value::from(one.as_str())),
            several => Some(Value::from(several)),
        };
        let own = [
            ("iss", Some(Value::from(issuer.as_str()))),
            ("sub", Some(Value::from(&*identity.subject))),
            ("aud", audience),
            ("iat", Some(now.into())),
            ("exp", Some(now.saturating_add(ttl.as_secs()).into())),
        ];
        for (name, value) in own {
            said.extend(value.map(|value| (name.to_owned(), value)));
        }
        said
    }
}

struct Publish {
    keys: Arc<OwnKeys>,
    max_age: String,
}

impl OnHead<RequestHead> for Publish {
    fn on_head(&self, _ex: &mut Exchange, _head: &mut RequestHead) -> Flow {
        let keys = self.keys.get().cloned();
        let keys = keys.ok_or_else(|| Fault::new(Kind::Internal, "jwks: the keys are not set"))?;
        let body = Bytes::copy_from_slice(keys.as_bytes());
        let mut reply = Reply::new(200, Body::whole(body));
        reply.head.headers.add_known("Content-Type", b"application/jwk-set+json");
        reply.head.headers.add_known("Cache-Control", self.max_age.as_bytes());
        Ok(Onward::Turn(reply))
    }
}
