//! The parts of a SOAP message as nodes of its tree.

use xml::{Document, Kind, NodeId};

use super::{SOAP_11, SOAP_12, Version};

/// The nodes of the parts of a SOAP message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Envelope {
    pub version: Version,
    pub root: NodeId,
    pub header: Option<NodeId>,
    pub body: NodeId,
}

impl Envelope {
    /// The levels that identify an envelope: the root element and its children.
    pub const LEVELS: usize = 2;

    /// The levels of an envelope, and one more for the content of the Body.
    pub const CONTENT_LEVELS: usize = Envelope::LEVELS + 1;

    /// Returns the parts of a SOAP message, or `None` if the document is not one.
    pub fn of(document: &Document) -> Option<Envelope> {
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
