//! Character data, CDATA sections and references in content.

use crate::Sink;
use crate::chars::{char_at, is_char, skip_name_chars, skip_ncname, text_end};
use crate::machine::{Machine, Phase};
use crate::stop::{Halt, Run, Scan, Stop, bad, over};
use crate::window::Window;

/// Maximum number of digits of a character reference. Leading zeros are allowed, so the syntax sets no limit.
const DIGITS_MAX: usize = 64;

/// Target of a reference.
pub(crate) enum Reference<'w> {
    Character(char),
    Entity(&'w str),
}

impl Machine {
    /// Reads character data up to `<` or `&`, or as far as the window allows a decision.
    #[inline(never)]
    pub(crate) fn text<S: Sink>(
        &mut self,
        window: &Window<'_>,
        from: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let bytes = window.text.as_bytes();
        let end = text_end(bytes, from);
        match bytes.get(end) {
            Some(b'<' | b'&') | None => {
                if from < end {
                    let here = self.here(window, from);
                    sink.text(window.get(from, end), false, here).map_err(Halt::Sink)?;
                }
                Ok(end)
            }
            Some(_) => self.odd_text(window, from, end, sink),
        }
    }

    /// Reads character data with line ends to normalise or brackets to check. `at` is the first of them.
    fn odd_text<S: Sink>(
        &mut self,
        window: &Window<'_>,
        mut from: usize,
        mut at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let bytes = window.text.as_bytes();
        loop {
            match (bytes.get(at), bytes.get(at + 1), bytes.get(at + 2)) {
                // Line ends of an entity were normalised when it was declared, so this carriage return was written as a reference.
                (Some(b'\r'), ..) if window.origin.is_some() => at += 1,
                (Some(b'\r'), None, _) if !window.last => break,
                (Some(b'\r'), next, _) => {
                    self.emit_line(window, from, at, next, false, sink)?;
                    at += 1;
                    from = at;
                }
                (Some(b']'), Some(b']'), Some(b'>')) => {
                    self.emit(window, from, at, false, sink)?;
                    return Err(bad(at, "`]]>` is not allowed in text: write `]]&gt;`").into());
                }
                (Some(b']'), None, _) | (Some(b']'), Some(b']'), None) if !window.last => break,
                (Some(b']'), ..) => at += 1,
                _ => break,
            }
            at = text_end(bytes, at);
        }
        self.emit(window, from, at, false, sink)?;
        Ok(at)
    }

    fn emit<S: Sink>(
        &self,
        window: &Window<'_>,
        from: usize,
        to: usize,
        cdata: bool,
        sink: &mut S,
    ) -> Run<(), S::Error> {
        if from < to {
            self.emit_text(window, from, window.get(from, to), cdata, sink)
        } else {
            Ok(())
        }
    }

    /// Sends the text before a carriage return, and the line end. A line feed after it is part of the same line end (XML 1.0, 2.11).
    fn emit_line<S: Sink>(
        &self,
        window: &Window<'_>,
        from: usize,
        at: usize,
        next: Option<&u8>,
        cdata: bool,
        sink: &mut S,
    ) -> Run<(), S::Error> {
        self.emit(window, from, at, cdata, sink)?;
        match next {
            Some(b'\n') => Ok(()),
            Some(_) | None => self.emit_text(window, at, "\n", cdata, sink),
        }
    }

    #[inline(never)]
    fn emit_text<S: Sink>(
        &self,
        window: &Window<'_>,
        at: usize,
        text: &str,
        cdata: bool,
        sink: &mut S,
    ) -> Run<(), S::Error> {
        sink.text(text, cdata, self.here(window, at)).map_err(Halt::Sink)
    }

    /// Reads the content of a CDATA section, as far as the window contains it.
    pub(crate) fn cdata<S: Sink>(
        &mut self,
        window: &Window<'_>,
        from: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let bytes = window.text.as_bytes();
        let (mut from, mut at) = (from, from);
        loop {
            let rest = bytes.get(at..).unwrap_or_default();
            at += memchr::memchr2(b']', b'\r', rest).unwrap_or(rest.len());
            match (bytes.get(at), bytes.get(at + 1), bytes.get(at + 2)) {
                // Line ends of an entity were normalised when it was declared, so this carriage return was written as a reference.
                (Some(b'\r'), ..) if window.origin.is_some() => at += 1,
                (Some(b'\r'), None, _) if !window.last => break,
                (Some(b'\r'), next, _) => {
                    self.emit_line(window, from, at, next, true, sink)?;
                    at += 1;
                    from = at;
                }
                (Some(b']'), Some(b']'), Some(b'>')) => {
                    self.emit(window, from, at, true, sink)?;
                    self.phase = Phase::Content;
                    return Ok(at + 3);
                }
                (Some(b']'), None, _) | (Some(b']'), Some(b']'), None) if !window.last => break,
                (Some(b']'), ..) => at += 1,
                _ => break,
            }
        }
        self.emit(window, from, at, true, sink)?;
        Ok(at)
    }

    /// Reads a reference in content.
    #[inline(never)]
    pub(crate) fn reference<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        sink: &mut S,
    ) -> Run<usize, S::Error> {
        let rest = window.text.as_bytes().get(at..).unwrap_or_default();
        if let Some((text, len)) = plain_reference(rest) {
            self.token(at)?;
            self.emit_text(window, at, text, false, sink)?;
            return Ok(at + len);
        }
        let (reference, to) = self.scan_reference(window, at)?;
        self.token(at)?;
        match reference {
            Reference::Character(c) => {
                self.emit_text(window, at, c.encode_utf8(&mut [0; 4]), false, sink)?
            }
            Reference::Entity(name) => match predefined(name) {
                Some(text) => self.emit_text(window, at, text, false, sink)?,
                None => self.include(window, at, name, sink)?,
            },
        }
        Ok(to)
    }

    /// Reads `&#60;`, `&#x3C;` or `&name;` and returns the offset after it.
    pub(crate) fn scan_reference<'w>(
        &self,
        window: &Window<'w>,
        at: usize,
    ) -> Scan<(Reference<'w>, usize)> {
        const WHAT: &str = "a reference";
        match (window.byte(at + 1), window.byte(at + 2)) {
            (None, _) | (Some(b'#'), None) => Err(Stop::More(WHAT)),
            (Some(b'#'), Some(b'x')) => character(window, at, at + 3, 16),
            (Some(b'#'), Some(_)) => character(window, at, at + 2, 10),
            (Some(_), _) => {
                let from = at + 1;
                let to = self.name_end(window, from, WHAT)?;
                match window.byte(to) {
                    None => Err(Stop::More(WHAT)),
                    Some(b';') => Ok((Reference::Entity(window.get(from, to)), to + 1)),
                    Some(_) => Err(bad(
                        at,
                        "a reference has to end with `;`; write `&amp;` for the character `&`",
                    )),
                }
            }
        }
    }

    /// Returns the end of the name at `from`. It is an error if there is no name. Without namespaces, a name may contain colons.
    pub(crate) fn name_end(
        &self,
        window: &Window<'_>,
        from: usize,
        what: &'static str,
    ) -> Scan<usize> {
        let text = self.name_room(window, from);
        let mut to = match window.byte(from) {
            Some(b':') if !self.options.namespaces => from + 1,
            _ => skip_ncname(text, from),
        };
        while text.as_bytes().get(to) == Some(&b':') && !self.options.namespaces {
            to = skip_name_chars(text, to + 1);
        }
        if to > from && !self.options.namespaces {
            to = skip_name_chars(text, to);
        }
        self.fits_name(from, to)?;
        match window.byte(to) {
            None => Err(Stop::More(what)),
            Some(_) if to == from => Err(bad(
                from,
                format!("{what} needs a name, which cannot begin with {}", window.found(from)),
            )),
            Some(_) => Ok(to),
        }
    }

    /// Returns the text up to the point where a name that begins at `from` exceeds its limit, so that no more is scanned.
    pub(crate) fn name_room<'w>(&self, window: &Window<'w>, from: usize) -> &'w str {
        let end = from.saturating_add(self.options.limits.name_bytes_max as usize);
        // One byte more than the limit, rounded up to a whole character.
        let ends = (1..=4).map(|more| end.saturating_add(more));
        ends.map(|end| window.text.get(..end)).find_map(|room| room).unwrap_or(window.text)
    }

    /// Checks that a name does not exceed its limit.
    pub(crate) fn fits_name(&self, from: usize, to: usize) -> Scan<()> {
        let max = self.options.limits.name_bytes_max;
        if to.saturating_sub(from) > max as usize {
            Err(over(from, "name_bytes_max", max))
        } else {
            Ok(())
        }
    }
}

/// Reads a character reference whose digits begin at `from`.
fn character<'w>(
    window: &Window<'w>,
    at: usize,
    from: usize,
    radix: u32,
) -> Scan<(Reference<'w>, usize)> {
    let (mut value, mut to) = (0u32, from);
    loop {
        let Some(byte) = window.byte(to) else { return Err(Stop::More("a reference")) };
        match char::from(byte).to_digit(radix) {
            Some(digit) if to - from < DIGITS_MAX => {
                value = value.saturating_mul(radix).saturating_add(digit);
                to += 1;
            }
            _ if byte == b';' && to > from => break,
            _ => {
                // Harmless: the character is only quoted in an error.
                let c = char_at(window.text, to).map(String::from).unwrap_or_default();
                return Err(bad(to, format!("`{c}` is not allowed in a character reference")));
            }
        }
    }
    match char::from_u32(value).filter(|c| is_char(*c)) {
        Some(c) => Ok((Reference::Character(c), to + 1)),
        None => {
            Err(bad(at, format!("the reference is to U+{value:04X}, which XML does not allow")))
        }
    }
}

/// Returns the text and the length of a reference to a predefined entity.
#[inline]
fn plain_reference(bytes: &[u8]) -> Option<(&'static str, usize)> {
    match bytes {
        [_, b'l', b't', b';', ..] => Some(("<", 4)),
        [_, b'g', b't', b';', ..] => Some((">", 4)),
        [_, b'a', b'm', b'p', b';', ..] => Some(("&", 5)),
        [_, b'a', b'p', b'o', b's', b';', ..] => Some(("'", 6)),
        [_, b'q', b'u', b'o', b't', b';', ..] => Some(("\"", 6)),
        _ => None,
    }
}

/// Returns the text of a predefined entity.
pub(crate) fn predefined(name: &str) -> Option<&'static str> {
    match name {
        "lt" => Some("<"),
        "gt" => Some(">"),
        "amp" => Some("&"),
        "apos" => Some("'"),
        "quot" => Some("\""),
        _ => None,
    }
}
