//! JSON parsed once, into a list of the positions of its values: the tape.
//!
//! Owns the strict grammar of RFC 8259 and the limits on a text. There is no tree: a [`TapeEntry`] holds the range of its value in the text
//! and the index of the entry after that value, so that a reader can skip values. The crate writes only strings. It knows no schemas and
//! does not convert numbers. [`duplicate_name()`] detects duplicate names.
#![forbid(unsafe_code)]

mod duplicates;
mod reader;
mod tape;
mod writer;

pub use duplicates::{DuplicateName, duplicate_name};
pub use reader::is_plain;
pub use tape::Tape;
pub use writer::{push_escaped, push_string};

/// The kind of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Null,
    False,
    True,
    Number,
    /// A string without escapes: the text between the quotes is the value.
    Plain,
    /// A string with escapes.
    Escaped,
    Object,
    Array,
}

/// One value, or the name of a member, which precedes its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TapeEntry {
    pub kind: Kind,
    /// Offsets in the text: the value is `from..to`, without quotes.
    pub from: u32,
    pub to: u32,
    /// The index of the entry after this value.
    pub next: u32,
    /// Number of members of an object or items of an array.
    pub count: u32,
}

/// The limits on a text.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Maximum nesting of objects and arrays. Code that walks a tape may recurse this deep.
    pub depth_max: usize,
    /// Maximum number of values and names in one text. Each takes 20 bytes.
    pub entries_max: usize,
}

/// The reason why a text is not JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonError {
    /// The offset in bytes.
    pub at: usize,
    /// What was expected at that offset.
    pub what: &'static str,
}

/// Parses a text onto a tape, which is cleared first.
pub fn read(text: &str, limits: &Limits, tape: &mut Vec<TapeEntry>) -> Result<(), JsonError> {
    parse(text, limits, tape).map(|_| ())
}

/// Like [`read`]. Returns the nesting depth of objects and arrays.
fn parse(text: &str, limits: &Limits, tape: &mut Vec<TapeEntry>) -> Result<usize, JsonError> {
    tape.clear();
    if u32::try_from(text.len()).is_err() {
        return Err(JsonError { at: 0, what: "a shorter text" });
    }
    reader::read(text.as_bytes(), limits, tape)
}

/// Decodes the escapes of a string. The string must have been parsed, so that every escape is complete.
pub fn unescaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escape)) = rest.split_once('\\') {
        out.push_str(plain);
        let mut chars = escape.chars();
        let taken = match chars.next() {
            Some('u') => {
                let code = reader::hex(escape.as_bytes(), 1).unwrap_or(0xFFFD);
                match char::from_u32(code) {
                    Some(c) => {
                        out.push(c);
                        5
                    }
                    None => {
                        let low = reader::hex(escape.as_bytes(), 7).unwrap_or(0xDC00);
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

    const LIMITS: Limits = Limits { depth_max: 100, entries_max: 1000 };

    fn kinds(text: &str) -> Result<Vec<(Kind, u32, u32)>, JsonError> {
        let mut tape = Vec::new();
        read(text, &LIMITS, &mut tape)?;
        Ok(tape.iter().map(|entry| (entry.kind, entry.next, entry.count)).collect())
    }

    #[test]
    fn values_say_where_the_next_one_is() {
        use Kind::*;
        assert_eq!(
            kinds(r#" {"a": [1, -0.5e+3], "b\n": null, "c": {}} "#).unwrap(),
            [
                (Object, 9, 3),
                (Plain, 2, 0),
                (Array, 5, 2),
                (Number, 4, 0),
                (Number, 5, 0),
                (Escaped, 6, 0),
                (Null, 7, 0),
                (Plain, 8, 0),
                (Object, 9, 0),
            ]
        );
        assert_eq!(kinds("true").unwrap(), [(True, 1, 0)]);
    }

    #[test]
    fn text_that_is_not_json_is_refused() {
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
            assert!(serde_json::from_str::<serde_json::Value>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_tape_is_within_the_limits_that_its_text_may_be_read_with() {
        for text in ["1", "[]", "[1,2]", "[[],[[1]],{}]", r#"{"a":{"b":[]},"c":[]}"#] {
            let tape = Tape::read(text, &LIMITS).unwrap();
            let mut entries = Vec::new();
            read(text, &LIMITS, &mut entries).unwrap();
            assert_eq!(tape.entries(), entries, "{text}");
            for (depth_max, entries_max) in (0..4).flat_map(|d| (0..9).map(move |e| (d, e))) {
                let limits = Limits { depth_max, entries_max };
                let fits = Tape::read(text, &limits).is_ok();
                assert_eq!(tape.is_within(&limits), fits, "{text} {limits:?}");
            }
        }
    }

    #[test]
    fn texts_beyond_the_limits_are_refused() {
        let deep = "[".repeat(LIMITS.depth_max + 1) + &"]".repeat(LIMITS.depth_max + 1);
        assert!(kinds(&deep).is_err());
        assert!(kinds(deep.get(1..deep.len() - 1).unwrap()).is_ok());
        let list = |items: usize| format!("[{}0]", "0,".repeat(items - 1));
        assert!(kinds(&list(LIMITS.entries_max)).is_err());
        assert!(kinds(&list(LIMITS.entries_max - 1)).is_ok());
    }

    /// Strings are scanned in pieces, and a string may end anywhere in a piece.
    #[test]
    fn strings_end_where_they_end() {
        for len in 0..100 {
            let plain = "x".repeat(len);
            let cases = [
                (format!("\"{plain}\""), Some(Kind::Plain)),
                (format!("\"{plain}\u{e9}{plain}\""), Some(Kind::Plain)),
                (format!("\"{plain}\\n{plain}\""), Some(Kind::Escaped)),
                (format!("\"{plain}\u{1f}{plain}\""), None),
                (format!("\"{plain}\u{7f}{plain}\""), Some(Kind::Plain)),
                (format!("\"{plain}"), None),
            ];
            for (text, kind) in cases {
                let read = kinds(&text).ok().and_then(|tape| Some(tape.first()?.0));
                assert_eq!(read, kind, "{text:?}");
                let known = serde_json::from_str::<String>(&text);
                assert_eq!(known.is_ok(), kind.is_some(), "{text:?}");
            }
        }
    }

    #[test]
    fn every_special_byte_is_found_at_every_place() {
        for length in 0..20 {
            let mut text = vec![b'~'; length];
            assert!(is_plain(&text));
            for (at, byte) in (0..length).flat_map(|at| (0..=255).map(move |byte| (at, byte))) {
                text[at] = byte;
                let plain = (b' '..=b'~').contains(&byte) && !matches!(byte, b'"' | b'\\');
                assert_eq!(is_plain(&text), plain, "{byte:#x} at {at} of {length}");
                text[at] = b'~';
            }
        }
    }

    #[test]
    fn escapes_are_decoded() {
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
