//! Computes the path for matching from the path that the client sent.
//!
//! If two programs interpret a path differently, a request can bypass a route. Therefore dot segments are resolved and escaped letters are
//! decoded before matching. An ambiguous path is refused, or interpreted by the listener's rules. The path is forwarded byte for byte as
//! received, unless more than escaped letters changed: then the resolved path is forwarded.

use std::borrow::Cow;

use kit::percent;

use crate::{EmptySegments, EscapedSlash, PathParameters, PathRules};

/// A path for matching.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResolvedPath<'a> {
    pub path: Cow<'a, [u8]>,
    /// Whether its segments differ from those of the path that the client sent. If so, the sent path must not be forwarded.
    pub moved: bool,
}

/// The reason why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathRefusal {
    /// It leads above the root, or hides dots in a way that only some servers resolve.
    Escapes,
    /// It has a slash or a backslash that is percent-encoded.
    EscapedSlash,
    /// It has two slashes in a row.
    EmptySegment,
    /// It has a `;`, where some servers end the name of the segment.
    Parameters,
}

impl PathRefusal {
    /// Returns the reason as a text for the client.
    pub fn why(self) -> &'static str {
        match self {
            PathRefusal::Escapes => "The path leaves its root, or hides dots.",
            PathRefusal::EscapedSlash => "The path has an escaped slash or backslash.",
            PathRefusal::EmptySegment => "The path has an empty segment.",
            PathRefusal::Parameters => "The path has a `;`.",
        }
    }

    /// Returns the key of a listener's `paths` that allows such paths.
    pub fn key(self) -> Option<&'static str> {
        match self {
            PathRefusal::Escapes => None,
            PathRefusal::EscapedSlash => Some("escaped_slash"),
            PathRefusal::EmptySegment => Some("empty_segments"),
            PathRefusal::Parameters => Some("parameters"),
        }
    }
}

/// Resolves `.` and `..` (RFC 3986, 5.2.4) even if they are percent-encoded, decodes escaped unreserved characters, and applies the rules
/// of the request's listener to ambiguous spellings.
pub fn resolve(path: &[u8], rules: PathRules) -> Result<ResolvedPath<'_>, PathRefusal> {
    if is_plain(path) {
        return Ok(ResolvedPath { path: Cow::Borrowed(path), moved: false });
    }
    let (mut path, mut moved) = (unescaped(path), false);
    // The order matters: each step may produce what the next one looks for.
    for read in [overlong, escaped_slashes, parameters, empty_segments, dots] {
        if let Some(other) = read(&path, rules)? {
            (path, moved) = (Cow::Owned(other), true);
        }
    }
    Ok(ResolvedPath { path, moved })
}

/// Returns true if the path needs no further processing. There is no early exit, so that this compiles to vector instructions.
fn is_plain(path: &[u8]) -> bool {
    let is_odd = |(before, byte): (&u8, &u8)| {
        let is_special = (*byte == b'%') | (*byte == b';') | (*byte == b'\\');
        is_special | (*before == b'/') & ((*byte == b'.') | (*byte == b'/'))
    };
    // Harmless: each byte is compared with the next.
    let pairs = path.iter().zip(path.get(1..).unwrap_or_default());
    // The first byte is the slash, or the `*` of OPTIONS.
    matches!(path, [b'/' | b'*', ..]) & !pairs.fold(false, |odd, pair| odd | is_odd(pair))
}

/// The result of a rule: the changed path, or `None` if the rule changes nothing. Rules get a path whose escapes are in upper case.
type Read = Result<Option<Vec<u8>>, PathRefusal>;

/// Refuses escapes of overlong UTF-8 sequences, which are invalid (RFC 3629, 3): old decoders turn them into dots and slashes.
fn overlong(path: &[u8], _: PathRules) -> Read {
    let is_overlong = |escapes: &[u8]| {
        matches!(
            escapes,
            [b'%', b'C', b'0' | b'1', ..]
                | [b'%', b'E', b'0', b'%', b'8' | b'9', ..]
                | [b'%', b'F', b'0', b'%', b'8', ..]
        )
    };
    let escapes = path.iter().enumerate().filter(|(_, byte)| **byte == b'%');
    // Harmless: each offset lies within the path.
    let mut rests = escapes.filter_map(|(at, _)| path.get(at..));
    if rests.any(is_overlong) { Err(PathRefusal::Escapes) } else { Ok(None) }
}

fn escaped_slashes(path: &[u8], rules: PathRules) -> Read {
    let has_one = |bytes: &[u8]| {
        bytes.contains(&b'\\') || bytes.windows(3).any(|escape| matches!(escape, b"%2F" | b"%5C"))
    };
    if !has_one(path) {
        return Ok(None);
    }
    match rules.escaped_slash {
        EscapedSlash::Refuse => Err(PathRefusal::EscapedSlash),
        EscapedSlash::Decode => Ok(Some(with_slashes(path))),
        EscapedSlash::Keep => {
            let mut suspects = path.split(|b| *b == b'/').filter(|segment| has_one(segment));
            let hides_dots =
                |segment: &[u8]| with_slashes(segment).split(|b| *b == b'/').any(is_dots);
            if suspects.any(hides_dots) { Err(PathRefusal::Escapes) } else { Ok(None) }
        }
    }
}

/// Returns the path with every escaped slash and every backslash replaced by a slash.
fn with_slashes(path: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(path.len());
    let mut rest = path;
    while let Some((first, tail)) = rest.split_first() {
        let (byte, after) = match (first, percent::byte(tail)) {
            (b'%', Some((b'/' | b'\\', after))) => (b'/', after),
            (b'\\', _) => (b'/', tail),
            _ => (*first, tail),
        };
        out.push(byte);
        rest = after;
    }
    out
}

fn parameters(path: &[u8], rules: PathRules) -> Read {
    if !path.contains(&b';') {
        return Ok(None);
    }
    // Some servers treat `..;x` as a name and others as `..`, so it is refused under every rule.
    let hides_dots = |segment: &[u8]| segment.contains(&b';') && is_dots(name(segment));
    let segments = path.split(|b| *b == b'/');
    if segments.clone().any(hides_dots) {
        return Err(PathRefusal::Escapes);
    }
    match rules.parameters {
        PathParameters::Refuse => Err(PathRefusal::Parameters),
        PathParameters::Keep => Ok(None),
        PathParameters::Strip => Ok(Some(segments.map(name).collect::<Vec<_>>().join(&b'/'))),
    }
}

/// Returns a segment without its parameters.
fn name(segment: &[u8]) -> &[u8] {
    segment.split(|b| *b == b';').next().unwrap_or_default()
}

fn empty_segments(path: &[u8], rules: PathRules) -> Read {
    if !path.windows(2).any(|pair| pair == b"//") {
        return Ok(None);
    }
    match rules.empty_segments {
        EmptySegments::Refuse => Err(PathRefusal::EmptySegment),
        EmptySegments::Keep => Ok(None),
        EmptySegments::Merge => {
            let mut merged = path.to_vec();
            merged.dedup_by(|byte, before| *byte == b'/' && *before == b'/');
            Ok(Some(merged))
        }
    }
}

fn dots(path: &[u8], _: PathRules) -> Read {
    if path.split(|b| *b == b'/').any(is_dots) { without_dots(path).map(Some) } else { Ok(None) }
}

fn is_dots(segment: &[u8]) -> bool {
    segment == b"." || segment == b".."
}

fn without_dots(path: &[u8]) -> Result<Vec<u8>, PathRefusal> {
    let mut kept: Vec<&[u8]> = Vec::new();
    let mut segments = path.split(|b| *b == b'/').skip(1).peekable();
    while let Some(segment) = segments.next() {
        let last = segments.peek().is_none();
        match segment {
            b"." => {}
            b".." => drop(kept.pop().ok_or(PathRefusal::Escapes)?),
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

/// Decodes percent-encoded unreserved characters (RFC 3986, 6.2.2.2). Every other escape is kept, in upper case.
pub fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'%') {
        return Cow::Borrowed(text);
    }
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, tail)) = rest.split_first() {
        match (first, percent::byte(tail)) {
            (b'%', Some((byte, after))) => {
                if percent::is_unreserved(byte) {
                    out.push(byte)
                } else {
                    // Harmless: an escape has three bytes.
                    out.extend(rest.iter().take(3).map(u8::to_ascii_uppercase))
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

/// Returns the segments of a path: the parts between its slashes. `/a/` has two, `a` and an empty one; `*` has none.
pub fn segments(path: &[u8]) -> impl Iterator<Item = &[u8]> {
    path.strip_prefix(b"/").into_iter().flat_map(|rest| rest.split(|b| *b == b'/'))
}

/// Returns the first 256 bytes of a peer's data as text, for the cause of a fault. Logs escape the text.
pub fn shown(bytes: &[u8]) -> String {
    // Harmless: the text is only logged.
    String::from_utf8_lossy(bytes.get(..256).unwrap_or(bytes)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEEP: PathRules = PathRules {
        escaped_slash: EscapedSlash::Keep,
        empty_segments: EmptySegments::Keep,
        parameters: PathParameters::Keep,
    };
    const READ: PathRules = PathRules {
        escaped_slash: EscapedSlash::Decode,
        empty_segments: EmptySegments::Merge,
        parameters: PathParameters::Strip,
    };

    #[track_caller]
    fn check(sent: &str, rules: PathRules, expected: Result<(&str, bool), PathRefusal>) {
        let resolved = resolve(sent.as_bytes(), rules);
        let found = resolved.map(|r| (String::from_utf8(r.path.into_owned()).unwrap(), r.moved));
        assert_eq!(found, expected.map(|(path, moved)| (path.to_owned(), moved)), "{sent}");
    }

    #[test]
    fn paths_resolve_before_they_are_matched() {
        for (sent, matched, moved) in [
            ("/", "/", false),
            ("/a/", "/a/", false),
            ("/a/b", "/a/b", false),
            ("/a/./b", "/a/b", true),
            ("/a/../b", "/b", true),
            ("/a/b/..", "/a/", true),
            ("/a/.", "/a/", true),
            ("/a/%2e%2E/b", "/b", true),
            ("/%61/b%3Bc", "/a/b%3Bc", false),
            ("/a%3bb", "/a%3Bb", false),
            ("/a%252fb%255cc", "/a%252fb%255cc", false),
            ("/a/.b/..c/d..", "/a/.b/..c/d..", false),
            ("/100%", "/100%", false),
            ("*", "*", false),
        ] {
            for rules in [PathRules::default(), KEEP, READ] {
                check(sent, rules, Ok((matched, moved)));
            }
        }
    }

    #[test]
    fn ambiguous_spellings_are_resolved_by_the_rules() {
        let (slash, parameters) = (Err(PathRefusal::EscapedSlash), Err(PathRefusal::Parameters));
        for (sent, by_default, kept, read) in [
            ("/a%2Fb", slash, ("/a%2Fb", false), "/a/b"),
            ("/%61%2fb", slash, ("/a%2Fb", false), "/a/b"),
            ("/a%5cb", slash, ("/a%5Cb", false), "/a/b"),
            ("/a%2F", slash, ("/a%2F", false), "/a/"),
            ("/%2Fa", slash, ("/%2Fa", false), "/a"),
            ("/a%2F%2Fb", slash, ("/a%2F%2Fb", false), "/a/b"),
            ("/a//b", Ok(("/a/b", true)), ("/a//b", false), "/a/b"),
            ("//a///b//", Ok(("/a/b/", true)), ("//a///b//", false), "/a/b/"),
            ("//", Ok(("/", true)), ("//", false), "/"),
            ("/a//../b", Ok(("/b", true)), ("/a/b", true), "/b"),
            ("/a/.//b", Ok(("/a/b", true)), ("/a//b", true), "/a/b"),
            ("/a;x=1/b", parameters, ("/a;x=1/b", false), "/a/b"),
            ("/a/;x/b;", parameters, ("/a/;x/b;", false), "/a/b"),
            ("/;", parameters, ("/;", false), "/"),
        ] {
            check(sent, PathRules::default(), by_default);
            check(sent, KEEP, Ok(kept));
            check(sent, READ, Ok((read, true)));
        }
        let rules = PathRules { empty_segments: EmptySegments::Refuse, ..PathRules::default() };
        check("/a//b", rules, Err(PathRefusal::EmptySegment));
        check("/a/b/", rules, Ok(("/a/b/", false)));
        check("/a%2F..%2fb", READ, Ok(("/b", true)));
    }

    #[test]
    fn multibyte_characters_are_accepted() {
        for sent in ["/caf%C3%A9", "/%E0%A4%B9", "/%F0%9F%98%80"] {
            check(sent, PathRules::default(), Ok((sent, false)));
        }
    }

    #[test]
    fn ambiguous_and_climbing_paths_are_refused() {
        for sent in [
            "/..",
            "/a/../../b",
            "/a/..;x/b",
            "/a/.;/b",
            "/a/..\\b",
            "/a/..%5cb",
            "/a/x%5C..",
            "/a/%2e%2e%2fb",
            "/%2e%2e/%2e%2e",
            "/a/..%c0%afb",
            "/a%C1%9c",
            "/a/%e0%80%af",
            "/a/%F0%80%80%AE",
            "/a%c0",
            "/a%c0b",
            "/a%e0%80",
        ] {
            assert!(resolve(sent.as_bytes(), PathRules::default()).is_err(), "{sent}");
            check(sent, KEEP, Err(PathRefusal::Escapes));
        }
        for sent in ["/..", "/a/..;x/b", "/..%2fa", "/a/..%2f..%5c.."] {
            check(sent, READ, Err(PathRefusal::Escapes));
        }
    }

    #[test]
    fn resolving_a_resolved_path_changes_nothing() {
        let parts: [&[u8]; 12] =
            [b"/", b"/", b"a", b"2f", b".", b"..", b";", b"%2F", b"%5c", b"%2e", b"%25", b"\\"];
        let rules = [PathRules::default(), KEEP, READ];
        for number in 0..12_usize.pow(4) {
            let mut path = b"/".to_vec();
            let at = |power| number / 12_usize.pow(power) % 12;
            (0..4).for_each(|power| path.extend_from_slice(parts[at(power)]));
            for rules in rules {
                let Ok(once) = resolve(&path, rules) else { continue };
                let twice = resolve(&once.path, rules).unwrap();
                assert_eq!(once.path, twice.path, "{}", String::from_utf8_lossy(&path));
            }
        }
    }
}
