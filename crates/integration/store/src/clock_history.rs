//! The history of the wall clock. With it, the age of records is known even if somebody sets the clock.
//!
//! The time of a record is the time that the wall clock showed when the record was appended. If the clock is then set
//! forward by a day, the record looks a day older than it is, and retention by age would remove records that were just written. So the time
//! of a record is never compared with the current time minus an age. Instead, it is compared with the time that the wall clock showed that
//! long ago, as measured by the monotonic clock.

use std::collections::VecDeque;
use std::time::Duration;

use kit::clock::Instant;

/// The history of a wall clock since its owner first read it.
#[derive(Debug, Default)]
pub(crate) struct ClockHistory {
    /// The clock's settings in order. Between two settings the clock ran evenly.
    settings: VecDeque<ClockSetting>,
    /// The time of the last reading.
    seen: Option<Instant>,
}

/// What the clock showed at an instant.
#[derive(Debug, Clone, Copy)]
struct ClockSetting {
    at: Instant,
    shown: Duration,
}

/// A difference between the two clocks up to this size does not count as a setting: they are not read at exactly the same instant, and
/// time servers adjust the wall clock slightly.
const JITTER: Duration = Duration::from_millis(500);

/// The maximum number of settings that are kept. If somebody sets the clock more often, records are kept for longer.
const SETTINGS_MAX: usize = 64;

impl ClockSetting {
    /// The time that the clock would have shown at another instant, if nobody had set it.
    fn shown_at(&self, at: Instant) -> Duration {
        match at.checked_duration_since(self.at) {
            Some(later) => self.shown.saturating_add(later),
            None => self.shown.saturating_sub(self.at.duration_since(at)),
        }
    }
}

impl ClockHistory {
    /// Starts a history with the time that the clock shows now.
    pub(crate) fn new(now: Instant, shown: Duration) -> ClockHistory {
        let mut history = ClockHistory::default();
        history.observe(now, shown);
        history
    }

    /// Returns the lowest time that a record younger than `age` can have. `now` and `shown` are the times of the two clocks at the same
    /// moment. This must be called often, so that few settings of the clock are missed.
    pub(crate) fn since(&mut self, age: Duration, now: Instant, shown: Duration) -> Duration {
        self.observe(now, shown);
        let Some(then) = now.checked_sub(age) else { return Duration::ZERO };
        // The setting at that time, and all later ones, since one of them may have set the clock back.
        let first = self.settings.partition_point(|setting| setting.at <= then).saturating_sub(1);
        let later =
            self.settings.range(first..).map(|setting| setting.shown_at(then.max(setting.at)));
        // Before the first reading, the clock is assumed not to have been set.
        let before = self.settings.front().map(|setting| setting.shown_at(then));
        later.chain(before.filter(|_| first == 0)).min().unwrap_or(Duration::ZERO)
    }

    /// Records the time that the clock shows.
    pub(crate) fn observe(&mut self, now: Instant, shown: Duration) {
        let seen = self.seen.replace(now).unwrap_or(now);
        let expected = self.settings.back().map(|last| last.shown_at(now));
        if expected.is_some_and(|expected| expected.abs_diff(shown) <= JITTER) {
            return;
        }
        let setting = ClockSetting { at: now, shown };
        // Somebody has set the clock since the last reading. For the time in between, the clock counts as having shown the lower of the
        // two possible times.
        self.settings.push_back(if expected.is_some_and(|expected| shown < expected) {
            ClockSetting { at: seen, shown: setting.shown_at(seen) }
        } else {
            setting
        });
        if self.settings.len() > SETTINGS_MAX
            && let Some(oldest) = self.settings.pop_front()
            && let Some(front) = self.settings.front_mut()
        {
            // Merges the two oldest settings into one with the lower time, which keeps more records.
            let shown = oldest.shown.min(front.shown_at(oldest.at));
            *front = ClockSetting { at: oldest.at, shown };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_secs(180);

    /// In each second, sets a clock, then appends a record, and near the end of the second applies retention. The time of a record is
    /// always that of the clock. (In a log, it is at least the time of the previous record.) Returns the seconds whose records are dropped
    /// although they are younger than the age, and the largest excess over the age among kept records.
    fn dropped(shown: impl Fn(u64) -> i64, seconds: u64) -> (Vec<u64>, u64) {
        let began = Instant::now();
        let mut history = ClockHistory::default();
        let (mut records, mut early, mut late) = (Vec::new(), Vec::new(), 0);
        for second in 0..seconds {
            let clocks = |millis: u64| {
                let since = Duration::from_millis(second * 1000 + millis);
                let base =
                    Duration::from_secs(1_000_000_000_u64.saturating_add_signed(shown(second)));
                (began + since, base + since)
            };
            records.push((second, clocks(100).1));
            let (now, wall) = clocks(900);
            let since = history.since(AGE, now, wall);
            records.retain(|(written, time)| {
                let age = second - written;
                if *time >= since {
                    late = late.max(age.saturating_sub(AGE.as_secs()));
                } else if age < AGE.as_secs() {
                    early.push(*written);
                }
                *time >= since
            });
        }
        (early, late)
    }

    #[test]
    fn no_record_is_dropped_early_however_the_clock_is_set() {
        const DAY: i64 = 86_400;
        let none = Vec::<u64>::new();
        assert_eq!(dropped(|_| 0, 600), (none.clone(), 0));
        // Set forward only: each record is kept for exactly the age.
        for by in [1, 3600, DAY, 100 * 365 * DAY] {
            assert_eq!(dropped(|at| i64::from(at >= 200) * by, 900), (none.clone(), 0), "{by}");
        }
        // Set back: records are kept for longer, by at most the same time.
        for by in [1, 60, 600] {
            let (early, late) = dropped(|at| -i64::from(at >= 200) * by, 900);
            assert_eq!(early, none, "{by}");
            assert!(late <= by.unsigned_abs(), "{by}: {late}");
        }
        // Set forward and back often, even before each reading, so that there are more settings than are kept.
        for every in [1, 2, 7, 100, 150, 250] {
            for by in [60, 3600, DAY, -60, -3600, -DAY] {
                let jumps = |at: u64| match at / every % 4 {
                    1 => by,
                    3 => -by,
                    _ => 0,
                };
                assert_eq!(dropped(jumps, 900).0, none, "{by} every {every}");
            }
        }
    }

    #[test]
    fn records_from_before_the_first_reading_are_dropped_by_the_clock() {
        let (now, shown) = (Instant::now(), Duration::from_secs(1_000_000));
        let mut history = ClockHistory::default();
        assert_eq!(history.since(AGE, now, shown), shown - AGE);
        // The clock is set forward: earlier records do not become older.
        let later = now + Duration::from_secs(10);
        let since = history.since(AGE, later, shown + Duration::from_secs(86_400));
        assert_eq!(since, shown + Duration::from_secs(10) - AGE);
        assert_eq!(history.since(Duration::MAX, later, shown), Duration::ZERO);
        for at in 0..10 * SETTINGS_MAX as u64 {
            history.observe(later + Duration::from_secs(at), Duration::from_secs(at * 100));
        }
        assert_eq!(history.settings.len(), SETTINGS_MAX);
    }
}
