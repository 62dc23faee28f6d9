//! Determines the content type of a stylesheet's result.

use crate::charset;

/// Returns true if a message is JSON. The first character decides; if it is inconclusive, the content type decides.
pub(super) fn is_json(content_type: Option<&[u8]>, message: &[u8]) -> bool {
    match message.trim_ascii_start().first() {
        Some(b'{' | b'[') => true,
        Some(b'<') => false,
        Some(_) | None => is_json_type(content_type),
    }
}

fn is_json_type(content_type: Option<&[u8]>) -> bool {
    let content_type = content_type.unwrap_or(b"");
    // Fast path for most content types.
    if content_type.starts_with(b"text/xml") {
        return false;
    }
    let media = message::media_type(content_type);
    media.eq_ignore_ascii_case(b"application/json")
        || media.eq_ignore_ascii_case(b"application/vnd.api+json")
}

/// Returns the content type of a result whose kind (XML or JSON) or encoding differs from that of the message. Returns `None` if the
/// content type of the message is still correct. `name` is the name of the result's encoding.
pub(super) fn label(content_type: Option<&[u8]>, result: &[u8], name: &str) -> Option<String> {
    let first = result.trim_ascii_start().first().copied();
    match (first, is_json_type(content_type)) {
        (Some(b'<'), true) => Some(format!("text/xml; charset={name}")),
        (Some(b'{' | b'['), false) => Some("application/json".to_owned()),
        _ => charset::recoded(content_type.unwrap_or(b""), name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_result_of_another_kind_or_encoding_gets_a_new_content_type() {
        for (was, result, is) in [
            ("text/xml", "{}", "application/json"),
            ("application/json", " <a/>", "text/xml; charset=utf-8"),
            ("text/xml;charset=utf-8", "<a/>", "text/xml;charset=utf-8"),
            ("text/xml;charset=\"UTF-8\"", "<a/>", "text/xml;charset=\"UTF-8\""),
            ("application/json", "[1]", "application/json"),
            ("text/xml", "plain", "text/xml"),
            ("text/xml; charset=iso-8859-1", "<a/>", "text/xml; charset=utf-8"),
            (
                "application/soap+xml; action=\"u\"; charset=ascii",
                "<a/>",
                "application/soap+xml; charset=utf-8; action=\"u\"",
            ),
            (
                "application/soap+xml; charset=utf-16;action=\"urn:x;y\\\";z\"; a=b",
                "<a/>",
                "application/soap+xml; charset=utf-8; action=\"urn:x;y\\\";z\"; a=b",
            ),
        ] {
            let label = label(Some(was.as_bytes()), result.as_bytes(), "utf-8");
            assert_eq!(label.as_deref().unwrap_or(was), is, "{was} {result}");
        }
    }

    #[test]
    fn json_is_recognised_by_its_first_character_or_its_content_type() {
        for (label, message, json) in [
            ("text/xml", " {}", true),
            ("text/xml", "[]", true),
            ("application/json", "<a/>", false),
            ("application/json", "1", true),
            ("application/json", "", true),
            ("text/xml", "1", false),
        ] {
            assert_eq!(
                is_json(Some(label.as_bytes()), message.as_bytes()),
                json,
                "{label} {message}"
            );
        }
    }
}
