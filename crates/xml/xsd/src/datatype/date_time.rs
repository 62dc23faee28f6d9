//! The seven types of date and time: parsing, position on the time line, and partial order.

use std::cmp::Ordering;

use kit::calendar;

use super::scan::Scan;

/// Maximum number of digits of a year. 10^12 years in seconds fit the time line.
const YEAR_DIGITS_MAX: usize = 12;
/// Largest difference of local time from UTC.
const ZONE_SECONDS_MAX: i128 = 14 * 3600;
/// The year used for types without one: a leap year, so that `--02-29` exists.
const LEAP_YEAR: i64 = 1972;

/// One of the types of date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DateTimeKind {
    DateTime,
    Date,
    Time,
    GYearMonth,
    GYear,
    GMonthDay,
    GMonth,
    GDay,
}

/// A value of a type of date and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DateTime {
    kind: DateTimeKind,
    /// Seconds since 1970, in UTC if there is a zone, otherwise in local time.
    seconds: i128,
    /// Fraction in 10^-18 seconds.
    atto: u64,
    zoned: bool,
}

/// A calendar date.
#[derive(Clone, Copy)]
struct Day {
    year: i64,
    month: u8,
    day: u8,
}

/// Fields of a parsed text.
#[derive(Clone, Copy)]
struct Fields {
    day: Day,
    /// Seconds since midnight.
    clock: i64,
    atto: u64,
    /// Offset from UTC in seconds.
    zone: Option<i64>,
}

impl DateTime {
    /// Parses a value.
    pub(crate) fn parse(kind: DateTimeKind, text: &str) -> Option<DateTime> {
        let Fields { day, clock, atto, zone } = Fields::read(kind, text)?;
        let local = i128::from(days(day)) * 86_400 + i128::from(clock);
        Some(DateTime {
            kind,
            seconds: local - i128::from(zone.unwrap_or(0)),
            atto,
            zoned: zone.is_some(),
        })
    }

    /// Returns whether a text is a value.
    pub(crate) fn is(kind: DateTimeKind, text: &str) -> bool {
        Fields::read(kind, text).is_some()
    }

    /// Compares as defined in Part 2, 3.2.7.3: a value with a zone and one without are ordered only if no zone could change the order.
    pub(crate) fn order(&self, other: &DateTime) -> Option<Ordering> {
        if self.kind != other.kind {
            return None;
        }
        match (self.zoned, other.zoned) {
            (true, true) | (false, false) => {
                Some((self.seconds, self.atto).cmp(&(other.seconds, other.atto)))
            }
            (true, false) => self.order_local(other),
            (false, true) => other.order_local(self).map(Ordering::reverse),
        }
    }

    /// Compares with a value without zone.
    fn order_local(&self, local: &DateTime) -> Option<Ordering> {
        let at = (self.seconds, self.atto);
        if at < (local.seconds - ZONE_SECONDS_MAX, local.atto) {
            Some(Ordering::Less)
        } else if at > (local.seconds + ZONE_SECONDS_MAX, local.atto) {
            Some(Ordering::Greater)
        } else {
            None
        }
    }
}

impl Fields {
    #[inline]
    fn read(kind: DateTimeKind, text: &str) -> Option<Fields> {
        let mut scan = Scan::new(text);
        let mut day = Day { year: LEAP_YEAR, month: 1, day: 1 };
        let mut clock = (0, 0);
        match kind {
            DateTimeKind::DateTime => {
                day.year = year(&mut scan)?;
                month_and_day(&mut scan, &mut day)?;
                scan.take(b'T')?;
                clock = time(&mut scan)?;
            }
            DateTimeKind::Date => {
                day.year = year(&mut scan)?;
                month_and_day(&mut scan, &mut day)?;
            }
            DateTimeKind::Time => {
                clock = time(&mut scan)?;
                // 24:00:00 is the first instant of the next day.
                clock.0 %= 86_400;
            }
            DateTimeKind::GYear => day.year = year(&mut scan)?,
            DateTimeKind::GYearMonth => {
                day.year = year(&mut scan)?;
                scan.take(b'-')?;
                day.month = scan.two(1, 12)?;
            }
            DateTimeKind::GMonth => {
                dashes(&mut scan, 2)?;
                day.month = scan.two(1, 12)?;
            }
            DateTimeKind::GMonthDay => {
                dashes(&mut scan, 1)?;
                month_and_day(&mut scan, &mut day)?;
            }
            DateTimeKind::GDay => {
                dashes(&mut scan, 3)?;
                day.day = scan.two(1, 31)?;
            }
        }
        let zone = zone(&mut scan)?;
        scan.done()?;
        Some(Fields { day, clock: clock.0, atto: clock.1, zone })
    }
}

/// Parses a year: `-?` and at least four digits, not `0000`, without leading zeros beyond four digits.
fn year(scan: &mut Scan<'_>) -> Option<i64> {
    let before = scan.take(b'-').is_some();
    let digits = scan.digits();
    let sound = match digits.len() {
        0..4 => false,
        4 => true,
        len => digits.first() != Some(&b'0') && len <= YEAR_DIGITS_MAX,
    };
    if !sound {
        return None;
    }
    let number = digits.iter().fold(0i64, |sum, b| sum * 10 + i64::from(b - b'0'));
    if number == 0 {
        return None;
    }
    // There is no year 0: the year before 1 is -1, which astronomers call 0.
    Some(if before { 1 - number } else { number })
}

fn dashes(scan: &mut Scan<'_>, count: usize) -> Option<()> {
    (0..count).try_for_each(|_| scan.take(b'-'))
}

/// `-mm-dd`
fn month_and_day(scan: &mut Scan<'_>, day: &mut Day) -> Option<()> {
    scan.take(b'-')?;
    day.month = scan.two(1, 12)?;
    scan.take(b'-')?;
    day.day = scan.two(1, month_days(day.year, day.month))?;
    Some(())
}

/// Parses `hh:mm:ss(.s+)?` to seconds since midnight and the fraction.
fn time(scan: &mut Scan<'_>) -> Option<(i64, u64)> {
    let hour = scan.two(0, 24)?;
    scan.take(b':')?;
    let minute = scan.two(0, 59)?;
    scan.take(b':')?;
    let second = scan.two(0, 59)?;
    let atto = match scan.take(b'.') {
        Some(()) => scan.fraction()?,
        None => 0,
    };
    if hour == 24 && (minute, second, atto) != (0, 0, 0) {
        return None;
    }
    Some((i64::from(hour) * 3600 + i64::from(minute) * 60 + i64::from(second), atto))
}

/// Parses `Z`, `+hh:mm`, `-hh:mm` or nothing to an offset from UTC in seconds.
fn zone(scan: &mut Scan<'_>) -> Option<Option<i64>> {
    if scan.take(b'Z').is_some() {
        return Some(Some(0));
    }
    let sign = if scan.take(b'+').is_some() {
        1
    } else if scan.take(b'-').is_some() {
        -1
    } else {
        return Some(None);
    };
    let hour = scan.two(0, 14)?;
    scan.take(b':')?;
    let minute = scan.two(0, if hour == 14 { 0 } else { 59 })?;
    Some(Some(sign * (i64::from(hour) * 3600 + i64::from(minute) * 60)))
}

fn month_days(year: i64, month: u8) -> u8 {
    u8::try_from(calendar::month_days(year, i64::from(month))).unwrap_or(31)
}

/// Days since 1970-01-01.
fn days(day: Day) -> i64 {
    calendar::day_number(day.year, i64::from(day.month), i64::from(day.day))
}
