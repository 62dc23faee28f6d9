//! Reads the SOAP actions that a description expects.

use mediation::soap::{Actions, IN_OPT_OUT, IN_OUT, OperationAction};
use wsdl::{BINDING_11, BINDING_12};
use wsdl::{Outline, Payload, Protocol, WSDL20};
use xml::{Document, Kind, NodeId};

/// The namespace of `wsam:Action`.
const WSAM: &str = "http://www.w3.org/2007/05/addressing/metadata";

/// Message exchange patterns that have a reply.
const ANSWERED: &[&str] = &[IN_OUT, IN_OPT_OUT];

/// Returns the actions of a WSDL 1.1 description, from its HTTP bindings, by operation name and by the element of the message. If an
/// operation has the name of an element, messages with this element may name its action, too.
pub(super) fn of_11(outline: &Outline, documents: &[Document]) -> Actions {
    let mut own = Actions::of_11(prefixes(documents));
    let mut by_element = Vec::new();
    for binding in &outline.bindings {
        let version = match binding.protocol {
            Protocol::Soap(version) => version,
            Protocol::Http(_) | Protocol::Other(_) => continue,
        };
        let http = |transport: &str| {
            transport.ends_with("/soap/http") || transport.ends_with("/bindings/HTTP/")
        };
        if !binding.transport.as_deref().is_none_or(http) {
            continue;
        }
        for bound in &binding.operations {
            let expected = OperationAction {
                version: Some(version),
                action: bound.action.clone(),
                required: bound.action_required.unwrap_or(false),
                unanswered: None,
            };
            let input = outline.operation(bound).and_then(|operation| operation.input.as_ref());
            let payload = input.and_then(|message| message.parts.first()).map(|part| &part.payload);
            if let Some(Payload::Element(name)) = payload {
                by_element.push((name.local.clone(), expected.clone()));
            }
            own.expect(&bound.name, expected);
        }
    }
    with_elements(own, by_element)
}

/// Returns the prefixes of the SOAP binding namespaces, from the first document that declares them.
fn prefixes(documents: &[Document]) -> [Option<Box<str>>; 2] {
    [BINDING_11, BINDING_12].map(|namespace| {
        // Harmless: a document without a root declares nothing.
        let roots =
            documents.iter().filter_map(|document| Some((document, document.root_element()?)));
        let declared = roots.flat_map(|(document, root)| document.declared(root));
        let mut prefixes = declared.filter(|(_, uri)| *uri == namespace).map(|(prefix, _)| prefix);
        prefixes.find(|prefix| !prefix.is_empty()).map(Box::from)
    })
}

/// Returns the actions of a WSDL 2.0 description: `wsam:Action`, or the default of Web Services Addressing (Metadata, 4.4.4). They are
/// always required. `documents` are the description and those that it includes and imports.
pub(super) fn of_20(documents: &[Document]) -> Actions {
    let mut own = Actions::default();
    let mut by_element = Vec::new();
    documents.iter().for_each(|document| of_document(document, &mut own, &mut by_element));
    with_elements(own, by_element)
}

/// Adds the actions by element. If an operation has the name of the element, the actions of both are accepted, that operation's first.
fn with_elements(own: Actions, by_element: Vec<(Box<str>, OperationAction)>) -> Actions {
    let mut actions = own.clone();
    for (element, expected) in by_element {
        if own.expects(&element, expected.version) {
            actions.allow(&element, expected)
        } else {
            actions.expect(&element, expected)
        }
    }
    actions
}

fn of_document(
    document: &Document,
    own: &mut Actions,
    by_element: &mut Vec<(Box<str>, OperationAction)>,
) {
    let Some(root) = document.root_element() else { return };
    let target = document.attribute(root, "", "targetNamespace").unwrap_or("");
    let (target, delimiter) = if target.contains('/') {
        (target.strip_suffix('/').unwrap_or(target), "/")
    } else {
        (target, ".")
    };
    for interface in named(document, root, "interface") {
        let of = document.attribute(interface, "", "name").unwrap_or("");
        for operation in named(document, interface, "operation") {
            let Some(name) = document.attribute(operation, "", "name") else { continue };
            let pattern = document.attribute(operation, "", "pattern");
            let input = named(document, operation, "input").find(|input| {
                document.attribute(*input, "", "messageLabel").is_none_or(|label| label == "In")
            });
            let Some(input) = input else { continue };
            let written = document.attribute(input, WSAM, "Action").map(str::to_owned);
            let written = written.filter(|action| !action.is_empty());
            // A default action is derived from names only for operations with a reply.
            let unanswered = pattern.filter(|pattern| !ANSWERED.contains(pattern));
            let unanswered = unanswered.filter(|_| written.is_none()).map(Box::from);
            let action = written
                .unwrap_or_else(|| format!("{target}{delimiter}{of}{delimiter}{name}Request"));
            let action = Some(action.into());
            let expected = OperationAction { version: None, action, required: true, unanswered };
            let element = document.attribute(input, "", "element").unwrap_or("");
            let element = element.rsplit(':').next().unwrap_or_default();
            by_element.push((Box::from(element), expected.clone()));
            own.expect(name, expected);
        }
    }
}

fn named<'d>(
    document: &'d Document,
    of: NodeId,
    local: &'d str,
) -> impl Iterator<Item = NodeId> + 'd {
    document.children(of).filter(move |node| {
        let name = document.name(*node);
        document.kind(*node) == Kind::Element && name.local == local && name.namespace.uri == WSDL20
    })
}
