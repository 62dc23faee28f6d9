//! The path that is matched, worked out of the path that was sent.
//!
//! Two programs that read a path differently are how a request slips past a route. So dot segments are resolved and
//! escaped letters read before anything is matched; what is ambiguous is refused. The path that is forwarded stays byte
//! for byte as it came, unless it held dot segments: then it is the resolved one.

use std::borrow::Cow;

/// A path as it is matched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolved<'a> {
    pub path: Cow<'a, [u8]>,
    /// The path held dot segments, so the one sent must not be forwarded.
    pub moved: bool,
}

/// The path climbs above its root, or hides dots in a way that some servers resolve and some do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Escapes;

/// Resolves `.` and `..` (RFC 3986, 5.2.4), also percent-encoded ones, and reads escaped unreserved characters.
pub fn resolve(path: &[u8]) -> Result<Resolved<'_>, Escapes> {
    let plain =
        !path.contains(&b'%') && !path.windows(2).any(|w| w == b"/.") && !path.contains(&b'\\');
    if plain {
        return Ok(Resolved { path: Cow::Borrowed(path), moved: false });
    }
    let path = unescaped(path);
    if path.split(|b| *b == b'/').any(is_ambiguous) {
        return Err(Escapes);
    }
    if !path.split(|b| *b == b'/').any(is_dots) {
        return Ok(Resolved { path, moved: false });
    }
    Ok(Resolved { path: Cow::Owned(without_dots(&path)?), moved: true })
}

/// Segments that some servers take for `..` and others for a name: with path parameters (`..;x`), or with a
/// backslash, plain or encoded, beside dots.
fn is_ambiguous(segment: &[u8]) -> bool {
    let before_parameters = segment.split(|b| *b == b';').next().unwrap_or_default();
    let hides_dots = before_parameters.len() < segment.len() && is_dots(before_parameters);
    hides_dots
        || pieces_of_backslashes(segment).is_some_and(|mut pieces| pieces.any(|p| is_dots(&p)))
}

fn pieces_of_backslashes(segment: &[u8]) -> Option<impl Iterator<Item = Vec<u8>>> {
    let text = String::from_utf8_lossy(segment).replace("%5C", "\\").replace("%5c", "\\");
    let text = text.replace("%2F", "\\").replace("%2f", "\\");
    let pieces: Vec<Vec<u8>> = text.split('\\').map(|p| p.as_bytes().to_vec()).collect();
    (pieces.len() > 1).then(|| pieces.into_iter())
}

fn is_dots(segment: &[u8]) -> bool {
    segment == b"." || segment == b".."
}

fn without_dots(path: &[u8]) -> Result<Vec<u8>, Escapes> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|b| *b == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => drop(kept.pop().ok_or(Escapes)?),
            other => {
                kept.push(other);
                continue;
            }
        }
        if last {
            kept.push(b"");
        }
    }
    Ok(kept.iter().fold(Vec::with_capacity(path.len()), |mut out, segment| {
        out.push(b'/');
        out.extend_from_slice(segment);
        out
    }))
}

/// Reads percent-encoded unreserved characters (RFC 3986, 6.2.2.2); every other escape stays, in capitals.
pub fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        match (first, escaped_byte(tail)) {
            (b'%', Some((byte, after))) => {
                match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
                    true => out.push(byte),
                    false => out.extend(rest.iter().take(3).map(u8::to_ascii_uppercase)),
                }
                rest = after;
            }
            _ => {
                out.push(*first);
                rest = tail;
            }
        }
    }
    Cow::Owned(out)
}

/// The byte that two hex digits name, and what follows them.
pub(crate) fn escaped_byte(digits: &[u8]) -> Option<(u8, &[u8])> {
    let ([high, low], rest) = digits.split_first_chunk::<2>()?;
    let value = char::from(*high).to_digit(16)? * 16 + char::from(*low).to_digit(16)?;
    Some((u8::try_from(value).ok()?, rest))
}

/// The segments of a path: what stands between its slashes. `/a/` has two, `a` and an empty one; `*` has none.
pub fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.strip_prefix(b"/").into_iter().flat_map(|rest| rest.split(|b| *b == b'/'))
}

/// Names and values of a query, percent-decoded, `+` read as a blank.
pub fn query_pairs(query: &[u8]) -> impl Iterator<Item = (Cow<'_, [u8]>, Cow<'_, [u8]>)> {
    query.split(|b| *b == b'&').filter(|pair| !pair.is_empty()).map(|pair| {
        let equals = pair.iter().position(|b| *b == b'=').unwrap_or(pair.len());
        let (name, value) = pair.split_at(equals);
        (decoded(name), decoded(value.get(1..).unwrap_or_default()))
    })
}

fn decoded(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.iter().any(|b| matches!(b, b'%' | b'+')) {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        let (byte, after) = match (first, escaped_byte(tail)) {
            (b'%', Some(read)) => read,
            (b'+', _) => (b' ', tail),
            _ => (*first, tail),
        };
        out.push(byte);
        rest = after;
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_resolve_before_they_are_matched() {
        for (sent, matched, moved) in [
            ("/a/b", "/a/b", false),
            ("/a/./b", "/a/b", true),
            ("/a/../b", "/b", true),
            ("/a/b/..", "/a/", true),
            ("/a/.", "/a/", true),
            ("/a/%2e%2E/b", "/b", true),
            ("/%61/b%2Fc", "/a/b%2Fc", false),
            ("/a%2fb", "/a%2Fb", false),
            ("/a/.b/..c/d..", "/a/.b/..c/d..", false),
            ("/a//b", "/a//b", false),
            ("/100%", "/100%", false),
            ("*", "*", false),
        ] {
            let resolved = resolve(sent.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&resolved.path), matched, "{sent}");
            assert_eq!(resolved.moved, moved, "{sent}");
        }
    }

    #[test]
    fn ambiguous_and_climbing_paths_are_refused() {
        for sent in [
            "/..",
            "/a/../../b",
            "/a/..;x/b",
            "/a/..\\b",
            "/a/..%5cb",
            "/a/%2e%2e%2fb",
            "/%2e%2e/%2e%2e",
        ] {
            assert_eq!(resolve(sent.as_bytes()), Err(Escapes), "{sent}");
        }
    }
}
