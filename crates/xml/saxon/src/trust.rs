//! Decides which stylesheets workers may run themselves: those known to be fast.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use kit::clock::{self, Instant, millis};

/// Maximum time of a fast run. It blocks a worker as long as some ten requests without a stylesheet do.
const FAST_MAX: Duration = Duration::from_micros(250);

/// Credit needed to run on workers. After this many runs, the JVM has compiled the code for such messages at least once.
const NEEDED: u32 = 256;

/// Maximum credit. It is four times [`SLOW`] above the required credit, so that a stylesheet that becomes slow is noticed soon.
const MOST: u32 = 512;

/// Credit lost by a slow run. On a worker, other threads may have used the core meanwhile, so a single slow run means little.
const SLOW: u32 = 64;

/// How long a stylesheet that had to be stopped on a worker is barred from workers. In the worst case, a worker is blocked for some
/// hundredths of a second once in that time.
const BARRED: Duration = Duration::from_secs(60);

/// Statistics of the runs of one stylesheet.
pub(crate) struct Trust {
    began: Instant,
    credit: AtomicU32,
    /// The end of the ban, in milliseconds after `began`.
    barred_until: AtomicU64,
}

impl Trust {
    pub(crate) fn new() -> Trust {
        Trust { began: clock::now(), credit: AtomicU32::new(0), barred_until: AtomicU64::new(0) }
    }

    /// Returns whether workers may run the stylesheet.
    pub(crate) fn is_enough(&self) -> bool {
        self.credit.load(Relaxed) >= NEEDED
    }

    /// Records the CPU time of a run.
    pub(crate) fn record_time(&self, time: Duration) {
        let credit = self.credit.load(Relaxed);
        if time > FAST_MAX {
            let less = |credit: u32| Some(credit.saturating_sub(SLOW));
            // Harmless: the update function always returns a value.
            let _ = self.credit.fetch_update(Relaxed, Relaxed, less);
        } else if credit < MOST && self.millis() >= self.barred_until.load(Relaxed) {
            self.credit.fetch_add(1, Relaxed);
        }
    }

    /// Bars the stylesheet, after a run on a worker had to be stopped.
    pub(crate) fn bar(&self) {
        self.barred_until.store(self.millis().saturating_add(millis(BARRED)), Relaxed);
        self.credit.store(0, Relaxed);
    }

    fn millis(&self) -> u64 {
        millis(self.began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAST: Duration = Duration::from_micros(10);
    const LATE: Duration = Duration::from_millis(1);

    fn after(runs: &[(u32, Duration)]) -> Trust {
        let trust = Trust::new();
        for (count, time) in runs {
            (0..*count).for_each(|_| trust.record_time(*time));
        }
        trust
    }

    #[tokio::test(start_paused = true)]
    async fn trust_needs_many_fast_runs_and_survives_few_slow_ones() {
        for (enough, runs) in [
            (false, &[][..]),
            (false, &[(255, FAST)]),
            (true, &[(256, FAST)]),
            (false, &[(100, LATE), (255, FAST)]),
            (true, &[(100, LATE), (256, FAST)]),
            (false, &[(256, FAST), (1, LATE)]),
            (true, &[(9_999, FAST), (4, LATE)]),
            (false, &[(9_999, FAST), (5, LATE)]),
            (true, &[(9_999, FAST), (5, LATE), (64, FAST)]),
        ] {
            assert_eq!(after(runs).is_enough(), enough, "{runs:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_barred_stylesheet_earns_no_credit_for_a_time() {
        let trust = after(&[(9_999, FAST)]);
        trust.bar();
        let earns = |trust: &Trust| {
            (0..NEEDED).for_each(|_| trust.record_time(FAST));
            trust.is_enough()
        };
        assert!(!earns(&trust));
        tokio::time::advance(BARRED - Duration::from_millis(1)).await;
        assert!(!earns(&trust));
        tokio::time::advance(Duration::from_millis(1)).await;
        assert!(earns(&trust));
    }
}
