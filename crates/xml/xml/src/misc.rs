//! The XML declaration, comments and processing instructions.

use std::borrow::Cow;

use crate::Sink;
use crate::chars::{is_space, skip_space};
use crate::decode::{USUAL, is_usual};
use crate::machine::{Machine, Phase};
use crate::position_tracker::Width;
use crate::stop::{Halt, Run, Scan, Stop, bad};
use crate::window::Window;

impl Machine {
    /// Reads `<?xml version=...?>` at the very start, if there is one.
    pub(crate) fn declaration(&mut self, window: &Window<'_>) -> Scan<usize> {
        const WHAT: &str = "the XML declaration";
        let begins = match window.starts(0, "<?xml", WHAT) {
            Err(_) if window.last => false,
            other => other?,
        };
        let to = match window.byte(5) {
            Some(_) if begins && is_usual(window.text.as_bytes()) => USUAL.len(),
            None if begins && !window.last => return Err(Stop::More(WHAT)),
            Some(byte) if begins && is_space(byte) => self.scan_declaration(window)?,
            _ => 0,
        };
        self.phase = Phase::Prolog;
        Ok(to)
    }

    fn scan_declaration(&mut self, window: &Window<'_>) -> Scan<usize> {
        const WHAT: &str = "the XML declaration";
        let bytes = window.text.as_bytes();
        let mut at = "<?xml".len();
        // Each may occur once, in this order. The first is required.
        let mut expected: &[&str] = &["version", "encoding", "standalone"];
        loop {
            let from = skip_space(bytes, at);
            match (window.byte(from), window.byte(from + 1)) {
                (None, _) | (Some(b'?'), None) => return Err(Stop::More(WHAT)),
                (Some(b'?'), Some(b'>')) if expected.len() < 3 => return Ok(from + 2),
                // Harmless: the declaration continues.
                _ => {}
            }
            let name_to = self.name_end(window, from, WHAT)?;
            let name = window.get(from, name_to);
            let place = expected.iter().position(|known| *known == name);
            let place = place.filter(|place| expected.len() < 3 || *place == 0);
            let Some(place) = place.filter(|_| from > at) else {
                return Err(bad(
                    from,
                    "an XML declaration has version, encoding, standalone, in this order",
                ));
            };
            expected = expected.get(place + 1..).unwrap_or_default();
            let equals = skip_space(bytes, name_to);
            let quote_at = skip_space(bytes, equals + 1);
            let quote = match (window.byte(equals), window.byte(quote_at)) {
                (None, _) | (Some(b'='), None) => return Err(Stop::More(WHAT)),
                (Some(b'='), Some(quote @ (b'"' | b'\''))) => quote,
                _ => return Err(bad(name_to, format!("`{name}` needs `=` and a quoted value"))),
            };
            let rest = bytes.get(quote_at + 1..).unwrap_or_default();
            let len = memchr::memchr(quote, rest).ok_or(Stop::More(WHAT))?;
            let value = window.get(quote_at + 1, quote_at + 1 + len);
            at = quote_at + len + 2;
            if !self.is_declared_right(name, value) {
                return Err(bad(
                    quote_at,
                    format!("`{value}` is not a value of `{name}` in an XML declaration"),
                ));
            }
        }
    }

    /// Returns whether the value is allowed in an XML declaration. Records the value of `standalone`.
    fn is_declared_right(&mut self, name: &str, value: &str) -> bool {
        match name {
            "version" => value.strip_prefix("1.").is_some_and(|minor| {
                !minor.is_empty() && minor.bytes().all(|digit| digit.is_ascii_digit())
            }),
            "encoding" if self.tracker.width == Width::Utf16 => {
                matches!(
                    &*value.to_ascii_uppercase(),
                    "UTF-16" | "UTF-16LE" | "UTF-16BE" | "ISO-10646-UCS-2"
                )
            }
            "encoding" => {
                let later =
                    |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
                value.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
                    && value.bytes().all(later)
            }
            _ => {
                self.standalone = value == "yes";
                matches!(value, "yes" | "no")
            }
        }
    }

    /// Reads `<!-- ... -->`.
    pub(crate) fn comment<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let (text, to) = self.scan_comment(window, at)?;
        self.token(at)?;
        sink.comment(&window.line_ends(text), self.here(window, at)).map_err(Halt::Sink)?;
        Ok(to)
    }

    /// Returns the text of a comment, and the offset after it.
    pub(crate) fn scan_comment<'w>(
        &self,
        window: &Window<'w>,
        at: usize,
    ) -> Scan<(&'w str, usize)> {
        const WHAT: &str = "a comment";
        let from = at + "<!--".len();
        let rest = window.text.as_bytes().get(from..).unwrap_or_default();
        let end = memchr::memmem::find(rest, b"--").ok_or(Stop::More(WHAT))?;
        match rest.get(end + 2) {
            None => Err(Stop::More(WHAT)),
            Some(b'>') => Ok((window.get(from, from + end), from + end + 3)),
            Some(_) => Err(bad(from + end, "`--` is not allowed within a comment")),
        }
    }

    /// Reads `<?target data?>`.
    pub(crate) fn instruction<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let (target, text, to) = self.scan_instruction(window, at)?;
        self.token(at)?;
        sink.instruction(target, &window.line_ends(text), self.here(window, at))
            .map_err(Halt::Sink)?;
        Ok(to)
    }

    /// Returns target and data of a processing instruction, and the offset after it.
    pub(crate) fn scan_instruction<'w>(
        &self,
        window: &Window<'w>,
        at: usize,
    ) -> Scan<(&'w str, &'w str, usize)> {
        const WHAT: &str = "a processing instruction";
        let name_to = self.name_end(window, at + 2, WHAT)?;
        let target = window.get(at + 2, name_to);
        if target.eq_ignore_ascii_case("xml") {
            return Err(bad(at, "`<?xml` is allowed at the very start of a document only"));
        }
        let bytes = window.text.as_bytes();
        let from = skip_space(bytes, name_to);
        match (window.byte(name_to), window.byte(name_to + 1)) {
            (Some(byte), _) if is_space(byte) => {}
            (Some(b'?'), None) => return Err(Stop::More(WHAT)),
            (Some(b'?'), Some(b'>')) => {}
            _ => {
                let found = window.found(name_to);
                return Err(bad(
                    name_to,
                    format!("{found} is not allowed in the target of {WHAT}"),
                ));
            }
        }
        let rest = bytes.get(from..).unwrap_or_default();
        let len = memchr::memmem::find(rest, b"?>").ok_or(Stop::More(WHAT))?;
        Ok((target, window.get(from, from + len), from + len + 2))
    }
}

impl Window<'_> {
    /// Normalises line ends in the document itself. Those of an entity were normalised when it was declared.
    fn line_ends<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.origin {
            None => line_ends(text),
            Some(_) => Cow::Borrowed(text),
        }
    }
}

/// Replaces carriage returns, alone or with a line feed, by line feeds (XML 1.0, 2.11).
pub(crate) fn line_ends(text: &str) -> Cow<'_, str> {
    match memchr::memchr(b'\r', text.as_bytes()) {
        None => Cow::Borrowed(text),
        Some(_) => Cow::Owned(text.replace("\r\n", "\n").replace('\r', "\n")),
    }
}
