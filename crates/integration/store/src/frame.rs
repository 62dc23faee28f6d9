//! Frames: the encoding of records in a segment.
//!
//! A frame is a head of 32 bytes and a payload. Frames of log 0 belong to the engine: the head of a segment, and the mark before
//! each batch.
//!
//! The checksum starts with a random salt of the segment. So a payload that looks like a frame is not taken for one,
//! whatever its source.

use crate::limits::RECORD_BYTES_MAX;

/// The bytes of a frame's head.
pub(crate) const HEAD: usize = 32;
/// A constant in every head, which reveals most damage without the checksum.
const MAGIC: u16 = 0x54d6;
/// The largest payload that is accepted: 32 MiB, or the limit on records if that is larger.
const PAYLOAD_MAX: usize = if RECORD_BYTES_MAX > 32 << 20 { RECORD_BYTES_MAX } else { 32 << 20 };

/// The log number of the engine's own frames.
pub(crate) const OWN: u32 = 0;

/// The head of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// The number of bytes of the payload.
    pub(crate) len: usize,
    crc: u32,
    pub(crate) position: u64,
    /// Milliseconds since the Unix epoch.
    pub(crate) time: u64,
    pub(crate) log: u32,
    /// The number of frames of the same append that follow. For the engine's own frames, the kind.
    pub(crate) more: u16,
}

impl Head {
    pub(crate) fn new(log: u32, position: u64, time: u64, more: u16) -> Head {
        Head { len: 0, crc: 0, position, time, log, more }
    }

    /// Decodes a head. Returns `None` if it is invalid.
    pub(crate) fn read(bytes: &[u8]) -> Option<Head> {
        let (len, rest) = bytes.split_first_chunk()?;
        let (crc, rest) = rest.split_first_chunk()?;
        let (position, rest) = rest.split_first_chunk()?;
        let (time, rest) = rest.split_first_chunk()?;
        let (log, rest) = rest.split_first_chunk()?;
        let (more, rest) = rest.split_first_chunk()?;
        let (magic, _) = rest.split_first_chunk()?;
        let len = u32::from_le_bytes(*len) as usize;
        (u16::from_le_bytes(*magic) == MAGIC && len <= PAYLOAD_MAX).then_some(Head {
            len,
            crc: u32::from_le_bytes(*crc),
            position: u64::from_le_bytes(*position),
            time: u64::from_le_bytes(*time),
            log: u32::from_le_bytes(*log),
            more: u16::from_le_bytes(*more),
        })
    }

    /// Returns the length of the whole frame.
    pub(crate) fn frame_len(&self) -> u64 {
        (HEAD + self.len) as u64
    }

    /// Returns true if the payload matches the length and the checksum in the head.
    pub(crate) fn fits(&self, payload: &[u8], salt: u32) -> bool {
        payload.len() == self.len && self.checksum(payload, salt) == self.crc
    }

    /// Writes a frame with this head.
    pub(crate) fn write(mut self, payload: &[u8], salt: u32, into: &mut Vec<u8>) {
        self.len = payload.len();
        self.crc = self.checksum(payload, salt);
        into.extend_from_slice(&self.bytes());
        into.extend_from_slice(payload);
    }

    fn checksum(&self, payload: &[u8], salt: u32) -> u32 {
        let mut crc = crc32fast::Hasher::new_with_initial(salt);
        crc.update(&Head { crc: 0, ..*self }.bytes());
        crc.update(payload);
        crc.finalize()
    }

    fn bytes(&self) -> [u8; HEAD] {
        let len = u32::try_from(self.len).unwrap_or(u32::MAX);
        let mut bytes = [0; HEAD];
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.crc.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.position.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.time.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.log.to_le_bytes());
        bytes[28..30].copy_from_slice(&self.more.to_le_bytes());
        bytes[30..].copy_from_slice(&MAGIC.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written_and_any_flipped_bit_shows() {
        let mut bytes = Vec::new();
        Head::new(7, 1 << 40, 1_700_000_000_000, 3).write(b"payload", 99, &mut bytes);
        let head = Head::read(&bytes).unwrap();
        assert_eq!((head.log, head.position, head.more, head.len), (7, 1 << 40, 3, 7));
        assert!(head.fits(&bytes[HEAD..], 99) && !head.fits(&bytes[HEAD..], 98));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let whole = Head::read(&flipped).is_some_and(|head| {
                flipped.get(HEAD..HEAD + head.len).is_some_and(|payload| head.fits(payload, 99))
            });
            assert!(!whole, "bit {bit}");
        }
        for cut in 0..HEAD {
            assert_eq!(Head::read(&bytes[..cut]), None, "{cut}");
        }
    }
}
