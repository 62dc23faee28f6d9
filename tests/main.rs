//! Black box: the program as a user starts it, on real sockets. One module per subject.
#![cfg(test)]
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::disallowed_methods,
    reason = "a test says what is wrong by panicking, and waits by the real clock"
)]

mod harness;

mod admin;
mod aftermath;
mod configuration;
mod encrypted;
mod forwarding;
mod http2;
mod program;
mod proxied;
mod refusals;
mod reload;
mod routing;
mod scale;
mod shutdown;
mod streaming;
mod telemetry;
mod upgrades;
mod upstreams;
mod wire;
