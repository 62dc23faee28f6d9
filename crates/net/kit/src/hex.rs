//! Bytes as hexadecimal digits.

/// Returns bytes as digits in lower case.
pub fn encoded(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 2);
    push(&mut out, bytes);
    out
}

/// Appends bytes as digits in lower case.
pub fn push(out: &mut String, bytes: &[u8]) {
    out.extend(bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|half| digit(half, b'a')));
}

/// Returns the bytes of digits in either case. Returns `None` for an odd number of digits, or anything else.
pub fn decoded(digits: &[u8]) -> Option<Vec<u8>> {
    let (pairs, []) = digits.as_chunks::<2>() else { return None };
    let mut bytes = Vec::with_capacity(pairs.len());
    for pair in pairs {
        bytes.push(byte(*pair)?);
    }
    Some(bytes)
}

/// Returns the byte of two digits.
pub(crate) fn byte([high, low]: [u8; 2]) -> Option<u8> {
    let value = char::from(high).to_digit(16)? * 16 + char::from(low).to_digit(16)?;
    // Harmless: two digits are at most 255.
    u8::try_from(value).ok()
}

/// Returns the digit of a number below 16. `ten` is the digit of ten: `a` or `A`.
pub(crate) fn digit(number: u8, ten: u8) -> char {
    char::from(if number < 10 { b'0' + number } else { ten + (number - 10) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_become_digits_and_come_back() {
        let bytes = [0x00, 0x09, 0x0a, 0x7f, 0xab, 0xff];
        assert_eq!(encoded(&bytes), "00090a7fabff");
        assert_eq!(decoded(b"00090A7fabFF").as_deref(), Some(&bytes[..]));
        assert_eq!(decoded(b"").as_deref(), Some(&[][..]));
        for wrong in ["0", "00a", "0g", "+1", " 1", "0x", "\u{e9}"] {
            assert_eq!(decoded(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
