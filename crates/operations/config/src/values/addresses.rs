//! Addresses to listen on, to trust and to connect to.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;
use serde_json::Value as Json;
use serde_json::json;

use crate::decode::{Decode, Decoder};
use crate::node::Node;
use crate::schema::{SchemaBuilder, text_like};
use crate::sources::quote;

/// An address of this machine and a port. With port 0, a free port is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address(pub SocketAddr);

/// A network such as `10.0.0.0/8`, or a single address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network(pub IpNet);

/// The address of an upstream's target: only scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TargetUrl {
    /// True for `https`.
    pub tls: bool,
    /// A name or an address, an IPv6 address without its brackets.
    pub host: String,
    /// The port as written, or else the default of the scheme.
    pub port: u16,
}

/// An entry of an upstream's list of targets.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TargetAddress {
    Url(TargetUrl),
    Service(SrvUrl),
}

/// A service whose targets are in DNS: `srv+http://_orders._tcp.example.com`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SrvUrl {
    /// True for `srv+https`.
    pub tls: bool,
    /// The name of the SRV records, in lower case and without a trailing dot.
    pub name: String,
}

/// A name server: an address, and a port if it is not 53.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameServer(pub SocketAddr);

/// The port of DNS.
const DNS_PORT: u16 = 53;

/// The maximum length of a label (RFC 1035, 2.3.4).
const LABEL_BYTES_MAX: usize = 63;

/// The maximum length of a name in DNS.
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
    /// Parses `http://HOST:PORT`. The error is a text.
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
        if self.host.contains(':') {
            write!(f, "{scheme}://[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{scheme}://{}:{}", self.host, self.port)
        }
    }
}

impl TargetAddress {
    /// Returns true if it is reached by TLS.
    pub fn tls(&self) -> bool {
        match self {
            TargetAddress::Url(url) => url.tls,
            TargetAddress::Service(service) => service.tls,
        }
    }
}

impl Decode for TargetAddress {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write `http://HOST:PORT` or `https://HOST:PORT`, or `srv+http://_SERVICE._tcp.DOMAIN` for SRV records; paths are changed on the route";
        decoder.parse(node, "a target's URL", help, |text| {
            let scheme = text.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
            match scheme.as_deref() {
                Some("srv+http") => srv_url(text, false).map(Self::Service),
                Some("srv+https") => srv_url(text, true).map(Self::Service),
                Some(_) | None => target_url(text).map(Self::Url),
            }
        })
    }

    fn encode(&self) -> Json {
        self.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        text_like("^([Ss][Rr][Vv]\\+)?[Hh][Tt][Tt][Pp][Ss]?://[^/?#@]+/?$")
    }
}

impl fmt::Display for TargetAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TargetAddress::Url(url) => url.fmt(f),
            TargetAddress::Service(service) => service.fmt(f),
        }
    }
}

impl fmt::Display for SrvUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.tls { "srv+https" } else { "srv+http" };
        write!(f, "{scheme}://{}", self.name)
    }
}

impl Decode for NameServer {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let help = "write the address of a name server, with a port if it is not 53: \"10.0.0.2\", \"127.0.0.1:5353\"";
        decoder.parse(node, "a name server", help, |text| {
            let alone = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, DNS_PORT));
            let read = alone.or_else(|_| text.parse::<SocketAddr>());
            let read = read.map_err(|_| format!("{} is not an address", quote(text)))?;
            match read.port() {
                0 => Err(format!("{} has a bad port", quote(text))),
                _ => Ok(Self(read)),
            }
        })
    }

    fn encode(&self) -> Json {
        self.0.to_string().into()
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "string" })
    }
}

fn srv_url(text: &str, tls: bool) -> Result<SrvUrl, String> {
    let bad = |why: &str| format!("the target {} {why}", quote(text));
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let name = rest.strip_suffix('/').unwrap_or(rest);
    let name = name.strip_suffix('.').unwrap_or(name);
    if name.contains(['/', '?', '#']) {
        return Err(bad("has something after its name"));
    }
    if name.contains('@') {
        return Err("a target cannot have a user name or password".to_owned());
    }
    if name.starts_with('[') || name.parse::<IpAddr>().is_ok() {
        return Err(bad("is an address, which has no SRV records"));
    }
    if name.contains(':') {
        return Err(bad("has a port, but the SRV records define the ports"));
    }
    let is_label = |label: &str| !label.is_empty() && label.len() <= LABEL_BYTES_MAX;
    if !is_host(name) || !name.split('.').all(is_label) {
        return Err(bad("has a name that is not valid in DNS"));
    }
    Ok(SrvUrl { tls, name: name.to_ascii_lowercase() })
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
        return Err("a target cannot have a user name or password".to_owned());
    }
    let (host, port) = split_port(authority).ok_or_else(|| bad("has a bad IPv6 address"))?;
    let port = match port {
        Some(port) => match kit::digits::whole::<u16>(port) {
            None | Some(0) => return Err(bad("has a bad port")),
            Some(number) => number,
        },
        None if tls => 443,
        None => 80,
    };
    if !is_host(host) {
        return Err(bad("has a bad host"));
    }
    Ok(TargetUrl { tls, host: host.to_ascii_lowercase(), port })
}

/// Returns the host without brackets, and the port, or `None` if brackets contain no IPv6 address.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    if let Some(bracketed) = authority.strip_prefix('[') {
        let (host, rest) = bracketed.split_once(']')?;
        // Harmless: the caller reports the error.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_a_target_is_digits() {
        let port = |text: &str| TargetUrl::parse(text).map(|url| url.port);
        assert_eq!(port("http://h:8080"), Ok(8080));
        assert_eq!(port("https://[::1]"), Ok(443));
        for text in ["http://h:+80", "http://h:", "http://h:0", "http://[::1]:+80", "http://h: 80"]
        {
            assert_eq!(port(text), Err(format!("the target `{text}` has a bad port")), "{text}");
        }
    }
}
