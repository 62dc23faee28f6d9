//! gRPC-Web: writes trailers as the last frame of a body, and encodes and decodes bodies in Base64, which may have padding anywhere.

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

/// Encodes messages in Base64. The messages arrive in pieces of any size. Each message is padded at its end, so that none of its bytes has
/// to wait for the next message, and the text does not depend on how the pieces are cut.
#[derive(Debug, Default)]
pub struct TextEncoder {
    /// The first `held` bytes are an incomplete group.
    group: [u8; 3],
    held: usize,
    /// The prefix of the message: flags and length.
    head: [u8; HEAD_BYTES],
    head_read: usize,
    /// The number of bytes of the message that have not arrived yet.
    left: usize,
}

/// The length of the prefix: a byte of flags, and four for the message's length.
const HEAD_BYTES: usize = 5;

impl TextEncoder {
    /// Appends the text of the next piece.
    pub fn encode(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        while !bytes.is_empty() {
            let (of_message, rest) = bytes.split_at(self.of_message(bytes));
            self.append(of_message, out);
            if self.head_read == HEAD_BYTES && self.left == 0 {
                self.end(out);
            }
            bytes = rest;
        }
    }

    /// Appends the rest of an incomplete group at the end of a message or of the body.
    pub fn end(&mut self, out: &mut Vec<u8>) {
        encode_text(self.group.get(..self.held).unwrap_or_default(), out);
        *self = TextEncoder::default();
    }

    /// Returns the number of bytes at the front that belong to the current part of the message: its prefix, or its content once the prefix
    /// is complete. The number is at least one. Bytes of the prefix are stored in `head`.
    fn of_message(&mut self, bytes: &[u8]) -> usize {
        if self.head_read == HEAD_BYTES {
            let taken = self.left.min(bytes.len());
            self.left -= taken;
            return taken;
        }
        let missing = self.head.iter_mut().skip(self.head_read);
        // Harmless: the caller reads the remaining bytes in the next round of its loop.
        let taken = missing.zip(bytes).map(|(to, from)| *to = *from).count();
        self.head_read += taken;
        if self.head_read == HEAD_BYTES {
            let [_flags, length @ ..] = self.head;
            self.left = usize::try_from(u32::from_be_bytes(length)).unwrap_or(usize::MAX);
        }
        taken
    }

    fn append(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) {
        if self.held > 0 {
            let free = self.group.iter_mut().skip(self.held);
            // Harmless: the bytes that do not fit into the group are encoded below.
            let taken = free.zip(bytes).map(|(to, from)| *to = *from).count();
            self.held += taken;
            bytes = bytes.get(taken..).unwrap_or_default();
            if self.held < self.group.len() {
                return;
            }
            encode_text(&self.group, out);
        }
        let (whole, rest) = bytes.split_at(bytes.len() - bytes.len() % self.group.len());
        encode_text(whole, out);
        // Harmless: the rest is shorter than a group.
        self.held = self.group.iter_mut().zip(rest).map(|(to, from)| *to = *from).count();
    }
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends bytes in Base64 with padding at the end. More text may follow: gRPC-Web decoders accept padding anywhere.
fn encode_text(bytes: &[u8], out: &mut Vec<u8>) {
    for group in bytes.chunks(3) {
        let (mut bits, mut digits) = (0u32, [b'='; 4]);
        for index in 0..3 {
            bits = (bits << 8) | u32::from(group.get(index).copied().unwrap_or(0));
        }
        // Harmless: a group of fewer than three bytes has fewer digits, and the remaining places keep their padding.
        for (shift, digit) in [18, 12, 6, 0].into_iter().zip(&mut digits).take(group.len() + 1) {
            let value = usize::try_from((bits >> shift) & 63).unwrap_or_default();
            *digit = ALPHABET.get(value).copied().unwrap_or(b'=');
        }
        out.extend_from_slice(&digits);
    }
}

/// Decodes Base64 that arrives in pieces and may have padding anywhere.
#[derive(Debug, Default)]
pub struct TextDecoder {
    /// The bits of an incomplete group, which has `digits` digits and `padding` padding characters so far.
    bits: u32,
    digits: u8,
    padding: u8,
}

/// The text is not valid Base64.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidText;

impl TextDecoder {
    /// Decodes the next piece of the text.
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

    /// Ends the text. Fails if a group is incomplete.
    pub fn end(&self) -> Result<(), InvalidText> {
        match self.digits + self.padding {
            0 => Ok(()),
            _ => Err(InvalidText),
        }
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), InvalidText> {
        let [_, bytes @ ..] = (self.bits << (6 * u32::from(self.padding))).to_be_bytes();
        let whole = usize::from(3 - self.padding);
        let (decoded, rest) = bytes.split_at_checked(whole).ok_or(InvalidText)?;
        // The unused bits must be zero. Otherwise, different texts could decode to the same bytes.
        if rest.iter().any(|byte| *byte != 0) {
            return Err(InvalidText);
        }
        out.extend_from_slice(decoded);
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
        for (text, expected) in [
            ("", &b""[..]),
            ("AA==", &[0]),
            ("AAE=", &[0, 1]),
            ("AAEC", &[0, 1, 2]),
            ("AA==AAE=AAEC", &[0, 0, 1, 0, 1, 2]),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            for at_a_time in 1..5 {
                assert_eq!(decoded(text, at_a_time).as_deref(), Ok(expected), "{text}");
            }
        }
        for text in ["A", "AA", "AA=", "A===", "=", "AA=A", "A A=", "AB==", "AAF=", "AA-_"] {
            assert_eq!(decoded(text, 1), Err(InvalidText), "{text}");
        }
    }

    #[test]
    fn messages_are_padded_at_their_ends_in_any_pieces() {
        // A message of two bytes, an empty one, one of 300 bytes, and an incomplete one.
        let mut messages = b"\0\0\0\0\x02ok\0\0\0\0\0\0\0\0\x01\x2c".to_vec();
        messages.extend([7; 300]);
        messages.extend(b"\0\0\0\0\x09x");
        let encoded = |at_a_time: usize| {
            let (mut encoder, mut out) = (TextEncoder::default(), Vec::new());
            messages.chunks(at_a_time).for_each(|piece| encoder.encode(piece, &mut out));
            encoder.end(&mut out);
            String::from_utf8(out).unwrap()
        };
        let whole = encoded(messages.len());
        assert!(whole.starts_with("AAAAAAJvaw==AAAAAAA=AAAAASwH"), "{whole}");
        assert_eq!(decoded(&whole, 3).as_deref(), Ok(&messages[..]));
        for at_a_time in 1..12 {
            assert_eq!(encoded(at_a_time), whole, "{at_a_time}");
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
