//! Tokens that were revoked before they expired.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The maximum number of revoked tokens. If the list is full, the entries of expired tokens are dropped, since those are refused anyway.
pub const REVOKED_MAX: usize = 100_000;

/// The maximum length of a `jti`, in bytes.
pub const TOKEN_ID_BYTES_MAX: usize = 512;

/// The ids (`jti`) of tokens that are refused until they expire. The process has one such list, which outlives plans.
#[derive(Debug, Default)]
pub struct RevokedTokens {
    /// The ids with the expiry of each token, in seconds since the Unix epoch.
    until: RwLock<HashMap<Box<str>, u64>>,
    /// Grows with every change, so that caches of accepted tokens check them again.
    changes: AtomicU64,
}

/// The list is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl RevokedTokens {
    /// Revokes a token until `until`.
    pub fn add(&self, id: &str, until: u64, now: u64) -> Result<(), Full> {
        let mut all = self.write();
        if all.len() >= REVOKED_MAX && !all.contains_key(id) {
            all.retain(|_, until| *until > now);
            if all.len() >= REVOKED_MAX {
                return Err(Full);
            }
        }
        all.insert(id.into(), until);
        self.changes.fetch_add(1, Ordering::Release);
        Ok(())
    }

    /// Accepts a token again. Returns false if it was not revoked.
    pub fn remove(&self, id: &str) -> bool {
        let removed = self.write().remove(id).is_some();
        // Caches of refused tokens must drop this one.
        self.changes.fetch_add(1, Ordering::Release);
        removed
    }

    /// Returns true if a token is revoked. Called once for each token and change of the list.
    pub fn contains(&self, id: &str, now: u64) -> bool {
        self.read().get(id).is_some_and(|until| *until > now)
    }

    /// Returns a number that changes with the list.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Returns all revoked tokens with their expiry, ordered by id.
    pub fn all(&self, now: u64) -> Vec<(String, u64)> {
        let all = self.read();
        let current = all.iter().filter(|(_, until)| **until > now);
        let mut current: Vec<_> = current.map(|(id, until)| (id.to_string(), *until)).collect();
        current.sort();
        current
    }

    /// Locks the map for reading. A poisoned lock is ignored: every change is a single call, so the map is consistent even if a thread
    /// panicked.
    fn read(&self) -> RwLockReadGuard<'_, HashMap<Box<str>, u64>> {
        self.until.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, HashMap<Box<str>, u64>> {
        self.until.write().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_refused_until_it_expires() {
        let revoked = RevokedTokens::default();
        let before = revoked.changes();
        revoked.add("a", 100, 0).unwrap();
        assert!(revoked.changes() > before);
        assert!(
            revoked.contains("a", 99) && !revoked.contains("a", 100) && !revoked.contains("b", 0)
        );
        assert_eq!(revoked.all(99), [("a".to_owned(), 100)]);
        assert!(revoked.all(100).is_empty());
        assert!(revoked.remove("a") && !revoked.remove("a") && !revoked.contains("a", 0));
    }

    #[test]
    fn expired_entries_make_room() {
        let revoked = RevokedTokens::default();
        for number in 0..REVOKED_MAX {
            revoked.add(&number.to_string(), 10, 0).unwrap();
        }
        assert_eq!(revoked.add("one more", 10, 9), Err(Full));
        assert_eq!(revoked.add("0", 20, 9), Ok(()), "an id that is in the list already");
        assert_eq!(revoked.add("one more", 20, 10), Ok(()));
        assert_eq!(revoked.all(10).len(), 2);
    }
}
