//! What the values in a schema document refer to: namespaces in scope of a node, and notations.

use xml::NodeId;

use crate::datatype;
use crate::documents::SchemaDocument;
use crate::model::Components;

/// Namespaces in scope of a node, for values.
pub(crate) struct Scope<'a> {
    pub(crate) document: Option<&'a SchemaDocument<'a>>,
    pub(crate) node: NodeId,
    pub(crate) components: Option<&'a Components>,
}

impl datatype::NameScope for Scope<'_> {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        let Some(document) = self.document else { return prefix.is_empty().then_some("") };
        match (document.tree().lookup_prefix(self.node, prefix), prefix) {
            (Some(uri), _) => Some(uri),
            (None, "") => Some(""),
            (None, _) => None,
        }
    }

    fn notation(&self, uri: &str, local: &str) -> bool {
        let Some(components) = self.components else { return true };
        let namespace = components.names.find_namespace(uri);
        components.globals.notations.contains_key(&components.names.find(namespace, local))
    }
}
