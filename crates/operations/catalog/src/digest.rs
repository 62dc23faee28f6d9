//! Digests of texts: of names in the store's keys, and of tokens that are stored.

use aws_lc_rs::digest;

/// The SHA-256 of a text, in hexadecimal digits.
pub(crate) fn sha256(text: &str) -> String {
    kit::hex::encoded(digest::digest(&digest::SHA256, text.as_bytes()).as_ref())
}
