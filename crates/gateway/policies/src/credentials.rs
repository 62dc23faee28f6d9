//! Secrets of subjects, which are stored only as hashes.

use aws_lc_rs::digest::{self, SHA1_FOR_LEGACY_USE_ONLY, SHA256};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::hex;

/// A hashed secret.
#[derive(Clone, PartialEq, Eq)]
pub enum HashedSecret {
    Sha256([u8; 32]),
    /// `{SHA}` of htpasswd files.
    Sha1([u8; 20]),
    /// The salt, and the hash of the password followed by the salt: Kong's form.
    SaltedSha1(Box<[u8]>, [u8; 20]),
    /// `$2y$..`
    Bcrypt(String),
    /// `$argon2id$..`
    Argon2(String),
}

/// A subject with the hash of its key or password, and its attributes.
#[derive(Debug, Clone)]
pub struct Holder {
    /// The name that a client sends.
    pub name: String,
    pub subject: String,
    pub secret: HashedSecret,
    /// The plan of the subject.
    pub tier: Option<String>,
    /// The application that the secret was issued to.
    pub application: Option<String>,
    pub groups: Vec<String>,
    pub attributes: Vec<(String, String)>,
}

#[cfg(test)]
impl Holder {
    /// The holder of a secret for tests.
    pub(crate) fn alice(secret: &str) -> Holder {
        Holder {
            name: "alice".to_owned(),
            subject: "alice".to_owned(),
            secret: HashedSecret::read(secret).unwrap(),
            tier: None,
            application: None,
            groups: Vec::new(),
            attributes: Vec::new(),
        }
    }
}

/// The maximum bcrypt cost. A more expensive hash is refused when the configuration is loaded.
const BCRYPT_COST_MAX: u32 = 14;
/// The maximum memory cost of Argon2, in KiB.
const ARGON2_KIB_MAX: u32 = 256 * 1024;
/// The maximum time cost of Argon2, in passes over the memory.
const ARGON2_PASSES_MAX: u32 = 16;

impl HashedSecret {
    /// Reads a hash, or hashes a plain secret. Returns an error text for an invalid hash.
    pub fn read(text: &str) -> Result<HashedSecret, String> {
        if let Some(digits) = text.strip_prefix("sha256:") {
            // Harmless: a complaint says that it must be 64 digits.
            let bytes = hex::decoded(digits.as_bytes()).and_then(|bytes| bytes.try_into().ok());
            return bytes
                .map(HashedSecret::Sha256)
                .ok_or("`sha256:` is not followed by 64 hex digits".into());
        }
        if let Some(base64) = text.strip_prefix("{SHA}") {
            // Harmless: a complaint says that it must be the base64 of a hash.
            let bytes = STANDARD.decode(base64).ok().and_then(|bytes| bytes.try_into().ok());
            return bytes
                .map(HashedSecret::Sha1)
                .ok_or("`{SHA}` is not followed by the base64 of a hash".into());
        }
        if let Some((salt, digits)) =
            text.strip_prefix("sha1:").and_then(|rest| rest.rsplit_once(':'))
        {
            // Harmless: a complaint says that it must be 40 digits.
            let bytes = hex::decoded(digits.as_bytes()).and_then(|bytes| bytes.try_into().ok());
            let hash = bytes.map(|hash| HashedSecret::SaltedSha1(salt.as_bytes().into(), hash));
            return hash.ok_or("`sha1` is not `SALT:HEX` with 40 hex digits".into());
        }
        if text.starts_with("$2") {
            // Harmless: an invalid cost gets a complaint.
            let cost = text.split('$').nth(2).and_then(|cost| cost.parse::<u32>().ok());
            return match cost {
                Some(cost) if cost > BCRYPT_COST_MAX => {
                    Err(format!("the bcrypt cost {cost} exceeds {BCRYPT_COST_MAX}"))
                }
                // Only a trial verification shows whether the hash is valid. It takes the time that the cost determines.
                Some(_) if text.len() == 60 && bcrypt::verify("", text).is_ok() => {
                    Ok(HashedSecret::Bcrypt(text.to_owned()))
                }
                Some(_) | None => {
                    Err("it begins with `$2` like a bcrypt hash, but is not one".to_owned())
                }
            };
        }
        if text.starts_with("$argon2") {
            let hash = argon2::PasswordHash::new(text).map_err(|_| {
                "it begins with `$argon2` like an Argon2 hash, but is not one".to_owned()
            })?;
            for (name, max, what) in [
                ("m", ARGON2_KIB_MAX, "KiB of memory"),
                ("t", ARGON2_PASSES_MAX, "passes over the memory"),
            ] {
                match hash.params.get_decimal(name) {
                    Some(needed) if needed <= max => {}
                    Some(_) => return Err(format!("the Argon2 hash needs more than {max} {what}")),
                    None => return Err(format!("the Argon2 hash lacks its parameter `{name}`")),
                }
            }
            return Ok(HashedSecret::Argon2(text.to_owned()));
        }
        if text.starts_with("$apr1$") || text.starts_with("$5$") || text.starts_with("$6$") {
            return Err("this kind of hash is not supported".to_owned());
        }
        Ok(HashedSecret::Sha256(sha256(text.as_bytes())))
    }

    /// Returns the digest, for secrets that can be looked up by digest.
    pub(crate) fn digest(&self) -> Option<[u8; 32]> {
        match self {
            HashedSecret::Sha256(digest) => Some(*digest),
            HashedSecret::Sha1(_)
            | HashedSecret::SaltedSha1(..)
            | HashedSecret::Bcrypt(_)
            | HashedSecret::Argon2(_) => None,
        }
    }

    /// Returns true for a hash that is slow by design. A check takes milliseconds or more.
    pub fn is_slow(&self) -> bool {
        matches!(self, HashedSecret::Bcrypt(_) | HashedSecret::Argon2(_))
    }

    /// Returns true if this is the hash of the secret.
    pub fn matches(&self, secret: &[u8]) -> bool {
        match self {
            HashedSecret::Sha256(hash) => equal(hash, &sha256(secret)),
            HashedSecret::Sha1(hash) => {
                equal(hash, digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, secret).as_ref())
            }
            HashedSecret::SaltedSha1(salt, hash) => {
                let salted = [secret, salt].concat();
                equal(hash, digest::digest(&SHA1_FOR_LEGACY_USE_ONLY, &salted).as_ref())
            }
            HashedSecret::Bcrypt(hash) => bcrypt::verify(secret, hash).unwrap_or(false),
            HashedSecret::Argon2(hash) => {
                use argon2::PasswordVerifier as _;
                let hash = argon2::PasswordHash::new(hash);
                hash.is_ok_and(|hash| {
                    argon2::Argon2::default().verify_password(secret, &hash).is_ok()
                })
            }
        }
    }
}

impl std::fmt::Debug for HashedSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Hashed")
    }
}

pub(crate) fn sha256(bytes: &[u8]) -> [u8; 32] {
    // Harmless: a SHA-256 has 32 bytes.
    digest::digest(&SHA256, bytes).as_ref().try_into().unwrap_or_default()
}

/// Compares in constant time.
fn equal(one: &[u8], other: &[u8]) -> bool {
    aws_lc_rs::constant_time::verify_slices_are_equal(one, other).is_ok()
}
