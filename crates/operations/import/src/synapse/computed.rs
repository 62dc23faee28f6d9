//! Converts `${...}` that computes or compares to CEL that gives the same results as Micro Integrator.
//!
//! In Micro Integrator, `==` compares texts, `<` and `>` only compare numbers, `and` and `or` evaluate both sides, and an expression
//! that fails gives an empty text.

use super::converter::Converter;
use super::message_path::{MessagePath, place};

/// The limit of nested expressions.
const DEPTH_MAX: usize = 32;

/// The note about `and` or `or` between comparisons without parentheses.
const BINDING: &str = "`and` and `or` bind weaker than comparisons here; there they bind stronger, so that comparisons need parentheses";

/// Operators by precedence, lowest first. If two have the same beginning, the longer one comes first.
const LEVELS: [&[&str]; 5] = [
    &["||", "or"],
    &["&&", "and"],
    &["==", "!=", ">=", "<=", ">", "<"],
    &["+", "-"],
    &["*", "/", "%"],
];

/// The level of comparisons in [`LEVELS`].
const COMPARISONS: usize = 2;

/// The type of a part, as far as known.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ValueType {
    Text,
    Number,
    Truth,
    Null,
    /// Any value of the message.
    Any,
}

/// A part of an expression, converted to CEL.
struct Part {
    text: String,
    gives: ValueType,
    /// The level of its operator in [`LEVELS`], or `None` if it needs no parentheses.
    level: Option<usize>,
    /// For a value that may be absent, an expression for the value or null.
    or_null: Option<String>,
}

/// The parser of an expression.
struct Reader<'c, 'a, 't> {
    converter: &'c mut Converter<'a>,
    whole: &'t str,
    rest: &'t str,
    depth: usize,
}

/// Converts a whole text to CEL.
pub(super) fn rule(converter: &mut Converter<'_>, text: &str) -> Result<String, String> {
    let mut reader = Reader { converter, whole: text, rest: text.trim_start(), depth: 0 };
    let part = reader.conditional()?;
    if !reader.rest.is_empty() {
        return Err(reader.refused_here());
    }
    Ok(format!("default({}, '')", part.text))
}

impl Part {
    fn plain(text: String, gives: ValueType) -> Part {
        Part { text, gives, level: None, or_null: None }
    }

    /// The text as an operand of an operator with this precedence.
    fn inside(&self, level: usize) -> String {
        match self.level {
            Some(own) if own <= level => format!("({})", self.text),
            Some(_) | None => self.text.clone(),
        }
    }

    /// The text as an argument. An absent value is null.
    fn argument(&self) -> &str {
        self.or_null.as_deref().unwrap_or(&self.text)
    }
}

impl<'t> Reader<'_, '_, 't> {
    fn refused(&self, what: &str) -> String {
        let at = self.whole.len() - self.rest.len();
        format!("{what} has no counterpart (character {} of `{}`)", at + 1, self.whole)
    }

    fn refused_here(&self) -> String {
        let word = word(self.rest);
        match (word.is_empty(), self.rest.chars().next()) {
            (false, _) => self.refused(&format!("`{word}`")),
            (true, Some(first)) => self.refused(&format!("`{first}`")),
            (true, None) => self.refused("an expression that ends here"),
        }
    }

    fn skip(&mut self, bytes: usize) {
        self.rest = after(self.rest, bytes).trim_start();
    }

    /// Skips a sign or a word, if it is there.
    fn takes(&mut self, sign: &str) -> bool {
        let is_word = sign.starts_with(|c: char| c.is_ascii_alphabetic());
        let is_there = if is_word { word(self.rest) == sign } else { self.rest.starts_with(sign) };
        if is_there {
            self.skip(sign.len());
        }
        is_there
    }

    fn conditional(&mut self) -> Result<Part, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.refused("an expression that is nested so deep"));
        }
        let condition = self.operators(0)?;
        let part = if self.takes("?") {
            let then = self.conditional()?;
            if !self.takes(":") {
                return Err(self.refused("a `?` without `:`"));
            }
            let otherwise = self.conditional()?;
            let text = format!("({} ? {} : {})", condition.inside(0), then.text, otherwise.text);
            Part::plain(text, ValueType::Any)
        } else {
            condition
        };
        self.depth -= 1;
        Ok(part)
    }

    /// Operators of a level and of all that bind stronger.
    fn operators(&mut self, level: usize) -> Result<Part, String> {
        let Some(signs) = LEVELS.get(level) else { return self.single() };
        let mut left = self.operators(level + 1)?;
        while let Some(sign) = signs.iter().copied().find(|sign| self.takes(sign)) {
            let right = self.operators(level + 1)?;
            left = match level {
                0 | 1 => self.both(level, &left, &right),
                COMPARISONS => self.compared(sign, &left, &right)?,
                _ => {
                    let text = format!("{} {sign} {}", left.inside(level - 1), right.inside(level));
                    Part { level: Some(level), ..Part::plain(text, ValueType::Any) }
                }
            };
        }
        Ok(left)
    }

    /// `and` and `or`, with both sides computed.
    fn both(&mut self, level: usize, left: &Part, right: &Part) -> Part {
        if [left, right].iter().any(|side| side.level == Some(COMPARISONS)) {
            self.converter.note(BINDING);
        }
        let every = if level == 0 { "exists" } else { "all" };
        let text = format!("[{}, {}].{every}(side, side)", left.text, right.text);
        Part::plain(text, ValueType::Truth)
    }

    fn compared(&mut self, sign: &str, left: &Part, right: &Part) -> Result<Part, String> {
        let is_null = [left, right].iter().any(|side| side.gives == ValueType::Null);
        let (first, second) = (left.argument(), right.argument());
        let (a, b) = (left.inside(COMPARISONS), right.inside(COMPARISONS));
        let text = match sign {
            "==" | "!=" if is_null => format!("{first} {sign} {second}"),
            "==" => format!("sameText({first}, {second})"),
            "!=" => format!("!sameText({first}, {second})"),
            _ if is_null || [left, right].iter().any(|side| side.gives == ValueType::Text) => {
                return Err(self.refused(&format!("`{sign}` of what is not a number")));
            }
            _ if left.gives == ValueType::Any && right.gives == ValueType::Any => {
                // In Micro Integrator texts have no order; `+ 0` makes the comparison of a text fail here too.
                format!("{a} + 0 {sign} {b}")
            }
            _ => format!("{a} {sign} {b}"),
        };
        Ok(Part { level: Some(COMPARISONS), ..Part::plain(text, ValueType::Truth) })
    }

    fn single(&mut self) -> Result<Part, String> {
        let first = self.rest.chars().next().unwrap_or(' ');
        if self.takes("(") {
            let inner = self.conditional()?;
            return if self.takes(")") {
                Ok(Part { text: inner.inside(LEVELS.len()), level: None, ..inner })
            } else {
                Err(self.refused("a parenthesis that is not closed"))
            };
        }
        if self.takes("!") || self.takes("not") {
            let inner = self.single()?;
            return Ok(Part::plain(format!("!{}", inner.inside(LEVELS.len())), ValueType::Truth));
        }
        if matches!(first, '\'' | '"') {
            return self.literal_text(first);
        }
        if first.is_ascii_digit() || first == '-' {
            return self.number();
        }
        for (name, gives) in
            [("true", ValueType::Truth), ("false", ValueType::Truth), ("null", ValueType::Null)]
        {
            if self.takes(name) {
                return Ok(Part::plain(name.to_owned(), gives));
            }
        }
        if let Some(MessagePath { end, rule, or_null, .. }) = place(self.converter, self.rest)? {
            if rule.contains("[-") || rule.contains("..") {
                return Err(self.refused("a path that counts from the end or finds several values"));
            }
            self.skip(end);
            return Ok(Part { or_null, ..Part::plain(rule, ValueType::Any) });
        }
        let is_length = word(self.rest) == "length" && self.takes("length");
        if is_length && self.takes("(") {
            let inner = self.conditional()?;
            return if self.takes(")") {
                Ok(Part::plain(format!("size({})", inner.text), ValueType::Number))
            } else {
                Err(self.refused("a parenthesis that is not closed"))
            };
        }
        Err(self.refused_here())
    }

    fn literal_text(&mut self, quote: char) -> Result<Part, String> {
        let mut escaped = false;
        let inner = after(self.rest, 1);
        let close = inner.char_indices().find(|(_, c)| {
            let ends = !escaped && *c == quote;
            escaped = !escaped && *c == '\\';
            ends
        });
        let (len, _) = close.ok_or_else(|| self.refused("a text without an end"))?;
        let text = before(self.rest, len + 2).to_owned();
        self.skip(len + 2);
        Ok(Part::plain(text, ValueType::Text))
    }

    fn number(&mut self) -> Result<Part, String> {
        let sign = usize::from(self.rest.starts_with('-'));
        let digits = after(self.rest, sign);
        let len = digits.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(digits.len());
        let text = before(self.rest, sign + len).to_owned();
        if len == 0 {
            return Err(self.refused_here());
        }
        self.skip(sign + len);
        Ok(Part::plain(text, ValueType::Number))
    }
}

/// The word at the beginning of a text.
fn word(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    before(text, end)
}

fn before(text: &str, end: usize) -> &str {
    // Harmless: all places were found in this text.
    text.get(..end).unwrap_or_default()
}

fn after(text: &str, end: usize) -> &str {
    // Harmless: all places were found in this text.
    text.get(end..).unwrap_or_default()
}
