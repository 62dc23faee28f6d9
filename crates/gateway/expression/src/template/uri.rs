//! Finds the places of placeholders in paths and queries, and escapes values there.

use kit::{TextPosition, percent};

use crate::template::pieces::Piece;
use crate::template::{Kind, Site};
use crate::{Budget, Error, ErrorKind, Failure, FailureKind};

/// Returns the place of each placeholder.
pub(super) fn sites(text: &str, pieces: &[Piece<'_>], kind: Kind) -> Result<Vec<Site>, Error> {
    let mut sites = Vec::new();
    let mut in_query = kind == Kind::Query;
    for piece in pieces {
        match piece {
            Piece::Placeholder { .. } => {
                sites.push(if in_query { Site::QueryPart } else { Site::Segment });
            }
            Piece::Literal { text: literal, at } => {
                let forbidden = |c: &char| !c.is_ascii_graphic() || *c == '#';
                if let Some((place, c)) = literal.char_indices().find(|(_, c)| forbidden(c)) {
                    let what = format!("`{}` must be percent-encoded here", c.escape_default());
                    return Err(ErrorKind::Malformed(what.into()).at(text, at + place));
                }
                in_query |= literal.contains('?');
            }
        }
    }
    let split = pieces.windows(2).find_map(|pair| match pair {
        [Piece::Literal { text, at }, Piece::Placeholder { .. }] => {
            let open = text.get(text.len().saturating_sub(2)..).unwrap_or_default();
            open.contains('%').then_some(at + text.len())
        }
        _ => None,
    });
    match split {
        Some(at) => {
            let what = "a value cannot complete a percent escape";
            Err(ErrorKind::Misplaced(what.into()).at(text, at))
        }
        None => Ok(sites),
    }
}

/// Appends a value, with every byte percent-encoded that is not unreserved (RFC 3986, 2.3).
pub(super) fn push(text: &str, out: &mut String, budget: &mut Budget) -> Result<(), FailureKind> {
    for byte in text.bytes() {
        let plain = percent::is_unreserved(byte);
        budget.output(if plain { 1 } else { 3 })?;
        if plain { out.push(char::from(byte)) } else { percent::push(out, byte) }
    }
    Ok(())
}

/// Checks the segments that contain values. An empty segment or one of dots would lead to a path other than the intended one.
pub(super) fn check(out: &str, marks: &[(usize, TextPosition)]) -> Result<(), Failure> {
    let path = out.split_once('?').map_or(out, |(path, _)| path);
    let mut from = 0;
    for segment in path.split('/') {
        let to = from + segment.len();
        let mark = marks.iter().find(|(mark, _)| (from..=to).contains(mark));
        let plain = percent::decoded(segment.as_bytes(), false);
        if let Some((_, at)) = mark
            && matches!(&*plain, b"" | b"." | b"..")
        {
            return Err(FailureKind::Segment(segment.into()).at(*at));
        }
        from = to + 1;
    }
    Ok(())
}
