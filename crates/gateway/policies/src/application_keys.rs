//! Computes the keys by which credentials are mapped to applications. They are digests, so that a look-up does not compare texts.

use policy::ApplicationKey;

use crate::credentials::sha256;

/// Returns the application key for a consumer key.
pub fn consumer_key(text: &str) -> ApplicationKey {
    ApplicationKey(digest("consumer key", text))
}

/// Returns the application key for the name of an application, for credentials that are assigned by name.
pub fn application_name(name: &str) -> ApplicationKey {
    ApplicationKey(digest("application", name))
}

/// Returns the digest of a text and its kind. Equal texts of different kinds have different digests.
pub(crate) fn digest(kind: &str, text: &str) -> [u8; 16] {
    let whole = sha256(&[kind.as_bytes(), b":", text.as_bytes()].concat());
    let mut half = [0; 16];
    // Harmless: half of the hash is enough to avoid collisions.
    half.iter_mut().zip(whole).for_each(|(half, byte)| *half = byte);
    half
}
