//! What a text's validity depends on beside its type.

use crate::regex::Steps;

/// The namespaces, notations and entities where a text stands, and what its document may still cost.
pub trait Names {
    /// The namespace of a prefix, `""` for the default: `Some("")` is no namespace, `None` an undeclared prefix.
    fn resolve(&self, prefix: &str) -> Option<&str>;

    /// Whether this notation is declared. Whoever does not know says yes.
    fn notation(&self, _uri: &str, _local: &str) -> bool {
        true
    }

    /// Whether this unparsed entity is declared. A schema's own values are not asked (they have no document); an
    /// instance's are.
    fn entity(&self, _name: &str) -> bool {
        true
    }

    /// What is left for the patterns of all texts of the document; none where a text is looked at for itself.
    fn steps(&self) -> Option<&Steps> {
        None
    }
}

/// Names of a text that is one of many: their patterns draw on one budget.
#[derive(Clone, Copy)]
pub struct Sharing<'a> {
    pub names: &'a dyn Names,
    pub steps: &'a Steps,
}

/// No prefix but `xml`, no default namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Names for Sharing<'_> {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        self.names.resolve(prefix)
    }

    fn notation(&self, uri: &str, local: &str) -> bool {
        self.names.notation(uri, local)
    }

    fn entity(&self, name: &str) -> bool {
        self.names.entity(name)
    }

    fn steps(&self) -> Option<&Steps> {
        Some(self.steps)
    }
}

impl Names for NoNames {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "" => Some(""),
            "xml" => Some("http://www.w3.org/XML/1998/namespace"),
            _ => None,
        }
    }
}
