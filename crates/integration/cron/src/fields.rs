//! The six fields of an expression.

use std::fmt;

use jiff::civil::{Date, Time};

/// The values at which each field matches, as bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fields {
    seconds: u64,
    minutes: u64,
    hours: u64,
    /// Days of the month. Bit 0 stands for the last day.
    days: u64,
    months: u64,
    /// Days of the week, from Sunday as bit 0.
    weekdays: u64,
    any_day: bool,
    any_weekday: bool,
}

/// The error of an expression that cannot be parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CronError(String);

/// A field of an expression.
struct Kind {
    name: &'static str,
    min: u32,
    max: u32,
    /// The names of its values, starting with `min`.
    names: &'static [&'static str],
    is_day: bool,
}

const NUMBERS: Kind = Kind { name: "second", min: 0, max: 59, names: &[], is_day: false };
const MONTHS: &[&str] =
    &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const WEEKDAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];

const KINDS: [Kind; 6] = [
    NUMBERS,
    Kind { name: "minute", ..NUMBERS },
    Kind { name: "hour", max: 23, ..NUMBERS },
    Kind { name: "day", min: 1, max: 31, names: &[], is_day: true },
    Kind { name: "month", min: 1, max: 12, names: MONTHS, is_day: false },
    // Sunday is both 0 and 7.
    Kind { name: "weekday", min: 0, max: 7, names: WEEKDAYS, is_day: true },
];

/// The bit for the last day of a month.
const LAST_DAY: u64 = 1;

impl fmt::Display for CronError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CronError {}

impl Fields {
    pub(crate) fn parse(text: &str) -> Result<Fields, CronError> {
        let texts: Vec<&str> = text.split_whitespace().collect();
        let Ok(texts): Result<[&str; 6], _> = texts.as_slice().try_into() else {
            let names = KINDS.map(|kind| kind.name).join(", ");
            let count = texts.len();
            return Err(CronError(format!("{count} fields, but 6 are needed: {names}")));
        };
        let mut bits = [0; 6];
        // Harmless: all three have six items.
        for ((bits, text), kind) in bits.iter_mut().zip(texts).zip(&KINDS) {
            *bits = kind.parse(text)?;
        }
        let [seconds, minutes, hours, days, months, weekdays] = bits;
        let is_any = |text: &str| text.starts_with(['*', '?']);
        let [_, _, _, day, _, weekday] = texts;
        Ok(Fields {
            seconds,
            minutes,
            hours,
            days,
            months,
            // Sunday may be written as 7, so bit 7 is added to bit 0.
            weekdays: weekdays | weekdays >> 7,
            any_day: is_any(day),
            any_weekday: is_any(weekday),
        })
    }

    /// Returns true if the expression matches some time on this day.
    pub(crate) fn is_day(&self, date: Date) -> bool {
        let is_last = date.day() == date.days_in_month() && self.days & LAST_DAY != 0;
        let by_month = is_last || has(self.days, date.day());
        let by_week = has(self.weekdays, date.weekday().to_sunday_zero_offset());
        let by_day = match (self.any_day, self.any_weekday) {
            (false, false) => by_month || by_week,
            (true, _) | (_, true) => by_month && by_week,
        };
        has(self.months, date.month()) && by_day
    }

    /// Returns the first matching time of day that is not before `from`.
    pub(crate) fn time_from(&self, from: Time) -> Option<Time> {
        let (hour, minute, second) = (from.hour(), from.minute(), from.second());
        if has(self.hours, hour) {
            if has(self.minutes, minute)
                && let Some(second) = first(self.seconds, second)
            {
                // Harmless: the fields contain only valid times.
                return Time::new(hour, minute, second, 0).ok();
            }
            if let Some(minute) = first(self.minutes, minute.saturating_add(1)) {
                // Harmless: the fields contain only valid times.
                return Time::new(hour, minute, first(self.seconds, 0)?, 0).ok();
            }
        }
        let hour = first(self.hours, hour.saturating_add(1))?;
        // Harmless: the fields contain only valid times.
        Time::new(hour, first(self.minutes, 0)?, first(self.seconds, 0)?, 0).ok()
    }

    /// Returns true if the expression matches every hour of a day.
    pub(crate) fn is_every_hour(&self) -> bool {
        self.hours == (1 << 24) - 1
    }
}

fn has(bits: u64, value: i8) -> bool {
    u32::try_from(value).is_ok_and(|value| bits >> value & 1 != 0)
}

/// Returns the first set bit at or after `from`.
fn first(bits: u64, from: i8) -> Option<i8> {
    // Harmless: `from` is never negative.
    let from = u32::try_from(from).ok().filter(|from| *from < 64)?;
    let rest = bits >> from;
    // Harmless: the number of a bit is less than 64.
    (rest != 0).then(|| i8::try_from(from + rest.trailing_zeros()).ok())?
}

impl Kind {
    fn parse(&self, text: &str) -> Result<u64, CronError> {
        text.split(',').map(|item| self.item(item)).try_fold(0, |all, item| Ok(all | item?))
    }

    fn item(&self, item: &str) -> Result<u64, CronError> {
        if self.name == "day" && item.eq_ignore_ascii_case("l") {
            return Ok(LAST_DAY);
        }
        let (range, step) = match item.split_once('/') {
            Some((range, step)) => {
                let step = kit::digits::whole::<u32>(step);
                (range, step.ok_or_else(|| self.wrong(item, "a step that is not a number"))?)
            }
            None => (item, 1),
        };
        if step == 0 {
            return Err(self.wrong(item, "a step of 0"));
        }
        let (begin, end) = match (range, range.split_once('-')) {
            ("*", _) => (self.min, self.max),
            ("?", _) if self.is_day => (self.min, self.max),
            (_, Some((begin, end))) => (self.value(item, begin)?, self.value(item, end)?),
            (_, None) => {
                let begin = self.value(item, range)?;
                (begin, if item.contains('/') { self.max } else { begin })
            }
        };
        if end < begin {
            return Err(self.wrong(item, "its end is before its beginning"));
        }
        let values = (begin..=end).step_by(usize::try_from(step).unwrap_or(usize::MAX));
        Ok(values.fold(0, |bits, value| bits | 1 << value))
    }

    fn value(&self, item: &str, text: &str) -> Result<u32, CronError> {
        let named = self.names.iter().position(|name| name.eq_ignore_ascii_case(text));
        // Harmless: the lists of names are short.
        let named = named.and_then(|at| u32::try_from(at).ok()).map(|at| at + self.min);
        // Harmless: anything that is neither a name nor a number is refused below.
        let value = named.or_else(|| kit::digits::whole(text));
        let value = value.ok_or_else(|| self.wrong(item, "neither a number nor a name"))?;
        if !(self.min..=self.max).contains(&value) {
            let what = format!("must be from {} to {}", self.min, self.max);
            return Err(self.wrong(item, &what));
        }
        Ok(value)
    }

    fn wrong(&self, item: &str, what: &str) -> CronError {
        CronError(format!("the {} `{}`: {what}", self.name, item.escape_debug()))
    }
}
