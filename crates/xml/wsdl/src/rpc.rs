//! Generated schemas of the outermost elements of rpc/literal messages. A description identifies such an element only by an operation and
//! its parts, and no schema declares it (WSDL 1.1, 3.5; WS-I Basic Profile 1.1, R2729 and R2735).

use std::collections::BTreeMap;

use crate::definitions::ReadDefinitions;
use crate::documents::SCHEMA;
use crate::model::{Binding, Content, Message, Part, Payload, Protocol, Style, Use, meant};

/// The parts that an element may contain. There are several variants if operations of the same name differ.
type Variants<'d> = Vec<Vec<&'d Part>>;

/// Elements by their namespace and name.
type Wrappers<'d> = BTreeMap<&'d str, BTreeMap<String, Variants<'d>>>;

/// Returns a schema document for each namespace of such elements. `is_declared` tells which elements the description's schemas declare.
pub(crate) fn schemas(
    read: &ReadDefinitions,
    is_declared: impl Fn(&str, &str) -> bool,
) -> Vec<String> {
    let mut wrappers = Wrappers::new();
    for binding in &read.bindings {
        if matches!(binding.protocol, Protocol::Soap(_)) {
            of_binding(read, binding, &mut wrappers);
        }
    }
    let documents = wrappers.into_iter().map(|(namespace, mut elements)| {
        elements.retain(|local, _| !is_declared(namespace, local));
        (namespace, elements)
    });
    documents
        .filter(|(_, elements)| !elements.is_empty())
        .map(|(namespace, elements)| document(namespace, &elements))
        .collect()
}

fn of_binding<'d>(read: &'d ReadDefinitions, binding: &'d Binding, wrappers: &mut Wrappers<'d>) {
    for bound in binding.operations.iter().filter(|bound| bound.style == Style::Rpc) {
        let Some(operation) = meant(&read.interfaces, bound) else { continue };
        let sides = [
            (&operation.input, &bound.input, bound.name.to_string()),
            (&operation.output, &bound.output, format!("{}Response", bound.name)),
        ];
        for (message, content, local) in sides {
            if let Some(message) = message {
                add(message, content.as_ref(), local, wrappers);
            }
        }
    }
}

fn add<'d>(
    message: &'d Message,
    content: Option<&'d Content>,
    local: String,
    wrappers: &mut Wrappers<'d>,
) {
    let body = content.map(|content| &content.body);
    if body.is_some_and(|body| body.usage == Use::Encoded) {
        return;
    }
    let parts: Vec<&Part> = match body {
        // Harmless: the parts of a body are among those of its message.
        Some(body) => body.parts.iter().filter_map(|at| message.parts.get(*at)).collect(),
        None => message.parts.iter().collect(),
    };
    let namespace = body.and_then(|body| body.namespace.as_deref()).unwrap_or("");
    let variants = wrappers.entry(namespace).or_default().entry(local).or_default();
    if !variants.contains(&parts) {
        variants.push(parts);
    }
}

fn document(target: &str, elements: &BTreeMap<String, Variants<'_>>) -> String {
    // Harmless: this flattens nested lists and drops nothing.
    let payloads = elements.values().flatten().flatten().map(|part| &part.payload);
    let mut prefixes: BTreeMap<&str, String> = BTreeMap::new();
    for payload in payloads {
        if let Payload::Type(name) | Payload::Element(name) = payload {
            let number = prefixes.len();
            prefixes.entry(&name.namespace).or_insert_with(|| format!("n{number}"));
        }
    }
    let mut out = format!("<xs:schema xmlns:xs=\"{SCHEMA}\"");
    if !target.is_empty() {
        push_attribute("targetNamespace", target, &mut out);
    }
    for (namespace, prefix) in prefixes.iter().filter(|(namespace, _)| !namespace.is_empty()) {
        push_attribute(&format!("xmlns:{prefix}"), namespace, &mut out);
    }
    out.push('>');
    for namespace in prefixes.keys().filter(|uri| **uri != target && **uri != SCHEMA) {
        out.push_str("<xs:import");
        if !namespace.is_empty() {
            push_attribute("namespace", namespace, &mut out);
        }
        out.push_str("/>");
    }
    for (local, variants) in elements {
        out.push_str("<xs:element");
        push_attribute("name", local, &mut out);
        out.push_str("><xs:complexType><xs:sequence>");
        match variants.as_slice() {
            [parts] => parts.iter().for_each(|part| push_part(part, &prefixes, &mut out)),
            // Operations with the same name differ in their parts, and only the service knows which one a message is for.
            _ => out.push_str(
                "<xs:any processContents=\"lax\" minOccurs=\"0\" maxOccurs=\"unbounded\"/>",
            ),
        }
        out.push_str("</xs:sequence></xs:complexType></xs:element>");
    }
    out.push_str("</xs:schema>");
    out
}

fn push_part(part: &Part, prefixes: &BTreeMap<&str, String>, out: &mut String) {
    let (key, name) = match &part.payload {
        Payload::Type(name) => ("type", name),
        Payload::Element(name) => ("ref", name),
        Payload::Any | Payload::None | Payload::Other => {
            out.push_str("<xs:any processContents=\"lax\"/>");
            return;
        }
    };
    let prefix = prefixes.get(&*name.namespace).filter(|_| !name.namespace.is_empty());
    let mut value = prefix.map_or_else(String::new, |prefix| format!("{prefix}:"));
    value.push_str(&name.local);
    out.push_str("<xs:element");
    if key == "type" {
        // The parts have no namespace (R2735).
        push_attribute("form", "unqualified", out);
        push_attribute("name", &part.name, out);
    }
    push_attribute(key, &value, out);
    out.push_str("/>");
}

fn push_attribute(name: &str, value: &str, out: &mut String) {
    out.push_str(&format!(" {name}=\""));
    xml::escape_attribute(value, out);
    out.push('"');
}
