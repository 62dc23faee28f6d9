//! `endpoints`: the addresses that flows may call by `call: { url }`.

use std::time::Duration;

use serde_json::{Value as Json, json};

use super::{UpstreamTimeout, UpstreamTls};
use crate::decode::{Decode, Decoder, keys};
use crate::node::{Node, Value};
use crate::schema::SchemaBuilder;
use crate::sources::quote;
use crate::values::{Network, Spanned, TargetUrl, Timeout};

keys! {
    /// The addresses that flows may call by `call: { url }`. Private, loopback and link-local addresses are called only if `allow` lists
    /// them. Redirects are not followed.
    pub struct Endpoints {
        /// URLs such as `https://api.example.com`, or `https://*.example.com` for all subdomains, with a port if it is not the default of
        /// the scheme; and networks such as `10.0.0.0/8`.
        allow: Vec<Spanned<EndpointAllow>>,
        /// The timeout of a call, or the timeouts of an upstream.
        timeout: EndpointTimeout = EndpointTimeout::Whole(Timeout(Duration::from_secs(30))),
        /// TLS to `https` addresses.
        tls: UpstreamTls,
    }
}

/// An item of `allow`.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointAllow {
    /// An origin, by scheme, host and port.
    Url(TargetUrl),
    /// The origins of all subdomains of the host.
    Below(TargetUrl),
    /// Addresses.
    Network(Network),
}

/// The timeouts of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum EndpointTimeout {
    /// One timeout for the whole call.
    Whole(Timeout),
    /// The timeouts of an upstream.
    Parts(UpstreamTimeout),
}

impl Decode for EndpointAllow {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        let Some(text) = node.text().filter(|text| text.contains("://")) else {
            let help =
                "write a URL such as `https://*.example.com`, or a network such as `10.0.0.0/8`";
            // Other texts may be hosts without a scheme.
            let is_network = node.text().is_some_and(|text| {
                let is_v6 = text.contains(':');
                let fits = |byte: u8| {
                    byte.is_ascii_digit()
                        || is_v6 && byte.is_ascii_hexdigit()
                        || b":./".contains(&byte)
                };
                text.contains(['.', ':']) && text.bytes().all(fits)
            });
            return if is_network {
                Network::decode(node, decoder).map(Self::Network)
            } else {
                decoder.expected(node, "a URL or a network", help);
                None
            };
        };
        let text = text.strip_suffix('/').unwrap_or(text);
        let help = "write scheme, host and port, such as `https://*.example.com` or `http://10.0.0.7:8080`";
        let (scheme, authority) = text.split_once("://").unwrap_or(("", ""));
        let below = authority.strip_prefix("*.");
        let url = format!("{scheme}://{}", below.unwrap_or(authority));
        let read = if url.contains('*') {
            Err(format!("in {}, `*` is allowed only as the whole first label", quote(text)))
        } else {
            TargetUrl::parse(&url)
        };
        match (read, below) {
            (Ok(url), Some(_)) if url.host.parse::<std::net::IpAddr>().is_ok() => {
                decoder.error(node.at, format!("{} has no subdomains", quote(&url.host)), help);
                None
            }
            (Ok(url), Some(_)) => Some(Self::Below(url)),
            (Ok(url), None) => Some(Self::Url(url)),
            (Err(why), _) => {
                decoder.error(node.at, why, help);
                None
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Url(url) => url.to_string().into(),
            Self::Below(url) => url.to_string().replacen("://", "://*.", 1).into(),
            Self::Network(network) => network.encode(),
        }
    }

    fn schema(_: &mut SchemaBuilder) -> Json {
        json!({ "type": "string" })
    }
}

impl Decode for EndpointTimeout {
    fn decode(node: &Node, decoder: &mut Decoder<'_>) -> Option<Self> {
        match &node.value {
            Value::Map(_) => UpstreamTimeout::decode(node, decoder).map(Self::Parts),
            Value::Null | Value::Unreadable | Value::Scalar(_) | Value::List(_) => {
                Timeout::decode(node, decoder).map(Self::Whole)
            }
        }
    }

    fn encode(&self) -> Json {
        match self {
            Self::Whole(timeout) => timeout.encode(),
            Self::Parts(timeout) => timeout.encode(),
        }
    }

    fn schema(schema: &mut SchemaBuilder) -> Json {
        json!({ "anyOf": [Timeout::schema(schema), UpstreamTimeout::schema(schema)] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Report;
    use crate::sources::At;

    #[test]
    fn a_host_without_a_scheme_is_not_taken_for_a_network() {
        let said = |text: &str| {
            let mut report = Report::default();
            let read = crate::decode::<EndpointAllow>(&text.into(), At::NOWHERE, &mut report);
            read.map_or_else(|| report.to_string(), |_| "good".to_owned())
        };
        for host in ["api.example.com", "api.example.com:8443", "localhost", "a.cafe"] {
            assert!(said(host).contains("expected a URL or a network"), "{}", said(host));
        }
        for good in ["10.0.0.0/8", "127.0.0.1", "fd00::/8", "https://*.example.com"] {
            assert_eq!(said(good), "good", "{good}");
        }
        assert!(said("10.0.0.0/99").contains("is not a network"), "{}", said("10.0.0.0/99"));
    }
}
