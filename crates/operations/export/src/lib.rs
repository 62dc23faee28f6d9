//! Sends data about the traffic to receivers on the network: log lines and spans.
//!
//! Owns the receivers' protocols: OTLP over HTTP and gRPC, batches of lines over HTTP, lines over TCP and UDP, and syslog. Each
//! receiver has its own thread. Requests never wait for a receiver; data that it does not accept in time is dropped and counted.
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
