//! Finds and removes query parameters by name. All other bytes of the query are kept unchanged.

use std::ops::Range;

use kit::percent;
use message::RequestHead;

/// Returns the byte ranges of all values of a parameter, in order. The values are not decoded.
pub(crate) fn values<'q>(
    query: &'q [u8],
    name: &'q str,
) -> impl Iterator<Item = Range<usize>> + 'q {
    let mut start = 0;
    // Harmless: a parameter without `=` has no value, and parameters with other names are skipped.
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let at = start;
        start += pair.len() + 1;
        let length = pair.iter().position(|byte| *byte == b'=')?;
        is_named(pair, name).then(|| at + length + 1..at + pair.len())
    })
}

/// Returns true if a pair has this name. Escapes in the pair's name are decoded, because the upstream decodes them too.
pub(crate) fn is_named(pair: &[u8], name: &str) -> bool {
    let written = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    *percent::decoded(written, true) == *name.as_bytes()
}

/// Removes all occurrences of a parameter from the target.
pub(crate) fn remove(head: &mut RequestHead, name: &str) {
    let Some(query) = head.query() else { return };
    let pairs = query.split(|byte| *byte == b'&');
    let kept: Vec<&[u8]> = pairs.filter(|pair| !is_named(pair, name)).collect();
    let query = kept.join(&b'&');
    let path = head.path().to_vec();
    if query.is_empty() {
        head.set_target(&[&path])
    } else {
        head.set_target(&[&path, b"?", &query])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Protocol;

    #[test]
    fn parameters_are_found_by_their_whole_name() {
        for (query, found) in [
            ("t=abc", &["abc"][..]),
            ("a=1&t=abc&b=2", &["abc"]),
            ("t=a&t=b", &["a", "b"]),
            ("t=", &[""]),
            ("t", &[]),
            ("xt=a&tx=b", &[]),
            ("a=t=1", &[]),
            ("%74=a&t%3d=b&%2574=c", &["a"]),
            ("", &[]),
        ] {
            let values: Vec<&str> =
                values(query.as_bytes(), "t").map(|range| query.get(range).unwrap()).collect();
            assert_eq!(values, found, "{query}");
        }
    }

    #[test]
    fn removal_keeps_the_other_parameters_unchanged() {
        for (target, cut) in [
            ("/p?t=abc", "/p"),
            ("/p?a=%20&t=abc&b=2", "/p?a=%20&b=2"),
            ("/p?t=a&a&t=b", "/p?a"),
            ("/p?tx=1", "/p?tx=1"),
            ("/p?%74=a&b=%74&%74", "/p?b=%74"),
            ("/p", "/p"),
        ] {
            let mut head = RequestHead::new(Protocol::Http11, b"GET", target.as_bytes());
            remove(&mut head, "t");
            assert_eq!(head.target(), cut.as_bytes(), "{target}");
        }
    }
}
