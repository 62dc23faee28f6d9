//! The place of a request's token, and the request without it.

use std::borrow::Cow;
use std::ops::Range;

use kit::percent;
use message::RequestHead;

use super::Settings;
use crate::query;

/// The token that a request has.
pub(crate) enum Found {
    Nothing,
    /// More than one place says something; which of them counts is nobody's guess.
    Several,
    At(Place),
}

/// The place of the token.
pub(crate) enum Place {
    /// In the only line of its name, at these bytes of the value.
    Header(Range<usize>),
    /// In the query, at these bytes.
    Query(Range<usize>),
}

/// Looks for the token.
pub(crate) fn find(settings: &Settings, head: &RequestHead) -> Found {
    let mut values = head.headers.get_all(&settings.header);
    let first = values.next();
    if first.is_some() && values.next().is_some() {
        return Found::Several;
    }
    let in_header = first.and_then(|value| bearer(settings, value));
    let in_query = settings.query.as_deref().and_then(|name| {
        let query = head.query()?;
        let mut values = query::values(query, name);
        values.next().map(|range| (range, values.next().is_some()))
    });
    match (in_header, in_query) {
        (None, None) => Found::Nothing,
        (Some(range), None) => Found::At(Place::Header(range)),
        (None, Some((range, false))) => Found::At(Place::Query(range)),
        (Some(_), Some(_)) | (None, Some((_, true))) => Found::Several,
    }
}

/// The token in a line. Only `authorization` needs a scheme; another scheme there is no token.
fn bearer(settings: &Settings, value: &[u8]) -> Option<Range<usize>> {
    const SCHEME: &[u8] = b"bearer";
    let named = value.get(..SCHEME.len()).is_some_and(|s| s.eq_ignore_ascii_case(SCHEME));
    let after = value.get(SCHEME.len()..).unwrap_or_default();
    if named && after.first() == Some(&b' ') {
        let blanks = after.iter().take_while(|byte| **byte == b' ').count();
        return Some(SCHEME.len() + blanks..value.len());
    }
    if named && after.is_empty() {
        // A scheme without a token is a token that is empty.
        return Some(value.len()..value.len());
    }
    (settings.header != "authorization").then_some(0..value.len())
}

impl Place {
    /// The token itself.
    pub(crate) fn text<'h>(&self, settings: &Settings, head: &'h RequestHead) -> Cow<'h, [u8]> {
        let at = |value: Option<&'h [u8]>, range: &Range<usize>| {
            value.and_then(|value| value.get(range.clone())).unwrap_or_default()
        };
        match self {
            Place::Header(range) => Cow::Borrowed(at(head.headers.get(&settings.header), range)),
            Place::Query(range) => percent::decoded(at(head.query(), range), false),
        }
    }

    /// Takes the token out of the request.
    pub(crate) fn remove(&self, settings: &Settings, head: &mut RequestHead) {
        match self {
            Place::Header(_) => head.headers.remove(&settings.header),
            Place::Query(_) => {
                if let Some(name) = &settings.query {
                    query::remove(head, name);
                }
            }
        }
    }
}
