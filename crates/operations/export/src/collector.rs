//! The settings of a receiver that uses HTTP.

use std::fmt;
use std::time::Duration;

use upstream::UpstreamSettings;

/// A receiver that uses HTTP. Two are equal if their settings are.
#[derive(Clone, PartialEq)]
pub struct Collector {
    /// The connection settings: one target, without retries.
    pub upstream: UpstreamSettings,
    pub protocol: CollectorProtocol,
    /// Header lines of each request; they may be credentials.
    pub headers: Vec<(String, String)>,
    /// The time for one request and its answer.
    pub timeout: Duration,
}

/// The protocol of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectorProtocol {
    /// A POST to this path.
    Http(String),
    /// A unary gRPC call. Its name depends on the data.
    Grpc,
}

impl Collector {
    /// Its address, for logs.
    pub fn name(&self) -> String {
        match &self.protocol {
            CollectorProtocol::Http(path) => format!("{}{path}", self.upstream.name),
            CollectorProtocol::Grpc => format!("gRPC at {}", self.upstream.name),
        }
    }
}

/// Omits the headers, which may be credentials.
impl fmt::Debug for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Collector").field(&self.name()).finish()
    }
}
