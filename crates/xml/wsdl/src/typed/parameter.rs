//! Path and query parameters in place of a JSON body: the members of the request that they supply, and the JSON built from them.

use json::push_string;

use super::LIMITS;
use super::model::{Content, MemberOf, Scalar, ScalarKind, Type};
use super::typed_api::{Api, Operation};

/// A value of a request that a parameter supplies.
#[derive(Debug, Clone)]
pub struct Parameter {
    /// The path of members to the value; empty if it is the whole request.
    keys: Vec<Box<str>>,
    /// Whether the value is an array, so that the parameter may be repeated.
    many: bool,
    /// Whether the request requires the value.
    required: bool,
    pub(crate) scalar: Scalar,
}

impl Parameter {
    pub fn is_many(&self) -> bool {
        self.many
    }

    pub fn is_required(&self) -> bool {
        self.required
    }

    /// Returns whether both parameters supply the same value.
    pub fn is_same(&self, other: &Parameter) -> bool {
        self.keys == other.keys
    }
}

/// A step from a type to one of its members.
struct MemberStep<'a> {
    key: &'a str,
    of: &'a Type,
    many: bool,
    required: bool,
}

impl Api {
    /// Returns the values directly within the request of an operation, by name.
    pub fn parameters(&self, operation: &Operation) -> Vec<(String, Parameter)> {
        let Some((name, of)) = self.requested(operation) else { return Vec::new() };
        if let Some(scalar) = scalar_of(of) {
            let scalar = scalar.clone();
            let whole = Parameter { keys: Vec::new(), many: false, required: true, scalar };
            return vec![(name.to_owned(), whole)];
        }
        let steps = self.steps(of).into_iter();
        // Harmless: only a plain value can be a parameter. `lacking` reports other values that the request requires.
        let plain = steps.filter_map(|step| {
            let (keys, scalar) = (vec![step.key.into()], scalar_of(step.of)?.clone());
            let (many, required) = (step.many, step.required);
            Some((step.key.to_owned(), Parameter { keys, many, required, scalar }))
        });
        plain.collect()
    }

    /// Returns the value at a path of elements such as `/GetOrder/range/from`. An attribute is written `@name`. The error says what is
    /// wrong.
    pub fn parameter(&self, operation: &Operation, path: &str) -> Result<Parameter, String> {
        let (name, mut of) =
            self.requested(operation).ok_or_else(|| "the request has no content".to_owned())?;
        let mut names = path.strip_prefix('/').unwrap_or(path).split('/');
        if names.next() != Some(name) {
            return Err(format!("the request is <{name}>: write `/{name}/...`"));
        }
        let (mut keys, mut many, mut required) = (Vec::new(), false, true);
        for name in names {
            if many {
                return Err(format!("`{name}` is in an element that may come several times"));
            }
            let steps = self.steps(of);
            let Some(step) = steps.iter().find(|step| step.key == name) else {
                let known: Vec<&str> = steps.iter().map(|step| step.key).collect();
                return Err(format!("there is no `{name}`; there are {}", known.join(", ")));
            };
            keys.push(name.into());
            (of, many, required) = (step.of, step.many, required && step.required);
        }
        let scalar = scalar_of(of).ok_or_else(|| "it is not a plain value".to_owned())?.clone();
        Ok(Parameter { keys, many, required, scalar })
    }

    /// Returns the members that the request of an operation requires but none of these parameters supplies.
    pub fn lacking<'p>(
        &self,
        operation: &Operation,
        given: impl Iterator<Item = &'p Parameter> + Clone,
    ) -> Vec<String> {
        let mut lacking = Vec::new();
        if !operation.input.headers.is_empty() {
            lacking.push("$headers".to_owned());
        }
        let Some((name, of)) = self.requested(operation) else { return lacking };
        if scalar_of(of).is_some() {
            if given.clone().next().is_none() {
                lacking.push(name.to_owned());
            }
            return lacking;
        }
        let steps = self.steps(of).into_iter().filter(|step| step.required);
        let is_given = |key: &str| {
            let mut given = given.clone();
            given.any(|one| one.keys.first().is_some_and(|first| **first == *key))
        };
        lacking.extend(steps.filter(|step| !is_given(step.key)).map(|step| step.key.to_owned()));
        lacking
    }

    /// Returns the element of a request, with its type.
    fn requested(&self, operation: &Operation) -> Option<(&str, &Type)> {
        let root = operation.input.body.as_ref()?;
        let element = self.elements.get(root.element)?;
        Some((&element.local, self.types.get(element.type_at)?))
    }

    /// Returns the attributes of a type, and those members that are a single element.
    fn steps<'a>(&'a self, of: &'a Type) -> Vec<MemberStep<'a>> {
        let Content::Children(children) = &of.content else { return Vec::new() };
        // Harmless: only members with a name of their own lead to a value.
        let members = children.members.iter().filter_map(|member| {
            let MemberOf::Element(element) = member.of else { return None };
            let of = self.types.get(self.elements.get(element)?.type_at)?;
            Some(MemberStep { key: &member.key, of, many: member.many, required: member.min > 0 })
        });
        members.collect()
    }
}

/// Returns the type of a plain value, if it requires no attributes.
fn scalar_of(of: &Type) -> Option<&Scalar> {
    let is_bare = !of.is_abstract && !of.attributes.iter().any(|one| one.required);
    match &of.content {
        Content::Text(scalar) | Content::Value(scalar) if is_bare => Some(scalar),
        Content::Text(_) | Content::Value(_) | Content::Empty | Content::Children(_) => None,
    }
}

/// A part of the JSON of a request.
enum Node {
    Object(Vec<(Box<str>, Node)>),
    Value(String),
}

/// Builds the JSON of a request from parameters with their texts.
pub fn request_of<'p>(given: impl Iterator<Item = (&'p Parameter, Vec<String>)>) -> String {
    let mut root = Node::Object(Vec::new());
    for (parameter, texts) in given {
        let mut value = String::new();
        let written: Vec<String> = texts.iter().map(|text| value_of(parameter, text)).collect();
        if parameter.many {
            value.extend(["[", &written.join(","), "]"])
        } else {
            value.extend(written)
        }
        put(&mut root, &parameter.keys, value);
    }
    let mut out = String::new();
    write(&root, &mut out);
    out
}

fn put(node: &mut Node, keys: &[Box<str>], value: String) {
    let Some((first, rest)) = keys.split_first() else {
        *node = Node::Value(value);
        return;
    };
    let Node::Object(members) = node else { return };
    let at = match members.iter().position(|(key, _)| key == first) {
        Some(at) => at,
        None => {
            members.push((first.clone(), Node::Object(Vec::new())));
            members.len() - 1
        }
    };
    if let Some((_, inner)) = members.get_mut(at) {
        put(inner, rest, value);
    }
}

fn write(node: &Node, out: &mut String) {
    match node {
        Node::Value(value) => out.push_str(value),
        Node::Object(members) => {
            out.push('{');
            for (index, (key, inner)) in members.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                push_string(out, key);
                out.push(':');
                write(inner, out);
            }
            out.push('}');
        }
    }
}

/// Returns a text as the JSON value that its type has. A text that does not fit stays a string, which is then refused with its position.
fn value_of(parameter: &Parameter, text: &str) -> String {
    let number = || {
        let mut tape = Vec::new();
        let is_read = json::read(text, &LIMITS, &mut tape).is_ok();
        is_read && tape.first().is_some_and(|entry| entry.kind == json::Kind::Number)
    };
    let bare = match (&parameter.scalar.kind, text) {
        (ScalarKind::Boolean, "true" | "1") => Some("true"),
        (ScalarKind::Boolean, "false" | "0") => Some("false"),
        (ScalarKind::Number { .. } | ScalarKind::Float, _) if number() => Some(text),
        (
            ScalarKind::Boolean
            | ScalarKind::Number { .. }
            | ScalarKind::Float
            | ScalarKind::Text
            | ScalarKind::Name
            | ScalarKind::List(_)
            | ScalarKind::Union(_)
            | ScalarKind::Free,
            _,
        ) => None,
    };
    match bare {
        Some(bare) => bare.to_owned(),
        None => {
            let mut out = String::new();
            push_string(&mut out, text);
            out
        }
    }
}
