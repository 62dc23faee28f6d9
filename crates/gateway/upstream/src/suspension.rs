//! Suspension of one target: after failures of the listed kinds it gets no requests for a while, longer each time until a request
//! succeeds.
//!
//! Owns the counters, all atomic. Times are milliseconds since the Unix epoch. The result of a request that was sent before a
//! suspension ended does not count afterwards: many requests may fail late for one reason, and only the first of them counts.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;

use kit::clock::millis;

use crate::settings::Suspend;

#[derive(Default)]
pub(crate) struct Suspension {
    /// The end of the last suspension, even if it has passed; 0 once a request has succeeded.
    until: AtomicU64,
    /// The length of the last suspension.
    length_ms: AtomicU64,
    /// The number of successive failures since the last suspension or success.
    failures: AtomicU32,
}

impl Suspension {
    /// The end of the current suspension.
    pub(crate) fn until(&self, now: impl FnOnce() -> u64) -> Option<u64> {
        // The clock is not read for a target that is not suspended.
        match self.until.load(Relaxed) {
            0 => None,
            until => (now() < until).then_some(until),
        }
    }

    /// Counts a failure of a listed kind for a request sent at `began`. Returns the length of the suspension, if this
    /// suspends the target.
    pub(crate) fn failed(&self, rule: &Suspend, began: u64, now: u64) -> Option<Duration> {
        let until = self.until.load(Relaxed);
        if began < until {
            return None;
        }
        let length = match until {
            0 => {
                let failures = self.failures.fetch_add(1, Relaxed).saturating_add(1);
                if failures < rule.after {
                    return None;
                }
                millis(rule.initial)
            }
            _ => {
                let factor = u64::from(rule.factor_permille);
                self.length_ms.load(Relaxed).saturating_mul(factor) / 1000
            }
        };
        let length = length.min(millis(rule.max));
        // Of several that fail at the same moment, one suspends the target.
        let end = now.saturating_add(length);
        self.until.compare_exchange(until, end, Relaxed, Relaxed).ok()?;
        self.length_ms.store(length, Relaxed);
        self.failures.store(0, Relaxed);
        Some(Duration::from_millis(length))
    }

    /// Records the success of a request sent at `began`. True if the target had been suspended.
    pub(crate) fn succeeded(&self, began: impl FnOnce() -> u64) -> bool {
        let until = self.until.load(Relaxed);
        if until == 0 {
            // The count is almost always zero already; a plain load keeps the cache line shared between workers.
            if self.failures.load(Relaxed) != 0 {
                self.failures.store(0, Relaxed);
            }
            return false;
        }
        began() >= until && self.until.compare_exchange(until, 0, Relaxed, Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Failures;

    fn rule(after: u32, factor_permille: u32) -> Suspend {
        Suspend {
            on: Failures::default(),
            after,
            initial: Duration::from_secs(1),
            factor_permille,
            max: Duration::from_secs(5),
        }
    }

    /// The length of the suspension in milliseconds that results from a request sent and failed at this time.
    fn fail(suspension: &Suspension, rule: &Suspend, at: u64) -> Option<u64> {
        suspension.failed(rule, at, at).map(millis)
    }

    #[test]
    fn each_failure_after_a_suspension_makes_the_next_one_longer() {
        for (factor, lengths) in [
            (2000, [1000, 2000, 4000, 5000, 5000]),
            (1000, [1000; 5]),
            (1500, [1000, 1500, 2250, 3375, 5000]),
        ] {
            let (suspension, rule, mut now) = (Suspension::default(), rule(1, factor), 10_000);
            for length in lengths {
                assert_eq!(fail(&suspension, &rule, now), Some(length));
                let end = now + length;
                assert_eq!(suspension.until(|| end - 1), Some(end));
                assert_eq!(suspension.until(|| end), None, "it gets requests again");
                now = end;
            }
            assert!(suspension.succeeded(|| now), "it is back");
            assert_eq!(fail(&suspension, &rule, now), Some(1000), "and starts again");
        }
    }

    #[test]
    fn only_failures_in_a_row_suspend_and_one_is_enough_after_a_suspension() {
        let (suspension, rule) = (Suspension::default(), rule(3, 2000));
        assert_eq!([1, 2].map(|at| fail(&suspension, &rule, at)), [None; 2]);
        assert!(!suspension.succeeded(|| 3));
        assert_eq!([4, 5, 6].map(|at| fail(&suspension, &rule, at)), [None, None, Some(1000)]);
        assert_eq!(fail(&suspension, &rule, 1006), Some(2000));
        assert!(suspension.succeeded(|| 3006));
        assert_eq!([3007, 3008].map(|at| fail(&suspension, &rule, at)), [None; 2]);
        assert_eq!(fail(&suspension, &rule, 3009), Some(1000));
    }

    #[test]
    fn results_of_requests_sent_before_a_suspension_ended_do_not_count() {
        let (suspension, rule) = (Suspension::default(), rule(1, 2000));
        assert_eq!(fail(&suspension, &rule, 100), Some(1000));
        assert_eq!(suspension.failed(&rule, 99, 100), None, "at the same moment");
        assert_eq!(suspension.failed(&rule, 50, 60_000), None, "much later");
        assert!(!suspension.succeeded(|| 50));
        assert_eq!(suspension.until(|| 1099), Some(1100), "nothing ends it early");
        assert_eq!(fail(&suspension, &rule, 1100), Some(2000));
    }

    #[test]
    fn the_first_suspension_is_not_longer_than_the_longest() {
        let rule = Suspend { max: Duration::from_millis(300), ..rule(1, 2000) };
        assert_eq!(fail(&Suspension::default(), &rule, 1), Some(300));
    }
}
