//! Durations: months and seconds. Two are ordered only if the order is the same for every start date.

use std::cmp::Ordering;

use super::scan::Scan;
use kit::calendar::month_begin;

/// Maximum number of digits of a number in a duration.
const DIGITS_MAX: usize = 15;
/// The start dates of Part 2, 3.2.6.2: year, and month counted from 0.
const STARTS: [(i64, i64); 4] = [(1696, 8), (1697, 1), (1903, 2), (1903, 6)];

/// A value of `duration`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Duration {
    months: i64,
    seconds: i128,
    /// Fraction in 10^-18 seconds, of the same sign.
    atto: i64,
}

impl Duration {
    /// Parses `-?PnYnMnDTnHnMnS`. Parts may be missing, but not all of them, and not all after a `T`.
    pub(crate) fn parse(text: &str) -> Option<Duration> {
        let mut scan = Scan::new(text);
        let sign = match scan.take(b'-') {
            Some(()) => -1,
            None => 1,
        };
        scan.take(b'P')?;
        let mut duration = Duration { months: 0, seconds: 0, atto: 0 };
        let date = duration.parts(&mut scan, b"YMD", false)?;
        let mut any = date;
        if scan.take(b'T').is_some() {
            any = duration.parts(&mut scan, b"HMS", true)?;
            if !any {
                return None;
            }
        }
        scan.done()?;
        any.then(|| Duration {
            months: duration.months * sign,
            seconds: duration.seconds * i128::from(sign),
            atto: duration.atto * sign,
        })
    }

    /// Parses numbers with these unit letters in this order. Returns whether there was any.
    fn parts(&mut self, scan: &mut Scan<'_>, letters: &[u8; 3], time: bool) -> Option<bool> {
        let mut left = letters.as_slice();
        let mut any = false;
        while scan.peek().is_some_and(|b| b.is_ascii_digit()) {
            let digits = scan.digits();
            let number = number(digits)?;
            let atto = match scan.take(b'.') {
                Some(()) => Some(scan.fraction()?),
                None => None,
            };
            let unit = scan.peek()?;
            let at = left.iter().position(|letter| *letter == unit)?;
            scan.take(unit)?;
            left = left.get(at + 1..).unwrap_or_default();
            if atto.is_some() && unit != b'S' {
                return None;
            }
            self.add(unit, time, number);
            self.atto += i64::try_from(atto.unwrap_or(0)).ok()?;
            any = true;
        }
        Some(any)
    }

    fn add(&mut self, unit: u8, time: bool, number: i64) {
        let wide = i128::from(number);
        match (unit, time) {
            (b'Y', _) => self.months += number * 12,
            (b'M', false) => self.months += number,
            (b'D', _) => self.seconds += wide * 86_400,
            (b'H', _) => self.seconds += wide * 3600,
            (b'M', true) => self.seconds += wide * 60,
            _ => self.seconds += wide,
        }
    }

    /// Compares by Part 2, 3.2.6.2.
    pub(crate) fn order(&self, other: &Duration) -> Option<Ordering> {
        let order = |year, month| self.from(year, month).cmp(&other.from(year, month));
        let mut orders = STARTS.iter().map(|&(year, month)| order(year, month));
        let first = orders.next()?;
        orders.all(|order| order == first).then_some(first)
    }

    /// Returns the end of the duration from a start month, in seconds since 1970.
    fn from(&self, year: i64, month: i64) -> (i128, i64) {
        let days = month_begin(year, month.saturating_add(self.months));
        // Makes the fraction non-negative, because the days may have another sign than the duration.
        let carry = self.atto.div_euclid(ATTO);
        (i128::from(days) * 86_400 + self.seconds + i128::from(carry), self.atto.rem_euclid(ATTO))
    }
}

const ATTO: i64 = 1_000_000_000_000_000_000;

fn number(digits: &[u8]) -> Option<i64> {
    let sound = !digits.is_empty() && digits.len() <= DIGITS_MAX;
    sound.then(|| digits.iter().fold(0i64, |sum, b| sum * 10 + i64::from(b - b'0')))
}
