//! Splits the text of a template into literals and placeholders.

use crate::{Error, ErrorKind, Expression, Language, Names};

/// Half the maximum number of pieces: usually placeholders and texts alternate. No hand-written template has more.
const PLACEHOLDERS_MAX: usize = 10_000;

/// A piece of a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'t> {
    Literal {
        text: &'t str,
        /// Byte offset in the template.
        at: usize,
    },
    Placeholder {
        /// The expression, without surrounding blanks.
        text: &'t str,
        /// Byte offset of the expression.
        at: usize,
        /// Byte offset of the braces.
        from: usize,
    },
}

impl Piece<'_> {
    pub(super) fn is_placeholder(&self) -> bool {
        matches!(self, Piece::Placeholder { .. })
    }
}

/// Splits a text into pieces.
pub(super) fn of(text: &str) -> Result<Vec<Piece<'_>>, Error> {
    let mut pieces = Vec::new();
    let mut at = 0;
    while let Some((literal, rest)) = text.get(at..).and_then(|rest| rest.split_once("{{")) {
        if !literal.is_empty() {
            pieces.push(Piece::Literal { text: literal, at });
        }
        let from = at + literal.len();
        let Some(len) = end(rest) else {
            return Err(ErrorKind::syntax("`{{` has no `}}`").at(text, from));
        };
        let inner = rest.get(..len).unwrap_or_default();
        let blanks = inner.len() - inner.trim_start().len();
        let expression = inner.trim();
        if expression.is_empty() {
            return Err(
                ErrorKind::syntax("an expression is missing between `{{` and `}}`").at(text, from)
            );
        }
        if pieces.len() > 2 * PLACEHOLDERS_MAX {
            let max = PLACEHOLDERS_MAX as u64;
            return Err(ErrorKind::Limit { name: "placeholders", max }.at(text, from));
        }
        pieces.push(Piece::Placeholder { text: expression, at: from + 2 + blanks, from });
        at = from + 2 + len + 2;
    }
    let literal = text.get(at..).unwrap_or_default();
    if !literal.is_empty() {
        pieces.push(Piece::Literal { text: literal, at });
    }
    Ok(pieces)
}

/// Returns the offset of the first `}}` outside a string. Strings in JSONPath may contain escapes.
fn end(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut chars = text.char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match (quote, c) {
            (Some(_), '\\') => drop(chars.next()),
            (Some(open), c) => quote = (c != open).then_some(open),
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') if chars.peek().is_some_and(|(_, next)| *next == '}') => return Some(at),
            (None, _) => {}
        }
    }
    None
}

/// Compiles the text between the braces. A literal would be pointless there, so a text that does not begin with `$` or `/` is XPath:
/// `{{ count(//item) }}`.
pub(super) fn compile(text: &str, names: &dyn Names) -> Result<Expression, Error> {
    let language = if text.starts_with(['$', '/']) { Language::Marked } else { Language::XPath };
    Expression::compile(text, language, names)
}
