//! How a length is announced.

/// The digits of the largest number.
const DIGITS_MAX: usize = 20;

/// Appends `Content-Length` with its line end.
pub fn content_length(len: u64, out: &mut Vec<u8>) {
    let mut digits = [b'0'; DIGITS_MAX];
    let (mut left, mut written) = (len, 0);
    for digit in digits.iter_mut().rev() {
        *digit += u8::try_from(left % 10).unwrap_or_default();
        left /= 10;
        written += 1;
        if left == 0 {
            break;
        }
    }
    out.extend_from_slice(b"Content-Length: ");
    out.extend_from_slice(digits.get(DIGITS_MAX - written..).unwrap_or_default());
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
