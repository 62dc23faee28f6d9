//! Frames: nine bytes of head, and a payload (RFC 9113, 4.1 and 6).

use crate::{Code, Error};

pub(crate) const HEAD_BYTES: usize = 9;

/// The maximum payload of a frame in both directions. A session never announces a larger one.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 16_384;

pub(crate) mod kind {
    pub(crate) const DATA: u8 = 0x0;
    pub(crate) const HEADERS: u8 = 0x1;
    pub(crate) const PRIORITY: u8 = 0x2;
    pub(crate) const RST_STREAM: u8 = 0x3;
    pub(crate) const SETTINGS: u8 = 0x4;
    pub(crate) const PUSH_PROMISE: u8 = 0x5;
    pub(crate) const PING: u8 = 0x6;
    pub(crate) const GOAWAY: u8 = 0x7;
    pub(crate) const WINDOW_UPDATE: u8 = 0x8;
    pub(crate) const CONTINUATION: u8 = 0x9;
}

pub(crate) mod flag {
    pub(crate) const END_STREAM: u8 = 0x1;
    pub(crate) const ACK: u8 = 0x1;
    pub(crate) const END_HEADERS: u8 = 0x4;
    pub(crate) const PADDED: u8 = 0x8;
    pub(crate) const PRIORITY: u8 = 0x20;
}

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) len: usize,
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
}

impl Head {
    /// Parses the head of a frame. Returns `None` if there are fewer than nine bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Head> {
        let [a, b, c, kind, flags, stream @ ..] = bytes.first_chunk::<HEAD_BYTES>()?;
        let len = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
        Some(Head { len, kind: *kind, flags: *flags, stream: number(*stream) })
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Returns the payload without its padding (6.1).
    pub(crate) fn unpadded(self, payload: &[u8]) -> Result<&[u8], Error> {
        if !self.has(flag::PADDED) {
            return Ok(payload);
        }
        let wrong = Error::protocol("padding longer than its frame");
        let (padding, rest) = payload.split_first().ok_or(wrong)?;
        let len = rest.len().checked_sub(usize::from(*padding)).ok_or(wrong)?;
        rest.get(..len).ok_or(wrong)
    }
}

/// Parses 31 bits. The first bit is reserved and is ignored.
pub(crate) fn number(bytes: [u8; 4]) -> u32 {
    u32::from_be_bytes(bytes) & 0x7fff_ffff
}

/// Returns the nine bytes of a frame's head. `len` must be at most [`PAYLOAD_BYTES_MAX`].
pub(crate) fn head(len: usize, kind: u8, flags: u8, stream: u32) -> [u8; HEAD_BYTES] {
    // Harmless: payloads are much shorter than 4 GiB.
    let [_, a, b, c] = u32::try_from(len).unwrap_or_default().to_be_bytes();
    let [s, t, r, e] = stream.to_be_bytes();
    [a, b, c, kind, flags, s, t, r, e]
}

/// Appends the head of a frame.
pub(crate) fn begin(out: &mut Vec<u8>, len: usize, kind: u8, flags: u8, stream: u32) {
    out.extend_from_slice(&head(len, kind, flags, stream));
}

/// Appends a frame with a payload of four bytes.
pub(crate) fn word(out: &mut Vec<u8>, kind: u8, stream: u32, word: u32) {
    begin(out, 4, kind, 0, stream);
    out.extend_from_slice(&word.to_be_bytes());
}

pub(crate) fn reset(out: &mut Vec<u8>, stream: u32, code: Code) {
    word(out, kind::RST_STREAM, stream, code.0);
}

pub(crate) fn ping(out: &mut Vec<u8>, flags: u8, payload: [u8; 8]) {
    begin(out, 8, kind::PING, flags, 0);
    out.extend_from_slice(&payload);
}

pub(crate) fn goaway(out: &mut Vec<u8>, last_stream: u32, code: Code, why: &str) {
    begin(out, 8 + why.len(), kind::GOAWAY, 0, 0);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
    out.extend_from_slice(why.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_written_head_is_read_back() {
        let mut out = Vec::new();
        begin(&mut out, 0x1234, kind::HEADERS, flag::END_HEADERS, 7);
        assert_eq!(Head::read(&out[..8]), None);
        let head = Head { len: 0x1234, kind: kind::HEADERS, flags: flag::END_HEADERS, stream: 7 };
        assert_eq!(Head::read(&out), Some(head));
    }

    #[test]
    fn padding_is_removed_and_must_fit() {
        let head = Head { len: 0, kind: kind::DATA, flags: flag::PADDED, stream: 1 };
        assert_eq!(head.unpadded(b"\x02ab\0\0"), Ok(&b"ab"[..]));
        assert_eq!(head.unpadded(b"\x02\0\0"), Ok(&b""[..]));
        for bad in [&b""[..], b"\x01", b"\x03ab"] {
            assert!(head.unpadded(bad).is_err(), "{bad:?}");
        }
    }
}
