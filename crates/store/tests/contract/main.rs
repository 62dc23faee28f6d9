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
mod memory;
mod suite;
