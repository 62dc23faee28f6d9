//! Request headers that may affect the reply. A request with such a header bypasses the cache, or the header is part of the key. Upstreams
//! must list all other headers that affect a reply in `Vary`.
//!
//! When names are compared, `_` equals `-`: backends that read headers as CGI variables cannot distinguish them.

use message::Headers;

/// Why a request bypasses the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bypass {
    /// The body is not part of the key (RFC 9110, 9.3.1: the body of a GET has no meaning, but some upstreams use it).
    Body,
    /// The upstream may treat the request as one with another method.
    MethodOverride,
    /// The reply may be private to the client with the cookie.
    Cookie,
    /// The client forbids storing the reply.
    NoStore,
    /// The cache neither stores nor creates partial replies.
    Range,
    /// The reply has no body to store.
    Head,
}

impl Bypass {
    /// The value of `detail` in `Cache-Status` (RFC 9211, 2.8).
    pub(super) fn word(self) -> &'static str {
        match self {
            Bypass::Body => "body",
            Bypass::MethodOverride => "method-override",
            Bypass::Cookie => "cookie",
            Bypass::NoStore => "no-store",
            Bypass::Range => "range",
            Bypass::Head => "head",
        }
    }

    pub(super) fn of(headers: &Headers, has_body: bool, ignores_cookies: bool) -> Option<Bypass> {
        if has_body {
            return Some(Bypass::Body);
        }
        let mut found = None;
        for (name, _) in headers.iter() {
            if overrides_method(name) {
                return Some(Bypass::MethodOverride);
            }
            if !ignores_cookies && name.eq_ignore_ascii_case(b"cookie") {
                found = Some(Bypass::Cookie);
            }
        }
        found
    }
}

/// Returns true for headers by which some frameworks let a client override the method.
fn overrides_method(name: &[u8]) -> bool {
    let is = |other: &[u8]| name.len() == other.len() && begins(name, other);
    match name.len() {
        13 => is(b"x-http-method"),
        17 => is(b"x-method-override"),
        22 => is(b"x-http-method-override"),
        _ => false,
    }
}

/// Returns the headers about the URL that the client used, from which upstreams make links and redirects. Each is preceded by a line feed,
/// which no value contains.
pub(super) fn keyed_lines(headers: &Headers) -> Vec<u8> {
    let mut keyed = Vec::new();
    for (name, value) in headers.iter().filter(|(name, _)| tells_url(name)) {
        keyed.push(b'\n');
        keyed.extend(name.iter().map(u8::to_ascii_lowercase));
        keyed.push(b':');
        if name.eq_ignore_ascii_case(b"forwarded") {
            without_addresses(value, &mut keyed);
        } else {
            keyed.extend_from_slice(value);
        }
    }
    keyed
}

fn tells_url(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 6] = [
        b"forwarded",
        b"front-end-https",
        b"x-host",
        b"x-http-host-override",
        b"x-scheme",
        b"x-url-scheme",
    ];
    const FAMILIES: [&[u8]; 3] = [b"x-forwarded-", b"x-original-", b"x-rewrite-"];
    if !matches!(name.first(), Some(b'x' | b'X' | b'f' | b'F')) {
        return false;
    }
    let is = |other: &[u8]| name.len() == other.len() && begins(name, other);
    // This header differs for each client, and is not about the URL.
    let is_address = is(b"x-forwarded-for");
    let tells =
        NAMES.iter().any(|other| is(other)) || FAMILIES.iter().any(|family| begins(name, family));
    tells && !is_address
}

/// Writes a `Forwarded` (RFC 7239) without the parts that differ for each client. A value with quotes is written unchanged, since it would
/// have to be split at unquoted separators only.
fn without_addresses(value: &[u8], out: &mut Vec<u8>) {
    if value.contains(&b'"') {
        return out.extend_from_slice(value);
    }
    let is_address = |pair: &&[u8]| begins(pair, b"for=") || begins(pair, b"by=");
    let pairs = value.split(|b| matches!(b, b',' | b';')).map(<[u8]>::trim_ascii);
    for pair in pairs.filter(|pair| !is_address(pair)) {
        out.push(b';');
        out.extend_from_slice(pair);
    }
}

/// Returns true if a name begins with `front`, which is in lower case. `_` counts as `-`.
fn begins(name: &[u8], front: &[u8]) -> bool {
    let same = |(a, b): (&u8, &u8)| a.eq_ignore_ascii_case(b) || (*a == b'_' && *b == b'-');
    // Harmless: the name is at least as long as `front`.
    name.len() >= front.len() && name.iter().zip(front).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&str, &str)]) -> Headers {
        let mut headers = Headers::new();
        for (name, value) in lines {
            headers.add(name, value.as_bytes()).unwrap();
        }
        headers
    }

    #[test]
    fn cookies_bodies_and_method_overrides_bypass_the_cache() {
        for (name, expected) in [
            ("X-HTTP-Method-Override", Some(Bypass::MethodOverride)),
            ("x_http_method_override", Some(Bypass::MethodOverride)),
            ("X-HTTP-Method", Some(Bypass::MethodOverride)),
            ("X-Method-Override", Some(Bypass::MethodOverride)),
            ("Cookie", Some(Bypass::Cookie)),
            ("X-HTTP-Methods", None),
            ("Accept", None),
        ] {
            assert_eq!(Bypass::of(&headers(&[(name, "a")]), false, false), expected, "{name}");
        }
        assert_eq!(Bypass::of(&headers(&[("Cookie", "a")]), false, true), None);
        assert_eq!(Bypass::of(&headers(&[]), true, true), Some(Bypass::Body));
    }

    #[test]
    fn headers_about_the_url_are_in_the_key() {
        for (name, value, expected) in [
            ("X-Forwarded-Host", "a", "\nx-forwarded-host:a"),
            ("X_Forwarded_Host", "a", "\nx_forwarded_host:a"),
            ("X-Forwarded-Prefix", "/a", "\nx-forwarded-prefix:/a"),
            ("X-Original-URL", "/a", "\nx-original-url:/a"),
            ("X-Forwarded-For", "1.2.3.4", ""),
            ("Forwarded", "for=a;host=b, For=c;proto=d", "\nforwarded:;host=b;proto=d"),
            ("Forwarded", "host=\"a;for=b\"", "\nforwarded:host=\"a;for=b\""),
            ("X-Request-Id", "a", ""),
            ("Accept", "a", ""),
        ] {
            let keyed = keyed_lines(&headers(&[(name, value)]));
            assert_eq!(String::from_utf8(keyed).unwrap(), expected, "{name}");
        }
    }
}
