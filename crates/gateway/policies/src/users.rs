//! Checks names and passwords, for the policies whose clients send both.
//!
//! Checking a properly hashed password takes milliseconds, so it is done outside the worker's thread and the verdict is cached: a password
//! that this worker has already checked costs one look-up.

mod checks;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use fault::{Fault, Kind};
use kit::clock;
use message::RequestHead;
use policy::{Exchange, Identity, IdentityScheme};

use crate::credentials::{HashedSecret, Holder, sha256};
use crate::hash::Key;
use crate::identity::holder;
use crate::key::KeySource;
use crate::verdict_cache::{VerdictCache, next_number};
use checks::{Checks, Full};

/// How long a wrong password is cached as wrong, in seconds, so that repeating it costs nothing.
const WRONG_FOR: u64 = 10;
/// The maximum number of cached verdicts of a worker. Each is stored under a digest and takes a hundred bytes.
const REMEMBERED_MAX: usize = 4096;
const REMEMBERED_BYTES_MAX: usize = 1024 * 1024;

/// The known users.
pub struct Users {
    number: u64,
    users: HashMap<String, (HashedSecret, Arc<Identity>)>,
    /// A hash that is checked for unknown names, so that the time does not reveal which names exist.
    stand_in: Option<HashedSecret>,
}

/// A worker's cached verdict on a name with a password.
#[derive(Clone, Copy)]
enum PasswordVerdict {
    Right,
    /// Wrong. The entry expires at this time, in seconds since the Unix epoch.
    Wrong(u64),
}

thread_local! {
    static KNOWN: RefCell<VerdictCache<PasswordVerdict>> =
        RefCell::new(VerdictCache::new(REMEMBERED_MAX, REMEMBERED_BYTES_MAX));
}

/// The password checks of the whole process, and the key of the hash that identifies their clients.
static CHECKS: LazyLock<(Arc<Checks>, Key)> = LazyLock::new(|| (Arc::default(), Key::random()));

/// The value of `Retry-After`, in seconds.
const RETRY_AFTER: &str = "1";

impl Users {
    /// Creates users that authenticate by this scheme.
    pub fn new(users: Vec<Holder>, scheme: IdentityScheme) -> Users {
        let stand_in = users.iter().map(|user| &user.secret).find(|hash| hash.is_slow()).cloned();
        let user = |user: Holder| {
            let (name, hash) = (user.name.clone(), user.secret.clone());
            (name, (hash, Arc::new(holder(user, scheme))))
        };
        let users = users.into_iter().map(user).collect();
        Users { number: next_number(), users, stand_in }
    }

    /// Returns the verdict if it is cached or can be computed quickly.
    pub(crate) fn known(&self, name: &str, password: &[u8], digest: &[u8; 32]) -> Option<bool> {
        let known = KNOWN.with_borrow_mut(|memory| memory.get(self.number, digest).copied());
        match known {
            Some(PasswordVerdict::Right) => return Some(true),
            Some(PasswordVerdict::Wrong(until)) if until > clock::wall().as_secs() => {
                return Some(false);
            }
            Some(PasswordVerdict::Wrong(_)) | None => {}
        }
        match self.users.get(name) {
            Some((hash, _)) if !hash.is_slow() => Some(hash.matches(password)),
            None if self.stand_in.is_none() => Some(false),
            Some(_) | None => None,
        }
    }

    /// Checks the password outside the worker's thread, when it is this client's turn.
    async fn verify(
        &self,
        name: &str,
        password: Vec<u8>,
        ex: &Exchange,
        head: &RequestHead,
    ) -> Result<bool, Fault> {
        let (checks, key) = &*CHECKS;
        let client = KeySource::Client.hash(*key, ex, head);
        let place = checks.acquire(client, &ex.alarm).await.map_err(full)?;
        let hash = self.users.get(name).map(|(hash, _)| hash);
        let is_user = hash.is_some();
        let Some(hash) = hash.or(self.stand_in.as_ref()).cloned() else { return Ok(false) };
        let checked = kit::task::run_blocking(move || {
            let _place = place;
            hash.matches(&password)
        });
        let checked = checked.await;
        let checked =
            checked.ok_or_else(|| Fault::new(Kind::Internal, "a password check did not finish"))?;
        Ok(checked && is_user)
    }

    /// Returns true if this is the user's password. The verdict is cached.
    pub(crate) async fn has(
        &self,
        name: &str,
        password: Vec<u8>,
        ex: &Exchange,
        head: &RequestHead,
    ) -> Result<bool, Fault> {
        let digest = digest(name, &password);
        if let Some(right) = self.known(name, &password, &digest) {
            return Ok(right);
        }
        self.verify_and_remember(name, password, &digest, ex, head).await
    }

    pub(crate) async fn verify_and_remember(
        &self,
        name: &str,
        password: Vec<u8>,
        digest: &[u8; 32],
        ex: &Exchange,
        head: &RequestHead,
    ) -> Result<bool, Fault> {
        let right = self.verify(name, password, ex, head).await?;
        let known = if right {
            PasswordVerdict::Right
        } else {
            PasswordVerdict::Wrong(clock::wall().as_secs().saturating_add(WRONG_FOR))
        };
        KNOWN.with_borrow_mut(|memory| memory.put(self.number, digest, known, 64));
        Ok(right)
    }

    /// Returns the identity of a user.
    pub(crate) fn identity(&self, name: &str) -> Option<Arc<Identity>> {
        self.users.get(name).map(|(_, identity)| identity.clone())
    }
}

/// Returns the digest under which the verdict on a name and password is cached. The length of the name separates the two: either may
/// contain any character.
pub(crate) fn digest(name: &str, password: &[u8]) -> [u8; 32] {
    sha256(&[&name.len().to_be_bytes()[..], name.as_bytes(), password].concat())
}

/// Returns the fault: a client with too many checks gets 429, and others learn that the service is busy.
fn full(full: Full) -> Fault {
    let (kind, cause) = match full {
        Full::OfClient => {
            (Kind::RateLimited, "too many passwords of this client are waiting to be checked")
        }
        Full::OfAll => (Kind::Busy, "too many passwords are being checked"),
    };
    Fault::new(kind, cause).with_header("Retry-After", RETRY_AFTER)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_on_a_name_is_not_that_on_a_longer_one() {
        let pairs =
            [("a", "b:c"), ("a:b", "c"), ("a", "b\0c"), ("a\0b", "c"), ("", "abc"), ("abc", "")];
        let digests = pairs.map(|(name, password)| digest(name, password.as_bytes()));
        let different: std::collections::HashSet<_> = digests.into_iter().collect();
        assert_eq!(different.len(), pairs.len());
    }
}
