//! Cron expressions with seconds, in a time zone: computes the times at which they are due.
//!
//! There are six fields: second, minute, hour, day of the month, month, day of the week. Each is `*`, a number, a name, a range `a-b`, a
//! step `/n`, or a list of these. In a day field, `?` means `*`, and in the day of the month, `L` means the last day. If both day fields
//! are restricted, a day that matches either one is due, as in cron. A field that begins with `*` or `?` is not restricted.
//!
//! **Changes of the clock.** A time that the clock skips is due later by the length of the gap. A time that occurs twice is due only the
//! first time, unless the expression matches every hour. Then it is due again, so that jobs that run every few minutes continue.
#![forbid(unsafe_code)]

mod fields;

use std::time::Duration;

use jiff::civil::{DateTime, Time};
use jiff::tz::{AmbiguousOffset, TimeZone};
use jiff::{Timestamp, ToSpan as _};

pub use fields::CronError;

use fields::Fields;

/// A cron expression with its time zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Cron {
    fields: Fields,
    zone: TimeZone,
}

/// The error of an unknown time zone (IANA name).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownZone;

/// Maximum number of days searched for the next time. February 29 on a given weekday recurs after 28 years, or 40 around a century that is
/// not a leap year.
const DAYS_MAX: usize = 366 * 41;

/// Maximum size of a clock change in hours. Clocks change by less, except where a country moves to the other side of the date line.
const CHANGE_HOURS: u64 = 25;

impl Cron {
    /// Parses an expression, for a time zone such as `Europe/Berlin` or `UTC`.
    pub fn parse(text: &str, zone: &str) -> Result<Result<Cron, CronError>, UnknownZone> {
        let zone = TimeZone::get(zone).map_err(|_| UnknownZone)?;
        Ok(Fields::parse(text).map(|fields| Cron { fields, zone }))
    }

    /// Returns true if the expression is due at least once in every hour of its days.
    pub fn is_every_hour(&self) -> bool {
        self.fields.is_every_hour()
    }

    /// Returns the first due time after `after`, both since the Unix epoch, or `None` if there is none.
    pub fn next(&self, after: Duration) -> Option<Duration> {
        let after = Timestamp::try_from(std::time::UNIX_EPOCH.checked_add(after)?).ok()?;
        let first = self.search(after);
        let again = self.changes(after).filter(|_| self.fields.is_every_hour());
        // Harmless: a clock change after which nothing is due again is ignored.
        let again = again.filter_map(|change| self.again_from(change.max(after), after));
        let next = first.into_iter().chain(again).min()?;
        // Harmless: a time out of the range of timestamps never comes.
        Duration::try_from(next.as_duration()).ok()
    }

    /// Returns the first due instant after `after`. A time that occurs twice counts only at its first instant.
    fn search(&self, after: Timestamp) -> Option<Timestamp> {
        // Harmless: a time out of the range of timestamps never comes.
        let instant = |shown| self.zone.to_ambiguous_timestamp(shown).compatible().ok();
        // A skipped time may be due only after the current local time.
        let begin = self.skipped(after).unwrap_or_else(|| self.zone.to_datetime(after));
        let (mut date, mut from) = (begin.date(), Some(begin.time()));
        for _ in 0..DAYS_MAX {
            let is_day = self.fields.is_day(date);
            while let Some(time) = from.filter(|_| is_day).and_then(|t| self.fields.time_from(t)) {
                let at = instant(DateTime::from_parts(date, time)).filter(|at| *at > after);
                if at.is_some() {
                    return at;
                }
                // Harmless: after the last second of a day the search continues with the next day.
                from = time.checked_add(1.second()).ok();
            }
            (date, from) = (date.tomorrow().ok()?, Some(Time::midnight()));
        }
        None
    }

    /// Returns the first skipped local time, if skipped times may still be due after `at`.
    fn skipped(&self, at: Timestamp) -> Option<DateTime> {
        let change = self.changes(at).find(|change| *change <= at)?;
        let before = change.checked_sub(1.second()).ok()?;
        let skipped = self.zone.to_offset(change).seconds() - self.zone.to_offset(before).seconds();
        let since = at.duration_since(change).as_secs();
        let shown = self.zone.to_datetime(before).checked_add(1.second()).ok()?;
        (since < i64::from(skipped)).then_some(shown)
    }

    /// Returns the clock changes near a time: the last one up to and including it, then the next one.
    fn changes(&self, at: Timestamp) -> impl Iterator<Item = Timestamp> {
        // `preceding` excludes its argument.
        let just_after = at.checked_add(1.nanosecond()).unwrap_or(at);
        let changes = [self.zone.preceding(just_after).next(), self.zone.following(at).next()];
        let near = Duration::from_secs(CHANGE_HOURS * 3600);
        // Harmless: a zone may have no change before or after the time.
        let changes = changes.into_iter().flatten().map(|change| change.timestamp());
        changes.filter(move |change| at.duration_since(*change).unsigned_abs() <= near)
    }

    /// Returns the first instant after `after` at which a repeated local time is due for the second time, searching from `begin`. Repeated
    /// times form one interval, so the search ends at the first time that is not repeated.
    fn again_from(&self, begin: Timestamp, after: Timestamp) -> Option<Timestamp> {
        let begin = self.zone.to_datetime(begin);
        let (mut date, mut from) = (begin.date(), begin.time());
        loop {
            match self.fields.time_from(from).filter(|_| self.fields.is_day(date)) {
                Some(time) => {
                    let at = self.again(DateTime::from_parts(date, time))?;
                    if at > after {
                        return Some(at);
                    }
                    from = time.checked_add(1.second()).ok()?;
                }
                // Continues with the next day, if the interval of repeated times extends into it.
                None => {
                    date = date.tomorrow().ok()?;
                    from = Time::midnight();
                    self.again(DateTime::from_parts(date, from))?;
                }
            }
        }
    }

    /// Returns the second instant of a repeated local time, or `None` if the time is not repeated.
    fn again(&self, shown: DateTime) -> Option<Timestamp> {
        let ambiguous = self.zone.to_ambiguous_timestamp(shown);
        match ambiguous.offset() {
            // Harmless: a time out of the range of timestamps never comes.
            AmbiguousOffset::Fold { .. } => ambiguous.later().ok(),
            AmbiguousOffset::Gap { .. } | AmbiguousOffset::Unambiguous { .. } => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cron(text: &str, zone: &str) -> Cron {
        Cron::parse(text, zone).unwrap().unwrap()
    }

    /// Returns the next due times in local time.
    fn next(text: &str, zone: &str, after: &str, count: usize) -> Vec<String> {
        let cron = cron(text, zone);
        let mut at: Timestamp = after.parse().unwrap();
        let mut times = Vec::new();
        for _ in 0..count {
            let next = cron.next(Duration::try_from(at.as_duration()).unwrap()).unwrap();
            at = Timestamp::try_from(std::time::UNIX_EPOCH + next).unwrap();
            times.push(at.to_zoned(cron.zone.clone()).strftime("%Y-%m-%dT%H:%M:%S%:z").to_string());
        }
        times
    }

    #[test]
    fn the_next_times() {
        for (text, after, times) in [
            (
                "* * * * * *",
                "2026-02-28T23:59:58.5Z",
                vec!["2026-02-28T23:59:59", "2026-03-01T00:00:00"],
            ),
            (
                "0 */5 * * * *",
                "2026-01-01T00:00:00Z",
                vec!["2026-01-01T00:05:00", "2026-01-01T00:10:00"],
            ),
            ("30 0 0 1 1 ?", "2026-01-01T00:00:30Z", vec!["2027-01-01T00:00:30"]),
            ("0 0 12 ? * MON-FRI", "2026-11-27T12:00:00Z", vec!["2026-11-30T12:00:00"]),
            ("0 0 0 29 2 *", "2026-01-01T00:00:00Z", vec!["2028-02-29T00:00:00"]),
            (
                "0 0 0 L * *",
                "2026-01-31T00:00:00Z",
                vec!["2026-02-28T00:00:00", "2026-03-31T00:00:00"],
            ),
            (
                "0 0 0 13 * 5",
                "2026-11-01T00:00:00Z",
                vec!["2026-11-06T00:00:00", "2026-11-13T00:00:00"],
            ),
            (
                "0 0 0 * * 0,7",
                "2026-11-24T00:00:00Z",
                vec!["2026-11-29T00:00:00", "2026-12-06T00:00:00"],
            ),
            (
                "0 15,45 8-9 * jan,Dec *",
                "2026-12-31T09:20:00Z",
                vec!["2026-12-31T09:45:00", "2027-01-01T08:15:00"],
            ),
            (
                "0 10/20 * * * *",
                "2026-01-01T00:00:00Z",
                vec![
                    "2026-01-01T00:10:00",
                    "2026-01-01T00:30:00",
                    "2026-01-01T00:50:00",
                    "2026-01-01T01:10:00",
                ],
            ),
        ] {
            let times: Vec<String> = times.iter().map(|time| format!("{time}+00:00")).collect();
            assert_eq!(next(text, "UTC", after, times.len()), times, "{text}");
        }
        assert_eq!(cron("0 0 0 30 2 *", "UTC").next(Duration::ZERO), None);
    }

    #[test]
    fn skipped_times_are_due_once_and_repeated_times_twice_only_if_every_hour_matches() {
        // In Berlin, the clock changes from 2 to 3 on 29 March, and from 3 to 2 on 25 October.
        for (text, after, times) in [
            (
                "0 30 2 * * *",
                "2026-03-28T12:00:00Z",
                vec!["2026-03-29T03:30:00+02:00", "2026-03-30T02:30:00+02:00"],
            ),
            (
                "0 30 2 * * *",
                "2026-10-24T12:00:00Z",
                vec!["2026-10-25T02:30:00+02:00", "2026-10-26T02:30:00+01:00"],
            ),
            (
                "0 */30 * * * *",
                "2026-03-29T00:00:00Z",
                vec![
                    "2026-03-29T01:30:00+01:00",
                    "2026-03-29T03:00:00+02:00",
                    "2026-03-29T03:30:00+02:00",
                    "2026-03-29T04:00:00+02:00",
                ],
            ),
            (
                "0 */30 * * * *",
                "2026-10-24T23:30:00Z",
                vec![
                    "2026-10-25T02:00:00+02:00",
                    "2026-10-25T02:30:00+02:00",
                    "2026-10-25T02:00:00+01:00",
                    "2026-10-25T02:30:00+01:00",
                    "2026-10-25T03:00:00+01:00",
                ],
            ),
            ("0 0 9 * * *", "2026-03-28T12:00:00Z", vec!["2026-03-29T09:00:00+02:00"]),
        ] {
            assert_eq!(next(text, "Europe/Berlin", after, times.len()), times, "{text}");
        }
    }

    /// After a long downtime or a forward jump of the clock, all missed times are requested. For an hourly expression, each used to take a
    /// search through two days.
    #[test]
    #[allow(clippy::disallowed_methods, reason = "nothing depends on this clock")]
    fn many_due_times_are_found_quickly() {
        for (zone, at) in
            [("UTC", "2026-11-24T12:00:00Z"), ("Europe/Berlin", "2026-10-25T00:00:00Z")]
        {
            let began = std::time::Instant::now();
            let times = next("* * * * * *", zone, at, 2000);
            assert_eq!(times.len(), 2000);
            assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        }
    }

    #[test]
    fn errors_name_the_field_and_its_mistake() {
        for (text, said) in [
            ("* * * * *", "5 fields, but 6 are needed: second, minute, hour, day, month, weekday"),
            ("", "0 fields, but 6 are needed: second, minute, hour, day, month, weekday"),
            ("60 * * * * *", "the second `60`: must be from 0 to 59"),
            ("* 5-1 * * * *", "the minute `5-1`: its end is before its beginning"),
            ("* * 24 * * *", "the hour `24`: must be from 0 to 23"),
            ("* * * 0 * *", "the day `0`: must be from 1 to 31"),
            ("* * * * 13 *", "the month `13`: must be from 1 to 12"),
            ("* * * * FOO *", "the month `FOO`: neither a number nor a name"),
            ("* * * * * 8", "the weekday `8`: must be from 0 to 7"),
            ("*/0 * * * * *", "the second `*/0`: a step of 0"),
            ("? * * * * *", "the second `?`: neither a number nor a name"),
            ("+1 * * * * *", "the second `+1`: neither a number nor a name"),
            ("*/+5 * * * * *", "the second `*/+5`: a step that is not a number"),
            ("1,,2 * * * * *", "the second ``: neither a number nor a name"),
        ] {
            let malformed = Cron::parse(text, "UTC").unwrap().unwrap_err();
            assert_eq!(malformed.to_string(), said);
        }
        assert_eq!(Cron::parse("* * * * * *", "Mars/Olympus"), Err(UnknownZone));
    }
}
