//! The IDs and IDREFs that were found in a document so far.

use std::collections::HashMap;
use std::sync::Arc;

/// The IDs so far, and the IDREFs whose ID has not occurred yet.
#[derive(Debug, Default)]
pub(super) struct Identifiers {
    /// The IDs, each with the number of its element.
    pub(super) ids: HashMap<Box<str>, u64>,
    pub(super) references: Vec<Reference>,
    /// Number of bytes in use.
    pub(super) bytes: usize,
    /// Whether the memory limit was exceeded, which is reported once.
    pub(super) over: bool,
}

/// An IDREF whose ID has not occurred yet.
#[derive(Debug)]
pub(super) struct Reference {
    pub(super) text: Box<str>,
    pub(super) at: xml::Position,
    pub(super) place: Arc<IdrefOwner>,
}

/// The element or attribute of an IDREF; consecutive IDREFs often share it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct IdrefOwner {
    /// The name as written, and as in messages.
    pub(super) node: String,
    pub(super) name: String,
    pub(super) element: Option<String>,
}

/// Memory for an [`IdrefOwner`] in addition to its names.
const PLACE_BYTES: usize = 128;

impl Identifiers {
    pub(super) fn clear(&mut self) {
        self.ids.clear();
        self.references.clear();
        self.bytes = 0;
        self.over = false;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ids.is_empty() && self.references.is_empty()
    }
}

impl IdrefOwner {
    pub(super) fn bytes(&self) -> usize {
        PLACE_BYTES
            + self.node.len()
            + self.name.len()
            + self.element.as_ref().map_or(0, String::len)
    }
}
