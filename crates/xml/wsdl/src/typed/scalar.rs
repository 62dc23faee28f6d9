//! Conversion between XML texts and JSON values.
//!
//! Defines the form of numbers, names and lists on both sides. No digit is lost: numbers are handled as digits only.

use std::borrow::Cow;

use json::push_string;

use super::model::{Scalar, ScalarKind};

/// Maximum number of digits to which a number with an exponent is expanded. More are not realistic.
const EXPONENT_DIGITS_MAX: usize = 400;

/// `"key":`
pub(super) fn quoted_key(key: &str) -> String {
    let mut text = String::with_capacity(key.len() + 3);
    push_string(&mut text, key);
    text.push(':');
    text
}

/// Appends a text as character data or as a double-quoted attribute value. Returns false if XML does not allow one of its characters.
pub(super) fn push_text(out: &mut String, text: &str, attribute: bool) -> bool {
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        let reference = match byte {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' if attribute => "&quot;",
            b'\r' => "&#13;",
            b'\n' if attribute => "&#10;",
            b'\t' if attribute => "&#9;",
            b'\t' | b'\n' => continue,
            0..=0x1F => return false,
            0xEF => match text.as_bytes().get(at + 1..at + 3) {
                Some([0xBF, 0xBE | 0xBF]) => return false,
                _ => continue,
            },
            _ => continue,
        };
        out.push_str(text.get(from..at).unwrap_or_default());
        out.push_str(reference);
        from = at + 1;
    }
    out.push_str(text.get(from..).unwrap_or_default());
    true
}

/// Converts a JSON number to a decimal, without an exponent and, if `whole`, without a zero fraction. Returns `None` if it has too many
/// digits.
pub(super) fn decimal(number: &str, whole: bool) -> Option<Cow<'_, str>> {
    let has_exponent = number.contains(['e', 'E']);
    if !(has_exponent || whole && number.contains('.')) {
        return Some(Cow::Borrowed(number));
    }
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let exponent: i64 = exponent.parse().ok()?;
    let (sign, mantissa) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (front, back) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mut digits: String = [front, back].concat();
    // The position of the point among the digits.
    let mut point = i64::try_from(front.len()).ok()?.checked_add(exponent)?;
    let zeros = digits.len() - digits.trim_start_matches('0').len();
    digits.drain(..zeros);
    point -= i64::try_from(zeros).ok()?;
    let end = digits.trim_end_matches('0').len();
    // Harmless: trailing zeros of a fraction do not change the value.
    digits.truncate(end);
    if digits.is_empty() {
        return Some(Cow::Borrowed("0"));
    }
    let max = i64::try_from(EXPONENT_DIGITS_MAX).ok()?;
    if !(-max..=max).contains(&point) {
        return None;
    }
    let text = match usize::try_from(point) {
        Err(_) | Ok(0) => {
            let zeros = usize::try_from(-point).ok()?;
            format!("{sign}0.{}{digits}", "0".repeat(zeros))
        }
        Ok(point) if point >= digits.len() => {
            format!("{sign}{digits}{}", "0".repeat(point - digits.len()))
        }
        Ok(point) => {
            let (front, back) = digits.split_at_checked(point)?;
            format!("{sign}{front}.{back}")
        }
    };
    Some(Cow::Owned(text))
}

/// Appends an XML number (a valid `decimal` or `double`, trimmed) as a JSON number.
pub(super) fn push_number(out: &mut String, text: &str) {
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => ("-", text.get(1..).unwrap_or_default()),
        Some(b'+') => ("", text.get(1..).unwrap_or_default()),
        _ => ("", text),
    };
    out.push_str(sign);
    let (mantissa, exponent) = match digits.find(['e', 'E']) {
        Some(at) => digits.split_at_checked(at).unwrap_or((digits, "")),
        None => (digits, ""),
    };
    let (front, back) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let front = front.trim_start_matches('0');
    out.push_str(if front.is_empty() { "0" } else { front });
    if !back.is_empty() {
        out.push('.');
        out.push_str(back);
    }
    out.push_str(exponent);
}

/// Describes the JSON value that a type expects, for messages.
pub(super) fn expected(scalar: &Scalar) -> &'static str {
    match &scalar.kind {
        ScalarKind::Boolean => "true or false",
        ScalarKind::Number { whole: true } => "a whole number",
        ScalarKind::Number { whole: false } => "a number",
        ScalarKind::Float => r#"a number, or "INF", "-INF" or "NaN""#,
        ScalarKind::Text => "a string",
        ScalarKind::Name => "a name as `{namespace}local`",
        ScalarKind::List(_) => "an array",
        ScalarKind::Union(_) | ScalarKind::Free => "a string, a number, true or false",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_json_are_decimals_of_xml() {
        let cases = [
            ("12", true, Some("12")),
            ("1e3", true, Some("1000")),
            ("5.0", true, Some("5")),
            ("5.50", false, Some("5.50")),
            ("5.5", true, Some("5.5")),
            ("-1.25E-2", false, Some("-0.0125")),
            ("12.5e1", true, Some("125")),
            ("0e9", true, Some("0")),
            ("-0.0", true, Some("0")),
            ("123456789012345678901234567890.5", false, Some("123456789012345678901234567890.5")),
            ("1e400", true, None),
            ("1e99999999999999999999", true, None),
            ("1e-500", false, None),
        ];
        for (json, whole, xml) in cases {
            assert_eq!(decimal(json, whole).as_deref(), xml, "{json}");
        }
    }

    #[test]
    fn numbers_of_xml_are_numbers_of_json() {
        let cases = [
            ("+5", "5"),
            ("-007", "-7"),
            (".5", "0.5"),
            ("5.", "5"),
            ("0", "0"),
            ("00.10", "0.10"),
            ("1.E5", "1E5"),
            ("-1.5e-07", "-1.5e-07"),
        ];
        for (xml, json) in cases {
            let mut out = String::new();
            push_number(&mut out, xml);
            assert_eq!(out, json, "{xml}");
            assert!(::json::read(&out, &super::super::LIMITS, &mut Vec::new()).is_ok(), "{out}");
        }
    }

    #[test]
    fn texts_are_escaped_on_both_sides() {
        let mut out = String::new();
        push_string(&mut out, "a\"b\\c\n\u{1}é");
        assert_eq!(out, r#""a\"b\\c\n\u0001é""#);
        let mut out = String::new();
        assert!(push_text(&mut out, "a<b>&\"\r\n\té", false));
        assert_eq!(out, "a&lt;b&gt;&amp;\"&#13;\n\té");
        let mut out = String::new();
        assert!(push_text(&mut out, "\"\n\t", true));
        assert_eq!(out, "&quot;&#10;&#9;");
        for bad in ["\0", "\u{1f}", "\u{fffe}", "\u{ffff}"] {
            assert!(!push_text(&mut String::new(), bad, false));
        }
    }
}
