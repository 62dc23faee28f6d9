//! Expressions in `${...}`: a place in the message becomes its name, computations and comparisons become CEL.

use super::computed::rule;
use super::converter::Converter;
use super::element::Element;
use super::message_path::{MessagePath, place};
use super::value::Value;
use super::xpath_text::XPathType;

/// The value of the text between the braces.
pub(super) fn value<'a>(
    converter: &mut Converter<'a>,
    element: &Element<'a>,
    text: &str,
) -> Result<Value, String> {
    let text = text.trim();
    if let Some(inner) = called(text, "xpath") {
        return converter.xpath(element, inner);
    }
    match place(converter, text)? {
        Some(MessagePath { end, path, .. }) if end == text.len() && !path.is_empty() => {
            Ok(Value::Path(path, XPathType::Other))
        }
        Some(_) | None => rule(converter, text).map(Value::Cel),
    }
}

/// Splits a text at the closing brace.
pub(super) fn close(text: &str) -> Option<(&str, &str)> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '}') => return Some((text.get(..at)?, text.get(at + 1..)?)),
            // Harmless: any other character is a part of the expression.
            _ => {}
        }
    }
    None
}

/// The literal argument of `name('...')`, where that is the whole text.
fn called<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    let inner = text.strip_prefix(name)?.trim_start().strip_prefix('(')?.strip_suffix(')')?.trim();
    let quote = inner.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    inner.get(1..)?.strip_suffix(quote).filter(|inner| !inner.contains(quote))
}
