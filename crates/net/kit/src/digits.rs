//! Whole numbers of protocols, which are digits only.

use std::str::FromStr;

/// Parses a whole number that consists of digits. `str::parse` also takes a `+` before them, which no port, status, length or id has.
pub fn whole<T: FromStr>(text: &str) -> Option<T> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    // Harmless: a number that is too large for the type is refused as any other text.
    text.parse().ok().filter(|_| is_number)
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
}
