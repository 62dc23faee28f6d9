//! Matches values of headers and query parameters by regular expression.

use std::sync::Arc;

use kit::regex_error::reason;
use regex::bytes::{Regex, RegexBuilder};
use regex_syntax::hir::{Class, Hir, HirKind};

use crate::RegexError;
use crate::path_regex::{COMPILED_BYTES_MAX, STATES_BYTES_MAX, parsed, parts};

/// A regular expression that must match a whole value.
#[derive(Debug, Clone)]
pub struct ValueRegex {
    text: Arc<str>,
    form: Form,
}

#[derive(Debug, Clone)]
enum Form {
    /// The expression is a text without syntax: an importer writes `(?i)` before a value of which case does not matter. To compare a text
    /// takes less time and memory than to search for it.
    Text(PlainText),
    Expression(Regex),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct PlainText {
    /// In lower case if case does not matter.
    text: Box<[u8]>,
    any_case: bool,
}

impl ValueRegex {
    /// Parses an expression of the configuration.
    pub fn parse(text: &str) -> Result<ValueRegex, RegexError> {
        let form = match PlainText::of(&parsed(text)?) {
            Some(plain) => Form::Text(plain),
            None => Form::Expression(compiled(&format!(r"\A(?:{text})\z"))?),
        };
        Ok(ValueRegex { text: text.into(), form })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn is_met(&self, value: &[u8]) -> bool {
        match &self.form {
            Form::Text(PlainText { text, any_case: true }) => text.eq_ignore_ascii_case(value),
            Form::Text(PlainText { text, any_case: false }) => **text == *value,
            Form::Expression(regex) => regex.is_match(value),
        }
    }
}

impl PlainText {
    /// Returns the text that an expression matches, if it matches only one.
    fn of(hir: &Hir) -> Option<PlainText> {
        let (mut text, mut any_case, mut exact) = (Vec::new(), false, false);
        for part in parts(hir) {
            if let HirKind::Literal(literal) = part.kind() {
                exact |= literal.0.iter().any(u8::is_ascii_alphabetic);
                text.extend_from_slice(&literal.0);
            } else {
                text.push(letter(part)?);
                any_case = true;
            }
        }
        // A text in which the case of only some letters matters is left to the expression.
        (!(exact && any_case)).then(|| PlainText { text: text.into(), any_case })
    }
}

/// Returns the letter in lower case, if an expression matches exactly this letter in both cases.
fn letter(hir: &Hir) -> Option<u8> {
    let HirKind::Class(Class::Bytes(class)) = hir.kind() else { return None };
    let [upper, lower] = class.ranges() else { return None };
    let is_one = upper.start() == upper.end() && lower.start() == lower.end();
    let is_letter =
        upper.start().is_ascii_uppercase() && upper.start().to_ascii_lowercase() == lower.start();
    (is_one && is_letter).then_some(lower.start())
}

fn compiled(text: &str) -> Result<Regex, RegexError> {
    RegexBuilder::new(text)
        .unicode(false)
        .size_limit(COMPILED_BYTES_MAX)
        .dfa_size_limit(STATES_BYTES_MAX)
        .build()
        .map_err(|error| match error {
            regex::Error::CompiledTooBig(_) => RegexError::TooLarge,
            other @ (regex::Error::Syntax(_) | _) => RegexError::Syntax(reason(&other)),
        })
}

impl PartialEq for ValueRegex {
    fn eq(&self, other: &ValueRegex) -> bool {
        self.text == other.text
    }
}

impl Eq for ValueRegex {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_value_is_matched() {
        for (regex, is_text, yes, no) in [
            ("a", true, vec!["a"], vec!["A", "ab", "ba", ""]),
            ("(?i)(?:a-1)", true, vec!["a-1", "A-1"], vec!["a_1", "a-1 "]),
            ("(?i)aB", true, vec!["ab", "Ab", "aB", "AB"], vec!["a"]),
            ("(?:1)", true, vec!["1"], vec!["2"]),
            ("", false, vec![""], vec!["a"]),
            (r"a\.b", true, vec!["a.b"], vec!["axb"]),
            ("a(?i)b", false, vec!["ab", "aB"], vec!["Ab"]),
            ("(?i)a|b", false, vec!["A", "b"], vec!["ab"]),
            ("[ab]", false, vec!["a", "b"], vec!["A"]),
            ("^a$", false, vec!["a"], vec!["A"]),
            ("(a)", false, vec!["a"], vec!["A"]),
            ("a.*", false, vec!["a", "abc"], vec!["b"]),
        ] {
            let read = ValueRegex::parse(regex).unwrap();
            assert_eq!(matches!(read.form, Form::Text(_)), is_text, "{regex}");
            assert!(yes.iter().all(|value| read.is_met(value.as_bytes())), "{regex}");
            assert!(!no.iter().any(|value| read.is_met(value.as_bytes())), "{regex}");
        }
        for (regex, why) in [("a(", "unclosed group"), ("(a{1,1000}){1,1000}", "it is over")] {
            let error = ValueRegex::parse(regex).unwrap_err().to_string();
            assert!(error.starts_with(why), "{regex}: {error}");
        }
    }
}
