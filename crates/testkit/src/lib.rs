//! A gateway in memory: a configuration compiled by the real `config` and `compile`, served by the real `listen`, `pipeline`,
//! `policies` and `upstream`, between a client and services that are scripts. One thread, a paused clock, no sockets.
//!
//! Owns the stand-ins for the peers ([`Wire`], [`Services`], [`Client`]), and the reading of bytes written to them ([`Message`]).
//! It decides nothing about what a gateway should do: that is for its users, the contract suite in `tests` and the fuzz
//! targets, whose judges are in [`judge`]. A request enters by [`Gateway::exchange`] and leaves as an [`Outcome`]. Nothing of the
//! program uses it.
#![forbid(unsafe_code)]

mod client;
mod gateway;
pub mod judge;
mod message;
mod services;
mod wire;

pub use client::{AfterSending, Client, Outcome};
pub use gateway::{Gateway, Gauges, NOW};
pub use message::{Message, MessageKind, read_messages};
pub use services::{ServiceAnswer, ServiceRequest, Services};
pub use wire::{Act, Wire};

use std::future::Future;
use std::time::Duration;

use tokio::runtime::{Builder, LocalOptions, LocalRuntime};

/// Longer by the paused clock than any wait: a test that still waits then waits for nothing.
const STUCK_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

thread_local! {
    /// One for the thread's life, as a worker has one: `kit` keeps timers of it for the next wait.
    static RUNTIME: Option<LocalRuntime> = runtime();
}

fn runtime() -> Option<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    // Harmless: `run` panics where there is none.
    builder.enable_time().start_paused(true).build_local(LocalOptions::default()).ok()
}

/// Runs a test on this thread's runtime, whose clock stands still while there is something to do and jumps to the next deadline
/// where there is not.
///
/// # Panics
///
/// If the test never ends, or no runtime can be made.
#[allow(clippy::expect_used, reason = "a test ends where it is surprised")]
pub fn run<T>(test: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| {
        let runtime = runtime.as_ref().expect("a runtime can be made");
        let bounded = async { tokio::time::timeout(STUCK_AFTER, test).await };
        runtime.block_on(bounded).expect("nothing will ever happen any more")
    })
}
