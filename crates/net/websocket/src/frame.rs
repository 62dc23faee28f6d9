//! Frames (RFC 6455, 5.2): writes headers and frames, and masks payloads.

/// The kind of a frame (RFC 6455, 11.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Opcode {
    Continuation,
    Text,
    Binary,
    Close,
    Ping,
    Pong,
}

/// The key of a masked payload (RFC 6455, 5.3).
pub type Mask = [u8; 4];

/// A frame's header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Whether the frame is the last of its message.
    pub is_last: bool,
    pub opcode: Opcode,
    /// The masking key, or `None` if the payload is not masked.
    pub mask: Option<Mask>,
    /// The length of the payload in bytes.
    pub len: u64,
}

/// The maximum length of a header: two bytes, an extended length of eight, and a mask.
pub const HEADER_BYTES_MAX: usize = 14;

/// The maximum length of a control frame's payload (RFC 6455, 5.5).
pub const CONTROL_BYTES_MAX: usize = 125;

pub(crate) const FIN: u8 = 0x80;
pub(crate) const RESERVED: u8 = 0x70;
pub(crate) const OPCODE: u8 = 0x0f;
pub(crate) const MASKED: u8 = 0x80;

impl Opcode {
    /// Returns the opcode for these bits, or `None` for reserved ones.
    pub(crate) fn of(bits: u8) -> Option<Opcode> {
        match bits {
            0x0 => Some(Opcode::Continuation),
            0x1 => Some(Opcode::Text),
            0x2 => Some(Opcode::Binary),
            0x8 => Some(Opcode::Close),
            0x9 => Some(Opcode::Ping),
            0xa => Some(Opcode::Pong),
            _ => None,
        }
    }

    fn bits(self) -> u8 {
        match self {
            Opcode::Continuation => 0x0,
            Opcode::Text => 0x1,
            Opcode::Binary => 0x2,
            Opcode::Close => 0x8,
            Opcode::Ping => 0x9,
            Opcode::Pong => 0xa,
        }
    }

    /// Returns true for control frames, which may occur between the fragments of a message.
    pub fn is_control(self) -> bool {
        match self {
            Opcode::Close | Opcode::Ping | Opcode::Pong => true,
            Opcode::Continuation | Opcode::Text | Opcode::Binary => false,
        }
    }
}

impl Header {
    /// Appends the header. The length is encoded in as few bytes as possible.
    pub fn write(&self, out: &mut Vec<u8>) {
        let fin = if self.is_last { FIN } else { 0 };
        let masked = if self.mask.is_some() { MASKED } else { 0 };
        let first = fin | self.opcode.bits();
        match (u8::try_from(self.len), u16::try_from(self.len)) {
            (Ok(len), _) if len < 126 => out.extend_from_slice(&[first, masked | len]),
            (_, Ok(len)) => {
                let [high, low] = len.to_be_bytes();
                out.extend_from_slice(&[first, masked | 126, high, low]);
            }
            (_, Err(_)) => {
                out.extend_from_slice(&[first, masked | 127]);
                out.extend_from_slice(&self.len.to_be_bytes());
            }
        }
        if let Some(mask) = &self.mask {
            out.extend_from_slice(mask);
        }
    }
}

/// Masks or unmasks `bytes`, which begin at `offset` in the payload of their frame.
pub fn unmask(bytes: &mut [u8], mask: Mask, offset: u64) {
    let key = key_at(mask, offset);
    let eight = repeated(key);
    let mut chunks = bytes.chunks_exact_mut(8);
    for chunk in &mut chunks {
        // Harmless: each chunk has eight bytes.
        if let Ok(plain) = <[u8; 8]>::try_from(&*chunk) {
            chunk.copy_from_slice(&(u64::from_ne_bytes(plain) ^ eight).to_ne_bytes());
        }
    }
    let rest = chunks.into_remainder().iter_mut();
    // Harmless: `cycle` never ends, so `zip` reaches every byte.
    rest.zip(key.iter().cycle()).for_each(|(byte, key)| *byte ^= key);
}

/// Returns true if `bytes`, which begin at `offset` in the payload of their frame, are ASCII when unmasked. Most texts are ASCII, and this
/// check is faster than one of UTF-8.
pub(crate) fn is_ascii(bytes: &[u8], mask: Mask, offset: u64) -> bool {
    let key = key_at(mask, offset);
    let eight = repeated(key);
    let (chunks, rest) = bytes.as_chunks::<8>();
    let seen = chunks.iter().fold(0, |seen, chunk| seen | (u64::from_ne_bytes(*chunk) ^ eight));
    // Harmless: `cycle` never ends, so `zip` reaches every byte.
    seen & repeated([0x80; 4]) == 0
        && rest.iter().zip(key.iter().cycle()).all(|(byte, key)| (byte ^ key).is_ascii())
}

/// Returns the key, rotated for the byte at `offset`.
fn key_at(mask: Mask, offset: u64) -> Mask {
    let turned = u32::try_from(offset % 4 * 8).unwrap_or(0);
    u32::from_be_bytes(mask).rotate_left(turned).to_be_bytes()
}

fn repeated([a, b, c, d]: Mask) -> u64 {
    u64::from_ne_bytes([a, b, c, d, a, b, c, d])
}

/// Appends a control frame. The payload is cut to [`CONTROL_BYTES_MAX`].
pub fn control(opcode: Opcode, payload: &[u8], mask: Option<Mask>, out: &mut Vec<u8>) {
    frame(opcode, payload.get(..CONTROL_BYTES_MAX).unwrap_or(payload), mask, out);
}

/// Appends a whole text message.
pub fn text(text: &str, mask: Option<Mask>, out: &mut Vec<u8>) {
    frame(Opcode::Text, text.as_bytes(), mask, out);
}

fn frame(opcode: Opcode, payload: &[u8], mask: Option<Mask>, out: &mut Vec<u8>) {
    let len = u64::try_from(payload.len()).unwrap_or(u64::MAX);
    Header { is_last: true, opcode, mask, len }.write(out);
    let begin = out.len();
    out.extend_from_slice(payload);
    if let (Some(mask), Some(payload)) = (mask, out.get_mut(begin..)) {
        unmask(payload, mask, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_unmasked_wherever_they_are_split() {
        let plain: Vec<u8> = (0..100).collect();
        let mask = [1, 2, 3, 250];
        let expected: Vec<u8> =
            plain.iter().zip(mask.iter().cycle()).map(|(byte, key)| byte ^ key).collect();
        for split in 0..plain.len() {
            let mut masked = plain.clone();
            let (front, back) = masked.split_at_mut(split);
            unmask(front, mask, 0);
            unmask(back, mask, split as u64);
            assert_eq!(masked, expected, "split at {split}");
        }
    }

    #[test]
    fn ascii_is_recognised_through_a_mask() {
        let mask = [0x81, 2, 0xff, 4];
        for len in 0..40_usize {
            for offset in 0..5 {
                let mut bytes: Vec<u8> = (b'a'..=b'z').cycle().take(len).collect();
                unmask(&mut bytes, mask, offset);
                assert!(is_ascii(&bytes, mask, offset), "{len} at {offset}");
                for at in 0..len {
                    let mut other = bytes.clone();
                    other[at] ^= 0x80;
                    assert!(!is_ascii(&other, mask, offset), "{at} of {len} at {offset}");
                }
            }
        }
    }

    #[test]
    fn lengths_are_encoded_in_as_few_bytes_as_possible() {
        for (len, header) in [
            (0, vec![0x82, 0]),
            (125, vec![0x82, 125]),
            (126, vec![0x82, 126, 0, 126]),
            (65_535, vec![0x82, 126, 255, 255]),
            (65_536, vec![0x82, 127, 0, 0, 0, 0, 0, 1, 0, 0]),
        ] {
            let mut out = Vec::new();
            Header { is_last: true, opcode: Opcode::Binary, mask: None, len }.write(&mut out);
            assert_eq!(out, header, "{len}");
        }
    }

    #[test]
    fn a_written_text_is_masked() {
        let mut masked = Vec::new();
        text("hi", Some([1, 2, 3, 4]), &mut masked);
        assert_eq!(masked, [0x81, 0x82, 1, 2, 3, 4, b'h' ^ 1, b'i' ^ 2]);
    }
}
