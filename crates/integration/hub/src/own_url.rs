//! Comparison of topics' URLs with the hub's URL. Paths alone are not enough: another server may have the same path.

use upstream::split_origin;

/// The rest of a URL after the hub's URL. Returns `None` if the URL is not below the hub's.
pub(crate) fn below<'u>(base: &str, url: &'u str) -> Option<&'u str> {
    // Harmless: nothing is below a base that is not a URL.
    let (own, prefix) = split_origin(base).ok()?;
    // Harmless: a text that is not a URL is not below the hub's URL.
    let (server, target) = split_origin(url).ok()?;
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
