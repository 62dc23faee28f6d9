//! One interface for the three encoders.
//!
//! Windows are kept small: a gateway compresses many replies at once, and in replies of APIs, repetitions more than 256 KiB apart are rare.

use std::io::Write;

use brotli::CompressorWriter;
use fault::{Fault, Kind};
use flate2::Compression;
use flate2::write::GzEncoder;
use message::Fill;
use policy::BodyTransform;
use zstd::stream::raw::CParameter;
use zstd::stream::write::Encoder as ZstdEncoder;

/// A content encoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Encoding {
    Zstd,
    Br,
    Gzip,
}

impl Encoding {
    /// Returns the name in HTTP.
    pub fn name(self) -> &'static str {
        match self {
            Encoding::Zstd => "zstd",
            Encoding::Br => "br",
            Encoding::Gzip => "gzip",
        }
    }
}

/// The gzip level, just below the library's default of 6, which suits files that are compressed once.
const GZIP_LEVEL: u32 = 5;

/// The Brotli quality for on-the-fly compression. Higher qualities suit files that are compressed once.
const BROTLI_QUALITY: u32 = 4;

/// The Brotli window: 256 KiB, as a power of two.
const BROTLI_WINDOW: u32 = 18;

/// The number of bytes that Brotli collects before it encodes.
const BROTLI_BUFFER_BYTES: usize = 16 * 1024;

/// The zstd level, which is the library's default.
const ZSTD_LEVEL: i32 = 3;

/// The zstd window: 256 KiB, as a power of two. Browsers accept up to 8 MiB.
const ZSTD_WINDOW: u32 = 18;

/// The encoder of one reply. During a call, it writes into a vector of the caller.
pub(super) enum Coder {
    Zstd(Box<ZstdEncoder<'static, Vec<u8>>>),
    Br(Box<CompressorWriter<Vec<u8>>>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
    Done,
}

impl Coder {
    pub(super) fn new(encoding: Encoding) -> Result<Coder, Fault> {
        let out = Vec::new();
        Ok(match encoding {
            Encoding::Zstd => {
                let mut encoder = ZstdEncoder::new(out, ZSTD_LEVEL).map_err(broken)?;
                encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW)).map_err(broken)?;
                Coder::Zstd(Box::new(encoder))
            }
            Encoding::Br => Coder::Br(Box::new(CompressorWriter::new(
                out,
                BROTLI_BUFFER_BYTES,
                BROTLI_QUALITY,
                BROTLI_WINDOW,
            ))),
            Encoding::Gzip => {
                Coder::Gzip(Box::new(GzEncoder::new(out, Compression::new(GZIP_LEVEL))))
            }
        })
    }

    /// Swaps the output vector in or out of the encoder.
    fn swap(&mut self, out: &mut Vec<u8>) {
        match self {
            Coder::Zstd(encoder) => std::mem::swap(encoder.get_mut(), out),
            Coder::Br(encoder) => std::mem::swap(encoder.get_mut(), out),
            Coder::Gzip(encoder) => std::mem::swap(encoder.get_mut(), out),
            Coder::Done => {}
        }
    }

    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        match self {
            Coder::Zstd(encoder) => encoder.write_all(bytes).and_then(|()| encoder.flush()),
            Coder::Br(encoder) => encoder.write_all(bytes).and_then(|()| encoder.flush()),
            Coder::Gzip(encoder) => encoder.write_all(bytes).and_then(|()| encoder.flush()),
            Coder::Done => Ok(()),
        }
    }
}

impl BodyTransform for Coder {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        self.swap(out);
        let written = self.write(bytes);
        self.swap(out);
        written.map(|()| Fill::More).map_err(broken)
    }

    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        self.swap(out);
        *out = match std::mem::replace(self, Coder::Done) {
            Coder::Zstd(encoder) => encoder.finish().map_err(broken)?,
            Coder::Br(encoder) => encoder.into_inner(),
            Coder::Gzip(encoder) => encoder.finish().map_err(broken)?,
            Coder::Done => return Ok(()),
        };
        Ok(())
    }
}

/// Returns the fault for a failed encoder. It writes only to memory, so a failure is a defect.
fn broken(error: std::io::Error) -> Fault {
    Fault::new(Kind::Internal, format!("compress: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    pub(super) fn decoded(encoding: Encoding, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        match encoding {
            Encoding::Zstd => out = zstd::stream::decode_all(bytes).unwrap(),
            Encoding::Br => {
                brotli::Decompressor::new(bytes, 4096).read_to_end(&mut out).unwrap();
            }
            Encoding::Gzip => {
                flate2::read::GzDecoder::new(bytes).read_to_end(&mut out).unwrap();
            }
        }
        out
    }

    #[test]
    fn each_piece_is_encoded_at_once_and_nothing_is_lost() {
        for encoding in [Encoding::Zstd, Encoding::Br, Encoding::Gzip] {
            let mut coder = Coder::new(encoding).unwrap();
            let mut out = b"before".to_vec();
            let mut plain: Vec<u8> = Vec::new();
            for size in [1, 10, 1000, 100_000, 0, 3] {
                let piece: Vec<u8> =
                    (0..size).map(|i: u32| (i.wrapping_mul(i) / 7).to_le_bytes()[0]).collect();
                let before = out.len();
                coder.on_bytes(&piece, &mut out).unwrap();
                plain.extend(&piece);
                assert!(size == 0 || out.len() > before, "{encoding:?} held back {size} bytes");
            }
            coder.on_end(&mut out).unwrap();
            assert_eq!(&out[..6], b"before");
            assert!(decoded(encoding, &out[6..]) == plain, "{encoding:?}");
        }
    }
}
