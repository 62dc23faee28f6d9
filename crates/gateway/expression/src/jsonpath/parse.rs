//! A recursive-descent parser for RFC 9535. Filters are in `super::filter`.

use crate::jsonpath::cursor::Cursor;
use crate::jsonpath::{Path, Segment, Selector, filter, strings};
use crate::{Error, ErrorKind};

/// The largest integer of I-JSON: a double represents it and all smaller ones exactly.
const INTEGER_MAX: i64 = (1 << 53) - 1;

/// Parses a whole query.
pub(super) fn whole(text: &str) -> Result<Path, Error> {
    let mut cursor = Cursor::new(text, 0);
    if !cursor.eat("$") {
        return cursor.refuse("a query must begin with `$`");
    }
    let path = cursor.path()?;
    if cursor.at == text.len() {
        Ok(path)
    } else {
        cursor.refuse("expected a segment: `.name`, `..name` or `[...]`")
    }
}

/// Parses segments from a byte offset on. Returns them with the offset after them.
pub(super) fn segments(text: &str, from: usize) -> Result<(Path, usize), Error> {
    let mut cursor = Cursor::new(text, from);
    let path = cursor.path()?;
    Ok((path, cursor.at))
}

impl<'t> Cursor<'t> {
    /// Parses all segments that follow. Does not skip blanks after the last one.
    pub(super) fn path(&mut self) -> Result<Path, Error> {
        let mut path = Path { segments: Vec::new(), singular: true };
        loop {
            let before = self.at;
            self.blanks();
            let Some(segment) = self.segment()? else {
                self.at = before;
                return Ok(path);
            };
            path.singular &= !segment.descends
                && matches!(&*segment.selectors, [Selector::Name(_) | Selector::Index(_)]);
            path.segments.push(segment);
        }
    }

    fn segment(&mut self) -> Result<Option<Segment>, Error> {
        let descends = self.eat("..");
        if self.eat("[") {
            let selectors = self.selectors()?;
            return Ok(Some(Segment { descends, selectors }));
        }
        if !descends && !self.eat(".") {
            return Ok(None);
        }
        let selector = if self.eat("*") {
            Selector::Wildcard
        } else {
            Selector::Name(self.shorthand(descends)?.into())
        };
        Ok(Some(Segment { descends, selectors: vec![selector] }))
    }

    /// Reads a name without quotes. After `..`, which `descends` tells, a `[` may stand in its place.
    fn shorthand(&mut self, descends: bool) -> Result<&'t str, Error> {
        let rest = self.rest();
        let is_name = |c: char| c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii();
        let len = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
        // Harmless: `len` is a character boundary within the text, so the split cannot fail.
        let (name, _) = rest.split_at_checked(len).unwrap_or_default();
        if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
            return self.refuse(if descends {
                "expected a member's name, `*` or `[`"
            } else {
                "expected a member's name or `*`; write `[...]` without a dot before it"
            });
        }
        self.at += len;
        Ok(name)
    }

    fn selectors(&mut self) -> Result<Vec<Selector>, Error> {
        let mut selectors = Vec::new();
        loop {
            self.blanks();
            selectors.push(self.selector()?);
            self.blanks();
            if self.eat("]") {
                return Ok(selectors);
            }
            if !self.eat(",") {
                return self.refuse("expected `,` or `]`");
            }
        }
    }

    fn selector(&mut self) -> Result<Selector, Error> {
        match self.peek() {
            Some(b'\'' | b'"') => Ok(Selector::Name(strings::read(self)?.into())),
            Some(b'*') => {
                self.at += 1;
                Ok(Selector::Wildcard)
            }
            Some(b'?') => {
                self.at += 1;
                self.blanks();
                Ok(Selector::Filter(self.nested(filter::logical)?))
            }
            Some(b'-' | b'0'..=b'9' | b':') => self.index_or_slice(),
            Some(_) | None => {
                self.refuse("`[ ]` takes a name in quotes as in `[\'name\']`, a number, a slice such as `[0:2]`, `*`, or a filter such as `[?@.price > 10]`")
            }
        }
    }

    fn index_or_slice(&mut self) -> Result<Selector, Error> {
        let start = self.integer()?;
        let after = self.at;
        self.blanks();
        if !self.eat(":") {
            self.at = after;
            return match start {
                Some(index) => Ok(Selector::Index(index)),
                None => self.refuse("expected an index"),
            };
        }
        self.blanks();
        let end = self.integer()?;
        let after = self.at;
        self.blanks();
        let step = if self.eat(":") {
            self.blanks();
            self.integer()?
        } else {
            self.at = after;
            None
        };
        Ok(Selector::Slice { start, end, step: step.unwrap_or(1) })
    }

    /// Parses an integer, if there is one.
    fn integer(&mut self) -> Result<Option<i64>, Error> {
        let from = self.at;
        let minus = self.eat("-");
        let digits = self.digits();
        let text = self.text.get(from..self.at).unwrap_or_default();
        match (digits, minus) {
            ("", false) => return Ok(None),
            ("", true) => return self.refuse("expected a digit"),
            _ if digits.starts_with('0') && (digits.len() > 1 || minus) => {
                let what = ErrorKind::syntax("a whole number cannot have leading zeros or be `-0`");
                return self.refuse_at(from, what);
            }
            // Harmless: other numbers are parsed below.
            _ => {}
        }
        // Harmless: a number that is too large is refused below.
        let number = text.parse::<i64>().ok().filter(|n| n.abs() <= INTEGER_MAX);
        match number {
            Some(number) => Ok(Some(number)),
            None => self.refuse_at(
                from,
                ErrorKind::Limit { name: "whole numbers", max: INTEGER_MAX.unsigned_abs() },
            ),
        }
    }

    pub(super) fn digits(&mut self) -> &'t str {
        let rest = self.rest();
        let len = rest.bytes().take_while(u8::is_ascii_digit).count();
        self.at += len;
        rest.get(..len).unwrap_or_default()
    }
}
