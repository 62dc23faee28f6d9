//! The position of the parser in the text of a query, and its errors.

use crate::{Error, ErrorKind};

/// Maximum nesting of filters, parentheses and function calls.
const NESTING_MAX: usize = 64;

/// The position of the parser.
pub(super) struct Cursor<'t> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    nesting: usize,
}

impl<'t> Cursor<'t> {
    pub(super) fn new(text: &'t str, at: usize) -> Cursor<'t> {
        Cursor { text, at, nesting: 0 }
    }

    pub(super) fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn eat(&mut self, sign: &str) -> bool {
        let found = self.rest().starts_with(sign);
        if found {
            self.at += sign.len();
        }
        found
    }

    pub(super) fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    pub(super) fn refuse<T>(&self, what: impl Into<Box<str>>) -> Result<T, Error> {
        self.refuse_at(self.at, ErrorKind::syntax(what))
    }

    pub(super) fn refuse_at<T>(&self, at: usize, kind: ErrorKind) -> Result<T, Error> {
        Err(kind.at(self.text, at))
    }

    /// Parses a nested part, within the limit on nesting.
    pub(super) fn nested<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.nesting >= NESTING_MAX {
            let limit = ErrorKind::Limit { name: "nesting", max: NESTING_MAX as u64 };
            return self.refuse_at(self.at, limit);
        }
        self.nesting += 1;
        let read = read(self);
        self.nesting -= 1;
        read
    }
}
