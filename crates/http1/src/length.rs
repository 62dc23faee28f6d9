//! How a length is announced.

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
