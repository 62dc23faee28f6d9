//! One parameter: its text found, read by its style, held to its schema.

use std::borrow::Cow;

use message::{Headers, RequestHead};
use serde_json::{Map, Value as Json};

use super::document::Document;
use super::model::{Object, Operation, Parameter, Place, Shape, Style};
use super::path::Values;
use super::text::{decoded, meant, pairs};

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
            Place::Query => query(parameter, head.query().unwrap_or_default(), operation),
            Place::Header => header(parameter, &head.headers),
            Place::Cookie => cookie(parameter, &head.headers),
        };
        check(parameter, found, max - faults.len(), &mut faults);
    }
    faults
}

/// Appends what is wrong with a value that was found, or not.
pub(super) fn check(
    parameter: &Parameter,
    found: Option<Json>,
    max: usize,
    faults: &mut Vec<String>,
) {
    let place = match parameter.place {
        Place::Path => "path parameter",
        Place::Query => "query parameter",
        Place::Header => "header",
        Place::Cookie => "cookie",
    };
    match found.map(Document::of) {
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

fn path(parameter: &Parameter, values: &Values<'_>) -> Option<Json> {
    let (_, text) = values.iter().find(|(name, _)| *name == &*parameter.name)?;
    if parameter.json {
        return Some(json(text));
    }
    if parameter.style == Style::Matrix {
        return Some(matrix(parameter, text));
    }
    let label = text.strip_prefix('.').filter(|_| parameter.style == Style::Label);
    let delimiter = if label.is_some() && parameter.explode { "." } else { "," };
    Some(delimited(parameter, label.unwrap_or(text), delimiter))
}

/// `;a=1;a=2`, `;a=1,2`, `;x=1;y=2`.
fn matrix(parameter: &Parameter, text: &str) -> Json {
    let text = text.strip_prefix(';').unwrap_or(text);
    let named = text.strip_prefix(&*parameter.name).and_then(|rest| rest.strip_prefix('='));
    match (&parameter.shape, parameter.explode) {
        (Shape::List(types), true) => {
            let items = text.split(';').filter_map(|item| item.split_once('='));
            Json::Array(items.map(|(_, value)| meant(value, *types)).collect())
        }
        (Shape::Object(object), true) => members(object, text.split(';')),
        _ => delimited(parameter, named.unwrap_or(text), ","),
    }
}

/// A text whose parts stand between delimiters.
fn delimited(parameter: &Parameter, text: &str, delimiter: &str) -> Json {
    match &parameter.shape {
        Shape::Plain(types) => meant(text, *types),
        Shape::List(_) if text.is_empty() => Json::Array(Vec::new()),
        Shape::List(types) => {
            Json::Array(text.split(delimiter).map(|item| meant(item, *types)).collect())
        }
        Shape::Object(object) if parameter.explode => members(object, text.split(delimiter)),
        Shape::Object(object) => {
            let mut parts = text.split(delimiter);
            let mut map = Map::new();
            while let Some(name) = parts.next().filter(|name| !name.is_empty()) {
                let value = member(object, name, parts.next().unwrap_or_default());
                map.insert(name.to_owned(), value);
            }
            Json::Object(map)
        }
    }
}

/// `name=value` each.
fn members<'a>(object: &Object, parts: impl Iterator<Item = &'a str>) -> Json {
    let pairs = parts.filter(|part| !part.is_empty()).map(|part| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        (name.to_owned(), member(object, name, value))
    });
    Json::Object(pairs.collect())
}

fn member(object: &Object, name: &str, text: &str) -> Json {
    let known = object.members.iter().find(|(known, _)| **known == *name);
    match known.map(|(_, shape)| shape) {
        Some(Shape::Plain(types)) => meant(text, *types),
        Some(Shape::List(types)) => Json::Array(vec![meant(text, *types)]),
        Some(Shape::Object(_)) => json(text),
        None => meant(text, object.others),
    }
}

fn query(parameter: &Parameter, query: &[u8], operation: &Operation) -> Option<Json> {
    if parameter.json {
        return named(query, &parameter.name).next().map(|value| json(&decoded(value, true)));
    }
    match (&parameter.shape, parameter.style) {
        (Shape::Object(object), Style::DeepObject) => deep(parameter, object, query),
        (Shape::Object(object), _) if parameter.explode => exploded(object, query, operation),
        (Shape::List(types), _) if parameter.explode => {
            let values = named(query, &parameter.name);
            let items: Vec<Json> =
                values.map(|value| meant(&decoded(value, true), *types)).collect();
            (!items.is_empty()).then_some(Json::Array(items))
        }
        (_, style) => {
            let delimiter = match style {
                Style::SpaceDelimited => " ",
                Style::PipeDelimited => "|",
                Style::TabDelimited => "\t",
                Style::Simple | Style::Label | Style::Matrix | Style::Form | Style::DeepObject => {
                    ","
                }
            };
            let value = named(query, &parameter.name).next()?;
            Some(delimited(parameter, &decoded(value, true), delimiter))
        }
    }
}

fn named<'a>(query: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
    pairs(query).filter(move |(known, _)| known == name).map(|(_, value)| value)
}

/// `filter[a]=1&filter[b]=2`.
fn deep(parameter: &Parameter, object: &Object, query: &[u8]) -> Option<Json> {
    let mut map = Map::new();
    for (name, value) in pairs(query) {
        let inner = name.strip_prefix(&*parameter.name).and_then(|rest| rest.strip_prefix('['));
        let Some(inner) = inner.and_then(|rest| rest.strip_suffix(']')) else { continue };
        insert(&mut map, object, inner, &decoded(value, true));
    }
    (!map.is_empty()).then_some(Json::Object(map))
}

/// Every pair that is no other parameter's is a member.
fn exploded(object: &Object, query: &[u8], operation: &Operation) -> Option<Json> {
    let mut map = Map::new();
    for (name, value) in pairs(query) {
        let others = operation.parameters.iter().filter(|other| other.place == Place::Query);
        let mut plain = others.filter(|other| !matches!(other.shape, Shape::Object(_)));
        if !plain.any(|other| *other.name == *name) {
            insert(&mut map, object, &name, &decoded(value, true));
        }
    }
    (!map.is_empty()).then_some(Json::Object(map))
}

/// Adds a member; one that comes again and may be a list grows.
fn insert(map: &mut Map<String, Json>, object: &Object, name: &str, text: &str) {
    let value = member(object, name, text);
    match (map.get_mut(name), value) {
        (Some(Json::Array(items)), Json::Array(more)) => items.extend(more),
        (_, value) => drop(map.insert(name.to_owned(), value)),
    }
}

/// The object that a form is.
pub(super) fn form(object: &Object, bytes: &[u8]) -> Json {
    let mut map = Map::new();
    for (name, value) in pairs(bytes) {
        insert(&mut map, object, &name, &decoded(value, true));
    }
    Json::Object(map)
}

/// A header's value; lines of one name are one list.
pub(super) fn header(parameter: &Parameter, headers: &Headers) -> Option<Json> {
    let mut lines = headers.get_all(&parameter.name).map(String::from_utf8_lossy);
    let first = lines.next()?;
    let joined = lines.fold(first, |joined, line| Cow::Owned(format!("{joined},{line}")));
    if parameter.json {
        return Some(json(&joined));
    }
    let parts: Vec<&str> = joined.split(',').map(str::trim).collect();
    Some(match parameter.shape {
        Shape::Plain(types) => meant(&joined, types),
        Shape::List(_) | Shape::Object(_) => delimited(parameter, &parts.join(","), ","),
    })
}

fn cookie(parameter: &Parameter, headers: &Headers) -> Option<Json> {
    let lines = headers.get_all("cookie");
    let mut cookies = lines.flat_map(|line| line.split(|b| *b == b';')).map(<[u8]>::trim_ascii);
    let value = cookies.find_map(|cookie| {
        cookie.strip_prefix(parameter.name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    })?;
    let text = decoded(value, false);
    Some(match parameter.json {
        true => json(&text),
        false => delimited(parameter, &text, ","),
    })
}

/// A text that is JSON; another stays a text, for the schema to refuse.
fn json(text: &str) -> Json {
    serde_json::from_str(text).unwrap_or_else(|_| Json::String(text.to_owned()))
}
