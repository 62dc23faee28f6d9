//! The headers in which a proxy describes the client and its request to the next server.

use crate::token::is_alias;

/// Names of headers that describe the client and its request to servers and frameworks, sorted by length.
const NAMES: [&[u8]; 29] = [
    b"client-ip",
    b"forwarded",
    b"x-real-ip",
    b"x-forwarded",
    b"x-client-ip",
    b"x-remote-ip",
    b"fly-client-ip",
    b"x-remote-addr",
    b"x-rewrite-url",
    b"cf-pseudo-ipv4",
    b"true-client-ip",
    b"x-original-url",
    b"x-proxyuser-ip",
    b"incap-client-ip",
    b"proxy-client-ip",
    b"x-original-host",
    b"akamai-client-ip",
    b"cf-connecting-ip",
    b"fastly-client-ip",
    b"x-azure-clientip",
    b"x-azure-socketip",
    b"x-originating-ip",
    b"x-sucuri-clientip",
    b"cf-connecting-ipv6",
    b"wl-proxy-client-ip",
    b"x-appengine-user-ip",
    b"x-cluster-client-ip",
    b"x-envoy-external-address",
    b"cloudfront-viewer-address",
];

/// For each length of a name, the set of first letters and the set of last letters, as bits. They rule out most header lines without a
/// comparison of names.
#[allow(clippy::indexing_slicing, reason = "what is out of bounds in a constant does not compile")]
const ENDS: [(u32, u32); LENGTH_MAX + 1] = {
    let (mut ends, mut rest) = ([(0, 0); LENGTH_MAX + 1], NAMES.as_slice());
    while let [name, after @ ..] = rest {
        let (first, last) = ends[name.len()];
        ends[name.len()] = (first | letter(name[0]), last | letter(name[name.len() - 1]));
        rest = after;
    }
    ends
};
const LENGTH_MAX: usize = 26;

/// Returns the bit of a letter, ignoring case.
const fn letter(byte: u8) -> u32 {
    1 << (byte & 0x1f)
}

/// Returns true if only a trusted proxy may send this header: it states the client, or the host, scheme or path of the request. This
/// includes all of `X-Forwarded-*`, and spellings with underscores.
pub fn is_forwarding(name: &[u8]) -> bool {
    const FAMILY: &[u8] = b"x-forwarded-";
    let (Some(first), Some(last)) = (name.first(), name.last()) else { return false };
    let (first, last) = (letter(*first), letter(*last));
    let may_be = ENDS.get(name.len()).is_some_and(|ends| ends.0 & first != 0 && ends.1 & last != 0);
    let is_named = || NAMES.iter().any(|known| known.len() == name.len() && is_alias(name, known));
    let is_family = || name.get(..FAMILY.len()).is_some_and(|start| is_alias(start, FAMILY));
    may_be && is_named() || first == letter(b'x') && is_family()
}

/// Headers in which the gateway itself tells upstreams the scheme, host, port or path of a request, or its client.
const ORIGIN: [&[u8]; 6] = [
    b"x-real-ip",
    b"x-forwarded-proto",
    b"x-forwarded-host",
    b"x-forwarded-port",
    b"x-forwarded-path",
    b"x-forwarded-prefix",
];

/// Returns true if this header states the scheme, host, port or path of a request, as the gateway itself does. This includes spellings with
/// underscores.
pub fn states_origin(name: &[u8]) -> bool {
    ORIGIN.iter().any(|known| is_alias(name, known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_about_the_client_are_recognised() {
        for name in [
            "Forwarded",
            "X-Forwarded",
            "X-Forwarded-For",
            "x_forwarded_for",
            "X-Forwarded-Client-Cert",
            "X-Forwarded-Prefix",
            "X_Real_IP",
            "CF-Connecting-IP",
            "cf_connecting_ip",
            "Fastly_Client-IP",
        ] {
            assert!(is_forwarding(name.as_bytes()), "{name}");
        }
        for name in NAMES {
            assert!(is_forwarding(name), "{}", name.escape_ascii());
        }
        for name in ["Forward", "X-Forward-For", "X-Request-Id", "Via", "X-User", "CF-Ray", ""] {
            assert!(!is_forwarding(name.as_bytes()), "{name}");
        }
        assert!(!is_forwarding(&b"x-a".repeat(99)));
    }
}
