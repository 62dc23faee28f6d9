//! Decimal numbers of any length, compared digit by digit.

use std::cmp::Ordering;
use std::fmt;

/// A decimal borrowed from a text: digits without insignificant zeros.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DecimalRef<'a> {
    /// False for zero.
    negative: bool,
    /// Without leading zeros.
    whole: &'a [u8],
    /// Without trailing zeros.
    fraction: &'a [u8],
}

/// An owned decimal. Equal numbers have equal representations, so that it can be a key.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Decimal {
    negative: bool,
    whole: Box<[u8]>,
    fraction: Box<[u8]>,
}

impl<'a> DecimalRef<'a> {
    /// Parses `[+-]? digits (. digits)?`; one of the two digit sequences may be missing.
    pub(crate) fn parse(text: &'a str) -> Option<DecimalRef<'a>> {
        let (negative, digits) = sign(text.as_bytes());
        let whole_len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
        let (whole, rest) = digits.split_at_checked(whole_len)?;
        let fraction = match rest.split_first() {
            None => rest,
            Some((b'.', fraction)) if fraction.iter().all(u8::is_ascii_digit) => fraction,
            Some(_) => return None,
        };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        Some(DecimalRef::trimmed(negative, whole, fraction))
    }

    /// Parses `[+-]? digits`.
    pub(crate) fn parse_integer(text: &'a str) -> Option<DecimalRef<'a>> {
        let (negative, digits) = sign(text.as_bytes());
        let sound = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        sound.then(|| DecimalRef::trimmed(negative, digits, &[]))
    }

    fn trimmed(negative: bool, mut whole: &'a [u8], mut fraction: &'a [u8]) -> DecimalRef<'a> {
        while let [b'0', rest @ ..] = whole {
            whole = rest;
        }
        while let [rest @ .., b'0'] = fraction {
            fraction = rest;
        }
        let zero = whole.is_empty() && fraction.is_empty();
        DecimalRef { negative: negative && !zero, whole, fraction }
    }

    /// Returns the value as a machine integer, if it is an integer of at most 18 digits.
    pub(crate) fn small(&self) -> Option<i64> {
        if !self.fraction.is_empty() || self.whole.len() > 18 {
            return None;
        }
        let digits = self.whole.iter().fold(0i64, |sum, b| sum * 10 + i64::from(b - b'0'));
        Some(if self.negative { -digits } else { digits })
    }

    pub(crate) fn total_digits(&self) -> u64 {
        (self.whole.len() + self.fraction.len()) as u64
    }

    pub(crate) fn fraction_digits(&self) -> u64 {
        self.fraction.len() as u64
    }

    pub(crate) fn order(&self, other: &DecimalRef<'_>) -> Ordering {
        match (self.negative, other.negative) {
            (false, true) => Ordering::Greater,
            (true, false) => Ordering::Less,
            (false, false) => self.size_order(other),
            (true, true) => other.size_order(self),
        }
    }

    /// Compares absolute values. Digits compare like bytes. Fractions compare like strings, because trailing zeros have been removed.
    fn size_order(&self, other: &DecimalRef<'_>) -> Ordering {
        let whole = self.whole.len().cmp(&other.whole.len());
        whole
            .then_with(|| self.whole.cmp(other.whole))
            .then_with(|| self.fraction.cmp(other.fraction))
    }

    pub(crate) fn to_owned(self) -> Decimal {
        Decimal {
            negative: self.negative,
            whole: self.whole.into(),
            fraction: self.fraction.into(),
        }
    }
}

/// Parses `[+-]? digits` of at most 18 digits as a machine integer.
pub(crate) fn small_integer(text: &str) -> Option<i64> {
    let (negative, digits) = sign(text.as_bytes());
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut number = 0i64;
    for b in digits {
        let digit = b.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        number = number * 10 + i64::from(digit);
    }
    Some(if negative { -number } else { number })
}

impl Decimal {
    pub(crate) fn borrow(&self) -> DecimalRef<'_> {
        DecimalRef { negative: self.negative, whole: &self.whole, fraction: &self.fraction }
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Harmless: the bytes are ASCII digits.
        let digits = |digits| std::str::from_utf8(digits).unwrap_or_default();
        let whole = if self.whole.is_empty() { "0" } else { digits(&self.whole) };
        if self.negative {
            f.write_str("-")?;
        }
        f.write_str(whole)?;
        if self.fraction.is_empty() { Ok(()) } else { write!(f, ".{}", digits(&self.fraction)) }
    }
}

fn sign(bytes: &[u8]) -> (bool, &[u8]) {
    match bytes {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        _ => (false, bytes),
    }
}
