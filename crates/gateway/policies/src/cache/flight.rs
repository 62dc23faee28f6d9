//! Requests for the same that come while the first is on its way: they wait for its reply instead of asking as well.
//!
//! Only the wait is owned here; what came of it is looked up in the store. Whoever leads ends the wait by being dropped, so
//! that nobody waits for an exchange that is gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use kit::clock::{self, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

use super::store::Store;

/// As many may wait for one reply. All of them are answered at once when it is there; more ask themselves.
const FOLLOWERS_MAX: usize = 1024;

/// Nobody waits longer for the next piece of a reply that has begun: its client may take nothing, or its upstream give nothing.
/// Pieces come far more often where both do.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// A reply that is on its way.
pub(super) struct Flight {
    landed: watch::Sender<bool>,
    followers: AtomicUsize,
    began: Instant,
    /// When its last piece came, in milliseconds since then, and one more; zero before its head.
    moved: AtomicU64,
    /// Nobody waits longer, whenever it began to.
    until: Instant,
}

/// The way on of a request that finds nothing kept.
pub(super) enum FlightRole {
    /// Ask, and let others wait.
    Lead(Leader),
    /// Wait.
    Follow(Follower),
    /// Ask, and let nobody wait.
    Alone,
}

/// Whoever asks. The wait is over when this is dropped.
pub(super) struct Leader {
    pub(super) store: Arc<Store>,
    pub(super) key: Box<[u8]>,
    pub(super) flight: Arc<Flight>,
}

/// Whoever waits.
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

    fn age_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
    }

    /// The time that the next piece may still take; all of it before there is a first.
    fn patience(&self) -> Duration {
        let moved = self.moved.load(Ordering::Relaxed);
        let pause = if moved == 0 { 0 } else { self.age_ms().saturating_sub(moved) };
        PAUSE_MAX.saturating_sub(Duration::from_millis(pause))
    }

    /// The reply has begun, and goes on no more.
    pub(super) fn is_stuck(&self) -> bool {
        self.patience().is_zero()
    }

    /// Joins those who wait, if there is room and time.
    pub(super) fn follow(self: &Arc<Flight>) -> FlightRole {
        let follower = Follower(self.clone());
        let others = self.followers.fetch_add(1, Ordering::AcqRel);
        if others < FOLLOWERS_MAX && clock::now() < self.until {
            FlightRole::Follow(follower)
        } else {
            FlightRole::Alone
        }
    }
}

impl Leader {
    /// A piece of the reply has passed.
    pub(super) fn moved(&self) {
        self.flight.moved.store(self.flight.age_ms(), Ordering::Relaxed);
    }

    /// The reply is not one that is kept: those who wait go on, and for a while nobody waits for the like.
    pub(super) fn release(self) {
        self.store.leave_alone(&self.key);
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.store.land(&self.key, &self.flight);
        self.flight.landed.send_replace(true);
    }
}

impl Follower {
    /// Waits until the reply is kept, or is not going to be, or is stuck, or took too long. Whichever it was, the store tells.
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
