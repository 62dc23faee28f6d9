//! gRPC-Web: trailers as the last frame of a body, and bodies in Base64 that may be padded anywhere.

/// The first byte of a frame that holds trailers.
const TRAILERS: u8 = 0x80;

/// Appends trailer lines (`Name: value\r\n...`) as a frame. Names are written in lower case.
pub fn trailers_frame(lines: &[u8], out: &mut Vec<u8>) {
    let mut frame = Vec::with_capacity(lines.len());
    for line in lines.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii) {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        frame.extend(name.iter().map(u8::to_ascii_lowercase));
        frame.push(b':');
        frame.extend_from_slice(value.get(1..).unwrap_or_default().trim_ascii_start());
        frame.extend_from_slice(b"\r\n");
    }
    out.push(TRAILERS);
    out.extend_from_slice(&u32::try_from(frame.len()).unwrap_or(u32::MAX).to_be_bytes());
    out.append(&mut frame);
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes in Base64, padded at their end. Another such text may follow: readers of gRPC-Web take padding anywhere.
pub fn encode_text(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let (mut bits, mut digits) = (0u32, [b'='; 4]);
        for index in 0..3 {
            bits = (bits << 8) | u32::from(group.get(index).copied().unwrap_or_default());
        }
        for (index, digit) in digits.iter_mut().enumerate().take(group.len() + 1) {
            let shift = 18 - 6 * u32::try_from(index).unwrap_or_default();
            let value = usize::try_from((bits >> shift) & 63).unwrap_or_default();
            *digit = ALPHABET.get(value).copied().unwrap_or(b'=');
        }
        out.extend_from_slice(&digits);
    }
}

/// Decodes Base64 that comes in pieces and may be padded anywhere.
#[derive(Debug, Default)]
pub struct TextDecoder {
    /// The digits of a group that has begun.
    bits: u32,
    digits: u8,
    padding: u8,
}

/// The text is not Base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidText;

impl TextDecoder {
    /// Appends what the next piece of the text says.
    pub fn decode(&mut self, text: &[u8], out: &mut Vec<u8>) -> Result<(), InvalidText> {
        for byte in text {
            match value(*byte) {
                Some(value) if self.padding == 0 => {
                    self.bits = (self.bits << 6) | value;
                    self.digits += 1;
                }
                None if *byte == b'=' && self.digits >= 2 => self.padding += 1,
                Some(_) | None => return Err(InvalidText),
            }
            if self.digits + self.padding == 4 {
                self.finish(out)?;
            }
        }
        Ok(())
    }

    /// The text ends here.
    pub fn end(&self) -> Result<(), InvalidText> {
        match self.digits + self.padding {
            0 => Ok(()),
            _ => Err(InvalidText),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), InvalidText> {
        let [_, bytes @ ..] = (self.bits << (6 * u32::from(self.padding))).to_be_bytes();
        let whole = usize::from(3 - self.padding);
        let (said, rest) = bytes.split_at_checked(whole).ok_or(InvalidText)?;
        // Bits that belong to no byte have to be zero: otherwise two texts would say the same.
        if rest.iter().any(|byte| *byte != 0) {
            return Err(InvalidText);
        }
        out.extend_from_slice(said);
        *self = TextDecoder::default();
        Ok(())
    }
}

fn value(digit: u8) -> Option<u32> {
    let value = match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailers_become_a_frame() {
        let mut out = Vec::new();
        trailers_frame(b"Grpc-Status: 0\r\ngrpc-message:a: b\r\nX-Bin: AA==\r\n", &mut out);
        let text = b"grpc-status:0\r\ngrpc-message:a: b\r\nx-bin:AA==\r\n";
        assert_eq!(out, [&[0x80, 0, 0, 0, u8::try_from(text.len()).unwrap()], &text[..]].concat());
        out.clear();
        trailers_frame(b"", &mut out);
        assert_eq!(out, [0x80, 0, 0, 0, 0]);
    }

    fn decoded(text: &str, at_a_time: usize) -> Result<Vec<u8>, InvalidText> {
        let (mut decoder, mut out) = (TextDecoder::default(), Vec::new());
        for piece in text.as_bytes().chunks(at_a_time) {
            decoder.decode(piece, &mut out)?;
        }
        decoder.end().map(|()| out)
    }

    #[test]
    fn base64_is_read_in_any_pieces_and_with_padding_anywhere() {
        for (text, said) in [
            ("", &b""[..]),
            ("AA==", &[0]),
            ("AAE=", &[0, 1]),
            ("AAEC", &[0, 1, 2]),
            ("AA==AAE=AAEC", &[0, 0, 1, 0, 1, 2]),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            for at_a_time in 1..5 {
                assert_eq!(decoded(text, at_a_time).as_deref(), Ok(said), "{text}");
            }
        }
        for text in ["A", "AA", "AA=", "A===", "=", "AA=A", "A A=", "AB==", "AAF=", "AA-_"] {
            assert_eq!(decoded(text, 1), Err(InvalidText), "{text}");
        }
    }

    #[test]
    fn what_is_encoded_is_read_back() {
        for len in 0..20 {
            let bytes: Vec<u8> = (0..len).map(|n: u8| n.wrapping_mul(37)).collect();
            let mut text = Vec::new();
            encode_text(&bytes, &mut text);
            assert_eq!(decoded(std::str::from_utf8(&text).unwrap(), 3), Ok(bytes));
        }
    }
}
