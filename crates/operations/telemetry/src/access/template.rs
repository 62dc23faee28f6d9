//! Lines in an operator's format: `{client} "{method} {path}" {status}`. Templates are parsed when the plan is made.

use super::field::Field;
use super::{AccessEntry, format};
use std::fmt;

/// A parsed template. `{{` and `}}` stand for braces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Part>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Field(Field),
}

/// The reason why a template cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TemplateError {
    /// There is no field with this name.
    Unknown(String),
    /// A `{` without its `}`, or a `}` without its `{`.
    Unbalanced,
    /// It has a line break or another control character.
    Control,
}

impl Template {
    /// Parses a template.
    pub fn parse(text: &str) -> Result<Template, TemplateError> {
        if text.chars().any(char::is_control) {
            return Err(TemplateError::Control);
        }
        let mut parts = Vec::new();
        let mut plain = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' | '}' if chars.next_if_eq(&c).is_some() => plain.push(c),
                '}' => return Err(TemplateError::Unbalanced),
                '{' => {
                    if !plain.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(Part::Field(field(&mut chars)?));
                }
                c => plain.push(c),
            }
        }
        if !plain.is_empty() {
            parts.push(Part::Text(plain));
        }
        Ok(Template(parts))
    }

    pub(super) fn write(&self, entry: &AccessEntry<'_>, line: &mut Vec<u8>) {
        for part in &self.0 {
            match part {
                Part::Text(text) => line.extend_from_slice(text.as_bytes()),
                Part::Field(field) => format::plain(field.value(entry), line),
            }
        }
    }
}

/// The field up to the closing brace.
fn field(chars: &mut impl Iterator<Item = char>) -> Result<Field, TemplateError> {
    let mut name = String::new();
    loop {
        match chars.next() {
            None | Some('{') => return Err(TemplateError::Unbalanced),
            Some('}') => break,
            Some(c) => name.push(c),
        }
    }
    let found = Field::ALL.iter().find(|field| field.name() == name);
    found.copied().ok_or(TemplateError::Unknown(name))
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::Unknown(name) => {
                let names: Vec<_> = Field::ALL.iter().map(|field| field.name()).collect();
                write!(f, "there is no field `{name}`; the fields are {}", names.join(", "))
            }
            TemplateError::Unbalanced => {
                f.write_str("a brace is unbalanced; write `{{` or `}}` for a literal brace")
            }
            TemplateError::Control => {
                f.write_str("a template is one line without control characters")
            }
        }
    }
}

impl std::error::Error for TemplateError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_templates_and_refuses_what_it_cannot_write() {
        let ok = [
            ("", 0),
            ("plain", 1),
            ("{status}", 1),
            ("a {status}{path} b", 4),
            ("{{{status}}}", 3),
        ];
        for (text, parts) in ok {
            assert_eq!(Template::parse(text).map(|t| t.0.len()), Ok(parts), "{text}");
        }
        let bad = [
            ("{nosuch}", TemplateError::Unknown("nosuch".into())),
            ("{}", TemplateError::Unknown(String::new())),
            ("{status", TemplateError::Unbalanced),
            ("{a{status}}", TemplateError::Unbalanced),
            ("status}", TemplateError::Unbalanced),
            ("{status}\n", TemplateError::Control),
        ];
        for (text, error) in bad {
            assert_eq!(Template::parse(text), Err(error), "{text}");
        }
        let error = Template::parse("{nosuch}").unwrap_err().to_string();
        assert!(error.contains("`nosuch`") && error.contains("user_agent"), "{error}");
    }
}
