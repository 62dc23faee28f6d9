//! The paths of a route: what is matched, what is cut, what is sent instead.

use config::{Config, Match, Report, Route, Spanned};
use plan::{PathSent, Pattern, Piece, Segment};

use crate::listeners::path_rules;

/// The patterns of `match.path`; nothing if one of them is none, or if they do not name the same parameters.
pub(crate) fn patterns(matches: &Spanned<Match>, report: &mut Report) -> Option<Vec<Pattern>> {
    let paths = &matches.value.path.0;
    let read: Vec<_> = paths.iter().map(|path| pattern(path, report)).collect();
    let patterns = read.into_iter().collect::<Option<Vec<Pattern>>>()?;
    let Some(first) = patterns.first() else {
        let help = "write one, or leave `path` out for all of them";
        report.error(matches.at, "a match without a path", help);
        return None;
    };
    let other = patterns.iter().position(|other| !other.parameters().eq(first.parameters()));
    if let Some(path) = other.and_then(|other| paths.get(other)) {
        let what = "the paths of a route have the same parameters, in the same order";
        report.error(path.at, what, "name them alike, or make a route of it");
        return None;
    }
    Some(patterns)
}

fn pattern(path: &Spanned<String>, report: &mut Report) -> Option<Pattern> {
    let complain = |error: plan::PatternError| {
        let what = format!("the path `{}` cannot be matched: {error}", path.value.escape_debug());
        report.error(
            path.at,
            what,
            "write `/a` for one path, `/a/**` for all below, `/a/{id}/b` for any one segment",
        );
    };
    Pattern::parse(&path.value).map_err(complain).ok()
}

/// Warns of a path that no listener lets come to its route as it is written: its requests are refused, or belong to another route.
pub(crate) fn warn_of_unreachable(
    path: &Spanned<String>,
    matches: &Match,
    pattern: &Pattern,
    config: &Config,
    report: &mut Report,
) {
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
            "no request comes to the path `{}`: every listener refuses or changes it",
            path.value.escape_debug()
        );
        let help = "write it another way, or say `keep` in the `paths` of a listener";
        report.warn(path.at, what, help);
    }
}

/// The path the upstream sees, by `strip_prefix` or `rewrite`.
pub(crate) fn sent(route: &Route, pattern: &Pattern, report: &mut Report) -> Option<PathSent> {
    match (&route.strip_prefix, &route.rewrite) {
        (None, None) => Some(PathSent::AsItCame),
        (Some(prefix), None) => without(prefix, pattern, report),
        (None, Some(template)) => made(template, pattern, report),
        (Some(_), Some(template)) => {
            let help = "keep `rewrite`, where `{**}` stands for the rest, or keep `strip_prefix`";
            report.error(
                template.at,
                "`rewrite` and `strip_prefix` both say what path is sent",
                help,
            );
            None
        }
    }
}

/// A path as requests' paths are matched: with escapes that need not be read, in capitals.
pub(crate) fn as_matched(path: &str) -> String {
    String::from_utf8_lossy(&plan::path::unescaped(path.as_bytes())).into_owned()
}

/// True for what may stand in a request line: a path, with a query or without.
pub(crate) fn is_target(text: &str) -> bool {
    text.starts_with('/') && text.chars().all(|c| c.is_ascii_graphic() && c != '#')
}

fn without(prefix: &Spanned<String>, pattern: &Pattern, report: &mut Report) -> Option<PathSent> {
    let text = prefix.value.strip_suffix('/').unwrap_or(&prefix.value);
    if text.is_empty() {
        return Some(PathSent::AsItCame);
    }
    let cut =
        Pattern::parse(text).ok().filter(|cut| !cut.open && cut.parameters().next().is_none());
    let Some(cut) = cut else {
        let what = format!("`{}` is no prefix that can be cut", prefix.value.escape_debug());
        report.error(prefix.at, what, "write the path's first segments as they are sent, such as `/orders`; `rewrite` knows parameters");
        return None;
    };
    if !pattern.segments.starts_with(&cut.segments) {
        let what = format!("the paths of this route, `{pattern}`, do not begin with `{text}`");
        report.error(prefix.at, what, format!("write {}", prefixes(pattern)));
        return None;
    }
    // As paths are matched: with escapes that need not be read.
    Some(PathSent::Without(cut.to_string().into_bytes().into()))
}

/// The longest prefix that could be cut.
fn prefixes(pattern: &Pattern) -> String {
    let fixed = pattern.segments.iter().map_while(|segment| match segment {
        Segment::Literal(text) => Some(format!("/{}", String::from_utf8_lossy(text))),
        Segment::Parameter(_) => None,
    });
    match fixed.collect::<String>() {
        none if none.is_empty() => {
            "no `strip_prefix`: the path begins with nothing fixed".to_owned()
        }
        prefix => format!("`{prefix}` or a part of it"),
    }
}

fn made(template: &Spanned<String>, pattern: &Pattern, report: &mut Report) -> Option<PathSent> {
    let names: Vec<&str> = pattern.parameters().collect();
    let read = pieces(&template.value, &names, pattern.open, report);
    let complain = |what: String| {
        let mut known: Vec<String> = names.iter().map(|name| format!("`{{{name}}}`")).collect();
        known.extend(pattern.open.then(|| "`{**}`".to_owned()));
        let known = match known.is_empty() {
            true => "the match has no parameters and no `/**` to use here".to_owned(),
            false => format!("write a path with {}", known.join(", ")),
        };
        report.error(template.at, what, known);
    };
    read.map(|pieces| PathSent::Made(pieces.into())).map_err(complain).ok()
}

fn pieces(
    template: &str,
    names: &[&str],
    open: bool,
    report: &Report,
) -> Result<Vec<Piece>, String> {
    if !template.starts_with('/') {
        return Err("a rewritten path begins with `/`".to_owned());
    }
    let mut pieces = Vec::new();
    let mut rest = template;
    while let Some((text, after)) = rest.split_once('{') {
        pieces.extend(text_piece(text)?);
        let Some((name, after)) = after.split_once('}') else {
            return Err("a `{` without its `}`".to_owned());
        };
        pieces.push(match names.iter().position(|known| *known == name) {
            Some(index) => Piece::Parameter(index),
            None if name == "**" && open => Piece::Rest,
            None if name == "**" => return Err("`{**}` has nothing to stand for".to_owned()),
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

fn text_piece(text: &str) -> Result<Option<Piece>, String> {
    if let Some(odd) = text.chars().find(|c| !c.is_ascii_graphic() || "?#\\}".contains(*c)) {
        return Err(format!("{odd:?} cannot stand in a path; write it percent-encoded"));
    }
    if text.split('/').any(|segment| segment == "." || segment == "..") {
        return Err("`.` and `..` cannot stand in a path that is sent".to_owned());
    }
    Ok((!text.is_empty()).then(|| Piece::Text(text.as_bytes().into())))
}
