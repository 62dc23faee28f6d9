//! Expressions and templates as a flow uses them.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    clippy::print_stdout,
    reason = "a test ends where it is surprised, and a suite that is missing says how to get it"
)]

mod cel;
mod expressions;
mod jsonpath;
mod message;
mod templates;
