//! What handlers take from a request: the shared [`Control`], query parameters, and the members of a JSON object.

use std::sync::Arc;

use axum::extract::State;
use axum::http::{StatusCode, Uri};
use control::Control;
use serde_json::{Map, Value};

use crate::problem::Problem;

pub(crate) type ControlState = State<Arc<Control>>;

/// The members of a JSON object. Unknown members are refused.
pub(crate) fn members(
    text: &str,
    known: &[&str],
    form: &str,
) -> Result<Map<String, Value>, Problem> {
    let Ok(Value::Object(asked)) = control::json_text(text) else { return Err(unusable(form)) };
    match asked.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unusable(&format!("There is no member `{name}`. {form}"))),
        None => Ok(asked),
    }
}

/// A whole number in JSON: 2 and 2.0 are the same.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    // Floating-point numbers represent all whole numbers up to this one exactly.
    const MAX: f64 = 9_007_199_254_740_992.0;
    let of_fraction = |number: f64| {
        let is_whole = number.fract() == 0.0 && (0.0..=MAX).contains(&number);
        // Harmless: a whole number up to the maximum is written with digits only, and fits into 64 bits.
        is_whole.then(|| format!("{number:.0}").parse().ok()).flatten()
    };
    value.as_u64().or_else(|| value.as_f64().and_then(of_fraction))
}

/// The first value of a query parameter, without decoding.
pub(crate) fn parameter<'u>(uri: &'u Uri, name: &str) -> Option<&'u str> {
    let mut pairs = uri.query()?.split('&');
    pairs.find_map(|pair| pair.strip_prefix(name)?.strip_prefix('='))
}

pub(crate) fn unusable(why: &str) -> Problem {
    Problem::new(StatusCode::UNPROCESSABLE_ENTITY, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_may_have_a_point() {
        for (text, number) in [
            ("2", Some(2)),
            ("2.0", Some(2)),
            ("2e1", Some(20)),
            ("2.5", None),
            ("-1", None),
            ("-1.0", None),
            ("1e300", None),
            ("\"2\"", None),
            ("18446744073709551615", Some(u64::MAX)),
        ] {
            assert_eq!(whole(&serde_json::from_str(text).unwrap()), number, "{text}");
        }
    }
}
