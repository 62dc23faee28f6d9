//! Lists the operations of definitions, for counts by operation.
//!
//! They are read from the uncompiled documents, because imports may not have been fetched yet.

use std::collections::HashMap;

use wsdl::{WSDL11, WSDL20};
use xml::{Document, Kind, NodeId};

use super::documents::{self, Documents, XSD};

/// The maximum number of operations counted separately on one route. The largest services have a few hundred.
pub(super) const OPERATIONS_MAX: usize = 1000;

/// Returns each operation with the local name of the body element that calls it: pairs of element and operation, sorted. The operations of
/// a plain schema are its elements.
pub(super) fn named(of: &Documents) -> Vec<(String, String)> {
    let parsed = of.all.values().map(|bytes| documents::parsed(bytes));
    // Harmless: an invalid document is reported where it is compiled.
    let parsed: Vec<Document> = parsed.filter_map(Result::ok).collect();
    let mut named = OperationNames::default();
    parsed.iter().for_each(|document| named.messages(document));
    parsed.iter().for_each(|document| named.operations(document));
    parsed.iter().for_each(|document| named.bound(document));
    let mut found = named.found;
    if found.is_empty() {
        // Harmless: an invalid document is reported where it is compiled.
        let first = documents::parsed(of.first()).ok();
        found.extend(first.iter().flat_map(elements));
    }
    found.sort_unstable();
    found.dedup();
    found
}

#[derive(Default)]
struct OperationNames {
    /// The elements of messages, by message name.
    elements: HashMap<String, String>,
    found: Vec<(String, String)>,
}

impl OperationNames {
    fn messages(&mut self, document: &Document) {
        let Some(root) = document.root_element() else { return };
        for message in children(document, root, WSDL11, "message") {
            let part = children(document, message, WSDL11, "part").next();
            let element = part.and_then(|part| local(document, part, "element"));
            if let (Some(name), Some(element)) = (local(document, message, "name"), element) {
                self.elements.insert(name, element);
            }
        }
    }

    /// Adds operations that are named only by a binding, because its port type is missing.
    fn bound(&mut self, document: &Document) {
        let Some(root) = document.root_element() else { return };
        for binding in children(document, root, WSDL11, "binding") {
            for operation in children(document, binding, WSDL11, "operation") {
                let Some(name) = local(document, operation, "name") else { continue };
                if !self.found.iter().any(|(_, known)| *known == name) {
                    self.found.push((name.clone(), name));
                }
            }
        }
    }

    fn operations(&mut self, document: &Document) {
        let Some(root) = document.root_element() else { return };
        for (uri, interface) in [(WSDL11, "portType"), (WSDL20, "interface")] {
            for interface in children(document, root, uri, interface) {
                for operation in children(document, interface, uri, "operation") {
                    let Some(name) = local(document, operation, "name") else { continue };
                    let input = children(document, operation, uri, "input").next();
                    let of = |key| input.and_then(|input| local(document, input, key));
                    let element = match uri {
                        WSDL11 => of("message").and_then(|name| self.elements.get(&name).cloned()),
                        _ => of("element"),
                    };
                    // The element of a message in RPC style has the operation's name.
                    self.found.push((element.unwrap_or_else(|| name.clone()), name));
                }
            }
        }
    }
}

/// Returns the elements that a schema declares.
fn elements(document: &Document) -> Vec<(String, String)> {
    let Some(root) = document.root_element() else { return Vec::new() };
    let names = children(document, root, XSD, "element");
    // Harmless: the compiler of schemas reports an element without a name.
    let names = names.filter_map(|element| local(document, element, "name"));
    names.map(|name| (name.clone(), name)).collect()
}

fn children<'d>(
    document: &'d Document,
    of: NodeId,
    uri: &'d str,
    local: &'d str,
) -> impl Iterator<Item = NodeId> + 'd {
    document.children(of).filter(move |node| {
        let name = document.name(*node);
        document.kind(*node) == Kind::Element && name.local == local && name.namespace.uri == uri
    })
}

/// Returns the local part of the qualified name in an attribute.
fn local(document: &Document, node: NodeId, key: &str) -> Option<String> {
    let value = document.attribute(node, "", key)?.trim();
    Some(value.rsplit(':').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_found_by_the_elements_that_call_them() {
        let v11 = format!(
            "<d xmlns='{WSDL11}' xmlns:t='t'><message name='In'><part element='t:AddRequest'/></message>\
             <portType><operation name='Add'><input message='t:In'/></operation><operation name='Rpc'><input message='t:None'/></operation></portType>\
             <binding><operation name='Add'/><operation name='Bound'/></binding></d>"
        );
        let v20 = format!(
            "<d xmlns='{WSDL20}'><interface><operation name='Sub'><input element='t:SubRequest'/></operation></interface></d>"
        );
        let schema =
            format!("<schema xmlns='{XSD}'><element name='A'/><complexType name='B'/></schema>");
        let pairs = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        for (text, found) in [
            (v11, pairs(&[("AddRequest", "Add"), ("Bound", "Bound"), ("Rpc", "Rpc")])),
            (v20, pairs(&[("SubRequest", "Sub")])),
            (schema, pairs(&[("A", "A")])),
        ] {
            assert_eq!(named(&Documents::of_text(&text, "x")), found, "{text}");
        }
    }
}
