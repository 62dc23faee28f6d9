//! Records the client's message format before a stylesheet transforms the message.
//!
//! After the stylesheet, the envelope no longer indicates the client's format: it may have another version, or may have been made from
//! JSON.

use policy::{Exchange, MessageFormat};

use wsdl::{SOAP_11, SOAP_12};

/// The number of bytes in which the start tag of the root is searched for.
const LOOKED_BYTES_MAX: usize = 1 << 10;

/// Returns the format that the message itself indicates, or `None` if no format is recorded on this route.
pub(super) fn format_of(ex: &Exchange, message: &[u8]) -> Option<MessageFormat> {
    let notes = ex.notes.as_ref()?;
    if notes.translated {
        notes.message_format
    } else {
        notes.message_format.map(|message_format| of_envelope(message).unwrap_or(message_format))
    }
}

/// Records the format once the message has been transformed.
pub(super) fn note(ex: &mut Exchange, message_format: Option<MessageFormat>) {
    if let (Some(notes), Some(message_format)) = (ex.notes.as_mut(), message_format) {
        notes.message_format = Some(message_format);
        notes.translated = true;
    }
}

/// Returns the format by the namespace of the envelope, which is more reliable than the head.
fn of_envelope(message: &[u8]) -> Option<MessageFormat> {
    let looked = message.get(..LOOKED_BYTES_MAX).unwrap_or(message);
    if looked.trim_ascii_start().first().is_some_and(|first| matches!(first, b'{' | b'[')) {
        return None;
    }
    // Skips declarations and comments, which begin with `<?` and `<!`.
    let begins = |at: &usize| looked.get(at + 1).is_some_and(|n| !matches!(n, b'?' | b'!'));
    let tag = looked.get(memchr::memchr_iter(b'<', looked).find(begins)? + 1..)?;
    let tag = tag.get(..memchr::memchr(b'>', tag).unwrap_or(tag.len()))?;
    let name = tag.split(u8::is_ascii_whitespace).next()?;
    let prefix = name.strip_suffix(b"Envelope")?.strip_suffix(b":");
    let (mut is_11, mut is_12) = (false, false);
    for equals in memchr::memchr_iter(b'=', tag) {
        let Some((before, [_, value @ ..])) = tag.split_at_checked(equals) else { continue };
        if declares(before.trim_ascii_end(), prefix) {
            let value = value.trim_ascii_start();
            is_11 |= is_quoted(value, SOAP_11);
            is_12 |= is_quoted(value, SOAP_12);
        }
    }
    match (is_11, is_12) {
        (true, false) => Some(MessageFormat::Soap11),
        (false, true) => Some(MessageFormat::Soap12),
        _ => None,
    }
}

/// Returns true if the text before an attribute's value declares this prefix, or the default namespace.
fn declares(before: &[u8], prefix: Option<&[u8]>) -> bool {
    match prefix {
        Some(prefix) => before.strip_suffix(prefix).is_some_and(|rest| rest.ends_with(b"xmlns:")),
        None => before.ends_with(b"xmlns"),
    }
}

/// Returns true if `value` begins with `uri` in quotes.
fn is_quoted(value: &[u8], uri: &str) -> bool {
    let Some((quote @ (b'"' | b'\''), value)) = value.split_first() else { return false };
    value.strip_prefix(uri.as_bytes()).is_some_and(|after| after.first() == Some(quote))
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
            (
                format!(
                    "<a:Envelope b='c=d' xmlns:b='u?xmlns:a={SOAP_12}' xmlns:a\n=\t'{SOAP_11}'>"
                ),
                Some(MessageFormat::Soap11),
            ),
            (format!("<a:Envelope xmlns:a='{SOAP_11}\"/>"), None),
            (format!("<a:Envelope xmlns:b='{SOAP_11}' b:xmlns='{SOAP_11}'/>"), None),
            (format!("{{\"a\": \"<s:Envelope xmlns:s='{SOAP_12}'/>\"}}"), None),
            (String::new(), None),
        ] {
            assert_eq!(of_envelope(message.as_bytes()), message_format, "{message}");
        }
    }
}
