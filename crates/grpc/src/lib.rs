//! The wire format of gRPC beside its messages: statuses, deadlines, content types, the framing of gRPC-Web, and the two messages
//! of the health protocol.
//!
//! Owns what the specification writes into header lines and frame prefixes, as bytes. It never reads a message of a service, and
//! knows nothing of connections: HTTP/2 carries what is written here.
#![forbid(unsafe_code)]

mod content;
pub mod health;
mod status;
mod timeout;
pub mod web;

pub use content::Dialect;
pub use status::{Outcome, Status, encode_message};
pub use timeout::{InvalidTimeout, read_timeout, write_timeout};
