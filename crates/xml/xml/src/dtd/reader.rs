//! Reads a declaration word by word. At each step, the byte after the word must be in the window.

use crate::chars::{char_at, is_space, skip_name_chars, skip_space};
use crate::machine::Machine;
use crate::stop::{Scan, Stop, bad};
use crate::window::Window;

/// A cursor in a declaration.
pub(crate) struct Reader<'m, 'w> {
    machine: &'m Machine,
    window: Window<'w>,
    pub(crate) at: usize,
    what: &'static str,
}

/// The two parts of an external identifier.
pub(crate) struct ExternalId<'w> {
    /// `None` for a notation's public identifier without a system identifier.
    pub(crate) system: Option<&'w str>,
    pub(crate) public: Option<&'w str>,
}

impl<'m, 'w> Reader<'m, 'w> {
    pub(crate) fn new(
        machine: &'m Machine,
        window: &Window<'w>,
        at: usize,
        what: &'static str,
    ) -> Reader<'m, 'w> {
        Reader { machine, window: *window, at, what }
    }

    pub(crate) fn peek(&self) -> Scan<u8> {
        self.window.byte(self.at).ok_or(Stop::More(self.what))
    }

    /// Skips white space and returns whether there was any.
    pub(crate) fn space(&mut self) -> Scan<bool> {
        let from = self.at;
        self.at = skip_space(self.window.text.as_bytes(), from);
        self.peek().map(|_| self.at > from)
    }

    pub(crate) fn need_space(&mut self) -> Scan<()> {
        if self.space()? { Ok(()) } else { Err(self.unexpected("white space")) }
    }

    #[cold]
    pub(crate) fn unexpected(&self, due: &str) -> Stop {
        let at = self.at;
        bad(at, format!("{due} is due in {}, not {}", self.what, self.window.found(at)))
    }

    pub(crate) fn eat(&mut self, byte: u8) -> Scan<bool> {
        let found = self.peek()? == byte;
        self.at += usize::from(found);
        Ok(found)
    }

    pub(crate) fn expect(&mut self, byte: u8) -> Scan<()> {
        if self.eat(byte)? {
            Ok(())
        } else {
            Err(self.unexpected(&format!("`{}`", char::from(byte))))
        }
    }

    /// Skips `word` if it is at the cursor and no name character follows.
    pub(crate) fn keyword(&mut self, word: &str) -> Scan<bool> {
        if !self.window.starts(self.at, word, self.what)? {
            return Ok(false);
        }
        let end = self.at + word.len();
        if self.window.byte(end).is_none() {
            return Err(Stop::More(self.what));
        }
        let whole = skip_name_chars(self.window.text, end) == end;
        if whole {
            self.at = end;
        }
        Ok(whole)
    }

    /// Reads the name of an entity or a notation. It must not contain a colon if namespaces are enabled.
    pub(crate) fn name(&mut self) -> Scan<&'w str> {
        let from = self.at;
        self.at = self.machine.name_end(&self.window, from, self.what)?;
        Ok(self.window.get(from, self.at))
    }

    /// Reads the name of an element or attribute. Returns it with the length of its prefix.
    pub(crate) fn qualified_name(&mut self) -> Scan<(&'w str, usize)> {
        let name = self.machine.scan_name(&self.window, self.at, self.what)?;
        self.at = name.to;
        Ok((self.window.get(name.from, name.to), name.prefix_len))
    }

    /// Reads an `Nmtoken`.
    pub(crate) fn token(&mut self) -> Scan<()> {
        let from = self.at;
        loop {
            self.at = skip_name_chars(self.machine.name_room(&self.window, from), self.at);
            self.machine.fits_name(from, self.at)?;
            match self.peek()? {
                b':' => self.at += 1,
                _ => break,
            }
        }
        if self.at == from { Err(self.unexpected("a name token")) } else { Ok(()) }
    }

    /// Reads a quoted text. Returns it with its offset.
    pub(crate) fn quoted(&mut self) -> Scan<(&'w str, usize)> {
        let quote = self.peek()?;
        if quote != b'"' && quote != b'\'' {
            return Err(self.unexpected("a quoted text"));
        }
        let from = self.at + 1;
        let rest = self.window.text.as_bytes().get(from..).unwrap_or_default();
        let len = memchr::memchr(quote, rest).ok_or(Stop::More(self.what))?;
        self.at = from + len + 1;
        Ok((self.window.get(from, from + len), from))
    }

    /// Reads `SYSTEM "..."` or `PUBLIC "..." "..."`; if `alone`, for notations, also `PUBLIC "..."`.
    pub(crate) fn external_id(&mut self, alone: bool) -> Scan<ExternalId<'w>> {
        if self.keyword("SYSTEM")? {
            self.need_space()?;
            let (system, _) = self.quoted()?;
            return Ok(ExternalId { system: Some(system), public: None });
        }
        if !self.keyword("PUBLIC")? {
            return Err(self.unexpected("SYSTEM or PUBLIC"));
        }
        self.need_space()?;
        let (public, from) = self.quoted()?;
        if let Some(at) = public.bytes().position(|byte| !is_public(byte)) {
            // Harmless: the character is only quoted in an error.
            let c = char_at(public, at).map(String::from).unwrap_or_default();
            return Err(bad(from + at, format!("`{c}` is not allowed in a public identifier")));
        }
        let spaced = self.space()?;
        match self.peek()? {
            b'"' | b'\'' if spaced => {
                let (system, _) = self.quoted()?;
                Ok(ExternalId { system: Some(system), public: Some(public) })
            }
            _ if alone => Ok(ExternalId { system: None, public: Some(public) }),
            _ => Err(self.unexpected("white space and a system identifier")),
        }
    }

    /// Skips white space and the end of the declaration.
    pub(crate) fn close(&mut self) -> Scan<usize> {
        self.space()?;
        self.expect(b'>')?;
        Ok(self.at)
    }
}

/// `PubidChar`.
fn is_public(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || is_space(byte) && byte != b'\t'
        || b"-'()+,./:=?;!*#@$_%".contains(&byte)
}
