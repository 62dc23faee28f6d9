//! Exact decimal numbers, compared without rounding.

use std::cmp::Ordering;

/// Compares two JSON numbers by value. Both must be valid.
pub(crate) fn compare(a: &str, b: &str) -> Ordering {
    if a == b {
        return Ordering::Equal;
    }
    let (x, y) = (value(a), value(b));
    // Rounding preserves the order, so only numbers that round to the same double have to be compared digit by digit.
    match x.partial_cmp(&y) {
        Some(Ordering::Less) => Ordering::Less,
        Some(Ordering::Greater) => Ordering::Greater,
        Some(Ordering::Equal) | None => Decimal::of(a).compare(&Decimal::of(b)),
    }
}

/// Returns the nearest double.
pub(crate) fn value(text: &str) -> f64 {
    text.parse().unwrap_or(f64::NAN)
}

/// Returns true if a text is a JSON number.
pub(crate) fn is_number(text: &str) -> bool {
    let limits = json::Limits { depth_max: 0, entries_max: 1 };
    let mut tape = Vec::new();
    let starts = text.starts_with(|c: char| c == '-' || c.is_ascii_digit());
    starts
        && text.ends_with(|c: char| c.is_ascii_digit())
        && json::read(text, &limits, &mut tape).is_ok()
}

/// The number `0.DIGITS * 10^exponent`. The digits have no zeros at either end, and are empty for zero.
struct Decimal {
    negative: bool,
    digits: Vec<u8>,
    exponent: i64,
}

impl Decimal {
    fn of(text: &str) -> Decimal {
        let (negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let negative_exponent = exponent.starts_with('-');
        // An exponent too large for the type counts as infinite.
        let end = if negative_exponent { i64::MIN / 4 } else { i64::MAX / 4 };
        let exponent = exponent.trim_start_matches('+').parse::<i64>().unwrap_or(end);
        let exponent = exponent.clamp(i64::MIN / 4, i64::MAX / 4);
        let all: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        let zeros = all.iter().take_while(|digit| **digit == b'0').count();
        let mut digits: Vec<u8> = all.into_iter().skip(zeros).collect();
        while digits.pop_if(|digit| *digit == b'0').is_some() {}
        let point = whole.len() as i64 - zeros as i64;
        Decimal { negative: negative && !digits.is_empty(), digits, exponent: exponent + point }
    }

    fn compare(&self, other: &Decimal) -> Ordering {
        let sign = |d: &Decimal| match (d.digits.is_empty(), d.negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
        let by_size = if sign(self) == 0 && sign(other) == 0 {
            Ordering::Equal
        } else {
            (self.exponent, &self.digits).cmp(&(other.exponent, &other.digits))
        };
        let by_size = if self.negative { by_size.reverse() } else { by_size };
        sign(self).cmp(&sign(other)).then(by_size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_exactly() {
        for (a, b, expected) in [
            ("1", "1.0", Ordering::Equal),
            ("0", "-0", Ordering::Equal),
            ("100", "1e2", Ordering::Equal),
            ("0.001", "1E-3", Ordering::Equal),
            ("9007199254740992", "9007199254740993", Ordering::Less),
            ("-9007199254740992", "-9007199254740993", Ordering::Greater),
            ("0.1", "0.10000000000000000001", Ordering::Less),
            ("1e400", "1e401", Ordering::Less),
            ("-1e400", "1e400", Ordering::Less),
            ("1e-400", "0", Ordering::Greater),
            ("-1e-400", "0", Ordering::Less),
            ("1e99999999999999999999", "1e400", Ordering::Greater),
            ("1e-99999999999999999999", "1e-400", Ordering::Less),
            ("0e5", "0.00", Ordering::Equal),
            ("2", "10", Ordering::Less),
        ] {
            assert_eq!(compare(a, b), expected, "{a} {b}");
            assert_eq!(compare(b, a), expected.reverse(), "{b} {a}");
        }
    }

    #[test]
    fn only_json_numbers_are_accepted() {
        for text in ["0", "-1.5e+3", "12"] {
            assert!(is_number(text), "{text}");
        }
        for text in ["", "-", "+1", "01", " 1", "1 ", "1.", ".5", "NaN", "1,2", "\"1\"", "true"] {
            assert!(!is_number(text), "{text}");
        }
    }
}
