//! Header lines as offsets into the received bytes.

use std::borrow::Cow;
use std::cell::RefCell;
use std::iter::successors;

use http1::{Line, Span};
use kit::pack::{self, SpareVectors};

thread_local! {
    static BYTES: SpareVectors<u8> = const { RefCell::new(Vec::new()) };
    static LINES: SpareVectors<Line> = const { RefCell::new(Vec::new()) };
}

/// Lends the thread's reusable list of lines to parse a head into.
pub fn with_lines<R>(parse: impl FnOnce(&mut Vec<Line>) -> R) -> R {
    let mut lines = pack::take(&LINES);
    let result = parse(&mut lines);
    pack::give(&LINES, lines);
    result
}

/// Room for the lines that the gateway usually adds, so that the bytes are not moved when it does.
const ADDED_BYTES: usize = 256;

/// The number of earlier notes that a new removal note is compared with. Consecutive steps of one kind remove the same names; comparing all
/// notes could be slow.
const NOTES_COMPARED: usize = 4;

/// The lines of a head, in order. Removing a line drops its offsets; adding one appends to the bytes.
#[derive(Debug, Default)]
pub struct Headers {
    bytes: Vec<u8>,
    lines: Vec<Line>,
    /// One bit for each length that a name has, or had before it was removed. Most names that are looked up are absent, and most of those
    /// differ in length from all names that are present.
    lengths: u32,
    /// The end of the last note about removed names, or 0. A note is stored among the bytes, whether or not the names were present: one or
    /// several names on lines of their own, their length, and the end of the previous note. A separate list would make heads too large to
    /// be moved cheaply.
    removed: u32,
}

/// A name or value that cannot be written into a head without changing its meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidLine;

/// The names of [`Headers::decided`], each followed by a line end.
pub struct DecidedNames(Vec<u8>);

/// A complete header line with its line end, which is appended in one copy. Used for lines that many messages get.
#[derive(Debug, Clone)]
pub struct WholeLine {
    text: Cow<'static, str>,
    name_len: usize,
}

impl WholeLine {
    /// Makes a line. `text` must be valid: a name, `: `, a value and a line end.
    pub const fn fixed(text: &'static str) -> WholeLine {
        let (mut rest, mut name_len) = (text.as_bytes(), 0);
        while let [byte, after @ ..] = rest
            && *byte != b':'
        {
            (rest, name_len) = (after, name_len + 1);
        }
        WholeLine { text: Cow::Borrowed(text), name_len }
    }

    /// Makes a line. Name and value must be valid.
    pub fn new(name: &str, value: &str) -> WholeLine {
        debug_assert!(http1::is_token(name.as_bytes()) && http1::is_header_value(value.as_bytes()));
        WholeLine { text: format!("{name}: {value}\r\n").into(), name_len: name.len() }
    }
}

/// Names that are removed together; see [`Headers::remove_all`].
pub struct Names<const N: usize> {
    each: [&'static str; N],
    /// The bits of the lengths of the names.
    lengths: u32,
    /// The names, with line ends between them.
    all: &'static str,
}

impl<const N: usize> Names<N> {
    /// Creates the list. The names must be in lower case, and `all` must be the same names with line ends between them.
    pub const fn new(each: [&'static str; N], all: &'static str) -> Names<N> {
        let (mut lengths, mut rest) = (0, each.as_slice());
        while let [name, others @ ..] = rest {
            lengths |= length_bit(name.len());
            rest = others;
        }
        Names { each, lengths, all }
    }

    pub fn each(&self) -> [&'static str; N] {
        self.each
    }

    pub fn all(&self) -> &'static str {
        self.all
    }
}

impl DecidedNames {
    /// Returns the trailer lines whose names are not among these, in any spelling.
    pub fn others(&self, trailers: Vec<u8>) -> Vec<u8> {
        let is_decided = |line: &&[u8]| {
            let name = line.split(|b| *b == b':').next().unwrap_or_default();
            self.0.split(|b| *b == b'\n').any(|decided| http1::is_alias(decided, name))
        };
        let mut lines = trailers.split_inclusive(|b| *b == b'\n');
        if lines.any(|line| is_decided(&line)) {
            let lines = trailers.split_inclusive(|b| *b == b'\n');
            lines.filter(|line| !is_decided(line)).collect::<Vec<&[u8]>>().concat()
        } else {
            trailers
        }
    }
}

impl Headers {
    /// Returns an empty head that reuses the memory of an earlier one.
    pub fn new() -> Headers {
        let (bytes, lines) = Headers::memory();
        Headers::of(bytes, lines)
    }

    /// Returns the memory of an earlier head, for the bytes and lines of a new one.
    pub fn memory() -> (Vec<u8>, Vec<Line>) {
        (pack::take(&BYTES), pack::take(&LINES))
    }

    /// Creates a head. The offsets in `lines` must refer to `bytes`.
    pub fn of(bytes: Vec<u8>, lines: Vec<Line>) -> Headers {
        let lengths = lines.iter().fold(0, |all, line| all | length_bit(line.name.len()));
        Headers { bytes, lines, lengths, removed: 0 }
    }

    /// Copies a parsed head out of the buffer that it was read into. The offsets in `lines` must refer to `bytes`.
    pub fn copied(bytes: &[u8], lines: &[Line]) -> Headers {
        let mut headers = Headers::new();
        headers.bytes.reserve(bytes.len() + ADDED_BYTES);
        headers.bytes.extend_from_slice(bytes);
        headers.lines.extend_from_slice(lines);
        headers.lengths = lines.iter().fold(0, |all, line| all | length_bit(line.name.len()));
        headers
    }

    /// Returns the first value of a header.
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        let mut lines = self.candidates(name).iter();
        lines.find(|line| self.is_named(line, name)).map(|line| line.value.of(&self.bytes))
    }

    /// Returns every value of a header, in order.
    pub fn get_all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
        let lines = self.candidates(name).iter();
        lines.filter(move |line| self.is_named(line, name)).map(|line| line.value.of(&self.bytes))
    }

    /// Returns the value of a header; the values of several lines are joined by `, `. Returns `None` if the header is absent.
    pub fn get_joined<'a>(&'a self, name: &'a str) -> Option<Cow<'a, [u8]>> {
        let mut lines = self.get_all(name);
        let mut joined = Cow::Borrowed(lines.next()?);
        for line in lines {
            let all = joined.to_mut();
            all.extend_from_slice(b", ");
            all.extend_from_slice(line);
        }
        Some(joined)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.candidates(name).iter().any(|line| self.is_named(line, name))
    }

    /// Returns names and values, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.lines.iter().map(|line| (line.name.of(&self.bytes), line.value.of(&self.bytes)))
    }

    /// Returns the number of lines.
    pub fn len(&self) -> usize {
        self.lines.len()
    }

    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Removes every line with this name, including spellings with `_` for `-`. CGI maps both spellings to one name, so a header removed
    /// under one spelling must not come back under the other. The name is usually absent, or present once.
    pub fn remove(&mut self, name: &str) {
        self.note_removed(name);
        self.drop_lines(name);
    }

    /// Removes several names. Steps of a route do this for every message, usually without finding any of the names.
    pub fn remove_all<const N: usize>(&mut self, names: &Names<N>) {
        self.note_removed(names.all());
        if self.has_any(names) {
            names.each.iter().for_each(|name| self.drop_lines(name));
        }
    }

    /// Returns true if a line has one of these names, in any spelling.
    pub fn has_any<const N: usize>(&self, names: &Names<N>) -> bool {
        self.lengths & names.lengths != 0
            && self.lines.iter().any(|line| {
                names.lengths & length_bit(line.name.len()) != 0
                    && names.each.iter().any(|name| self.is_alias(line, name))
            })
    }

    fn drop_lines(&mut self, name: &str) {
        let mut lines = self.candidates(name).iter();
        let Some(first) = lines.position(|line| self.is_alias(line, name)) else {
            return;
        };
        self.lines.remove(first);
        if self.lines.iter().skip(first).any(|line| self.is_alias(line, name)) {
            self.retain(|n, _| !http1::is_alias(n, name.as_bytes()));
        }
    }

    fn note_removed(&mut self, name: &str) {
        // Harmless: noting a name twice has no effect.
        if self.removed().take(NOTES_COMPARED).any(|noted| noted == name.as_bytes()) {
            return;
        }
        let (len, before) = (at(name.len()).to_le_bytes(), self.removed.to_le_bytes());
        self.removed = self.append(&[name.as_bytes(), &len, &before]).end;
    }

    /// Returns the names in the note that ends at `end`, and the end of the previous note.
    fn removed_before(&self, end: u32) -> Option<(&[u8], u32)> {
        let (rest, before) = self.bytes.get(..end as usize)?.split_last_chunk()?;
        let (rest, len) = rest.split_last_chunk()?;
        let start = rest.len().checked_sub(u32::from_le_bytes(*len) as usize)?;
        Some((rest.get(start..)?, u32::from_le_bytes(*before)))
    }

    /// Returns the notes, newest first.
    fn removed(&self) -> impl Iterator<Item = &[u8]> {
        let last = self.removed_before(self.removed);
        successors(last, |(_, before)| self.removed_before(*before)).map(|(name, _)| name)
    }

    /// Returns the names that are decided by this head: those of its lines, and those that were removed from it. A recipient that merges
    /// trailers into headers would take a trailer with such a name for another value of the header.
    pub fn decided(&self) -> DecidedNames {
        let lines = self.lines.iter().map(|line| line.name.of(&self.bytes));
        let mut names = Vec::new();
        for name in lines.chain(self.removed()) {
            names.extend_from_slice(name);
            names.push(b'\n');
        }
        DecidedNames(names)
    }

    /// Keeps the lines for which `keep(name, value)` holds.
    pub fn retain(&mut self, mut keep: impl FnMut(&[u8], &[u8]) -> bool) {
        let bytes = &self.bytes;
        self.lines.retain(|line| keep(line.name.of(bytes), line.value.of(bytes)));
    }

    /// Makes this the only line with its name.
    pub fn set(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidLine> {
        self.drop_lines(name);
        self.add(name, value)
    }

    /// Appends a line.
    pub fn add(&mut self, name: &str, value: &[u8]) -> Result<(), InvalidLine> {
        self.add_joined(name, &[value])
    }

    /// Appends a line whose value is the concatenation of the parts.
    pub fn add_joined(&mut self, name: &str, value: &[&[u8]]) -> Result<(), InvalidLine> {
        let valid =
            http1::is_token(name.as_bytes()) && value.iter().all(|v| http1::is_header_value(v));
        if !valid {
            return Err(InvalidLine);
        }
        self.append_line(name, value);
        Ok(())
    }

    /// Appends a line without checks. Name and value must be valid: constants, or taken from a parsed header. Checking all of them again
    /// would cost a request more than finding its route.
    pub fn add_known(&mut self, name: &str, value: &[u8]) {
        debug_assert!(http1::is_token(name.as_bytes()) && http1::is_header_value(value));
        self.append_line(name, &[value]);
    }

    /// Appends a complete line.
    pub fn add_line(&mut self, line: &WholeLine) {
        self.add_whole(line.text.as_bytes(), line.name_len);
    }

    /// Makes this the only line with its name. `line` must be complete and valid: the name, `: `, a value and a line end.
    pub fn set_line(&mut self, name: &str, line: &[u8]) {
        debug_assert!(line.starts_with(name.as_bytes()) && line.ends_with(b"\r\n"));
        self.drop_lines(name);
        self.add_whole(line, name.len());
    }

    fn add_whole(&mut self, line: &[u8], name_len: usize) {
        let whole = self.append(&[line]);
        let name_end = whole.start.saturating_add(at(name_len));
        let name = Span { start: whole.start, end: name_end };
        let value = Span { start: name_end.saturating_add(2), end: whole.end.saturating_sub(2) };
        self.lines.push(Line { line: whole, name, value });
        self.lengths |= length_bit(name_len);
    }

    /// Appends a line with the value of another line, if that line exists.
    pub fn add_copy(&mut self, name: &'static str, of: &str) {
        let mut lines = self.candidates(of).iter();
        let Some(line) = lines.find(|line| self.is_named(line, of)) else { return };
        let value = line.value.start as usize..line.value.end as usize;
        self.bytes.reserve(name.len() + value.len() + 4);
        let name = self.append(&[name.as_bytes()]);
        self.bytes.extend_from_slice(b": ");
        let value_start = at(self.bytes.len());
        self.bytes.extend_from_within(value);
        self.close_line(name, value_start);
    }

    /// Appends all lines of another head, unchanged.
    pub fn add_all(&mut self, other: &Headers) {
        let by = at(self.bytes.len());
        let moved = |span: Span| Span {
            start: span.start.saturating_add(by),
            end: span.end.saturating_add(by),
        };
        self.bytes.extend_from_slice(&other.bytes);
        let lines = other.lines.iter().map(|line| Line {
            line: moved(line.line),
            name: moved(line.name),
            value: moved(line.value),
        });
        self.lines.extend(lines);
        self.lengths |= other.lengths;
    }

    fn append_line(&mut self, name: &str, value: &[&[u8]]) {
        self.bytes.reserve(name.len() + value.iter().map(|v| v.len()).sum::<usize>() + 4);
        let name_span = self.append(&[name.as_bytes()]);
        self.bytes.extend_from_slice(b": ");
        let value_start = at(self.bytes.len());
        value.iter().for_each(|part| self.bytes.extend_from_slice(part));
        self.close_line(name_span, value_start);
    }

    /// Ends a line whose name and value have been appended.
    fn close_line(&mut self, name: Span, value_start: u32) {
        let value = Span { start: value_start, end: at(self.bytes.len()) };
        self.bytes.extend_from_slice(b"\r\n");
        let line = Span { start: name.start, end: at(self.bytes.len()) };
        self.lines.push(Line { line, name, value });
        self.lengths |= length_bit(name.len());
    }

    /// Appends bytes that are not a line, such as a new request target, and returns their span.
    pub(crate) fn append(&mut self, parts: &[&[u8]]) -> Span {
        let start = at(self.bytes.len());
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        Span { start, end: at(self.bytes.len()) }
    }

    pub(crate) fn text(&self, span: Span) -> &[u8] {
        span.of(&self.bytes)
    }

    /// Writes the lines, each with its line end, without the empty line. Adjacent lines are copied at once.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        self.write_lines(self.lines.iter(), out);
    }

    /// Writes the lines, and a framing line for a body of `len` bytes, or for a chunked body if the length is unknown. There is never more
    /// than one framing line (RFC 9112, 6.3): a `Content-Length` in the head is kept if it is correct, and replaced otherwise. An empty
    /// body gets a framing line only if the head already has one.
    pub fn write_framed(&self, len: Option<u64>, out: &mut Vec<u8>) {
        const NAME: &str = "content-length";
        let mut said = self.get_all(NAME);
        match (len, said.next(), said.next()) {
            (Some(0), None, _) => self.write_to(out),
            (Some(n), Some(said), None) if http1::parse_content_length(said) == Some(n) => {
                self.write_to(out);
            }
            (len, said, _) => {
                match said {
                    None => self.write_to(out),
                    Some(_) => {
                        let others = self.lines.iter().filter(|line| !self.is_named(line, NAME));
                        self.write_lines(others, out);
                    }
                }
                match len {
                    Some(n) => http1::content_length(n, out),
                    None => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
                }
            }
        }
    }

    fn write_lines<'a>(&self, lines: impl Iterator<Item = &'a Line>, out: &mut Vec<u8>) {
        let mut run = Span::default();
        for line in lines {
            if line.line.start == run.end {
                run.end = line.line.end;
                continue;
            }
            out.extend_from_slice(run.of(&self.bytes));
            run = line.line;
        }
        out.extend_from_slice(run.of(&self.bytes));
    }

    /// Returns the lines that may have this name: all of them, or none if no name has this length.
    fn candidates(&self, name: &str) -> &[Line] {
        match self.lengths & length_bit(name.len()) {
            0 => &[],
            _ => &self.lines,
        }
    }

    /// Returns true if a line has this name in any spelling. Tries the fast comparison first, because spellings usually differ only in
    /// case.
    fn is_alias(&self, line: &Line, name: &str) -> bool {
        line.name.len() == name.len()
            && (self.is_named(line, name)
                || http1::is_alias(line.name.of(&self.bytes), name.as_bytes()))
    }

    /// Returns true if a line has this name, ignoring case. Compares the last letters first, where names of equal length usually differ.
    fn is_named(&self, line: &Line, name: &str) -> bool {
        if line.name.len() != name.len() {
            return false;
        }
        let (here, name) = (line.name.of(&self.bytes), name.as_bytes());
        here.last().map(u8::to_ascii_lowercase) == name.last().map(u8::to_ascii_lowercase)
            && is_same(here, name)
    }
}

/// Returns true if two names of equal length are the same except for case. Compares eight bytes at a time; the last eight may overlap those
/// before them.
fn is_same(one: &[u8], other: &[u8]) -> bool {
    let (Some(one_end), Some(other_end)) = (one.last_chunk(), other.last_chunk()) else {
        return one.eq_ignore_ascii_case(other);
    };
    // Harmless: both names have the same length, and bytes after the last whole chunk are compared separately.
    let mut words = one.as_chunks().0.iter().zip(other.as_chunks().0);
    words.all(|(one, other)| is_same_word(one, other)) && is_same_word(one_end, other_end)
}

fn is_same_word(one: &[u8; 8], other: &[u8; 8]) -> bool {
    const EACH: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x80 * EACH;
    let one = u64::from_le_bytes(*one);
    let differs = one ^ u64::from_le_bytes(*other);
    // The top bit of each byte is cleared first. The first sum then sets it for `a` and above, the second for anything above `z`. A letter
    // has it set only in the first sum.
    let lower = (one | (0x20 * EACH)) & !TOPS;
    let is_letter = (lower + 0x1F * EACH) & !(lower + 0x05 * EACH) & !one & TOPS;
    // Only the case bit may differ, and only in letters.
    differs & !(is_letter >> 2) == 0
}

/// Returns the bit for the length of a name. Names of 31 or more bytes share one bit.
const fn length_bit(len: usize) -> u32 {
    1 << if len < 31 { len } else { 31 }
}

/// Converts an offset. The limit of a head is far below 4 GiB. In a larger head, a span would be empty instead of referring to other bytes.
fn at(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

impl Clone for Headers {
    fn clone(&self) -> Headers {
        let mut clone = Headers::copied(&self.bytes, &self.lines);
        clone.removed = self.removed;
        clone
    }
}

impl Drop for Headers {
    fn drop(&mut self) {
        pack::give(&BYTES, std::mem::take(&mut self.bytes));
        pack::give(&LINES, std::mem::take(&mut self.lines));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Headers {
        let mut lines = Vec::new();
        http1::parse_lines(text.as_bytes(), &http1::Limits::default(), &mut lines).unwrap();
        Headers::copied(text.as_bytes(), &lines)
    }

    fn written(headers: &Headers) -> String {
        let mut out = Vec::new();
        headers.write_to(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn only_the_case_of_letters_is_ignored_in_names() {
        for at in [0, 7, 8, 10] {
            for (one, other) in (0..=u8::MAX).flat_map(|one| (0..=u8::MAX).map(move |o| (one, o))) {
                let (mut left, mut right) = (*b"Content-Typ", *b"cONTENT-tYP");
                (left[at], right[at]) = (one, other);
                assert_eq!(is_same(&left, &right), left.eq_ignore_ascii_case(&right));
            }
        }
    }

    #[test]
    fn untouched_lines_are_written_byte_for_byte() {
        let text = "A:1\r\nb :2\r\n".replace(" :", ":  ");
        assert_eq!(written(&parsed(&text)), text);
    }

    #[test]
    fn edits_keep_the_order_of_the_rest() {
        let mut headers = parsed("A: 1\r\nB: 2\r\na: 3\r\nC: 4\r\n");
        headers.remove("a");
        headers.set("C", b"5").unwrap();
        headers.add("D", b"6").unwrap();
        assert_eq!(written(&headers), "B: 2\r\nC: 5\r\nD: 6\r\n");
        assert_eq!(headers.get("c"), Some(&b"5"[..]));
        assert!(!headers.contains("A"));
    }

    #[test]
    fn a_removed_name_does_not_come_back_with_underscores() {
        let mut headers = parsed("X_User: 1\r\nX-User: 2\r\nA: 3\r\nx_uSER: 4\r\nX.User: 5\r\n");
        headers.set("x-user", b"me").unwrap();
        assert_eq!(written(&headers), "A: 3\r\nX.User: 5\r\nx-user: me\r\n");
        let mut headers = parsed("X_User: 1\r\n");
        assert_eq!(headers.get("x-user"), None);
        headers.remove("X-User");
        assert!(headers.is_empty());
    }

    #[test]
    fn trailers_with_names_decided_by_the_head_are_dropped() {
        let mut headers = parsed("X-User: me\r\nA: 1\r\n");
        headers.remove("x-admin");
        headers.add("B", b"2").unwrap();
        headers.remove("a");
        headers.remove("c");
        headers.set("x-user", b"me").unwrap();
        let decided = headers.clone().decided();
        let trailers =
            "x-user: root\r\nX_Admin: 1\r\nX-Sum: 2\r\nx_user: 3\r\na: 4\r\nb: 5\r\nC: 6\r\n";
        assert_eq!(decided.others(trailers.into()), b"X-Sum: 2\r\n");
        assert_eq!(decided.others(b"X-Sum: 2\r\n".to_vec()), b"X-Sum: 2\r\n");
        assert_eq!(decided.others(Vec::new()), b"");
    }

    #[test]
    fn names_removed_together_are_all_decided() {
        const NAMES: Names<3> = Names::new(["x-a", "etag", "x-long"], "x-a\netag\nx-long");
        let mut headers = parsed("X_A: 1\r\nHost: a\r\nX-B: 2\r\nETag: 3\r\nx-a: 4\r\n");
        let others = parsed("Host: a\r\nX-B: 2\r\n");
        // Removes the names again when they are already absent, with other notes in between.
        for more in ["a", "b", "c", "d", "e", "f"] {
            headers.remove_all(&NAMES);
            headers.remove_all(&NAMES);
            assert_eq!(written(&headers), written(&others));
            headers.remove(more);
            headers.remove(more);
        }
        let trailers = "a: 1\r\nF: 2\r\nX_Long: 3\r\netag: 4\r\nX-A: 5\r\nx-c: 6\r\nd: 7\r\n";
        assert_eq!(headers.decided().others(trailers.into()), b"x-c: 6\r\n");
        headers.add("x-a", b"8").unwrap();
        headers.remove_all(&NAMES);
        assert_eq!(written(&headers), written(&others));
    }

    #[test]
    fn a_body_is_framed_by_at_most_one_line() {
        let length = "A: 1\r\nContent-Length: 5\r\nB: 2\r\n";
        let other = |more: &str| format!("A: 1\r\nB: 2\r\n{more}");
        let cases = [
            (length, Some(5), length.to_owned()),
            (length, Some(6), other("Content-Length: 6\r\n")),
            (length, Some(0), other("Content-Length: 0\r\n")),
            (length, None, other("Transfer-Encoding: chunked\r\n")),
            ("A: 1\r\n", None, "A: 1\r\nTransfer-Encoding: chunked\r\n".to_owned()),
            ("A: 1\r\n", Some(7), "A: 1\r\nContent-Length: 7\r\n".to_owned()),
            ("A: 1\r\n", Some(0), "A: 1\r\n".to_owned()),
            ("content-length: 0\r\n", Some(0), "content-length: 0\r\n".to_owned()),
            (
                "content-length: 5\r\ncontent-length: 5\r\n",
                Some(5),
                "Content-Length: 5\r\n".to_owned(),
            ),
            ("content-length: x\r\n", Some(5), "Content-Length: 5\r\n".to_owned()),
        ];
        for (text, len, expected) in cases {
            let mut out = Vec::new();
            parsed(text).write_framed(len, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text:?} {len:?}");
        }
    }

    #[test]
    fn lines_of_another_head_are_appended() {
        let mut headers = parsed("A: 1\r\n");
        let mut others = parsed("B: 2\r\nC: 3\r\nD:4\r\n");
        others.remove("c");
        headers.add_all(&others);
        headers.add("E", b"5").unwrap();
        assert_eq!(written(&headers), "A: 1\r\nB: 2\r\nD:4\r\nE: 5\r\n");
        assert_eq!(headers.get("d"), Some(&b"4"[..]));
    }

    #[test]
    fn names_of_any_length_are_found() {
        for len in [1, 2, 30, 31, 32, 63, 64, 127, 200] {
            let name = "n".repeat(len);
            let mut headers = parsed("Host: a\r\n");
            assert_eq!(headers.get(&name), None);
            headers.add(&name, b"v").unwrap();
            let copied = headers.clone();
            let mut joined = parsed("A: 1\r\n");
            joined.add_all(&headers);
            for headers in [&headers, &copied, &joined] {
                assert_eq!(headers.get(&name), Some(&b"v"[..]), "{len}");
            }
            headers.remove(&name);
            assert!(!headers.contains(&name));
        }
    }

    #[test]
    fn a_value_with_a_line_end_is_refused() {
        let mut headers = Headers::new();
        for value in ["a\r\nX: y", "a\nb", "a\0"] {
            assert_eq!(headers.add("A", value.as_bytes()), Err(InvalidLine));
        }
        assert_eq!(headers.add("A B", b"x"), Err(InvalidLine));
        assert!(headers.is_empty());
    }
}
