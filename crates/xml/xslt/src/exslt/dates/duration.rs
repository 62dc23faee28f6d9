//! Durations in the format of XML Schema: `P1Y2M3DT4H5M6.7S`. Months and seconds are separate, because a month has no fixed number of days.

use super::stamp::{Kind, SECOND, Stamp, seconds_text};
use kit::calendar::month_days;

/// A duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Duration {
    pub(super) months: i64,
    pub(super) nanos: i128,
}

/// Maximum number of digits. Longer numbers are unrealistic and could overflow.
const DIGITS_MAX: usize = 12;

const DAY: i128 = 86_400 * SECOND as i128;

impl Duration {
    pub(super) fn parse(text: &str) -> Option<Duration> {
        let text = text.trim_matches([' ', '\t', '\r', '\n']);
        let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let rest = rest.strip_prefix('P')?;
        let (date, time) =
            rest.split_once('T').map_or((rest, None), |(date, time)| (date, Some(time)));
        if date.is_empty() && time.is_none() || time == Some("") {
            return None;
        }
        let mut duration = Duration::default();
        duration.read(date, &[('Y', 12, 0), ('M', 1, 0), ('D', 0, DAY)])?;
        duration.read(
            time.unwrap_or(""),
            &[
                ('H', 0, 3600 * i128::from(SECOND)),
                ('M', 0, 60 * i128::from(SECOND)),
                ('S', 0, i128::from(SECOND)),
            ],
        )?;
        Some(if negative { duration.negated() } else { duration })
    }

    /// Reads numbers with these unit letters, in this order, each at most once.
    fn read(&mut self, text: &str, units: &[(char, i64, i128)]) -> Option<()> {
        let mut rest = text;
        for &(letter, months, nanos) in units {
            let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
            let (number, after) = rest.split_at_checked(end)?;
            let Some(after) = after.strip_prefix(letter) else { continue };
            let (whole, fraction) =
                number.split_once('.').map_or((number, None), |(a, b)| (a, Some(b)));
            if whole.is_empty() || whole.len() > DIGITS_MAX || fraction.is_some() && letter != 'S' {
                return None;
            }
            let count: i64 = whole.parse().ok()?;
            self.months = self.months.checked_add(count.checked_mul(months)?)?;
            self.nanos = self.nanos.checked_add(i128::from(count).checked_mul(nanos)?)?;
            if let Some(fraction) = fraction {
                if fraction.is_empty() {
                    return None;
                }
                // Harmless: the resolution is a nanosecond.
                let kept: String = fraction.chars().chain("000000000".chars()).take(9).collect();
                self.nanos += kept.parse::<i128>().ok()?;
            }
            rest = after;
        }
        rest.is_empty().then_some(())
    }

    pub(super) fn of_seconds(seconds: f64) -> Option<Duration> {
        // Larger doubles no longer represent whole seconds precisely.
        if !seconds.is_finite() || seconds.abs() > 9e15 {
            return None;
        }
        let whole = seconds.trunc();
        let text = format!("{whole:.0}");
        let fraction = format!("{:.0}", (seconds - whole) * 1e9);
        let (whole, fraction): (i128, i128) = (text.parse().ok()?, fraction.parse().ok()?);
        Some(Duration { months: 0, nanos: whole * i128::from(SECOND) + fraction })
    }

    pub(super) fn negated(self) -> Duration {
        Duration { months: -self.months, nanos: -self.nanos }
    }

    /// Returns the sum, or `None` if months and seconds have different signs, which cannot be written.
    pub(super) fn plus(self, other: Duration) -> Option<Duration> {
        let sum = Duration {
            months: self.months.checked_add(other.months)?,
            nanos: self.nanos.checked_add(other.nanos)?,
        };
        let apart = sum.months < 0 && sum.nanos > 0 || sum.months > 0 && sum.nanos < 0;
        (!apart).then_some(sum)
    }

    pub(super) fn text(self) -> String {
        if self.months == 0 && self.nanos == 0 {
            return "P0D".into();
        }
        let mut out = String::from(if self.months < 0 || self.nanos < 0 { "-P" } else { "P" });
        let mut add = |count: i128, letter: char| {
            if count != 0 {
                out.push_str(&count.to_string());
                out.push(letter);
            }
        };
        let (months, nanos) = (i128::from(self.months.abs()), self.nanos.abs());
        add(months / 12, 'Y');
        add(months % 12, 'M');
        add(nanos / DAY, 'D');
        let rest = i64::try_from(nanos % DAY).unwrap_or(0);
        if rest != 0 {
            out.push('T');
            let mut add = |count: i64, letter: char| {
                if count != 0 {
                    out.push_str(&count.to_string());
                    out.push(letter);
                }
            };
            add(rest / (3600 * SECOND), 'H');
            add(rest / (60 * SECOND) % 60, 'M');
            let seconds = rest % (60 * SECOND);
            if seconds != 0 {
                out.push_str(&seconds_text(seconds, 1));
                out.push('S');
            }
        }
        out
    }

    /// Returns the duration in seconds, or `None` if it has months, whose length varies.
    pub(super) fn seconds(self) -> Option<f64> {
        (self.months == 0).then(|| nanos_seconds(self.nanos))
    }

    /// Adds the duration to a date (XML Schema part 2, appendix E): first the months, then the day is limited to the last of the month,
    /// then the seconds. The result has the same kind as the date. Parts that this kind lacks are dropped.
    pub(super) fn after(self, stamp: Stamp) -> Option<Stamp> {
        if !matches!(stamp.kind, Kind::DateTime | Kind::Date | Kind::YearMonth | Kind::Year) {
            return None;
        }
        let months = (stamp.year * 12 + stamp.month - 1).checked_add(self.months)?;
        let mut moved =
            Stamp { year: months.div_euclid(12), month: months.rem_euclid(12) + 1, ..stamp };
        moved.day = stamp.day.min(month_days(moved.year, moved.month));
        let moved = moved.moved_to(moved.nanos_since_1970().checked_add(self.nanos)?)?;
        // A date with a longer year could not be parsed again.
        (moved.year.abs() < 1_000_000_000).then_some(moved)
    }
}

/// Converts nanoseconds to seconds.
pub(super) fn nanos_seconds(nanos: i128) -> f64 {
    let second = i128::from(SECOND);
    let (whole, fraction) = (nanos.div_euclid(second), nanos.rem_euclid(second));
    // Parsing the digits yields the nearest double.
    format!("{whole}").parse::<f64>().unwrap_or(f64::NAN)
        + format!("0.{fraction:09}").parse::<f64>().unwrap_or(0.0)
}
