//! The proleptic Gregorian calendar. Days are numbered from 1970-01-01, which is day 0. In dates, months and days are counted from 1.

/// Returns the number of days in a month.
pub fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns true for a leap year.
pub fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// Returns the day number of a date.
pub fn day_number(year: i64, month: i64, day: i64) -> i64 {
    month_begin(year, month - 1) + day - 1
}

/// Returns the day number of a month's first day. Months are counted from 0. Numbers above 11 or below 0 are months of other years.
pub fn month_begin(year: i64, month: i64) -> i64 {
    let year = year.saturating_add(month.div_euclid(12));
    let month = month.rem_euclid(12);
    // If years begin in March, the leap day is at their end, and the lengths of months repeat every five months, which have 153 days.
    let (year, from_march) = match month {
        0 | 1 => (year - 1, month + 10),
        _ => (year, month - 2),
    };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * from_march + 2) / 5 - 719_468
}

/// Returns year, month and day of a day number, by eras of 400 years that begin in March (Howard Hinnant, `civil_from_days`).
pub fn date_of(number: i64) -> (i64, i64, i64) {
    let shifted = number + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}

/// Formats a time since the Unix epoch according to RFC 3339, in UTC with milliseconds.
pub fn rfc3339(time: std::time::Duration) -> String {
    let seconds = time.as_secs();
    let (year, month, day) = date_of(i64::try_from(seconds / 86_400).unwrap_or(i64::MAX / 2));
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    let millis = time.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Returns the day of the week; 0 is Sunday.
pub fn weekday(number: i64) -> i64 {
    (number + 4).rem_euclid(7)
}

/// Returns the day of the year, counted from 1.
pub fn day_in_year(year: i64, month: i64, day: i64) -> i64 {
    day_number(year, month, day) - day_number(year, 1, 1) + 1
}

/// Returns the week of the year (ISO 8601): weeks begin on Monday, and the first week contains the year's first Thursday.
pub fn week_in_year(year: i64, month: i64, day: i64) -> i64 {
    let number = day_number(year, month, day);
    let thursday = number - (weekday(number) + 6) % 7 + 3;
    let (year, ..) = date_of(thursday);
    (thursday - day_number(year, 1, 1)) / 7 + 1
}

/// Returns the week of the month: weeks begin on Monday, and the first week contains the month's first day.
pub fn week_in_month(year: i64, month: i64, day: i64) -> i64 {
    let first = (weekday(day_number(year, month, 1)) + 6) % 7;
    (day + first - 1) / 7 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_and_dates_are_each_others_inverse() {
        assert_eq!((day_number(1970, 1, 1), day_number(2000, 3, 1)), (0, 11_017));
        let mut before = date_of(-800_001);
        for number in -800_000..800_000 {
            let (year, month, day) = date_of(number);
            assert_eq!(day_number(year, month, day), number);
            let next_day = (before.0, before.1, before.2 + 1);
            let follows = (year, month, day) == next_day || day == 1;
            assert!(follows && day <= month_days(year, month), "{before:?} {number}");
            before = (year, month, day);
        }
    }

    #[test]
    fn months_outside_a_year_belong_to_other_years() {
        assert_eq!(month_begin(2024, 14), day_number(2025, 3, 1));
        assert_eq!(month_begin(2024, -1), day_number(2023, 12, 1));
    }

    #[test]
    fn weeks_are_those_of_iso_8601() {
        for ((year, month, day), week) in
            [((2021, 1, 3), 53), ((2021, 1, 4), 1), ((2024, 12, 30), 1), ((2026, 11, 23), 48)]
        {
            assert_eq!(week_in_year(year, month, day), week, "{year}-{month}-{day}");
        }
    }
}
