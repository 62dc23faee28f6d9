//! What the validity of a text depends on besides its type.

use crate::regex::Steps;

/// Namespaces, notations and entities in scope of a text, and the remaining budget of its document.
pub trait Names {
    /// Returns the namespace of a prefix; `""` stands for the default namespace. `Some("")` means no namespace, `None` an undeclared
    /// prefix.
    fn resolve(&self, prefix: &str) -> Option<&str>;

    /// Returns whether this notation is declared, or true if that is unknown.
    fn notation(&self, _uri: &str, _local: &str) -> bool {
        true
    }

    /// Returns whether this unparsed entity is declared. Only checked for values in an instance, because values in a schema belong to no
    /// document.
    fn entity(&self, _name: &str) -> bool {
        true
    }

    /// Returns the budget for the patterns of all texts in the document, or `None` if the text is checked on its own.
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
