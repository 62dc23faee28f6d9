//! Compares JSON by meaning. Numbers are compared by value, to the last digit. The order of members does not matter. If a name is
//! repeated, the last member counts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use json::{Kind, Limits, TapeEntry};

use super::difference::Difference;

/// The depth limit of messages in flows, which also limits the depth of the comparison.
const LIMITS: Limits = Limits { depth_max: 512, entries_max: 2_000_000 };

/// A text with the positions of its values.
struct Text<'t> {
    text: &'t str,
    tape: Vec<TapeEntry>,
}

/// A value in a text, by its place on the tape.
#[derive(Clone, Copy)]
struct TapeValue<'t>(&'t Text<'t>, usize);

/// The first difference of two texts.
pub(super) fn difference(expected: &str, came: &str) -> Option<Difference> {
    let (one, other) = match (Text::read(expected), Text::read(came)) {
        (Ok(one), Ok(other)) => (one, other),
        (Err(what), _) | (Ok(_), Err(what)) => {
            return Some(Difference::new("body", expected, &format!("(not JSON: {what}) {came}")));
        }
    };
    values(TapeValue(&one, 0), TapeValue(&other, 0), "$")
}

impl Text<'_> {
    fn read(text: &str) -> Result<Text<'_>, String> {
        let mut tape = Vec::new();
        json::read(text, &LIMITS, &mut tape).map_err(|malformed| {
            format!("at byte {}: expected {}", malformed.at, malformed.what)
        })?;
        Ok(Text { text, tape })
    }
}

impl<'t> TapeValue<'t> {
    fn entry(self) -> Option<&'t TapeEntry> {
        self.0.tape.get(self.1)
    }

    fn kind(self) -> Option<Kind> {
        self.entry().map(|entry| entry.kind)
    }

    fn raw(self) -> &'t str {
        let Some(entry) = self.entry() else { return "" };
        self.0.text.get(entry.from as usize..entry.to as usize).unwrap_or_default()
    }

    fn string(self) -> Cow<'t, str> {
        match self.kind() {
            Some(Kind::Escaped) => Cow::Owned(json::unescaped(self.raw())),
            _ => Cow::Borrowed(self.raw()),
        }
    }

    fn next(self) -> TapeValue<'t> {
        TapeValue(self.0, self.entry().map_or(self.0.tape.len(), |entry| entry.next as usize))
    }

    /// Items of an array, or keys and values of an object in turn.
    fn inner(self) -> Vec<TapeValue<'t>> {
        let end = self.next().1;
        let first = TapeValue(self.0, self.1 + 1);
        std::iter::successors(Some(first), |place| Some(place.next()))
            .take_while(|place| place.1 < end)
            .collect()
    }

    fn members(self) -> BTreeMap<Cow<'t, str>, TapeValue<'t>> {
        let inner = self.inner();
        let pairs = inner.chunks_exact(2);
        // Harmless: a pair has two values.
        pairs.filter_map(|pair| Some((pair.first()?.string(), *pair.last()?))).collect()
    }

    fn described(self) -> String {
        match self.kind() {
            None => String::new(),
            Some(Kind::Plain | Kind::Escaped) => format!("\"{}\"", self.raw()),
            Some(_) => self.raw().to_owned(),
        }
    }
}

/// The parser limits the depth of texts, and so the recursion here.
fn values(one: TapeValue<'_>, other: TapeValue<'_>, here: &str) -> Option<Difference> {
    let same = match (one.kind()?, other.kind()?) {
        (Kind::Object, Kind::Object) => return members(one, other, here),
        (Kind::Array, Kind::Array) => return items(one, other, here),
        (Kind::Number, Kind::Number) => Decimal::of(one.raw()) == Decimal::of(other.raw()),
        (Kind::Plain | Kind::Escaped, Kind::Plain | Kind::Escaped) => {
            one.string() == other.string()
        }
        (a, b) => a == b,
    };
    (!same).then(|| differs(here, &one.described(), &other.described()))
}

fn members(one: TapeValue<'_>, other: TapeValue<'_>, here: &str) -> Option<Difference> {
    let (expected, came) = (one.members(), other.members());
    let none = "(no such member)";
    let first = expected.iter().find_map(|(name, value)| {
        let here = format!("{here}.{name}");
        match came.get(name) {
            Some(found) => values(*value, *found, &here),
            None => Some(differs(&here, &value.described(), none)),
        }
    });
    first.or_else(|| {
        let (name, value) = came.iter().find(|(name, _)| !expected.contains_key(*name))?;
        Some(differs(&format!("{here}.{name}"), none, &value.described()))
    })
}

fn items(one: TapeValue<'_>, other: TapeValue<'_>, here: &str) -> Option<Difference> {
    let (expected, came) = (one.inner(), other.inner());
    let none = "(no such item)";
    (0..expected.len().max(came.len())).find_map(|at| {
        let here = format!("{here}[{at}]");
        match (expected.get(at), came.get(at)) {
            (Some(one), Some(other)) => values(*one, *other, &here),
            (Some(one), None) => Some(differs(&here, &one.described(), none)),
            (None, Some(other)) => Some(differs(&here, none, &other.described())),
            (None, None) => None,
        }
    })
}

fn differs(here: &str, expected: &str, came: &str) -> Difference {
    Difference::new(&format!("json at {here}"), expected, came)
}

/// The value of a number: digits without zeros at either end, and the power of ten that they are multiplied by.
#[derive(Debug, PartialEq, Eq)]
struct Decimal {
    negative: bool,
    digits: String,
    /// The power of ten, or the number as written if its exponent does not fit in 64 bits.
    power: Result<i128, String>,
}

impl Decimal {
    fn of(text: &str) -> Decimal {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let unsigned = mantissa.strip_prefix('-');
        let (whole, fraction) = unsigned
            .unwrap_or(mantissa)
            .split_once('.')
            .unwrap_or((unsigned.unwrap_or(mantissa), ""));
        let all = format!("{whole}{fraction}");
        let digits = all.trim_start_matches('0').trim_end_matches('0').to_owned();
        if digits.is_empty() {
            return Decimal { negative: false, digits, power: Ok(0) };
        }
        let zeros = all.len() - all.trim_end_matches('0').len();
        let moved = zeros as i128 - fraction.len() as i128;
        let exponent: Result<i64, _> = exponent.trim_start_matches('+').parse();
        let power = exponent.map(|exponent| i128::from(exponent) + moved);
        Decimal { negative: unsigned.is_some(), digits, power: power.map_err(|_| text.to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_compared_by_meaning() {
        for (expected, came, at) in [
            (r#"{"a":1,"b":[true,null]}"#, r#"{ "b": [true, null], "a": 1.0 }"#, None),
            ("[1.10, 2e3, -0, 1E+2]", "[1.1, 2000, 0, 100]", None),
            ("100000000000000000000000001", "100000000000000000000000002", Some("json at $")),
            ("\"\\u00e4\"", "\"ä\"", None),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, None),
            (r#"{"a":{"b":[1,2]}}"#, r#"{"a":{"b":[1,3]}}"#, Some("json at $.a.b[1]")),
            ("[1]", "[1,2]", Some("json at $[1]")),
            ("[1,2]", "[1]", Some("json at $[1]")),
            (r#"{"a":1}"#, r#"{"a":1,"b":2}"#, Some("json at $.b")),
            (r#"{"a":1}"#, "{}", Some("json at $.a")),
            ("1", "\"1\"", Some("json at $")),
            ("true", "false", Some("json at $")),
            ("-1", "1", Some("json at $")),
            ("1", "", Some("body")),
        ] {
            let found = difference(expected, came).map(|found| found.at);
            assert_eq!(found.as_deref(), at, "{expected} {came}");
        }
    }
}
