//! Conversion between numbers and strings (XPath 1.0, 4.2 and 4.4).

use std::borrow::Cow;

/// Formats a number as `string()` does: without exponent and trailing zeros, with just enough digits to identify the number.
pub fn number_text(value: f64) -> Cow<'static, str> {
    if value.is_nan() {
        return Cow::Borrowed("NaN");
    }
    if value.is_infinite() {
        return Cow::Borrowed(if value > 0.0 { "Infinity" } else { "-Infinity" });
    }
    if value == 0.0 {
        Cow::Borrowed("0")
    } else {
        // The standard library writes the shortest digits that parse to the same number, and never an exponent.
        Cow::Owned(value.to_string())
    }
}

/// Formats a number as libxml2 does: with 15 digits, and with an exponent above 1e9 and below 1e-5. Integers of 32 bits have no exponent.
pub(crate) fn libxml_number_text(value: f64) -> Cow<'static, str> {
    let is_int = value > f64::from(i32::MIN) && value < f64::from(i32::MAX) && value.fract() == 0.0;
    if is_int || !value.is_finite() {
        return number_text(value);
    }
    let size = value.abs();
    let shortened = |digits: &str| {
        if digits.contains('.') {
            digits.trim_end_matches('0').trim_end_matches('.').to_owned()
        } else {
            digits.to_owned()
        }
    };
    if !(1e-5..=1e9).contains(&size) {
        let written = format!("{value:.14e}");
        let (digits, exponent) = written.split_once('e').unwrap_or((&written, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return Cow::Owned(format!("{}e{sign}{exponent:0>2}", shortened(digits)));
    }
    // Number of digits before the point, not counting the first; number of zeros after it.
    let (mut above, mut zeros) = (0_usize, 0_usize);
    let mut rest = size;
    while rest >= 10.0 {
        rest /= 10.0;
        above += 1;
    }
    while rest <= 0.1 {
        rest *= 10.0;
        zeros += 1;
    }
    let places = if above > 0 { 14 - above.min(14) } else { 15 + zeros };
    Cow::Owned(shortened(&format!("{value:.places$}")))
}

/// Parses a string as `number()` does: white space, a minus sign, and digits with at most one point. Anything else is NaN.
pub fn text_number(text: &str) -> f64 {
    let text = text.trim_matches(is_space);
    let digits = text.strip_prefix('-').unwrap_or(text);
    let mut points = 0;
    let mut any = false;
    for byte in digits.bytes() {
        match byte {
            b'0'..=b'9' => any = true,
            b'.' => points += 1,
            _ => return f64::NAN,
        }
    }
    if any && points <= 1 { text.parse().unwrap_or(f64::NAN) } else { f64::NAN }
}

/// Returns whether a character is white space of XML.
pub(crate) fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// Rounds as `round()` does: to the nearest integer, halves up. From -0.5 up to 0, the result is -0.
pub(crate) fn round(value: f64) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    if (-0.5..0.0).contains(&value) {
        return -0.0;
    }
    // Adding 0.5 first would round 0.49999999999999994 up.
    let floor = value.floor();
    if value - floor >= 0.5 { floor + 1.0 } else { floor }
}
