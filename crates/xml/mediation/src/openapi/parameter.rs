//! Validation of one parameter: its text is found, parsed by its style, and validated against its schema.

use std::borrow::Cow;
use std::collections::BTreeMap;

use kit::percent;
use message::Headers;

use super::encoded::pairs;
use super::model::{
    Field, Form, Object, Operation, Parameter, ParameterLocation, ParameterTypes, Style, Types,
};
use super::path::Values;
use super::text::{ParameterValue, typed};
use crate::json_schema::{Document, Unreadable};

/// The reason why a value is refused before it is validated: servers would parse it differently.
pub(super) enum AmbiguousValue {
    /// The parameter occurs twice. Some servers use the first value and some the last.
    Twice,
    /// A member of an object occurs twice.
    Member(Box<str>),
    /// A member of an object written as JSON occurs twice.
    Within,
    /// The value does not follow its style.
    Style(&'static str),
    /// A name that some servers would parse as a member of the object.
    Near(Box<str>),
    /// The bytes are not UTF-8, so the schema cannot see what the upstream receives.
    Bytes,
}

type ReadParameter = Result<Option<ParameterValue>, AmbiguousValue>;
type Members = BTreeMap<String, ParameterValue>;

/// Returns the faults of the parameters in path, query and header lines, at most `max`. `cut` holds header lines that policies removed.
pub(super) fn faults(
    operation: &Operation,
    values: &Values<'_>,
    asked: &[u8],
    headers: &Headers,
    cut: Option<&Headers>,
    max: usize,
) -> Vec<String> {
    let mut faults = Vec::new();
    for parameter in &operation.parameters {
        if faults.len() >= max {
            break;
        }
        let found = match parameter.place {
            ParameterLocation::Path => path(&parameter.field, values),
            ParameterLocation::Query => {
                let field = &parameter.field;
                if field.may_be_empty
                    && field.style != Style::DeepObject
                    && matches!(once(named(asked, &field.name)), Ok(Some(b"")))
                {
                    continue;
                }
                query(field, asked, |name| is_plain(operation, name))
            }
            ParameterLocation::Header => header(&parameter.field, headers, cut),
            ParameterLocation::Cookie => {
                cookies(parameter, headers, max, &mut faults);
                continue;
            }
        };
        check(parameter, found, max - faults.len(), &mut faults);
    }
    faults
}

/// Appends the faults of a parameter, which was found or is missing.
pub(super) fn check(
    parameter: &Parameter,
    found: ReadParameter,
    max: usize,
    faults: &mut Vec<String>,
) {
    let name = &parameter.field.name;
    let place = match parameter.place {
        ParameterLocation::Path => "path parameter",
        ParameterLocation::Query => "query parameter",
        ParameterLocation::Header => "header",
        ParameterLocation::Cookie => "cookie",
    };
    let found = match found {
        Ok(found) => found.map(ParameterValue::document),
        Err(wrong) => {
            faults.push(format!("{place} `{name}`{}", reason_of(&wrong)));
            return;
        }
    };
    match found {
        Some(value) if parameter.schema.allows(&value) => {}
        Some(value) => {
            let wrong = parameter.schema.refusal(&value, true, max).into_iter();
            faults.extend(wrong.map(|fault| match fault.strip_prefix("/: ") {
                Some(message) => format!("{place} `{name}`: {message}"),
                None => format!("{place} `{name}` at {fault}"),
            }));
        }
        None if parameter.required => {
            faults.push(format!("{place} `{name}`: it is required"));
        }
        None => {}
    }
}

/// Returns the reason why a value is refused.
fn reason_of(wrong: &AmbiguousValue) -> String {
    match wrong {
        AmbiguousValue::Twice => ": it occurs more than once".to_owned(),
        AmbiguousValue::Member(name) => {
            format!(" at /{name}: it occurs more than once")
        }
        AmbiguousValue::Within => ": an object has a duplicate member".to_owned(),
        AmbiguousValue::Style(form) => format!(": it is not written as {form}"),
        AmbiguousValue::Near(name) => format!(": `{name}` does not name a member of it"),
        AmbiguousValue::Bytes => ": it is not UTF-8".to_owned(),
    }
}

/// Removes the percent escapes of a value.
fn text(bytes: &[u8], plus_is_blank: bool) -> Result<Cow<'_, str>, AmbiguousValue> {
    match percent::decoded(bytes, plus_is_blank) {
        Cow::Borrowed(plain) => {
            std::str::from_utf8(plain).map(Cow::Borrowed).map_err(|_| AmbiguousValue::Bytes)
        }
        Cow::Owned(made) => {
            String::from_utf8(made).map(Cow::Owned).map_err(|_| AmbiguousValue::Bytes)
        }
    }
}

fn path(parameter: &Field, values: &Values<'_>) -> ReadParameter {
    let Some((_, text)) = values.iter().find(|(name, _)| *name == &*parameter.name) else {
        return Ok(None);
    };
    // The look-up of the path put this character in place of bytes that are not UTF-8.
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return Err(AmbiguousValue::Bytes);
    }
    if parameter.json {
        return json(text).map(Some);
    }
    match parameter.style {
        Style::Matrix => matrix(parameter, text).map(Some),
        Style::Label => {
            let label = text.strip_prefix('.').ok_or(AmbiguousValue::Style("`.VALUE`"))?;
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

/// Returns the delimiter between the items of a list.
fn delimiter(style: Style) -> &'static str {
    match style {
        Style::SpaceDelimited => " ",
        Style::PipeDelimited => "|",
        Style::TabDelimited => "\t",
        Style::Simple | Style::Label | Style::Matrix | Style::Form | Style::DeepObject => ",",
    }
}

/// Parses the style `matrix`: `;a=1;a=2`, `;a=1,2`, `;x=1;y=2`.
fn matrix(parameter: &Field, text: &str) -> Result<ParameterValue, AmbiguousValue> {
    let wrong = AmbiguousValue::Style("`;NAME=VALUE`");
    let Some(text) = text.strip_prefix(';') else { return Err(wrong) };
    // An empty value is written without `=`.
    let value = |part| match part_of(part) {
        (name, value) if *name == *parameter.name => Some(value),
        _ => None,
    };
    match (&parameter.shape, parameter.explode) {
        (ParameterTypes::List(types), true) => {
            let items: Option<Vec<&str>> = text.split(';').map(value).collect();
            let items = items.ok_or(wrong)?;
            Ok(ParameterValue::List(items.into_iter().map(|item| typed(item, *types)).collect()))
        }
        (ParameterTypes::Object(object), true) => members(object, text.split(';')),
        _ => delimited(parameter, value(text).ok_or(wrong)?, ","),
    }
}

/// Splits `name=value`; a name alone has an empty value.
fn part_of(part: &str) -> (&str, &str) {
    part.split_once('=').unwrap_or((part, ""))
}

/// Parses a value whose items are separated by a delimiter.
fn delimited(
    parameter: &Field,
    text: &str,
    delimiter: &str,
) -> Result<ParameterValue, AmbiguousValue> {
    match &parameter.shape {
        ParameterTypes::Plain(types) => Ok(typed(text, *types)),
        ParameterTypes::List(types) => Ok(list(text, delimiter, *types)),
        ParameterTypes::Object(object) if parameter.explode => {
            members(object, text.split(delimiter))
        }
        ParameterTypes::Object(object) => {
            let mut parts = text.split(delimiter).filter(|_| !text.is_empty());
            let mut map = Members::new();
            while let Some(name) = parts.next() {
                let value = parts.next().filter(|_| !name.is_empty());
                let wrong = AmbiguousValue::Style("pairs of a name and a value");
                insert(&mut map, object, name, value.ok_or(wrong)?)?;
            }
            Ok(ParameterValue::Object(map))
        }
    }
}

fn list(text: &str, delimiter: &str, types: Types) -> ParameterValue {
    let items = text.split(delimiter).filter(|_| !text.is_empty());
    ParameterValue::List(items.map(|item| typed(item, types)).collect())
}

/// Parses members of the form `name=value`.
fn members<'a>(
    object: &Object,
    parts: impl Iterator<Item = &'a str>,
) -> Result<ParameterValue, AmbiguousValue> {
    let mut map = Members::new();
    for part in parts.filter(|part| !part.is_empty()) {
        let (name, value) = part_of(part);
        insert(&mut map, object, name, value)?;
    }
    Ok(ParameterValue::Object(map))
}

fn member(object: &Object, name: &str, text: &str) -> Result<ParameterValue, AmbiguousValue> {
    let known = object.members.iter().find(|(known, _)| **known == *name);
    Ok(match known.map(|(_, shape)| shape) {
        Some(ParameterTypes::Plain(types)) => typed(text, *types),
        Some(ParameterTypes::List(types)) => ParameterValue::List(vec![typed(text, *types)]),
        Some(ParameterTypes::Object(_)) => json(text)?,
        None if object.others_are_lists => ParameterValue::List(vec![typed(text, object.others)]),
        None => typed(text, object.others),
    })
}

/// Reads a value from a query or a form. `is_other`: whether a pair with this name belongs to another parameter, not to an exploded object.
fn query(parameter: &Field, query: &[u8], is_other: impl Fn(&str) -> bool) -> ReadParameter {
    if parameter.json {
        let value = once(named(query, &parameter.name))?;
        return value.map(|value| json(&text(value, true)?)).transpose();
    }
    match (&parameter.shape, parameter.style) {
        (ParameterTypes::Object(object), Style::DeepObject) => deep(parameter, object, query),
        (ParameterTypes::Object(object), _) if parameter.explode => {
            exploded(object, query, is_other)
        }
        (ParameterTypes::List(types), _) if parameter.explode => {
            let values = named(query, &parameter.name);
            let items = values.map(|value| Ok(typed(&text(value, true)?, *types)));
            let items = items.collect::<Result<Vec<ParameterValue>, _>>()?;
            Ok((!items.is_empty()).then_some(ParameterValue::List(items)))
        }
        (_, style) => {
            let Some(value) = once(named(query, &parameter.name))? else { return Ok(None) };
            delimited(parameter, &text(value, true)?, delimiter(style)).map(Some)
        }
    }
}

fn once<T>(mut values: impl Iterator<Item = T>) -> Result<Option<T>, AmbiguousValue> {
    let first = values.next();
    match values.next() {
        Some(_) => Err(AmbiguousValue::Twice),
        None => Ok(first),
    }
}

fn named<'a>(query: &'a [u8], name: &'a str) -> impl Iterator<Item = &'a [u8]> + 'a {
    pairs(query).filter(move |(known, _)| known == name).map(|(_, value)| value)
}

/// Parses the style `deepObject`: `filter[a]=1&filter[b]=2`. A list may also be `filter[c][]=1&filter[c][]=2`. Names that begin in the
/// same way but continue differently are refused, because servers parse them in many ways.
fn deep(parameter: &Field, object: &Object, query: &[u8]) -> ReadParameter {
    let mut map = Members::new();
    for (name, value) in pairs(query) {
        let Some(rest) = name.strip_prefix(&*parameter.name) else { continue };
        if rest.is_empty() && value.is_empty() && parameter.may_be_empty {
            continue;
        }
        if !rest.is_empty() && !rest.starts_with('[') {
            continue;
        }
        let near = || AmbiguousValue::Near(name.as_ref().into());
        let inner = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let inner = inner.ok_or_else(near)?;
        let list = inner.strip_suffix("][").filter(|list| {
            let known = object.members.iter().find(|(known, _)| **known == **list);
            match known {
                Some((_, shape)) => {
                    matches!(shape, ParameterTypes::List(_)) || may_be_anything(object, list)
                }
                None => object.others_are_lists || may_be_anything(object, list),
            }
        });
        let inner = list.unwrap_or(inner);
        if inner.contains(['[', ']']) {
            return Err(near());
        }
        insert(&mut map, object, inner, &text(value, true)?)?;
    }
    Ok((!map.is_empty()).then_some(ParameterValue::Object(map)))
}

/// Returns true if a query parameter with this name exists and is not an object.
fn is_plain(operation: &Operation, name: &str) -> bool {
    let others =
        operation.parameters.iter().filter(|other| other.place == ParameterLocation::Query);
    let mut plain = others.filter(|other| !matches!(other.field.shape, ParameterTypes::Object(_)));
    plain.any(|other| *other.field.name == *name)
}

/// Parses an exploded object: every pair that belongs to no other parameter is a member.
fn exploded(object: &Object, query: &[u8], is_other: impl Fn(&str) -> bool) -> ReadParameter {
    let mut map = Members::new();
    for (name, value) in pairs(query) {
        if !is_other(&name) {
            insert(&mut map, object, &name, &text(value, true)?)?;
        }
    }
    Ok((!map.is_empty()).then_some(ParameterValue::Object(map)))
}

/// Adds a member. A repeated member is appended to its list, if it may be a list.
fn insert(
    map: &mut Members,
    object: &Object,
    name: &str,
    text: &str,
) -> Result<(), AmbiguousValue> {
    match (map.get_mut(name), member(object, name, text)?) {
        (Some(ParameterValue::List(items)), ParameterValue::List(more)) => items.extend(more),
        (Some(ParameterValue::List(items)), value) if may_be_anything(object, name) => {
            items.push(value)
        }
        (Some(known), value) if may_be_anything(object, name) => {
            let first = std::mem::replace(known, ParameterValue::List(Vec::new()));
            *known = ParameterValue::List(vec![first, value]);
        }
        (Some(_), _) => return Err(AmbiguousValue::Member(name.into())),
        (None, value) => drop(map.insert(name.to_owned(), value)),
    }
    Ok(())
}

fn may_be_anything(object: &Object, name: &str) -> bool {
    match object.members.iter().find(|(known, _)| **known == *name) {
        Some((_, ParameterTypes::Plain(types))) => types.anything,
        Some((_, ParameterTypes::List(_) | ParameterTypes::Object(_))) => false,
        None => object.others.anything && !object.others_are_lists,
    }
}

/// Parses a form to an object, or returns the fault of the form.
pub(super) fn form(form: &Form, bytes: &[u8]) -> Result<ParameterValue, String> {
    let mut map = Members::new();
    for field in &form.fields {
        let is_other = |name: &str| !is_member(field, name);
        let found = query(field, bytes, is_other).map_err(|wrong| within(&field.name, &wrong))?;
        map.extend(found.map(|value| (field.name.to_string(), value)));
    }
    let mut own =
        pairs(bytes).filter(|(name, _)| !form.fields.iter().any(|field| is_of(field, name)));
    own.try_for_each(|(name, value)| {
        let text = text(value, true);
        text.and_then(|text| insert(&mut map, &form.object, &name, &text))
            .map_err(|wrong| within(&name, &wrong))
    })?;
    Ok(ParameterValue::Object(map))
}

/// Returns true if a pair with this name belongs to the field.
fn is_of(field: &Field, name: &str) -> bool {
    match (&field.shape, field.style) {
        (ParameterTypes::Object(_), Style::DeepObject) => name
            .strip_prefix(&*field.name)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('[')),
        (ParameterTypes::Object(_), _) if field.explode && !field.json => is_member(field, name),
        _ => name == &*field.name,
    }
}

/// Returns true if the field is an object that has this member.
fn is_member(field: &Field, name: &str) -> bool {
    match &field.shape {
        ParameterTypes::Object(object) => object.members.iter().any(|(known, _)| **known == *name),
        ParameterTypes::Plain(_) | ParameterTypes::List(_) => false,
    }
}

/// Returns the reason why a member of a form is refused.
fn within(name: &str, wrong: &AmbiguousValue) -> String {
    let place = name;
    match wrong {
        AmbiguousValue::Member(inner) if **inner == *name => {
            format!("/{place}: it occurs more than once")
        }
        AmbiguousValue::Member(inner) => {
            format!("/{place}/{inner}: it occurs more than once")
        }
        AmbiguousValue::Twice
        | AmbiguousValue::Within
        | AmbiguousValue::Style(_)
        | AmbiguousValue::Near(_)
        | AmbiguousValue::Bytes => format!("/{place}{}", reason_of(wrong)),
    }
}

/// Reads a header. Several lines with its name form one list. `cut` holds header lines that policies removed.
pub(super) fn header(parameter: &Field, headers: &Headers, cut: Option<&Headers>) -> ReadParameter {
    // If the header still has lines, the removed copies are not used.
    let all = match cut {
        Some(cut) if !headers.contains(&parameter.name) => cut,
        Some(_) | None => headers,
    };
    // Harmless: old clients send ISO 8859-1; the schema sees a replacement character for each such byte.
    let mut lines = all.get_all(&parameter.name).map(String::from_utf8_lossy);
    let Some(first) = lines.next() else { return Ok(None) };
    let joined = lines.fold(first, |joined, line| Cow::Owned(format!("{joined},{line}")));
    if parameter.json {
        return json(&joined).map(Some);
    }
    let delimiter = delimiter(parameter.style);
    let parts: Vec<&str> = joined.split(delimiter).map(str::trim).collect();
    match parameter.shape {
        ParameterTypes::Plain(types) => Ok(Some(typed(&joined, types))),
        ParameterTypes::List(_) | ParameterTypes::Object(_) => {
            delimited(parameter, &parts.join(delimiter), delimiter).map(Some)
        }
    }
}

/// Checks every cookie with this name. A browser may send several, for different paths of a site.
fn cookies(parameter: &Parameter, headers: &Headers, max: usize, faults: &mut Vec<String>) {
    let lines = headers.get_all("cookie");
    let cookies = lines.flat_map(|line| line.split(|b| *b == b';')).map(<[u8]>::trim_ascii);
    let field = &parameter.field;
    // Harmless: cookies with other names are irrelevant.
    let mut values = cookies.filter_map(|cookie| {
        cookie.strip_prefix(field.name.as_bytes()).and_then(|rest| rest.strip_prefix(b"="))
    });
    let mut next = values.next();
    loop {
        let found = next.map(|value| {
            let text = text(value, false)?;
            if field.json { json(&text) } else { delimited(field, &text, ",") }
        });
        check(parameter, found.transpose(), max.saturating_sub(faults.len()), faults);
        next = values.next();
        if next.is_none() || faults.len() >= max {
            return;
        }
    }
}

/// Parses a text as JSON. If it is not JSON, it stays a text, which the schema then refuses.
fn json(text: &str) -> Result<ParameterValue, AmbiguousValue> {
    match Document::read(text.as_bytes()) {
        Ok(_) => Ok(ParameterValue::Written(text.to_owned())),
        Err(Unreadable::Twice { .. }) => Err(AmbiguousValue::Within),
        Err(Unreadable::Malformed { .. }) => Ok(ParameterValue::text(text)),
    }
}
