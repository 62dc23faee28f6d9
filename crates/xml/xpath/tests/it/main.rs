//! Tables of expressions, documents, and expected values.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test ends where it is surprised"
)]

mod arbitrary;
mod budgets;
mod core;
mod errors;
mod hosts;
mod oracle;
mod patterns;
mod support;
mod xpath2;
