//! One parameter: its text found, read by its style, held to its schema.

use std::borrow::Cow;

use message::{Headers, RequestHead};
use serde_json::{Map, Value as Json};

use super::document::{Document, Unreadable};
use super::model::{Object, Operation, Parameter, Place, Shape, Style, Types};
use super::path::Values;
use super::text::{decoded, meant, pairs};

/// What may be there once is there again. Who reads which of them differs, so that neither can be vouched for.
pub(super) enum Twice {
    Itself,
    /// A member of an object.
    Member(Box<str>),
    /// A member of an object that is written in JSON.
    Within,
}

type Found = Result<Option<Json>, Twice>;

/// What is wrong with the parameters of a request, at most so many.
pub(super) fn faults(
    operation: &Operation,
    head: &RequestHead,
    values: &Values<'_>,
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
                let asked = head.query().unwrap_or_default();
                if parameter.may_be_empty
                    && matches!(once(named(asked, &parameter.name)), Ok(Some(b"")))
                {
                    continue;
                }
                query(parameter, asked, operation)
            }
            Place::Header => header(parameter, &head.headers),
            Place::Cookie => {
                cookies(parameter, &head.headers, max, &mut faults);
                continue;
            }
        };
        check(parameter, found, max - faults.len(), &mut faults);
    }
    faults
}

/// Appends what is wrong with a value that was found, or not.
pub(super) fn check(parameter: &Parameter, found: Found, max: usize, faults: &mut Vec<String>) {
    let place = match parameter.place {
        Place::Path => "path parameter",
        Place::Query => "query parameter",
        Place::Header => "header",
        Place::Cookie => "cookie",
    };
    let found = match found {
        Ok(found) => found.map(Document::of),
        Err(twice) => {
            let said = match twice {
                Twice::Itself => ": it is there more than once".to_owned(),
                Twice::Member(name) => {
                    format!(" at /{}: it is there more than once", name.escape_debug())
                }
                Twice::Within => ": an object has a member twice".to_owned(),
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
    if parameter.style == Style::Matrix {
        return matrix(parameter, text).map(Some);
    }
    let label = text.strip_prefix('.').filter(|_| parameter.style == Style::Label);
    let exploded = label.is_some() && parameter.explode;
    let delimiter = if exploded { "." } else { delimiter(parameter.style) };
    delimited(parameter, label.unwrap_or(text), delimiter).map(Some)
}

/// What stands between the parts of a value that is written as one.
fn delimiter(style: Style) -> &'static str {
    match style {
        Style::SpaceDelimited => " ",
        Style::PipeDelimited => "|",
        Style::TabDelimited => "\t",
        Style::Simple | Style::Label | Style::Matrix | Style::Form | Style::DeepObject => ",",
    }
}

/// `;a=1;a=2`, `;a=1,2`, `;x=1;y=2`.
fn matrix(parameter: &Parameter, text: &str) -> Result<Json, Twice> {
    let text = text.strip_prefix(';').unwrap_or(text);
    let named = text.strip_prefix(&*parameter.name).and_then(|rest| rest.strip_prefix('='));
    match (&parameter.shape, parameter.explode) {
        (Shape::List(types), true) => {
            let items = text.split(';').filter_map(|item| item.split_once('='));
            Ok(Json::Array(items.map(|(_, value)| meant(value, *types)).collect()))
        }
        (Shape::Object(object), true) => members(object, text.split(';')),
        _ => delimited(parameter, named.unwrap_or(text), ","),
    }
}

/// A text whose parts stand between delimiters.
fn delimited(parameter: &Parameter, text: &str, delimiter: &str) -> Result<Json, Twice> {
    match &parameter.shape {
        Shape::Plain(types) => Ok(meant(text, *types)),
        Shape::List(types) => Ok(list(text, delimiter, *types)),
        Shape::Object(object) if parameter.explode => members(object, text.split(delimiter)),
        Shape::Object(object) => {
            let mut parts = text.split(delimiter);
            let mut map = Map::new();
            while let Some(name) = parts.next().filter(|name| !name.is_empty()) {
                insert(&mut map, object, name, parts.next().unwrap_or_default())?;
            }
            Ok(Json::Object(map))
        }
    }
}

fn list(text: &str, delimiter: &str, types: Types) -> Json {
    let items = text.split(delimiter).filter(|_| !text.is_empty());
    Json::Array(items.map(|item| meant(item, types)).collect())
}

/// `name=value` each.
fn members<'a>(object: &Object, parts: impl Iterator<Item = &'a str>) -> Result<Json, Twice> {
    let mut map = Map::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        insert(&mut map, object, name, value)?;
    }
    Ok(Json::Object(map))
}

fn member(object: &Object, name: &str, text: &str) -> Result<Json, Twice> {
    let known = object.members.iter().find(|(known, _)| **known == *name);
    Ok(match known.map(|(_, shape)| shape) {
        Some(Shape::Plain(types)) => meant(text, *types),
        Some(Shape::List(types)) => {
            match object.joined.iter().find(|(joined, _)| **joined == *name) {
                Some((_, style)) => list(text, delimiter(*style), *types),
                None => Json::Array(vec![meant(text, *types)]),
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
            let items: Vec<Json> =
                values.map(|value| meant(&decoded(value, true), *types)).collect();
            Ok((!items.is_empty()).then_some(Json::Array(items)))
        }
        (_, style) => {
            let Some(value) = once(named(query, &parameter.name))? else { return Ok(None) };
            delimited(parameter, &decoded(value, true), delimiter(style)).map(Some)
        }
    }
}

fn once<T>(mut values: impl Iterator<Item = T>) -> Result<Option<T>, Twice> {
    let first = values.next();
    match values.next() {
        Some(_) => Err(Twice::Itself),
        None => Ok(first),
    }
}

fn named<'a>(query: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
    pairs(query).filter(move |(known, _)| known == name).map(|(_, value)| value)
}

/// `filter[a]=1&filter[b]=2`; a list may be `filter[c][]=1&filter[c][]=2` as well.
fn deep(parameter: &Parameter, object: &Object, query: &[u8]) -> Found {
    let mut map = Map::new();
    for (name, value) in pairs(query) {
        let inner = name.strip_prefix(&*parameter.name).and_then(|rest| rest.strip_prefix('['));
        let Some(inner) = inner.and_then(|rest| rest.strip_suffix(']')) else { continue };
        let list = inner.strip_suffix("][").filter(|list| {
            let known = object.members.iter().find(|(known, _)| **known == **list);
            matches!(known, Some((_, Shape::List(_))))
        });
        let inner = list.unwrap_or(inner);
        insert(&mut map, object, inner, &decoded(value, true))?;
    }
    Ok((!map.is_empty()).then_some(Json::Object(map)))
}

/// Every pair that is no other parameter's is a member.
fn exploded(object: &Object, query: &[u8], operation: &Operation) -> Found {
    let mut map = Map::new();
    for (name, value) in pairs(query) {
        let others = operation.parameters.iter().filter(|other| other.place == Place::Query);
        let mut plain = others.filter(|other| !matches!(other.shape, Shape::Object(_)));
        if !plain.any(|other| *other.name == *name) {
            insert(&mut map, object, &name, &decoded(value, true))?;
        }
    }
    Ok((!map.is_empty()).then_some(Json::Object(map)))
}

/// Adds a member; one that comes again and may be a list grows.
fn insert(
    map: &mut Map<String, Json>,
    object: &Object,
    name: &str,
    text: &str,
) -> Result<(), Twice> {
    match (map.get_mut(name), member(object, name, text)?) {
        (Some(Json::Array(items)), Json::Array(more)) => items.extend(more),
        (Some(Json::Array(items)), value) if may_be_anything(object, name) => items.push(value),
        (Some(known), value) if may_be_anything(object, name) => {
            *known = Json::Array(vec![known.take(), value]);
        }
        (Some(_), _) => return Err(Twice::Member(name.into())),
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

/// The object that a form is, or what is wrong with it.
pub(super) fn form(object: &Object, bytes: &[u8]) -> Result<Json, String> {
    let mut map = Map::new();
    for (name, value) in pairs(bytes) {
        insert(&mut map, object, &name, &decoded(value, true)).map_err(|twice| {
            let said = match twice {
                Twice::Itself | Twice::Member(_) => "it is there more than once",
                Twice::Within => "an object has a member twice",
            };
            format!("/{}: {said}", name.escape_debug())
        })?;
    }
    Ok(Json::Object(map))
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
fn json(text: &str) -> Result<Json, Twice> {
    if let Err(Unreadable::Twice { .. }) = Document::read(text.as_bytes()) {
        return Err(Twice::Within);
    }
    Ok(serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned())))
}
