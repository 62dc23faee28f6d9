//! Determines the scheme and the host under which the client reaches the gateway, for links to the gateway itself.

use message::RequestHead;

use crate::{Exchange, Scheme};

/// The maximum length of a trusted host value: a DNS name and a port.
const HOST_BYTES_MAX: usize = 253 + 6;

impl Exchange {
    /// Returns the scheme and the host that the client used: those in `X-Forwarded-Proto` and `X-Forwarded-Host` of a trusted proxy, or
    /// else those of the request and its connection. If several proxies have added values, the first one is from the proxy nearest to the
    /// client.
    pub fn public_origin<'h>(&self, head: &'h RequestHead) -> (&'static str, &'h [u8]) {
        let scheme = match self.first_trusted(head, "x-forwarded-proto") {
            Some(proto) if proto.eq_ignore_ascii_case(b"https") => Scheme::Https,
            Some(proto) if proto.eq_ignore_ascii_case(b"http") => Scheme::Http,
            Some(_) | None => self.caller.scheme,
        };
        let host = self.first_trusted(head, "x-forwarded-host").filter(|host| is_host(host));
        (scheme.name(), host.unwrap_or(head.host()))
    }

    /// Returns the first value of a header, if it comes from a trusted proxy.
    fn first_trusted<'h>(&self, head: &'h RequestHead, name: &str) -> Option<&'h [u8]> {
        let line = head.headers.get(name).filter(|_| self.peer_trusted)?;
        line.split(|byte| *byte == b',').next().map(<[u8]>::trim_ascii)
    }
}

/// Returns true if a value has only the characters of a host with or without a port.
fn is_host(value: &[u8]) -> bool {
    let is_of_host = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(byte);
    (1..=HOST_BYTES_MAX).contains(&value.len()) && value.iter().all(is_of_host)
}

#[cfg(test)]
mod tests {
    use message::Protocol;

    use super::*;
    use crate::Caller;

    #[test]
    fn only_a_trusted_proxy_overrides_the_scheme_and_the_host() {
        let peer = "192.0.2.1:1".parse().unwrap();
        let caller = Caller::new(peer, peer, Scheme::Http, 0).into();
        let mut ex = Exchange::new(caller, Default::default());
        for (is_trusted, lines, expected) in [
            (true, &[][..], ("http", "inner:8080")),
            (true, &[("X-Forwarded-Proto", "HTTPS")], ("https", "inner:8080")),
            (true, &[("X-Forwarded-Host", "hub.example")], ("http", "hub.example")),
            (
                true,
                &[("X-Forwarded-Host", "a.example:8443, b.example")],
                ("http", "a.example:8443"),
            ),
            (true, &[("X-Forwarded-Proto", "https, http")], ("https", "inner:8080")),
            (true, &[("X-Forwarded-Proto", "gopher")], ("http", "inner:8080")),
            (true, &[("X-Forwarded-Host", "evil/>; rel=x")], ("http", "inner:8080")),
            (true, &[("X-Forwarded-Host", "")], ("http", "inner:8080")),
            (
                false,
                &[("X-Forwarded-Proto", "https"), ("X-Forwarded-Host", "hub.example")],
                ("http", "inner:8080"),
            ),
        ] {
            ex.peer_trusted = is_trusted;
            let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/");
            head.headers.add("Host", b"inner:8080").unwrap();
            for (name, value) in lines {
                head.headers.add(name, value.as_bytes()).unwrap();
            }
            let (scheme, host) = ex.public_origin(&head);
            assert_eq!((scheme, std::str::from_utf8(host).unwrap()), expected, "{lines:?}");
        }
    }
}
