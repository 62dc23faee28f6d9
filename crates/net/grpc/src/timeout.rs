//! `grpc-timeout`: the timeout that a client sets for a call.

use std::time::Duration;

/// The value is not a valid timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InvalidTimeout;

/// The maximum number of digits of a value.
const DIGITS_MAX: usize = 8;

/// The largest number with `DIGITS_MAX` digits.
const NUMBER_MAX: u128 = 99_999_999;

/// Parses a value: one to eight digits and a unit.
pub fn read_timeout(value: &[u8]) -> Result<Duration, InvalidTimeout> {
    let (unit, digits) = value.split_last().ok_or(InvalidTimeout)?;
    let are_digits = (1..=DIGITS_MAX).contains(&digits.len());
    if !are_digits || !digits.iter().all(u8::is_ascii_digit) {
        return Err(InvalidTimeout);
    }
    let number = digits.iter().fold(0, |n: u64, digit| n * 10 + u64::from(digit - b'0'));
    match unit {
        b'H' => Ok(Duration::from_secs(number * 3600)),
        b'M' => Ok(Duration::from_secs(number * 60)),
        b'S' => Ok(Duration::from_secs(number)),
        b'm' => Ok(Duration::from_millis(number)),
        b'u' => Ok(Duration::from_micros(number)),
        b'n' => Ok(Duration::from_nanos(number)),
        _ => Err(InvalidTimeout),
    }
}

/// Formats a time. The unit is the finest in which the number has at most eight digits; nanoseconds are not used. The value is rounded
/// down, except that a time below one microsecond becomes one microsecond.
pub fn write_timeout(time: Duration) -> String {
    let units = [(time.as_micros(), 'u'), (time.as_millis(), 'm'), (time.as_secs().into(), 'S')];
    let minutes = (u128::from(time.as_secs() / 60), 'M');
    let hours = (u128::from(time.as_secs() / 3600).min(NUMBER_MAX), 'H');
    let fits = |(number, _): &(u128, char)| *number <= NUMBER_MAX;
    let (number, unit) = units.into_iter().chain([minutes]).find(fits).unwrap_or(hours);
    format!("{}{unit}", number.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_strictly() {
        for (value, read) in [
            ("1H", Ok(3_600_000_000_000)),
            ("2M", Ok(120_000_000_000)),
            ("3S", Ok(3_000_000_000)),
            ("00000004m", Ok(4_000_000)),
            ("5u", Ok(5_000)),
            ("0n", Ok(0)),
            ("99999999S", Ok(99_999_999_000_000_000)),
            ("", Err(InvalidTimeout)),
            ("S", Err(InvalidTimeout)),
            ("1", Err(InvalidTimeout)),
            ("1s", Err(InvalidTimeout)),
            ("-1S", Err(InvalidTimeout)),
            ("+1S", Err(InvalidTimeout)),
            ("1.5S", Err(InvalidTimeout)),
            ("1 S", Err(InvalidTimeout)),
            ("123456789m", Err(InvalidTimeout)),
        ] {
            assert_eq!(read_timeout(value.as_bytes()), read.map(Duration::from_nanos), "{value}");
        }
    }

    #[test]
    fn a_written_timeout_is_never_longer_than_the_time() {
        for (time, written) in [
            (Duration::ZERO, "1u"),
            (Duration::from_nanos(1_999), "1u"),
            (Duration::from_millis(250), "250000u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(100_000), "100000S"),
            (Duration::from_secs(99_999_999 * 60 + 59), "99999999M"),
            (Duration::from_secs(100_000_000 * 60), "1666666H"),
            (Duration::MAX, "99999999H"),
        ] {
            assert_eq!(write_timeout(time), written, "{time:?}");
            let read = read_timeout(written.as_bytes()).unwrap();
            assert!(read <= time.max(Duration::from_micros(1)), "{time:?}");
        }
    }
}
