//! `convert`: the message in another format.

use std::collections::BTreeMap;

use expression::{JsonNode, JsonText, Value};
use fault::{Fault, Kind};
use json::push_string;
use kit::turns;
use xml::{Document, NodeId};

use crate::content::{Content, View};
use crate::state::{Run, State};
use crate::steps::payload;

/// A change of format.
pub enum Convert {
    Json {
        /// Paths of elements, each `a/b` from the root or from below it, that are arrays even if there is one.
        arrays: Vec<Box<str>>,
        /// Texts that are numbers and truths become such.
        types: bool,
    },
    Xml {
        /// The root element.
        root: Box<str>,
    },
    Text,
}

/// Elements inside one another: as deep as the parser reads.
const DEPTH_MAX: usize = 512;

/// Converts the message.
pub(crate) fn convert(made: &Convert, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let Some(content) = state.message.content().cloned() else { return Ok(()) };
    let view = content.known()?;
    let form = match view {
        View::Text(_) | View::Bytes => content.fields(),
        View::Empty | View::Xml { .. } | View::Json(_) => Ok(None),
    };
    let form = form.map_err(|kind| content.malformed(&kind.to_string()))?;
    let (text, content_type) = match (made, form) {
        (Convert::Json { .. }, Some(form)) => (form.raw(JsonText::ROOT).to_owned(), payload::JSON),
        (Convert::Xml { root }, Some(form)) => (to_xml(form, root)?, payload::XML),
        (Convert::Text, Some(_)) => return Ok(()),
        (_, None) => match converted(made, &content, view)? {
            Some(converted) => converted,
            None => return Ok(()),
        },
    };
    run.bound(text.len())?;
    state.message.replace(text.into(), content_type.as_bytes());
    Ok(())
}

/// The text of another format, with its content type. None: the message is in that format.
fn converted(
    made: &Convert,
    content: &Content,
    view: &View,
) -> Result<Option<(String, &'static str)>, Fault> {
    Ok(Some(match (made, view) {
        (Convert::Json { arrays, types }, View::Xml { document, envelope }) => {
            let top = match envelope {
                Some(envelope) => document
                    .children(envelope.body)
                    .find(|id| document.kind(*id) == xml::Kind::Element),
                None => document.root_element(),
            };
            let root = top.map_or("", |top| document.name(top).local);
            let writer = ToJson { document, root, arrays, types: *types };
            (writer.write(top)?, payload::JSON)
        }
        (Convert::Xml { root }, View::Json(text)) => (to_xml(text, root)?, payload::XML),
        (Convert::Json { .. }, View::Json(_)) | (Convert::Xml { .. }, View::Xml { .. }) => {
            return Ok(None);
        }
        (Convert::Json { .. }, View::Text(text)) => {
            let mut out = String::new();
            push_string(&mut out, text);
            (out, payload::JSON)
        }
        (Convert::Xml { root }, View::Text(text)) => {
            let mut out = format!("<{root}>");
            push_text(&mut out, text)?;
            out.push_str(&format!("</{root}>"));
            (out, payload::XML)
        }
        (Convert::Text, View::Xml { .. }) => {
            let value = content.body().map_err(|kind| content.malformed(&kind.to_string()))?;
            (text_of(&value), payload::TEXT)
        }
        (Convert::Text, View::Json(text)) => {
            (text.string(JsonText::ROOT).into_owned(), payload::TEXT)
        }
        (Convert::Text, View::Text(_)) => return Ok(None),
        (_, View::Empty) => return Ok(None),
        (_, View::Bytes) => return Err(content.malformed("bytes that are no text")),
    }))
}

fn text_of(value: &Value) -> String {
    value.text().map(|text| text.into_owned()).unwrap_or_default()
}

struct ToJson<'a> {
    document: &'a Document,
    /// The name of the outermost element.
    root: &'a str,
    arrays: &'a [Box<str>],
    types: bool,
}

impl ToJson<'_> {
    /// True for a path below the root that was written, with the root before it or without.
    fn is_array(&self, path: &str) -> bool {
        self.arrays.iter().any(|array| {
            let below = array.strip_prefix(self.root).and_then(|rest| rest.strip_prefix('/'));
            **array == *path || below == Some(path)
        })
    }

    /// An object with the element's name.
    fn write(&self, element: Option<NodeId>) -> Result<String, Fault> {
        let mut out = String::new();
        let Some(element) = element else { return Ok("null".to_owned()) };
        out.push('{');
        push_string(&mut out, self.document.name(element).local);
        out.push(':');
        self.element(element, "", 0, &mut out)?;
        out.push('}');
        Ok(out)
    }

    /// The value of an element: its text alone, or an object of attributes, children and text.
    fn element(
        &self,
        element: NodeId,
        path: &str,
        depth: usize,
        out: &mut String,
    ) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::new(Kind::FlowFailed, "convert: the message is nested too deeply"));
        }
        let document = self.document;
        turns::part();
        let mut text = String::new();
        let mut children: Vec<(&str, Vec<NodeId>)> = Vec::new();
        let mut at: BTreeMap<&str, usize> = BTreeMap::new();
        for child in document.children(element) {
            match document.kind(child) {
                xml::Kind::Text => text.push_str(document.value(child)),
                xml::Kind::Element => {
                    let name = document.name(child).local;
                    let index = *at.entry(name).or_insert_with(|| {
                        children.push((name, Vec::new()));
                        children.len() - 1
                    });
                    if let Some((_, ids)) = children.get_mut(index) {
                        ids.push(child);
                    }
                }
                xml::Kind::Document
                | xml::Kind::Attribute
                | xml::Kind::Comment
                | xml::Kind::Instruction => {}
            }
        }
        let attributes: Vec<NodeId> = document.attributes(element).collect();
        if children.is_empty() && attributes.is_empty() {
            self.scalar(&text, out);
            return Ok(());
        }
        let mut first = true;
        let mut key = |name: &str, out: &mut String| {
            out.push(if std::mem::take(&mut first) { '{' } else { ',' });
            push_string(out, name);
            out.push(':');
        };
        for attribute in attributes {
            key(&format!("@{}", document.name(attribute).local), out);
            self.scalar(document.value(attribute), out);
        }
        for (name, ids) in children {
            key(name, out);
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let is_array = ids.len() > 1 || self.is_array(&path);
            out.push_str(if is_array { "[" } else { "" });
            for (index, id) in ids.into_iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                self.element(id, &path, depth + 1, out)?;
            }
            out.push_str(if is_array { "]" } else { "" });
        }
        if !text.trim().is_empty() {
            key("#text", out);
            self.scalar(&text, out);
        }
        out.push('}');
        Ok(())
    }

    fn scalar(&self, text: &str, out: &mut String) {
        let is_typed = self.types
            && (matches!(text, "true" | "false") || expression::Number::parse(text).is_some());
        match is_typed {
            true => out.push_str(text),
            false => push_string(out, text),
        }
    }
}

/// JSON as XML: members are elements, arrays repeat theirs.
fn to_xml(text: &JsonText, root: &str) -> Result<String, Fault> {
    let mut out = String::new();
    push_element(text, JsonText::ROOT, root, 0, &mut out)?;
    Ok(out)
}

fn push_element(
    text: &JsonText,
    node: JsonNode,
    name: &str,
    depth: usize,
    out: &mut String,
) -> Result<(), Fault> {
    if depth > DEPTH_MAX {
        return Err(Fault::new(Kind::FlowFailed, "convert: the message is nested too deeply"));
    }
    turns::part();
    let name = element_name(name);
    out.push('<');
    out.push_str(&name);
    let is_object = text.kind(node) == json::Kind::Object;
    let members: Vec<(String, JsonNode)> = text
        .members(node)
        .map(|(key, value)| {
            (key.map_or_else(|| "item".to_owned(), |key| text.string(key).into_owned()), value)
        })
        .collect();
    let is_scalar =
        |value: JsonNode| !matches!(text.kind(value), json::Kind::Object | json::Kind::Array);
    for (key, value) in &members {
        if let Some(attribute) = key.strip_prefix('@').filter(|_| is_object && is_scalar(*value)) {
            out.push_str(&format!(" {}=\"", element_name(attribute)));
            let value = scalar(text, *value);
            allowed(&value)?;
            xml::escape_attribute(&value, out);
            out.push('"');
        }
    }
    out.push('>');
    if is_scalar(node) {
        push_text(out, &scalar(text, node))?;
    }
    for (key, value) in &members {
        match (is_object, key.as_str(), text.kind(*value)) {
            (true, "#text", _) if is_scalar(*value) => push_text(out, &scalar(text, *value))?,
            (true, key, _) if key.starts_with('@') && is_scalar(*value) => {}
            (true, key, json::Kind::Array) => {
                for (_, item) in text.members(*value) {
                    push_element(text, item, key, depth + 1, out)?;
                }
            }
            (_, key, _) => push_element(text, *value, key, depth + 1, out)?,
        }
    }
    out.push_str(&format!("</{name}>"));
    Ok(())
}

fn scalar(text: &JsonText, node: JsonNode) -> String {
    match text.kind(node) == json::Kind::Null {
        true => String::new(),
        false => text.string(node).into_owned(),
    }
}

fn push_text(out: &mut String, text: &str) -> Result<(), Fault> {
    allowed(text)?;
    xml::escape_text(text, out);
    Ok(())
}

/// XML has no way to write some characters.
fn allowed(text: &str) -> Result<(), Fault> {
    let is_char = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    match text.chars().find(|c| !is_char(*c)) {
        None => Ok(()),
        Some(c) => {
            let cause =
                format!("convert: the character U+{:04X} cannot stand in XML", u32::from(c));
            Err(Fault::new(Kind::Template, cause))
        }
    }
}

/// A member's name as that of an element: each character that no name may hold becomes `_`.
fn element_name(name: &str) -> String {
    let is_start = |c: char| c.is_alphabetic() || c == '_';
    let mut out: String = name
        .chars()
        .map(|c| if is_start(c) || c.is_numeric() || matches!(c, '-' | '.') { c } else { '_' })
        .collect();
    if !out.starts_with(is_start) {
        out.insert(0, '_');
    }
    out
}
