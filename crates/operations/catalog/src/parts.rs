//! Multipart forms, which contain documents and their properties.

use std::path::Path;

use mediation::multipart::{Multipart, single_parameter};
use serde_json::Value;

use crate::http::{CatalogRequest, Refusal};

/// The parts of a form, by name.
pub(crate) fn read(asked: &CatalogRequest) -> Result<Vec<(String, Vec<u8>)>, Refusal> {
    // Harmless: an absent type is refused.
    let kind = asked.header("content-type").unwrap_or_default().as_bytes();
    let wrong = |why: &str| Refusal::bad(format!("The form cannot be read: {why}"));
    let form = Multipart::read(kind, &asked.body).map_err(wrong)?;
    let mut parts = Vec::new();
    for part in form.parts() {
        // Harmless: a part without this header is refused.
        let line = part.line(&asked.body, "content-disposition").unwrap_or_default();
        let name = single_parameter(&line, "name")
            .map_err(wrong)?
            .ok_or_else(|| wrong("a part has no name"))?;
        let content = part.content(&asked.body).map_err(wrong)?;
        // Harmless: a name that is not text is never looked up.
        parts.push((String::from_utf8_lossy(&name).into_owned(), content.into_owned()));
    }
    Ok(parts)
}

/// Parses a document in YAML or JSON. Large ones take a while, so it is parsed on another thread.
pub(crate) async fn document(text: String) -> Result<Value, Refusal> {
    let read = kit::task::run_blocking(move || config::document(&text, Path::new("document")));
    let read = read.await.ok_or_else(|| Refusal::internal("reading a document has failed"))?;
    read.map_err(|why| Refusal::bad(format!("The document cannot be read: {why}")))
}
