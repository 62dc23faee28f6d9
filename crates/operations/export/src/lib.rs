//! What the gateway sends about its traffic to receivers on the network: lines of logs, and spans.
//!
//! Owns the receivers' protocols: OTLP over HTTP and gRPC, batches of lines over HTTP, lines over TCP and UDP, and syslog. Each
//! receiver has a thread of its own; no request ever waits for one, and what a receiver does not take in time is dropped and counted.
#![forbid(unsafe_code)]

mod client;
mod collector;
mod lines;
mod log_records;
mod resource;
mod socket;
mod spans;
mod syslog;

pub use collector::{Collector, CollectorProtocol};
pub use lines::LineReceiver;
pub use socket::{SocketReceiver, Transport};
pub use spans::{SpanCollector, SpanExporter};
