//! When leases of subscriptions end, where somebody sets the wall clock.
//!
//! A lease is stored with the time of day at which it ends, for the next process and for other nodes. Within a process it ends by the
//! monotonic clock: what is left of it is settled when the subscription is taken over. Of the clock as it is and as it would be, if
//! nobody had set it since the hub began, the one is believed by which the lease ends later: that does less harm than an end too early.

use std::time::Duration;

use kit::clock::{self, Instant};

/// The two clocks when the hub began.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClock {
    began: Instant,
    shown: Duration,
}

impl LeaseClock {
    pub(crate) fn new() -> LeaseClock {
        LeaseClock { began: clock::now(), shown: clock::wall() }
    }

    /// The time of day by which it is looked whether a lease is over.
    pub(crate) fn now(&self) -> Duration {
        clock::wall().min(self.unset())
    }

    /// The time of day at which a lease of so many seconds ends that begins now, in seconds since the Unix epoch.
    pub(crate) fn until(&self, lease_seconds: u64) -> u64 {
        clock::wall().max(self.unset()).as_secs().saturating_add(lease_seconds)
    }

    /// What the clock would show if nobody had set it.
    fn unset(&self) -> Duration {
        self.shown.saturating_add(self.began.elapsed())
    }

    /// When a lease of so many seconds ends that is stored to end then, in seconds since the Unix epoch. No lease lasts longer than it
    /// was given for, whatever the clock of the one who wrote it showed. None for one that never ends.
    pub(crate) fn end(&self, until: u64, lease_seconds: u64) -> Option<Instant> {
        let left = Duration::from_secs(until).saturating_sub(self.now());
        clock::now().checked_add(left.min(Duration::from_secs(lease_seconds)))
    }
}

#[cfg(test)]
mod tests {
    use kit::fake;

    use super::*;

    const HOUR: u64 = 3600;

    #[tokio::test(start_paused = true)]
    async fn what_is_left_of_a_lease_does_not_shrink_when_the_clock_is_set() {
        let at = |seconds: u64| fake::wall(Duration::from_secs(seconds));
        at(1_000_000);
        let leases = LeaseClock::new();
        let left = |until| leases.end(until, HOUR).unwrap() - clock::now();
        assert_eq!(left(1_000_000 + HOUR), Duration::from_secs(HOUR));
        assert_eq!(left(1_000_060), Duration::from_secs(60));
        assert_eq!(left(999_999), Duration::ZERO, "it is over");
        tokio::time::advance(Duration::from_secs(10)).await;
        assert_eq!(left(1_000_060), Duration::from_secs(50));
        // Set forward by a day, and a lease is given: it has its hour, and the ones before have not lost any of theirs.
        at(1_000_010 + 24 * HOUR);
        assert_eq!(left(1_000_060), Duration::from_secs(50));
        assert_eq!(left(1_000_010 + 25 * HOUR), Duration::from_secs(HOUR));
        // Back by a day: no lease is longer than it was.
        at(1_000_010 - 24 * HOUR);
        assert_eq!(left(1_000_060), Duration::from_secs(HOUR));
        assert_eq!(left(1_000_010 - 23 * HOUR), Duration::from_secs(HOUR));
        assert_eq!(left(u64::MAX), Duration::from_secs(HOUR));
        assert_eq!(leases.end(u64::MAX, u64::MAX), None);
        // A lease that was given then has not ended before its time when the clock is right again.
        let until = leases.until(HOUR);
        at(1_000_010);
        assert_eq!(left(until), Duration::from_secs(HOUR));
        assert_eq!(leases.until(HOUR), 1_000_010 + HOUR);
    }
}
