//! JSON read once, into a list of where its values are.
//!
//! Owns the grammar of RFC 8259 to the letter and the bounds of a text. It makes no tree: a value is its place in the text
//! and how many values are in it, so that members can be taken in whatever order a schema wants.

/// Objects and arrays inside one another; whoever walks the tape recurses this deep. Messages people write stay below 20.
pub(crate) const DEPTH_MAX: usize = 100;

/// Values and keys of one text: 16 bytes each, so that a text of nothing but brackets costs 16 MiB at most.
const ENTRIES_MAX: usize = 1 << 20;

/// What a value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Null,
    False,
    True,
    Number,
    /// Without escapes: the text between the quotes is the value.
    Plain,
    /// With escapes.
    Escaped,
    Object,
    Array,
}

/// One value, or the key of a member before its value.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    /// Of the text, quotes left out.
    pub(crate) from: u32,
    pub(crate) to: u32,
    /// The entry behind this value.
    pub(crate) next: u32,
}

/// Why a text is no JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// In bytes.
    pub(crate) at: usize,
    pub(crate) what: &'static str,
}

/// Reads a text onto a tape, which is cleared first.
pub(crate) fn read(text: &str, tape: &mut Vec<Entry>) -> Result<(), Malformed> {
    tape.clear();
    if u32::try_from(text.len()).is_err() {
        return Err(Malformed { at: 0, what: "the text is too long" });
    }
    let mut reader = Reader { bytes: text.as_bytes(), at: 0, tape, open: Vec::new() };
    reader.document()
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    tape: &'a mut Vec<Entry>,
    /// Open objects and arrays.
    open: Vec<usize>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<(), Malformed> {
        self.blanks();
        self.value()?;
        while let Some(&container) = self.open.last() {
            self.blanks();
            let is_object =
                self.tape.get(container).is_some_and(|entry| entry.kind == Kind::Object);
            let is_first = self.tape.len() == container + 1;
            let close = if is_object { b'}' } else { b']' };
            match self.peek() {
                Some(byte) if byte == close => {
                    self.at += 1;
                    self.close(container);
                    continue;
                }
                Some(b',') if !is_first => {
                    self.at += 1;
                    self.blanks();
                }
                Some(_) if is_first => {}
                _ => return self.refuse("a comma or the end of the object or array"),
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
    fn refuse<T>(&self, what: &'static str) -> Result<T, Malformed> {
        Err(Malformed { at: self.at, what })
    }

    #[inline]
    fn push(&mut self, kind: Kind, from: usize, to: usize) -> Result<(), Malformed> {
        if self.tape.len() >= ENTRIES_MAX {
            return self.refuse("fewer values: the text has too many");
        }
        // The text's length fits 32 bits, and so does the number of entries.
        let number = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
        let next = number(self.tape.len() + 1);
        self.tape.push(Entry { kind, from: number(from), to: number(to), next });
        Ok(())
    }

    fn close(&mut self, container: usize) {
        let next = u32::try_from(self.tape.len()).unwrap_or(u32::MAX);
        let to = u32::try_from(self.at).unwrap_or(u32::MAX);
        if let Some(entry) = self.tape.get_mut(container) {
            (entry.next, entry.to) = (next, to);
        }
        self.open.pop();
    }

    #[inline]
    fn value(&mut self) -> Result<(), Malformed> {
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

    fn begin(&mut self, kind: Kind) -> Result<(), Malformed> {
        if self.open.len() >= DEPTH_MAX {
            return self.refuse("fewer objects and arrays inside one another");
        }
        self.open.push(self.tape.len());
        self.push(kind, self.at, self.at)?;
        self.at += 1;
        Ok(())
    }

    fn word(&mut self, word: &[u8], kind: Kind) -> Result<(), Malformed> {
        let from = self.at;
        match self.bytes.get(from..from + word.len()) {
            Some(found) if found == word => {
                self.at += word.len();
                self.push(kind, from, self.at)
            }
            _ => self.refuse("a value"),
        }
    }

    fn key(&mut self) -> Result<(), Malformed> {
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
    fn string(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        let from = self.at;
        let mut kind = Kind::Plain;
        loop {
            match self.peek() {
                Some(b'"') => break,
                Some(b'\\') => {
                    kind = Kind::Escaped;
                    self.escape()?;
                }
                Some(0..=0x1F) | None => return self.refuse("the end of the string"),
                Some(_) => self.at += 1,
            }
        }
        self.push(kind, from, self.at)?;
        self.at += 1;
        Ok(())
    }

    fn escape(&mut self) -> Result<(), Malformed> {
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

    fn number(&mut self) -> Result<(), Malformed> {
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

fn hex(bytes: &[u8], at: usize) -> Option<u32> {
    let digits = bytes.get(at..at + 4)?;
    let all = digits.iter().all(u8::is_ascii_hexdigit);
    let text = std::str::from_utf8(digits).ok().filter(|_| all)?;
    u32::from_str_radix(text, 16).ok()
}

/// A string without its escapes. It was read before, so that every escape is whole.
pub(crate) fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = escape.chars();
        let taken = match chars.next() {
            Some('u') => {
                let code = hex(escape.as_bytes(), 1).unwrap_or(0xFFFD);
                match char::from_u32(code) {
                    Some(c) => {
                        out.push(c);
                        5
                    }
                    None => {
                        let low = hex(escape.as_bytes(), 7).unwrap_or(0xDC00);
                        let code = 0x10000 + ((code & 0x3FF) << 10) + (low & 0x3FF);
                        out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                        11
                    }
                }
            }
            Some(c) => {
                out.push(match c {
                    'b' => '\u{8}',
                    'f' => '\u{C}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    other => other,
                });
                1
            }
            None => 0,
        };
        rest = escape.get(taken..).unwrap_or_default();
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Result<Vec<(Kind, u32)>, Malformed> {
        let mut tape = Vec::new();
        read(text, &mut tape)?;
        Ok(tape.iter().map(|entry| (entry.kind, entry.next)).collect())
    }

    #[test]
    fn values_say_where_the_next_one_is() {
        use Kind::*;
        assert_eq!(
            kinds(r#" {"a": [1, -0.5e+3], "b\n": null, "c": {}} "#).unwrap(),
            [
                (Object, 9),
                (Plain, 2),
                (Array, 5),
                (Number, 4),
                (Number, 5),
                (Escaped, 6),
                (Null, 7),
                (Plain, 8),
                (Object, 9),
            ]
        );
        assert_eq!(kinds("true").unwrap(), [(True, 1)]);
    }

    #[test]
    fn what_is_no_json_is_refused() {
        for text in [
            "",
            " ",
            "{",
            "[",
            "[1",
            "[1,",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "01",
            "1.",
            ".5",
            "+1",
            "-",
            "1e",
            "tru",
            "nul",
            "NaN",
            "'a'",
            "\"a",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u+123\"",
            "\"\\ud800\"",
            "\"\\ud800\\u0041\"",
            "\"\\udc00\"",
            "1 2",
            "[1]]",
            "{\"a\":1 \"b\":2}",
            "[1 2]",
            "{\"a\" 1}",
        ] {
            assert!(kinds(text).is_err(), "{text}");
        }
        let deep = "[".repeat(DEPTH_MAX + 1) + &"]".repeat(DEPTH_MAX + 1);
        assert!(kinds(&deep).is_err());
        assert!(kinds(deep.get(1..deep.len() - 1).unwrap()).is_ok());
    }

    #[test]
    fn escapes_are_taken_back() {
        let cases = [
            (r#"a\"b\\c\/d"#, "a\"b\\c/d"),
            (r"\b\f\n\r\t", "\u{8}\u{c}\n\r\t"),
            (r"\u00e9\ud83d\ude00x", "é😀x"),
            ("é\\u0041", "éA"),
        ];
        for (escaped, plain) in cases {
            kinds(&format!("\"{escaped}\"")).unwrap();
            assert_eq!(unescaped(escaped), plain);
        }
    }
}
