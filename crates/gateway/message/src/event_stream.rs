//! Finds the ends of server-sent events in transit, however the bytes are split (WHATWG HTML, 9.2.5 and 9.2.6).

use memchr::memchr2;

/// Finds the ends of the blocks in an event stream. A block is a group of lines up to and including an empty one. Lines end with CR, LF or
/// both.
#[derive(Debug, Clone, Copy)]
pub struct EventScanner {
    line: Line,
    /// Number of bytes of a byte order mark received so far, or [`MARK_OVER`] once anything else has been received.
    mark: u8,
    /// Whether the last byte was a CR, so that an LF that comes next belongs to the same line end.
    after_cr: bool,
    /// Whether no byte has come since the last empty line.
    is_between: bool,
    has_data: bool,
}

/// A complete block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Number of the given bytes up to the end of the block.
    pub len: usize,
    /// Whether the block has a `data` field, so that it is an event for the reader. A comment has none.
    pub is_event: bool,
}

/// The part of the current line received so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line {
    /// A prefix of [`DATA`] of this many bytes.
    Name(u8),
    /// Anything else; the rest of the line is irrelevant.
    Rest,
}

const DATA: &[u8] = b"data";

/// A stream may begin with this mark, which readers skip.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

impl Default for EventScanner {
    fn default() -> EventScanner {
        let line = Line::Name(0);
        EventScanner { line, mark: 0, after_cr: false, is_between: true, has_data: false }
    }
}

impl EventScanner {
    /// Returns true if no byte has come since the last block ended.
    pub fn is_between(&self) -> bool {
        self.is_between
    }

    /// Scans to the end of the current block, and returns the block. Returns `None` if the bytes end first. The next call must pass the
    /// bytes that follow those scanned.
    pub fn next_block(&mut self, bytes: &[u8]) -> Option<Block> {
        let mut at = 0;
        while let Some(byte) = bytes.get(at).copied() {
            if std::mem::take(&mut self.after_cr) && byte == b'\n' {
                at += 1;
                continue;
            }
            match (self.line, byte) {
                (Line::Name(0), b'\r' | b'\n') => {
                    let has_lf = byte == b'\r' && bytes.get(at + 1) == Some(&b'\n');
                    self.after_cr = byte == b'\r' && !has_lf;
                    return Some(Block { len: at + 1 + usize::from(has_lf), is_event: self.end() });
                }
                (Line::Name(named), b'\r' | b'\n' | b':') => {
                    self.has_data |= usize::from(named) == DATA.len();
                    self.line = if byte == b':' { Line::Rest } else { Line::Name(0) };
                    self.after_cr = byte == b'\r';
                    at += 1;
                }
                (Line::Name(0), _) if self.is_mark(byte) => {
                    self.mark += 1;
                    at += 1;
                    continue;
                }
                (Line::Name(named), _) => {
                    self.line = match DATA.get(usize::from(named)) {
                        Some(expected) if *expected == byte => Line::Name(named + 1),
                        Some(_) | None => Line::Rest,
                    };
                    at += 1;
                }
                (Line::Rest, _) => {
                    let rest = bytes.get(at..).unwrap_or_default();
                    let end = memchr2(b'\r', b'\n', rest)?;
                    self.after_cr = rest.get(end) == Some(&b'\r');
                    self.line = Line::Name(0);
                    at += end + 1;
                }
            }
            self.is_between = false;
            self.mark = MARK_OVER;
        }
        None
    }

    /// Ends the block. Returns true if it is an event.
    fn end(&mut self) -> bool {
        self.is_between = true;
        self.mark = MARK_OVER;
        std::mem::take(&mut self.has_data)
    }

    /// Returns true if the byte continues a byte order mark at the beginning of the stream.
    fn is_mark(&self, byte: u8) -> bool {
        BYTE_ORDER_MARK.get(usize::from(self.mark)) == Some(&byte)
    }
}

/// The value of `mark` once another byte has been received.
const MARK_OVER: u8 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    /// Splits a stream into pieces of this many bytes. Returns the blocks, each with its text and whether it is an event, and the rest.
    fn blocks(stream: &str, piece: usize) -> (Vec<(String, bool)>, String) {
        let (mut scanner, mut blocks, mut held) = (EventScanner::default(), Vec::new(), Vec::new());
        for piece in stream.as_bytes().chunks(piece) {
            let mut rest = piece;
            while let Some(block) = scanner.next_block(rest) {
                let (ended, after) = rest.split_at(block.len);
                held.extend_from_slice(ended);
                blocks
                    .push((String::from_utf8(std::mem::take(&mut held)).unwrap(), block.is_event));
                rest = after;
            }
            held.extend_from_slice(rest);
        }
        (blocks, String::from_utf8(held).unwrap())
    }

    #[test]
    fn blocks_end_at_empty_lines_and_events_have_data() {
        for (stream, expected, rest) in [
            ("", vec![], ""),
            ("data: 1\n\n", vec![("data: 1\n\n", true)], ""),
            ("data: 1\r\n\r\n", vec![("data: 1\r\n\r\n", true)], ""),
            ("data: 1\r\rdata", vec![("data: 1\r\r", true)], "data"),
            ("data: 1\n\r\n", vec![("data: 1\n\r\n", true)], ""),
            ("data\n\ndata\r\r", vec![("data\n\n", true), ("data\r\r", true)], ""),
            ("id: 1\ndata:\n\nx", vec![("id: 1\ndata:\n\n", true)], "x"),
            (": ping\n\n", vec![(": ping\n\n", false)], ""),
            (":\n\n:data: x\n\n", vec![(":\n\n", false), (":data: x\n\n", false)], ""),
            ("database: 1\n\n", vec![("database: 1\n\n", false)], ""),
            ("dat: 1\ndat\n\n", vec![("dat: 1\ndat\n\n", false)], ""),
            (" data: 1\n\n", vec![(" data: 1\n\n", false)], ""),
            ("event: data\nretry: 1\n\n", vec![("event: data\nretry: 1\n\n", false)], ""),
            ("id: 1\n\ndata: 2\n\n", vec![("id: 1\n\n", false), ("data: 2\n\n", true)], ""),
            ("\u{feff}data: 1\n\n", vec![("\u{feff}data: 1\n\n", true)], ""),
            ("\u{feff}\ndata: 1\n\n", vec![("\u{feff}\n", false), ("data: 1\n\n", true)], ""),
            (
                "data: 1\n\n\u{feff}data: 2\n\n",
                vec![("data: 1\n\n", true), ("\u{feff}data: 2\n\n", false)],
                "",
            ),
            ("data: 1\n\ndata: 2\n", vec![("data: 1\n\n", true)], "data: 2\n"),
            ("data: a\ndata: b\n\n", vec![("data: a\ndata: b\n\n", true)], ""),
        ] {
            let expected: Vec<_> = expected.iter().map(|(b, e)| ((*b).to_owned(), *e)).collect();
            assert_eq!(blocks(stream, 1000), (expected.clone(), rest.to_owned()), "{stream:?}");
            for piece in 1..6 {
                let (found, _) = blocks(stream, piece);
                let events = |blocks: &[(String, bool)]| -> Vec<bool> {
                    blocks.iter().map(|(_, is_event)| *is_event).collect()
                };
                assert_eq!(events(&found), events(&expected), "{stream:?} by {piece}");
                let lines = |blocks: &[(String, bool)]| -> Vec<String> {
                    blocks.iter().map(|(block, _)| block.replace(['\r', '\n'], "")).collect()
                };
                assert_eq!(lines(&found), lines(&expected), "{stream:?} by {piece}");
            }
        }
    }

    #[test]
    fn an_lf_after_a_cr_of_the_previous_call_is_not_another_line() {
        let mut scanner = EventScanner::default();
        let ended = |len, is_event| Some(Block { len, is_event });
        assert_eq!(scanner.next_block(b"data: 1\r\n\r"), ended(10, true));
        assert_eq!(scanner.next_block(b"\n"), None);
        assert!(scanner.is_between());
        assert_eq!(scanner.next_block(b"data"), None);
        assert!(!scanner.is_between());
        assert_eq!(scanner.next_block(b"\n\n"), ended(2, true));
    }
}
