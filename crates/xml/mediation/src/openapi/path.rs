//! Finds the path of the document that matches a request.

use std::borrow::Cow;
use std::cmp::Reverse;

use super::encoded::{decoded, pairs};
use super::model::{PathItem, SegmentPiece};

/// The paths, indexed for the search. A path without parameters takes precedence over one with parameters.
#[derive(Debug, Default)]
pub(super) struct Paths {
    /// Paths without parameters, sorted. Equal paths differ in their conditions on the query; the one with the most comes first.
    literal: Vec<(Box<[u8]>, usize)>,
    /// Paths with parameters, by number of segments. More literal paths come first.
    templates: Vec<Vec<usize>>,
    /// Paths that include everything below them. Longer paths come first, then more literal ones.
    open: Vec<usize>,
}

/// The values of the path parameters, by name.
pub type Values<'a> = Vec<(&'a str, Cow<'a, str>)>;

impl Paths {
    pub(super) fn new(items: &[PathItem]) -> Paths {
        let mut paths = Paths::default();
        for (at, item) in items.iter().enumerate() {
            if item.open {
                paths.open.push(at);
                continue;
            }
            match literal(item) {
                Some(key) => paths.literal.push((key, at)),
                None => {
                    let segments = item.segments.len();
                    if paths.templates.len() <= segments {
                        paths.templates.resize_with(segments + 1, Vec::new);
                    }
                    paths.templates.get_mut(segments).into_iter().for_each(|list| list.push(at));
                }
            }
        }
        // Of equal paths, the one with most conditions on the query wins, then the first.
        let conditions = |at: usize| Reverse(items.get(at).map(|item| item.query.len()));
        paths
            .literal
            .sort_by(|a, b| (&a.0, conditions(a.1), a.1).cmp(&(&b.0, conditions(b.1), b.1)));
        // At the first segment that differs, the more literal path comes first: `{id}.pdf` before `{id}`.
        let key = |at: &usize| {
            let item = items.get(*at);
            let segments =
                item.map(|i| i.segments.iter().map(|s| looseness(s)).collect::<Vec<_>>());
            (segments, conditions(*at))
        };
        paths.templates.iter_mut().for_each(|templates| templates.sort_by_key(key));
        paths.open.sort_by_key(|at| (Reverse(items.get(*at).map(|i| i.segments.len())), key(at)));
        paths
    }

    /// Returns the index of the matching path and the values of its parameters.
    pub(super) fn find<'a>(
        &self,
        items: &'a [PathItem],
        path: &'a [u8],
        query: &[u8],
    ) -> Option<(usize, Values<'a>)> {
        let rest = path.strip_prefix(b"/")?;
        let holds = |at: &usize| items.get(*at).is_some_and(|item| asked_for(item, query));
        if let Some(at) = plain(path).and_then(|path| self.literal(&path, holds)) {
            return Some((at, Values::new()));
        }
        let segments: Vec<&[u8]> = rest.split(|b| *b == b'/').collect();
        // Harmless: if the index is too large, no template has that many segments.
        let whole = self.templates.get(segments.len()).into_iter().flatten();
        let mut candidates = whole.chain(&self.open).filter(|at| holds(at));
        candidates.find_map(|at| Some((*at, matched(items.get(*at)?, &segments)?)))
    }

    fn literal(&self, path: &[u8], holds: impl Fn(&usize) -> bool) -> Option<usize> {
        let from = self.literal.partition_point(|(known, _)| **known < *path);
        let same = self.literal.iter().skip(from).take_while(|(known, _)| **known == *path);
        same.map(|(_, at)| *at).find(|at| holds(at))
    }
}

/// Returns the values of a path's parameters if the request matches the path at index `at`.
pub(super) fn one<'a>(
    items: &'a [PathItem],
    at: usize,
    path: &'a [u8],
    query: &[u8],
) -> Option<(usize, Values<'a>)> {
    let segments: Vec<&[u8]> = path.strip_prefix(b"/")?.split(|b| *b == b'/').collect();
    let item = items.get(at).filter(|item| asked_for(item, query))?;
    if !item.open && item.segments.len() != segments.len() {
        return None;
    }
    Some((at, matched(item, &segments)?))
}

/// Returns true if the conditions on the query hold. Most paths have none.
fn asked_for(item: &PathItem, query: &[u8]) -> bool {
    item.query.iter().all(|(name, value)| {
        let mut values = pairs(query).filter(|(known, _)| *known == **name).map(|(_, value)| value);
        match value {
            Some(value) => values.any(|found| decoded(found, true) == **value),
            None => values.next().is_some(),
        }
    })
}

/// Returns a sort key: segments with parameters are looser, the more so the less literal text they contain.
fn looseness(segment: &[SegmentPiece]) -> (bool, Reverse<usize>) {
    let is_open = segment.iter().any(|piece| matches!(piece, SegmentPiece::Parameter(_)));
    let literals = segment.iter().map(|piece| match piece {
        SegmentPiece::Literal(text) if is_open => text.len(),
        SegmentPiece::Literal(_) | SegmentPiece::Parameter(_) => 0,
    });
    (is_open, Reverse(literals.sum()))
}

/// Returns the path, unescaped, if it has no parameters.
fn literal(item: &PathItem) -> Option<Box<[u8]>> {
    let mut path = Vec::new();
    for segment in &item.segments {
        path.push(b'/');
        match segment.as_slice() {
            [] => {}
            [SegmentPiece::Literal(text)] => path.extend_from_slice(text.as_bytes()),
            _ => return None,
        }
    }
    Some(path.into())
}

/// Unescapes a path. Returns `None` if an escaped slash would become a separator.
fn plain(path: &[u8]) -> Option<Cow<'_, [u8]>> {
    if !path.contains(&b'%') {
        return Some(Cow::Borrowed(path));
    }
    let mut plain = Vec::with_capacity(path.len());
    for segment in path.split(|b| *b == b'/').skip(1) {
        let segment = decoded(segment, false);
        plain.push(b'/');
        plain.extend_from_slice(segment.as_bytes());
        if segment.contains('/') {
            return None;
        }
    }
    Some(Cow::Owned(plain))
}

fn matched<'a>(item: &'a PathItem, segments: &[&'a [u8]]) -> Option<Values<'a>> {
    let mut values = Values::new();
    if segments.len() < item.segments.len() {
        return None;
    }
    // Harmless: an open path accepts any further segments.
    for (pieces, segment) in item.segments.iter().zip(segments) {
        match pieces.as_slice() {
            [SegmentPiece::Parameter(name)] if !segment.is_empty() => {
                values.push((name, decoded(segment, false)));
            }
            pieces => in_segment(pieces, decoded(segment, false), &mut values)?,
        }
    }
    Some(values)
}

/// Matches one segment. A parameter matches the text up to the next literal piece.
fn in_segment<'a>(
    pieces: &'a [SegmentPiece],
    text: Cow<'a, str>,
    values: &mut Values<'a>,
) -> Option<()> {
    let mut rest = &*text;
    for (at, piece) in pieces.iter().enumerate() {
        match piece {
            SegmentPiece::Literal(literal) => rest = rest.strip_prefix(&**literal)?,
            SegmentPiece::Parameter(name) => {
                let end = match pieces.get(at + 1) {
                    Some(SegmentPiece::Literal(next)) => rest.find(&**next)?,
                    Some(SegmentPiece::Parameter(_)) | None => rest.len(),
                };
                let (value, after) = rest.split_at_checked(end).filter(|(v, _)| !v.is_empty())?;
                values.push((name, Cow::Owned(value.to_owned())));
                rest = after;
            }
        }
    }
    rest.is_empty().then_some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(template: &str) -> PathItem {
        let piece = |text: &str| match text.strip_prefix('{') {
            Some(name) => SegmentPiece::Parameter(name.trim_end_matches('}').into()),
            None => SegmentPiece::Literal(text.into()),
        };
        let (template, open) =
            template.strip_suffix("/*").map_or((template, false), |front| (front, true));
        let segments = template.trim_start_matches('/').split('/');
        let pieces =
            |s: &str| s.split('|').filter(|p| !p.is_empty()).map(piece).collect::<Vec<_>>();
        PathItem {
            template: "".into(),
            segments: segments.map(pieces).collect(),
            open,
            query: Vec::new(),
            operations: Vec::new(),
        }
    }

    #[test]
    fn the_more_literal_path_wins() {
        let templates = [
            "/",
            "/pets/{id}",
            "/pets/mine",
            "/{any}/mine",
            "/files/{name}|.|{end}",
            "/pets/{id}/x",
            "/pets/{id}|.pdf",
            "/all/*",
            "/all/{of}/*",
        ];
        let items: Vec<PathItem> = templates.iter().map(|t| item(t)).collect();
        let paths = Paths::new(&items);
        for (path, found) in [
            ("/", Some((0, vec![]))),
            ("/pets/1", Some((1, vec![("id", "1")]))),
            ("/pets/a%2Fb", Some((1, vec![("id", "a/b")]))),
            ("/pets/mine", Some((2, vec![]))),
            ("/p%65ts/mine", Some((2, vec![]))),
            ("/dogs/mine", Some((3, vec![("any", "dogs")]))),
            ("/files/a.b.c", Some((4, vec![("name", "a"), ("end", "b.c")]))),
            ("/files/a", None),
            ("/pets/", None),
            ("/pets", None),
            ("/pets/1/x", Some((5, vec![("id", "1")]))),
            ("/pets/1/y", None),
            ("/pets/1.pdf", Some((6, vec![("id", "1")]))),
            ("/all", Some((7, vec![]))),
            ("/all/", Some((7, vec![]))),
            ("/all/a", Some((8, vec![("of", "a")]))),
            ("/all/a/b/c", Some((8, vec![("of", "a")]))),
            ("/all//b", Some((7, vec![]))),
            ("/alla", None),
            ("/pets/.pdf", Some((1, vec![("id", ".pdf")]))),
        ] {
            let at = paths.find(&items, path.as_bytes(), b"");
            let expected = found.map(|(at, values): (usize, Vec<(&str, &str)>)| {
                (at, values.into_iter().map(|(n, v)| (n, Cow::Borrowed(v))).collect::<Values<'_>>())
            });
            assert_eq!(at, expected, "{path}");
        }
    }
}
