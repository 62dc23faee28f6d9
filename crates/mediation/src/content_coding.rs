//! The content codings of a message, as its lines name them, and how they are taken off.

use std::io::{self, Read};

use flate2::Decompress;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use kit::turns;
use message::Headers;

/// The codings of a body in the order they were put on, of all lines; nothing where there are none.
pub fn named(headers: &Headers) -> Option<String> {
    let mut names: Option<String> = None;
    for line in headers.get_all("content-encoding") {
        // Harmless: no coding has a name with other bytes.
        for name in String::from_utf8_lossy(line).split(',').map(str::trim) {
            if !name.is_empty() && !name.eq_ignore_ascii_case("identity") {
                let all = names.get_or_insert_default();
                all.push_str(if all.is_empty() { "" } else { ", " });
                all.push_str(&name.to_ascii_lowercase());
            }
        }
    }
    names
}

/// Whether a body in the coding `deflate`, which begins with these bytes, has the wrapper of RFC 9110, 8.4.1.2. Some servers send it
/// bare, and browsers read both. The low half of a wrapper's first byte says the method, 8. Bare, that would be the beginning of a block
/// without compression, whose padding nobody fills.
pub fn is_wrapped(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|byte| byte & 0x0f == 8)
}

/// A coding that can be taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Deflate,
    Brotli,
}

/// The reason why a coding was not taken off.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not of the coding.
    Malformed,
    /// The body is over the bound without its coding.
    TooLarge,
    /// There is no memory for it (`kit::memory`).
    NoRoom,
}

/// Bytes that are decoded between two looks at the clock: less than a tenth of a millisecond.
const PIECE_BYTES: u64 = 32 << 10;

/// The size of the decoder's buffer.
const BUFFER_BYTES: usize = 16 << 10;

impl Coding {
    /// The one coding of a body, by [`named`]; nothing for any other, and for several.
    pub fn of(name: &str) -> Option<Coding> {
        match name {
            "gzip" | "x-gzip" => Some(Coding::Gzip),
            "deflate" => Some(Coding::Deflate),
            "br" => Some(Coding::Brotli),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Coding::Gzip => "gzip",
            Coding::Deflate => "deflate",
            Coding::Brotli => "br",
        }
    }

    /// The body without its coding, of at most `bytes_max` bytes.
    pub fn decode(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let mut out = Vec::new();
        let read = match self {
            // Harmless: one byte more than may be shows that there is more.
            Coding::Gzip => gather(MultiGzDecoder::new(bytes).take(limit), &mut out),
            Coding::Deflate => {
                let inflate = Decompress::new(is_wrapped(bytes));
                let decoder = ZlibDecoder::new_with_decompress(bytes, inflate);
                // Harmless: as above.
                gather(decoder.take(limit), &mut out)
            }
            Coding::Brotli => {
                // Harmless: as above.
                gather(brotli::Decompressor::new(bytes, BUFFER_BYTES).take(limit), &mut out)
            }
        };
        match (read, out.len() > bytes_max) {
            (Err(error), _) if error.kind() == io::ErrorKind::OutOfMemory => {
                Err(DecodeError::NoRoom)
            }
            (Err(_), _) => Err(DecodeError::Malformed),
            (Ok(_), true) => Err(DecodeError::TooLarge),
            (Ok(_), false) => Ok(out),
        }
    }
}

/// Reads to the end in pieces: a few bytes may stand for many megabytes. Without memory for more it ends with an error of that kind.
fn gather(mut decoder: impl Read, out: &mut Vec<u8>) -> io::Result<()> {
    // Harmless: the loop reads on.
    while (&mut decoder).take(PIECE_BYTES).read_to_end(out)? > 0 {
        // It grows to twice its size, and is moved.
        if !kit::memory::has_room(out.len()) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        turns::pause_if_due();
    }
    Ok(())
}
