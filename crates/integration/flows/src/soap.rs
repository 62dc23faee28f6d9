//! The parts of a SOAP message.

use expression::{NodeGroup, Nodes};
use mediation::soap::{SOAP_11, SOAP_12, Version};
use xml::{Document, Kind, NodeId};

pub(crate) use mediation::soap::nodes::Envelope;

/// The content type of a message of this version.
pub(crate) fn content_type(version: Version) -> &'static str {
    match version {
        Version::V11 => "text/xml; charset=utf-8",
        Version::V12 => "application/soap+xml; charset=utf-8",
    }
}

/// Returns the nodes to put into the Body of a message. A Body among them is replaced by its content.
pub(crate) fn inner(nodes: Nodes) -> Nodes {
    if !nodes.iter().any(|(document, node)| is_body(document, node)) {
        return nodes;
    }
    let groups = nodes.groups().iter().map(|NodeGroup { document, ids }| {
        let ids = ids.iter().flat_map(|id| {
            if is_body(document, *id) { document.children(*id).collect() } else { vec![*id] }
        });
        NodeGroup { document: document.clone(), ids: ids.collect() }
    });
    Nodes::new(groups.collect())
}

/// Returns true for the Body of a SOAP message, also if it is the root of a separate document, as in a variable.
pub(crate) fn is_body(document: &Document, node: NodeId) -> bool {
    if document.kind(node) != Kind::Element || document.name(node).local != "Body" {
        return false;
    }
    let is_soap = [SOAP_11, SOAP_12].contains(&document.name(node).namespace.uri);
    Envelope::of(document).is_some_and(|envelope| envelope.body == node)
        || (is_soap && document.root_element() == Some(node))
}
