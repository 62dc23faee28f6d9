//! The wire format of gRPC around its messages: statuses, deadlines, content types, the framing of gRPC-Web, and the two messages of the
//! health checking protocol.
//!
//! Owns the contents of header lines and frame prefixes that the specification defines. It never parses a message of a service, and knows
//! nothing about connections; HTTP/2 is implemented elsewhere.
#![forbid(unsafe_code)]

mod content;
pub mod health;
mod status;
mod timeout;
pub mod web;

pub use content::Dialect;
pub use status::{Outcome, Status, encode_message, trailer};
pub use timeout::{InvalidTimeout, read_timeout, write_timeout};
