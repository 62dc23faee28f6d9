//! Parses and writes Content-Length.

use crate::BODY_BYTES_MAX;

/// Parses a Content-Length. Returns `None` unless it consists of digits and is at most [`BODY_BYTES_MAX`].
pub fn parse_content_length(value: &[u8]) -> Option<u64> {
    // 19 digits cannot overflow 64 bits.
    if value.is_empty() || value.len() > 19 || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let length = value.iter().fold(0_u64, |sum, digit| sum * 10 + u64::from(digit - b'0'));
    (length <= BODY_BYTES_MAX).then_some(length)
}

/// Appends `Content-Length` with its line end.
pub fn content_length(len: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(itoa::Buffer::new().format(len).as_bytes());
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_in_full() {
        for len in [0, 7, 10, 99, 100, 1024, u64::from(u32::MAX), u64::MAX] {
            let mut out = Vec::new();
            content_length(len, &mut out);
            assert_eq!(out, format!("Content-Length: {len}\r\n").into_bytes());
        }
    }
}
