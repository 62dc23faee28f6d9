//! When a failed attempt is repeated.

use std::time::Duration;

use kit::clock::millis;

/// The retries of a hub's deliveries, or of a queue's messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retries {
    /// The number of attempts, including the first.
    pub attempts: u32,
    /// The pause after the first attempt.
    pub initial: Duration,
    /// The factor from one pause to the next, in thousandths.
    pub factor_permille: u32,
    /// The longest pause, without its jitter.
    pub max: Duration,
}

/// The largest jitter, in thousandths of the pause. It is added at random, so that deliveries that failed at the same time are not retried
/// at the same time.
const JITTER_PERMILLE: u64 = 200;

/// The longest pause for a reason other than a failed attempt: the store was not available, or there was no room.
const PAUSE_MAX: Duration = Duration::from_secs(5);

impl Retries {
    /// Returns the pause after `failed` attempts have failed, or `None` if no attempt is left. `chance` is a random number below 1000 that
    /// determines the jitter.
    pub fn pause(&self, failed: u32, chance: u64) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let (mut pause, max) = (millis(self.initial), millis(self.max));
        let mut grown = 1;
        while grown < failed && pause < max && self.factor_permille > 1000 {
            pause = pause.saturating_mul(u64::from(self.factor_permille)) / 1000;
            grown += 1;
        }
        let pause = pause.min(max);
        let jitter = pause.saturating_mul(JITTER_PERMILLE) / 1000;
        let jitter = jitter.saturating_mul(chance.min(1000)) / 1000;
        Some(Duration::from_millis(pause.saturating_add(jitter)))
    }

    /// Returns true if `due`, in milliseconds since the Unix epoch, has come. A time further away than the longest pause also counts as
    /// due: it was calculated before the clock was set back.
    pub fn is_due(&self, due: u64, now: Duration) -> bool {
        let left = Duration::from_millis(due).saturating_sub(now);
        let jitter =
            self.max.saturating_mul(u32::try_from(JITTER_PERMILLE).unwrap_or(u32::MAX)) / 1000;
        left.is_zero() || left > self.max.saturating_add(jitter).max(PAUSE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFAULT: Retries = Retries {
        attempts: 9,
        initial: Duration::from_secs(1),
        factor_permille: 2000,
        max: Duration::from_secs(300),
    };

    #[test]
    fn a_clock_that_went_back_holds_nothing_up() {
        let now = Duration::from_secs(1_000_000);
        let is_due = |seconds: u64| DEFAULT.is_due(seconds * 1000, now);
        assert!(is_due(0) && is_due(1_000_000), "it is time");
        assert!(!is_due(1_000_001) && !is_due(1_000_360), "the longest pause with its jitter");
        assert!(is_due(1_000_361) && is_due(1_003_600), "the pause is longer than the longest");
        let short = Retries { max: Duration::from_millis(10), ..DEFAULT };
        assert!(!short.is_due(1_000_005_000, now), "the store was not available");
        assert!(short.is_due(u64::MAX, now));
    }

    #[test]
    fn pauses_double_up_to_the_longest() {
        let pauses = |chance| (1..=9).map(move |failed| DEFAULT.pause(failed, chance));
        let seconds: Vec<_> = pauses(0).map(|pause| pause.map(|pause| pause.as_secs())).collect();
        let expected = [1, 2, 4, 8, 16, 32, 64, 128];
        assert_eq!(seconds, expected.map(Some).into_iter().chain([None]).collect::<Vec<_>>());
        let jittered: Vec<_> = pauses(1000).flatten().map(|pause| pause.as_millis()).collect();
        assert_eq!(jittered, expected.map(|seconds| u128::from(seconds) * 1200));
        let short = Retries { max: Duration::from_secs(3), attempts: 40, ..DEFAULT };
        assert_eq!(short.pause(30, 0), Some(Duration::from_secs(3)));
        assert_eq!(
            Retries { attempts: u32::MAX, ..DEFAULT }.pause(u32::MAX - 1, 0),
            Some(DEFAULT.max)
        );
        assert_eq!(Retries { attempts: 1, ..DEFAULT }.pause(1, 0), None);
    }
}
