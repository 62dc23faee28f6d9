//! URLs that are only known at run time: callbacks of subscribers, and URLs computed by flows. They are parsed strictly. A URL that
//! two parsers interpret differently may lead to another place than the one that was checked.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::TargetSettings;

/// An absolute `http` or `https` URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CalledUrl {
    /// Its server, as a target of an upstream.
    pub origin: TargetSettings,
    /// The path and the query, from the slash on.
    pub target: String,
}

/// The maximum length of a name in DNS.
const HOST_BYTES_MAX: usize = 253;

/// The reason why a text is not such a URL, as the end of a sentence.
pub type UrlError = &'static str;

impl CalledUrl {
    /// The maximum length of a URL.
    pub const BYTES_MAX: usize = 2048;

    /// Parses a URL, or returns what is wrong with it.
    pub fn parse(url: &str) -> Result<CalledUrl, UrlError> {
        if url.len() > CalledUrl::BYTES_MAX {
            return Err("is too long");
        }
        // Parsers differ in how they treat invalid characters (RFC 3986, 2).
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
            return Err("has characters that are not allowed in URLs");
        }
        if url.contains('#') {
            return Err("has a fragment");
        }
        let (origin, rest) = split_origin(url)?;
        let target = if rest.starts_with('/') { rest.to_owned() } else { format!("/{rest}") };
        Ok(CalledUrl { origin, target })
    }

    /// The address, if the host is one.
    pub fn address(&self) -> Option<IpAddr> {
        // Harmless: a name is not an address.
        self.origin.host.parse().ok()
    }
}

/// Splits a URL into its server and the rest: the path, the query and the fragment.
pub fn split_origin(url: &str) -> Result<(TargetSettings, &str), UrlError> {
    let (scheme, rest) = url.split_once("://").ok_or("is not a URL")?;
    let https = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return Err("is not an http or https URL"),
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, rest) = rest.split_at_checked(end).unwrap_or((rest, ""));
    if authority.contains('@') {
        return Err("has a user name or password");
    }
    let (host, port) = split_port(authority).ok_or("has an invalid port")?;
    if host.is_empty() {
        return Err("has no host");
    }
    let host = host_of(host).ok_or("has a host that is neither a name nor an address")?;
    let port = port.unwrap_or(if https { 443 } else { 80 });
    Ok((TargetSettings { https, host, port, weight: 1 }, rest))
}

/// Host and port of an authority; an IPv6 address keeps its brackets.
fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let after_address = authority.find(']').map_or(0, |at| at + 1);
    let colon = authority.get(after_address..)?.find(':').map(|at| at + after_address);
    let Some(colon) = colon else { return Some((authority, None)) };
    let (host, port) = authority.split_at_checked(colon)?;
    let port = port.strip_prefix(':')?;
    let port = kit::digits::whole::<u16>(port).filter(|port| *port > 0)?;
    Some((host, Some(port)))
}

/// The host in the form used for connecting. Only the usual form of IPv4 addresses is accepted: some resolvers also
/// take `127.1`, `0x7f.1`, `017700000001` and `2130706433` as addresses.
fn host_of(host: &str) -> Option<String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return Some(inner.parse::<Ipv6Addr>().ok()?.to_string());
    }
    // Harmless: anything but an address may be a name.
    if let Ok(address) = host.parse::<Ipv4Addr>() {
        return Some(address.to_string());
    }
    let host = host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase();
    let is_name = !host.is_empty()
        && host.len() <= HOST_BYTES_MAX
        && host.split('.').all(|label| {
            let is_label = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            !label.is_empty() && label.len() <= 63 && label.bytes().all(is_label)
        });
    let last = host.rsplit('.').next().unwrap_or_default();
    // A host whose last label is a number is some form of address (WHATWG URL, 3.5).
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    (is_name && !is_number).then_some(host)
}

#[cfg(test)]
mod tests {
    use super::CalledUrl;

    #[test]
    fn ambiguous_and_invalid_urls_are_refused() {
        for url in [
            "",
            "a.example/x",
            "//a.example/",
            "ftp://a.example/",
            "file:///etc/passwd",
            "http://",
            "http:///x",
            "http://:80/",
            "http://user@a.example/",
            "http://user:pass@a.example/",
            "http://a.example@127.0.0.1/",
            "http://a.example:0/",
            "http://a.example:99999/",
            "http://a.example:+80/",
            "http://a.example:/",
            "http://a.example/#x",
            "http://a.example/ x",
            "http://a.example/\r\nX: y",
            "http://a.example\\@127.0.0.1/",
            "http://a..example/",
            "http://ex\u{e4}mple/",
            "http://2130706433/",
            "http://0x7f000001/",
            "http://0x7f.0.0.1/",
            "http://127.1/",
            "http://0177.0.0.1/",
            "http://127.0.0.0x1/",
            "http://127.0.0.1.:80:80/",
            "http://[::1/",
            "http://::1/",
            "http://[fe80::1%25eth0]/",
            "http://[127.0.0.1]/",
            "http://%31%32%37.0.0.1/",
        ] {
            assert!(CalledUrl::parse(url).is_err(), "{url}");
        }
        assert!(CalledUrl::parse(&format!("http://a/{}", "x".repeat(2048))).is_err());
        for (url, said) in [
            ("http:///x", "has no host"),
            ("http://:80/", "has no host"),
            ("http://a.example:/", "has an invalid port"),
            ("http://a.example:+80/", "has an invalid port"),
            ("http://a..example/", "has a host that is neither a name nor an address"),
        ] {
            assert_eq!(CalledUrl::parse(url).err(), Some(said), "{url}");
        }
    }
}
