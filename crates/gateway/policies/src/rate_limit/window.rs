//! The arithmetic of one window: the generic cell rate algorithm (GCRA) on one number, or clock-aligned windows (see [`on_clock`]).
//!
//! A key's number is the time at which its debt is paid back (its theoretical arrival time). Each request adds one interval to it. A
//! request that would put it further ahead of the current time than the burst allows is refused. Times are nanoseconds since the table was
//! created.

pub(crate) mod on_clock;

use std::time::Duration;

use kit::clock::nanos;

/// The maximum debt of a key, in bursts: what can have passed at one gateway, and at others that limited alone.
const BURSTS_OWED_MAX: u64 = 2;

/// How requests are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// The limit refills evenly.
    #[default]
    Gcra,
    /// Clock-aligned windows.
    Fixed,
    /// Clock-aligned windows, in which a weighted part of the previous window also counts.
    Sliding,
}

impl Algorithm {
    /// Returns how many numbers a key has for one window.
    pub(crate) fn numbers(self) -> usize {
        match self {
            Algorithm::Gcra | Algorithm::Fixed => 1,
            Algorithm::Sliding => 2,
        }
    }

    /// Returns true if times are those of the wall clock.
    pub(crate) fn is_on_clock(self) -> bool {
        self != Algorithm::Gcra
    }
}

/// The numbers of a key for one window.
pub(crate) type WindowNumbers = [u64; 2];

/// A maximum number of requests per time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Its name in the reply's header lines.
    pub name: Box<str>,
    pub requests: u32,
    pub per: Duration,
    /// The number of requests that may arrive at once.
    pub burst: u32,
    pub algorithm: Algorithm,
    /// The cost of one request, in nanoseconds.
    interval: u64,
    /// The cost of the burst, in nanoseconds.
    tolerance: u64,
    /// The constant first part of the window's item in `RateLimit`.
    state_start: Box<str>,
}

/// The state of a key in one window after a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowState {
    /// The number of further requests that would pass now.
    pub(crate) remaining: u64,
    /// The time until the whole burst is available again, in nanoseconds.
    pub(crate) full_in: u64,
}

impl Window {
    pub fn new(name: &str, requests: u32, per: Duration, burst: u32) -> Window {
        let interval = (nanos(per) / u64::from(requests.max(1))).max(1);
        let tolerance = interval.saturating_mul(u64::from(burst.max(1)));
        let state_start = format!("\"{name}\";r=").into();
        let algorithm = Algorithm::Gcra;
        Window {
            name: name.into(),
            requests,
            per,
            burst,
            algorithm,
            interval,
            tolerance,
            state_start,
        }
    }

    /// Creates a clock-aligned window. `per` must be whole seconds.
    pub fn on_clock(name: &str, requests: u32, per: Duration, algorithm: Algorithm) -> Window {
        Window { algorithm, ..Window::new(name, requests, per, requests) }
    }

    /// Returns the numbers after one more request, or the time until it could pass.
    pub(crate) fn charge(&self, before: WindowNumbers, now: u64) -> Result<WindowNumbers, u64> {
        match self.algorithm {
            Algorithm::Gcra => self.take(before[0], now).map(|paid_at| [paid_at, 0]),
            Algorithm::Fixed | Algorithm::Sliding => on_clock::take(self, before, now),
        }
    }

    /// Returns the state of a key with these numbers.
    pub(crate) fn state(&self, numbers: WindowNumbers, now: u64) -> WindowState {
        match self.algorithm {
            Algorithm::Gcra => self.standing(numbers[0], now),
            Algorithm::Fixed | Algorithm::Sliding => on_clock::state(self, numbers, now),
        }
    }

    /// Returns the numbers after a cost that is known only afterwards, so that it may exceed the limit.
    pub(crate) fn add(&self, before: WindowNumbers, cost: u32, now: u64) -> WindowNumbers {
        match self.algorithm {
            Algorithm::Gcra => {
                let cost = self.interval.saturating_mul(u64::from(cost));
                let latest = now.saturating_add(self.owed_max());
                [before[0].max(now).saturating_add(cost).min(latest), 0]
            }
            Algorithm::Fixed | Algorithm::Sliding => on_clock::add(self, before, cost, now),
        }
    }

    /// Returns the maximum debt of a key, in nanoseconds.
    pub(crate) fn owed_max(&self) -> u64 {
        self.tolerance.saturating_mul(BURSTS_OWED_MAX)
    }

    /// Returns the cost of one request, in nanoseconds.
    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    /// Returns the cost of the burst, in nanoseconds.
    pub(crate) fn tolerance(&self) -> u64 {
        self.tolerance
    }

    /// Returns the number after one more request, or the time until it could pass.
    pub(crate) fn take(&self, paid_at: u64, now: u64) -> Result<u64, u64> {
        let next = paid_at.max(now).saturating_add(self.interval);
        match next.saturating_sub(now).checked_sub(self.tolerance) {
            None | Some(0) => Ok(next),
            Some(wait) => Err(wait),
        }
    }

    pub(crate) fn standing(&self, paid_at: u64, now: u64) -> WindowState {
        let owed = paid_at.saturating_sub(now);
        let left = self.tolerance.saturating_sub(owed);
        WindowState { remaining: left / self.interval, full_in: owed }
    }

    /// Appends the window's item of `RateLimit`.
    pub(crate) fn write_state(&self, standing: WindowState, out: &mut Vec<u8>) {
        out.extend_from_slice(self.state_start.as_bytes());
        decimal(standing.remaining, out);
        out.extend_from_slice(b";t=");
        decimal(seconds(standing.full_in), out);
    }
}

/// Appends a number. A reply has two for each window, and the standard library's formatter takes more time than counting itself.
fn decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

/// Converts to whole seconds, rounded up.
pub(crate) fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(requests: u32, per: Duration, burst: u32) -> Window {
        Window::new("a", requests, per, burst)
    }

    /// Returns how many requests at the given times pass.
    fn passed(window: &Window, times: impl IntoIterator<Item = u64>) -> usize {
        let mut paid_at = 0;
        let pass = |now| window.take(paid_at, now).map(|next| paid_at = next).is_ok();
        times.into_iter().map(pass).filter(|passed| *passed).count()
    }

    #[test]
    fn exactly_the_burst_passes_at_once() {
        for (requests, per, burst) in [(1, 1, 1), (3, 1, 3), (7, 60, 7), (100, 60, 10), (10, 1, 25)]
        {
            let window = window(requests, Duration::from_secs(per), burst);
            assert_eq!(passed(&window, vec![5; 1000]), usize::try_from(burst).unwrap());
        }
    }

    #[test]
    fn what_is_refused_passes_after_the_wait_and_not_before() {
        let window = window(3, Duration::from_secs(1), 3);
        let paid_at = (0..3).fold(0, |at, _| window.take(at, 9).unwrap());
        let wait = window.take(paid_at, 9).unwrap_err();
        assert!(window.take(paid_at, 9 + wait - 1).is_err());
        assert!(window.take(paid_at, 9 + wait).is_ok());
    }

    #[test]
    fn over_a_long_time_the_rate_holds() {
        // A request per millisecond for ten seconds: the burst passes, and then ten per second.
        let window = window(10, Duration::from_secs(1), 10);
        let times = (0..10_000).map(|ms| ms * 1_000_000);
        assert_eq!(passed(&window, times), 10 + 99);
    }

    #[test]
    fn the_state_has_the_remaining_requests_and_the_time_until_the_burst_is_whole() {
        let window = window(4, Duration::from_secs(8), 4);
        let paid_at = window.take(0, 0).unwrap();
        let standing = window.standing(paid_at, 0);
        assert_eq!(standing, WindowState { remaining: 3, full_in: 2_000_000_000 });
        assert_eq!(window.standing(paid_at, 2_000_000_000).remaining, 4);
    }

    #[test]
    fn a_window_is_written_as_a_list_item() {
        let window = window(5, Duration::from_secs(1), 5);
        for (remaining, full_in, expected) in [
            (0, 0, "\"a\";r=0;t=0"),
            (10, 1, "\"a\";r=10;t=1"),
            (u64::MAX, 1_000_000_001, "\"a\";r=18446744073709551615;t=2"),
        ] {
            let mut out = Vec::new();
            window.write_state(WindowState { remaining, full_in }, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn the_longest_times_and_largest_numbers_do_not_overflow() {
        let years = Duration::from_secs(10 * 365 * 24 * 3600);
        for window in [window(1, years, 1_000_000_000), window(u32::MAX, years, u32::MAX)] {
            let paid_at = window.take(0, 1 << 60).unwrap();
            assert!(window.standing(paid_at, 1 << 60).remaining > 0);
        }
    }
}
