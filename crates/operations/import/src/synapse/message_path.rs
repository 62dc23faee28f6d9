//! Places in the message in `${...}`: their notation there, in flows and in CEL.

use super::converter::Converter;
use super::value::header;

/// A place in the message.
#[derive(Default)]
pub(super) struct MessagePath {
    /// The length of its notation in the text, in bytes.
    pub(super) end: usize,
    /// The notation in flows.
    pub(super) path: String,
    /// The notation in CEL.
    pub(super) rule: String,
    /// The notation in CEL with null for an absent value, if that is possible.
    pub(super) or_null: Option<String>,
}

/// Reads `payload.a[0]`, `vars.x`, `headers["X"]`, `params.queryParams.x`, `properties.synapse.x` at the beginning of a text.
pub(super) fn place(
    converter: &mut Converter<'_>,
    text: &str,
) -> Result<Option<MessagePath>, String> {
    let first: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    let end = chain(text, first.len());
    let tail = text.get(first.len()..end).unwrap_or_default();
    let made = |path, rule| Ok(Some(MessagePath { end, path, rule, or_null: None }));
    let member = |path: String, group: &str, name: &str| {
        let rule = format!("{group}[\"{name}\"]");
        let or_null = Some(format!("(\"{name}\" in {group} ? {rule} : null)"));
        Ok(Some(MessagePath { end, path, rule, or_null }))
    };
    let taken = |count: usize| parts(tail, count).ok_or_else(|| format!("`{text}` names nothing"));
    match first.as_str() {
        "payload" => made(format!("$body{tail}"), format!("body{tail}")),
        "" if text.starts_with("$.") || text.starts_with("$[") => {
            let end = chain(text, 1);
            let tail = text.get(1..end).unwrap_or_default();
            let (path, rule) = (format!("$body{tail}"), format!("body{tail}"));
            Ok(Some(MessagePath { end, path, rule, or_null: None }))
        }
        "vars" | "var" => {
            let (names, rest) = taken(1)?;
            let variable = converter.named("default", names.first().map_or("", String::as_str))?;
            let rule = format!("vars.{}{rest}", variable.trim_start_matches('$'));
            made(format!("{variable}{rest}"), rule)
        }
        "headers" => {
            let (names, _) = taken(1)?;
            let name = names.first().map_or("", String::as_str);
            member(header(name)?, "headers", &name.to_ascii_lowercase())
        }
        "params" => {
            let (names, _) = taken(2)?;
            let [group, name] = names.as_slice() else { return Ok(None) };
            let group = match group.as_str() {
                "queryParams" => "query",
                "pathParams" | "uriParams" => "path",
                _ => {
                    // The parameters of a template.
                    let path = converter.named("func", name)?;
                    let rule = format!("vars.{}", path.trim_start_matches('$'));
                    return made(path, rule);
                }
            };
            member(format!("${group}.{name}"), group, name)
        }
        "properties" => {
            let (names, rest) = taken(2)?;
            let [scope, name] = names.as_slice() else { return Ok(None) };
            let path = converter.named(scope, name)?;
            let rule = match path.split_once('.') {
                Some(_) => path.trim_start_matches('$').to_owned(),
                None => format!("vars.{}{rest}", path.trim_start_matches('$')),
            };
            made(format!("{path}{rest}"), rule)
        }
        "configs" => {
            let (names, _) = taken(1)?;
            let name = names.first().map_or("", String::as_str);
            Err(format!(
                "`configs.{name}` is read at run time; write `${{{name}}}` where it is used"
            ))
        }
        _ => Ok(None),
    }
}

/// The end of a chain of members and indices.
fn chain(text: &str, from: usize) -> usize {
    let mut end = from;
    loop {
        let rest = text.get(end..).unwrap_or_default();
        let word = |rest: &str| {
            rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len())
        };
        let dots = if rest.starts_with("..") { 2 } else { usize::from(rest.starts_with('.')) };
        let behind = rest.get(dots..).unwrap_or_default();
        let step = match (dots, rest.starts_with('[')) {
            (0, true) => rest.find(']').map_or(0, |close| close + 1),
            (0, false) => 0,
            _ => match word(behind) {
                0 => 0,
                len => dots + len,
            },
        };
        match step {
            0 => return end,
            step => end += step,
        }
    }
}

/// The first names of a chain, and the rest of it.
fn parts(tail: &str, count: usize) -> Option<(Vec<String>, &str)> {
    let (mut names, mut rest) = (Vec::new(), tail);
    while names.len() < count {
        let quoted = ['"', '\''].into_iter().find_map(|quote| {
            rest.strip_prefix('[')?.strip_prefix(quote)?.split_once(&format!("{quote}]"))
        });
        let (name, after) = match quoted {
            Some(found) => found,
            None => {
                let plain = rest.strip_prefix('.')?;
                let len = plain.find(['.', '[']).unwrap_or(plain.len());
                plain.split_at_checked(len)?
            }
        };
        names.push(name.to_owned());
        rest = after;
    }
    Some((names, rest))
}
