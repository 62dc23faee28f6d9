//! Where other documents come from: modules of a stylesheet, and what `document()` asks for.

/// A document that a resolver found.
#[derive(Debug, Clone)]
pub struct Resource {
    /// Its own address: the base for references in it, its name in errors, and what makes two of them the same.
    pub uri: String,
    pub bytes: Vec<u8>,
}

/// Finds documents for a stylesheet. Nothing is loaded but by one of these.
pub trait Resolver {
    /// `href` as it was written; `base` is the address of the document it was written in, empty where that has none.
    /// An error is a sentence for whoever wrote the stylesheet.
    fn resolve(&self, href: &str, base: &str) -> Result<Resource, String>;
}

/// Refuses everything: for a stylesheet of one module that asks for no documents.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Resolver for Nothing {
    fn resolve(&self, _href: &str, _base: &str) -> Result<Resource, String> {
        Err("no other documents are available here".to_owned())
    }
}
