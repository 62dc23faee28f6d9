//! Regular expressions of ECMAScript, in a form that other engines read alike.
//!
//! Browsers and most validators interpret patterns according to Annex B of ECMA-262: without the flag `u`, characters without
//! another meaning are literal. The engine here refuses them, or gives them another meaning.

use std::borrow::Cow;
use std::iter::Peekable;
use std::str::Chars;

use serde_json::{Map, Value as Json};

/// Letters and digits with a meaning after a backslash. All others are literal.
const ESCAPES: &str = "bBcdDfknpPrsStuvwWx0123456789";

/// The same pattern, with a backslash before characters that are literal in ECMAScript.
pub(crate) fn portable(pattern: &str) -> Cow<'_, str> {
    let mut made = String::with_capacity(pattern.len() + 8);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\\' => {
                escape(&mut rest, &mut made);
            }
            '[' => class(&mut rest, &mut made),
            // Not part of a quantifier.
            '{' if !begins_quantifier(&rest, &made) => made.push_str("\\{"),
            ']' => made.push_str("\\]"),
            other => made.push(other),
        }
    }
    if made == pattern { Cow::Borrowed(pattern) } else { Cow::Owned(made) }
}

/// A JSON Schema with its patterns in portable form. The recursion is bounded, since `serde_json` limits the depth of its input.
pub fn portable_schema(schema: Json) -> Json {
    match schema {
        Json::Object(members) => {
            let keyword = |(name, member)| portable_keyword(name, member);
            Json::Object(members.into_iter().map(keyword).collect())
        }
        Json::Array(items) => Json::Array(items.into_iter().map(portable_schema).collect()),
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => schema,
    }
}

fn portable_keyword(name: String, member: Json) -> (String, Json) {
    let made = match (name.as_str(), member) {
        ("pattern", Json::String(text)) => Json::String(portable(&text).into_owned()),
        ("patternProperties", Json::Object(named)) => {
            named_schemas(named, |name| portable(&name).into_owned())
        }
        (
            "properties" | "$defs" | "definitions" | "dependentSchemas" | "dependencies",
            Json::Object(named),
        ) => named_schemas(named, |name| name),
        ("enum" | "const" | "default" | "example" | "examples", value) => value,
        (_, member) => portable_schema(member),
    };
    (name, made)
}

/// The schemas of a map whose names the author chose.
fn named_schemas(named: Map<String, Json>, name_of: impl Fn(String) -> String) -> Json {
    let made = named.into_iter().map(|(name, schema)| (name_of(name), portable_schema(schema)));
    Json::Object(made.collect())
}

/// Reads the characters after a backslash. Returns true if they are a class, such as `\w`.
fn escape(rest: &mut Peekable<Chars<'_>>, made: &mut String) -> bool {
    let Some(c) = rest.next() else {
        made.push('\\');
        return false;
    };
    // These characters are literal in ECMAScript, but the engine gives some of them a meaning after a backslash.
    if c.is_ascii_alphanumeric() && !ESCAPES.contains(c) {
        made.push(c);
        return false;
    }
    made.push('\\');
    made.push(c);
    // `\u{1F600}`, `\p{L}`, `\k<name>`: a brace here does not begin a quantifier.
    if matches!(c, 'u' | 'x' | 'p' | 'P') && rest.peek() == Some(&'{') {
        for inner in rest.by_ref() {
            made.push(inner);
            if inner == '}' {
                break;
            }
        }
    }
    matches!(c, 'd' | 'D' | 's' | 'S' | 'w' | 'W' | 'p' | 'P')
}

/// The inside of a character class.
fn class(rest: &mut Peekable<Chars<'_>>, made: &mut String) {
    let negated = rest.next_if_eq(&'^').is_some();
    if rest.next_if_eq(&']').is_some() {
        // `[]` matches nothing, and `[^]` matches any character.
        made.push_str(if negated { "[\\s\\S]" } else { "[^\\s\\S]" });
        return;
    }
    made.push_str(if negated { "[^" } else { "[" });
    // A class such as `\w` cannot be the end of a range, so a dash beside it is a dash.
    let mut after_class = false;
    while let Some(c) = rest.next() {
        match c {
            ']' => {
                made.push(']');
                return;
            }
            '\\' => {
                after_class = escape(rest, made);
                continue;
            }
            '[' => made.push_str("\\["),
            '-' => {
                let before_class = rest.clone().next() == Some('\\')
                    && matches!(rest.clone().nth(1), Some('d' | 'D' | 's' | 'S' | 'w' | 'W'));
                let is_dash = after_class || before_class;
                made.push_str(if is_dash { "\\-" } else { "-" });
            }
            other => made.push(other),
        }
        after_class = false;
    }
}

/// True if the text after a brace makes it a quantifier: `{2}`, `{2,}` or `{2,3}` after an atom.
fn begins_quantifier(rest: &Peekable<Chars<'_>>, before: &str) -> bool {
    if before.is_empty() {
        return false;
    }
    let inside: String = rest.clone().take_while(|c| *c != '}').collect();
    let is_closed = rest.clone().any(|c| c == '}');
    let (least, most) = inside.split_once(',').unwrap_or((&inside, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    is_closed && !least.is_empty() && digits(least) && digits(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_patterns_of_schemas_become_portable() {
        let word = r"^[\w-\.]+$";
        let schema = serde_json::json!({
            "pattern": word,
            "properties": { "pattern": { "pattern": word }, "enum": { "items": { "pattern": word } } },
            "patternProperties": { word: { "anyOf": [{ "pattern": word }, true] } },
            "$defs": { "a": { "not": { "pattern": word } } },
            "const": { "pattern": word },
            "enum": [{ "pattern": word }],
        });
        let made = portable_schema(schema).to_string();
        // As a JSON string.
        let portable = r"^[\\w\\-\\.]+$";
        assert_eq!(made.matches(portable).count(), 6, "{made}");
        assert_eq!(made.matches(r"^[\\w-\\.]+$").count(), 2, "{made}");
    }

    #[test]
    fn characters_that_are_literal_in_ecmascript_get_a_backslash() {
        for (pattern, made) in [
            (r"^[\w-\.]+$", r"^[\w\-\.]+$"),
            (r"^[a-z\d-]+$", r"^[a-z\d\-]+$"),
            (r"[a-\d]", r"[a\-\d]"),
            (r"[a-z]", r"[a-z]"),
            (r"[[]", r"[\[]"),
            (r"[^]", r"[\s\S]"),
            (r"[]", r"[^\s\S]"),
            (r"a{2,3}b{2}c{2,}", r"a{2,3}b{2}c{2,}"),
            (r"{id}", r"\{id}"),
            (r"a{,3}", r"a\{,3}"),
            (r"\h\_\/\-", r"h\_\/\-"),
            (r"\u{1F600}\p{L}\x41", r"\u{1F600}\p{L}\x41"),
            (r"a]", r"a\]"),
            (r"\d{4}-\d{2}", r"\d{4}-\d{2}"),
            ("\\", "\\"),
        ] {
            assert_eq!(portable(pattern), made, "{pattern}");
        }
    }
}
