//! Numbers in decimal notation, compared and divided digit by digit. As doubles, different numbers could become equal.

use std::borrow::Cow;
use std::cmp::Ordering;

use jsonschema::json::JsonNumber;
use serde_json::Number;

use super::document;

/// A number as `0.DIGITS` times ten to the power of `magnitude`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Decimal<'a> {
    is_negative: bool,
    /// The digits from the first to the last that is not 0, possibly with a decimal point between them. Empty for 0.
    digits: &'a str,
    magnitude: i64,
}

/// Larger exponents are clamped to this value. The numbers in schemas are far smaller.
const EXPONENT_MAX: i64 = 1 << 60;

impl<'a> Decimal<'a> {
    /// Parses a JSON number.
    pub(super) fn read(text: &'a str) -> Decimal<'a> {
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let beyond = if exponent.starts_with('-') { -EXPONENT_MAX } else { EXPONENT_MAX };
        let exponent = exponent.parse().unwrap_or(beyond).clamp(-EXPONENT_MAX, EXPONENT_MAX);
        let counts = |c: char| matches!(c, '1'..='9');
        let ends = mantissa.find(counts).and_then(|first| Some((first, mantissa.rfind(counts)?)));
        let Some((first, last)) = ends else {
            return Decimal { is_negative: false, digits: "", magnitude: 0 };
        };
        let place = |at: usize| i64::try_from(at).unwrap_or(EXPONENT_MAX);
        let point = mantissa.find('.').unwrap_or(mantissa.len());
        let behind = i64::from(first > point);
        Decimal {
            is_negative,
            digits: mantissa.get(first..=last).unwrap_or_default(),
            magnitude: place(point) - place(first) + behind + exponent,
        }
    }

    fn digits(&self) -> impl Iterator<Item = u8> + 'a {
        self.digits.bytes().filter(|byte| *byte != b'.')
    }

    /// Returns the exponent of ten if the digits are read as an integer.
    fn exponent(&self) -> i64 {
        let digits = self.digits.len() - usize::from(self.digits.contains('.'));
        self.magnitude - i64::try_from(digits).unwrap_or(EXPONENT_MAX)
    }

    pub(super) fn is_integer(&self) -> bool {
        self.digits.is_empty() || self.exponent() >= 0
    }

    fn sign(&self) -> i8 {
        match (self.digits.is_empty(), self.is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        }
    }

    pub(super) fn against(&self, other: &Decimal<'_>) -> Ordering {
        let size = self.magnitude.cmp(&other.magnitude);
        let size = size.then_with(|| self.digits().cmp(other.digits()));
        let size = if self.is_negative { size.reverse() } else { size };
        self.sign().cmp(&other.sign()).then(size)
    }

    /// Returns true if the number is an integer multiple of `other`.
    pub(super) fn is_multiple_of(&self, other: &Decimal<'_>) -> bool {
        let digit = |byte: u8| u64::from(byte.wrapping_sub(b'0'));
        let divisor = other
            .digits()
            .try_fold(0_u64, |sum, byte| sum.checked_mul(10)?.checked_add(digit(byte)));
        // The numbers of a schema fit 64 bits.
        let Some(divisor) = divisor.filter(|divisor| *divisor > 0) else { return true };
        if self.digits.is_empty() {
            return true;
        }
        // The digits do not end in 0, so an exponent smaller than the divisor's rules out a multiple.
        let Ok(mut power) = u64::try_from(self.exponent() - other.exponent()) else { return false };
        let modulus = u128::from(divisor);
        let mut rest = self
            .digits()
            .fold(0_u128, |rest, byte| (rest * 10 + u128::from(digit(byte))) % modulus);
        let mut factor = 10 % modulus;
        while power > 0 {
            if power & 1 == 1 {
                rest = rest * factor % modulus;
            }
            factor = factor * factor % modulus;
            power >>= 1;
        }
        rest == 0
    }
}

/// A number as the library sees it.
pub(super) struct Literal<'a>(pub(super) &'a str);

impl Literal<'_> {
    fn number(&self) -> Option<Number> {
        document::number(self.0)
    }
}

impl JsonNumber for Literal<'_> {
    fn as_u64(&self) -> Option<u64> {
        self.number()?.as_u64()
    }

    fn as_i64(&self) -> Option<i64> {
        self.number()?.as_i64()
    }

    /// Returns `None` if the nearest double is a different number. No number of a schema can be equal to it then.
    fn as_f64(&self) -> Option<f64> {
        let number = self.number()?;
        let double = Number::from_f64(number.as_f64()?)?.to_string();
        let same = Decimal::read(self.0).against(&Decimal::read(&double)).is_eq();
        number.as_f64().filter(|_| same)
    }

    fn as_str(&self) -> Cow<'_, str> {
        Cow::Borrowed(self.0)
    }

    fn to_number(&self) -> Cow<'_, Number> {
        Cow::Owned(self.number().unwrap_or_else(|| Number::from(0)))
    }

    fn is_integer(&self) -> bool {
        let is_whole = |byte: u8| byte.is_ascii_digit() | (byte == b'-');
        self.0.bytes().all(is_whole) || Decimal::read(self.0).is_integer()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_compared_by_their_digits() {
        let rising = [
            "-1e400",
            "-10",
            "-9.99",
            "-1e-400",
            "0",
            "1e-400",
            "0.1",
            "0.10000000000000000001",
            "0.5",
            "1",
            "1.05",
            "9",
            "10",
            "18446744073709551615",
            "18446744073709551616",
            "18446744073709551617",
            "1e20",
            "1e99999999999999999999",
        ];
        for (at, low) in rising.iter().enumerate() {
            for (other, high) in rising.iter().enumerate() {
                let said = Decimal::read(low).against(&Decimal::read(high));
                assert_eq!(said, at.cmp(&other), "{low} {high}");
            }
        }
        for (a, b) in [
            ("0", "-0.00e7"),
            ("1", "1.00"),
            ("100", "1E+2"),
            ("0.05", "5e-2"),
            ("12.50", "0.125e2"),
        ] {
            assert!(Decimal::read(a).against(&Decimal::read(b)).is_eq(), "{a} {b}");
        }
    }

    #[test]
    fn multiples_are_checked_by_all_digits() {
        for (number, of, is) in [
            ("0", "7", true),
            ("-14", "7", true),
            ("15", "7", false),
            ("0.3", "0.1", true),
            ("0.30000000000000000001", "0.1", false),
            ("1e300", "3", false),
            ("3e300", "3", true),
            ("18446744073709551616", "2", true),
            ("18446744073709551617", "2", false),
            ("18446744073709551615", "18446744073709551615", true),
            ("36893488147419103230", "18446744073709551615", true),
            ("36893488147419103231", "18446744073709551615", false),
            ("4.35", "0.01", true),
            ("1e-7", "1e-8", true),
            ("5", "10", false),
            ("2.5", "5", false),
        ] {
            assert_eq!(
                Decimal::read(number).is_multiple_of(&Decimal::read(of)),
                is,
                "{number} {of}"
            );
        }
    }

    #[test]
    fn whole_numbers_are_integers() {
        for (number, is) in [
            ("0", true),
            ("1.0", true),
            ("1e2", true),
            ("12.5e1", true),
            ("1.5", false),
            ("1.00000000000000000000001", false),
            ("1e-1", false),
            ("9007199254740993.5", false),
        ] {
            assert_eq!(Decimal::read(number).is_integer(), is, "{number}");
        }
    }
}
