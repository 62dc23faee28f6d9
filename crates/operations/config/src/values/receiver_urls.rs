//! The addresses of receivers of logs and traces: OpenTelemetry collectors, and sockets.

use std::fmt;

use serde_json::Value as Json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::schema::{SchemaBuilder, text_like};
use crate::sources::quote;
use crate::values::{TargetUrl, WebUrl};

/// The address of a collector: `http://HOST:PORT`, `https://`, `grpc://` or `grpcs://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CollectorUrl {
    /// Scheme, host and port.
    pub target: TargetUrl,
    /// True for gRPC in place of HTTP.
    pub grpc: bool,
    /// The path, from the slash on; `/` for gRPC.
    pub path: String,
}

/// The address of a socket: `udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketUrl {
    /// The protocol.
    pub scheme: SocketScheme,
    /// The host and the port.
    pub target: TargetUrl,
}

/// The protocol of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketScheme {
    /// Datagrams.
    Udp,
    /// A stream.
    Tcp,
    /// A stream over TLS.
    Tls,
}

impl SocketScheme {
    /// Returns the scheme as written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Udp => "udp",
            Self::Tcp => "tcp",
            Self::Tls => "tls",
        }
    }
}

/// The default port of OTLP over HTTP.
const HTTP_PORT: u16 = 4318;
/// The default port of OTLP over gRPC.
const GRPC_PORT: u16 = 4317;

/// Returns the reason why a URL cannot be parsed, with the text that was written in place of the URL.
fn as_written(why: &str, parsed: &str, written: &str) -> String {
    why.replace(&quote(parsed), &quote(written))
}

impl CollectorUrl {
    /// Parses an address. The error is a text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("the collector {} {why}", quote(text));
        let (scheme, rest) = text.split_once("://").ok_or_else(|| bad("has no scheme"))?;
        let (grpc, tls) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (false, false),
            "https" => (false, true),
            "grpc" => (true, false),
            "grpcs" => (true, true),
            _ => return Err(bad("is neither http, https, grpc nor grpcs")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end).unwrap_or((rest, ""));
        let port = if grpc { GRPC_PORT } else { HTTP_PORT };
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        let authority = if has_port { authority.to_owned() } else { format!("{authority}:{port}") };
        let scheme = if tls { "https" } else { "http" };
        let parsed = format!("{scheme}://{authority}{path}");
        let read = WebUrl::parse(&parsed).map_err(|why| as_written(&why, &parsed, text));
        let WebUrl { target, path } = read?;
        if grpc && path != "/" {
            return Err(bad("has a path, but gRPC uses none"));
        }
        Ok(Self { target, grpc, path })
    }
}

impl fmt::Display for CollectorUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = self.target.to_string();
        let authority = written.split_once("://").map_or("", |(_, authority)| authority);
        let scheme = match (self.grpc, self.target.tls) {
            (false, false) => "http",
            (false, true) => "https",
            (true, false) => "grpc",
            (true, true) => "grpcs",
        };
        write!(f, "{scheme}://{authority}{}", self.path)
    }
}

impl Decode for CollectorUrl {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `http://HOST:4318`, `https://HOST:4318`, `grpc://HOST:4317` or `grpcs://HOST:4317`";
        decoder.parse(node, "the URL of a collector", help, Self::parse)
    }

    fn encode(&self) -> Json {
        self.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^([Hh][Tt][Tt][Pp]|[Gg][Rr][Pp][Cc])[Ss]?://[^#@]+$")
    }
}

impl SocketUrl {
    /// Parses an address. The error is a text.
    pub fn parse(text: &str) -> Result<Self, String> {
        let bad = |why: &str| format!("the address {} {why}", quote(text));
        let (scheme, authority) = text.split_once("://").ok_or_else(|| bad("has no scheme"))?;
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "udp" => SocketScheme::Udp,
            "tcp" => SocketScheme::Tcp,
            "tls" => SocketScheme::Tls,
            _ => return Err(bad("is neither udp, tcp nor tls")),
        };
        if authority.contains('/') {
            return Err(bad("has something after its port"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| !port.contains(']'));
        if !has_port {
            return Err(bad("has no port"));
        }
        let parsed = format!("http://{authority}");
        let target = TargetUrl::parse(&parsed).map_err(|why| as_written(&why, &parsed, text))?;
        Ok(Self { scheme, target })
    }
}

impl fmt::Display for SocketUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let written = self.target.to_string();
        let authority = written.split_once("://").map_or("", |(_, authority)| authority);
        write!(f, "{}://{authority}", self.scheme.name())
    }
}

impl Decode for SocketUrl {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `udp://HOST:PORT`, `tcp://HOST:PORT` or `tls://HOST:PORT`";
        decoder.parse(node, "the address of a socket", help, Self::parse)
    }

    fn encode(&self) -> Json {
        self.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^([Uu][Dd][Pp]|[Tt][Cc][Pp]|[Tt][Ll][Ss])://[^/?#@]+:[0-9]+$")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complaints_quote_what_was_written() {
        for text in ["grpc://a b", "http://:1", "grpcs://h:x"] {
            let why = CollectorUrl::parse(text).unwrap_err();
            assert!(why.contains(&quote(text)), "{why}");
        }
        for text in ["tcp://a b:1", "udp://:1", "tls://h:x"] {
            let why = SocketUrl::parse(text).unwrap_err();
            assert!(why.contains(&quote(text)), "{why}");
        }
    }
}
