//! What leads from credentials to applications: digests, so that a look-up reads no text.

use policy::ApplicationKey;

use crate::credentials::sha256;

/// What a consumer key leads to.
pub fn consumer_key(text: &str) -> ApplicationKey {
    ApplicationKey(digest("consumer key", text))
}

/// What the name of an application leads to, for credentials that are given to it by name.
pub fn application_name(name: &str) -> ApplicationKey {
    ApplicationKey(digest("application", name))
}

/// The digest of a text of some kind.
pub(crate) fn digest(kind: &str, text: &str) -> [u8; 16] {
    let whole = sha256(&[kind.as_bytes(), b":", text.as_bytes()].concat());
    let mut half = [0; 16];
    // Harmless: the first half of the hash tells them apart.
    half.iter_mut().zip(whole).for_each(|(half, byte)| *half = byte);
    half
}
