//! OpenAPI documents that policies use, each read only once for all routes.

use std::path::Path;

use import::{Documents, Model};

/// The result of reading a document.
pub(crate) type ReadDocument = Result<OpenApiFile, Vec<String>>;

/// A document that was read without errors.
pub(crate) struct OpenApiFile {
    pub(super) documents: Documents,
    pub(super) model: Model,
    /// A hash of the document and of all files it refers to.
    pub(super) content: u64,
}

impl OpenApiFile {
    /// Reads a document. `looks_for` is called with every file that is needed, even if it cannot be read.
    pub(super) fn read(path: &Path, looks_for: impl FnMut(&Path)) -> ReadDocument {
        let documents = Documents::read(path, looks_for)?;
        let model = Model::read(&documents)?;
        let content = kit::hash::fixed(&documents.document().to_string());
        Ok(OpenApiFile { documents, model, content })
    }
}
