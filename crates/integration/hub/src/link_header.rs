//! The `Link` header of an event and of a topic.

use kit::percent;

/// The links of a topic, to the hub and to itself (W3C WebSub, 4), as one line, since some clients read only one. The URL of a topic is its
/// name, if that is a URL, or else a URL below the hub's.
pub(crate) fn links(base: &str, topic: &str) -> String {
    let hub = if base.matches('/').count() > 2 { base.to_owned() } else { format!("{base}/") };
    let is_url = topic.starts_with("http://") || topic.starts_with("https://");
    let is_segment = |segment: &str| {
        !matches!(segment, "" | "." | "..") && segment.bytes().all(percent::is_unreserved)
    };
    let topic = if is_url {
        percent::encoded(topic.as_bytes(), percent::OF_URI)
    } else if topic.split('/').all(is_segment) {
        format!("{base}/topics/{topic}")
    } else {
        format!("{base}/topics?topic={}", percent::encoded(topic.as_bytes(), b""))
    };
    format!("<{hub}>; rel=\"hub\", <{topic}>; rel=\"self\"")
}

#[cfg(test)]
mod tests {
    use super::links;

    #[test]
    fn links_name_the_hub_and_the_topic() {
        let expected = "<http://a/news>; rel=\"hub\", <http://a/news/topics/x>; rel=\"self\"";
        assert_eq!(links("http://a/news", "x"), expected);
        assert_eq!(
            links("http://a", "x"),
            "<http://a/>; rel=\"hub\", <http://a/topics/x>; rel=\"self\""
        );
        for (topic, expected) in [
            ("a/b", "http://a/news/topics/a/b"),
            ("a//b", "http://a/news/topics?topic=a%2F%2Fb"),
            ("a/{id}", "http://a/news/topics?topic=a%2F%7Bid%7D"),
            ("../x", "http://a/news/topics?topic=..%2Fx"),
            ("https://b.example/feed?x=1&y", "https://b.example/feed?x=1&y"),
            ("https://b.example/>;x", "https://b.example/%3E;x"),
        ] {
            let expected = format!("<http://a/news>; rel=\"hub\", <{expected}>; rel=\"self\"");
            assert_eq!(links("http://a/news", topic), expected);
        }
    }
}
