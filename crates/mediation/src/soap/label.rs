//! The labels in the head of a request that a service may go by: its coding, its charset, its version.
//!
//! Owns the refusal of false labels. The facts about the message come from its readers.

use message::Headers;

use super::Version;
use crate::{Rejection, charset, content_coding};

/// A message is read as it came, so that it is in no coding, whatever its head says.
pub(super) fn coding(headers: &Headers) -> Result<(), Rejection> {
    match content_coding::named(headers) {
        None => Ok(()),
        Some(name) => {
            Err(Rejection::client(format!("Content-encoding of type '{name}' is not supported")))
        }
    }
}

/// Checks the content type against a valid message, and against the version of its envelope if there is one.
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

/// RFC 3902 has this type for SOAP 1.2 alone.
const OF_12: &str =
    "Found a SOAP 1.1 envelope and the 'Content-Type' 'application/soap+xml' of SOAP 1.2";

/// SOAP 1.1 (section 6) has this type, and SOAP 1.2 another.
const OF_11: &str = "Found a SOAP 1.2 envelope and the 'Content-Type' 'text/xml' of SOAP 1.1";
