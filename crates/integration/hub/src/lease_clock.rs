//! The ends of subscription leases, which hold even if somebody sets the wall clock.
//!
//! A lease is stored with the time of day at which it ends, for the next process and for other nodes. Within a process the lease ends
//! by the monotonic clock, from the time that remained when the process adopted the subscription. If somebody has set the wall clock
//! since the hub started, there are two possible times of day: the one shown, and the one without the change. The one that ends the
//! lease later is used, since an early end does more harm.

use std::time::Duration;

use kit::clock::{self, Instant};

/// The two clocks when the hub started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LeaseClock {
    began: Instant,
    shown: Duration,
}

impl LeaseClock {
    pub(crate) fn new() -> LeaseClock {
        LeaseClock { began: clock::now(), shown: clock::wall() }
    }

    /// The time of day to which the ends of leases are compared.
    pub(crate) fn now(&self) -> Duration {
        clock::wall().min(self.unset())
    }

    /// The end of a lease that begins now and lasts `lease_seconds`, in seconds since the Unix epoch.
    pub(crate) fn until(&self, lease_seconds: u64) -> u64 {
        clock::wall().max(self.unset()).as_secs().saturating_add(lease_seconds)
    }

    /// What the clock would show if nobody had set it.
    fn unset(&self) -> Duration {
        self.shown.saturating_add(self.began.elapsed())
    }

    /// The instant at which a stored lease ends, given its stored end in seconds since the Unix epoch. The lease never exceeds
    /// `lease_seconds`, whatever the clock of the node that stored it showed. Returns `None` if the instant cannot be represented.
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
        // The clock is set forward by a day: a new lease lasts an hour, and earlier leases do not lose any time.
        at(1_000_010 + 24 * HOUR);
        assert_eq!(left(1_000_060), Duration::from_secs(50));
        assert_eq!(left(1_000_010 + 25 * HOUR), Duration::from_secs(HOUR));
        // The clock is set back by a day: no lease lasts longer than an hour from now.
        at(1_000_010 - 24 * HOUR);
        assert_eq!(left(1_000_060), Duration::from_secs(HOUR));
        assert_eq!(left(1_000_010 - 23 * HOUR), Duration::from_secs(HOUR));
        assert_eq!(left(u64::MAX), Duration::from_secs(HOUR));
        assert_eq!(leases.end(u64::MAX, u64::MAX), None);
        // A lease that was given then does not end early when the clock is right again.
        let until = leases.until(HOUR);
        at(1_000_010);
        assert_eq!(left(until), Duration::from_secs(HOUR));
        assert_eq!(leases.until(HOUR), 1_000_010 + HOUR);
    }
}
