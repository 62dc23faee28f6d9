//! Compiles the paths of a route: those it matches, and the path sent to the upstream.

use config::{Config, Match, Report, Route, RoutePath, Spanned};
use plan::{PathCondition, PathPiece, PathRegex, PathSent, Pattern, Segment};

use crate::listeners::path_rules;

/// Reads `match.path`. Returns `None` if one of its paths is invalid, or if the paths do not name the same parameters.
pub(crate) fn conditions(
    matches: &Spanned<Match>,
    report: &mut Report,
) -> Option<Vec<PathCondition>> {
    let paths = &matches.value.path.0;
    let read: Vec<_> = paths.iter().map(|path| condition(path, report)).collect();
    let conditions = read.into_iter().collect::<Option<Vec<PathCondition>>>()?;
    let Some(first) = conditions.first() else {
        let help = "write a path, or leave `path` out to match all";
        report.error(matches.at, "the match has no path", help);
        return None;
    };
    let other = conditions.iter().position(|other| !other.parameters().eq(first.parameters()));
    if let Some(path) = other.and_then(|other| paths.get(other)) {
        let what = "the paths of a route must have the same parameters in the same order";
        report.error(path.at, what, "use the same names, or write a separate route");
        return None;
    }
    Some(conditions)
}

fn condition(path: &Spanned<RoutePath>, report: &mut Report) -> Option<PathCondition> {
    match &path.value {
        RoutePath::Pattern(text) => pattern(text, path, report).map(PathCondition::Pattern),
        RoutePath::Regex(text) => {
            let part = "the whole path";
            regex(text, PathRegex::parse, part, report).map(PathCondition::Regex)
        }
        RoutePath::RegexPrefix(text) => {
            let part = "the beginning of the path";
            regex(text, PathRegex::parse_open, part, report).map(PathCondition::Regex)
        }
        RoutePath::Prefix(text) => prefix(text, report).map(PathCondition::Prefix),
    }
}

/// Returns a path prefix in the normalized form in which paths are matched.
fn prefix(text: &Spanned<String>, report: &mut Report) -> Option<Box<[u8]>> {
    let is_dots = |segment: &str| segment == "." || segment == "..";
    let complete = text.value.rsplit_once('/').map_or("", |(complete, _)| complete);
    let odd = text.value.chars().find(|c| !c.is_ascii_graphic() || matches!(c, '?' | '#' | '\\'));
    let what = match odd {
        _ if !text.value.starts_with('/') => Some("it does not begin with `/`".to_owned()),
        Some(c) => Some(format!("{c:?} is not allowed in a path; percent-encode it")),
        None if complete.split('/').any(is_dots) => {
            Some("`.` and `..` never match: paths are resolved first".to_owned())
        }
        None => None,
    };
    match what {
        None => Some(plan::path::unescaped(text.value.as_bytes()).into_owned().into()),
        Some(why) => {
            let what =
                format!("the prefix `{}` cannot be matched: {why}", text.value.escape_debug());
            report.error(text.at, what, "write the beginning of a path, such as `/orders`");
            None
        }
    }
}

fn pattern(text: &str, path: &Spanned<RoutePath>, report: &mut Report) -> Option<Pattern> {
    let complain = |error: plan::PatternError| {
        let what = format!("the path `{}` cannot be matched: {error}", text.escape_debug());
        report.error(
            path.at,
            what,
            "write `/a` for one path, `/a/**` for all below, `/a/{id}/b` for any one segment",
        );
    };
    Pattern::parse(text).map_err(complain).ok()
}

fn regex(
    text: &Spanned<String>,
    parse: fn(&str) -> Result<PathRegex, plan::RegexError>,
    part: &str,
    report: &mut Report,
) -> Option<PathRegex> {
    let complain = |error: plan::RegexError| {
        let shown = text.value.escape_debug();
        let what = format!("the regular expression `{shown}` cannot be matched: {error}");
        let help = format!(
            "write an expression for {part}, such as `/orders/[0-9]+`, without look-around and backreferences"
        );
        report.error(text.at, what, help);
    };
    parse(&text.value).map_err(complain).ok()
}

/// Warns of a path that no request can match on any listener: the path rules refuse such requests, or normalize their paths so that another
/// route matches.
pub(crate) fn warn_of_unreachable(
    path: &Spanned<RoutePath>,
    matches: &Match,
    condition: &PathCondition,
    config: &Config,
    report: &mut Report,
) {
    // The paths that a regular expression matches cannot be listed.
    let PathCondition::Pattern(pattern) = condition else { return };
    let plain = Pattern { open: false, ..pattern.clone() }.to_string();
    let comes = |rules| {
        let resolved = plan::path::resolve(plain.as_bytes(), rules);
        resolved.is_ok_and(|resolved| *resolved.path == *plain.as_bytes())
    };
    let Match { listener: bound, .. } = matches;
    let takes = |name: &str| bound.0.is_empty() || bound.0.iter().any(|bound| bound.value == name);
    let listeners = config.listen.iter().filter(|(name, _)| takes(&name.value));
    let mut listeners = listeners.map(|(_, listener)| path_rules(&listener.paths)).peekable();
    if listeners.peek().is_some() && !listeners.any(comes) {
        let what = format!(
            "no request can have the path `{}`: every listener refuses or rewrites it",
            path.value.text().escape_debug()
        );
        let help = "write it another way, or say `keep` in the `paths` of a listener";
        report.warn(path.at, what, help);
    }
}

/// Returns the path that is sent to the upstream, by `strip_prefix` or `rewrite`.
pub(crate) fn sent(
    route: &Route,
    condition: &PathCondition,
    report: &mut Report,
) -> Option<PathSent> {
    match (&route.strip_prefix, &route.rewrite) {
        (None, None) => Some(PathSent::Unchanged),
        (Some(prefix), None) => without(prefix, condition, report),
        (None, Some(template)) => made(template, condition, report),
        (Some(_), Some(template)) => {
            let help = "keep `rewrite`, where `{**}` stands for the rest, or keep `strip_prefix`";
            report.error(template.at, "`rewrite` and `strip_prefix` cannot be combined", help);
            None
        }
    }
}

/// Returns a path in the normalized form in which request paths are matched: unreserved characters are unescaped, and other escapes are in
/// upper case.
pub(crate) fn as_matched(path: &str) -> String {
    // Harmless: only escapes of ASCII characters are decoded, so the result is still valid UTF-8.
    String::from_utf8_lossy(&plan::path::unescaped(path.as_bytes())).into_owned()
}

/// Returns true if a text is a valid request target: a path with or without a query.
pub(crate) fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.chars().all(|c| c.is_ascii_graphic() && c != '#')
}

fn without(
    prefix: &Spanned<String>,
    condition: &PathCondition,
    report: &mut Report,
) -> Option<PathSent> {
    if let PathCondition::Prefix(begins) = condition {
        return without_text(prefix, begins, report);
    }
    let PathCondition::Pattern(pattern) = condition else {
        let what = "a regular expression has no fixed prefix to remove";
        report.error(
            prefix.at,
            what,
            "write `rewrite`, where `{name}` stands for a group `(?<name>...)` of the expression, and `{**}` for what follows a `regex_prefix`",
        );
        return None;
    };
    let text = prefix.value.strip_suffix('/').unwrap_or(&prefix.value);
    if text.is_empty() {
        return Some(PathSent::Unchanged);
    }
    // Harmless: an invalid pattern gets a complaint below.
    let cut =
        Pattern::parse(text).ok().filter(|cut| !cut.open && cut.parameters().next().is_none());
    let Some(cut) = cut else {
        let what = format!("`{}` is not a prefix that can be removed", prefix.value.escape_debug());
        let help = "write the first segments of the path literally, such as `/orders`; for parameters use `rewrite`";
        report.error(prefix.at, what, help);
        return None;
    };
    if !pattern.segments.starts_with(&cut.segments) {
        let what = format!("the paths of this route, `{pattern}`, do not begin with `{text}`");
        report.error(prefix.at, what, format!("write {}", prefixes(pattern)));
        return None;
    }
    // The text of `cut` has the normalized form, in which paths are matched.
    Some(PathSent::Without(cut.to_string().into_bytes().into()))
}

/// Compiles `strip_prefix` for a path that is matched by prefix.
fn without_text(cut: &Spanned<String>, begins: &[u8], report: &mut Report) -> Option<PathSent> {
    let text = plan::path::unescaped(cut.value.as_bytes());
    if !begins.starts_with(&text) {
        // Harmless: the configuration is UTF-8 text.
        let begins = String::from_utf8_lossy(begins);
        let what =
            format!("the paths of this route, `{begins}...`, do not begin with `{}`", cut.value);
        report.error(cut.at, what, format!("write `{begins}` or a part of it"));
        return None;
    }
    Some(PathSent::Without(text.into_owned().into()))
}

/// Returns the longest prefix that could be removed, as help for a complaint.
fn prefixes(pattern: &Pattern) -> String {
    // Harmless: only the segments before the first parameter can be removed.
    let fixed = pattern.segments.iter().map_while(|segment| match segment {
        // Harmless: the configuration is UTF-8 text.
        Segment::Literal(text) => Some(format!("/{}", String::from_utf8_lossy(text))),
        Segment::Parameter(_) => None,
    });
    match fixed.collect::<String>() {
        none if none.is_empty() => "no `strip_prefix`: the path has no fixed beginning".to_owned(),
        prefix => format!("`{prefix}` or a part of it"),
    }
}

fn made(
    template: &Spanned<String>,
    condition: &PathCondition,
    report: &mut Report,
) -> Option<PathSent> {
    let names: Vec<&str> = condition.parameters().collect();
    let open = condition.has_rest();
    let read = pieces(&template.value, &names, open, report);
    let complain = |what: String| {
        let mut known: Vec<String> = names.iter().map(|name| format!("`{{{name}}}`")).collect();
        known.extend(open.then(|| "`{**}`".to_owned()));
        known.push("`{path}`".to_owned());
        report.error(template.at, what, format!("write a path with {}", known.join(", ")));
    };
    read.map(|pieces| PathSent::Made(pieces.into())).map_err(complain).ok()
}

fn pieces(
    template: &str,
    names: &[&str],
    open: bool,
    report: &Report,
) -> Result<Vec<PathPiece>, String> {
    if !template.starts_with('/') {
        return Err("a rewritten path must begin with `/`".to_owned());
    }
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((text, after)) = rest.split_once('{') {
        pieces.extend(text_piece(text)?);
        let Some((name, after)) = after.split_once('}') else {
            return Err("a `{` without its `}`".to_owned());
        };
        pieces.push(match names.iter().position(|known| *known == name) {
            Some(index) => PathPiece::Parameter(index),
            None if name == "**" && open => PathPiece::Rest,
            None if name == "path" => PathPiece::Whole,
            None if name == "**" => {
                let what = "`{**}` needs a path that ends in `/**`, a `prefix` or a `regex_prefix`";
                return Err(what.to_owned());
            }
            None => {
                let meant = report.suggest(name, names.iter().copied());
                return Err(crate::names::unknown("parameter", name, meant));
            }
        });
        rest = after;
    }
    pieces.extend(text_piece(rest)?);
    Ok(pieces)
}

fn text_piece(text: &str) -> Result<Option<PathPiece>, String> {
    if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic() || "?#\\}".contains(*c)) {
        return Err(format!("{odd:?} is not allowed in a path; percent-encode it"));
    }
    if text.split('/').any(|segment| segment == "." || segment == "..") {
        return Err("`.` and `..` are not allowed in a path".to_owned());
    }
    Ok((!text.is_empty()).then(|| PathPiece::Text(text.as_bytes().into())))
}
