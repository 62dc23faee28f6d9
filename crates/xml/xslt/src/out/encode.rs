//! Converts finished UTF-8 to the output encoding.

use super::Encoding;

/// Converts the encoding. Characters that the encoding lacks have been written as references. Any that remain, in names, comments and
/// results of the method `text`, cannot be written (XSLT 1.0, 16.1 and 16.3). The error is the first of them.
pub(crate) fn encode(utf8: Vec<u8>, encoding: Encoding) -> Result<Vec<u8>, char> {
    Ok(match encoding {
        Encoding::Utf8 => utf8,
        Encoding::Ascii if utf8.is_ascii() => utf8,
        Encoding::Latin1 if utf8.is_ascii() => utf8,
        Encoding::Ascii | Encoding::Latin1 => {
            let last = encoding.last();
            // Harmless: the bytes are UTF-8.
            let text = String::from_utf8_lossy(&utf8);
            let narrow = |c: char| {
                // Harmless: the error names the character.
                let byte = u8::try_from(u32::from(c)).ok().filter(|_| c <= last);
                byte.ok_or(c)
            };
            text.chars().map(narrow).collect::<Result<_, _>>()?
        }
        Encoding::Other(_) if utf8.is_ascii() => utf8,
        Encoding::Other(known) => {
            // Harmless: the bytes are UTF-8.
            let text = String::from_utf8_lossy(&utf8);
            let mut encoder = known.new_encoder();
            // Harmless: a text for which this overflows exceeds all limits on results.
            let room = encoder.max_buffer_length_from_utf8_without_replacement(text.len());
            // Harmless: this is only the initial capacity.
            let mut out = Vec::with_capacity(room.unwrap_or_default());
            let (result, _) =
                encoder.encode_from_utf8_to_vec_without_replacement(&text, &mut out, true);
            match result {
                encoding_rs::EncoderResult::Unmappable(c) => return Err(c),
                encoding_rs::EncoderResult::InputEmpty | encoding_rs::EncoderResult::OutputFull => {
                    out
                }
            }
        }
        Encoding::Utf16 => {
            // Harmless: the bytes are UTF-8.
            let text = String::from_utf8_lossy(&utf8);
            let units = std::iter::once(0xfeff).chain(text.encode_utf16());
            units.flat_map(u16::to_be_bytes).collect()
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings() {
        let cyrillic = Encoding::Other(encoding_rs::WINDOWS_1251);
        type Encoded<'e> = Result<&'e [u8], char>;
        let cases: [(Encoding, &str, Encoded<'_>); 8] = [
            (cyrillic, "\u{434}a", Ok(b"\xe4a")),
            (cyrillic, "a\u{e9}", Err('\u{e9}')),
            (Encoding::Utf8, "aé", Ok(b"a\xc3\xa9")),
            (Encoding::Latin1, "aé", Ok(b"a\xe9")),
            (Encoding::Latin1, "a€", Err('€')),
            (Encoding::Ascii, "ab", Ok(b"ab")),
            (Encoding::Ascii, "aé", Err('é')),
            (Encoding::Utf16, "a\u{1f600}", Ok(b"\xfe\xff\0a\xd8\x3d\xde\0")),
        ];
        for (encoding, text, expected) in cases {
            let found = encode(text.as_bytes().to_vec(), encoding);
            assert_eq!(found.as_deref().map_err(|c| *c), expected, "{encoding:?} {text}");
        }
    }
}
