//! Tests a session with frames that a client sends. Its output is parsed as frames again.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::cast_possible_truncation,
    reason = "a test ends where it is surprised"
)]

mod frames;

mod answers;
mod arbitrary;
mod client;
mod floods;
mod windows;
