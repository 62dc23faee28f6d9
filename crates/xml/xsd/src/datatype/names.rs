//! The context in which a text is validated against its type.

use crate::regex::Steps;

/// Namespaces, notations and entities in scope of a text, and the remaining budget of its document.
pub trait NameScope {
    /// Returns the namespace of a prefix, or the default namespace for the prefix `""`. `Some("")` means no namespace. `None` means that
    /// the prefix is not declared.
    fn resolve(&self, prefix: &str) -> Option<&str>;

    /// Returns whether this notation is declared. Returns true if this is unknown.
    fn notation(&self, _uri: &str, _local: &str) -> bool {
        true
    }

    /// Returns whether this unparsed entity is declared. This is checked only for values in an instance, because values in a schema do not
    /// belong to a document.
    fn entity(&self, _name: &str) -> bool {
        true
    }

    /// Returns the budget that the patterns of all texts in the document share. Returns `None` if the text is validated on its own.
    fn pattern_budget(&self) -> Option<&Steps> {
        None
    }
}

/// Adds a budget, which the patterns of many texts share, to a context.
#[derive(Clone, Copy)]
pub struct SharedBudget<'a> {
    pub names: &'a dyn NameScope,
    pub steps: &'a Steps,
}

/// A context in which only the prefix `xml` is declared and there is no default namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmptyScope;

impl NameScope for SharedBudget<'_> {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        self.names.resolve(prefix)
    }

    fn notation(&self, uri: &str, local: &str) -> bool {
        self.names.notation(uri, local)
    }

    fn entity(&self, name: &str) -> bool {
        self.names.entity(name)
    }

    fn pattern_budget(&self) -> Option<&Steps> {
        Some(self.steps)
    }
}

impl NameScope for EmptyScope {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "" => Some(""),
            "xml" => Some("http://www.w3.org/XML/1998/namespace"),
            _ => None,
        }
    }
}
