//! The text forms of `google.protobuf.Timestamp`, `Duration` and `FieldMask`.

use std::fmt::Write as _;

use kit::calendar;

/// The seconds of 0001-01-01T00:00:00Z and of 9999-12-31T23:59:59Z.
const TIMESTAMPS: std::ops::RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;

/// The seconds of about 10,000 years.
const DURATION_MAX: i64 = 315_576_000_000;

const NANOS: i32 = 1_000_000_000;

const NO_TIMESTAMP: &str = "it is not a time such as `2026-01-31T12:00:00Z`";
const NO_DURATION: &str = "it is not a duration such as `1.5s`";

/// Seconds and nanoseconds.
pub(crate) type Time = (i64, i32);

/// Reads a time of RFC 3339.
pub(crate) fn timestamp(text: &str) -> Result<Time, &'static str> {
    read_timestamp(text).filter(|(seconds, _)| TIMESTAMPS.contains(seconds)).ok_or(NO_TIMESTAMP)
}

fn read_timestamp(text: &str) -> Option<Time> {
    let (date, time) = text.split_at_checked(11)?;
    let date = date.strip_suffix('T')?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let (clock, rest) = time.split_at_checked(8)?;
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let is_date =
        (1..=12).contains(&month) && (1..=calendar::month_days(year, month)).contains(&day);
    if !is_date || year == 0 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let digits = rest
        .strip_prefix('.')
        .map_or(0, |rest| 1 + rest.bytes().take_while(u8::is_ascii_digit).count());
    let (fraction, zone) = rest.split_at_checked(digits)?;
    let nanos = if fraction.is_empty() { 0 } else { nanos(fraction.get(1..)?)? };
    let offset = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign @ ("+" | "-"), zone) => {
            let [hours, minutes] = numbers(zone, ':', [2, 2])?;
            let seconds = (hours < 24 && minutes < 60).then_some(hours * 3600 + minutes * 60)?;
            if sign == "+" { seconds } else { -seconds }
        }
        _ => return None,
    };
    let days = calendar::day_number(year, month, day);
    Some((days * 86_400 + hour * 3600 + minute * 60 + second - offset, nanos))
}

/// Reads numbers of fixed lengths.
fn numbers<const N: usize>(text: &str, between: char, lengths: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(between);
    let mut made = [0; N];
    // Harmless: both arrays have the same length.
    for (place, length) in made.iter_mut().zip(lengths) {
        let part = parts.next().filter(|part| part.len() == length)?;
        *place = kit::digits::whole(part)?;
    }
    parts.next().is_none().then_some(made)
}

/// Reads the digits of a fraction as nanoseconds.
fn nanos(digits: &str) -> Option<i32> {
    let is_fraction =
        (1..=9).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    // Harmless: the caller refuses what is not a number.
    is_fraction.then(|| format!("{digits:0<9}")).and_then(|digits| digits.parse().ok())
}

/// Reads a duration in seconds.
pub(crate) fn duration(text: &str) -> Result<Time, &'static str> {
    read_duration(text).ok_or(NO_DURATION)
}

fn read_duration(text: &str) -> Option<Time> {
    let number = text.strip_suffix('s')?;
    let (negative, number) = match number.strip_prefix('-') {
        Some(number) => (true, number),
        None => (false, number),
    };
    let (whole, fraction) = match number.split_once('.') {
        Some((whole, fraction)) => (whole, nanos(fraction)?),
        None => (number, 0),
    };
    let seconds: i64 = kit::digits::whole(whole)?;
    if seconds > DURATION_MAX {
        return None;
    }
    Some(if negative { (-seconds, -fraction) } else { (seconds, fraction) })
}

/// Writes a time, or returns `None` if it is out of range.
pub(crate) fn push_timestamp(seconds: i64, nanos: i32, out: &mut String) -> Option<()> {
    if !TIMESTAMPS.contains(&seconds) || !(0..NANOS).contains(&nanos) {
        return None;
    }
    let (year, month, day) = calendar::date_of(seconds.div_euclid(86_400));
    let clock = seconds.rem_euclid(86_400);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    let _ = write!(out, "\"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
    push_nanos(nanos, out);
    out.push_str("Z\"");
    Some(())
}

/// Writes a duration, or returns `None` if it is out of range.
pub(crate) fn push_duration(seconds: i64, nanos: i32, out: &mut String) -> Option<()> {
    let is_mixed = seconds > 0 && nanos < 0 || seconds < 0 && nanos > 0;
    if seconds.unsigned_abs() > DURATION_MAX.unsigned_abs()
        || nanos.unsigned_abs() >= NANOS.unsigned_abs()
        || is_mixed
    {
        return None;
    }
    let sign = if seconds < 0 || nanos < 0 { "-" } else { "" };
    let _ = write!(out, "\"{sign}{}", seconds.unsigned_abs());
    push_nanos(nanos.abs(), out);
    out.push_str("s\"");
    Some(())
}

/// Writes a fraction of 3, 6 or 9 digits, or nothing.
fn push_nanos(nanos: i32, out: &mut String) {
    let _ = match nanos {
        0 => Ok(()),
        _ if nanos % 1_000_000 == 0 => write!(out, ".{:03}", nanos / 1_000_000),
        _ if nanos % 1000 == 0 => write!(out, ".{:06}", nanos / 1000),
        _ => write!(out, ".{nanos:09}"),
    };
}

/// Returns a path of a field mask as in definitions, from its form in JSON.
pub(crate) fn mask_path(json: &str) -> Result<String, &'static str> {
    let mut out = String::with_capacity(json.len() + 4);
    for letter in json.chars() {
        match letter {
            '_' => return Err("a path of a field mask is written as in JSON, without `_`"),
            'A'..='Z' => {
                out.push('_');
                out.push(letter.to_ascii_lowercase());
            }
            _ => out.push(letter),
        }
    }
    Ok(out)
}

/// Appends a path of a field mask in its form in JSON. Returns `None` if it cannot be read back.
pub(crate) fn push_mask_path(path: &str, out: &mut String) -> Option<()> {
    let mut made = String::with_capacity(path.len());
    let mut upper = false;
    for letter in path.chars() {
        match letter {
            'A'..='Z' => return None,
            '_' if upper => return None,
            '_' => upper = true,
            'a'..='z' if upper => {
                made.push(letter.to_ascii_uppercase());
                upper = false;
            }
            _ if upper => return None,
            _ => made.push(letter),
        }
    }
    if upper {
        return None;
    }
    json::push_escaped(out, &made);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_strictly() {
        for (text, read) in [
            ("1970-01-01T00:00:00Z", Some((0, 0))),
            ("2026-01-31T12:30:05.5Z", Some((1_769_862_605, 500_000_000))),
            ("2026-01-31T12:30:05.000000001+01:00", Some((1_769_859_005, 1))),
            ("2026-01-31T12:30:05-00:30", Some((1_769_864_405, 0))),
            ("0001-01-01T00:00:00Z", Some((-62_135_596_800, 0))),
            ("9999-12-31T23:59:59.999999999Z", Some((253_402_300_799, 999_999_999))),
            ("2024-02-29T00:00:00Z", Some((1_709_164_800, 0))),
            ("2023-02-29T00:00:00Z", None),
            ("0000-01-01T00:00:00Z", None),
            ("0001-01-01T00:00:00+01:00", None),
            ("9999-12-31T23:59:59-01:00", None),
            ("2026-13-01T00:00:00Z", None),
            ("2026-01-31T24:00:00Z", None),
            ("2026-01-31T12:30:60Z", None),
            ("2026-01-31T12:30:05", None),
            ("2026-01-31T12:30:05.Z", None),
            ("2026-01-31T12:30:05.1234567890Z", None),
            ("2026-01-31t12:30:05Z", None),
            ("2026-01-31T12:30:05z", None),
            ("2026-1-31T12:30:05Z", None),
            ("2026-01-31T12:30:05Z ", None),
            ("+026-01-31T12:30:05Z", None),
            ("2026-01-31T12:30:05+24:00", None),
            ("é026-01-31T12:30:05Z", None),
            ("", None),
        ] {
            assert_eq!(timestamp(text).ok(), read, "{text}");
        }
    }

    #[test]
    fn durations_are_read_strictly() {
        for (text, read) in [
            ("0s", Some((0, 0))),
            ("1.5s", Some((1, 500_000_000))),
            ("-1.5s", Some((-1, -500_000_000))),
            ("-0.000000001s", Some((0, -1))),
            ("315576000000s", Some((315_576_000_000, 0))),
            ("315576000001s", None),
            ("1", None),
            ("s", None),
            (".5s", None),
            ("1.s", None),
            ("+1s", None),
            ("--1s", None),
            ("1e3s", None),
            ("1.0000000000s", None),
        ] {
            assert_eq!(duration(text).ok(), read, "{text}");
        }
    }

    #[test]
    fn times_are_written_as_they_are_read() {
        for text in [
            "1970-01-01T00:00:00Z",
            "2026-01-31T12:30:05.500Z",
            "2026-01-31T12:30:05.000500Z",
            "1969-12-31T23:59:59.000000001Z",
            "9999-12-31T23:59:59.999999999Z",
        ] {
            let mut out = String::new();
            let (seconds, nanos) = timestamp(text).unwrap();
            push_timestamp(seconds, nanos, &mut out).unwrap();
            assert_eq!(out, format!("\"{text}\""));
        }
        for text in ["0s", "1.500s", "-1.000500s", "-0.000000001s"] {
            let mut out = String::new();
            let (seconds, nanos) = duration(text).unwrap();
            push_duration(seconds, nanos, &mut out).unwrap();
            assert_eq!(out, format!("\"{text}\""));
        }
        for (seconds, nanos) in [(253_402_300_800, 0), (0, -1), (0, NANOS), (i64::MIN, 0)] {
            let pushed = push_timestamp(seconds, nanos, &mut String::new());
            assert_eq!(pushed, None, "{seconds} {nanos}");
        }
        for (seconds, nanos) in [(1, -1), (-1, 1), (i64::MAX, 0), (0, NANOS), (0, i32::MIN)] {
            let pushed = push_duration(seconds, nanos, &mut String::new());
            assert_eq!(pushed, None, "{seconds} {nanos}");
        }
    }

    #[test]
    fn paths_of_masks_are_translated() {
        assert_eq!(mask_path("fooBar.b").as_deref(), Ok("foo_bar.b"));
        assert!(mask_path("foo_bar").is_err());
        let mut out = String::new();
        push_mask_path("foo_bar.b", &mut out).unwrap();
        assert_eq!(out, "fooBar.b");
        for wrong in ["fooBar", "foo__bar", "foo_3", "foo_", "a_."] {
            assert_eq!(push_mask_path(wrong, &mut out), None, "{wrong}");
        }
    }
}
