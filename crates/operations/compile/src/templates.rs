//! Compiles texts with placeholders, for header lines and fixed replies.

use config::{At, Map, Match, Report, RoutePath, Spanned};
use plan::{PLACEHOLDERS, PathRegex, Pattern, Template};

use crate::names;

/// Returns the names of a route's path parameters. It is called often for each route, so it does not compile regular expressions.
pub(crate) fn parameters(matches: &Match) -> Vec<String> {
    match matches.path.0.first().map(|path| &path.value) {
        Some(RoutePath::Pattern(text)) => {
            // Harmless: an invalid path is reported elsewhere.
            let pattern = Pattern::parse(text).ok();
            pattern.iter().flat_map(Pattern::parameters).map(str::to_owned).collect()
        }
        Some(RoutePath::Regex(text) | RoutePath::RegexPrefix(text)) => {
            PathRegex::group_names(&text.value)
        }
        Some(RoutePath::Prefix(_)) | None => Vec::new(),
    }
}

/// Compiles a text. Complains about unknown placeholders.
pub(crate) fn read(
    text: &Spanned<String>,
    parameters: &[String],
    report: &mut Report,
) -> Option<Template> {
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    let unknown = match Template::parse(&text.value, &parameters) {
        Ok(template) => return Some(template),
        Err(unknown) => unknown.0,
    };
    let known = || parameters.iter().chain(PLACEHOLDERS).copied();
    let what = names::unknown("placeholder", &unknown, report.suggest(&unknown, known()));
    let listed: Vec<String> = known().map(|name| format!("{{{name}}}")).collect();
    let help = format!(
        "the placeholders are {}, {{claims.NAME}}, {{attributes.NAME}}, {{headers.NAME}} and {{query.NAME}}; write `{{{{{unknown}}}}}` for the literal text",
        listed.join(", ")
    );
    report.error(text.at, what, help);
    None
}

/// Returns true if a text has a placeholder for the client identity, on a route with these path parameters.
pub(crate) fn asks_identity(text: &str, parameters: &[String]) -> bool {
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    Template::parse(text, &parameters).is_ok_and(|read| read.wants_identity())
}

/// Returns true if a text may differ between clients, on a route with these path parameters.
pub(crate) fn depends_on_client(text: &str, parameters: &[String]) -> bool {
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    Template::parse(text, &parameters).is_ok_and(|read| read.depends_on_client())
}

/// Compiles the names and values of header lines that the operator may change.
pub(crate) fn lines(
    map: &Map<Spanned<String>>,
    parameters: &[String],
    report: &mut Report,
) -> Vec<(String, Template)> {
    lines_named(map, parameters, report, names::changeable_header)
}

/// Like `lines`, with names that `read_name` accepts.
pub(crate) fn lines_named(
    map: &Map<Spanned<String>>,
    parameters: &[String],
    report: &mut Report,
    read_name: impl Fn(&str, At, &mut Report) -> Option<String>,
) -> Vec<(String, Template)> {
    map.iter()
        .filter(|(name, _)| name.intact)
        .filter_map(|(name, value)| {
            let name = read_name(&name.value, name.at, report);
            let good = names::header_value(value, report);
            name.zip(good.and_then(|_| read(value, parameters, report)))
        })
        .collect()
}

/// Complains about placeholders for the request's head in a place where there is no head.
pub(crate) fn refuse_head<'v>(
    values: impl Iterator<Item = &'v Spanned<String>>,
    parameters: &[String],
    report: &mut Report,
) {
    let parameters: Vec<&str> = parameters.iter().map(String::as_str).collect();
    for value in values {
        if Template::parse(&value.value, &parameters).is_ok_and(|read| read.wants_head()) {
            let what = "a reply cannot use values of the request";
            let help = "use values of the request in `request`, or in a route's `respond`";
            report.error(value.at, what, help);
        }
    }
}
