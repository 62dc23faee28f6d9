//! The proleptic Gregorian calendar: days counted from 1970-01-01.

/// Days in a month.
pub(super) fn month_days(year: i64, month: i64) -> i64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

pub(super) fn is_leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The number of a day. Years are counted from March, so that the leap day comes last, in eras of 400 years.
pub(super) fn day_number(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Year, month and day of a day's number.
pub(super) fn date_of(number: i64) -> (i64, i64, i64) {
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

/// 0 is Sunday.
pub(super) fn weekday(number: i64) -> i64 {
    (number + 4).rem_euclid(7)
}

pub(super) fn day_in_year(year: i64, month: i64, day: i64) -> i64 {
    day_number(year, month, day) - day_number(year, 1, 1) + 1
}

/// The week of ISO 8601: weeks begin on Monday, and the first has the year's first Thursday.
pub(super) fn week_in_year(year: i64, month: i64, day: i64) -> i64 {
    let number = day_number(year, month, day);
    let thursday = number - (weekday(number) + 6) % 7 + 3;
    let (year, ..) = date_of(thursday);
    (thursday - day_number(year, 1, 1)) / 7 + 1
}

/// Weeks begin on Monday, and the first has the month's first day.
pub(super) fn week_in_month(year: i64, month: i64, day: i64) -> i64 {
    let first = (weekday(day_number(year, month, 1)) + 6) % 7;
    (day + first - 1) / 7 + 1
}
