//! Listeners.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;

/// A socket that clients connect to, with its limits.
#[derive(Debug, Clone, PartialEq)]
pub struct Listener {
    pub name: String,
    pub address: SocketAddr,
    pub tls: Option<tls::Server>,
    /// By ALPN on TLS, by prior knowledge on plain connections.
    pub http2: bool,
    /// True if every connection begins with a PROXY protocol header (v1 or v2).
    pub proxy_protocol: bool,
    /// Peers whose `X-Forwarded-*` headers are believed.
    pub trusted_proxies: Vec<IpNet>,
    pub paths: PathRules,
    pub limits: Limits,
    pub timeout: Timeouts,
}

impl Listener {
    /// The place in the configuration of a listener's certificate: that of a host, or the default one.
    pub fn certificate_place(listener: &str, host: Option<&str>) -> String {
        match host {
            None => format!("listen.{listener}.tls"),
            Some(host) => format!("listen.{listener}.tls.sni.{host}"),
        }
    }
}

/// The rules for spellings of a path that servers read differently. A path that is not refused is forwarded as it was matched.
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
    /// Part of the segment's name; forwarded unchanged.
    Keep,
    /// Read as slashes.
    Decode,
}

/// Two slashes in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptySegments {
    /// Read as one slash.
    #[default]
    Merge,
    Refuse,
    Keep,
}

/// `;` and the rest of the segment after it (RFC 3986, 3.3).
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
    /// Open connections over all workers; above it the connection that is idle longest is closed for a new one, or the new one
    /// is closed.
    pub connections_max: usize,
    /// An operator wrote that number: it is not the default.
    pub connections_max_written: bool,
    /// Open connections of one client over all workers; above it new ones are closed.
    pub connections_per_client: Option<usize>,
    /// Concurrent HTTP/2 streams of a connection.
    pub streams_max: u32,
    /// Minimum rate of a request's body in bytes a second; 0 for any; below it 408.
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
    /// For a tunnel in which nothing passes; after it both ends are closed. Once one end has finished, [`Self::idle`] applies.
    pub tunnel: Duration,
    /// For the TLS handshake and the PROXY protocol header.
    pub tls: Duration,
}

impl Listener {
    /// True if this peer's headers about its client are believed.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|net| net.contains(&peer.to_canonical()))
    }
}
