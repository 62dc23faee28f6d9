//! The place of a component in the documents of a schema.

use xml::NodeId;

/// Location of a component in a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ComponentLocation {
    pub(crate) document: usize,
    pub(crate) node: NodeId,
}

impl ComponentLocation {
    /// Location of components that no document declares.
    pub(crate) const BUILT_IN: ComponentLocation =
        ComponentLocation { document: usize::MAX, node: NodeId(0) };
}
