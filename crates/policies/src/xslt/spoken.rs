//! The client's message format, noted before a stylesheet makes another message of what it sent.
//!
//! Behind the stylesheet an envelope no longer says it: it may be of another version, or of what came as JSON.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use policy::{Exchange, MessageFormat};

use wsdl::{SOAP_11, SOAP_12};

/// The root's start tag is among these, or not looked for.
const LOOKED_BYTES_MAX: usize = 1 << 10;

static OF_11: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(SOAP_11));
static OF_12: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(SOAP_12));

/// The format that the message itself tells; nothing where nobody would ask, because nothing is noted of how clients speak.
pub(super) fn heard(ex: &Exchange, message: &[u8]) -> Option<MessageFormat> {
    let notes = ex.notes.as_ref()?;
    match notes.translated {
        true => notes.message_format,
        false => notes
            .message_format
            .map(|message_format| of_envelope(message).unwrap_or(message_format)),
    }
}

/// Notes it, once the message became another.
pub(super) fn note(ex: &mut Exchange, message_format: Option<MessageFormat>) {
    if let (Some(notes), Some(message_format)) = (ex.notes.as_mut(), message_format) {
        notes.message_format = Some(message_format);
        notes.translated = true;
    }
}

/// By the namespace of an envelope, which says better than the head how the client speaks.
fn of_envelope(message: &[u8]) -> Option<MessageFormat> {
    let looked = message.get(..LOOKED_BYTES_MAX).unwrap_or(message);
    if looked.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'[')) {
        return None;
    }
    // Not of a declaration or a comment: those go on with `?` and `!`.
    let begins = |two: &[u8]| matches!(two, [b'<', next] if !matches!(next, b'?' | b'!'));
    let tag = looked.get(looked.windows(2).position(begins)? + 1..)?;
    let tag = tag.split(|byte| *byte == b'>').next()?;
    let name = tag.split(u8::is_ascii_whitespace).next()?;
    let prefix = name.strip_suffix(b"Envelope")?.strip_suffix(b":");
    let declares = |uri: &Finder<'_>| {
        uri.find_iter(tag).any(|at| {
            let behind = tag.get(at + uri.needle().len());
            let ends = behind.is_some_and(|byte| matches!(byte, b'"' | b'\''));
            let before = tag.get(..at).filter(|_| ends).unwrap_or_default();
            let name = before.strip_suffix(b"\"").or(before.strip_suffix(b"'"));
            let name = name.and_then(|name| name.trim_ascii_end().strip_suffix(b"="));
            let name = name.map(<[u8]>::trim_ascii_end).unwrap_or_default();
            match prefix {
                Some(prefix) => {
                    name.strip_suffix(prefix).is_some_and(|rest| rest.ends_with(b"xmlns:"))
                }
                None => name.ends_with(b"xmlns"),
            }
        })
    };
    match (declares(&OF_11), declares(&OF_12)) {
        (true, false) => Some(MessageFormat::Soap11),
        (false, true) => Some(MessageFormat::Soap12),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_envelope_says_its_version() {
        for (message, message_format) in [
            (
                format!("<?xml version='1.0'?>\n<s:Envelope xmlns:s=\"{SOAP_12}\">"),
                Some(MessageFormat::Soap12),
            ),
            (
                format!("<!-- {SOAP_12} --><Envelope xmlns = '{SOAP_11}'>"),
                Some(MessageFormat::Soap11),
            ),
            (
                format!("<a:Envelope xmlns:b='{SOAP_12}' xmlns:a='{SOAP_11}'/>"),
                Some(MessageFormat::Soap11),
            ),
            (format!("<Envelope xmlns:b='{SOAP_12}'/>"), None),
            (format!("<Envelope xmlns='{SOAP_12}/role'/>"), None),
            (format!("<a:Add xmlns:a='{SOAP_12}'/>"), None),
            (format!("{{\"a\": \"<s:Envelope xmlns:s='{SOAP_12}'/>\"}}"), None),
            (String::new(), None),
        ] {
            assert_eq!(of_envelope(message.as_bytes()), message_format, "{message}");
        }
    }
}
