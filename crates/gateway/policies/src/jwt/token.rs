//! Finds the token of a request, and removes it.

use std::borrow::Cow;

use kit::percent;
use message::RequestHead;

use super::JwtSettings;
use crate::query;

/// The result of the search for a token.
pub(crate) enum TokenSearch<'h> {
    Nothing,
    /// There is more than one token, and it is unclear which one counts.
    Several,
    /// The place of the token, and the token itself.
    At(TokenLocation, Cow<'h, [u8]>),
}

/// The place of the token.
#[derive(Clone, Copy)]
pub(crate) enum TokenLocation {
    /// The only line of the configured header.
    Header,
    Query,
    Cookie,
}

/// Searches a request for its token.
pub(crate) fn find<'h>(settings: &'h JwtSettings, head: &'h RequestHead) -> TokenSearch<'h> {
    let mut values = head.headers.get_all(&settings.header);
    let first = values.next();
    if first.is_some() && values.next().is_some() {
        return TokenSearch::Several;
    }
    let in_header = first.and_then(|value| bearer(settings, value));
    let in_query = settings.query.as_deref().and_then(|name| {
        let query = head.query()?;
        let mut values = query::values(query, name);
        let value = values.next().map(|range| query.get(range).unwrap_or(b""));
        value.map(|value| (value, values.next().is_some()))
    });
    let in_cookie = settings.cookie.as_deref().and_then(|name| {
        let mut values = cookies(head, name);
        let value = values.next();
        value.map(|value| (value, values.next().is_some()))
    });
    match (in_header, in_query, in_cookie) {
        (None, None, None) => TokenSearch::Nothing,
        (Some(text), None, None) => TokenSearch::At(TokenLocation::Header, Cow::Borrowed(text)),
        (None, Some((text, false)), None) => {
            TokenSearch::At(TokenLocation::Query, percent::decoded(text, false))
        }
        (None, None, Some((text, false))) => {
            TokenSearch::At(TokenLocation::Cookie, Cow::Borrowed(text))
        }
        _ => TokenSearch::Several,
    }
}

/// Returns the values of the cookies with this name.
fn cookies<'h>(head: &'h RequestHead, name: &str) -> impl Iterator<Item = &'h [u8]> {
    let pairs = head.headers.get_all("cookie").flat_map(|line| line.split(|byte| *byte == b';'));
    // Harmless: cookies with other names are skipped.
    pairs.filter_map(move |pair| {
        let value = cookie_value(pair, name)?;
        // A value may be quoted (RFC 6265, 4.1.1).
        Some(value.strip_prefix(b"\"").and_then(|v| v.strip_suffix(b"\"")).unwrap_or(value))
    })
}

/// Returns the value of a cookie, if it has this name.
fn cookie_value<'h>(pair: &'h [u8], name: &str) -> Option<&'h [u8]> {
    pair.trim_ascii().strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}

/// Removes the cookies with this name from a request.
fn remove_cookie(head: &mut RequestHead, name: &str) {
    let is_it = |pair: &[u8]| cookie_value(pair, name).is_some();
    let lines: Vec<Vec<u8>> = head.headers.get_all("cookie").map(<[u8]>::to_vec).collect();
    if !lines.iter().any(|line| line.split(|byte| *byte == b';').any(is_it)) {
        return;
    }
    head.headers.remove("cookie");
    for line in lines {
        let kept: Vec<&[u8]> = line
            .split(|byte| *byte == b';')
            .map(<[u8]>::trim_ascii)
            .filter(|pair| !is_it(pair))
            .collect();
        if !kept.is_empty() {
            head.headers.add_known("Cookie", &kept.join(&b"; "[..]));
        }
    }
}

/// Returns the token in a line. Only `authorization` needs the scheme `Bearer`; with another scheme, the line contains no token.
fn bearer<'h>(settings: &JwtSettings, value: &'h [u8]) -> Option<&'h [u8]> {
    const SCHEME: &[u8] = b"bearer";
    let named = value.get(..SCHEME.len()).is_some_and(|s| s.eq_ignore_ascii_case(SCHEME));
    let after = value.get(SCHEME.len()..).unwrap_or_default();
    if named && after.first() == Some(&b' ') {
        let blanks = after.iter().take_while(|byte| **byte == b' ').count();
        return after.get(blanks..);
    }
    if named && after.is_empty() {
        // A scheme without a token counts as an empty token.
        return Some(after);
    }
    (settings.header != "authorization").then_some(value)
}

/// Removes everything that may be a token from all places that are searched.
pub(crate) fn remove_all(settings: &JwtSettings, head: &mut RequestHead) {
    let has_token = |value| bearer(settings, value).is_some();
    if head.headers.get_all(&settings.header).any(has_token) {
        head.headers.remove(&settings.header);
    }
    TokenLocation::Query.remove(settings, head);
    TokenLocation::Cookie.remove(settings, head);
}

impl TokenLocation {
    /// Removes the token from the request.
    pub(crate) fn remove(self, settings: &JwtSettings, head: &mut RequestHead) {
        match self {
            TokenLocation::Header => head.headers.remove(&settings.header),
            TokenLocation::Cookie => {
                if let Some(name) = &settings.cookie {
                    remove_cookie(head, name);
                }
            }
            TokenLocation::Query => {
                if let Some(name) = &settings.query {
                    query::remove(head, name);
                }
            }
        }
    }
}
