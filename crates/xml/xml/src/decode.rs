//! Decodes bytes to text: detects the encoding of a document and decodes it piece by piece.
//!
//! Keeps the bytes of an incomplete character. The decoded text contains only characters that XML allows.

use crate::ErrorKind;
use crate::chars::{first_forbidden, is_space, same};
use crate::position_tracker::Width;

/// Only this many bytes are searched for the encoding in an XML declaration.
const DECLARATION_BYTES_MAX: usize = 1024;

/// The most common declaration, recognised by one comparison.
pub(crate) const USUAL: &str = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>";

const USUAL_SMALL: &str = "<?xml version=\"1.0\" encoding=\"utf-8\"?>";

/// The supported encodings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Ascii,
    Latin1,
    Utf16Le,
    Utf16Be,
}

/// Result of examining the first bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum EncodingGuess {
    /// More bytes are needed.
    More,
    /// The encoding, and the length of the byte order mark.
    Found(Encoding, usize),
    /// An unsupported or contradictory encoding, and the offset where it is named.
    Unknown(ErrorKind, usize),
}

impl Encoding {
    pub(crate) fn width(self) -> Width {
        match self {
            Encoding::Utf8 | Encoding::Ascii => Width::Utf8,
            Encoding::Latin1 => Width::One,
            Encoding::Utf16Le | Encoding::Utf16Be => Width::Utf16,
        }
    }
}

/// Detects the encoding by the byte order mark, the shape of the first characters, and the XML declaration.
pub(crate) fn sniff(bytes: &[u8], last: bool) -> EncodingGuess {
    let unknown = |what: &str| EncodingGuess::Unknown(ErrorKind::Encoding(what.into()), 0);
    match bytes {
        [0xEF, 0xBB, 0xBF, rest @ ..] => declared(rest, 3, last),
        [0xFF, 0xFE, 0, 0, ..]
        | [0, 0, 0xFE, 0xFF, ..]
        | [b'<', 0, 0, 0, ..]
        | [0, 0, 0, b'<', ..] => unknown("UTF-32 is not read: use UTF-8"),
        [_, _, _, _, ..] | [] if last || !bytes.is_empty() => match bytes {
            [0xFF, 0xFE, ..] => EncodingGuess::Found(Encoding::Utf16Le, 2),
            [0xFE, 0xFF, ..] => EncodingGuess::Found(Encoding::Utf16Be, 2),
            [b'<', 0, ..] => EncodingGuess::Found(Encoding::Utf16Le, 0),
            [0, b'<', ..] => EncodingGuess::Found(Encoding::Utf16Be, 0),
            [0x4C, 0x6F, 0xA7, 0x94, ..] => unknown("EBCDIC is not read: use UTF-8"),
            _ => declared(bytes, 0, last),
        },
        // A document of fewer than four bytes is not well-formed in any encoding.
        _ if last => match bytes {
            [0xFF, 0xFE, ..] => EncodingGuess::Found(Encoding::Utf16Le, 2),
            [0xFE, 0xFF, ..] => EncodingGuess::Found(Encoding::Utf16Be, 2),
            _ => EncodingGuess::Found(Encoding::Utf8, 0),
        },
        _ => EncodingGuess::More,
    }
}

/// Returns whether the document begins with the most common declaration; the encoding may be in lower case.
#[inline]
pub(crate) fn is_usual(bytes: &[u8]) -> bool {
    bytes
        .get(..USUAL.len())
        .is_some_and(|front| same(front, USUAL.as_bytes()) || same(front, USUAL_SMALL.as_bytes()))
}

/// Returns the encoding that an ASCII-compatible declaration names; UTF-8 if there is none.
fn declared(bytes: &[u8], mark: usize, last: bool) -> EncodingGuess {
    let utf8 = EncodingGuess::Found(Encoding::Utf8, mark);
    let begins = bytes.get(..bytes.len().min(6)).unwrap_or_default();
    let begun = match begins {
        [b'<', b'?', b'x', b'm', b'l', space] => is_space(*space),
        short => b"<?xml".starts_with(short) && !last,
    };
    if !begun {
        return utf8;
    }
    if is_usual(bytes) {
        return utf8;
    }
    let head = bytes.get(..bytes.len().min(DECLARATION_BYTES_MAX)).unwrap_or_default();
    let Some(end) = memchr::memmem::find(head, b"?>") else {
        return if last || head.len() == DECLARATION_BYTES_MAX {
            utf8
        } else {
            EncodingGuess::More
        };
    };
    let Some((name, at)) = label(head.get(..end).unwrap_or_default()) else { return utf8 };
    let upper = name.to_ascii_uppercase();
    let encoding = match upper.as_slice() {
        b"UTF-8" | b"UTF8" => Encoding::Utf8,
        b"US-ASCII" | b"ASCII" | b"ISO646-US" | b"ANSI_X3.4-1968" => Encoding::Ascii,
        b"ISO-8859-1" | b"ISO_8859-1" | b"LATIN1" | b"ISO-LATIN-1" | b"L1" => Encoding::Latin1,
        _ => {
            // Harmless: the name is only quoted in an error.
            let name = String::from_utf8_lossy(name);
            let what = if upper.starts_with(b"UTF-16") || upper.starts_with(b"UTF-32") {
                format!("the document says it is in `{name}`, which it is not")
            } else {
                format!("the encoding `{name}` is not read: use UTF-8")
            };
            return EncodingGuess::Unknown(ErrorKind::Encoding(what.into()), mark + at);
        }
    };
    if mark > 0 && encoding != Encoding::Utf8 {
        let what = "the byte order mark is UTF-8's, and the declaration names another encoding";
        EncodingGuess::Unknown(ErrorKind::Encoding(what.into()), mark + at)
    } else {
        EncodingGuess::Found(encoding, mark)
    }
}

/// Returns the value of `encoding` in a declaration and its offset. The declaration itself is checked later.
fn label(declaration: &[u8]) -> Option<(&[u8], usize)> {
    let mut at = memchr::memmem::find(declaration, b"encoding")? + b"encoding".len();
    let skip = |mut at: usize| {
        while declaration.get(at).is_some_and(|byte| is_space(*byte)) {
            at += 1;
        }
        at
    };
    at = skip(at);
    if declaration.get(at) != Some(&b'=') {
        return None;
    }
    at = skip(at + 1);
    let quote = declaration.get(at).copied().filter(|byte| matches!(byte, b'"' | b'\''))?;
    let rest = declaration.get(at + 1..)?;
    Some((rest.get(..memchr::memchr(quote, rest)?)?, at + 1))
}

/// The valid prefix of some bytes.
pub(crate) struct Decoded<'b> {
    pub(crate) text: &'b str,
    /// The error after it, if there is one.
    pub(crate) error: Option<ErrorKind>,
    /// The length of a partial character at the end.
    pub(crate) partial: usize,
}

/// Returns the part of a decoded text before the first character that XML or the encoding forbids.
pub(crate) fn allowed(decoded: Decoded<'_>, ascii: bool) -> Decoded<'_> {
    let text = decoded.text;
    if let Some((front, error)) = forbidden(text) {
        return Decoded { text: front, error: Some(error), partial: 0 };
    }
    if !ascii {
        return decoded;
    }
    let text = match text.bytes().position(|byte| !byte.is_ascii()) {
        None if decoded.partial > 0 => text,
        None => return decoded,
        Some(at) => text.get(..at).unwrap_or_default(),
    };
    Decoded { text, error: Some(not_ascii()), partial: 0 }
}

fn not_ascii() -> ErrorKind {
    ErrorKind::Encoding("this is not US-ASCII".into())
}

/// Decodes UTF-8 up to the first error.
pub(crate) fn valid_utf8(bytes: &[u8]) -> Decoded<'_> {
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return Decoded { text, error: None, partial: 0 },
        Err(error) => error,
    };
    let (front, rest) = bytes.split_at_checked(error.valid_up_to()).unwrap_or((bytes, b""));
    // Harmless: this part has been validated.
    let text = std::str::from_utf8(front).unwrap_or_default();
    match error.error_len() {
        None => Decoded { text, error: None, partial: rest.len() },
        Some(_) => {
            let error = Some(ErrorKind::Encoding("this is not UTF-8".into()));
            Decoded { text, error, partial: 0 }
        }
    }
}

/// Returns the text before the first forbidden character, and the error.
pub(crate) fn forbidden(text: &str) -> Option<(&str, ErrorKind)> {
    let (front, rest) = text.split_at_checked(first_forbidden(text)?)?;
    let c = u32::from(rest.chars().next().unwrap_or('\0'));
    Some((
        front,
        ErrorKind::Syntax(format!("the character U+{c:04X} is not allowed in XML").into()),
    ))
}

/// Decodes a document piece by piece.
#[derive(Debug)]
pub(crate) struct Decoder {
    pub(crate) encoding: Option<Encoding>,
    /// The first bytes of a character whose rest has not arrived yet, or all bytes until the encoding is known.
    held: Vec<u8>,
}

impl Decoder {
    pub(crate) fn new() -> Decoder {
        Decoder { encoding: None, held: Vec::new() }
    }

    pub(crate) fn clear(&mut self) {
        self.encoding = None;
        self.held.clear();
    }

    /// Detects the encoding. Holds the bytes back until that is possible.
    pub(crate) fn begin(&mut self, bytes: &[u8], last: bool) -> EncodingGuess {
        self.held.extend_from_slice(bytes);
        let sniffed = sniff(&self.held, last);
        if let EncodingGuess::Found(encoding, mark) = sniffed {
            self.encoding = Some(encoding);
            self.held.drain(..mark.min(self.held.len()));
        }
        sniffed
    }

    /// Decodes the held bytes and `bytes`, and appends the text to `out`. A returned error is located at the end of `out`.
    pub(crate) fn decode(&mut self, bytes: &[u8], out: &mut String) -> Option<ErrorKind> {
        let held = std::mem::take(&mut self.held);
        match (held.is_empty(), self.encoding) {
            (true, Some(encoding)) => self.decode_all(bytes, encoding, out),
            (false, Some(encoding @ (Encoding::Utf8 | Encoding::Ascii))) if held.len() < 4 => {
                self.complete(held, bytes, encoding, out)
            }
            (false, Some(encoding)) => {
                let mut all = held;
                all.extend_from_slice(bytes);
                self.decode_all(&all, encoding, out)
            }
            (_, None) => None,
        }
    }

    /// Completes a character whose first bytes are held, without copying the bytes after it.
    fn complete(
        &mut self,
        mut held: Vec<u8>,
        bytes: &[u8],
        encoding: Encoding,
        out: &mut String,
    ) -> Option<ErrorKind> {
        let taken = bytes.len().min(4);
        let (front, rest) = bytes.split_at_checked(taken).unwrap_or((bytes, b""));
        let before = held.len();
        held.extend_from_slice(front);
        // Decodes the held bytes together with as many more as one character may need.
        let fault = self.decode_all(&held, encoding, out);
        if fault.is_some() {
            return fault;
        }
        if self.held.is_empty() || taken < 4 {
            return self.decode_rest(rest, encoding, out);
        }
        // The partial character at the end lies entirely in `front`, so decoding can restart from there.
        let half = self.held.len();
        debug_assert!(half <= held.len() - before, "a character has four bytes at most");
        self.held.clear();
        self.decode_all(bytes.get(taken - half..).unwrap_or_default(), encoding, out)
    }

    fn decode_rest(
        &mut self,
        rest: &[u8],
        encoding: Encoding,
        out: &mut String,
    ) -> Option<ErrorKind> {
        if rest.is_empty() { None } else { self.decode_all(rest, encoding, out) }
    }

    fn decode_all(
        &mut self,
        bytes: &[u8],
        encoding: Encoding,
        out: &mut String,
    ) -> Option<ErrorKind> {
        match encoding {
            Encoding::Utf8 | Encoding::Ascii => {
                let decoded = allowed(valid_utf8(bytes), encoding == Encoding::Ascii);
                out.push_str(decoded.text);
                let partial = bytes.get(bytes.len() - decoded.partial..);
                // Harmless: a partial character is at the end of the bytes.
                self.held.extend_from_slice(partial.unwrap_or_default());
                decoded.error
            }
            Encoding::Latin1 => {
                let from = out.len();
                out.extend(bytes.iter().map(|byte| char::from(*byte)));
                cut_forbidden(out, from)
            }
            Encoding::Utf16Le => self.decode_utf16(bytes, u16::from_le_bytes, out),
            Encoding::Utf16Be => self.decode_utf16(bytes, u16::from_be_bytes, out),
        }
    }

    fn decode_utf16(
        &mut self,
        bytes: &[u8],
        unit: fn([u8; 2]) -> u16,
        out: &mut String,
    ) -> Option<ErrorKind> {
        let from = out.len();
        let (pairs, odd) = bytes.as_chunks::<2>();
        let mut whole = pairs;
        // The first half of a surrogate pair waits for the second.
        if let Some((last, front)) = pairs.split_last()
            && matches!(unit(*last), 0xD800..=0xDBFF)
        {
            whole = front;
            self.held.extend_from_slice(last);
        }
        self.held.extend_from_slice(odd);
        let mut fault = None;
        for c in char::decode_utf16(whole.iter().map(|pair| unit(*pair))) {
            match c {
                Ok(c) => out.push(c),
                Err(_) => {
                    fault = Some(ErrorKind::Encoding(
                        "half a pair of surrogates: this is not UTF-16".into(),
                    ));
                    break;
                }
            }
        }
        cut_forbidden(out, from).or(fault)
    }

    /// Ends the input: bytes still held are a partial character.
    pub(crate) fn end(&mut self) -> Option<ErrorKind> {
        if self.held.is_empty() { None } else { Some(ErrorKind::Unfinished("a character")) }
    }
}

/// Truncates `out` before the first forbidden character at or after `from`.
fn cut_forbidden(out: &mut String, from: usize) -> Option<ErrorKind> {
    let (front, kind) = forbidden(out.get(from..).unwrap_or_default())?;
    let len = from + front.len();
    // Harmless: the error reports the character that is cut off.
    out.truncate(len);
    Some(kind)
}
