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
    /// Whether HTTP/2 is accepted: by ALPN on TLS, by prior knowledge on plain connections.
    pub http2: bool,
    /// Whether every connection begins with a PROXY protocol header (v1 or v2).
    pub proxy_protocol: bool,
    /// Peers whose `X-Forwarded-*` headers are trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// Whether such headers of other peers are sent on, though the gateway does not believe them.
    pub pass_untrusted_headers: bool,
    pub paths: PathRules,
    pub limits: Limits,
    pub timeout: Timeouts,
}

impl Listener {
    /// Returns the place in the configuration of a listener's certificate: that of a host, or the default one.
    pub fn certificate_place(listener: &str, host: Option<&str>) -> String {
        match host {
            None => format!("listen.{listener}.tls"),
            Some(host) => format!("listen.{listener}.tls.sni.{host}"),
        }
    }
}

/// The rules for spellings of a path that servers interpret differently. A path that is not refused is forwarded as it was matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PathRules {
    pub escaped_slash: EscapedSlash,
    pub empty_segments: EmptySegments,
    pub parameters: PathParameters,
}

/// How `%2F` and `%5C` in a path are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EscapedSlash {
    #[default]
    Refuse,
    /// The escape is part of the segment's name, and is forwarded unchanged.
    Keep,
    /// The escape is treated as a slash.
    Decode,
}

/// How two slashes in a row are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptySegments {
    /// They are treated as one slash.
    #[default]
    Merge,
    Refuse,
    Keep,
}

/// How a `;` and the rest of the segment after it (RFC 3986, 3.3) are treated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PathParameters {
    #[default]
    Refuse,
    Strip,
    Keep,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of the request line and header lines together. Larger heads get 431.
    pub head_bytes_max: usize,
    /// The maximum size of the request target. Longer ones get 414.
    pub target_bytes_max: usize,
    /// The maximum number of header lines. More get 431.
    pub headers_max: usize,
    /// The maximum number of open connections over all workers. Beyond it, the connection that has been idle longest is closed to make room
    /// for a new one. If none is idle, the new connection is closed.
    pub connections_max: usize,
    /// Whether the operator has set `connections_max`, rather than leaving the default.
    pub connections_max_written: bool,
    /// The maximum number of open connections of one client over all workers. Beyond it, new connections are closed.
    pub connections_per_client: Option<usize>,
    /// The maximum number of concurrent HTTP/2 streams of a connection.
    pub streams_max: u32,
    /// The minimum rate of a request body, in bytes per second; 0 for no minimum. Slower requests get 408.
    pub body_rate_min: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Timeouts {
    /// The timeout for the whole head, from its first byte or from the start of the connection. When it expires, the client gets 408.
    pub head: Duration,
    /// The timeout between two pieces of a request body, and for the client to take a piece of the reply. When it expires, the client gets
    /// 408, or the connection is closed.
    pub body: Duration,
    /// The timeout for a whole request body, from its head on. When it expires, the client gets 408.
    pub body_total: Option<Duration>,
    /// The idle timeout between two requests of a connection. When it expires, the connection is closed without a reply.
    pub idle: Duration,
    /// The idle timeout of a tunnel, after which both ends are closed. Once one end has finished, [`Self::idle`] applies.
    pub tunnel: Duration,
    /// The timeout for the TLS handshake and the PROXY protocol header.
    pub tls: Duration,
}

impl Listener {
    /// Returns true if this peer's headers about its client are trusted.
    pub fn trusts(&self, peer: IpAddr) -> bool {
        self.trusted_proxies.iter().any(|net| net.contains(&peer.to_canonical()))
    }
}
