//! Kong's header `X-Cache-Status`, and keys with selected query parameters.

use message::Headers;

use crate::query::is_named;

/// Replaces the gateway's own `Cache-Status` with Kong's `X-Cache-Status`.
pub(super) fn tell(headers: &mut Headers) {
    let lines: Vec<Vec<u8>> = headers.get_all("cache-status").map(<[u8]>::to_vec).collect();
    let is_own = |line: &[u8]| line.starts_with(b"tidegate");
    let Some(own) = lines.iter().rev().find(|line| is_own(line)) else { return };
    let has = |word: &str| own.windows(word.len()).any(|part| part == word.as_bytes());
    let word: &[u8] = if has("; hit") || has("; collapsed") || has("stale-if-error") {
        b"Hit"
    } else if has("fwd=stale") {
        b"Refresh"
    } else if has("; stored=?0") || !has("fwd=uri-miss") {
        b"Bypass"
    } else {
        b"Miss"
    };
    headers.remove("cache-status");
    for line in lines.iter().filter(|line| !is_own(line)) {
        headers.add_known("Cache-Status", line);
    }
    headers.remove("x-cache-status");
    headers.add_known("X-Cache-Status", word);
}

/// Returns the target with only the named query parameters, sorted by their text.
pub(super) fn target_with(target: &[u8], names: &[String]) -> Vec<u8> {
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    // Harmless: a split always has a first part, and the query is optional.
    let (path, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let pairs = query.split(|byte| *byte == b'&');
    let mut kept: Vec<&[u8]> =
        pairs.filter(|pair| names.iter().any(|name| is_named(pair, name))).collect();
    kept.sort_unstable();
    if kept.is_empty() { path.to_vec() } else { [path, b"?", &kept.join(&b'&')].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_only_the_named_parameters() {
        for (target, key) in [
            ("/a", "/a"),
            ("/a?x=1", "/a"),
            ("/a?b=2&x=1&a=1", "/a?a=1&b=2"),
            ("/a?%61=1&a=0", "/a?%61=1&a=0"),
        ] {
            let names = ["a".to_owned(), "b".to_owned()];
            let made = target_with(target.as_bytes(), &names);
            assert_eq!(String::from_utf8(made).unwrap(), key, "{target}");
        }
    }

    #[test]
    fn the_gateways_own_line_becomes_kongs_header() {
        for (line, word) in [
            ("tidegate; hit; ttl=3", Some("Hit")),
            ("tidegate; fwd=uri-miss; stored", Some("Miss")),
            ("tidegate; fwd=uri-miss; stored=?0; detail=status", Some("Bypass")),
            ("tidegate; fwd=uri-miss; collapsed; ttl=3", Some("Hit")),
            ("tidegate; fwd=stale; stored", Some("Refresh")),
            ("tidegate; fwd=bypass; detail=cookie", Some("Bypass")),
            ("other; hit", None),
        ] {
            let mut headers = Headers::new();
            headers.add_known("Cache-Status", line.as_bytes());
            tell(&mut headers);
            assert_eq!(headers.get("x-cache-status"), word.map(str::as_bytes), "{line}");
            assert_eq!(headers.contains("cache-status"), word.is_none(), "{line}");
        }
    }
}
