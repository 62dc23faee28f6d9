//! A line of a file as a complaint shows it, without the secrets in it.
//!
//! Owns which keys have a secret as their value. It uses only the text, since lines of a file that cannot be parsed are shown too. If it is
//! unsure, it hides. References (`${NAME}`) are not secrets and stay.

use crate::secret_words::{CREDENTIAL_WORDS, MASK};
use crate::sources::{At, CUT, Sources};

/// The ends of the names of keys and headers that have a secret as their value, such as `x-api-key` but not `keys_max`.
const SECRET_ENDS: &[&str] = &[
    "password",
    "passwd",
    "secret",
    "token",
    "key",
    "authorization",
    "cookie",
    "postgres",
    "_sha256",
    "sha1",
];

/// Names that are recognised even if they are mistyped.
const MISTYPED: &[&str] = &["password", "secret", "client_secret"];
/// The maximum number of typing errors in such a name.
const SLIPS_MAX: usize = 2;

/// Keys whose members are all secrets.
const HOLDERS: &[&str] = &["keys", "users"];

/// Keys of receivers of logs and traces. Their headers may contain credentials, whatever the names of the headers.
const RECEIVERS: &[&str] = &["traces", "access_log", "audit_log", "to"];
const RECEIVERS_HEADERS: &str = "headers";

/// The number of lines above a line that are searched for its parent keys. Beyond that the line is taken for an item of a long list of
/// secrets.
const ABOVE_MAX: usize = 1000;

/// The longest part of a line that is shown, in characters: programs may write a whole configuration on one line.
const SHOWN_CHARS_MAX: usize = 400;

/// A line that may be shown, and the column in it that corresponds to the column in the file.
pub(crate) struct Excerpt {
    pub(crate) line: String,
    pub(crate) column: usize,
}

/// Returns the line of a place.
pub(crate) fn excerpt(sources: &Sources, at: At) -> Option<Excerpt> {
    let (line, hidden) = line(sources, at)?;
    let column = usize::try_from(at.column).unwrap_or(1).max(1);
    let Excerpt { line, column } = cut(without(line, &hidden, column));
    // A terminal would interpret control characters.
    let plain = |c: char| if c.is_control() && c != '\t' { '\u{FFFD}' } else { c };
    Some(Excerpt { line: line.chars().map(plain).collect(), column })
}

/// Returns the secret at a place, if there is one.
pub(crate) fn hidden_at(sources: &Sources, at: At) -> Option<&str> {
    let (line, hidden) = line(sources, at)?;
    let column = usize::try_from(at.column).unwrap_or(1).max(1);
    let place = line.char_indices().nth(column - 1).map_or(line.len(), |(at, _)| at);
    line.get(hidden.into_iter().find(|span| span.contains(&place))?)
}

/// Returns the secrets of a line in order, judged by the names in it and in the lines above it: `above` has several readings of them.
pub(crate) fn secrets_in(above: &[&str], line: &str) -> Vec<Span> {
    let mut spans: Vec<Span> = above.iter().flat_map(|above| hidden_in(above, line)).collect();
    spans.sort_by_key(|span| span.start);
    let mut found: Vec<Span> = Vec::new();
    for span in spans {
        match found.last_mut() {
            Some(last) if span.start < last.end => last.end = last.end.max(span.end),
            Some(_) | None => found.push(span),
        }
    }
    found
}

/// Returns true if a line has a key.
pub(crate) fn names_key(line: &str) -> bool {
    !keys(line).is_empty()
}

/// Returns the line of a place, and the ranges of it that are hidden.
fn line(sources: &Sources, at: At) -> Option<(&str, Vec<Span>)> {
    let (line, above) = sources.line(at)?;
    Some((line, hidden_in(above, line)))
}

fn hidden_in(above: &str, line: &str) -> Vec<Span> {
    match place_of(above, line) {
        EnclosingKey::BelowSecret => after_name(line),
        EnclosingKey::InReceiver => spans(line, true),
        EnclosingKey::Elsewhere => spans(line, false),
    }
}

/// Returns true if the value of a key of this name is a secret.
pub fn is_secret(key: &str) -> bool {
    let key = key.to_ascii_lowercase();
    // No key of the configuration has a dash in its name, so such a name is taken for that of a header. A header whose name contains a
    // credential word is a secret.
    let is_header = key.contains('-') && CREDENTIAL_WORDS.iter().any(|word| key.contains(word));
    is_header
        || SECRET_ENDS.iter().any(|end| key.ends_with(end))
        || MISTYPED.iter().any(|word| strsim::damerau_levenshtein(&key, word) <= SLIPS_MAX)
}

/// Returns true if the members of a key of this name are secrets.
pub(crate) fn holds_secrets(key: &str) -> bool {
    HOLDERS.iter().any(|holder| key.eq_ignore_ascii_case(holder))
}

/// A range of bytes.
type Span = std::ops::Range<usize>;

/// Where a line is nested, by its indentation.
enum EnclosingKey {
    /// Below a key that has or holds secrets.
    BelowSecret,
    /// Below a receiver of logs or traces.
    InReceiver,
    Elsewhere,
}

fn place_of(above: &str, line: &str) -> EnclosingKey {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let (mut least, named) = (indent(line), !keys(line).is_empty());
    let (mut in_headers, mut place) = (false, EnclosingKey::Elsewhere);
    for (far, line) in above.lines().rev().enumerate() {
        if least == 0 {
            return place;
        }
        let content = line.trim_start();
        if content.is_empty() || content.starts_with('#') || indent(line) >= least {
            if far >= ABOVE_MAX {
                return EnclosingKey::BelowSecret;
            }
            continue;
        }
        least = indent(line);
        let reaches = |(key, end): (&str, usize)| {
            // A map has its own keys, such as those of the policy `api_key`.
            let value = line.get(end..).unwrap_or_default().trim_start();
            let map = value.is_empty() || value.starts_with(['{', '[', '#']);
            holds_secrets(key) || is_secret(key) && !(map && named)
        };
        let keys = keys(line);
        if keys.iter().copied().any(reaches) {
            return EnclosingKey::BelowSecret;
        }
        in_headers |= keys.iter().any(|(key, _)| *key == RECEIVERS_HEADERS);
        if keys.iter().any(|(key, _)| RECEIVERS.contains(key)) {
            if in_headers {
                return EnclosingKey::BelowSecret;
            }
            place = EnclosingKey::InReceiver;
        }
    }
    place
}

/// Returns the range of the value of the line's first key, or of the whole line if it has no key.
fn after_name(line: &str) -> Vec<Span> {
    let begin = keys(line).first().map_or(line.len() - line.trim_start().len(), |(_, end)| *end);
    value(line, begin, false).into_iter().collect()
}

/// Returns the secrets of a line: values of keys whose value or members are secrets, users in URLs, and URL parameters. `in_receiver` is
/// true if the line is below the key of a receiver.
fn spans(line: &str, mut in_receiver: bool) -> Vec<Span> {
    let mut spans: Vec<Span> = Vec::new();
    for (key, end) in keys(line) {
        let covered = spans.last().is_some_and(|last| last.end > end);
        in_receiver |= RECEIVERS.contains(&key);
        let is_holder = holds_secrets(key) || in_receiver && key == RECEIVERS_HEADERS;
        if covered || !(is_secret(key) || is_holder) {
            continue;
        }
        let before = line.get(..end).unwrap_or_default();
        let flow = before.contains(['{', '[']);
        let span = value(line, end, flow);
        let first = span.as_ref().and_then(|span| line.get(span.clone())).unwrap_or("");
        // The map of a policy such as `api_key` has its own keys.
        if !first.starts_with('{') || is_holder {
            spans.extend(span);
        }
    }
    // A password in a URL.
    for (at, _) in line.match_indices("://") {
        let rest = line.get(at + 3..).unwrap_or_default();
        let end = rest.find(|c: char| c.is_whitespace() || "/\"',}]".contains(c));
        let authority = rest.get(..end.unwrap_or(rest.len())).unwrap_or_default();
        if let Some(user) = authority.rfind('@') {
            spans.push(at + 3..at + 3 + user);
        }
    }
    spans.extend(parameters(line));
    spans.sort_by_key(|span| span.start);
    spans
}

/// Returns the values of those URL parameters whose names mark them as secrets.
fn parameters(line: &str) -> impl Iterator<Item = Span> {
    // Harmless: the other parameters are shown.
    line.match_indices(['?', '&']).filter_map(|(at, _)| {
        let (name, value) = line.get(at + 1..)?.split_once('=')?;
        let is_name = name.chars().all(|c| c.is_alphanumeric() || "_-.".contains(c));
        let end = value.find(|c: char| c.is_whitespace() || "&#\"',}]".contains(c));
        let value = value.get(..end.unwrap_or(value.len()))?;
        let begin = at + 1 + name.len() + 1;
        let hides = is_name && is_secret(name) && !value.is_empty() && !value.starts_with("${");
        hides.then_some(begin..begin + value.len())
    })
}

/// Returns the keys of a line, each with the offset at which its value may begin.
fn keys(line: &str) -> Vec<(&str, usize)> {
    let colons = line.match_indices(':').map(|(at, _)| at);
    let key = |at: usize| {
        let after = line.get(at + 1..)?;
        let before = line.get(..at)?.trim_end();
        let quote = before.ends_with(['"', '\'']);
        // A colon without a space after it is part of a text, except after a quoted key.
        if !(quote || after.is_empty() || after.starts_with([' ', '\t', '{', '['])) {
            return None;
        }
        let before = before.trim_end_matches(['"', '\'']);
        let begin = before.rfind(|c: char| !(c.is_alphanumeric() || "_-.".contains(c)));
        let begin = begin.map_or(0, |begin| begin + 1);
        Some((before.get(begin..)?.trim_start_matches('-'), at + 1))
    };
    // Harmless: a colon without a word before it does not end a key.
    colons.filter_map(key).filter(|(key, _)| !key.is_empty()).collect()
}

/// Returns the value that begins at an offset, unless it is empty or a reference.
fn value(line: &str, begin: usize, flow: bool) -> Option<Span> {
    let rest = line.get(begin..)?;
    let begin = begin + rest.len() - rest.trim_start_matches([' ', '\t', '-']).len();
    let rest = line.get(begin..)?.trim_end();
    let first = rest.chars().next().filter(|first| *first != '#')?;
    let end = match first {
        '"' | '\'' => closing(rest, first),
        '{' | '[' => balanced(rest),
        _ if flow && !rest.starts_with("${") => rest.find([',', '}', ']']),
        _ => rest.find(" #"),
    };
    let end = end.unwrap_or(rest.len());
    let value = rest.get(..end)?.trim_end_matches([' ', '\t']);
    let bare = value.trim_matches(['"', '\'']);
    let reference = bare.strip_prefix("${").and_then(|name| name.strip_suffix('}'));
    let known = reference.is_some_and(|name| !name.contains(['$', '{', '}', ' ']));
    (!known).then_some(begin..begin + value.len())
}

/// Returns the end of a quoted text, including its quote.
pub(crate) fn closing(text: &str, quote: char) -> Option<usize> {
    let mut rest = text.char_indices().skip(1).peekable();
    while let Some((at, c)) = rest.next() {
        let doubled = quote == '\'' && rest.peek().is_some_and(|(_, next)| *next == quote);
        match c {
            _ if c == quote && !doubled => return Some(at + 1),
            '\'' if c == quote => drop(rest.next()),
            '\\' if quote == '"' => drop(rest.next()),
            // Harmless: any other character is a part of the text.
            _ => {}
        }
    }
    None
}

/// Returns the end of a map or list, or `None` if it contains quotes or does not end. Then the rest of the line is hidden.
fn balanced(text: &str) -> Option<usize> {
    let mut depth = 0_usize;
    // Harmless: an inner bracket does not end the value.
    let mut ends =
        text.char_indices().filter(|(_, c)| "{}[]".contains(*c)).filter_map(|(at, c)| {
            depth = if "{[".contains(c) { depth + 1 } else { depth.saturating_sub(1) };
            (depth == 0).then_some(at + 1)
        });
    // In a quoted text, a closing bracket would end the value too early.
    let end = ends.next()?;
    (!text.get(..end)?.contains(['"', '\''])).then_some(end)
}

/// Returns the line with these ranges masked, and with the column adapted.
fn without(line: &str, hidden: &[Span], column: usize) -> Excerpt {
    let place = line.char_indices().nth(column - 1).map_or(line.len(), |(at, _)| at);
    let beyond = column.saturating_sub(line.chars().count() + 1);
    let (mut shown, mut from, mut column) = (String::new(), 0, None);
    for span in hidden {
        let Some(between) = line.get(from..span.start) else { continue };
        if column.is_none() && place < span.end {
            let before = line.get(from..place.min(span.start)).unwrap_or_default();
            column = Some(shown.chars().count() + before.chars().count() + 1);
        }
        shown.push_str(between);
        shown.push_str(MASK);
        from = span.end;
    }
    let rest = line.get(from..).unwrap_or_default();
    let before = line.get(from..place).unwrap_or_default();
    let column = column.unwrap_or(shown.chars().count() + before.chars().count() + 1 + beyond);
    shown.push_str(rest);
    Excerpt { line: shown, column }
}

/// Returns the part of a long line around its column.
fn cut(whole: Excerpt) -> Excerpt {
    let Excerpt { line, column } = whole;
    let chars = line.chars().count();
    if chars <= SHOWN_CHARS_MAX {
        return Excerpt { line, column };
    }
    let from = column.saturating_sub(SHOWN_CHARS_MAX / 2).min(chars - SHOWN_CHARS_MAX);
    let before = if from > 0 { CUT } else { "" };
    let after = if from + SHOWN_CHARS_MAX < chars { CUT } else { "" };
    // Harmless: `...` stands for the rest.
    let piece: String = line.chars().skip(from).take(SHOWN_CHARS_MAX).collect();
    Excerpt { line: format!("{before}{piece}{after}"), column: column - from + before.len() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sources::Source;
    use serde_json::Value as Json;

    fn shown(text: &str, line: u32, column: u32) -> (String, usize) {
        let source = Source { name: "a".to_owned(), folder: "".into(), text: text.to_owned() };
        let excerpt = excerpt(&Sources::new(vec![source]), At { file: 0, line, column }).unwrap();
        (excerpt.line, excerpt.column)
    }

    #[test]
    fn no_control_character_is_shown() {
        assert_eq!(
            shown("a: \u{1b}[31m\tb\u{9b}c", 1, 4),
            ("a: \u{FFFD}[31m\tb\u{FFFD}c".to_owned(), 4)
        );
    }

    #[test]
    fn of_a_long_line_the_piece_around_the_column_is_shown() {
        let line = |before: usize, after: usize| {
            format!("{}{{ password: hush, x{}", "a".repeat(before), "b".repeat(after))
        };
        let short = line(100, 100);
        assert_eq!(shown(&short, 1, 1).0, short.replace("hush", "***"));
        for (before, after) in [(0, 5_000), (5_000, 0), (5_000, 5_000), (150, 300)] {
            let column = before + "{ password: hush, x".len();
            let (piece, at) = shown(&line(before, after), 1, u32::try_from(column).unwrap());
            assert!(piece.chars().count() <= SHOWN_CHARS_MAX + 2 * CUT.len(), "{piece}");
            assert_eq!(piece.chars().nth(at - 1), Some('x'), "{before} {after}: {piece}");
            assert_eq!(piece.starts_with(CUT), before > 200, "{piece}");
            assert_eq!(piece.ends_with(CUT), after > 200, "{piece}");
            assert!(piece.contains("password: ***, x"), "{piece}");
        }
        // After the end of the line.
        let (piece, at) = shown(&line(0, 5_000), 1, 9_000);
        assert!(piece.starts_with(CUT) && at > piece.chars().count(), "{at} {piece}");
    }

    #[test]
    fn values_of_secret_keys_are_hidden_and_all_else_is_shown() {
        for (line, said) in [
            ("  password: hunter2", "  password: ***"),
            ("password: 'hunter2' # note", "password: *** # note"),
            ("password: 'hun''ter2'", "password: ***"),
            ("password: 'hun\\' # note", "password: *** # note"),
            ("password: \"hunter2", "password: ***"),
            ("Password: \"hun\\\"ter2\", tls: 1", "Password: ***, tls: 1"),
            (
                "store: { url: \"redis://a\", password: hunter2, db: 1 }",
                "store: { url: \"redis://a\", password: ***, db: 1 }",
            ),
            ("{\"client_secret\":\"hunter2\",\"a\":1}", "{\"client_secret\":***,\"a\":1}"),
            ("pasword: hunter2", "pasword: ***"),
            ("x-api-key: hunter2", "x-api-key: ***"),
            (
                "set: { authorization: Bearer hunter2, x-a: b }",
                "set: { authorization: ***, x-a: b }",
            ),
            (
                "- api_key: { header: x-key, keys: { alice: hunter2 }, hedaer: 1 }",
                "- api_key: { header: x-key, keys: ***, hedaer: 1 }",
            ),
            ("keys: { alice: \"hun}ter2\" }, a: 1", "keys: ***"),
            ("password: ${PASSWORD}", "password: ${PASSWORD}"),
            ("{ password: \"${PASSWORD}\", a: 1 }", "{ password: \"${PASSWORD}\", a: 1 }"),
            ("password: hunter2${A}", "password: ***"),
            ("password: ${A}hunter2${B}", "password: ***"),
            ("password: hunter2, not: shown", "password: ***"),
            (
                "targets: [\"http://alice:hunter2@a:80\", \"http://b\"]",
                "targets: [\"http://***@a:80\", \"http://b\"]",
            ),
            (
                "rate_limit: { requests: 1, keys_max: 10x }",
                "rate_limit: { requests: 1, keys_max: 10x }",
            ),
            (
                "traces: { otlp: \"http://a\", headers: { x-tenant: hunter2 }, sample: x }",
                "traces: { otlp: \"http://a\", headers: ***, sample: x }",
            ),
            (
                "access_log: { to: { http: \"http://a\", headers: { x-a: hunter2 } }, fromat: 1 }",
                "access_log: { to: { http: \"http://a\", headers: *** }, fromat: 1 }",
            ),
            (
                "match: { headers: { x-tier: gold }, pth: 1 }",
                "match: { headers: { x-tier: gold }, pth: 1 }",
            ),
            ("set: { x-token-id: hunter2, x-a: b }", "set: { x-token-id: ***, x-a: b }"),
            (
                "url: \"https://a/b?v=1&access_token=hunter2&c=d#e\"",
                "url: \"https://a/b?v=1&access_token=***&c=d#e\"",
            ),
            ("url: \"https://a?api_key=${KEY}\"", "url: \"https://a?api_key=${KEY}\""),
            ("password:", "password:"),
            ("path: \"/a:b/**\"", "path: \"/a:b/**\""),
        ] {
            assert_eq!(shown(line, 1, 1).0, said, "{line}");
        }
    }

    #[test]
    fn what_stands_below_a_secret_key_is_hidden() {
        let text = "policies:\n  - api_key:\n      header: x-a\n      keys:\n        # whose\n        alice: hunter2\n\n        bob:\n          key: hunter2\n          tier: Gold\n      qurey: a\ntoken: |\n  hunter2\n  hunter3\nlast: 1\npassword:\n  hunter2\n";
        for (line, said) in [
            (3, "      header: x-a"),
            (6, "        alice: ***"),
            (9, "          key: ***"),
            (10, "          tier: ***"),
            (11, "      qurey: a"),
            (13, "  ***"),
            (14, "  ***"),
            (15, "last: 1"),
            (17, "  ***"),
        ] {
            assert_eq!(shown(text, line, 1).0, said, "{line}");
        }
        let long = format!("top:\n{}  last: hunter2\n", "  a: 1\n".repeat(ABOVE_MAX + 1));
        assert_eq!(shown(&long, u32::try_from(ABOVE_MAX).unwrap() + 3, 1).0, "  last: ***");
    }

    #[test]
    fn headers_of_receivers_are_hidden_whatever_their_names() {
        let text = "telemetry:\n  traces:\n    otlp: http://a\n    headers:\n      x-tenant: hunter2\n    smaple: 1\n  access_log:\n    to: { http: http://a,\n      headers: { x-a: hunter2 } }\n  audit_log:\n    to:\n      http: http://a\n      headers: { x-a: hunter2 }\nroutes:\n  a:\n    match:\n      headers:\n        x-tier: gold\n    respond: { headers: { x-a: b } }\n";
        for (line, said) in [
            (3, "    otlp: http://a"),
            (5, "      x-tenant: ***"),
            (6, "    smaple: 1"),
            (9, "      headers: *** }"),
            (12, "      http: http://a"),
            (13, "      headers: ***"),
            (18, "        x-tier: gold"),
            (19, "    respond: { headers: { x-a: b } }"),
        ] {
            assert_eq!(shown(text, line, 1).0, said, "{line}");
        }
    }

    #[test]
    fn the_column_is_adapted_to_the_masked_line() {
        let line = "{ password: höhle-hunter2, tls: 1 }";
        let column = |of: &str| line.split_once(of).unwrap().0.chars().count();
        for (of, shown_at) in [
            ("password", "password"),
            ("höhle", "***"),
            ("hunter", "***"),
            ("tls", "tls"),
            ("1 }", "1 }"),
        ] {
            let at = u32::try_from(column(of) + 1).unwrap();
            let (shown, column) = shown(line, 1, at);
            assert_eq!(column, shown.find(shown_at).unwrap() + 1, "{of}");
        }
        assert_eq!(shown("a: 1", 1, 9).1, 9);
    }

    #[test]
    fn every_secret_of_the_schema_is_recognised() {
        fn is_marked(schema: &Json) -> bool {
            let any = schema.get("anyOf").and_then(Json::as_array);
            schema.get("writeOnly").is_some() || any.into_iter().flatten().any(is_marked)
        }
        fn walk(schema: &Json, found: &mut Vec<String>) {
            let members = schema.as_object().into_iter().flatten();
            for (name, below) in members
                .chain(schema.get("properties").and_then(Json::as_object).into_iter().flatten())
            {
                if is_marked(below) {
                    assert!(name == "additionalProperties" || is_secret(name), "{name}");
                    found.push(name.clone());
                }
                // Most headers that people write are not secrets. Those of receivers are hidden by where they stand.
                if name != "headers" && below.get("additionalProperties").is_some_and(is_marked) {
                    assert!(holds_secrets(name), "{name}");
                    found.push(name.clone());
                }
                walk(below, found);
            }
            schema.as_array().into_iter().flatten().for_each(|item| walk(item, found));
        }
        let mut found = Vec::new();
        walk(&crate::json_schema(), &mut found);
        for name in ["password", "client_secret", "keys", "users"] {
            assert!(found.iter().any(|known| known == name), "{name} in {found:?}");
        }
    }
}
