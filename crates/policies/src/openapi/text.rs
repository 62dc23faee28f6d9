//! Texts of requests: percent escapes, pairs, and what a text means.

use std::borrow::Cow;

use serde_json::{Number, Value as Json};

use super::model::Types;
use crate::query;

/// A text without its percent escapes. Bytes that are no UTF-8 become the replacement character.
pub(super) fn decoded(bytes: &[u8], plus_is_blank: bool) -> Cow<'_, str> {
    match query::decoded(bytes, plus_is_blank) {
        Cow::Borrowed(plain) => String::from_utf8_lossy(plain),
        Cow::Owned(made) => Cow::Owned(String::from_utf8_lossy(&made).into_owned()),
    }
}

/// The pairs of a query or a form, names decoded, values as they came.
pub(super) fn pairs(encoded: &[u8]) -> impl Iterator<Item = (Cow<'_, str>, &[u8])> {
    encoded.split(|b| *b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let at = pair.iter().position(|b| *b == b'=');
        let (name, value) = match at {
            Some(at) => (pair.get(..at), pair.get(at + 1..)),
            None => (Some(pair), None),
        };
        (decoded(name.unwrap_or_default(), true), value.unwrap_or_default())
    })
}

/// What a text means where these types are possible.
pub(super) fn meant(text: &str, types: Types) -> Json {
    match text {
        "true" if types.boolean => Json::Bool(true),
        "false" if types.boolean => Json::Bool(false),
        "null" | "" if types.null => Json::Null,
        _ => match number(text).filter(|_| types.number) {
            Some(number) => Json::Number(number),
            None => Json::String(text.to_owned()),
        },
    }
}

/// A number as JSON writes it, so that `0x1`, `1_000` and ` 1` stay texts.
fn number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    (first == b'-' || first.is_ascii_digit()).then(|| serde_json::from_str(text).ok())?
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn texts_are_read_to_the_letter() {
        for (text, plus, read) in [
            ("a%20b+c", true, "a b c"),
            ("a%20b+c", false, "a b+c"),
            ("%C3%A4%2f", false, "\u{e4}/"),
            ("%4", false, "%4"),
            ("%+1%zz", false, "%+1%zz"),
            ("%ff", false, "\u{fffd}"),
        ] {
            assert_eq!(decoded(text.as_bytes(), plus), read, "{text}");
        }
    }

    #[test]
    fn a_text_means_only_what_it_may() {
        let all = Types { number: true, boolean: true, null: true, anything: false };
        for (text, meaning) in [
            ("1", json!(1)),
            ("-1.5e3", json!(-1500.0)),
            ("01", json!("01")),
            ("+1", json!("+1")),
            ("0x1", json!("0x1")),
            ("NaN", json!("NaN")),
            ("true", json!(true)),
            ("True", json!("True")),
            ("", json!(null)),
        ] {
            assert_eq!(meant(text, all), meaning, "{text}");
            assert_eq!(meant(text, Types::default()), json!(text));
        }
    }
}
