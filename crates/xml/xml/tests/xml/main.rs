//! Tests of the public interface: events, errors with positions, budgets, trees, serialisation.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::wildcard_enum_match_arm,
    clippy::disallowed_methods,
    reason = "a test ends where it is surprised, and measures"
)]

mod again;
mod bad;
mod chunks;
mod entities;
mod events;
mod good;
mod hostile;
mod prefixes;
mod record;
mod templates;
mod tree;
mod written;
