//! What a text's validity depends on beside its type.

/// The namespaces, notations and entities where a text stands.
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
}

/// No prefix but `xml`, no default namespace.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoNames;

impl Names for NoNames {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "" => Some(""),
            "xml" => Some("http://www.w3.org/XML/1998/namespace"),
            _ => None,
        }
    }
}
