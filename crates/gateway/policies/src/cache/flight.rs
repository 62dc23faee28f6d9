//! Collapses equal requests: those that arrive while the first one is in progress wait for its reply instead of being forwarded.
//!
//! Owns the wait. A request whose wait has ended looks up the reply in the store. Dropping the store's
//! [`Leader`](super::store::Leader) ends the wait, so that no request waits for an aborted exchange.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kit::clock::{self, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

/// The maximum number of requests that wait for one reply, since all of them are answered at once when it arrives. Further ones are
/// forwarded.
const FOLLOWERS_MAX: usize = 1024;

/// The maximum wait for the next piece of a reply that has begun. Pieces usually arrive far more often, so after a longer pause, its client
/// or its upstream has probably stalled.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A reply in progress.
pub(super) struct Flight {
    landed: watch::Sender<bool>,
    followers: AtomicUsize,
    began: Instant,
    /// The time of the last piece, in milliseconds since the start, plus one. Zero before the head of the reply.
    moved: AtomicU64,
    /// The time at which all requests stop waiting.
    until: Instant,
}

/// A request that waits.
pub(super) struct Follower(Arc<Flight>);

impl Flight {
    pub(super) fn new(longest: Duration) -> Flight {
        let now = clock::now();
        let until = now.checked_add(longest).unwrap_or(now);
        Flight {
            landed: watch::Sender::new(false),
            followers: AtomicUsize::new(0),
            began: now,
            moved: AtomicU64::new(0),
            until,
        }
    }

    /// Returns the time since the start, in the form of `moved`.
    fn age_ms(&self) -> u64 {
        clock::millis(self.began.elapsed()).saturating_add(1)
    }

    /// Returns the remaining time to wait for the next piece. Before the head of the reply, this is always [`PAUSE_MAX`].
    fn patience(&self) -> Duration {
        let moved = self.moved.load(Ordering::Relaxed);
        let pause = if moved == 0 { 0 } else { self.age_ms().saturating_sub(moved) };
        PAUSE_MAX.saturating_sub(Duration::from_millis(pause))
    }

    /// Returns true if the reply has begun, but makes no progress.
    pub(super) fn is_stuck(&self) -> bool {
        self.patience().is_zero()
    }

    /// Records that a piece of the reply has passed.
    pub(super) fn advance(&self) {
        self.moved.store(self.age_ms(), Ordering::Relaxed);
    }

    /// Ends the wait of all requests.
    pub(super) fn land(&self) {
        self.landed.send_replace(true);
    }

    /// Joins the waiting requests, if there is room and time.
    pub(super) fn follow(self: &Arc<Flight>) -> Option<Follower> {
        let follower = Follower(self.clone());
        let others = self.followers.fetch_add(1, Ordering::AcqRel);
        (others < FOLLOWERS_MAX && clock::now() < self.until).then_some(follower)
    }
}

impl Follower {
    /// Waits until the reply is stored, will not be stored, makes no progress, or takes too long. The store has the result.
    pub(super) async fn landed(self) {
        let mut landed = self.0.landed.subscribe();
        loop {
            let left = self.0.until.saturating_duration_since(clock::now());
            let wait = left.min(self.0.patience());
            if wait.is_zero() || timeout(wait, landed.wait_for(|landed| *landed)).await.is_ok() {
                return;
            }
        }
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::AcqRel);
    }
}
