//! The gateway's small standard library: the only place that reads the clock, starts tasks and owns scratch memory.
//!
//! Everything here is mechanism without policy. No crate of the hot path calls `Instant::now` or `tokio::spawn` itself, so that uses of
//! time and tasks are easy to find. It has nothing specific to HTTP.

pub mod activation;
pub mod alarm;
pub mod calendar;
pub mod clock;
pub mod dial;
pub mod digits;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod hash;
pub mod hex;
pub mod memory;
pub mod names;
pub mod pack;
pub mod percent;
pub mod regex_error;
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

/// A boxed future that is not `Send`, such as the return value of a step that may wait.
pub type LocalBoxFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = T> + 'a>>;
