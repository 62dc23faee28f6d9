//! Times in the formats of RFC 3339 and XML Schema.

use std::time::Duration;

use kit::calendar::{day_number, month_days};

/// Parses a time in the format of RFC 3339 and returns the time since the Unix epoch. Returns `None` if the text has another format, has no
/// time zone, has one of more than 14 hours (as in XML Schema), or is before the epoch.
pub fn read(text: &str) -> Option<Duration> {
    let (date, time) = text.split_once(['T', 't'])?;
    let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
    let zone_at = time.find(['Z', 'z', '+', '-'])?;
    let (clock, zone) = time.split_at_checked(zone_at)?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
    let offset = match zone.split_at_checked(1)? {
        ("Z" | "z", "") => 0,
        (sign, zone) => {
            let [hours, minutes] = numbers(zone, ':', [2, 2])?;
            let offset = (hours <= 14 && minutes < 60).then_some(hours * 3_600 + minutes * 60)?;
            if sign == "+" { offset } else { -offset }
        }
    };
    let is_date = (1..=12).contains(&month) && (1..=month_days(year, month)).contains(&day);
    // 60 is a leap second.
    if !is_date || hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let seconds = day_number(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second;
    let all_digits = !fraction.is_empty() && fraction.bytes().all(|byte| byte.is_ascii_digit());
    // Harmless: only fractions of a nanosecond are cut off.
    let digits = all_digits.then(|| fraction.bytes().chain(std::iter::repeat(b'0')).take(9))?;
    let nanos = digits.fold(0, |nanos, digit| nanos * 10 + u32::from(digit - b'0'));
    // Harmless: the caller gets `None` for a time before the epoch.
    Some(Duration::new(u64::try_from(seconds - offset).ok()?, nanos))
}

/// Parses numbers that have a fixed number of digits each, with a separator between them.
fn numbers<const N: usize>(text: &str, separator: char, digits: [usize; N]) -> Option<[i64; N]> {
    let mut parts = text.split(separator);
    let mut numbers = [0; N];
    // Harmless: both arrays have N items.
    for (number, digits) in numbers.iter_mut().zip(digits) {
        let part = parts.next()?;
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        // Harmless: the caller gets `None` for anything that is not a number.
        *number = part.parse().ok().filter(|_| is_number)?;
    }
    parts.next().is_none().then_some(numbers)
}

#[cfg(test)]
mod tests {
    use kit::calendar::rfc3339;

    use super::*;

    #[test]
    fn times_are_read_as_they_are_written() {
        for millis in [0, 1, 86_399_999, 951_782_400_000, 1_700_000_000_123, 4_102_444_799_999] {
            let time = Duration::from_millis(millis);
            assert_eq!(read(&rfc3339(time)), Some(time), "{millis}");
        }
        for (text, time) in [
            ("1970-01-01T01:00:00+01:00", Some(Duration::ZERO)),
            ("1970-01-01T00:00:00-00:30", Some(Duration::from_secs(1800))),
            ("2000-02-29T00:00:00Z", Some(Duration::from_secs(951_782_400))),
            ("1970-01-01T00:00:01.5z", Some(Duration::from_millis(1500))),
            ("1970-01-01T00:00:00.0000000019Z", Some(Duration::from_nanos(1))),
            ("1970-01-01T00:00:00+00:01", None),
            ("1970-01-01T00:00:00", None),
            ("1970-01-01", None),
            ("2001-02-29T00:00:00Z", None),
            ("2001-13-01T00:00:00Z", None),
            ("2001-01-01T24:00:00Z", None),
            ("2001-01-01T00:00:00.Z", None),
            ("2001-01-01T00:00:00.xZ", None),
            ("2001-01-01T00:00:00Z ", None),
            ("2001-01-01T00:00:00+1:00", None),
            ("2001-01-01T00:00:00+99:00", None),
            ("-001-01-01T00:00:00Z", None),
            ("20010-1-01T00:00:00Z", None),
            ("\u{663}001-01-01T00:00:00Z", None),
            ("", None),
            ("T", None),
            ("TZ", None),
        ] {
            assert_eq!(read(text), time, "{text}");
        }
    }
}
