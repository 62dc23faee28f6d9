//! Attribute values of the schema for schemas.

use super::table::Value;

/// Returns whether a value is valid for its type. Surrounding white space is ignored, as everywhere in the schema for schemas.
pub(super) fn is_valid(kind: Value, value: &str) -> bool {
    let value = collapse(value);
    match kind {
        Value::Text | Value::Uri => true,
        Value::NcName => is_ncname(value),
        Value::QName => is_qname(value),
        Value::QNames => words(value).all(is_qname),
        Value::Boolean => matches!(value, "true" | "false" | "1" | "0"),
        Value::NonNegative => is_non_negative(value),
        Value::MaxOccurs => value == "unbounded" || is_non_negative(value),
        Value::ZeroOrOne => number(value).is_some_and(|n| n <= 1),
        Value::One => number(value) == Some(1),
        Value::Form => matches!(value, "qualified" | "unqualified"),
        Value::Use => matches!(value, "prohibited" | "optional" | "required"),
        Value::ProcessContents => matches!(value, "skip" | "lax" | "strict"),
        Value::Namespaces => is_namespaces(value),
        Value::Set(allowed) => value == "#all" || words(value).all(|word| allowed.contains(&word)),
    }
}

/// Trims white space. Inner white space is kept, because no value that is compared as a whole has any.
pub(crate) fn collapse(value: &str) -> &str {
    value.trim_matches([' ', '\t', '\n', '\r'])
}

pub(super) fn words(value: &str) -> impl Iterator<Item = &str> {
    value.split([' ', '\t', '\n', '\r']).filter(|word| !word.is_empty())
}

fn is_non_negative(value: &str) -> bool {
    let digits = value.strip_prefix('+').unwrap_or(value);
    let zero =
        value.strip_prefix('-').is_some_and(|d| !d.is_empty() && d.bytes().all(|b| b == b'0'));
    zero || !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
}

/// Parses a small number. Returns `None` for larger ones, which make no difference here.
fn number(value: &str) -> Option<u64> {
    // Harmless: larger numbers make no difference here.
    is_non_negative(value).then(|| value.trim_start_matches(['+', '-']).parse().ok())?
}

fn is_namespaces(value: &str) -> bool {
    let wildcard = |word: &str| matches!(word, "##any" | "##other");
    match words(value).count() {
        1 => !value.starts_with("##") || wildcard(value) || is_own(value),
        _ => words(value).all(|word| !word.starts_with("##") || is_own(word)),
    }
}

fn is_own(word: &str) -> bool {
    matches!(word, "##targetNamespace" | "##local")
}

pub(super) fn is_language(value: &str) -> bool {
    let mut parts = collapse(value).split('-');
    let part = |part: &str| (1..=8).contains(&part.len());
    let first = parts
        .next()
        .is_some_and(|first| part(first) && first.bytes().all(|b| b.is_ascii_alphabetic()));
    first && parts.all(|p| part(p) && p.bytes().all(|b| b.is_ascii_alphanumeric()))
}

pub(crate) fn is_qname(value: &str) -> bool {
    match value.split_once(':') {
        Some((prefix, local)) => is_ncname(prefix) && is_ncname(local),
        None => is_ncname(value),
    }
}

/// Returns whether a value is a name without a colon (Namespaces in XML 1.0).
pub(crate) fn is_ncname(value: &str) -> bool {
    let mut letters = value.chars();
    letters.next().is_some_and(is_name_start) && letters.all(is_name_char)
}

fn is_name_start(c: char) -> bool {
    matches!(c,
        'A'..='Z' | '_' | 'a'..='z' | '\u{C0}'..='\u{D6}' | '\u{D8}'..='\u{F6}'
        | '\u{F8}'..='\u{2FF}' | '\u{370}'..='\u{37D}' | '\u{37F}'..='\u{1FFF}'
        | '\u{200C}'..='\u{200D}' | '\u{2070}'..='\u{218F}' | '\u{2C00}'..='\u{2FEF}'
        | '\u{3001}'..='\u{D7FF}' | '\u{F900}'..='\u{FDCF}' | '\u{FDF0}'..='\u{FFFD}'
        | '\u{10000}'..='\u{EFFFF}')
}

fn is_name_char(c: char) -> bool {
    is_name_start(c)
        || matches!(c, '-' | '.' | '0'..='9' | '\u{B7}' | '\u{300}'..='\u{36F}' | '\u{203F}'..='\u{2040}')
}
