//! `date:*` (<http://exslt.org/dates-and-times>). The caller supplies the current time in UTC.

mod duration;
mod format;
mod stamp;

use xpath::{Call, ErrorKind, Value};

use super::arguments::{nodes, number, text};
use super::{Code, Function, FunctionInputs};
use duration::{Duration, nanos_seconds};
use format::{DAYS, DateParts, MONTHS, date_parts, format, short};
use kit::calendar::{day_in_year, is_leap, week_in_month, week_in_year, weekday};
use stamp::{Kind, Stamp};

const fn row(local: &'static str, least: usize, most: usize, code: Code) -> Function {
    Function { uri: "http://exslt.org/dates-and-times", local, least, most, code }
}

pub(super) const FUNCTIONS: &[Function] = &[
    row("date-time", 0, 1, |a, c, s| part(a, c, s, Kind::DateTime)),
    row("date", 0, 1, |a, c, s| part(a, c, s, Kind::Date)),
    row("time", 0, 1, |a, c, s| part(a, c, s, Kind::Time)),
    row("year", 0, 1, |a, c, s| count(a, c, s, |parts| parts.year, |at| at.year)),
    row("leap-year", 0, 1, leap_year),
    row("month-in-year", 0, 1, |a, c, s| count(a, c, s, |parts| parts.month, |at| at.month)),
    row("month-name", 0, 1, |a, c, s| named(a, c, s, month_name)),
    row("month-abbreviation", 0, 1, |a, c, s| named(a, c, s, |at| month_name(at).map(short))),
    row("week-in-year", 0, 1, |a, c, s| {
        count(a, c, s, full, |at| week_in_year(at.year, at.month, at.day))
    }),
    row("week-in-month", 0, 1, |a, c, s| {
        count(a, c, s, full, |at| week_in_month(at.year, at.month, at.day))
    }),
    row("day-in-year", 0, 1, |a, c, s| {
        count(a, c, s, full, |at| day_in_year(at.year, at.month, at.day))
    }),
    row("day-in-month", 0, 1, |a, c, s| count(a, c, s, |parts| parts.day, |at| at.day)),
    row("day-of-week-in-month", 0, 1, |a, c, s| count(a, c, s, full, |at| (at.day - 1) / 7 + 1)),
    row("day-in-week", 0, 1, |a, c, s| count(a, c, s, full, |at| weekday(at.day_number()) + 1)),
    row("day-name", 0, 1, |a, c, s| named(a, c, s, day_name)),
    row("day-abbreviation", 0, 1, |a, c, s| named(a, c, s, |at| day_name(at).map(short))),
    row("hour-in-day", 0, 1, |a, c, s| count(a, c, s, |parts| parts.time, |at| at.hour)),
    row("minute-in-hour", 0, 1, |a, c, s| count(a, c, s, |parts| parts.time, |at| at.minute)),
    row("second-in-minute", 0, 1, second_in_minute),
    row("format-date", 2, 2, format_date),
    row("seconds", 0, 1, seconds),
    row("duration", 0, 1, duration),
    row("add", 2, 2, add),
    row("add-duration", 2, 2, add_duration),
    row("difference", 2, 2, difference),
    row("sum", 1, 1, sum),
];

type Outcome = Result<Value, ErrorKind>;

/// Returns the argument as a date, or the current time if there is no argument. Returns `None` if the argument is not a date.
fn at(
    arguments: &[Value],
    call: &Call<'_>,
    inputs: &FunctionInputs,
) -> Result<Option<Stamp>, ErrorKind> {
    if arguments.is_empty() {
        now(inputs).map(|now| Some(Stamp::of_seconds(now)))
    } else {
        Ok(Stamp::parse(&text(arguments, 0, call)))
    }
}

fn now(inputs: &FunctionInputs) -> Result<i64, ErrorKind> {
    inputs.now.ok_or_else(|| {
        ErrorKind::Host("the caller of the transformation did not say what time it is".into())
    })
}

/// Returns the text, or an empty string if the date lacks a required part.
fn written(text: Option<String>) -> Outcome {
    // Harmless: EXSLT specifies an empty string if the date lacks the requested part.
    Ok(Value::text(text.unwrap_or_default()))
}

fn full(parts: DateParts) -> bool {
    parts.year && parts.month && parts.day
}

/// Returns the date part or the time part of a date, or all of it.
fn part(arguments: &[Value], call: &Call<'_>, inputs: &FunctionInputs, kind: Kind) -> Outcome {
    let stamp = at(arguments, call, inputs)?;
    let has = stamp.filter(|stamp| stamp.kind == Kind::DateTime || stamp.kind == kind);
    written(has.map(|stamp| Stamp { kind, ..stamp }.text()))
}

/// Returns a number computed from a date, or NaN if the date lacks a required part.
fn count(
    arguments: &[Value],
    call: &Call<'_>,
    inputs: &FunctionInputs,
    enough: impl Fn(DateParts) -> bool,
    part: impl Fn(&Stamp) -> i64,
) -> Outcome {
    let stamp = at(arguments, call, inputs)?.filter(|stamp| enough(date_parts(stamp.kind)));
    Ok(Value::Number(
        stamp.map_or(f64::NAN, |stamp| nanos_seconds(i128::from(part(&stamp)) * 1_000_000_000)),
    ))
}

fn named(
    arguments: &[Value],
    call: &Call<'_>,
    inputs: &FunctionInputs,
    name: impl Fn(&Stamp) -> Option<&'static str>,
) -> Outcome {
    written(at(arguments, call, inputs)?.and_then(|stamp| name(&stamp).map(str::to_owned)))
}

fn month_name(stamp: &Stamp) -> Option<&'static str> {
    // Harmless: the number of a month is positive.
    let place = usize::try_from(stamp.month - 1).ok().filter(|_| date_parts(stamp.kind).month)?;
    MONTHS.get(place).copied()
}

fn day_name(stamp: &Stamp) -> Option<&'static str> {
    let place =
        // Harmless: the number of a weekday is not negative.
        usize::try_from(weekday(stamp.day_number())).ok().filter(|_| full(date_parts(stamp.kind)))?;
    DAYS.get(place).copied()
}

fn leap_year(arguments: &[Value], call: &mut Call<'_>, inputs: &mut FunctionInputs) -> Outcome {
    let stamp = at(arguments, call, inputs)?.filter(|stamp| date_parts(stamp.kind).year);
    Ok(stamp.map_or(Value::Number(f64::NAN), |stamp| Value::Boolean(is_leap(stamp.year))))
}

fn second_in_minute(
    arguments: &[Value],
    call: &mut Call<'_>,
    inputs: &mut FunctionInputs,
) -> Outcome {
    let stamp = at(arguments, call, inputs)?.filter(|stamp| date_parts(stamp.kind).time);
    Ok(Value::Number(stamp.map_or(f64::NAN, |stamp| nanos_seconds(i128::from(stamp.nanos)))))
}

fn format_date(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let pattern = text(arguments, 1, call);
    // A field has at most nine characters, or as many digits as its letter is repeated.
    call.budget.text(pattern.len().saturating_mul(9))?;
    written(Stamp::parse(&text(arguments, 0, call)).map(|stamp| format(&stamp, &pattern)))
}

/// Returns a date as seconds since 1970, or a duration without months as seconds.
fn seconds(arguments: &[Value], call: &mut Call<'_>, inputs: &mut FunctionInputs) -> Outcome {
    if let Some(duration) =
        arguments.first().and_then(|_| Duration::parse(&text(arguments, 0, call)))
    {
        return Ok(Value::Number(duration.seconds().unwrap_or(f64::NAN)));
    }
    let stamp = at(arguments, call, inputs)?.filter(|stamp| date_parts(stamp.kind).year);
    Ok(Value::Number(stamp.map_or(f64::NAN, |stamp| nanos_seconds(stamp.nanos_since_1970()))))
}

/// Returns a number of seconds as a duration; without an argument, the time since 1970.
fn duration(arguments: &[Value], call: &mut Call<'_>, inputs: &mut FunctionInputs) -> Outcome {
    let duration = if arguments.is_empty() {
        Some(Duration { months: 0, nanos: i128::from(now(inputs)?) * 1_000_000_000 })
    } else {
        Duration::of_seconds(number(arguments, 0, call))
    };
    written(duration.map(Duration::text))
}

fn add(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let stamp = Stamp::parse(&text(arguments, 0, call));
    let duration = Duration::parse(&text(arguments, 1, call));
    // Harmless: EXSLT specifies an empty string if one of them is invalid.
    let moved = stamp.zip(duration).and_then(|(stamp, duration)| duration.after(stamp));
    written(moved.map(|moved| moved.text()))
}

fn add_duration(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let first = Duration::parse(&text(arguments, 0, call));
    let second = Duration::parse(&text(arguments, 1, call));
    // Harmless: EXSLT specifies an empty string if one of them is invalid.
    written(first.zip(second).and_then(|(first, second)| first.plus(second)).map(Duration::text))
}

/// Returns the difference between two dates: in months if either has no day, in days if either has no time.
fn difference(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let (Some(from), Some(to)) =
        (Stamp::parse(&text(arguments, 0, call)), Stamp::parse(&text(arguments, 1, call)))
    else {
        return written(None);
    };
    let (said, also) = (date_parts(from.kind), date_parts(to.kind));
    if !said.year || !also.year {
        return written(None);
    }
    let duration = match (said.day && also.day, said.time && also.time) {
        (true, true) => {
            Duration { months: 0, nanos: to.nanos_since_1970() - from.nanos_since_1970() }
        }
        (true, false) => {
            let days = i128::from(to.day_number() - from.day_number());
            Duration { months: 0, nanos: days * 86_400 * 1_000_000_000 }
        }
        (false, _) => {
            let months = if said.month && also.month { to.month - from.month } else { 0 };
            Duration { months: (to.year - from.year) * 12 + months, nanos: 0 }
        }
    };
    written(Some(duration.text()))
}

/// Returns the sum of the durations in a node-set, or an empty string if one of them is invalid.
fn sum(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let mut sum = None;
    for &node in nodes(arguments, 0)? {
        call.budget.charge(1)?;
        let Some(duration) = Duration::parse(&call.documents.string_value(node)) else {
            return written(None);
        };
        sum = match sum {
            None => Some(duration),
            Some(before) => duration.plus(before),
        };
        if sum.is_none() {
            break;
        }
    }
    written(sum.map(Duration::text))
}
