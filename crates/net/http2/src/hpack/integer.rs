//! Integers with a prefix (RFC 7541, 5.1).

use crate::{Code, Error};

const WRONG: Error =
    Error::new(Code::COMPRESSION_ERROR, "an integer that does not end or is too large");

/// Reads an integer from the front of `input`. It begins in the last `prefix` bits of the first byte. At most 28 further bits are accepted,
/// which is more than any valid value needs.
pub(super) fn take(input: &mut &[u8], prefix: u32) -> Result<usize, Error> {
    let mut bytes = input.iter();
    let most = (1u32 << prefix) - 1;
    let mut value = u32::from(*bytes.next().ok_or(WRONG)?) & most;
    if value == most {
        let mut shift = 0;
        loop {
            let byte = *bytes.next().ok_or(WRONG)?;
            value += u32::from(byte & 0x7f) << shift;
            shift += 7;
            match byte & 0x80 {
                0 => break,
                _ if shift >= 28 => return Err(WRONG),
                // Harmless: the loop continues with the next byte.
                _ => {}
            }
        }
    }
    *input = bytes.as_slice();
    usize::try_from(value).map_err(|_| WRONG)
}

/// Appends an integer. `first` contains the bits before the prefix.
pub(super) fn put(out: &mut Vec<u8>, first: u8, prefix: u32, value: usize) {
    let most = (1usize << prefix) - 1;
    if value < most {
        return out.push(first | u8::try_from(value).unwrap_or(u8::MAX));
    }
    out.push(first | u8::try_from(most).unwrap_or(u8::MAX));
    let mut rest = value - most;
    while rest >= 0x80 {
        out.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
        rest >>= 7;
    }
    out.push(u8::try_from(rest).unwrap_or(u8::MAX));
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 7541, C.1.
    #[test]
    fn the_examples_of_the_rfc_are_encoded_and_decoded() {
        for (value, prefix, bytes) in
            [(10, 5, &[0b01010][..]), (1337, 5, &[0b11111, 0b10011010, 0b1010]), (42, 8, &[42])]
        {
            let mut out = Vec::new();
            put(&mut out, 0, prefix, value);
            assert_eq!(out, bytes);
            let mut input = bytes;
            assert_eq!((take(&mut input, prefix), input), (Ok(value), &[][..]));
        }
    }

    #[test]
    fn unterminated_integers_are_refused() {
        for bad in [&[][..], &[0x1f], &[0x1f, 0x80], &[0x1f, 0x80, 0x80, 0x80, 0x80, 0x80, 0]] {
            let mut input = bad;
            assert_eq!(take(&mut input, 5), Err(WRONG), "{bad:?}");
        }
    }
}
