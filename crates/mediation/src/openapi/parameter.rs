//! One parameter: its text found, read by its style, held to its schema.

use std::borrow::Cow;
use std::collections::BTreeMap;

use message::Headers;

use super::model::{Object, Operation, Parameter, Place, Shape, Style, Types};
use super::path::Values;
use super::text::{Said, decoded, meant, pairs};
use crate::json_schema::{Document, Unreadable};

/// A value that is refused before its schema is asked: readers differ in how they read it.
pub(super) enum Wrong {
    /// It may be there once and is there again, of which some take the first and some the last.
    Twice,
    /// So is a member of an object.
    Member(Box<str>),
    /// So is a member of an object that is written in JSON.
    Within,
    /// It is not written in its style.
    Style(&'static str),
    /// A name that some take for a member of it.
    Near(Box<str>),
}

type Found = Result<Option<Said>, Wrong>;
type Members = BTreeMap<String, Said>;

/// The faults of the parameters of a path, a query and lines, at most `max`.
pub(super) fn faults(
    operation: &Operation,
    values: &Values<'_>,
    asked: &[u8],
    headers: &Headers,
    max: usize,
) -> Vec<String> {
    let mut faults = Vec::new();
    for parameter in &operation.parameters {
        if faults.len() >= max {
            break;
        }
        let found = match parameter.place {
            Place::Path => path(parameter, values),
            Place::Query => {
                if parameter.may_be_empty
                    && parameter.style != Style::DeepObject
                    && matches!(once(named(asked, &parameter.name)), Ok(Some(b"")))
                {
                    continue;
                }
                query(parameter, asked, operation)
            }
            Place::Header => header(parameter, headers),
            Place::Cookie => {
                cookies(parameter, headers, max, &mut faults);
                continue;
            }
        };
        check(parameter, found, max - faults.len(), &mut faults);
    }
    faults
}

/// Appends the faults of a value that was found, or of a missing one.
pub(super) fn check(parameter: &Parameter, found: Found, max: usize, faults: &mut Vec<String>) {
    let place = match parameter.place {
        Place::Path => "path parameter",
        Place::Query => "query parameter",
        Place::Header => "header",
        Place::Cookie => "cookie",
    };
    let found = match found {
        Ok(found) => found.map(Said::document),
        Err(wrong) => {
            let said = match wrong {
                Wrong::Twice => ": it is there more than once".to_owned(),
                Wrong::Member(name) => {
                    format!(" at /{}: it is there more than once", name.escape_debug())
                }
                Wrong::Within => ": an object has a member twice".to_owned(),
                Wrong::Style(form) => format!(": it is not written as {form}"),
                Wrong::Near(name) => format!(": `{}` names no member of it", name.escape_debug()),
            };
            faults.push(format!("{place} `{}`{said}", parameter.name));
            return;
        }
    };
    match found {
        Some(value) if parameter.schema.allows(&value) => {}
        Some(value) => {
            let wrong = parameter.schema.faults(&value, true, max).into_iter();
            faults.extend(wrong.map(|fault| match fault.strip_prefix("/: ") {
                Some(message) => format!("{place} `{}`: {message}", parameter.name),
                None => format!("{place} `{}` at {fault}", parameter.name),
            }));
        }
        None if parameter.required => {
            faults.push(format!("{place} `{}`: it is required", parameter.name));
        }
        None => {}
    }
}

fn path(parameter: &Parameter, values: &Values<'_>) -> Found {
    let Some((_, text)) = values.iter().find(|(name, _)| *name == &*parameter.name) else {
        return Ok(None);
    };
    if parameter.json {
        return json(text).map(Some);
    }
    match parameter.style {
        Style::Matrix => matrix(parameter, text).map(Some),
        Style::Label => {
            let label = text.strip_prefix('.').ok_or(Wrong::Style("`.VALUE`"))?;
            let delimiter = if parameter.explode { "." } else { "," };
            delimited(parameter, label, delimiter).map(Some)
        }
        style @ (Style::Simple
        | Style::Form
        | Style::SpaceDelimited
        | Style::PipeDelimited
        | Style::TabDelimited
        | Style::DeepObject) => delimited(parameter, text, delimiter(style)).map(Some),
    }
}

/// The separator between the parts of a value that is written as one.
fn delimiter(style: Style) -> &'static str {
    match style {
        Style::SpaceDelimited => " ",
        Style::PipeDelimited => "|",
        Style::TabDelimited => "\t",
        Style::Simple | Style::Label | Style::Matrix | Style::Form | Style::DeepObject => ",",
    }
}

/// `;a=1;a=2`, `;a=1,2`, `;x=1;y=2`.
fn matrix(parameter: &Parameter, text: &str) -> Result<Said, Wrong> {
    let wrong = Wrong::Style("`;NAME=VALUE`");
    let Some(text) = text.strip_prefix(';') else { return Err(wrong) };
    // A value that is empty is written without `=`.
    let value = |part| match part_of(part) {
        (name, value) if *name == *parameter.name => Some(value),
        _ => None,
    };
    match (&parameter.shape, parameter.explode) {
        (Shape::List(types), true) => {
            let items: Option<Vec<&str>> = text.split(';').map(value).collect();
            let items = items.ok_or(wrong)?;
            Ok(Said::List(items.into_iter().map(|item| meant(item, *types)).collect()))
        }
        (Shape::Object(object), true) => members(object, text.split(';')),
        _ => delimited(parameter, value(text).ok_or(wrong)?, ","),
    }
}

/// `name=value`, or a name alone.
fn part_of(part: &str) -> (&str, &str) {
    part.split_once('=').unwrap_or((part, ""))
}

/// A text whose parts stand between delimiters.
fn delimited(parameter: &Parameter, text: &str, delimiter: &str) -> Result<Said, Wrong> {
    match &parameter.shape {
        Shape::Plain(types) => Ok(meant(text, *types)),
        Shape::List(types) => Ok(list(text, delimiter, *types)),
        Shape::Object(object) if parameter.explode => members(object, text.split(delimiter)),
        Shape::Object(object) => {
            let mut parts = text.split(delimiter);
            let mut map = Members::new();
            while let Some(name) = parts.next().filter(|name| !name.is_empty()) {
                insert(&mut map, object, name, parts.next().unwrap_or_default())?;
            }
            Ok(Said::Object(map))
        }
    }
}

fn list(text: &str, delimiter: &str, types: Types) -> Said {
    let items = text.split(delimiter).filter(|_| !text.is_empty());
    Said::List(items.map(|item| meant(item, types)).collect())
}

/// `name=value` each.
fn members<'a>(object: &Object, parts: impl Iterator<Item = &'a str>) -> Result<Said, Wrong> {
    let mut map = Members::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let (name, value) = part_of(part);
        insert(&mut map, object, name, value)?;
    }
    Ok(Said::Object(map))
}

fn member(object: &Object, name: &str, text: &str) -> Result<Said, Wrong> {
    let known = object.members.iter().find(|(known, _)| **known == *name);
    Ok(match known.map(|(_, shape)| shape) {
        Some(Shape::Plain(types)) => meant(text, *types),
        Some(Shape::List(types)) => {
            match object.joined.iter().find(|(joined, _)| **joined == *name) {
                Some((_, style)) => list(text, delimiter(*style), *types),
                None => Said::List(vec![meant(text, *types)]),
            }
        }
        Some(Shape::Object(_)) => json(text)?,
        None => meant(text, object.others),
    })
}

fn query(parameter: &Parameter, query: &[u8], operation: &Operation) -> Found {
    if parameter.json {
        let value = once(named(query, &parameter.name))?;
        return value.map(|value| json(&decoded(value, true))).transpose();
    }
    match (&parameter.shape, parameter.style) {
        (Shape::Object(object), Style::DeepObject) => deep(parameter, object, query),
        (Shape::Object(object), _) if parameter.explode => exploded(object, query, operation),
        (Shape::List(types), _) if parameter.explode => {
            let values = named(query, &parameter.name);
            let items: Vec<Said> =
                values.map(|value| meant(&decoded(value, true), *types)).collect();
            Ok((!items.is_empty()).then_some(Said::List(items)))
        }
        (_, style) => {
            let Some(value) = once(named(query, &parameter.name))? else { return Ok(None) };
            delimited(parameter, &decoded(value, true), delimiter(style)).map(Some)
        }
    }
}

fn once<T>(mut values: impl Iterator<Item = T>) -> Result<Option<T>, Wrong> {
    let first = values.next();
    match values.next() {
        Some(_) => Err(Wrong::Twice),
        None => Ok(first),
    }
}

fn named<'a>(query: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
    pairs(query).filter(move |(known, _)| known == name).map(|(_, value)| value)
}

/// `filter[a]=1&filter[b]=2`; a list may be `filter[c][]=1&filter[c][]=2` as well. Names that begin so and go on otherwise are
/// refused, since servers read them in many ways.
fn deep(parameter: &Parameter, object: &Object, query: &[u8]) -> Found {
    let mut map = Members::new();
    for (name, value) in pairs(query) {
        let Some(rest) = name.strip_prefix(&*parameter.name) else { continue };
        if rest.is_empty() && value.is_empty() && parameter.may_be_empty {
            continue;
        }
        if !rest.is_empty() && !rest.starts_with('[') {
            continue;
        }
        let near = || Wrong::Near(name.as_ref().into());
        let inner = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or_else(near)?;
        let list = inner.strip_suffix("][").filter(|list| {
            let known = object.members.iter().find(|(known, _)| **known == **list);
            matches!(known, Some((_, Shape::List(_)))) || may_be_anything(object, list)
        });
        let inner = list.unwrap_or(inner);
        if inner.contains(['[', ']']) {
            return Err(near());
        }
        insert(&mut map, object, inner, &decoded(value, true))?;
    }
    Ok((!map.is_empty()).then_some(Said::Object(map)))
}

/// Every pair that is no other parameter's is a member.
fn exploded(object: &Object, query: &[u8], operation: &Operation) -> Found {
    let mut map = Members::new();
    for (name, value) in pairs(query) {
        let others = operation.parameters.iter().filter(|other| other.place == Place::Query);
        let mut plain = others.filter(|other| !matches!(other.shape, Shape::Object(_)));
        if !plain.any(|other| *other.name == *name) {
            insert(&mut map, object, &name, &decoded(value, true))?;
        }
    }
    Ok((!map.is_empty()).then_some(Said::Object(map)))
}

/// Adds a member; one that comes again and may be a list grows.
fn insert(map: &mut Members, object: &Object, name: &str, text: &str) -> Result<(), Wrong> {
    match (map.get_mut(name), member(object, name, text)?) {
        (Some(Said::List(items)), Said::List(more)) => items.extend(more),
        (Some(Said::List(items)), value) if may_be_anything(object, name) => items.push(value),
        (Some(known), value) if may_be_anything(object, name) => {
            let first = std::mem::replace(known, Said::List(Vec::new()));
            *known = Said::List(vec![first, value]);
        }
        (Some(_), _) => return Err(Wrong::Member(name.into())),
        (None, value) => drop(map.insert(name.to_owned(), value)),
    }
    Ok(())
}

fn may_be_anything(object: &Object, name: &str) -> bool {
    match object.members.iter().find(|(known, _)| **known == *name) {
        Some((_, Shape::Plain(types))) => types.anything,
        Some((_, Shape::List(_) | Shape::Object(_))) => false,
        None => object.others.anything,
    }
}

/// The object of a form, or the fault of the form.
pub(super) fn form(object: &Object, bytes: &[u8]) -> Result<Said, String> {
    let mut map = Members::new();
    for (name, value) in pairs(bytes) {
        insert(&mut map, object, &name, &decoded(value, true)).map_err(|wrong| {
            let said = match wrong {
                Wrong::Within => "an object has a member twice",
                Wrong::Twice | Wrong::Member(_) | Wrong::Style(_) | Wrong::Near(_) => {
                    "it is there more than once"
                }
            };
            format!("/{}: {said}", name.escape_debug())
        })?;
    }
    Ok(Said::Object(map))
}

/// A header's value; lines of one name are one list.
pub(super) fn header(parameter: &Parameter, headers: &Headers) -> Found {
    let mut lines = headers.get_all(&parameter.name).map(String::from_utf8_lossy);
    let Some(first) = lines.next() else { return Ok(None) };
    let joined = lines.fold(first, |joined, line| Cow::Owned(format!("{joined},{line}")));
    if parameter.json {
        return json(&joined).map(Some);
    }
    let delimiter = delimiter(parameter.style);
    let parts: Vec<&str> = joined.split(delimiter).map(str::trim).collect();
    match parameter.shape {
        Shape::Plain(types) => Ok(Some(meant(&joined, types))),
        Shape::List(_) | Shape::Object(_) => {
            delimited(parameter, &parts.join(delimiter), delimiter).map(Some)
        }
    }
}

/// Every cookie of that name: a browser may have several, for parts of a site.
fn cookies(parameter: &Parameter, headers: &Headers, max: usize, faults: &mut Vec<String>) {
    let lines = headers.get_all("cookie");
    let cookies = lines.flat_map(|line| line.split(|b| *b == b';')).map(<[u8]>::trim_ascii);
    let mut values = cookies.filter_map(|cookie| {
        cookie.strip_prefix(parameter.name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    });
    let mut next = values.next();
    loop {
        let found = next.map(|value| decoded(value, false)).map(|text| match parameter.json {
            true => json(&text),
            false => delimited(parameter, &text, ","),
        });
        check(parameter, found.transpose(), max.saturating_sub(faults.len()), faults);
        next = values.next();
        if next.is_none() || faults.len() >= max {
            return;
        }
    }
}

/// A text that is JSON; another stays a text, for the schema to refuse.
fn json(text: &str) -> Result<Said, Wrong> {
    match Document::read(text.as_bytes()) {
        Ok(_) => Ok(Said::Written(text.to_owned())),
        Err(Unreadable::Twice { .. }) => Err(Wrong::Within),
        Err(Unreadable::Malformed { .. }) => Ok(Said::text(text)),
    }
}
