//! Comparison of topics' URLs with the hub's URL: another server may have the same path.

use crate::callback::{host_of, split_port};

/// The server of a URL: scheme, host and port.
#[derive(Debug, PartialEq, Eq)]
struct Server {
    https: bool,
    host: String,
    port: u16,
}

/// Splits a URL into its server and the rest. None if it is not an http or https URL.
fn split(url: &str) -> Option<(Server, &str)> {
    let (scheme, rest) = url.split_once("://")?;
    let https = match scheme.to_ascii_lowercase().as_str() {
        "http" => false,
        "https" => true,
        _ => return None,
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, target) = rest.split_at_checked(end)?;
    let (host, port) = split_port(authority)?;
    let port = port.unwrap_or(if https { 443 } else { 80 });
    Some((Server { https, host: host_of(host)?, port }, target))
}

/// The rest of a URL after the hub's URL. None if it is not below the hub's.
pub(crate) fn below<'u>(base: &str, url: &'u str) -> Option<&'u str> {
    let (own, prefix) = split(base)?;
    let (server, target) = split(url)?;
    let rest = target.strip_prefix(prefix.trim_end_matches('/'))?;
    (server == own && rest.starts_with('/')).then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::below;

    #[test]
    fn a_url_is_compared_by_its_parts() {
        for (base, url, rest) in [
            ("http://hub.example/news", "http://hub.example/news/topics/a", Some("/topics/a")),
            (
                "http://hub.example/news",
                "HTTP://Hub.Example.:80/news/topics/a?x",
                Some("/topics/a?x"),
            ),
            ("https://hub.example:443", "https://hub.example/topics/a", Some("/topics/a")),
            ("https://hub.example/", "https://hub.example/topics/a", Some("/topics/a")),
            ("http://[::1]:80/n", "http://[0:0::1]/n/topics/a", Some("/topics/a")),
            ("http://hub.example/news", "https://hub.example/news/topics/a", None),
            ("http://hub.example/news", "http://hub.example:81/news/topics/a", None),
            ("http://hub.example/news", "http://other.example/news/topics/a", None),
            ("http://hub.example/news", "http://hub.example.other/news/topics/a", None),
            ("http://hub.example/news", "http://hub.example@other/news/topics/a", None),
            ("http://hub.example/news", "http://hub.example/newspaper/topics/a", None),
            ("http://hub.example/news", "http://hub.example/topics/a", None),
            ("http://hub.example/news", "ftp://hub.example/news/topics/a", None),
            ("http://hub.example/news", "news", None),
        ] {
            assert_eq!(below(base, url), rest, "{base} {url}");
        }
    }
}
