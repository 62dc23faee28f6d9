//! Budgets and options of a parser.

/// Options for parsing a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Names follow Namespaces in XML 1.0. If false, a name is its text and `xmlns` is an ordinary attribute.
    pub namespaces: bool,
    pub doctype: Doctype,
    pub limits: Limits,
}

/// Treatment of a document type declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doctype {
    /// A document that has one is refused.
    Refuse,
    /// The internal subset is read: entities, attribute defaults and types. External entities are never loaded.
    Internal,
}

/// Budgets of one document. Each has its own error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub bytes_max: u64,
    pub depth_max: u32,
    /// Attributes of one element, namespace declarations included.
    pub attributes_max: u32,
    pub name_bytes_max: u32,
    /// One attribute's value, after references are replaced.
    pub attribute_bytes_max: u32,
    /// One tag, comment, processing instruction or declaration as written; it is buffered until its end has come.
    pub token_bytes_max: u32,
    /// Start tags, end tags, comments, processing instructions, CDATA sections and references together.
    pub tokens_max: u64,
    /// Distinct namespace names and prefixes, and declarations in scope at once.
    pub namespaces_max: u32,
    /// Bytes that all entities of the internal subset may add together.
    pub expansion_bytes_max: u64,
    /// Nesting depth of entities.
    pub entity_depth_max: u32,
    /// Declarations of the internal subset.
    pub declarations_max: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options { namespaces: true, doctype: Doctype::Refuse, limits: Limits::default() }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // Far above what services exchange; a gateway's own body limit is usually lower.
            bytes_max: 64 << 20,
            // The default of libxml2; documents that people write stay below 30.
            depth_max: 256,
            attributes_max: 512,
            name_bytes_max: 4 << 10,
            attribute_bytes_max: 10 << 20,
            // An attribute at its limit and as much again.
            token_bytes_max: 20 << 20,
            tokens_max: 16 << 20,
            namespaces_max: 10_000,
            expansion_bytes_max: 1 << 20,
            entity_depth_max: 40,
            declarations_max: 10_000,
        }
    }
}
