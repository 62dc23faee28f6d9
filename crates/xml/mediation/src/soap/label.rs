//! Labels in the head of a request that a service may rely on: content coding, charset, and SOAP version.
//!
//! Owns the refusal of false labels. The facts about the message come from the code that parsed it.

use message::Headers;

use super::Version;
use crate::{Rejection, charset, content_coding};

/// Refuses a message with a content coding. The message was parsed without decoding, so the label is false.
pub(super) fn coding(headers: &Headers) -> Result<(), Rejection> {
    match content_coding::named(headers) {
        None => Ok(()),
        Some(name) => {
            Err(Rejection::client(format!("Content-encoding of type '{name}' is not supported")))
        }
    }
}

/// Checks the content type against a valid message, and against the version of its envelope if it has one.
pub(super) fn content_type(
    headers: &Headers,
    message: &[u8],
    version: Option<Version>,
) -> Result<(), Rejection> {
    if let Some(charset) = charset::contradicted(headers.get_all("content-type"), message) {
        return Err(Rejection::client(format!(
            "Invalid XML input. The 'charset' of the 'Content-Type' is '{charset}', and the message is not"
        )));
    }
    for content_type in headers.get_all("content-type") {
        let media = message::media_type(content_type);
        let is_11 = media.eq_ignore_ascii_case(b"text/xml");
        let is_12 = media.eq_ignore_ascii_case(b"application/soap+xml");
        match version {
            Some(Version::V11) if is_12 => return Err(Rejection::client(OF_12)),
            Some(Version::V12) if is_11 => return Err(Rejection::client(OF_11)),
            Some(Version::V11 | Version::V12) | None => {}
        }
    }
    Ok(())
}

/// RFC 3902 defines this type for SOAP 1.2 only.
const OF_12: &str =
    "Found a SOAP 1.1 envelope and the 'Content-Type' 'application/soap+xml' of SOAP 1.2";

/// SOAP 1.1 (section 6) uses this type; SOAP 1.2 uses another.
const OF_11: &str = "Found a SOAP 1.2 envelope and the 'Content-Type' 'text/xml' of SOAP 1.1";
