//! The arithmetic of one window: the generic cell rate algorithm on one number, or windows on the clock (see [`on_clock`]).
//!
//! A key's number is the time at which its debt is paid (its theoretical arrival time). Each request adds one interval to
//! it, and a request that would put it further ahead of now than the burst allows is refused. Times are nanoseconds since
//! the table was made.

pub(crate) mod on_clock;

use std::time::Duration;

/// How requests are counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Algorithm {
    /// Used requests come back evenly.
    #[default]
    Gcra,
    /// Windows that begin on the clock.
    Fixed,
    /// The same, in which a weighted part of the window before counts too.
    Sliding,
}

impl Algorithm {
    /// The numbers that a key has for one window.
    pub(crate) fn numbers(self) -> usize {
        match self {
            Algorithm::Gcra | Algorithm::Fixed => 1,
            Algorithm::Sliding => 2,
        }
    }

    /// True if times are those of the wall clock.
    pub(crate) fn is_on_clock(self) -> bool {
        self != Algorithm::Gcra
    }
}

/// The numbers of a key for one window.
pub(crate) type WindowNumbers = [u64; 2];

/// At most so many requests in so long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// Its name in the reply's header lines.
    pub name: Box<str>,
    pub requests: u32,
    pub per: Duration,
    /// As many may come at once.
    pub burst: u32,
    pub algorithm: Algorithm,
    /// The cost of one request, in nanoseconds.
    interval: u64,
    /// The cost of the burst.
    tolerance: u64,
    /// The beginning of what a reply tells of it.
    told: Box<str>,
}

/// The standing of a key with one window after a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct WindowState {
    /// As many more would pass at once.
    pub(crate) remaining: u64,
    /// Until all of the burst is there again.
    pub(crate) whole_in: u64,
}

impl Window {
    pub fn new(name: &str, requests: u32, per: Duration, burst: u32) -> Window {
        let interval = (nanoseconds(per) / u64::from(requests.max(1))).max(1);
        let tolerance = interval.saturating_mul(u64::from(burst.max(1)));
        let told = format!("\"{name}\";r=").into();
        let algorithm = Algorithm::Gcra;
        Window { name: name.into(), requests, per, burst, algorithm, interval, tolerance, told }
    }

    /// One whose windows begin on the clock; `per` is in whole seconds.
    pub fn on_clock(name: &str, requests: u32, per: Duration, algorithm: Algorithm) -> Window {
        Window { algorithm, ..Window::new(name, requests, per, requests) }
    }

    /// The numbers after one more request, or how long that has to wait.
    pub(crate) fn charge(&self, before: WindowNumbers, now: u64) -> Result<WindowNumbers, u64> {
        match self.algorithm {
            Algorithm::Gcra => self.take(before[0], now).map(|paid_at| [paid_at, 0]),
            Algorithm::Fixed | Algorithm::Sliding => on_clock::take(self, before, now),
        }
    }

    /// How a key with these numbers stands.
    pub(crate) fn state(&self, numbers: WindowNumbers, now: u64) -> WindowState {
        match self.algorithm {
            Algorithm::Gcra => self.standing(numbers[0], now),
            Algorithm::Fixed | Algorithm::Sliding => on_clock::state(self, numbers, now),
        }
    }

    /// The cost of one request.
    pub(crate) fn interval(&self) -> u64 {
        self.interval
    }

    /// The cost of the burst.
    pub(crate) fn tolerance(&self) -> u64 {
        self.tolerance
    }

    /// The number after one more request, or how long that has to wait.
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
        WindowState { remaining: left / self.interval, whole_in: owed }
    }

    /// Appends what `RateLimit` says of it.
    pub(crate) fn tell(&self, standing: WindowState, out: &mut Vec<u8>) {
        out.extend_from_slice(self.told.as_bytes());
        decimal(standing.remaining, out);
        out.extend_from_slice(b";t=");
        decimal(seconds(standing.whole_in), out);
    }
}

/// Appends a number. A reply tells two for each window, and the formatter of the standard library costs more than counting.
fn decimal(number: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

pub(crate) fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Whole seconds, up.
pub(crate) fn seconds(nanoseconds: u64) -> u64 {
    nanoseconds.div_ceil(1_000_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(requests: u32, per: Duration, burst: u32) -> Window {
        Window::new("a", requests, per, burst)
    }

    /// The number of `count` requests that pass at the given times.
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
        // A request a millisecond for ten seconds: the burst, and then ten a second.
        let window = window(10, Duration::from_secs(1), 10);
        let times = (0..10_000).map(|ms| ms * 1_000_000);
        assert_eq!(passed(&window, times), 10 + 99);
    }

    #[test]
    fn the_standing_tells_the_rest_and_when_it_is_whole() {
        let window = window(4, Duration::from_secs(8), 4);
        let paid_at = window.take(0, 0).unwrap();
        let standing = window.standing(paid_at, 0);
        assert_eq!(standing, WindowState { remaining: 3, whole_in: 2_000_000_000 });
        assert_eq!(window.standing(paid_at, 2_000_000_000).remaining, 4);
    }

    #[test]
    fn what_is_told_is_a_list_item() {
        let window = window(5, Duration::from_secs(1), 5);
        for (remaining, whole_in, told) in [
            (0, 0, "\"a\";r=0;t=0"),
            (10, 1, "\"a\";r=10;t=1"),
            (u64::MAX, 1_000_000_001, "\"a\";r=18446744073709551615;t=2"),
        ] {
            let mut out = Vec::new();
            window.tell(WindowState { remaining, whole_in }, &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), told);
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
