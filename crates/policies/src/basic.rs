//! `basic`: who asks is shown by a name and a password (RFC 7617).
//!
//! Passwords hashed the way they should be take milliseconds to check, so that is done beside the worker and remembered: a
//! password that this worker has checked costs one look-up.

mod checks;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fault::{Fault, Kind};
use kit::clock;
use message::RequestHead;
use policy::{Decision, Exchange, Flow, Identity, IdentityScheme, OnCall, Onward, Policy, Step};

use crate::credential_check::CredentialCheck;
use crate::credentials::{HashedSecret, Holder, sha256};
use crate::hash::Key;
use crate::identity::holder;
use crate::key::KeySource;
use crate::verdict_cache::{VerdictCache, next_number};
use checks::{Checks, Full};

/// No name with its password is longer.
const CREDENTIALS_BYTES_MAX: usize = 1024;
/// The time for which a wrong password is remembered as wrong, in seconds: a client that repeats it costs nothing.
const WRONG_FOR: u64 = 10;
/// Texts that a worker remembers. Each is a digest, so it takes a hundred bytes.
const REMEMBERED_MAX: usize = 4096;
const REMEMBERED_BYTES_MAX: usize = 1024 * 1024;

/// The users that may come in.
pub struct Users {
    number: u64,
    users: HashMap<String, (HashedSecret, Arc<Identity>)>,
    /// Checked for names that nobody has, so that nobody can tell which those are.
    stand_in: Option<HashedSecret>,
    realm: String,
    forward: bool,
}

/// A worker's memory of a name with a password.
#[derive(Clone, Copy)]
enum PasswordVerdict {
    Right,
    /// Until then, in seconds since the Unix epoch.
    Wrong(u64),
}

thread_local! {
    static KNOWN: RefCell<VerdictCache<PasswordVerdict>> =
        RefCell::new(VerdictCache::new(REMEMBERED_MAX, REMEMBERED_BYTES_MAX));
}

/// The checks of the whole process, and what its clients are known by.
static CHECKS: LazyLock<(Arc<Checks>, Key)> = LazyLock::new(|| (Arc::default(), Key::random()));

/// When to come again, in seconds.
const RETRY_AFTER: &str = "1";

impl Users {
    pub fn new(users: Vec<Holder>, realm: String, forward: bool) -> Users {
        let stand_in = users.iter().map(|user| &user.secret).find(|hash| hash.is_slow()).cloned();
        let user = |user: Holder| {
            let (name, hash) = (user.name.clone(), user.secret.clone());
            (name, (hash, Arc::new(holder(user, IdentityScheme::Basic))))
        };
        let users = users.into_iter().map(user).collect();
        Users { number: next_number(), users, stand_in, realm, forward }
    }

    /// The value of `WWW-Authenticate`.
    fn challenge_text(&self) -> String {
        format!("Basic realm=\"{}\", charset=\"UTF-8\"", self.realm)
    }

    fn refused(&self, kind: Kind, code: u32, why: &str) -> Fault {
        let challenge = self.challenge_text();
        Fault::new(kind, why).with_code(code).with_header("WWW-Authenticate", challenge)
    }

    fn wrong(&self) -> Fault {
        self.refused(Kind::Unauthenticated, 900_901, "basic: the name or the password is wrong")
    }

    /// The name and the password of a request.
    fn read(&self, head: &RequestHead) -> Result<(String, Vec<u8>), Fault> {
        let mut lines = head.headers.get_all("authorization");
        let missing =
            || self.refused(Kind::CredentialMissing, 900_902, "basic: no name and password");
        let line = lines.next().ok_or_else(missing)?;
        let malformed =
            |why: &str| self.refused(Kind::Unauthenticated, 900_901, &format!("basic: {why}"));
        if lines.next().is_some() {
            return Err(malformed("more than one name and password"));
        }
        if !is_basic(line) {
            return Err(missing());
        }
        let encoded = line.get(SCHEME.len()..).unwrap_or_default();
        if encoded.len() > CREDENTIALS_BYTES_MAX {
            return Err(malformed("too long"));
        }
        let decoded = STANDARD.decode(encoded.trim_ascii()).map_err(|_| malformed("no base64"))?;
        let colon = decoded.iter().position(|byte| *byte == b':');
        let (name, password) = colon
            .and_then(|at| decoded.split_at_checked(at))
            .ok_or_else(|| malformed("no colon"))?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| malformed("no UTF-8"))?;
        Ok((name, password.get(1..).unwrap_or_default().to_vec()))
    }

    /// The verdict that this worker knows, or can work out in no time.
    fn known(&self, name: &str, password: &[u8], digest: &[u8; 32]) -> Option<bool> {
        let known = KNOWN.with_borrow_mut(|memory| memory.get(self.number, digest).copied());
        match known {
            Some(PasswordVerdict::Right) => return Some(true),
            Some(PasswordVerdict::Wrong(until)) if until > clock::wall().as_secs() => {
                return Some(false);
            }
            Some(PasswordVerdict::Wrong(_)) | None => {}
        }
        match self.users.get(name) {
            Some((hash, _)) if !hash.is_slow() => Some(hash.is_of(password)),
            None if self.stand_in.is_none() => Some(false),
            Some(_) | None => None,
        }
    }

    /// Checks beside the worker, when it is this client's turn.
    async fn verify(
        &self,
        name: &str,
        password: Vec<u8>,
        ex: &Exchange,
        head: &RequestHead,
    ) -> Result<bool, Fault> {
        let (checks, key) = &*CHECKS;
        let client = KeySource::Client.hash(*key, ex, head);
        let place = checks.place(client, &ex.alarm).await.map_err(full)?;
        let hash = self.users.get(name).map(|(hash, _)| hash);
        let is_user = hash.is_some();
        let Some(hash) = hash.or(self.stand_in.as_ref()).cloned() else { return Ok(false) };
        let checked = kit::task::beside(move || {
            let _place = place;
            hash.is_of(&password)
        });
        let checked = checked.await;
        let checked =
            checked.ok_or_else(|| Fault::new(Kind::Internal, "basic: a check did not end"))?;
        Ok(checked && is_user)
    }

    fn pass(&self, name: &str, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        let (_, identity) = self.users.get(name).ok_or_else(|| self.wrong())?;
        ex.identity = Some(identity.clone());
        if !self.forward {
            head.headers.remove("authorization");
        }
        Ok(Onward::Next)
    }

    fn decide(&self, right: bool, name: &str, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        if right { self.pass(name, ex, head) } else { Err(self.wrong()) }
    }
}

impl CredentialCheck for Users {
    fn is_there(&self, _ex: &Exchange, head: &RequestHead) -> bool {
        head.headers.get_all("authorization").any(is_basic)
    }

    fn strip(&self, head: &mut RequestHead) {
        if !self.forward && head.headers.get_all("authorization").any(is_basic) {
            head.headers.remove("authorization");
        }
    }

    fn challenge(&self) -> Option<String> {
        Some(self.challenge_text())
    }

    fn check<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        self.on_call(ex, head)
    }
}

/// The policy of these users.
pub fn policy(users: Users) -> Policy {
    Policy { name: "basic", request: Some(Step::Call(Box::new(users))), response: None }
}

impl OnCall<RequestHead> for Users {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        let (name, password) = match self.read(head) {
            Ok(read) => read,
            Err(fault) => return Decision::Ready(Err(fault)),
        };
        let digest = digest(&name, &password);
        if let Some(right) = self.known(&name, &password, &digest) {
            return Decision::Ready(self.decide(right, &name, ex, head));
        }
        Decision::Waits(Box::pin(async move {
            let right = self.verify(&name, password, ex, head).await?;
            let known = if right {
                PasswordVerdict::Right
            } else {
                PasswordVerdict::Wrong(clock::wall().as_secs().saturating_add(WRONG_FOR))
            };
            KNOWN.with_borrow_mut(|memory| memory.put(self.number, &digest, known, 64));
            self.decide(right, &name, ex, head)
        }))
    }
}

/// The beginning of a name and a password in `Authorization`, in any case.
const SCHEME: &[u8] = b"basic ";

fn is_basic(line: &[u8]) -> bool {
    line.split_at_checked(SCHEME.len()).is_some_and(|(start, _)| start.eq_ignore_ascii_case(SCHEME))
}

/// The digest by which a name and its password are remembered.
fn digest(name: &str, password: &[u8]) -> [u8; 32] {
    sha256(&[name.as_bytes(), b":", password].concat())
}

/// A client that asks too much is told so; anybody else, that there is too much to do.
fn full(full: Full) -> Fault {
    let (kind, cause) = match full {
        Full::OfClient => (Kind::RateLimited, "basic: many passwords of this client wait already"),
        Full::OfAll => (Kind::Busy, "basic: too many passwords are being checked"),
    };
    Fault::new(kind, cause).with_header("Retry-After", RETRY_AFTER)
}
