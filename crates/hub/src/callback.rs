//! The URLs of subscribers' callbacks.

use std::borrow::Cow;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use kit::names::LookUps;
use upstream::{AddressRule, TargetSettings};

/// The URL of a callback, read strictly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Callback {
    /// As the subscriber wrote it.
    pub(crate) written: String,
    pub(crate) https: bool,
    /// A name in lower case or an IPv4 address, or an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// The path and the query, from the slash on.
    pub(crate) target: String,
}

/// The longest URL of a callback. It is sent and stored again and again.
pub(crate) const URL_BYTES_MAX: usize = 2048;

/// The longest name that DNS can carry.
const HOST_BYTES_MAX: usize = 253;

/// Names of callbacks that are looked up at once for those who subscribe, and for one of them. Anybody may do that, with names that nobody
/// answers for.
static LOOK_UPS: LookUps = LookUps::new(64, 8);

/// The reason why a URL is not a callback, as a sentence for the client.
type CallbackError = &'static str;

impl Callback {
    /// Reads a URL, or says what is wrong with it.
    pub(crate) fn parse(url: &str) -> Result<Callback, CallbackError> {
        if url.len() > URL_BYTES_MAX {
            return Err("`hub.callback` is too long.");
        }
        // What a URL cannot hold (RFC 3986, 2) is read differently by different readers.
        if !url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte)) {
            return Err("`hub.callback` has characters that no URL has.");
        }
        let (scheme, rest) = url.split_once("://").ok_or("`hub.callback` is not a URL.")?;
        let https = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err("`hub.callback` is not an http or https URL."),
        };
        if rest.contains('#') {
            return Err("`hub.callback` has a fragment.");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at_checked(end).unwrap_or((rest, ""));
        if authority.contains('@') {
            return Err("`hub.callback` has user information.");
        }
        let (host, port) =
            split_port(authority).ok_or("`hub.callback` has no host, or a wrong port.")?;
        let host =
            host_of(host).ok_or("The host of `hub.callback` is neither a name nor an address.")?;
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        let port = port.unwrap_or(if https { 443 } else { 80 });
        Ok(Callback { written: url.to_owned(), https, host, port, target })
    }

    /// As a target of an upstream.
    pub(crate) fn origin(&self) -> TargetSettings {
        TargetSettings { https: self.https, host: self.host.clone(), port: self.port, weight: 1 }
    }

    /// Its address, where its host is one.
    pub(crate) fn address(&self) -> Option<IpAddr> {
        // Harmless: a name is not an address.
        self.host.parse().ok()
    }
}

/// What names the server in a callback's URL, as it was written, and the path and the query. None if it was never read as a callback.
pub(crate) fn split(written: &str) -> Option<(&str, Cow<'_, str>)> {
    let start = written.find("://")? + 3;
    let end = written.get(start..)?.find(['/', '?']).map_or(written.len(), |at| at + start);
    let (server, target) = written.split_at_checked(end)?;
    let target = if target.starts_with('/') {
        Cow::Borrowed(target)
    } else {
        Cow::Owned(format!("/{target}"))
    };
    Some((server, target))
}

/// A target with these parameters behind its own.
pub(crate) fn with_parameters(target: &str, parameters: &str) -> String {
    let between = if target.contains('?') { '&' } else { '?' };
    format!("{target}{between}{parameters}")
}

/// True if a callback may be called as far as its name shows: it leads somewhere, and nowhere that is refused. Its name is looked up for
/// `asker`.
pub(crate) async fn is_permitted(
    callback: &Callback,
    asker: &str,
    rule: &AddressRule,
) -> Result<(), CallbackError> {
    const REFUSED: CallbackError = "`hub.callback` leads to an address that is not called.";
    if let Some(address) = callback.address() {
        return rule.permits(address).then_some(()).ok_or(REFUSED);
    }
    let found = match LOOK_UPS.find(asker, &callback.host, callback.port).await {
        Ok(found) if !found.is_empty() => found,
        Ok(_) => return Err("The host of `hub.callback` is unknown."),
        Err(error) => {
            tracing::debug!(host = callback.host, "a callback cannot be looked up: {error}");
            return Err("The host of `hub.callback` cannot be looked up.");
        }
    };
    found.iter().all(|address| rule.permits(address.ip())).then_some(()).ok_or(REFUSED)
}

/// Host and port of an authority; an IPv6 address keeps its brackets.
pub(crate) fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    let after_address = authority.find(']').map_or(0, |at| at + 1);
    let colon = authority.get(after_address..)?.find(':').map(|at| at + after_address);
    let Some(colon) = colon else { return Some((authority, None)) };
    let (host, port) = authority.split_at_checked(colon)?;
    let port = port.strip_prefix(':')?;
    let is_number = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if is_number && port > 0 => Some((host, Some(port))),
        Ok(_) | Err(_) => None,
    }
}

/// A host as it is connected to. Numbers are an address only in the usual form: `127.1`, `0x7f.1`, `017700000001` and
/// `2130706433` are addresses to some resolvers.
pub(crate) fn host_of(host: &str) -> Option<String> {
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
    // A last label that is a number makes it an address of some form (WHATWG URL, 3.5).
    let is_number = last.bytes().all(|byte| byte.is_ascii_digit())
        || last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    (is_name && !is_number).then_some(host)
}

impl fmt::Display for Callback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin().url(), self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_into_their_parts() {
        for (url, read, target) in [
            ("http://a.example/x?y=z", "http://a.example/x?y=z", "/x?y=z"),
            ("HTTPS://A.Example:8443", "https://a.example:8443/", "/"),
            ("http://a.example:80?q", "http://a.example/?q", "/?q"),
            ("http://192.0.2.1:8080/", "http://192.0.2.1:8080/", "/"),
            ("http://[2001:DB8::1]:8080/a", "http://[2001:db8::1]:8080/a", "/a"),
            ("http://a.example./", "http://a.example/", "/"),
            ("https://a_b.example/%C3%A9", "https://a_b.example/%C3%A9", "/%C3%A9"),
        ] {
            let callback = Callback::parse(url).unwrap();
            assert_eq!((callback.to_string().as_str(), &*callback.target), (read, target), "{url}");
            let (server, rest) = split(url).unwrap();
            assert_eq!(rest, target, "{url}");
            assert_eq!(Callback::parse(server).unwrap().origin(), callback.origin(), "{url}");
        }
        assert_eq!(with_parameters("/?x=1", "hub.mode=subscribe"), "/?x=1&hub.mode=subscribe");
        assert_eq!(with_parameters("/", "a=b"), "/?a=b");
    }

    #[test]
    fn what_readers_could_read_differently_is_refused() {
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
            assert!(Callback::parse(url).is_err(), "{url}");
        }
        assert!(Callback::parse(&format!("http://a/{}", "x".repeat(2048))).is_err());
    }

    #[tokio::test]
    async fn addresses_are_permitted_by_the_rule() {
        let rule = AddressRule { allow: vec!["127.0.0.0/8".parse().unwrap()], public: true };
        for (url, permitted) in [
            ("http://127.0.0.1:9/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://10.0.0.1/", false),
            ("http://[::1]/", false),
            ("http://[::ffff:10.0.0.1]/", false),
            ("http://169.254.169.254/latest", false),
            ("http://8.8.8.8/", true),
        ] {
            let callback = Callback::parse(url).unwrap();
            assert_eq!(is_permitted(&callback, "", &rule).await.is_ok(), permitted, "{url}");
        }
        let local = Callback::parse("http://localhost:9/").unwrap();
        assert!(is_permitted(&local, "", &AddressRule::default()).await.is_err());
    }
}
