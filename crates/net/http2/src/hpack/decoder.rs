//! Decodes header blocks (RFC 7541, 3 and 6).

use super::table::Table;
use super::{huffman, integer};
use crate::{Code, Error};

const CUT: Error = Error::new(Code::COMPRESSION_ERROR, "a truncated block of header lines");

/// The state for decoding a connection's blocks, one after the other.
#[derive(Default)]
pub(crate) struct Decoder {
    table: Table,
    /// Name and value of the current line.
    text: Vec<u8>,
}

/// The maximum capacity of `text` kept after a block. Larger buffers are freed.
const TEXT_BYTES_KEPT: usize = 1024;

impl Decoder {
    /// Decodes a block, and passes each line to `line`. After an error, the connection cannot be used.
    pub(crate) fn decode(
        &mut self,
        mut block: &[u8],
        mut line: impl FnMut(&[u8], &[u8]),
    ) -> Result<(), Error> {
        let mut begun = false;
        while let Some(&first) = block.first() {
            match first {
                0x80.. => {
                    let (name, value) = self.table.get(integer::take(&mut block, 7)?)?;
                    line(name, value);
                }
                0x40.. => {
                    let name_len = self.literal(&mut block, 6)?;
                    self.table.insert(&self.text, name_len);
                    let (name, value) = self.text.split_at_checked(name_len).ok_or(CUT)?;
                    line(name, value);
                }
                0x20.. if begun => {
                    return Err(Error::new(
                        Code::COMPRESSION_ERROR,
                        "a table size update that is not at the beginning of a block",
                    ));
                }
                0x20.. => {
                    self.table.resize(integer::take(&mut block, 5)?)?;
                    continue;
                }
                _ => {
                    let name_len = self.literal(&mut block, 4)?;
                    let (name, value) = self.text.split_at_checked(name_len).ok_or(CUT)?;
                    line(name, value);
                }
            }
            begun = true;
        }
        if self.text.capacity() > TEXT_BYTES_KEPT {
            self.text = Vec::new();
        }
        Ok(())
    }

    /// Reads a literal line. Returns the length of its name.
    fn literal(&mut self, block: &mut &[u8], prefix: u32) -> Result<usize, Error> {
        self.text.clear();
        match integer::take(block, prefix)? {
            0 => string(block, &mut self.text)?,
            index => self.text.extend_from_slice(self.table.get(index)?.0),
        }
        let name_len = self.text.len();
        string(block, &mut self.text)?;
        Ok(name_len)
    }
}

/// Decodes a string (5.2), and appends it.
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), Error> {
    let is_huffman = block.first().ok_or(CUT)? & 0x80 != 0;
    let len = integer::take(block, 7)?;
    let (text, rest) = block.split_at_checked(len).ok_or(CUT)?;
    *block = rest;
    if is_huffman {
        huffman::decode(text, out)
    } else {
        out.extend_from_slice(text);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unhex(text: &str) -> Vec<u8> {
        let digits: Vec<u8> = text.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        let byte =
            |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    #[track_caller]
    fn lines(decoder: &mut Decoder, block: &str) -> Result<String, Error> {
        let mut out = String::new();
        decoder.decode(&unhex(block), |name, value| {
            out += &format!("{}: {}\n", name.escape_ascii(), value.escape_ascii());
        })?;
        Ok(out)
    }

    /// RFC 7541, C.3 and C.4: three requests on one connection, plain and Huffman-coded.
    #[test]
    fn the_requests_of_the_rfc_are_decoded() {
        let plain = [
            "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
            "8286 84be 5808 6e6f 2d63 6163 6865",
            "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
        ];
        let coded = [
            "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
            "8286 84be 5886 a8eb 1064 9cbf",
            "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
        ];
        let expected = [
            ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\n",
            ":method: GET\n:scheme: http\n:path: /\n:authority: www.example.com\ncache-control: no-cache\n",
            ":method: GET\n:scheme: https\n:path: /index.html\n:authority: www.example.com\ncustom-key: custom-value\n",
        ];
        for blocks in [plain, coded] {
            let mut decoder = Decoder::default();
            for (block, expected) in blocks.iter().zip(expected) {
                assert_eq!(lines(&mut decoder, block).unwrap(), expected);
            }
        }
    }

    #[test]
    fn malformed_blocks_are_refused() {
        let bad = [
            ("80", "the index 0"),
            ("be", "an entry that was never added"),
            ("40", "no name"),
            ("400161", "no value"),
            ("4001610a", "a truncated value"),
            ("3fe21f", "a table of 4,097 bytes"),
            ("8220", "a new size after a line"),
            ("ff8080808001", "an endless index"),
        ];
        for (block, what) in bad {
            let error = lines(&mut Decoder::default(), block).unwrap_err();
            assert_eq!(error.code, Code::COMPRESSION_ERROR, "{what}");
        }
    }

    #[test]
    fn the_table_evicts_its_oldest_entries() {
        let mut decoder = Decoder::default();
        // Entries have 34 bytes and the table 40, so the second entry evicts the first.
        assert_eq!(
            lines(&mut decoder, "3f09 4001610162 4001630164 be").unwrap(),
            "a: b\nc: d\nc: d\n"
        );
        assert!(lines(&mut decoder, "bf").is_err());
        let mut decoder = Decoder::default();
        assert_eq!(lines(&mut decoder, "20 4001610162").unwrap(), "a: b\n");
        assert!(lines(&mut decoder, "be").is_err(), "a table of size 0 keeps nothing");
    }
}
