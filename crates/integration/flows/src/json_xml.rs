//! JSON as XML, and XML as JSON.

use std::collections::{BTreeMap, BTreeSet};

use expression::{JsonNode, JsonText};
use fault::{Fault, Kind, Side};
use json::push_string;
use kit::turns;
use xml::{Document, NodeId};

use crate::element_names;
use crate::sender::Sender;

/// The processing instruction for elements that are a list even if there are fewer than two. Other converters write it too.
const LIST: &str = "xml-multiple";

/// The arrays of JSON that get this processing instruction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Marks {
    None,
    Empty,
    All,
}

impl Marks {
    pub(crate) fn of(marks_empty: bool) -> Marks {
        if marks_empty { Marks::Empty } else { Marks::None }
    }
}

/// Maximum nesting of elements, the same as in the parser.
const DEPTH_MAX: usize = 512;

/// The content of an element: its text, its children by their names, and the names of those that are lists.
struct Parts<'d> {
    text: String,
    children: Vec<(&'d str, Vec<NodeId>)>,
    lists: BTreeSet<&'d str>,
    /// The lists without an element.
    absent: Vec<&'d str>,
}

/// Writes elements as JSON.
pub(crate) struct ToJson<'a> {
    pub(crate) document: &'a Document,
    /// The name of the outermost element.
    pub(crate) root: &'a str,
    pub(crate) arrays: &'a [Box<str>],
    pub(crate) types: bool,
    /// True if the last of several attributes that become the same member counts. Otherwise they are an error.
    pub(crate) last_counts: bool,
    pub(crate) sender: Sender,
}

impl ToJson<'_> {
    /// Returns true if `arrays` has this path below the root. The configured path may begin with the root.
    fn is_array(&self, path: &str) -> bool {
        self.arrays.iter().any(|array| {
            let below = array.strip_prefix(self.root).and_then(|rest| rest.strip_prefix('/'));
            **array == *path || below == Some(path)
        })
    }

    /// The names of arrays directly below a path.
    fn arrays_below(&self, path: &str) -> impl Iterator<Item = &str> {
        // Harmless: arrays at other paths are skipped.
        self.arrays.iter().filter_map(move |array| {
            let below = array.strip_prefix(self.root).and_then(|rest| rest.strip_prefix('/'));
            [below, Some(&**array)].into_iter().flatten().find_map(|array| {
                let name = match path {
                    "" => Some(array),
                    path => array.strip_prefix(path).and_then(|rest| rest.strip_prefix('/')),
                };
                name.filter(|name| !name.is_empty() && !name.contains('/'))
            })
        })
    }

    /// The text of an element, and its children by their names without prefix.
    fn parts(&self, element: NodeId) -> Parts<'_> {
        let document = self.document;
        turns::count_part();
        let mut text = String::new();
        let mut children: Vec<(&str, Vec<NodeId>)> = Vec::new();
        let mut lists = BTreeSet::new();
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
                xml::Kind::Instruction if document.name(child).local == LIST => {
                    lists.insert(document.value(child).trim());
                }
                xml::Kind::Document
                | xml::Kind::Attribute
                | xml::Kind::Comment
                | xml::Kind::Instruction => {}
            }
        }
        let absent = lists.iter().copied().filter(|name| !at.contains_key(name)).collect();
        Parts { text, children, lists, absent }
    }

    /// The attributes of an element by their names without prefix.
    fn attributes(&self, element: NodeId) -> Result<Vec<(&str, &str)>, Fault> {
        let mut attributes: Vec<(&str, &str)> = Vec::new();
        for attribute in self.document.attributes(element) {
            let (name, value) =
                (self.document.name(attribute).local, self.document.value(attribute));
            match attributes.iter_mut().find(|(known, _)| *known == name) {
                None => attributes.push((name, value)),
                Some(known) if self.last_counts => known.1 = value,
                Some(_) => {
                    let what = format!("convert: two attributes `{name}` become one member");
                    return Err(self.sender.malformed(&what));
                }
            }
        }
        Ok(attributes)
    }

    /// Returns an object whose only member has the element's name.
    pub(crate) fn write(&self, element: Option<NodeId>) -> Result<String, Fault> {
        let mut out = String::new();
        let Some(element) = element else { return Ok("null".to_owned()) };
        out.push('{');
        push_string(&mut out, &element_names::decoded(self.document.name(element).local));
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
        let Parts { text, children, lists, mut absent } = self.parts(element);
        let attributes = self.attributes(element)?;
        let is_there = |name: &str| children.iter().any(|(known, _)| *known == name);
        let mut empty: Vec<&str> = Vec::new();
        for name in self.arrays_below(path) {
            // Two forms of a path may name the same array.
            if !is_there(name) && !empty.contains(&name) {
                empty.push(name);
            }
        }
        absent.retain(|name| !empty.contains(name));
        empty.append(&mut absent);
        if children.is_empty() && attributes.is_empty() && empty.is_empty() {
            self.scalar(&text, out);
            return Ok(());
        }
        let mut first = true;
        let mut key = |name: &str, out: &mut String| {
            out.push(if std::mem::take(&mut first) { '{' } else { ',' });
            push_string(out, name);
            out.push(':');
        };
        for (name, value) in attributes {
            key(&format!("@{}", element_names::decoded(name)), out);
            self.scalar(value, out);
        }
        for name in empty {
            key(&element_names::decoded(name), out);
            out.push_str("[]");
        }
        for (name, ids) in children {
            key(&element_names::decoded(name), out);
            let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
            let is_array = ids.len() > 1 || self.is_array(&path) || lists.contains(name);
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
        // `12E5` is an article number more often than it is 1200000.
        let is_number = || !text.contains(['e', 'E']) && expression::Number::parse(text).is_some();
        let is_typed = self.types && (matches!(text, "true" | "false") || is_number());
        if is_typed { out.push_str(text) } else { push_string(out, text) }
    }
}

/// Converts JSON to the XML that Synapse makes of it.
pub(crate) fn json_as_xml(text: &JsonText, sender: Sender, marks: Marks) -> Result<String, Fault> {
    if text.kind(JsonText::ROOT) != json::Kind::Array {
        return to_xml(text, "jsonObject", marks, sender);
    }
    let mut out = "<jsonArray>".to_owned();
    for (_, item) in text.members(JsonText::ROOT) {
        push_element(text, sender, marks, item, "jsonElement", 0, &mut out)?;
    }
    Ok(out + "</jsonArray>")
}

/// Converts XML from [`json_as_xml`], inside the element `around`, back to JSON. Texts that are numbers or booleans become these.
pub(crate) fn xml_as_json(
    document: &Document,
    around: NodeId,
    sender: Sender,
) -> Result<String, Fault> {
    let mut elements = document.children(around);
    let top = elements.find(|id| document.kind(*id) == xml::Kind::Element);
    let name = top.map_or("", |top| document.name(top).local);
    let arrays: &[Box<str>] = if name == "jsonArray" { &["jsonElement".into()] } else { &[] };
    let writer = ToJson { document, root: name, arrays, types: true, last_counts: true, sender };
    let mut out = String::new();
    match (top, name) {
        (Some(top), "jsonObject") => writer.element(top, "", 0, &mut out)?,
        (Some(top), "jsonArray") => {
            writer.element(top, "", 0, &mut out)?;
            let inside =
                out.strip_prefix("{\"jsonElement\":").and_then(|out| out.strip_suffix('}'));
            return Ok(inside.unwrap_or("[]").to_owned());
        }
        (top, _) => return writer.write(top),
    }
    Ok(out)
}

/// Converts JSON to XML. Members become elements, `@` members with a scalar become attributes, and `#text` becomes text. An array becomes
/// one element for each item.
pub(crate) fn to_xml(
    text: &JsonText,
    root: &str,
    marks: Marks,
    sender: Sender,
) -> Result<String, Fault> {
    let mut out = String::new();
    push_element(text, sender, marks, JsonText::ROOT, root, 0, &mut out)?;
    Ok(out)
}

fn push_element(
    text: &JsonText,
    sender: Sender,
    marks: Marks,
    node: JsonNode,
    name: &str,
    depth: usize,
    out: &mut String,
) -> Result<(), Fault> {
    if depth > DEPTH_MAX {
        return Err(Fault::new(Kind::FlowFailed, "convert: the message is nested too deeply"));
    }
    turns::count_part();
    let name = element_names::encoded(name);
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
    let mut attributes: Vec<String> = Vec::new();
    for (key, value) in &members {
        if let Some(attribute) = key.strip_prefix('@').filter(|_| is_object && is_scalar(*value)) {
            let name = element_names::encoded(attribute).into_owned();
            if name == "xmlns" || attributes.contains(&name) {
                let what = format!("convert: `{key}` cannot be an attribute `{name}` there");
                return Err(sender.malformed(&what));
            }
            out.push_str(&format!(" {name}=\""));
            attributes.push(name);
            let value = scalar(text, *value);
            allowed(&value, sender)?;
            xml::escape_attribute(&value, out);
            out.push('"');
        }
    }
    out.push('>');
    if is_scalar(node) {
        push_text(out, &scalar(text, node), sender)?;
    }
    for (key, value) in &members {
        match (is_object, key.as_str(), text.kind(*value)) {
            (true, "#text", _) if is_scalar(*value) => {
                push_text(out, &scalar(text, *value), sender)?;
            }
            (true, key, _) if key.starts_with('@') && is_scalar(*value) => {}
            (true, key, json::Kind::Array) => {
                let is_empty = text.members(*value).next().is_none();
                if marks == Marks::All || (marks == Marks::Empty && is_empty) {
                    out.push_str(&format!("<?{LIST} {}?>", element_names::encoded(key)));
                }
                for (_, item) in text.members(*value) {
                    push_element(text, sender, marks, item, key, depth + 1, out)?;
                }
            }
            (_, key, _) => {
                push_element(text, sender, marks, *value, key, depth + 1, out)?;
            }
        }
    }
    out.push_str(&format!("</{name}>"));
    Ok(())
}

fn scalar(text: &JsonText, node: JsonNode) -> String {
    if text.kind(node) == json::Kind::Null { String::new() } else { text.string(node).into_owned() }
}

pub(crate) fn push_text(out: &mut String, text: &str, sender: Sender) -> Result<(), Fault> {
    allowed(text, sender)?;
    xml::escape_text(text, out);
    Ok(())
}

/// Refuses a text with a character that XML cannot represent.
fn allowed(text: &str, sender: Sender) -> Result<(), Fault> {
    let is_char = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    match text.chars().find(|c| !is_char(*c)) {
        None => Ok(()),
        Some(c) => {
            let cause =
                format!("convert: the character U+{:04X} is not allowed in XML", u32::from(c));
            let fault = Fault::new(Kind::Template, cause);
            Err(match sender {
                Sender::Client => fault.with_side(Side::Client),
                Sender::Upstream => fault.with_side(Side::Upstream),
                Sender::Flow => fault,
            })
        }
    }
}

#[cfg(test)]
mod tests;
