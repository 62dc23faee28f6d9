//! Formats PostgreSQL's dates and times as in ISO 8601.

use kit::calendar;

/// 2000-01-01, PostgreSQL's epoch, in days since 1970.
const EPOCH_DAYS: i64 = 10_957;
const DAY_US: i64 = 86_400_000_000;

pub(crate) fn date(days: i32) -> String {
    match days {
        i32::MAX => "infinity".to_owned(),
        i32::MIN => "-infinity".to_owned(),
        days => day(i64::from(days)),
    }
}

/// Formats a time stamp, followed by `zone`.
pub(crate) fn stamp(us: i64, zone: &str) -> String {
    match us {
        i64::MAX => "infinity".to_owned(),
        i64::MIN => "-infinity".to_owned(),
        us => format!("{}T{}{zone}", day(us.div_euclid(DAY_US)), time(us.rem_euclid(DAY_US))),
    }
}

/// Formats a time of day.
pub(crate) fn time(us: i64) -> String {
    let (seconds, fraction) = (us.div_euclid(1_000_000), us.rem_euclid(1_000_000));
    let (minutes, hours) = (seconds / 60 % 60, seconds / 3600);
    let text = format!("{hours:02}:{minutes:02}:{:02}", seconds % 60);
    match fraction {
        0 => text,
        fraction => {
            let digits = format!("{fraction:06}");
            format!("{text}.{}", digits.trim_end_matches('0'))
        }
    }
}

/// Formats the offset of a time zone, given in seconds west of UTC.
pub(crate) fn zone(west: i32) -> String {
    let sign = if west > 0 { '-' } else { '+' };
    let minutes = west.unsigned_abs() / 60;
    format!("{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// Formats an interval as a duration. Each part has its own sign.
pub(crate) fn interval(us: i64, days: i32, months: i32) -> String {
    let mut text = "P".to_owned();
    let mut push = |number: i64, unit: char| {
        if number != 0 {
            text.push_str(&format!("{number}{unit}"));
        }
    };
    push(i64::from(months / 12), 'Y');
    push(i64::from(months % 12), 'M');
    push(i64::from(days), 'D');
    if us != 0 || text == "P" {
        text.push('T');
        let (seconds, fraction) = (us / 1_000_000, (us % 1_000_000).unsigned_abs());
        let mut push = |number: i64, unit: char| {
            if number != 0 {
                text.push_str(&format!("{number}{unit}"));
            }
        };
        push(seconds / 3600, 'H');
        push(seconds / 60 % 60, 'M');
        let rest = seconds % 60;
        let sign = if us < 0 && rest == 0 { "-" } else { "" };
        match fraction {
            0 if rest == 0 && us != 0 => {}
            0 => text.push_str(&format!("{rest}S")),
            fraction => {
                let digits = format!("{fraction:06}");
                text.push_str(&format!("{sign}{rest}.{}S", digits.trim_end_matches('0')));
            }
        }
    }
    text
}

/// Formats a date, given in days since 2000-01-01. Years before year 1 use astronomical numbering.
fn day(days: i64) -> String {
    let (year, month, day) = calendar::date_of(days + EPOCH_DAYS);
    match year {
        0..=9999 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:+05}-{month:02}-{day:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_texts() {
        assert_eq!([date(0), date(-1), date(59)], ["2000-01-01", "1999-12-31", "2000-02-29"]);
        assert_eq!([date(i32::MAX), date(-800_000)], ["infinity", "-0191-09-04"]);
        assert_eq!(stamp(-1, "Z"), "1999-12-31T23:59:59.999999Z");
        assert_eq!(stamp(500_000, ""), "2000-01-01T00:00:00.5");
        assert_eq!([zone(-5400), zone(0), zone(3600)], ["+01:30", "+00:00", "-01:00"]);
        for (us, days, months, text) in [
            (0, 0, 0, "PT0S"),
            (1_500_000, 0, 0, "PT1.5S"),
            (-500_000, 0, 0, "PT-0.5S"),
            (3_600_000_000, 2, 14, "P1Y2M2DT1H"),
            (61_000_000, 0, 0, "PT1M1S"),
            (0, -3, 0, "P-3D"),
        ] {
            assert_eq!(interval(us, days, months), text);
        }
    }
}
