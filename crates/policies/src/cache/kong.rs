//! What a cache tells as Kong's does, and keys by some parameters of the query.

use kit::percent;
use message::Headers;

/// Replaces the line in which this gateway tells of its cache by Kong's.
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

/// A target with those parameters of its query that have these names, in the order of their text.
pub(super) fn target_with(target: &[u8], names: &[String]) -> Vec<u8> {
    let mut parts = target.splitn(2, |byte| *byte == b'?');
    // Harmless: splitting gives a first part, and there may be no query.
    let (path, query) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
    let is_named = |pair: &&[u8]| {
        // Harmless: splitting gives a first part.
        let name = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
        let name = percent::decoded(name, true);
        names.iter().any(|wanted| *name == *wanted.as_bytes())
    };
    let mut kept: Vec<&[u8]> = query.split(|byte| *byte == b'&').filter(is_named).collect();
    kept.sort_unstable();
    if kept.is_empty() { path.to_vec() } else { [path, b"?", &kept.join(&b'&')].concat() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_the_named_parameters_alone() {
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
    fn the_gateways_own_line_becomes_kongs() {
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
