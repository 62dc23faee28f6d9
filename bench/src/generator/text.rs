//! Text with placeholders whose values vary from request to request: `${number:8}`, `${random:16}`, `${spaces:3}`, `${user:4}` and
//! `${table.column}`.
//!
//! Owns the notation and the meaning of placeholders. A text is written and read as a string, in which `$${` stands for `${`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::load::Table;

/// Text with placeholders.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The parts, in order.
    pub parts: Vec<Part>,
}

/// A part of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text that is the same in every request.
    Same(String),
    /// `${number:DIGITS}`: a decimal number, unique among the requests of all users.
    Number(usize),
    /// `${user:DIGITS}`: the number of the user, from 0.
    User(usize),
    /// `${random:BYTES}`: letters from a to p.
    Random(usize),
    /// `${spaces:MAX}`: a varying number of spaces, at most this many.
    Spaces(usize),
    /// `${TABLE.COLUMN}`: a value of the request's row.
    Cell {
        /// The name of the table.
        table: String,
        /// The name of the column.
        column: String,
    },
}

/// Maximum number of digits, which is that of a 64-bit number.
const DIGITS_MAX: usize = 20;
/// Maximum length of random text. The documents' largest body has 100 KiB.
const RANDOM_BYTES_MAX: usize = 1 << 20;
/// Maximum number of spaces.
const SPACES_MAX: usize = 100;

impl Text {
    /// Creates a text without placeholders.
    #[must_use]
    pub fn same(text: impl Into<String>) -> Text {
        let text = text.into();
        let parts = if text.is_empty() { Vec::new() } else { vec![Part::Same(text)] };
        Text { parts }
    }

    /// Returns its length, or `None` if it varies.
    #[must_use]
    pub fn bytes(&self, tables: &BTreeMap<String, Table>) -> Option<usize> {
        self.parts.iter().map(|part| part.bytes(tables)).sum()
    }

    /// Returns a complaint for each table or column that it refers to and that does not exist.
    #[must_use]
    pub fn complaints(&self, tables: &BTreeMap<String, Table>) -> Vec<String> {
        let missing = |part: &Part| match part {
            Part::Cell { table, column } => match tables.get(table) {
                None => Some(format!("`{part}`: there is no table `{table}`")),
                Some(known) if !known.columns.contains(column) => {
                    Some(format!("`{part}`: table `{table}` has no column `{column}`"))
                }
                Some(_) => None,
            },
            Part::Same(_) | Part::Number(_) | Part::User(_) | Part::Random(_) | Part::Spaces(_) => {
                None
            }
        };
        self.parts.iter().flat_map(missing).collect()
    }

    /// Returns all text that it can contain, apart from digits and letters.
    pub(super) fn values<'t>(&'t self, tables: &'t BTreeMap<String, Table>) -> Vec<&'t str> {
        let mut values = Vec::new();
        for part in &self.parts {
            match part {
                Part::Same(text) => values.push(text.as_str()),
                Part::Cell { table, column } => {
                    let cells = tables.get(table).map(|table| table.cells(column));
                    values.extend(cells.into_iter().flatten());
                }
                Part::Number(_) | Part::User(_) | Part::Random(_) | Part::Spaces(_) => {}
            }
        }
        values
    }
}

impl Part {
    /// Returns the length of the part, or `None` if it varies.
    pub(crate) fn bytes(&self, tables: &BTreeMap<String, Table>) -> Option<usize> {
        match self {
            Part::Same(text) => Some(text.len()),
            Part::Number(bytes) | Part::User(bytes) | Part::Random(bytes) => Some(*bytes),
            Part::Spaces(_) => None,
            Part::Cell { table, column } => {
                let mut lengths = tables.get(table)?.cells(column).map(str::len);
                let first = lengths.next()?;
                lengths.all(|length| length == first).then_some(first)
            }
        }
    }
}

impl Table {
    /// Returns the values of a column, one for each row.
    pub(crate) fn cells(&self, column: &str) -> impl Iterator<Item = &str> {
        let at = self.columns.iter().position(|name| name == column);
        self.rows.iter().map(move |row| at.and_then(|at| row.get(at)).map_or("", String::as_str))
    }
}

impl FromStr for Text {
    type Err = String;

    fn from_str(text: &str) -> Result<Text, String> {
        let (mut parts, mut same, mut rest) = (Vec::new(), String::new(), text);
        while let Some((before, after)) = rest.split_once("${") {
            if let Some(before) = before.strip_suffix('$') {
                same.push_str(before);
                same.push_str("${");
                rest = after;
                continue;
            }
            same.push_str(before);
            let (inside, after) = after
                .split_once('}')
                .ok_or_else(|| "`${` needs a `}`; write `$${` for the characters".to_owned())?;
            if !same.is_empty() {
                parts.push(Part::Same(std::mem::take(&mut same)));
            }
            parts.push(inside.parse()?);
            rest = after;
        }
        same.push_str(rest);
        if !same.is_empty() {
            parts.push(Part::Same(same));
        }
        Ok(Text { parts })
    }
}

impl FromStr for Part {
    type Err = String;

    fn from_str(text: &str) -> Result<Part, String> {
        let count = |text: &str, max: usize| {
            let count = text.parse().map_or(0, |count: usize| count);
            let good = (1..=max).contains(&count);
            good.then_some(count).ok_or_else(|| format!("`{text}` must be from 1 to {max}"))
        };
        if let Some((table, column)) = text.split_once('.') {
            return Ok(Part::Cell { table: table.to_owned(), column: column.to_owned() });
        }
        match text.split_once(':') {
            Some(("number", digits)) => Ok(Part::Number(count(digits, DIGITS_MAX)?)),
            Some(("user", digits)) => Ok(Part::User(count(digits, DIGITS_MAX)?)),
            Some(("random", bytes)) => Ok(Part::Random(count(bytes, RANDOM_BYTES_MAX)?)),
            Some(("spaces", most)) => Ok(Part::Spaces(count(most, SPACES_MAX)?)),
            _ => Err(format!(
                "`${{{text}}}` must be `${{number:DIGITS}}`, `${{user:DIGITS}}`, `${{random:BYTES}}`, `${{spaces:MAX}}` or `${{TABLE.COLUMN}}`"
            )),
        }
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.parts.iter().try_for_each(|part| part.fmt(f))
    }
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Part::Same(text) => f.write_str(&text.replace("${", "$${")),
            Part::Number(digits) => write!(f, "${{number:{digits}}}"),
            Part::User(digits) => write!(f, "${{user:{digits}}}"),
            Part::Random(bytes) => write!(f, "${{random:{bytes}}}"),
            Part::Spaces(most) => write!(f, "${{spaces:{most}}}"),
            Part::Cell { table, column } => write!(f, "${{{table}.{column}}}"),
        }
    }
}

impl Serialize for Text {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_read_and_written_as_a_string() {
        let cases = [
            ("", 0),
            ("plain", 1),
            ("/scen${number:2}?q=${random:16}", 4),
            ("Bearer ${tokens.jwt}", 2),
            ("${user:4}", 1),
            ("<a>${spaces:9}</a>", 3),
            ("costs $5 and $${not this}", 1),
            ("$", 1),
        ];
        for (text, parts) in cases {
            let read: Text = text.parse().unwrap();
            assert_eq!(read.parts.len(), parts, "{text}");
            assert_eq!(read.to_string(), text);
            let json = serde_json::to_string(&read).unwrap();
            assert_eq!(serde_json::from_str::<Text>(&json).unwrap(), read);
        }
        let escaped: Text = "a$${b}".parse().unwrap();
        assert_eq!(escaped, Text::same("a${b}"));
    }

    #[test]
    fn invalid_placeholders_are_explained() {
        let cases = [
            ("${", "needs a `}`"),
            ("${number}", "must be `${number:DIGITS}`"),
            ("${number:0}", "`0` must be from 1 to 20"),
            ("${random:9999999}", "must be from 1 to 1048576"),
            ("${spaces:101}", "must be from 1 to 100"),
            ("${count:3}", "must be `${number:DIGITS}`"),
        ];
        for (text, expected) in cases {
            let wrong = text.parse::<Text>().unwrap_err();
            assert!(wrong.contains(expected), "{text}: {wrong}");
        }
    }
}
