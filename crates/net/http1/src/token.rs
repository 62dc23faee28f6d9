//! The small elements of the grammar: tokens, header values, comma-separated lists.

use crate::kinds;

/// Returns true if this is a token (RFC 9110, 5.6.2), such as a method or a header name.
pub fn is_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && kinds::of_all(bytes) & kinds::IN_TOKENS != 0
}

/// Returns true if this is a token without upper-case letters, as header names in HTTP/2 must be (RFC 9113, 8.2.1).
pub fn is_lower_case_token(bytes: &[u8]) -> bool {
    !bytes.is_empty() && kinds::of_all(bytes) & kinds::IN_LOWER_CASE_TOKENS != 0
}

/// Returns true if some servers treat two header names as equal: ignoring case, and with `_` equal to `-`, since CGI and its descendants
/// (WSGI, PHP, Rack) map both to the same variable. A policy that removes or replaces a header must cover all its spellings.
pub fn is_alias(name: &[u8], of: &[u8]) -> bool {
    fn folded(byte: u8) -> u8 {
        if byte == b'_' { b'-' } else { byte.to_ascii_lowercase() }
    }
    name.len() == of.len()
        && (name == of || name.iter().zip(of).all(|(a, b)| folded(*a) == folded(*b)))
}

/// Returns true if these bytes are allowed as a header value: no control characters except HTAB. Bytes above ASCII are accepted as opaque
/// data (`obs-text`, RFC 9110, 5.5).
pub fn is_header_value(bytes: &[u8]) -> bool {
    // There is no early exit, so that this compiles to vector instructions.
    bytes.iter().fold(true, |good, &byte| good & is_text_byte(byte))
}

/// Returns true if a comma-separated value has this member, ignoring case.
pub fn list_has(value: &[u8], token: &str) -> bool {
    members(value).any(|member| member.eq_ignore_ascii_case(token.as_bytes()))
}

/// Returns the members of a comma-separated value without surrounding white space, including empty ones.
pub(crate) fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii)
}

pub(crate) fn is_token_byte(byte: u8) -> bool {
    kinds::of(byte) & kinds::IN_TOKENS != 0
}

/// Returns true for HTAB, SP, VCHAR and obs-text.
pub(crate) fn is_text_byte(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_recognised() {
        for good in ["GET", "x-a", "a_b", "!#$%&'*+-.^_`|~09"] {
            assert!(is_token(good.as_bytes()), "{good}");
            assert_eq!(is_lower_case_token(good.as_bytes()), good != "GET", "{good}");
        }
        for bad in ["", " ", "a b", "a:", "a\t", "Bad[", "é", "a\r", "a\0", "(a)"] {
            assert!(!is_token(bad.as_bytes()), "{bad:?}");
            assert!(!is_lower_case_token(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn spellings_with_underscores_are_aliases() {
        for (name, of) in [("X_User", "x-user"), ("x-user", "X-USER"), ("x_a-b", "x-a_b")] {
            assert!(is_alias(name.as_bytes(), of.as_bytes()), "{name} {of}");
        }
        for (name, of) in [("xuser", "x-user"), ("x.user", "x-user"), ("x-use", "x-user")] {
            assert!(!is_alias(name.as_bytes(), of.as_bytes()), "{name} {of}");
        }
    }

    #[test]
    fn control_characters_are_refused_in_values() {
        for good in ["", "a b", "a\tb", "é", "\"q\""] {
            assert!(is_header_value(good.as_bytes()), "{good}");
        }
        for bad in ["a\r", "a\n", "\0", "\x0b", "\x7f", "\x1b[0m"] {
            assert!(!is_header_value(bad.as_bytes()), "{bad:?}");
        }
    }

    #[test]
    fn list_members_are_found() {
        let has = |value: &str| list_has(value.as_bytes(), "close");
        assert!(
            has("close") && has("Close") && has("a, close") && has("close\t,b") && has(",close,")
        );
        assert!(!has("") && !has("closed") && !has("a close") && !has("clo,se"));
    }
}
