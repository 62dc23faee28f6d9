//! The subset of DER (X.690) that public keys need: tags, definite lengths and positive integers, each in its only encoding.

/// The tag of a sequence.
pub(crate) const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OBJECT_ID: u8 = 0x06;

/// The unread rest of a sequence of elements.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    /// Creates a reader over all of these bytes.
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Reads the next element and returns its tag and contents.
    #[allow(
        clippy::should_implement_trait,
        reason = "the reader is not an iterator: it also reads elements of a given type"
    )]
    pub(crate) fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let (tag, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (length, shortest, rest) = match *first {
            short @ 0..=0x7f => (usize::from(short), 0, rest),
            // Lengths of up to two bytes are supported. That is 64 KiB, more than any certificate here has.
            0x81 => {
                let (length, rest) = rest.split_first()?;
                (usize::from(*length), 0x80, rest)
            }
            0x82 => {
                let (length, rest) = rest.split_first_chunk::<2>()?;
                (usize::from(u16::from_be_bytes(*length)), 0x100, rest)
            }
            _ => return None,
        };
        // The shortest form is the only one (X.690, 10.1).
        if length < shortest {
            return None;
        }
        let (contents, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, contents))
    }

    /// Reads the next element and returns its contents, or `None` if it has another tag.
    pub(crate) fn tagged(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, contents) = self.next()?;
        (found == tag).then_some(contents)
    }

    /// Reads an object identifier and returns its bytes.
    pub(crate) fn object_id(&mut self) -> Option<&'a [u8]> {
        self.tagged(OBJECT_ID)
    }

    /// Reads a bit string and returns its bytes. Returns `None` if its last byte is incomplete.
    pub(crate) fn bits(&mut self) -> Option<&'a [u8]> {
        self.tagged(BIT_STRING)?.strip_prefix(&[0])
    }

    /// Reads a positive integer and returns it without the zero byte that precedes a set first bit. Returns `None` if it is not positive,
    /// or not in its shortest form (X.690, 8.3.2).
    pub(crate) fn unsigned(&mut self) -> Option<&'a [u8]> {
        let bytes = self.tagged(INTEGER)?;
        match bytes {
            [0, 0x80..=0xff, ..] => bytes.get(1..),
            [1..=0x7f, ..] => Some(bytes),
            _ => None,
        }
    }
}

/// Encodes an `RSAPublicKey` (RFC 8017, A.1.1).
pub(crate) fn rsa_public_key(modulus: &[u8], exponent: &[u8]) -> Vec<u8> {
    let mut numbers = Vec::new();
    for number in [modulus, exponent] {
        let negative = number.first().is_some_and(|byte| byte & 0x80 != 0);
        let mut contents = if negative { vec![0] } else { Vec::new() };
        contents.extend_from_slice(number);
        element(INTEGER, &contents, &mut numbers);
    }
    let mut out = Vec::new();
    element(SEQUENCE, &numbers, &mut out);
    out
}

fn element(tag: u8, contents: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    let length = u16::try_from(contents.len()).unwrap_or(u16::MAX).to_be_bytes();
    match (contents.len(), length) {
        (0..=0x7f, [_, low]) => out.push(low),
        (0x80..=0xff, [_, low]) => out.extend_from_slice(&[0x81, low]),
        (_, [high, low]) => out.extend_from_slice(&[0x82, high, low]),
    }
    out.extend_from_slice(contents);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_has_one_encoding() {
        let cases: [(&[u8], Option<&[u8]>); 9] = [
            (&[2, 1, 3], Some(&[3])),
            (&[2, 2, 0, 0x80], Some(&[0x80])),
            (&[2, 3, 1, 0, 1], Some(&[1, 0, 1])),
            // Negative.
            (&[2, 1, 0x80], None),
            (&[2, 2, 0xff, 1], None),
            // Zero, a needless zero byte, and nothing.
            (&[2, 1, 0], None),
            (&[2, 2, 0, 3], None),
            (&[2, 0], None),
            (&[4, 1, 3], None),
        ];
        for (bytes, number) in cases {
            assert_eq!(Reader::new(bytes).unsigned(), number, "{bytes:x?}");
        }
    }

    #[test]
    fn a_length_has_one_encoding() {
        for length in [0, 1, 0x7f, 0x80, 0xff, 0x100, 0xffff] {
            let mut bytes = Vec::new();
            element(4, &vec![7; length], &mut bytes);
            assert_eq!(Reader::new(&bytes).tagged(4).map(<[u8]>::len), Some(length));
        }
        for longer in [&[4, 0x81, 1, 7][..], &[4, 0x82, 0, 1, 7], &[4, 0x83, 0, 0, 1, 7]] {
            assert_eq!(Reader::new(longer).next(), None, "{longer:x?}");
        }
        let longer = [&[4, 0x82, 0, 0x80][..], &[7; 0x80]].concat();
        assert_eq!(Reader::new(&longer).next(), None);
    }
}
