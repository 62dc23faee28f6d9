//! Listeners.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

/// A socket that clients connect to, and what it grants them.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    pub name: String,
    pub address: SocketAddr,
    pub tls: Option<tls::Server>,
    /// By ALPN on TLS, by prior knowledge on plain connections.
    pub http2: bool,
    /// Every connection begins with a PROXY protocol header (v1 or v2).
    pub proxy_protocol: bool,
    /// Peers whose `X-Forwarded-*` is believed.
    pub trusted_proxies: Vec<IpNet>,
    pub paths: PathRules,
    pub limits: Limits,
    pub timeout: Timeouts,
}

/// How spellings of a path are read that servers read differently. What is not refused is forwarded as it was matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathRules {
    pub escaped_slash: EscapedSlash,
    pub empty_segments: EmptySegments,
    pub parameters: PathParameters,
}

/// `%2F` and `%5C`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EscapedSlash {
    #[default]
    Refuse,
    /// They are a segment's own, and forwarded as they came.
    Keep,
    /// They are slashes.
    Decode,
}

/// Two slashes with nothing between them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptySegments {
    /// They are one slash.
    #[default]
    Merge,
    Refuse,
    Keep,
}

/// `;` and what follows it in a segment (RFC 3986, 3.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PathParameters {
    #[default]
    Refuse,
    Strip,
    Keep,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Request line and header lines together; past it 431.
    pub head_bytes_max: usize,
    /// Request target; past it 414.
    pub target_bytes_max: usize,
    /// Header lines; past it 431.
    pub headers_max: usize,
    /// Open connections over all workers; past it a new one takes the place of one that is idle, or is closed.
    pub connections_max: usize,
    /// Open connections of one client over all workers; past it new ones are closed.
    pub connections_per_client: Option<usize>,
    /// Concurrent HTTP/2 streams a connection.
    pub streams_max: u32,
    /// Bytes a second that a request's body has to come at; 0 for any; past it 408.
    pub body_rate_min: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// For the whole head, from its first byte (or from the connection's start); past it 408.
    pub head: Duration,
    /// Between two pieces of a body, and for the client to take a piece of the reply; past it 408 or a close.
    pub body: Duration,
    /// For a whole request body, from its head on; past it 408.
    pub body_total: Option<Duration>,
    /// Between two requests of a connection; past it the connection closes silently.
    pub idle: Duration,
    /// For a tunnel through which nothing passes; past it both its ends close. One with one end done has [`Self::idle`].
    pub tunnel: Duration,
    /// For the TLS handshake and the PROXY protocol header.
    pub tls: Duration,
}

impl Listener {
    /// Whether what this peer says about its client is believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|net| net.contains(&peer.to_canonical()))
    }
}
