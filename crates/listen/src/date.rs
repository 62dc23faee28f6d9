//! The `Date` header (RFC 9110, 6.6.1), formatted once a second.

use std::cell::RefCell;

use kit::clock;

thread_local! {
    static NOW: RefCell<(u64, String)> = const { RefCell::new((0, String::new())) };
}

/// Appends `Date: ...` with its line end.
pub(crate) fn write_to(out: &mut Vec<u8>) {
    with(|date| {
        out.extend_from_slice(b"Date: ");
        out.extend_from_slice(date.as_bytes());
        out.extend_from_slice(b"\r\n");
    });
}

/// Hands out the value alone.
pub(crate) fn with<R>(use_it: impl FnOnce(&str) -> R) -> R {
    NOW.with_borrow_mut(|(second, date)| {
        let now = clock::wall().as_secs();
        if *second != now {
            *second = now;
            *date = imf_fixdate(now);
        }
        use_it(date)
    })
}

/// `Sun, 06 Nov 1994 08:49:37 GMT` (RFC 9110, 5.6.7). Days to a date as in Howard Hinnant's civil_from_days.
fn imf_fixdate(unix: u64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] =
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let (days, seconds) = (unix / 86_400, unix % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let name = |list: &[&'static str], at: u64| {
        usize::try_from(at).ok().and_then(|at| list.get(at)).copied().unwrap_or_default()
    };
    format!(
        "{}, {day:02} {} {year:04} {:02}:{:02}:{:02} GMT",
        name(&DAYS, days % 7),
        name(&MONTHS, month - 1),
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

#[cfg(test)]
mod tests {
    use super::imf_fixdate;

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (unix, date) in [
            (784_111_777, "Sun, 06 Nov 1994 08:49:37 GMT"),
            (0, "Thu, 01 Jan 1970 00:00:00 GMT"),
            (951_782_400, "Tue, 29 Feb 2000 00:00:00 GMT"),
            (4_102_444_799, "Thu, 31 Dec 2099 23:59:59 GMT"),
        ] {
            assert_eq!(imf_fixdate(unix), date);
        }
    }
}
