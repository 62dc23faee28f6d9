//! Parameters of a query, found and cut by name, everything else left byte for byte.

use std::borrow::Cow;
use std::ops::Range;

use message::RequestHead;

/// Where the values of a parameter are, in order, as they came.
pub(crate) fn values<'q>(
    query: &'q [u8],
    name: &'q str,
) -> impl Iterator<Item = Range<usize>> + 'q {
    let mut start = 0;
    query.split(|byte| *byte == b'&').filter_map(move |pair| {
        let at = start;
        start += pair.len() + 1;
        let length = pair.iter().position(|byte| *byte == b'=')?;
        is_named(pair, name).then(|| at + length + 1..at + pair.len())
    })
}

/// Whether this pair has that name, which may be written with escapes: whoever reads the query takes them back.
fn is_named(pair: &[u8], name: &str) -> bool {
    let written = pair.split(|byte| *byte == b'=').next().unwrap_or_default();
    *decoded(written, true) == *name.as_bytes()
}

/// A text without its percent escapes; what is none stays. `+` is a blank in forms and in queries that are read as such, and
/// itself in paths, and in keys and tokens that a client sends as they are.
pub(crate) fn decoded(text: &[u8], plus_is_blank: bool) -> Cow<'_, [u8]> {
    let plain = |b: &u8| *b != b'%' && !(plus_is_blank && *b == b'+');
    if text.iter().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let escape = after.split_first_chunk().filter(|_| *first == b'%');
        let read = escape
            .and_then(|([high, low], after)| Some((digit(*high)? << 4 | digit(*low)?, after)));
        let itself = if plus_is_blank && *first == b'+' { b' ' } else { *first };
        let (byte, after) = read.unwrap_or((itself, after));
        out.push(byte);
        rest = after;
    }
    Cow::Owned(out)
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Cuts a parameter out of the target, each time it occurs.
pub(crate) fn remove(head: &mut RequestHead, name: &str) {
    let Some(query) = head.query() else { return };
    let pairs = query.split(|byte| *byte == b'&');
    let kept: Vec<&[u8]> = pairs.filter(|pair| !is_named(pair, name)).collect();
    let query = kept.join(&b'&');
    let path = head.path().to_vec();
    match query.is_empty() {
        true => head.set_target(&[&path]),
        false => head.set_target(&[&path, b"?", &query]),
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
    fn escapes_are_decoded_and_nothing_else() {
        for (value, plain) in [
            ("ab%2B%2fc%3D%3d", "ab+/c=="),
            ("ab+/c==", "ab+/c=="),
            ("%", "%"),
            ("%4", "%4"),
            ("%4x%+1%41", "%4x%+1A"),
            ("%25%34%31", "%41"),
            ("", ""),
        ] {
            assert_eq!(*decoded(value.as_bytes(), false), *plain.as_bytes(), "{value}");
        }
    }

    #[test]
    fn what_is_cut_leaves_the_rest_as_it_came() {
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
