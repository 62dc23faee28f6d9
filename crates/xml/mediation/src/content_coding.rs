//! The content codings of a message: reading their names from the header lines, and decoding.

use std::io::{self, Read};

use flate2::Decompress;
use flate2::read::{MultiGzDecoder, ZlibDecoder};
use kit::turns;
use message::Headers;

/// Returns the codings of a body from all `Content-Encoding` lines, in the order they were applied, or `None` if there are none.
pub fn named(headers: &Headers) -> Option<String> {
    let mut named: Option<String> = None;
    for name in names(headers) {
        let all = named.get_or_insert_default();
        all.push_str(if all.is_empty() { "" } else { ", " });
        // Harmless: a name that is not UTF-8 is not a known coding either way.
        all.push_str(&String::from_utf8_lossy(name).to_ascii_lowercase());
    }
    named
}

/// Returns true if a body has a coding, so that [`named`] returns it.
pub fn is_coded(headers: &Headers) -> bool {
    names(headers).next().is_some()
}

/// The members of all `Content-Encoding` lines. Empty ones mean nothing (RFC 9110, 5.6.1), and neither does `identity`.
fn names(headers: &Headers) -> impl Iterator<Item = &[u8]> {
    let members = headers.get_all("content-encoding").flat_map(|line| line.split(|b| *b == b','));
    let names = members.map(<[u8]>::trim_ascii);
    names.filter(|name| !name.is_empty() && !name.eq_ignore_ascii_case(b"identity"))
}

/// Returns true if a body in the coding `deflate` that begins with these bytes has the zlib wrapper that RFC 9110, 8.4.1.2 requires. Some
/// servers send raw deflate data, and browsers accept both. In a wrapper, the low four bits of the first byte are the method, always 8. In
/// raw data, those bits would begin an uncompressed block with nonzero padding, which no encoder writes.
pub fn is_wrapped(bytes: &[u8]) -> bool {
    bytes.first().is_none_or(|byte| byte & 0x0f == 8)
}

/// A coding that can be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Coding {
    Gzip,
    Deflate,
    Brotli,
}

/// The reason why a body was not decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes are not valid in this coding.
    Malformed,
    /// The decoded body exceeds the limit.
    TooLarge,
    /// There is not enough memory (`kit::memory`).
    NoRoom,
}

/// Number of bytes decoded between two checks of the clock; takes less than a tenth of a millisecond.
const PIECE_BYTES: u64 = 32 << 10;

/// The size of the decoder's buffer.
const BUFFER_BYTES: usize = 16 << 10;

impl Coding {
    /// Returns the coding with this name, as [`named`] writes it, or `None` if the name is unknown or lists several codings.
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

    /// Decodes a body, to at most `bytes_max` bytes.
    pub fn decode(self, bytes: &[u8], bytes_max: usize) -> Result<Vec<u8>, DecodeError> {
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
        let mut out = Vec::new();
        let read = match self {
            // Harmless: reading one byte more than allowed shows that the body is too large.
            Coding::Gzip => gather(MultiGzDecoder::new(bytes).take(limit), &mut out),
            Coding::Deflate => {
                let inflate = Decompress::new(is_wrapped(bytes));
                let decoder = ZlibDecoder::new_with_decompress(bytes, inflate);
                // Harmless: reading one byte more than allowed shows that the body is too large.
                gather(decoder.take(limit), &mut out)
            }
            Coding::Brotli => {
                // Harmless: reading one byte more than allowed shows that the body is too large.
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

/// Reads to the end in pieces, because a few compressed bytes may expand to many megabytes. Fails with `OutOfMemory` if memory is short.
fn gather(mut decoder: impl Read, out: &mut Vec<u8>) -> io::Result<()> {
    // Harmless: the loop reads the next piece.
    while (&mut decoder).take(PIECE_BYTES).read_to_end(out)? > 0 {
        // The vector doubles when it grows, and for a moment both copies exist.
        if !kit::memory::has_room(out.len()) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        turns::pause_if_due();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_is_coded_exactly_if_its_codings_have_names() {
        for (lines, expected) in [
            (&[][..], None),
            (&["identity"], None),
            (&["Identity, identity"], None),
            (&["", " , "], None),
            (&["GZIP"], Some("gzip")),
            (&["identity, gzip"], Some("gzip")),
            (&["gzip,br", "deflate"], Some("gzip, br, deflate")),
        ] {
            let mut headers = Headers::new();
            for line in lines {
                headers.add("content-encoding", line.as_bytes()).unwrap();
            }
            assert_eq!(named(&headers).as_deref(), expected, "{lines:?}");
            assert_eq!(is_coded(&headers), expected.is_some(), "{lines:?}");
        }
    }
}
