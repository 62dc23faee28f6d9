//! When a delivery that failed is tried again.

use std::time::Duration;

/// The retries of deliveries, or of a queue's messages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Retries {
    /// Tries in all.
    pub attempts: u32,
    /// The pause behind the first.
    pub initial: Duration,
    /// The factor from one pause to the next, in thousandths.
    pub factor_permille: u32,
    /// The longest pause, without its jitter.
    pub max: Duration,
}

/// The part of a pause that is added at the most, by chance, in thousandths. Subscribers that failed together are not tried
/// together again.
const JITTER_PERMILLE: u64 = 200;

impl Retries {
    /// The pause after so many tries have failed; none if it was the last. `chance` is below 1000.
    pub fn pause(&self, failed: u32, chance: u64) -> Option<Duration> {
        if failed >= self.attempts {
            return None;
        }
        let mut millis = u64::try_from(self.initial.as_millis()).unwrap_or(u64::MAX);
        let max = u64::try_from(self.max.as_millis()).unwrap_or(u64::MAX);
        let mut grown = 1;
        while grown < failed && millis < max && self.factor_permille > 1000 {
            millis = millis.saturating_mul(u64::from(self.factor_permille)) / 1000;
            grown += 1;
        }
        let millis = millis.min(max);
        let jitter = millis.saturating_mul(JITTER_PERMILLE) / 1000;
        let jitter = jitter.saturating_mul(chance.min(1000)) / 1000;
        Some(Duration::from_millis(millis.saturating_add(jitter)))
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
