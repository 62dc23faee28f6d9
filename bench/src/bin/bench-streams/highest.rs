//! The search for the highest rate that one core holds without loss.

use std::io;
use std::time::Duration;

use crate::apart::Apart;
use crate::rig::Count;

/// A rate that was held.
#[derive(Clone, Copy)]
pub(crate) struct Highest {
    pub(crate) rate: f64,
    /// The part of its core that the rig needed for it: near all of it, and the rig is what was measured.
    pub(crate) rig_busy: f64,
}

/// What is searched between.
#[derive(Clone, Copy, Default)]
struct Between {
    held: Option<f64>,
    missed: Option<f64>,
}

/// A rate is held if so much of it was sent, and nothing was late or lost.
const SENT_MIN: f64 = 0.98;
/// The step of the search while only one side is known, and where it ends.
const STEP: f64 = 1.3;
const NEAR_ENOUGH: f64 = 1.04;
const TRIES_MAX: usize = 16;
/// What is known of the rate before is gone after this time.
const WARM_UP: Duration = Duration::from_millis(500);

impl Between {
    /// The rate to try next; none once it is known well enough.
    fn next(self, first: f64) -> Option<f64> {
        match (self.held, self.missed) {
            (None, None) => Some(first),
            (Some(held), None) => Some(held * STEP),
            (None, Some(missed)) => Some(missed / STEP),
            (Some(held), Some(missed)) => {
                (missed / held > NEAR_ENOUGH).then(|| (held * missed).sqrt())
            }
        }
    }
}

/// Searches from the first rate on; none where not even a low one is held.
pub(crate) fn search(rig: &mut Apart, first: f64, time: Duration) -> io::Result<Option<Highest>> {
    let (mut between, mut highest) = (Between::default(), None);
    for _ in 0..TRIES_MAX {
        let Some(rate) = between.next(first) else { break };
        rig.run(rate, WARM_UP)?;
        let before = rig.cpu();
        let count = rig.run(rate, time)?;
        let rig_busy = rig.cpu().saturating_sub(before).as_secs_f64() / count.wall.as_secs_f64();
        if is_held(&count, rate) {
            between.held = Some(rate);
            highest = Some(Highest { rate, rig_busy });
        } else {
            between.missed = Some(rate);
        }
    }
    Ok(highest)
}

fn is_held(count: &Count, rate: f64) -> bool {
    count.is_whole() && count.late == 0 && count.per_second() >= SENT_MIN * rate
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_search_ends_near_what_is_held() {
        for (first, most) in [(50_000.0, 61_234.0), (50_000.0, 8_000.0), (100.0, 90_000.0)] {
            let mut between = Between::default();
            let mut tries = 0;
            while let Some(rate) = between.next(first) {
                if rate <= most {
                    between.held = Some(rate)
                } else {
                    between.missed = Some(rate)
                }
                tries += 1;
                assert!(tries < 100);
            }
            let held = between.held.unwrap();
            assert!(held <= most && most <= held * NEAR_ENOUGH, "{held} of {most}");
        }
    }

    #[test]
    fn a_rate_is_held_if_nothing_is_lost_or_late() {
        let held = Count { sent: 990, came: 990, wrong: 0, late: 0, wall: Duration::from_secs(1) };
        assert!(is_held(&held, 1000.0));
        assert!(!is_held(&Count { came: 989, ..held }, 1000.0));
        assert!(!is_held(&Count { wrong: 1, ..held }, 1000.0));
        assert!(!is_held(&Count { late: 1, ..held }, 1000.0));
        assert!(!is_held(&held, 1020.0));
    }
}
