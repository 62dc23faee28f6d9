//! Parses and writes chunk lines: `size[;name[=value]]... CR LF`. The parser takes one byte at a time.

use crate::token::{is_text_byte, is_token_byte};
use crate::{BODY_BYTES_MAX, Error};

/// The maximum length of a chunk line with its extensions. The longest extensions in common use are signatures of chunks, and such lines
/// have about 100 bytes.
pub const CHUNK_LINE_BYTES_MAX: usize = 256;

/// The maximum number of extension bytes in a body, in addition to one per payload byte. Body limits count only payload bytes, so without
/// this bound a peer could make the gateway read hundreds of extension bytes for each of them.
pub const EXTENSION_BYTES_MAX: u64 = 16 << 10;

/// The end of a chunked body without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the line that precedes `len` bytes of payload. The payload has to be followed by `\r\n`. Appends nothing for an
/// empty chunk, which would end the body.
pub fn chunk_header(len: usize, out: &mut Vec<u8>) {
    if len == 0 {
        return;
    }
    let digits = (usize::BITS - len.leading_zeros()).div_ceil(4);
    for digit in (0..digits).rev() {
        let nibble = (len >> (digit * 4)) & 0xf;
        out.push(b"0123456789abcdef".get(nibble).copied().unwrap_or(b'0'));
    }
    out.extend_from_slice(b"\r\n");
}

/// Appends the end of a chunked body. Each line in `trailers` must include its line end.
pub fn last_chunk(trailers: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"0\r\n");
    out.extend_from_slice(trailers);
    out.extend_from_slice(b"\r\n");
}

/// The state of parsing a chunk line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ChunkLine {
    at: At,
    size: u64,
    digits: u8,
    /// The number of bytes of the line so far.
    bytes: u16,
    /// Whether the current name or unquoted value has at least one byte.
    begun: bool,
}

/// The part of the line that the next byte belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Size,
    Name,
    Value,
    Quoted,
    Escaped,
    Closed,
    LineFeed,
}

/// A completely parsed chunk line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) size: u64,
    /// Bytes of the line other than the size and the line end.
    pub(crate) extension_bytes: u64,
}

impl ChunkLine {
    /// Takes the next byte. Returns the chunk line once it is complete.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Option<Chunk>, Error> {
        self.bytes += 1;
        if usize::from(self.bytes) > CHUNK_LINE_BYTES_MAX {
            return Err(Error::ChunkLineTooLong);
        }
        match self.at {
            At::Size => self.push_size(byte)?,
            At::LineFeed if byte == b'\n' => return Ok(Some(self.chunk())),
            At::LineFeed => return Err(Error::ChunkLineEnd),
            At::Name | At::Value | At::Quoted | At::Escaped | At::Closed => {
                self.at = self.extension(byte).ok_or(Error::ChunkExtension)?;
            }
        }
        Ok(None)
    }

    fn chunk(&self) -> Chunk {
        let plain = u64::from(self.digits) + 2;
        Chunk { size: self.size, extension_bytes: u64::from(self.bytes).saturating_sub(plain) }
    }

    fn push_size(&mut self, byte: u8) -> Result<(), Error> {
        match (byte, char::from(byte).to_digit(16)) {
            (_, Some(digit)) if self.digits < 16 => {
                self.digits += 1;
                self.size = self.size << 4 | u64::from(digit);
                // 16 digits may exceed the maximum, but never 64 bits.
                if self.size > BODY_BYTES_MAX {
                    return Err(Error::ChunkSize);
                }
            }
            (b'\r', _) if self.digits > 0 => self.at = At::LineFeed,
            (b';', _) if self.digits > 0 => self.at = At::Name,
            (b'\n', _) if self.digits > 0 => return Err(Error::ChunkLineEnd),
            _ => return Err(Error::ChunkSize),
        }
        Ok(())
    }

    /// Returns the part of the line after a byte of an extension, or `None` if the byte is not allowed. White space around `;` and `=` is
    /// refused, although the grammar allows it (`BWS` in RFC 9112, 7.1.1).
    fn extension(&mut self, byte: u8) -> Option<At> {
        let begun = std::mem::replace(&mut self.begun, false);
        match (self.at, byte) {
            (At::Name | At::Value, _) if is_token_byte(byte) => {
                self.begun = true;
                Some(self.at)
            }
            (At::Name, b'=') if begun => Some(At::Value),
            (At::Value, b'"') if !begun => Some(At::Quoted),
            (At::Quoted, b'"') => Some(At::Closed),
            (At::Quoted, b'\\') => Some(At::Escaped),
            (At::Quoted | At::Escaped, _) if is_text_byte(byte) => Some(At::Quoted),
            (At::Name | At::Value, b';') if begun => Some(At::Name),
            (At::Name | At::Value, b'\r') if begun => Some(At::LineFeed),
            (At::Closed, b';') => Some(At::Name),
            (At::Closed, b'\r') => Some(At::LineFeed),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &[u8], expected: Result<(u64, u64), Error>) {
        let mut reader = ChunkLine::default();
        let mut found = Err(Error::Truncated);
        for &byte in line {
            match reader.push(byte) {
                Ok(None) => {}
                Ok(Some(chunk)) => found = Ok((chunk.size, chunk.extension_bytes)),
                Err(error) => {
                    found = Err(error);
                    break;
                }
            }
        }
        assert_eq!(found, expected, "{}", line.escape_ascii());
    }

    #[test]
    fn lines() {
        check(b"0\r\n", Ok((0, 0)));
        check(b"5\r\n", Ok((5, 0)));
        check(b"fFa\r\n", Ok((0xffa, 0)));
        check(b"000000000000000a\r\n", Ok((10, 0)));
        check(b"7fffffffffffffff\r\n", Ok((BODY_BYTES_MAX, 0)));
        check(b"5;a\r\n", Ok((5, 2)));
        check(b"5;a=b;c\r\n", Ok((5, 6)));
        check(b"5;a=\"b c\\\"\xc3\xa9;\"\r\n", Ok((5, 13)));
        check(b"5;a=\"\";b=c\r\n", Ok((5, 9)));
    }

    #[test]
    fn sizes_refused() {
        for line in [
            &b"\r\n"[..],
            b";a\r\n",
            b"-1\r\n",
            b"+5\r\n",
            b"0x5\r\n",
            b"5_0\r\n",
            b" 5\r\n",
            b"5 \r\n",
            b"5\t\r\n",
            b"5h\r\n",
            b"FFFFFFFFFFFFFFFF0\r\n",
            b"ffffffffffffffff\r\n",
            b"5\0\r\n",
            b"00000000000000005\r\n",
            b"5,5\r\n",
            b"5.\r\n",
            b"\n",
        ] {
            check(line, Err(Error::ChunkSize));
        }
    }

    #[test]
    fn ends_refused() {
        check(b"5\n", Err(Error::ChunkLineEnd));
        check(b"5\rh", Err(Error::ChunkLineEnd));
        check(b"5\r\r\n", Err(Error::ChunkLineEnd));
        check(b"5;a\rX", Err(Error::ChunkLineEnd));
        check(b"5;a=\"b\"\rX", Err(Error::ChunkLineEnd));
    }

    #[test]
    fn extensions_refused() {
        for line in [
            &b"5;\r\n"[..],
            b"5;;\r\n",
            b"5;a;\r\n",
            b"5;\n",
            b"5;a\n",
            b"5;a=\r\n",
            b"5;=b\r\n",
            b"5;a=b=c\r\n",
            b"5;bad[=x\r\n",
            b"5;\0ext\r\n",
            b"5; a\r\n",
            b"5;a \r\n",
            b"5;a= b\r\n",
            b"5;a=\"b\r\n",
            b"5;a=\"b\"c\r\n",
            b"5;a=b\"c\"\r\n",
            b"5;a=\"\\\r\n",
            b"5;\r\r\n",
        ] {
            check(line, Err(Error::ChunkExtension));
        }
        let long = [b"5;", &[b'a'; CHUNK_LINE_BYTES_MAX][..], b"\r\n"].concat();
        check(&long, Err(Error::ChunkLineTooLong));
    }

    #[test]
    fn headers() {
        for (len, expected) in
            [(0, ""), (1, "1\r\n"), (15, "f\r\n"), (16, "10\r\n"), (500, "1f4\r\n")]
        {
            let mut out = Vec::new();
            chunk_header(len, &mut out);
            assert_eq!(out, expected.as_bytes());
        }
        let mut out = Vec::new();
        chunk_header(usize::MAX, &mut out);
        assert_eq!(out, b"ffffffffffffffff\r\n");
    }

    #[test]
    fn ends() {
        let mut out = Vec::new();
        last_chunk(b"", &mut out);
        assert_eq!(out, LAST_CHUNK);
        out.clear();
        last_chunk(b"A: b\r\n", &mut out);
        assert_eq!(out, b"0\r\nA: b\r\n\r\n");
    }
}
