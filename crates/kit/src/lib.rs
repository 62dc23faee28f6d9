//! Our small std: the one place that reads the clock, spawns, owns scratch memory and touches raw sockets.
//!
//! Everything here is mechanism without opinion: no crate of the hot path calls `Instant::now` or `tokio::spawn`
//! itself, so that time and tasks stay in sight. It knows nothing of HTTP.

pub mod alarm;
pub mod calendar;
pub mod clock;
pub mod dial;
pub mod pack;
pub mod percent;
pub mod scratch;
pub mod task;
pub mod wire;

pub use alarm::{Alarm, SharedAlarm};
pub use task::spawn;
pub use wire::{Duplex, Wire};

/// A future that stays on its thread, boxed: what a step that may wait returns.
pub type LocalBoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;
