//! Addresses to listen at, to trust and to connect to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value as Json;
use serde_json::json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::report::quote;
use crate::schema::{SchemaBuilder, text_like};

/// An address of this machine and a port; port 0 takes any free one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// A block of addresses: `10.0.0.0/8`, or one address alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

/// The address of an upstream's target: scheme, host and port, and nothing after that.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetUrl {
    /// True for `https`.
    pub tls: bool,
    /// A name or an address, an IPv6 address without its brackets.
    pub host: String,
    /// The port written, else the scheme's own.
    pub port: u16,
}

/// The longest name DNS can carry.
const HOST_BYTES_MAX: usize = 253;

impl Decode for Address {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write an address and a port in quotes: \"0.0.0.0:8080\", \"127.0.0.1:0\", \"[::]:8080\"";
        decoder.parse(node, "an address and a port", help, |text| {
            let numeric = match text.strip_prefix("localhost:") {
                Some(port) => format!("{}:{port}", Ipv4Addr::LOCALHOST),
                None => text.to_owned(),
            };
            let address = numeric.parse().map(Self);
            address.map_err(|_| format!("{} is not an address and a port", quote(text)))
        })
    }

    fn encode(&self) -> Json {
        self.0.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^.+:[0-9]{1,5}$")
    }
}

impl Decode for Network {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write a network like `10.0.0.0/8` or `fd00::/8`, or one address";
        decoder.parse(node, "a network", help, |text| {
            let alone = text.parse::<IpAddr>().map(IpNet::from);
            let network = alone.or_else(|_| text.parse::<IpNet>());
            network
                .map(|network| Self(network.trunc()))
                .map_err(|_| format!("{} is not a network", quote(text)))
        })
    }

    fn encode(&self) -> Json {
        self.0.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "string" })
    }
}

impl TargetUrl {
    /// Reads `http://HOST:PORT`; says what is wrong with another text.
    pub fn parse(text: &str) -> Result<TargetUrl, String> {
        target_url(text)
    }
}

impl Decode for TargetUrl {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help =
            "write `http://HOST:PORT` or `https://HOST:PORT`; paths are changed on the route";
        decoder.parse(node, "a target's URL", help, target_url)
    }

    fn encode(&self) -> Json {
        self.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+/?$")
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "https" } else { "http" };
        match self.host.contains(':') {
            true => write!(f, "{scheme}://[{}]:{}", self.host, self.port),
            false => write!(f, "{scheme}://{}:{}", self.host, self.port),
        }
    }
}

fn target_url(text: &str) -> Result<TargetUrl, String> {
    let bad = |why: &str| format!("the target {} {why}", quote(text));
    let Some((scheme, rest)) = text.split_once("://") else {
        return Err(bad("has no scheme"));
    };
    let tls = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err(bad("is neither http nor https")),
    };
    let authority = rest.strip_suffix('/').unwrap_or(rest);
    if authority.contains(['/', '?', '#']) {
        return Err(bad("has something after its host and port"));
    }
    if authority.contains('@') {
        return Err("a target with a user name or password in it".to_owned());
    }
    let (host, port) = split_port(authority).ok_or_else(|| bad("has a bad IPv6 address"))?;
    let port = match port {
        Some(port) => {
            port.parse().ok().filter(|port| *port != 0).ok_or_else(|| bad("has a bad port"))?
        }
        None if tls => 443,
        None => 80,
    };
    if !is_host(host) {
        return Err(bad("has a bad host"));
    }
    Ok(TargetUrl { tls, host: host.to_ascii_lowercase(), port })
}

/// Host without brackets, and port; nothing if brackets hold no IPv6 address.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        // Harmless: the caller complains of it.
        host.parse::<Ipv6Addr>().ok()?;
        return match rest.strip_prefix(':') {
            Some(port) => Some((host, Some(port))),
            None => rest.is_empty().then_some((host, None)),
        };
    }
    Some(match authority.split_once(':') {
        Some((host, port)) => (host, Some(port)),
        None => (authority, None),
    })
}

fn is_host(host: &str) -> bool {
    let name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let named = !host.is_empty() && host.len() <= HOST_BYTES_MAX && host.chars().all(name);
    named || host.parse::<Ipv6Addr>().is_ok()
}
