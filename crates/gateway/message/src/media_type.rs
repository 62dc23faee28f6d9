//! The parts of a `Content-Type` that the gateway needs.

/// Returns the media type without its parameters, as written. Compare it ignoring case (RFC 9110, 8.3.1).
pub fn media_type(content_type: &[u8]) -> &[u8] {
    let end = content_type.iter().position(|byte| *byte == b';').unwrap_or(content_type.len());
    content_type.get(..end).unwrap_or_default().trim_ascii()
}

/// Returns true if a media type is JSON: `application/json`, or a type with the suffix `+json` (RFC 6839, 3.1).
pub fn is_json(media_type: &[u8]) -> bool {
    let front = media_type.len().saturating_sub(b"+json".len());
    let suffix = media_type.get(front..).unwrap_or_default();
    suffix.eq_ignore_ascii_case(b"+json") || media_type.eq_ignore_ascii_case(b"application/json")
}

#[cfg(test)]
mod tests {
    use super::{is_json, media_type};

    #[test]
    fn a_type_ends_at_its_parameters() {
        for (written, read, json) in [
            ("text/xml", "text/xml", false),
            (" application/JSON ;charset=utf-8", "application/JSON", true),
            ("application/problem+json; a=\";\"", "application/problem+json", true),
            ("json", "json", false),
            ("", "", false),
            (";", "", false),
        ] {
            assert_eq!(media_type(written.as_bytes()), read.as_bytes(), "{written}");
            assert_eq!(is_json(read.as_bytes()), json, "{written}");
        }
    }
}
