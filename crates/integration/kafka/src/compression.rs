//! Decompresses batches of other producers, within a bound.

use std::io::{self, Read};

use bytes::Bytes;

/// The maximum decompressed size of one batch, the same as for a response.
const BYTES_MAX: u64 = 64 << 20;

/// Decompresses the records of a batch. Returns `None` if they are invalid or too large. Increases `spent` by what was decompressed until
/// then.
pub(crate) fn unpack(kind: u16, packed: &[u8], spent: &mut usize) -> Option<Bytes> {
    match kind {
        1 => unpacked(flate2::read::GzDecoder::new(packed), spent),
        2 => snappy(packed, spent),
        3 => unpacked(lz4_flex::frame::FrameDecoder::new(packed), spent),
        4 => unpacked(zstd::stream::read::Decoder::new(packed).ok()?, spent),
        _ => None,
    }
}

fn unpacked(reader: impl Read, spent: &mut usize) -> Option<Bytes> {
    let mut bytes = Vec::new();
    // Reads one byte more than allowed, to detect excess data.
    let read: io::Result<usize> = reader.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    *spent = spent.saturating_add(bytes.len());
    let len = u64::try_from(read.ok()?).ok()?;
    (len <= BYTES_MAX).then(|| bytes.into())
}

/// The header written by the Java library. A version and the oldest compatible version follow.
const XERIAL: &[u8] = b"\x82SNAPPY\x00";

/// Decompresses Snappy, of which there are two formats: that of Java, in length-prefixed blocks, and one block without framing.
fn snappy(packed: &[u8], spent: &mut usize) -> Option<Bytes> {
    let mut bytes = Vec::new();
    let Some(mut blocks) = packed.strip_prefix(XERIAL).and_then(|rest| rest.get(8..)) else {
        block(packed, &mut bytes, spent)?;
        return Some(bytes.into());
    };
    while !blocks.is_empty() {
        let (len, rest) = blocks.split_first_chunk::<4>()?;
        let (packed, rest) =
            rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
        block(packed, &mut bytes, spent)?;
        blocks = rest;
    }
    Some(bytes.into())
}

fn block(packed: &[u8], out: &mut Vec<u8>, spent: &mut usize) -> Option<()> {
    let len = snap::raw::decompress_len(packed).ok()?;
    if u64::try_from(out.len().checked_add(len)?).ok()? > BYTES_MAX {
        return None;
    }
    // Also if the block then turns out to be invalid: its buffer has this size.
    *spent = spent.saturating_add(len);
    out.extend_from_slice(&snap::raw::Decoder::new().decompress_vec(packed).ok()?);
    Some(())
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    fn packed(kind: u16, bytes: &[u8]) -> Vec<u8> {
        match kind {
            1 => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), Default::default());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            2 => snap::raw::Encoder::new().compress_vec(bytes).unwrap(),
            3 => {
                let mut encoder = lz4_flex::frame::FrameEncoder::new(Vec::new());
                encoder.write_all(bytes).unwrap();
                encoder.finish().unwrap()
            }
            _ => zstd::encode_all(bytes, 1).unwrap(),
        }
    }

    #[test]
    fn what_was_packed_comes_out() {
        let text = b"the same and the same and the same".repeat(100);
        for kind in 1..=4 {
            let packed = packed(kind, &text);
            let mut spent = 0;
            assert_eq!(unpack(kind, &packed, &mut spent).as_deref(), Some(&text[..]), "{kind}");
            assert_eq!(spent, text.len(), "{kind}");
            assert_eq!(unpack(kind, &packed[..packed.len() / 2], &mut 0), None, "{kind}, cut");
            assert_eq!(unpack(kind, b"something else", &mut 0), None, "{kind}");
        }
        let block = packed(2, &text);
        let len = u32::try_from(block.len()).unwrap().to_be_bytes();
        let java = [XERIAL, &[0, 0, 0, 1, 0, 0, 0, 1], &len, &block, &len, &block].concat();
        assert_eq!(unpack(2, &java, &mut 0).unwrap().len(), 2 * text.len());
        assert_eq!(unpack(5, &text, &mut 0), None);
    }

    #[test]
    fn what_exceeds_the_bound_is_refused() {
        let zeros = vec![0; 65 << 20];
        for kind in 1..=4 {
            assert_eq!(unpack(kind, &packed(kind, &zeros), &mut 0), None, "{kind}");
        }
    }
}
