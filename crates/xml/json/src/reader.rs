//! The parser, without recursion.

use kit::turns;

use crate::{JsonError, Kind, Limits, TapeEntry};

/// The value of `open` if no object or array is open.
const NONE: u32 = u32::MAX;

/// Minimum number of entries to allocate for a tape, enough for a small message.
const TAPE_ENTRIES_MIN: usize = 32;

/// Number of bytes of a string that are scanned at once: two vectors on the smallest supported CPU.
const PIECE: usize = 32;

/// Parses a text. Returns the nesting depth of objects and arrays.
pub(crate) fn read(
    bytes: &[u8],
    limits: &Limits,
    tape: &mut Vec<TapeEntry>,
) -> Result<usize, JsonError> {
    let room = tape.capacity().min(limits.entries_max);
    let mut reader = Reader { bytes, at: 0, limits, tape, room, open: NONE, depth: 0, deepest: 0 };
    reader.document()?;
    Ok(reader.deepest)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    limits: &'a Limits,
    tape: &'a mut Vec<TapeEntry>,
    /// Number of entries that fit before the tape has to grow.
    room: usize,
    /// The entry of the innermost open object or array. While it is open, its `to` holds the enclosing one.
    open: u32,
    depth: usize,
    deepest: usize,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), JsonError> {
        self.blanks();
        self.value()?;
        while self.open != NONE {
            self.blanks();
            let behind = number(self.tape.len());
            if behind.is_multiple_of(turns::PARTS) {
                turns::pause_if_due();
            }
            // The entry exists: it was added when the object or array was opened.
            let Some(open) = self.tape.get_mut(self.open as usize) else { break };
            let is_object = open.kind == Kind::Object;
            let is_first = open.count == 0;
            let close = if is_object { b'}' } else { b']' };
            match self.bytes.get(self.at) {
                Some(byte) if *byte == close => {
                    self.at += 1;
                    open.next = behind;
                    self.open = std::mem::replace(&mut open.to, number(self.at));
                    self.depth -= 1;
                    continue;
                }
                Some(_) if is_first => open.count = 1,
                Some(b',') => {
                    open.count += 1;
                    self.at += 1;
                    self.blanks();
                }
                Some(_) | None => return self.refuse("a comma or the end of the object or array"),
            }
            if is_object {
                self.key()?;
            }
            self.value()?;
        }
        self.blanks();
        match self.peek() {
            None => Ok(()),
            Some(_) => self.refuse("the end of the text"),
        }
    }

    #[inline]
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    #[inline]
    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    #[cold]
    fn refuse<T>(&self, what: &'static str) -> Result<T, JsonError> {
        Err(JsonError { at: self.at, what })
    }

    #[inline]
    fn push(&mut self, kind: Kind, from: usize, to: usize) -> Result<(), JsonError> {
        if self.tape.len() >= self.room {
            self.grow()?;
        }
        let next = number(self.tape.len() + 1);
        self.tape.push(TapeEntry { kind, from: number(from), to: number(to), next, count: 0 });
        Ok(())
    }

    /// Enlarges the tape, within the limit and the available memory.
    #[cold]
    fn grow(&mut self) -> Result<(), JsonError> {
        let len = self.tape.len();
        if len >= self.limits.entries_max {
            return self.refuse("fewer values: the text has too many");
        }
        let more = len.max(TAPE_ENTRIES_MIN);
        if !kit::memory::has_room((len + more) * size_of::<TapeEntry>()) {
            return self.refuse("a smaller text: there is no memory for its values");
        }
        self.tape.reserve(more);
        self.room = self.tape.capacity().min(self.limits.entries_max);
        Ok(())
    }

    #[inline]
    fn value(&mut self) -> Result<(), JsonError> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'{') => self.begin(Kind::Object),
            Some(b'[') => self.begin(Kind::Array),
            Some(b't') => self.word(b"true", Kind::True),
            Some(b'f') => self.word(b"false", Kind::False),
            Some(b'n') => self.word(b"null", Kind::Null),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) | None => self.refuse("a value"),
        }
    }

    fn begin(&mut self, kind: Kind) -> Result<(), JsonError> {
        if self.depth >= self.limits.depth_max {
            return self.refuse("fewer objects and arrays inside one another");
        }
        let at = number(self.tape.len());
        self.push(kind, self.at, self.open as usize)?;
        self.open = at;
        self.depth += 1;
        self.deepest = self.deepest.max(self.depth);
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(), JsonError> {
        let from = self.at;
        match self.bytes.get(from..from + word.len()) {
            Some(found) if found == word => {
                self.at += word.len();
                self.push(kind, from, self.at)
            }
            _ => self.refuse("a value"),
        }
    }

    #[inline]
    fn key(&mut self) -> Result<(), JsonError> {
        if self.peek() != Some(b'"') {
            return self.refuse("a member's name in quotes");
        }
        self.string()?;
        self.blanks();
        if self.peek() != Some(b':') {
            return self.refuse("a colon");
        }
        self.at += 1;
        self.blanks();
        Ok(())
    }

    #[inline]
    fn string(&mut self) -> Result<(), JsonError> {
        self.at += 1;
        let from = self.at;
        let mut kind = Kind::Plain;
        loop {
            // Harmless: past the end of the text, there is nothing to skip.
            self.at += self.bytes.get(self.at..).map(ordinary).unwrap_or_default();
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    self.escape()?;
                }
                Some(_) | None => return self.refuse("the end of the string"),
            }
        }
        self.push(kind, from, self.at)?;
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), JsonError> {
        match self.bytes.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let Some(code) = hex(self.bytes, self.at + 2) else {
                    return self.refuse("four hex digits");
                };
                self.at += 6;
                match code {
                    0xD800..=0xDBFF => {
                        let low = self.bytes.get(self.at..self.at + 2) == Some(b"\\u");
                        let low = low.then(|| hex(self.bytes, self.at + 2)).flatten();
                        if !low.is_some_and(|low| (0xDC00..=0xDFFF).contains(&low)) {
                            return self.refuse("the other half of a character");
                        }
                        self.at += 6;
                    }
                    0xDC00..=0xDFFF => return self.refuse("a whole character"),
                    // Harmless: any other code unit encodes a whole character.
                    _ => {}
                }
            }
            Some(_) | None => return self.refuse("an escape"),
        }
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> bool {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at > from
    }

    fn number(&mut self) -> Result<(), JsonError> {
        let from = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.peek() {
            Some(b'0') => self.at += 1,
            _ if self.digits() => {}
            _ => return self.refuse("a digit"),
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            if !self.digits() {
                return self.refuse("a digit");
            }
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if !self.digits() {
                return self.refuse("a digit");
            }
        }
        self.push(Kind::Number, from, self.at)
    }
}

/// Converts an offset or index. The length of the text and the number of entries fit 32 bits.
#[inline]
fn number(at: usize) -> u32 {
    u32::try_from(at).unwrap_or(u32::MAX)
}

/// Returns the number of bytes before the first special byte of a string.
#[inline]
fn ordinary(bytes: &[u8]) -> usize {
    let means = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
    let word = |piece: &[u8; 8]| {
        let found = meaning(u64::from_le_bytes(*piece));
        // Harmless: the value is less than eight.
        (found != 0).then(|| usize::try_from(found.trailing_zeros() / 8).unwrap_or_default())
    };
    // Fast path: most names end within the first eight bytes.
    if let Some(found) = bytes.first_chunk().and_then(word) {
        return found;
    }
    let (mut at, mut rest) = (0, bytes);
    // There is no branch within a piece, so that the compiler emits vector instructions.
    while let Some((piece, behind)) = rest.split_first_chunk::<PIECE>() {
        if piece.iter().fold(0, |found, byte| found | u8::from(means(*byte))) != 0 {
            break;
        }
        at += PIECE;
        rest = behind;
    }
    while let Some((piece, behind)) = rest.split_first_chunk() {
        if let Some(found) = word(piece) {
            return at + found;
        }
        at += 8;
        rest = behind;
    }
    at + rest.iter().position(|byte| means(*byte)).unwrap_or(rest.len())
}

/// Returns true if a JSON string may contain these bytes unescaped and a terminal may show them: printable ASCII except the quote and the
/// backslash.
pub fn is_plain(text: &[u8]) -> bool {
    // For a byte from 0x7F on, either the byte itself or the byte plus one has the top bit set.
    let odd = |word: &[u8; 8]| {
        let word = u64::from_le_bytes(*word);
        meaning(word) | (word | word.wrapping_add(ONES)) & TOPS
    };
    let (words, rest) = text.as_chunks();
    match text.last_chunk() {
        Some(last) => words.iter().fold(odd(last), |all, word| all | odd(word)) == 0,
        None => {
            rest.iter().all(|byte| matches!(byte, b' '..=b'~') && !matches!(byte, b'"' | b'\\'))
        }
    }
}

const ONES: u64 = u64::MAX / 255;
const TOPS: u64 = ONES << 7;

/// Sets the top bit of each of eight bytes that is special in a string. Only the lowest set bit is reliable, because the subtraction
/// borrows.
#[inline]
fn meaning(word: u64) -> u64 {
    let zero = |word: u64| word.wrapping_sub(ONES) & !word;
    let control = word.wrapping_sub(ONES * 0x20) & !word;
    (control | zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5C))) & TOPS
}

pub(crate) fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    let all = digits.iter().all(u8::is_ascii_hexdigit);
    // Harmless: the caller refuses anything that is not a number.
    let text = std::str::from_utf8(digits).ok().filter(|_| all)?;
    // Harmless: the caller refuses anything that is not a number.
    u32::from_str_radix(text, 16).ok()
}
