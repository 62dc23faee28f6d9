//! Secrets of clients: generated, shown once, stored as Argon2 hashes, and checked on other threads.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use argon2::{Argon2, PasswordHasher as _};
use aws_lc_rs::{constant_time, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use policies::credentials::HashedSecret;
use tokio::sync::Semaphore;

use crate::http::Refusal;

/// The limit of concurrent checks. Each takes 19 MiB and a core for some tens of milliseconds.
const CHECKS_MAX: usize = 2;

/// The limit of waiting checks. Further ones are refused.
const WAITING_MAX: usize = 64;

/// The limit of correct secrets that are cached.
const KNOWN_MAX: usize = 100_000;

/// Checks secrets, and caches correct ones.
pub(crate) struct Secrets {
    places: Semaphore,
    waiting: Semaphore,
    /// Cached correct secrets: keyed digests of the hash and of the secret. A changed secret has another hash, so its old entry
    /// is never found.
    known: Mutex<HashMap<Mark, Mark>>,
    key: hmac::Key,
}

/// A keyed digest.
type Mark = [u8; 32];

/// The error if too many checks are waiting.
#[derive(Debug)]
pub(crate) struct Busy;

/// A secret of 256 random bits.
pub(crate) fn secret() -> Result<String, Refusal> {
    let bytes: [u8; 32] = random().ok_or_else(|| Refusal::internal("no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // Harmless: without random numbers, the callers refuse.
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Compares two texts in constant time.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// The hash of a new secret.
pub(crate) async fn hash(secret: &str) -> Result<String, Refusal> {
    let secret = secret.to_owned();
    let hashed = kit::task::run_blocking(move || {
        let salt: [u8; 16] = random()?;
        let hashed = Argon2::default().hash_password_with_salt(secret.as_bytes(), &salt);
        // Harmless: the caller reports the failure.
        hashed.map(|hash| hash.to_string()).ok()
    });
    // Harmless: a missing hash is reported.
    hashed.await.flatten().ok_or_else(|| Refusal::internal("a secret cannot be hashed"))
}

impl Secrets {
    /// Creates an empty cache with a random key. None if the system has no random numbers.
    pub(crate) fn new() -> Option<Secrets> {
        let key = random::<32>()?;
        Some(Secrets {
            places: Semaphore::new(CHECKS_MAX),
            waiting: Semaphore::new(WAITING_MAX),
            known: Mutex::default(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        })
    }

    /// True if a secret matches a hash.
    pub(crate) async fn is_right(&self, hash: &str, secret: &str) -> Result<bool, Busy> {
        let (of_hash, of_secret) = (self.mark(hash), self.mark(secret));
        if let Some(known) = self.lock().get(&of_hash) {
            // Any other secret is wrong: nobody can find a second one with the same hash.
            return Ok(constant_time::verify_slices_are_equal(known, &of_secret).is_ok());
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| Busy)?;
        let _place = self.places.acquire().await.map_err(|_| Busy)?;
        let (kept, tried) = (hash.to_owned(), secret.to_owned());
        let checked = kit::task::run_blocking(move || {
            HashedSecret::read(&kept).is_ok_and(|kept| kept.matches(tried.as_bytes()))
        });
        // Harmless: a failed check counts as a wrong secret.
        let is_right = checked.await.unwrap_or_default();
        if is_right {
            let mut known = self.lock();
            if known.len() >= KNOWN_MAX {
                // Removes an arbitrary quarter. If all entries were removed, all secrets would have to be checked again at once.
                let mut left = KNOWN_MAX / 4;
                known.retain(|_, _| {
                    left = left.saturating_sub(1);
                    left == 0
                });
            }
            known.insert(of_hash, of_secret);
        }
        Ok(is_right)
    }

    fn mark(&self, text: &str) -> Mark {
        let tag = hmac::sign(&self.key, text.as_bytes());
        // Harmless: HMAC-SHA256 has 32 bytes.
        tag.as_ref().first_chunk().copied().unwrap_or_default()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<Mark, Mark>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_correct_secret_is_cached_only_for_its_hash_and_the_cache_is_bounded() {
        let secrets = Secrets::new().unwrap();
        let (old, new) = (hash("old").await.unwrap(), hash("new").await.unwrap());
        for _ in 0..2 {
            assert!(secrets.is_right(&old, "old").await.unwrap());
            assert!(!secrets.is_right(&old, "new").await.unwrap());
        }
        assert_eq!(secrets.lock().len(), 1);
        // The secret was changed: the old one does not match the new hash.
        assert!(!secrets.is_right(&new, "old").await.unwrap());
        assert!(secrets.is_right(&new, "new").await.unwrap());
        for number in 0..KNOWN_MAX {
            secrets.lock().insert(secrets.mark(&number.to_string()), [0; 32]);
        }
        let third = hash("third").await.unwrap();
        assert!(secrets.is_right(&third, "third").await.unwrap());
        let known = secrets.lock();
        assert!((KNOWN_MAX / 2..KNOWN_MAX).contains(&known.len()), "{}", known.len());
        assert!(known.contains_key(&secrets.mark(&third)));
        assert!(known.capacity() * (size_of::<(Mark, Mark)>() + 1) <= 16 << 20);
    }
}
