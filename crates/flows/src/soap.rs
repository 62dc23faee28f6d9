//! The parts of a SOAP message.

use expression::{NodeGroup, Nodes};
use xml::{Document, Kind, NodeId};

pub(crate) const NS_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";
pub(crate) const NS_12: &str = "http://www.w3.org/2003/05/soap-envelope";

/// A version of SOAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Version {
    V11,
    V12,
}

/// The nodes of the parts of a SOAP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Envelope {
    pub(crate) version: Version,
    pub(crate) root: NodeId,
    pub(crate) header: Option<NodeId>,
    pub(crate) body: NodeId,
}

impl Version {
    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Version::V11 => NS_11,
            Version::V12 => NS_12,
        }
    }

    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Version::V11 => "text/xml; charset=utf-8",
            Version::V12 => "application/soap+xml; charset=utf-8",
        }
    }
}

impl Envelope {
    /// None: it is no SOAP message.
    pub(crate) fn of(document: &Document) -> Option<Envelope> {
        let root = document.root_element()?;
        let name = document.name(root);
        let version = match (name.local, name.namespace.uri) {
            ("Envelope", NS_11) => Version::V11,
            ("Envelope", NS_12) => Version::V12,
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
        let ids = ids.iter().flat_map(|id| match is_body(document, *id) {
            true => document.children(*id).collect(),
            false => vec![*id],
        });
        NodeGroup { document: document.clone(), ids: ids.collect() }
    });
    Nodes::new(groups.collect())
}

/// True for the Body of a SOAP message.
pub(crate) fn is_body(document: &Document, node: NodeId) -> bool {
    document.kind(node) == Kind::Element
        && document.name(node).local == "Body"
        && Envelope::of(document).is_some_and(|envelope| envelope.body == node)
}
