//! Dates and times in the forms of XML Schema: `2004-07-31T10:00:00Z`, `2004-07`, `10:00:00`, `--07-31`.

use kit::calendar::{date_of, day_number, month_days};

/// The kind of a date, by the parts that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    DateTime,
    Date,
    Time,
    YearMonth,
    Year,
    MonthDay,
    Month,
    Day,
}

/// A date or time. Parts that its kind lacks have their minimum value, but the year is 2000, a leap year, so that `--02-29` is valid.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) kind: Kind,
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    /// Nanoseconds since the start of the minute.
    pub(super) nanos: i64,
    /// Offset from UTC in minutes.
    pub(super) zone: Option<i64>,
}

pub(super) const SECOND: i64 = 1_000_000_000;

/// Maximum number of digits of a year. Longer years are unrealistic and could overflow.
const YEAR_DIGITS_MAX: usize = 9;

impl Stamp {
    /// Makes a date from seconds since 1970 in UTC.
    pub(super) fn of_seconds(seconds: i64) -> Stamp {
        let (year, month, day) = date_of(seconds.div_euclid(86_400));
        let rest = seconds.rem_euclid(86_400);
        Stamp {
            kind: Kind::DateTime,
            year,
            month,
            day,
            hour: rest / 3600,
            minute: rest / 60 % 60,
            nanos: rest % 60 * SECOND,
            zone: Some(0),
        }
    }

    /// Parses a date of any kind.
    pub(super) fn parse(text: &str) -> Option<Stamp> {
        let mut reader = Reader { rest: text.trim_matches([' ', '\t', '\r', '\n']) };
        let mut stamp = reader.body()?;
        stamp.zone = reader.zone()?;
        let valid = (1..=12).contains(&stamp.month)
            && (1..=month_days(stamp.year, stamp.month)).contains(&stamp.day);
        (reader.rest.is_empty() && valid).then_some(stamp)
    }

    /// Returns the date in the format of its kind.
    pub(super) fn text(&self) -> String {
        let Stamp { year, month, day, hour, minute, .. } = *self;
        let sign = if year < 0 { "-" } else { "" };
        let year = format!("{sign}{:04}", year.abs());
        let time = || format!("{hour:02}:{minute:02}:{}", seconds_text(self.nanos, 2));
        let body = match self.kind {
            Kind::DateTime => format!("{year}-{month:02}-{day:02}T{}", time()),
            Kind::Date => format!("{year}-{month:02}-{day:02}"),
            Kind::Time => time(),
            Kind::YearMonth => format!("{year}-{month:02}"),
            Kind::Year => year,
            Kind::MonthDay => format!("--{month:02}-{day:02}"),
            Kind::Month => format!("--{month:02}--"),
            Kind::Day => format!("---{day:02}"),
        };
        body + &self.zone_text("Z")
    }

    /// Returns the zone as `+01:00`, as the given text for UTC, or as nothing if there is none.
    pub(super) fn zone_text(&self, utc: &str) -> String {
        match self.zone {
            None => String::new(),
            Some(0) => utc.to_owned(),
            Some(minutes) => {
                let sign = if minutes < 0 { '-' } else { '+' };
                format!("{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }

    pub(super) fn day_number(&self) -> i64 {
        day_number(self.year, self.month, self.day)
    }

    /// Returns the nanoseconds since 1970, in UTC if the zone is known.
    pub(super) fn nanos_since_1970(&self) -> i128 {
        let minutes = self.hour * 60 + self.minute - self.zone.unwrap_or(0);
        let seconds = i128::from(self.day_number()) * 86_400 + i128::from(minutes) * 60;
        seconds * i128::from(SECOND) + i128::from(self.nanos)
    }

    /// Returns the date at this many nanoseconds after 1970 in UTC, with the zone and kind of this one.
    pub(super) fn moved_to(&self, nanos: i128) -> Option<Stamp> {
        let local = nanos + i128::from(self.zone.unwrap_or(0)) * 60 * i128::from(SECOND);
        let day = 86_400 * i128::from(SECOND);
        let (year, month, date) = date_of(i64::try_from(local.div_euclid(day)).ok()?);
        let rest = i64::try_from(local.rem_euclid(day)).ok()?;
        let minute = 60 * SECOND;
        let (hour, minutes) = (rest / (60 * minute), rest / minute % 60);
        Some(Stamp { year, month, day: date, hour, minute: minutes, nanos: rest % minute, ..*self })
    }
}

/// Formats seconds without trailing zeros, with at least this many digits before the point.
pub(super) fn seconds_text(nanos: i64, digits: usize) -> String {
    let (whole, fraction) = (nanos / SECOND, nanos % SECOND);
    let whole = format!("{whole:0digits$}");
    match fraction {
        0 => whole,
        _ => format!("{whole}.{}", format!("{fraction:09}").trim_end_matches('0')),
    }
}

struct Reader<'t> {
    rest: &'t str,
}

impl Reader<'_> {
    fn body(&mut self) -> Option<Stamp> {
        let mut stamp = Stamp {
            kind: Kind::Day,
            year: 2000,
            month: 1,
            day: 1,
            hour: 0,
            minute: 0,
            nanos: 0,
            zone: None,
        };
        if self.eat("---") {
            stamp.day = self.two()?;
            return Some(stamp);
        }
        if self.eat("--") {
            stamp.month = self.two()?;
            stamp.kind = Kind::Month;
            // `--07--` as originally published, `--07` as corrected later.
            if !self.eat("--")
                && self.rest.get(1..).is_some_and(|rest| rest.len() >= 2 && !rest.contains(':'))
                && self.eat("-")
            {
                stamp.kind = Kind::MonthDay;
                stamp.day = self.two()?;
            }
            return Some(stamp);
        }
        if self.rest.as_bytes().get(2) == Some(&b':') {
            stamp.kind = Kind::Time;
            self.time(&mut stamp)?;
            return Some(stamp);
        }
        let negative = self.eat("-");
        stamp.year = self.year()? * if negative { -1 } else { 1 };
        stamp.kind = Kind::Year;
        if self.zone_follows() || !self.eat("-") {
            return Some(stamp);
        }
        stamp.month = self.two()?;
        stamp.kind = Kind::YearMonth;
        if self.zone_follows() || !self.eat("-") {
            return Some(stamp);
        }
        stamp.day = self.two()?;
        stamp.kind = Kind::Date;
        if self.eat("T") {
            stamp.kind = Kind::DateTime;
            self.time(&mut stamp)?;
        }
        Some(stamp)
    }

    fn time(&mut self, stamp: &mut Stamp) -> Option<()> {
        stamp.hour = self.two()?;
        stamp.minute = self.eat(":").then(|| self.two())??;
        let seconds = self.eat(":").then(|| self.two())??;
        stamp.nanos = seconds * SECOND;
        if self.eat(".") {
            stamp.nanos += self.fraction()?;
        }
        (stamp.hour < 24 && stamp.minute < 60 && seconds < 60).then_some(())
    }

    /// Reads `Z`, `+01:00`, or nothing. Returns `None` if the zone is invalid.
    fn zone(&mut self) -> Option<Option<i64>> {
        if self.rest.is_empty() {
            return Some(None);
        }
        if self.eat("Z") {
            return Some(Some(0));
        }
        let sign = match (self.eat("+"), self.eat("-")) {
            (true, _) => 1,
            (_, true) => -1,
            _ => return None,
        };
        let hours = self.two()?;
        let minutes = self.eat(":").then(|| self.two())??;
        (hours <= 14 && minutes < 60).then_some(Some(sign * (hours * 60 + minutes)))
    }

    /// Returns whether a zone such as `-05:00` follows, which begins like a month.
    fn zone_follows(&self) -> bool {
        self.rest.len() == 6 && self.rest.as_bytes().get(3) == Some(&b':')
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn digits(&mut self) -> &str {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at_checked(end).unwrap_or((self.rest, ""));
        self.rest = rest;
        digits
    }

    fn year(&mut self) -> Option<i64> {
        let digits = self.digits();
        let fits = (4..=YEAR_DIGITS_MAX).contains(&digits.len());
        // Harmless: a year out of range makes the date invalid.
        digits.parse().ok().filter(|year| fits && *year != 0)
    }

    fn two(&mut self) -> Option<i64> {
        let (digits, rest) = self.rest.split_at_checked(2)?;
        self.rest = rest;
        // Harmless: two digits are always a number.
        digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
    }

    /// Reads a fraction. Digits after nanoseconds are dropped.
    fn fraction(&mut self) -> Option<i64> {
        let digits = self.digits();
        // Harmless: digits after nanoseconds are dropped, as documented.
        let kept: String = digits.chars().chain("000000000".chars()).take(9).collect();
        // Harmless: nine digits are always a number.
        (!digits.is_empty()).then(|| kept.parse().ok())?
    }
}
