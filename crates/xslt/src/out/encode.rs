//! Converts finished UTF-8 to the output encoding.

use super::Encoding;

/// Re-encodes. Characters that the encoding lacks were written as references before; any that remain, in names, become `?`.
pub(crate) fn encode(utf8: Vec<u8>, encoding: Encoding) -> Vec<u8> {
    match encoding {
        Encoding::Utf8 => utf8,
        Encoding::Ascii if utf8.is_ascii() => utf8,
        Encoding::Latin1 if utf8.is_ascii() => utf8,
        Encoding::Ascii | Encoding::Latin1 => {
            let last = encoding.last();
            // Harmless: the bytes are UTF-8.
            let text = String::from_utf8_lossy(&utf8);
            let narrow = |c: char| match c <= last {
                true => u8::try_from(u32::from(c)).unwrap_or(b'?'),
                false => b'?',
            };
            text.chars().map(narrow).collect()
        }
        Encoding::Utf16 => {
            // Harmless: the bytes are UTF-8.
            let text = String::from_utf8_lossy(&utf8);
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(u16::to_be_bytes).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        let cases: [(Encoding, &str, &[u8]); 6] = [
            (Encoding::Utf8, "aé", b"a\xc3\xa9"),
            (Encoding::Latin1, "aé", b"a\xe9"),
            (Encoding::Latin1, "a€", b"a?"),
            (Encoding::Ascii, "ab", b"ab"),
            (Encoding::Ascii, "aé", b"a?"),
            (Encoding::Utf16, "a\u{1f600}", b"\xfe\xff\0a\xd8\x3d\xde\0"),
        ];
        for (encoding, text, expected) in cases {
            assert_eq!(encode(text.as_bytes().to_vec(), encoding), expected, "{encoding:?} {text}");
        }
    }
}
