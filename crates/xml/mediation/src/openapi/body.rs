//! Validation of a body: its content type, its parsing, its schema.

use std::borrow::Cow;

use message::{GatheredBody, Headers};

use super::model::Content;
use super::parameter;
use crate::charset;
use crate::content_coding::is_coded;
use crate::json_schema::{Document, Unreadable, malformed};
use crate::parsed::{self, JSON_LIMITS};

/// The result of checking a body.
pub(super) enum BodyCheck {
    Good,
    /// The content type or the coding is not described in the document.
    OtherType(String),
    Wrong(Vec<String>),
}

/// Returns true if a body with these header lines has to be read to its end: to validate it, or to find out whether there is a body that
/// has to be refused, because its type is not described or because it is compressed.
pub(super) fn is_read(content: &[Content], headers: &Headers) -> bool {
    let media_type = media_type(content, headers);
    let Some(content) = best(content, &media_type) else { return true };
    let is_validated = content.schema.is_some() && is_validated(&media_type);
    is_validated || is_json(&media_type) || is_coded(headers)
}

/// Returns the described content type that matches best.
fn best<'c>(content: &'c [Content], media_type: &str) -> Option<&'c Content> {
    // A recipient treats a body without a content type as bytes (RFC 9110, 8.3).
    let media_type = if media_type.is_empty() { "application/octet-stream" } else { media_type };
    let fitting = content.iter().map(|content| (content.range.fits(media_type), content));
    let best = fitting.filter(|(fits, _)| *fits > 0).max_by_key(|(fits, _)| *fits);
    best.map(|(_, content)| content)
}

/// Validates a body against the described content types. `shown`: faults may quote the body.
pub(super) fn check(
    content: &[Content],
    headers: &Headers,
    body: &mut GatheredBody,
    shown: bool,
    max: usize,
) -> BodyCheck {
    let media_type = media_type(content, headers);
    let Some(content) = best(content, &media_type) else {
        return BodyCheck::OtherType(not_described(&media_type));
    };
    if is_coded(headers) {
        return BodyCheck::OtherType("/: the body is compressed".to_owned());
    }
    let bytes = body.bytes.clone();
    let Some(schema) = &content.schema else { return without_schema(&media_type, body, &bytes) };
    let document = match read(&media_type, content, headers, body, &bytes) {
        Ok(Some(document)) => document,
        Ok(None) => return BodyCheck::Good,
        Err(fault) => return BodyCheck::Wrong(vec![fault]),
    };
    let checked = if schema.allows(&document) {
        BodyCheck::Good
    } else {
        BodyCheck::Wrong(schema.refusal(&document, shown, max))
    };
    if is_json(&media_type) {
        body.keep_tape(document.into_tape());
    }
    checked
}

fn not_described(media_type: &str) -> String {
    match media_type {
        "" => "/: there is no `Content-Type`".to_owned(),
        other => format!("/: the content type `{other}` is not described"),
    }
}

/// Checks a body that has no schema. It passes unless parsers could read it differently.
fn without_schema(media_type: &str, body: &mut GatheredBody, bytes: &[u8]) -> BodyCheck {
    match is_json(media_type).then(|| document(body, bytes)) {
        Some(Err(twice @ Unreadable::Twice { .. })) => BodyCheck::Wrong(vec![unreadable(twice)]),
        Some(Ok(document)) => {
            body.keep_tape(document.into_tape());
            BodyCheck::Good
        }
        Some(Err(Unreadable::Malformed { .. })) | None => BodyCheck::Good,
    }
}

/// Parses a JSON body, or uses the tape of an earlier step.
fn document<'a>(body: &mut GatheredBody, bytes: &'a [u8]) -> Result<Document<'a>, Unreadable> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Err(malformed(bytes)) };
    match parsed::tape(body, text, &JSON_LIMITS) {
        Ok(tape) => Document::on(text, tape),
        Err(_) => Err(malformed(bytes)),
    }
}

fn unreadable(why: Unreadable) -> String {
    format!("/: {why}")
}

/// Parses the value to validate, or returns `None` if the content type cannot be parsed.
fn read<'a>(
    media_type: &str,
    content: &Content,
    headers: &Headers,
    body: &mut GatheredBody,
    bytes: &'a [u8],
) -> Result<Option<Document<'a>>, String> {
    if is_json(media_type) {
        document(body, bytes).map(Some).map_err(unreadable)
    } else if is_form(media_type) {
        parameter::form(&content.form, bytes).map(|form| Some(form.document()))
    } else if is_plain(media_type) {
        plain_text(headers, bytes).map(|text| Some(Document::string(text)))
    } else {
        Ok(None)
    }
}

/// Decodes a text in the charset that its content type declares.
fn plain_text<'a>(headers: &Headers, bytes: &'a [u8]) -> Result<Cow<'a, str>, String> {
    let told = headers.get("content-type").and_then(charset::charset);
    charset::text(told, bytes).ok_or_else(|| match told {
        None => "/: the body is not UTF-8 text".to_owned(),
        Some(told) => format!("/: the body is not text in the charset '{}'", told.escape_ascii()),
    })
}

/// Returns the media type in lower case, without parameters. Fast path: most requests write it as the document does.
fn media_type<'a>(described: &'a [Content], headers: &'a Headers) -> Cow<'a, str> {
    let value = headers.get("content-type").unwrap_or(b"");
    if let Some(same) = described.iter().find(|content| content.range.0.as_bytes() == value) {
        return Cow::Borrowed(&same.range.0);
    }
    let value = message::media_type(value);
    match std::str::from_utf8(value) {
        Ok(text) if !text.bytes().any(|b| b.is_ascii_uppercase()) => Cow::Borrowed(text),
        // Harmless: a media type that is not UTF-8 matches no described one.
        _ => Cow::Owned(String::from_utf8_lossy(&value.to_ascii_lowercase()).into_owned()),
    }
}

/// Returns true for content types that [`read`] parses.
fn is_validated(media_type: &str) -> bool {
    is_json(media_type) || is_form(media_type) || is_plain(media_type)
}

fn is_form(media_type: &str) -> bool {
    media_type == "application/x-www-form-urlencoded"
}

fn is_plain(media_type: &str) -> bool {
    media_type.starts_with("text/plain")
}

fn is_json(media_type: &str) -> bool {
    message::is_json(media_type.as_bytes()) || media_type == "text/json"
}
