//! Parses amounts with units: `250ms`, `1.5s`, `5m`; `350B`, `64KiB`, `1MiB`.

use std::time::Duration;

/// Parses a duration with its unit: `ms`, `s`, `m` or `h`.
///
/// # Errors
///
/// If the text is not such a duration. The error states what was expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split(text);
    let seconds = match unit {
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("`{text}` is not a duration; write 250ms, 1s or 5m")),
    };
    seconds_of(number, seconds)
        .ok_or_else(|| format!("`{text}` is not a duration; write 250ms or 1s"))
}

/// Parses a plain number of seconds, or a duration with its unit.
pub(super) fn parse_seconds(text: &str) -> Option<Duration> {
    // Harmless: text that is not a number may be a duration with a unit, tried next.
    seconds_of(text, 1.0).or_else(|| parse_duration(text).ok())
}

/// Parses a size with its unit: `B` or none, `KiB` or `KB`, `MiB` or `MB`.
///
/// # Errors
///
/// If the text is not such a size. The error states what was expected.
pub fn parse_bytes(text: &str) -> Result<usize, String> {
    let (number, unit) = split(text);
    let unit: usize = match unit {
        "" | "B" => 1,
        "KB" => 1000,
        "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "MiB" => 1 << 20,
        _ => return Err(format!("`{text}` is not a size; write 350B, 64KiB or 1MiB")),
    };
    // Harmless: text that is not a number is refused below.
    let number: Option<usize> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("`{text}` is not a size; write 350B, 64KiB or 1MiB"))
}

fn split(text: &str) -> (&str, &str) {
    let unit = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    text.split_at(unit)
}

fn seconds_of(number: &str, unit_seconds: f64) -> Option<Duration> {
    // Harmless: the caller refuses text that is not a number.
    let number: f64 = number.parse().ok()?;
    // Harmless: the caller refuses a number that is out of range.
    Duration::try_from_secs_f64(number * unit_seconds).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("250ms", Some(250)),
            ("1s", Some(1000)),
            ("1.5s", Some(1500)),
            ("2m", Some(120_000)),
            ("1", None),
            ("ms", None),
            ("-1s", None),
            ("1 s", None),
            ("99999999999999999999s", None),
        ];
        for (text, millis) in cases {
            assert_eq!(parse_duration(text).ok(), millis.map(Duration::from_millis), "{text}");
        }
        assert_eq!(parse_seconds("0.5"), Some(Duration::from_millis(500)));
    }

    #[test]
    fn sizes() {
        let cases = [
            ("350B", Some(350)),
            ("7", Some(7)),
            ("1KiB", Some(1024)),
            ("1KB", Some(1000)),
            ("2MiB", Some(2 << 20)),
            ("1.5KiB", None),
            ("KiB", None),
            ("18446744073709551615KiB", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytes(text).ok(), bytes, "{text}");
        }
    }
}
