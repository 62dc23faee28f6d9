//! The source of other documents: modules of a stylesheet, and documents for `document()`.

/// A document returned by a resolver.
#[derive(Debug, Clone)]
pub struct Resource {
    /// The document's own address: the base of its references, its name in errors, and its identity.
    pub uri: String,
    pub bytes: Vec<u8>,
}

/// Finds documents for a stylesheet, which cannot load any in another way.
pub trait Resolver {
    /// Resolves `href` as written. `base` is the address of the document with the reference, and empty if that has none. The error is a
    /// sentence for the author of the stylesheet.
    fn resolve(&self, href: &str, base: &str) -> Result<Resource, String>;
}

/// Refuses everything. For stylesheets of one module that load no documents.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDocuments;

impl Resolver for NoDocuments {
    fn resolve(&self, _href: &str, _base: &str) -> Result<Resource, String> {
        Err("no other documents are available here".to_owned())
    }
}
