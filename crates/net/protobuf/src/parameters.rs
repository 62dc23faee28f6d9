//! Fields that the path or the query of a request sets.
//!
//! They are appended to the message as further parts of it: a later value of a field replaces an earlier one, and parts of one message are
//! merged. So neither the message nor its parts need to be kept in another form.

use std::borrow::Cow;
use std::collections::HashSet;

use kit::turns;

use crate::error::Error;
use crate::from_json::push_text;
use crate::scalar::{self, JsonScalar};
use crate::schema::{Cardinality, Field, FieldKind, MessageType, Schema, WellKnown};
use crate::wire::{WireType, close_length, open_length, push_tag};

/// The maximum number of names in the path of a field.
const NAMES_MAX: usize = 32;

/// The maximum number of query parameters of a request. The size of a target bounds them too, but each one nests messages.
const PARAMETERS_MAX: usize = 4096;

/// The indices of a field and of the fields around it, the outermost first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct FieldPath(Vec<usize>);

/// Resolves the variable of a template: a single value, or a message that is a text in JSON.
pub(crate) fn of_variable(
    schema: &Schema,
    message: usize,
    names: &[Box<str>],
) -> Result<FieldPath, String> {
    let written = names.join(".");
    let (path, field) = resolve(schema, message, names.iter().map(|name| &**name))
        .map_err(|why| format!("the variable `{written}`: {why}"))?;
    if !field.is_single() {
        return Err(format!("the variable `{written}` is a list"));
    }
    if !is_text(schema, field) {
        return Err(format!("the variable `{written}` is a message"));
    }
    Ok(path)
}

fn resolve<'s, 'n>(
    schema: &'s Schema,
    message: usize,
    names: impl Iterator<Item = &'n str>,
) -> Result<(FieldPath, &'s Field), &'static str> {
    let mut path = Vec::new();
    let mut within = schema.message(message);
    let mut last: Option<&Field> = None;
    for name in names {
        if last.is_some_and(|field| !field.is_single()) {
            return Err("a field within a list cannot be set");
        }
        if path.len() == NAMES_MAX {
            return Err("the field is nested too deep");
        }
        let (index, field) =
            within.and_then(|of| of.field_named(name)).ok_or("the message has no such field")?;
        path.push(index);
        within = schema.message_of(field).filter(|of| !of.known.is_special());
        last = Some(field);
    }
    Ok((FieldPath(path), last.ok_or("the name is empty")?))
}

/// Returns true if a value of the field can be written as a text.
fn is_text(schema: &Schema, field: &Field) -> bool {
    match field.kind {
        FieldKind::Message(_) | FieldKind::Group(_) => {
            let known = schema.message_of(field).map(|of| of.known);
            matches!(
                known,
                Some(
                    WellKnown::Timestamp
                        | WellKnown::Duration
                        | WellKnown::FieldMask
                        | WellKnown::Wrapper
                )
            ) && field.cardinality != Cardinality::Map
        }
        _ => true,
    }
}

/// Appends the value of a variable.
pub(crate) fn push_variable(
    schema: &Schema,
    message: usize,
    path: &FieldPath,
    value: &str,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let FieldPath(path) = path;
    push(schema, message, path, value, out)
}

/// Appends the fields that a query sets. `bound` are the fields that the path or the body sets, and `ignored` names of parameters to skip.
pub(crate) fn push_query(
    schema: &Schema,
    message: usize,
    query: &[u8],
    bound: &[&FieldPath],
    ignored: &[Box<str>],
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let mut seen: HashSet<FieldPath> = HashSet::new();
    for (count, (name, value)) in kit::percent::pairs(query).enumerate() {
        turns::count_part();
        let utf8 = |_| Error::wrong("a query parameter is not UTF-8");
        let name = std::str::from_utf8(&name).map_err(utf8)?;
        if ignored.iter().any(|known| **known == *name) {
            continue;
        }
        if count >= PARAMETERS_MAX {
            return Err(Error::wrong("the query has too many parameters"));
        }
        let wrong = |what: &str| Error::wrong(what).within(name);
        let (path, field) = resolve(schema, message, name.split('.')).map_err(wrong)?;
        if !is_text(schema, field) {
            return Err(wrong("a query parameter cannot set a whole message or a map"));
        }
        let FieldPath(own) = &path;
        if bound.iter().any(|FieldPath(known)| own.starts_with(known)) {
            return Err(wrong("the path or the body sets the field"));
        }
        let value = kit::percent::decoded(value, true);
        let value = std::str::from_utf8(&value).map_err(utf8)?;
        push(schema, message, own, value, out).map_err(|why| why.within(name))?;
        if field.is_single() && !seen.insert(path) {
            return Err(wrong("the parameter appears twice"));
        }
    }
    Ok(())
}

/// The path of a field of the message itself.
pub(crate) fn own_field(index: usize) -> FieldPath {
    FieldPath(vec![index])
}

/// Appends a value within the messages around it.
fn push(
    schema: &Schema,
    message: usize,
    path: &[usize],
    value: &str,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let no_field = || Error::wrong("the message has no such field");
    let (index, inner) = path.split_first().ok_or_else(no_field)?;
    let field = schema.message(message).and_then(|of| of.fields.get(*index));
    let field = field.ok_or_else(no_field)?;
    match field.kind {
        FieldKind::Message(of) => {
            push_tag(field.number, WireType::Bytes, out);
            let open = open_length(value.len() + 2 * inner.len(), out);
            push_inner(schema, of, inner, value, out)?;
            close_length(open, out);
            Ok(())
        }
        FieldKind::Group(of) => {
            push_tag(field.number, WireType::GroupBegin, out);
            push_inner(schema, of, inner, value, out)?;
            push_tag(field.number, WireType::GroupEnd, out);
            Ok(())
        }
        kind => push_scalar(schema, kind, field.number, value, out),
    }
}

fn push_inner(
    schema: &Schema,
    of: usize,
    inner: &[usize],
    value: &str,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    if inner.is_empty() {
        let message = schema.message(of).ok_or_else(|| Error::wrong("no such type"))?;
        push_message(schema, message, value, out)
    } else {
        push(schema, of, inner, value, out)
    }
}

/// Appends the fields of a message that is a text in JSON.
fn push_message(
    schema: &Schema,
    message: &MessageType,
    value: &str,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    match message.known {
        WellKnown::Wrapper => match message.fields.first() {
            Some(field) => push_scalar(schema, field.kind, field.number, value, out),
            None => Ok(()),
        },
        known => push_text(known, value, out),
    }
}

/// Appends a scalar, also if it is the default value: it replaces a value that the body may have set.
fn push_scalar(
    schema: &Schema,
    kind: FieldKind,
    number: u32,
    value: &str,
    out: &mut Vec<u8>,
) -> Result<(), Error> {
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
    let written = match kind {
        FieldKind::Bool => JsonScalar::Literal(value),
        FieldKind::Enum(_) if is_number(value) => JsonScalar::Literal(value),
        _ => JsonScalar::String(Cow::Borrowed(value)),
    };
    let written = scalar::read(schema, kind, written).map_err(Error::wrong)?;
    push_tag(number, written.wire_type(), out);
    written.push(out);
    Ok(())
}
