//! The parsed form of a body, by the format of its content type.

use std::sync::Arc;

use bytes::Bytes;
use expression::JsonText;
use mediation::{charset, form};
use telemetry::parses;
use xml::Document;

use crate::soap::Envelope;

/// Maximum nesting of objects and arrays in JSON.
const JSON_DEPTH_MAX: usize = 512;

/// Maximum number of values in one JSON text. They take 40 MB of tape, and their text has at least 4 MB.
const JSON_ENTRIES_MAX: usize = 2_000_000;

/// The parsed form of a body.
#[derive(Debug, Clone)]
pub(crate) enum View {
    Empty,
    Xml {
        document: Arc<Document>,
        envelope: Option<Envelope>,
    },
    Json(Arc<JsonText>),
    Text(Arc<str>),
    /// None of these, and not text.
    Bytes,
}

/// The format of a content type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    Xml,
    Json,
    Other,
}

impl Format {
    pub(crate) fn of(content_type: Option<&[u8]>) -> Format {
        // Harmless: a message may have no type.
        let media_type = message::media_type(content_type.unwrap_or_default());
        let is = |name: &str| media_type.eq_ignore_ascii_case(name.as_bytes());
        let suffix = media_type.get(media_type.len().saturating_sub(b"+xml".len())..);
        let is_xml = is("text/xml")
            || is("application/xml")
            || suffix.is_some_and(|suffix| suffix.eq_ignore_ascii_case(b"+xml"));
        match (is_xml, !is_xml && message::is_json(media_type)) {
            (true, _) => Format::Xml,
            (false, true) => Format::Json,
            (false, false) => Format::Other,
        }
    }
}

/// Parses a body by the format of its content type.
pub(crate) fn read(
    format: Format,
    content_type: &[u8],
    bytes: &Bytes,
    levels: Option<usize>,
    refuses_duplicate_members: bool,
) -> Result<View, Box<str>> {
    match format {
        Format::Xml => {
            let settled = charset::to_utf8(Some(content_type), bytes)?;
            let bytes = settled.as_deref().unwrap_or(bytes);
            parses::count(parses::Format::Xml);
            let document = match levels {
                // An envelope is recognised by its children.
                Some(levels) => expression::parse_levels(bytes, levels.max(Envelope::LEVELS)),
                None => Document::parse(bytes, &xml::Options::default()),
            };
            // A document is a large value, so it is moved only once.
            let document = match document {
                Ok(document) => Arc::new(document),
                Err(error) => return Err(error.to_string().into_boxed_str()),
            };
            let envelope = Envelope::of(&document);
            Ok(View::Xml { document, envelope })
        }
        Format::Json => {
            let text = std::str::from_utf8(bytes).map_err(|_| "not UTF-8 text")?;
            parses::count(parses::Format::Json);
            // A byte order mark may be ignored (RFC 8259, 8.1).
            let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
            Ok(View::Json(read_json(text, refuses_duplicate_members)?))
        }
        Format::Other => text(content_type, bytes),
    }
}

/// Reads a body as text or bytes. A text in an unsupported charset is an error, because as bytes it would be read as UTF-8.
fn text(content_type: &[u8], bytes: &[u8]) -> Result<View, Box<str>> {
    if let Some(text) = form::text_of(Some(content_type), bytes) {
        return Ok(View::Text((&*text).into()));
    }
    match charset::misread(content_type, bytes) {
        Some(why) => Err(why.into()),
        None => Ok(View::Bytes),
    }
}

/// Reads a body without a content type as text or bytes.
pub(crate) fn unlabelled(bytes: &[u8]) -> View {
    // Harmless: what is not UTF-8 is bytes.
    std::str::from_utf8(bytes).map_or(View::Bytes, |text| View::Text(text.into()))
}

pub(crate) fn begins_as_json(text: &str) -> bool {
    text.trim_start_matches(['\u{FEFF}', ' ', '\t', '\r', '\n']).starts_with(['{', '['])
}

/// Parses a JSON text, within the limits of messages. With `refuses_duplicate_members`, a duplicate member in an object is an error.
pub(crate) fn read_json(
    text: &str,
    refuses_duplicate_members: bool,
) -> Result<Arc<JsonText>, Box<str>> {
    let limits = json::Limits { depth_max: JSON_DEPTH_MAX, entries_max: JSON_ENTRIES_MAX };
    let read = JsonText::read(text.to_owned(), &limits).map_err(|malformed| -> Box<str> {
        format!("at byte {}: expected {}", malformed.at, malformed.what).into()
    })?;
    match refuses_duplicate_members.then(|| read.duplicate_member()).flatten() {
        None => Ok(read),
        Some(object) => {
            Err(format!("{}: an object has a duplicate member", read.location(object)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_says_the_format() {
        for (content_type, format) in [
            ("text/xml", Format::Xml),
            ("Application/SOAP+xml; charset=utf-8", Format::Xml),
            ("application/problem+json", Format::Json),
            ("text/plain", Format::Other),
            ("", Format::Other),
        ] {
            assert_eq!(Format::of(Some(content_type.as_bytes())), format, "{content_type}");
        }
    }
}
