//! Secrets of clients: made here, shown once, kept as Argon2 hashes, and checked off the runtime's thread.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use argon2::{Argon2, PasswordHasher as _};
use aws_lc_rs::{constant_time, digest as aws_digest, hmac, rand};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use policies::credentials::HashedSecret;
use tokio::sync::Semaphore;

use crate::http::Refusal;

/// Checks at once: each takes 19 MiB and a core for some tens of milliseconds.
const CHECKS_MAX: usize = 2;

/// Checks that wait. More are refused.
const WAITING_MAX: usize = 64;

/// The most right secrets that are remembered.
const KNOWN_MAX: usize = 100_000;

/// The checks of secrets.
pub(crate) struct Secrets {
    places: Semaphore,
    waiting: Semaphore,
    /// A keyed digest of the right secret, by the hash that it fits.
    known: Mutex<HashMap<String, hmac::Tag>>,
    key: hmac::Key,
}

/// Too many checks wait.
#[derive(Debug)]
pub(crate) struct Busy;

/// An identifier in the form of a UUID: unique, not secret.
pub(crate) fn uuid() -> String {
    let hex = format!("{:032x}", fastrand::u128(..));
    // Harmless: the text has 32 digits.
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default().to_owned();
    // RFC 9562: version 4, variant 10.
    let (version, variant) = (part(13, 16), part(17, 20));
    format!("{}-{}-4{version}-a{variant}-{}", part(0, 8), part(8, 12), part(20, 32))
}

/// A secret of 256 random bits.
pub(crate) fn secret() -> Result<String, Refusal> {
    let bytes: [u8; 32] = random().ok_or_else(|| Refusal::internal("no random numbers"))?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    // Harmless: without random numbers the callers refuse.
    rand::fill(&mut bytes).ok()?;
    Some(bytes)
}

/// The SHA-256 of a text, in hex digits.
pub(crate) fn digest(text: &str) -> String {
    let digest = aws_digest::digest(&aws_digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Compares two texts in constant time.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    constant_time::verify_slices_are_equal(one.as_bytes(), other.as_bytes()).is_ok()
}

/// The hash of a new secret.
pub(crate) async fn hash(secret: &str) -> Result<String, Refusal> {
    let secret = secret.to_owned();
    let hashed = kit::task::beside(move || {
        let salt: [u8; 16] = random()?;
        let hashed = Argon2::default().hash_password_with_salt(secret.as_bytes(), &salt);
        // Harmless: the caller says that nothing was made.
        hashed.map(|hash| hash.to_string()).ok()
    });
    // Harmless: a missing hash is reported.
    hashed.await.flatten().ok_or_else(|| Refusal::internal("a secret cannot be hashed"))
}

impl Secrets {
    /// None: the system has no random numbers.
    pub(crate) fn new() -> Option<Secrets> {
        let key = random::<32>()?;
        Some(Secrets {
            places: Semaphore::new(CHECKS_MAX),
            waiting: Semaphore::new(WAITING_MAX),
            known: Mutex::default(),
            key: hmac::Key::new(hmac::HMAC_SHA256, &key),
        })
    }

    /// True if a secret fits a hash.
    pub(crate) async fn is_right(&self, hash: &str, secret: &str) -> Result<bool, Busy> {
        if let Some(tag) = self.lock().get(hash).copied() {
            // No other secret that fits the same hash can be found.
            return Ok(hmac::verify(&self.key, secret.as_bytes(), tag.as_ref()).is_ok());
        }
        let _waiting = self.waiting.try_acquire().map_err(|_| Busy)?;
        let _place = self.places.acquire().await.map_err(|_| Busy)?;
        let (kept, tried) = (hash.to_owned(), secret.to_owned());
        let checked = kit::task::beside(move || {
            HashedSecret::read(&kept).is_ok_and(|kept| kept.is_of(tried.as_bytes()))
        });
        // Harmless: a check that did not end finds no right secret.
        let is_right = checked.await.unwrap_or_default();
        if is_right {
            let mut known = self.lock();
            if known.len() >= KNOWN_MAX {
                known.clear();
            }
            known.insert(hash.to_owned(), hmac::sign(&self.key, secret.as_bytes()));
        }
        Ok(is_right)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, hmac::Tag>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
