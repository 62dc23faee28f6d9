//! The names of the open elements, for patterns that test a node's ancestors.

use xml::{Namespace, QName};
use xpath::{Ancestors, NodeKind, StreamNode};

/// Open elements, inner ones last. Their names are in one string, so that a name needs no allocation.
#[derive(Debug, Default)]
pub(super) struct Lineage {
    text: String,
    names: Vec<Name>,
}

/// Range of a name: prefix, local part and namespace, in this order.
#[derive(Debug, Clone, Copy)]
struct Name {
    from: usize,
    local: usize,
    uri: usize,
    to: usize,
}

/// The ancestors of a node. The innermost `below` open elements are not its ancestors: 1 if the node itself is open, otherwise 0.
pub(super) struct Above<'l> {
    pub(super) lineage: &'l Lineage,
    pub(super) below: usize,
}

impl Lineage {
    pub(super) fn push(&mut self, name: QName<'_>) {
        let from = self.text.len();
        self.text.push_str(name.prefix);
        let local = self.text.len();
        self.text.push_str(name.local);
        let uri = self.text.len();
        self.text.push_str(name.namespace.uri);
        self.names.push(Name { from, local, uri, to: self.text.len() });
    }

    pub(super) fn pop(&mut self) {
        if let Some(name) = self.names.pop() {
            // Harmless: the name of an element that has ended is not needed.
            self.text.truncate(name.from);
        }
    }

    pub(super) fn copy_from(&mut self, other: &Lineage) {
        self.text.clone_from(&other.text);
        self.names.clone_from(&other.names);
    }

    pub(super) fn clear(&mut self) {
        self.text.clear();
        self.names.clear();
    }

    /// Returns the memory held, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity() + self.names.capacity() * size_of::<Name>()
    }

    fn slice(&self, from: usize, to: usize) -> &str {
        self.text.get(from..to).unwrap_or_default()
    }
}

impl Ancestors for Above<'_> {
    fn above(&self, levels: usize) -> Option<StreamNode<'_>> {
        let all = &self.lineage.names;
        let depth = all.len().checked_sub(self.below)?;
        let (kind, name) = match depth.checked_sub(levels)? {
            0 => (NodeKind::Root, Name { from: 0, local: 0, uri: 0, to: 0 }),
            above => (NodeKind::Element, all.get(above - 1).copied()?),
        };
        let namespace = Namespace { id: 0, uri: self.lineage.slice(name.uri, name.to) };
        let name = QName {
            prefix: self.lineage.slice(name.from, name.local),
            local: self.lineage.slice(name.local, name.uri),
            namespace,
        };
        Some(StreamNode { kind, name, value: None, attributes: None })
    }
}
