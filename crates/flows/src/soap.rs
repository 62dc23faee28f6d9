//! The parts of a SOAP message.

use expression::{NodeGroup, Nodes};
use mediation::soap::{SOAP_11, SOAP_12, Version};
use xml::{Document, Kind, NodeId};

/// The nodes of the parts of a SOAP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) version: Version,
    pub(crate) root: NodeId,
    pub(crate) header: Option<NodeId>,
    pub(crate) body: NodeId,
}

/// The content type of a message of this version.
pub(crate) fn content_type(version: Version) -> &'static str {
    match version {
        Version::V11 => "text/xml; charset=utf-8",
        Version::V12 => "application/soap+xml; charset=utf-8",
    }
}

impl Envelope {
    /// The levels of elements that show what is an envelope: the root element, and its parts.
    pub(crate) const LEVELS: usize = 2;

    /// The same down to the content of the Body.
    pub(crate) const CONTENT_LEVELS: usize = Envelope::LEVELS + 1;

    /// None: it is not a SOAP message.
    pub(crate) fn of(document: &Document) -> Option<Envelope> {
        let root = document.root_element()?;
        let name = document.name(root);
        let version = match (name.local, name.namespace.uri) {
            ("Envelope", SOAP_11) => Version::V11,
            ("Envelope", SOAP_12) => Version::V12,
            _ => return None,
        };
        let part = |local: &str| {
            document.children(root).find(|child| {
                let name = document.name(*child);
                document.kind(*child) == Kind::Element
                    && name.local == local
                    && name.namespace.uri == version.namespace()
            })
        };
        Some(Envelope { version, root, header: part("Header"), body: part("Body")? })
    }
}

/// The nodes as they go into the Body of a message: of another Body what is in it.
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

/// True for the Body of a SOAP message, also where it is a document of its own, as a variable may hold it.
pub(crate) fn is_body(document: &Document, node: NodeId) -> bool {
    if document.kind(node) != Kind::Element || document.name(node).local != "Body" {
        return false;
    }
    let is_soap = [SOAP_11, SOAP_12].contains(&document.name(node).namespace.uri);
    Envelope::of(document).is_some_and(|envelope| envelope.body == node)
        || (is_soap && document.root_element() == Some(node))
}
