//! Our small standard library: the only place that reads the clock, starts tasks, owns scratch memory and touches raw sockets.
//!
//! Everything here is mechanism without policy. No crate of the hot path calls `Instant::now` or `tokio::spawn` itself, so that
//! time and tasks are easy to find. It knows nothing of HTTP.

pub mod alarm;
pub mod calendar;
pub mod clock;
pub mod dial;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod memory;
pub mod names;
pub mod pack;
pub mod percent;
pub mod scratch;
pub mod stand_in;
pub mod task;
mod text_position;
pub mod turns;
pub mod wire;

pub use alarm::{Alarm, SharedAlarm};
pub use task::spawn;
pub use text_position::TextPosition;
pub use wire::{Duplex, Wire};

/// A boxed future that stays on its thread: the return value of a step that may wait.
pub type LocalBoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;
