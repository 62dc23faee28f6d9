//! A gateway in memory: a configuration compiled by the real `config` and `compile`, served by the real `listen`, `pipeline`,
//! `policies` and `upstream`, between a scripted client and scripted services. It uses one thread, a paused clock and no sockets.
//!
//! Owns the simulated peers ([`Wire`], [`Services`], [`Client`]), and the parsing of bytes written to them ([`Message`]). It does not
//! decide what a gateway should do. Its users decide that: the contract suite in `tests`, and the fuzz targets with their judges in
//! [`judge`]. A request enters by [`Gateway::exchange`] and leaves as an [`Outcome`]. The program does not use this crate.
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

/// The time, by the paused clock, after which a test is stuck. It is longer than any wait.
const STUCK_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

thread_local! {
    /// One runtime per thread, as in a worker, since `kit` keeps its timers from one wait to the next.
    static RUNTIME: Option<LocalRuntime> = runtime();
}

fn runtime() -> Option<LocalRuntime> {
    let mut builder = Builder::new_current_thread();
    // Harmless: `run` panics if there is none.
    builder.enable_time().start_paused(true).build_local(LocalOptions::default()).ok()
}

/// Runs a test on this thread's runtime. Its clock is paused while there is work, and otherwise jumps to the next deadline.
///
/// # Panics
///
/// If the test does not end, or no runtime can be created.
#[allow(clippy::expect_used, reason = "a test fails by a panic")]
pub fn run<T>(test: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| {
        let runtime = runtime.as_ref().expect("a runtime can be made");
        let bounded = async { tokio::time::timeout(STUCK_AFTER, test).await };
        runtime.block_on(bounded).expect("the test is stuck")
    })
}
