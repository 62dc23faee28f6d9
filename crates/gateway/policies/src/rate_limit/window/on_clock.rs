//! Clock-aligned windows: they begin at each multiple of their length since the Unix epoch, so a minute begins at second 0 and a day at
//! midnight (UTC).
//!
//! A number of a key consists of the end of a window, in seconds, in the upper bits, and the number of requests in the lower bits. A
//! sliding window has a second number for the previous window, whose end is stored one length later, so that both have expired when they no
//! longer count.

use super::{Algorithm, Window, WindowNumbers, WindowState};

/// The number of lower bits for the count, enough for the largest limit. The upper bits are enough seconds for centuries.
const COUNT_BITS: u32 = 30;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;
const SECOND: u64 = 1_000_000_000;

/// The requests of a key in the current window and in the previous one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ClockCounts {
    /// The end of the window, in seconds since the Unix epoch.
    pub(crate) end: u64,
    pub(crate) count: u64,
    pub(crate) before: u64,
}

impl ClockCounts {
    /// Decodes the numbers of a key at time `now`, in nanoseconds since the Unix epoch.
    pub(crate) fn of(window: &Window, numbers: WindowNumbers, now: u64) -> ClockCounts {
        let per = seconds(window);
        let end = (now / SECOND / per + 1) * per;
        let [current, before] = numbers;
        let (count, before) = match current >> COUNT_BITS {
            known if known == end => (current & COUNT_MAX, before & COUNT_MAX),
            known if known.saturating_add(per) == end => (0, current & COUNT_MAX),
            _ => (0, 0),
        };
        let before = if window.algorithm == Algorithm::Sliding { before } else { 0 };
        ClockCounts { end, count, before }
    }

    /// Encodes the counts as the numbers of a key.
    pub(crate) fn numbers(self, window: &Window) -> WindowNumbers {
        let number = |end: u64, count: u64| end << COUNT_BITS | count.min(COUNT_MAX);
        let before = match window.algorithm {
            Algorithm::Sliding => number(self.end.saturating_add(seconds(window)), self.before),
            Algorithm::Gcra | Algorithm::Fixed => 0,
        };
        [number(self.end, self.count), before]
    }

    /// Returns the time until the window ends, in nanoseconds.
    fn left(self, now: u64) -> u64 {
        self.end.saturating_mul(SECOND).saturating_sub(now)
    }
}

/// Returns when a number no longer counts, in nanoseconds since the Unix epoch.
pub(crate) fn ends_at(number: u64) -> u64 {
    (number >> COUNT_BITS).saturating_mul(SECOND)
}

/// Returns the numbers after one more request, or the time until it could pass.
pub(super) fn take(
    window: &Window,
    numbers: WindowNumbers,
    now: u64,
) -> Result<WindowNumbers, u64> {
    let counts = ClockCounts::of(window, numbers, now);
    match free(window, counts, now) {
        0 => Err(wait(window, counts, now)),
        _ => Ok(ClockCounts { count: counts.count + 1, ..counts }.numbers(window)),
    }
}

/// Returns the numbers after a cost, which may exceed the limit.
pub(super) fn add(window: &Window, numbers: WindowNumbers, cost: u32, now: u64) -> WindowNumbers {
    let counts = ClockCounts::of(window, numbers, now);
    ClockCounts { count: counts.count.saturating_add(u64::from(cost)), ..counts }.numbers(window)
}

pub(super) fn state(window: &Window, numbers: WindowNumbers, now: u64) -> WindowState {
    let counts = ClockCounts::of(window, numbers, now);
    WindowState { remaining: free(window, counts, now), full_in: counts.left(now) }
}

/// Returns how many requests may still pass now.
fn free(window: &Window, counts: ClockCounts, now: u64) -> u64 {
    let per = u128::from(seconds(window) * SECOND);
    // The requests of the previous window, weighted by the part of it that a sliding window ending now still covers.
    let weighted = (u128::from(counts.before) * u128::from(counts.left(now))).div_ceil(per);
    let used = u128::from(counts.count) + weighted;
    u64::try_from(u128::from(window.requests).saturating_sub(used)).unwrap_or(u64::MAX)
}

/// Returns the time until one more request passes, if no other arrives before.
fn wait(window: &Window, counts: ClockCounts, now: u64) -> u64 {
    let (per, left) = (seconds(window) * SECOND, counts.left(now));
    let others = u64::from(window.requests).saturating_sub(1);
    // Returns how much of a window is left at the moment from which at most `others` of the `before` requests in the previous window count.
    let until_left = |before: u64| {
        let part = u128::from(others) * u128::from(per) / u128::from(before.max(1));
        u64::try_from(part).unwrap_or(per).min(per)
    };
    if window.algorithm == Algorithm::Fixed {
        return left;
    }
    match others.checked_sub(counts.count) {
        // The request passes in this window, once fewer requests of the previous one count.
        Some(rest) => {
            let part = u128::from(rest) * u128::from(per) / u128::from(counts.before.max(1));
            left.saturating_sub(u64::try_from(part).unwrap_or(left)).max(1)
        }
        // The request passes in the next window, once fewer requests of this one count.
        None => left.saturating_add(per - until_left(counts.count)).max(1),
    }
}

fn seconds(window: &Window) -> u64 {
    window.per.as_secs().max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MINUTE: u64 = 60 * SECOND;
    /// The beginning of a minute in 2027.
    const START: u64 = 1_800_000_000 * SECOND;

    fn window(requests: u32, algorithm: Algorithm) -> Window {
        Window::on_clock("a", requests, Duration::from_secs(60), algorithm)
    }

    /// Returns which of the requests at these times pass.
    fn passed(window: &Window, times: &[u64]) -> Vec<bool> {
        let mut numbers = [0; 2];
        let pass = |now: &u64| take(window, numbers, *now).map(|next| numbers = next).is_ok();
        times.iter().map(pass).collect()
    }

    #[test]
    fn a_fixed_window_begins_with_the_minute() {
        let window = window(2, Algorithm::Fixed);
        let late = START + 59 * SECOND;
        let times = [late, late, late, START + MINUTE, START + MINUTE, START + MINUTE + 1];
        assert_eq!(passed(&window, &times), [true, true, false, true, true, false]);
        let full = ClockCounts { end: START / SECOND + 60, count: 2, before: 0 }.numbers(&window);
        assert_eq!(take(&window, full, late), Err(SECOND));
        let standing = WindowState { remaining: 0, full_in: SECOND };
        assert_eq!(state(&window, full, late), standing);
        assert_eq!(ends_at(full[0]), START + MINUTE);
    }

    #[test]
    fn a_sliding_window_counts_a_part_of_the_previous_window() {
        let window = window(10, Algorithm::Sliding);
        let end = START / SECOND + 60;
        let full = ClockCounts { end, count: 10, before: 0 }.numbers(&window);
        // Half a minute later, half of the ten still count.
        let half = START + MINUTE + MINUTE / 2;
        let counts = ClockCounts::of(&window, full, half);
        assert_eq!(counts, ClockCounts { end: end + 60, count: 0, before: 10 });
        assert_eq!(free(&window, counts, half), 5);
        assert_eq!(free(&window, ClockCounts::of(&window, full, half + MINUTE), half + MINUTE), 10);
        assert_eq!(ends_at(full[1]), START + 2 * MINUTE);
    }

    #[test]
    fn what_is_refused_passes_after_the_wait_and_not_before() {
        let end = START / SECOND + 60;
        for (algorithm, count, before) in [
            (Algorithm::Fixed, 10, 0),
            (Algorithm::Sliding, 10, 0),
            (Algorithm::Sliding, 10, 7),
            (Algorithm::Sliding, 3, 10),
            (Algorithm::Sliding, 0, 10),
            (Algorithm::Sliding, 9, 3),
        ] {
            let window = window(10, algorithm);
            let numbers = ClockCounts { end, count, before }.numbers(&window);
            let now = START + SECOND / 4;
            let wait = take(&window, numbers, now).unwrap_err();
            let case = format!("{algorithm:?} {count} {before}: {wait}");
            assert!(take(&window, numbers, now + wait).is_ok(), "{case}");
            assert!(take(&window, numbers, now + wait - 2).is_err(), "{case}");
        }
    }
}
