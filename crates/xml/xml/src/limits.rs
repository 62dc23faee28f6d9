//! Limits and options of a parser.

/// Options for parsing a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether names follow Namespaces in XML 1.0. If not, a name is its text and `xmlns` is an ordinary attribute.
    pub namespaces: bool,
    pub doctype: Doctype,
    pub limits: Limits,
}

/// Treatment of a document type declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doctype {
    /// Refuse a document that has one.
    Refuse,
    /// Read the internal subset: entities, attribute defaults and types. External entities are never loaded.
    Internal,
}

/// Limits on one document. Exceeding one is an error that names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub bytes_max: u64,
    pub depth_max: u32,
    /// Number of attributes of one element, including namespace declarations.
    pub attributes_max: u32,
    pub name_bytes_max: u32,
    /// Size of one attribute value, after references are replaced.
    pub attribute_bytes_max: u32,
    /// Size of one tag, comment, processing instruction or declaration as written. It is buffered until its end has arrived.
    pub token_bytes_max: u32,
    /// Number of start tags, end tags, comments, processing instructions, CDATA sections, references, and declarations of a document type.
    pub tokens_max: u64,
    /// Number of distinct namespace names, of distinct prefixes, and of declarations in scope at once; the limit applies to each.
    pub namespaces_max: u32,
    /// Number of bytes that all entities and attribute defaults of the internal subset may add.
    pub expansion_bytes_max: u64,
    /// Nesting depth of entities. General entities nest at most 64 deep, whatever the limit.
    pub entity_depth_max: u32,
    /// Number of declarations in the internal subset.
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
            // Far above what services exchange. The gateway's own limit on bodies is usually lower.
            bytes_max: 64 << 20,
            // The default of libxml2. Documents written by people stay below 30.
            depth_max: 256,
            attributes_max: 512,
            name_bytes_max: 4 << 10,
            attribute_bytes_max: 10 << 20,
            // Room for one attribute at its limit and as much again.
            token_bytes_max: 20 << 20,
            tokens_max: 16 << 20,
            namespaces_max: 10_000,
            expansion_bytes_max: 1 << 20,
            entity_depth_max: 40,
            declarations_max: 10_000,
        }
    }
}
