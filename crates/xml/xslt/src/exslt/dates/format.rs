//! `date:format-date()`, with the patterns of Java's `SimpleDateFormat`, in English.

use super::stamp::{Kind, SECOND, Stamp};
use kit::calendar::{day_in_year, week_in_month, week_in_year, weekday};

pub(super) const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

pub(super) const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// Returns the first three letters.
pub(super) fn short(name: &str) -> &str {
    name.get(..3).unwrap_or(name)
}

/// Formats a date by a pattern. Parts that the date lacks are left out.
pub(super) fn format(stamp: &Stamp, pattern: &str) -> String {
    let mut out = String::new();
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        if first == '\'' {
            rest = quoted(rest.get(1..).unwrap_or_default(), &mut out);
            continue;
        }
        let end = rest.find(|c| c != first).unwrap_or(rest.len());
        let (run, after) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if first.is_ascii_alphabetic() {
            out.push_str(&field(stamp, first, run.len()))
        } else {
            out.push_str(run)
        }
        rest = after;
    }
    out
}

/// Reads literal text up to the next quote. Two quotes stand for one, also outside literal text.
fn quoted<'p>(rest: &'p str, out: &mut String) -> &'p str {
    if let Some(after) = rest.strip_prefix('\'') {
        out.push('\'');
        return after;
    }
    let mut rest = rest;
    loop {
        let Some((text, after)) = rest.split_once('\'') else {
            out.push_str(rest);
            return "";
        };
        out.push_str(text);
        match after.strip_prefix('\'') {
            Some(more) => {
                out.push('\'');
                rest = more;
            }
            None => return after,
        }
    }
}

fn field(stamp: &Stamp, letter: char, width: usize) -> String {
    let Stamp { year, month, day, hour, minute, nanos, .. } = *stamp;
    let parts = date_parts(stamp.kind);
    let number = |known: bool, value: i64| {
        if known { format!("{value:0width$}", width = width.min(20)) } else { String::new() }
    };
    let full = parts.year && parts.month && parts.day;
    match letter {
        'G' if parts.year => (if year > 0 { "AD" } else { "BC" }).into(),
        'y' if parts.year && width == 2 => format!("{:02}", year.abs() % 100),
        'y' => number(parts.year, year.abs()),
        'M' if width > 2 => name(parts.month, &MONTHS, month - 1, width),
        'M' => number(parts.month, month),
        'd' => number(parts.day, day),
        'D' => number(full, day_in_year(year, month, day)),
        'E' => name(full, &DAYS, weekday(stamp.day_number()), width),
        'F' => number(full, (day - 1) / 7 + 1),
        'w' => number(full, week_in_year(year, month, day)),
        'W' => number(full, week_in_month(year, month, day)),
        'a' if parts.time => (if hour < 12 { "AM" } else { "PM" }).into(),
        'H' => number(parts.time, hour),
        'k' => number(parts.time, if hour == 0 { 24 } else { hour }),
        'K' => number(parts.time, hour % 12),
        'h' => number(parts.time, if hour % 12 == 0 { 12 } else { hour % 12 }),
        'm' => number(parts.time, minute),
        's' => number(parts.time, nanos / SECOND),
        'S' => number(parts.time, nanos % SECOND / 1_000_000),
        'z' => stamp.zone.map_or_else(String::new, |_| format!("GMT{}", stamp.zone_text(""))),
        'Z' => stamp.zone.map_or_else(String::new, |_| stamp.zone_text("+00:00").replace(':', "")),
        _ => String::new(),
    }
}

fn name(known: bool, names: &[&str], place: i64, width: usize) -> String {
    // Harmless: an index out of range has no name.
    let name = usize::try_from(place).ok().and_then(|place| names.get(place)).filter(|_| known);
    let name = name.copied().unwrap_or("");
    if width > 3 { name.into() } else { short(name).into() }
}

/// The parts that a kind of date has.
#[derive(Debug, Clone, Copy)]
pub(super) struct DateParts {
    pub(super) year: bool,
    pub(super) month: bool,
    pub(super) day: bool,
    pub(super) time: bool,
}

pub(super) fn date_parts(kind: Kind) -> DateParts {
    let (year, month, day, time) = match kind {
        Kind::DateTime => (true, true, true, true),
        Kind::Date => (true, true, true, false),
        Kind::Time => (false, false, false, true),
        Kind::YearMonth => (true, true, false, false),
        Kind::Year => (true, false, false, false),
        Kind::MonthDay => (false, true, true, false),
        Kind::Month => (false, true, false, false),
        Kind::Day => (false, false, true, false),
    };
    DateParts { year, month, day, time }
}
