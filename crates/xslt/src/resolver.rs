//! Source of other documents: modules of a stylesheet, and documents for `document()`.

/// A document returned by a resolver.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Its own address: the base of references in it, its name in errors, and its identity.
    pub uri: String,
    pub bytes: Vec<u8>,
}

/// Finds documents for a stylesheet. This is the only way to load any.
pub trait Resolver {
    /// Resolves `href` as written; `base` is the address of the document with the reference, empty if it has none. The error is a
    /// sentence for the stylesheet's author.
    fn resolve(&self, href: &str, base: &str) -> Result<Resource, String>;
}

/// Refuses everything: for stylesheets of one module that ask for no documents.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDocuments;

impl Resolver for NoDocuments {
    fn resolve(&self, _href: &str, _base: &str) -> Result<Resource, String> {
        Err("no other documents are available here".to_owned())
    }
}
