//! The contract of stores, as one suite that every implementation passes.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test fails by panicking"
)]

mod embedded;
mod kill;
mod linked;
mod memory;
mod postgres;
mod releases;
#[path = "../../../../../tests/harness/postgres.rs"]
#[allow(dead_code, reason = "the black-box suite uses more of it")]
mod server;
mod slow;
mod suite;

use std::time::{Duration, Instant};

/// What a server with TLS has; none has it here.
#[allow(dead_code, reason = "the black-box suite uses it")]
struct Identity {
    certificate: String,
    key: String,
}

/// Waits until `holds`.
#[track_caller]
#[allow(clippy::disallowed_methods, reason = "a test waits in real time")]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < Duration::from_secs(60), "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}
