//! Context on which a text's validity depends beside its type.

use crate::regex::Steps;

/// Namespaces, notations and entities in scope of a text, and the remaining budget of its document.
pub trait Names {
    /// Returns the namespace of a prefix, `""` for the default: `Some("")` is not a namespace, `None` an undeclared prefix.
    fn resolve(&self, prefix: &str) -> Option<&str>;

    /// Returns whether this notation is declared; true if that is unknown.
    fn notation(&self, _uri: &str, _local: &str) -> bool {
        true
    }

    /// Returns whether this unparsed entity is declared. Checked only for values of an instance: a schema's own values belong to
    /// no document.
    fn entity(&self, _name: &str) -> bool {
        true
    }

    /// Returns the budget for the patterns of all texts of the document; None if the text is checked alone.
    fn steps(&self) -> Option<&Steps> {
        None
    }
}

/// Context with a budget that the patterns of many texts share.
#[derive(Clone, Copy)]
pub struct SharedBudget<'a> {
    pub names: &'a dyn Names,
    pub steps: &'a Steps,
}

/// No prefix except `xml`, and no default namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Names for SharedBudget<'_> {
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
