//! Whole numbers of protocols, which are digits only.

use std::str::FromStr;

/// Parses a whole number that consists of digits. `str::parse` also takes a `+` before them, which no port, status, length or id has.
pub fn whole<T: FromStr>(text: &str) -> Option<T> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Harmless: a number that is too large for the type is refused as any other text.
    text.parse().ok().filter(|_| is_number)
}

/// Parses a whole number that consists of digits. One that is too large becomes the maximum.
pub fn saturating(text: &[u8]) -> Option<u64> {
    let add = |number: u64, digit: &u8| {
        let next = number.saturating_mul(10).saturating_add(digit.wrapping_sub(b'0').into());
        digit.is_ascii_digit().then_some(next)
    };
    text.iter().try_fold(0, add).filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_digits_are_a_whole_number() {
        for (text, number) in [
            ("0", Some(0)),
            ("80", Some(80)),
            ("080", Some(80)),
            ("65536", None),
            ("+80", None),
            ("-0", None),
            (" 80", None),
            ("8_0", None),
            ("", None),
        ] {
            assert_eq!(whole::<u16>(text), number, "{text}");
        }
    }

    #[test]
    fn a_number_that_is_too_large_becomes_the_maximum() {
        for (text, number) in [
            ("0", Some(0)),
            ("0042", Some(42)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", Some(u64::MAX)),
            ("99999999999999999999999", Some(u64::MAX)),
            ("", None),
            ("+1", None),
            ("1 ", None),
        ] {
            assert_eq!(saturating(text.as_bytes()), number, "{text}");
        }
    }
}
