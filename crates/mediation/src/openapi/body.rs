//! A body: its content type, its reading, its schema.

use std::borrow::Cow;

use message::{GatheredBody, Headers};

use super::model::Content;
use super::parameter;
use crate::charset;
use crate::json_schema::{Document, Unreadable, malformed};
use crate::parsed::{self, JSON_LIMITS};

/// The result of checking a body.
pub(super) enum BodyCheck {
    Good,
    /// The fault of a content type or a coding that the document does not have.
    OtherType(String),
    Wrong(Vec<String>),
}

/// True if a body of this content type has to be read to its end: to be validated, or to know if there is one at all where the
/// type is not described.
pub(super) fn is_read(content: &[Content], headers: &Headers) -> bool {
    let media_type = media_type(content, headers);
    let Some(content) = best(content, &media_type) else { return true };
    let is_validated = content.schema.is_some() && is_validated(&media_type);
    is_validated || is_json(&media_type) || is_coded(headers)
}

/// The described content type that fits best.
fn best<'c>(content: &'c [Content], media_type: &str) -> Option<&'c Content> {
    // A body without a type is bytes to its recipient (RFC 9110, 8.3).
    let media_type = if media_type.is_empty() { "application/octet-stream" } else { media_type };
    let fitting = content.iter().map(|content| (content.range.fits(media_type), content));
    let best = fitting.filter(|(fits, _)| *fits > 0).max_by_key(|(fits, _)| *fits);
    best.map(|(_, content)| content)
}

fn is_coded(headers: &Headers) -> bool {
    headers
        .get_all("content-encoding")
        .any(|coding| !coding.trim_ascii().eq_ignore_ascii_case(b"identity"))
}

/// Validates a body against the described content types. `shown`: faults may quote it.
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

/// Anything passes that says one thing to all its readers.
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

/// A body that is JSON, on the tape that somebody may have read before.
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

/// The document that is validated; none if the content type cannot be read.
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

/// A text in the charset that it declares, if that can be read.
fn plain_text<'a>(headers: &Headers, bytes: &'a [u8]) -> Result<Cow<'a, str>, String> {
    let told = headers.get("content-type").and_then(charset::charset);
    charset::text(told, bytes).ok_or_else(|| match told {
        None => "/: the body is not UTF-8 text".to_owned(),
        Some(told) => format!("/: the body is not text in the charset '{}'", told.escape_ascii()),
    })
}

/// In lower case, without its parameters. Mostly it is written as it is described.
fn media_type<'a>(described: &'a [Content], headers: &'a Headers) -> Cow<'a, str> {
    let value = headers.get("content-type").unwrap_or(b"");
    if let Some(same) = described.iter().find(|content| content.range.0.as_bytes() == value) {
        return Cow::Borrowed(&same.range.0);
    }
    let value = message::media_type(value);
    match std::str::from_utf8(value) {
        Ok(text) if !text.bytes().any(|b| b.is_ascii_uppercase()) => Cow::Borrowed(text),
        // Harmless: no media type has other bytes.
        _ => Cow::Owned(String::from_utf8_lossy(&value.to_ascii_lowercase()).into_owned()),
    }
}

/// True for content types that [`read`] reads.
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
