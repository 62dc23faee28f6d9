//! The verdicts of our engine.

use std::sync::Arc;

use xml::{Doctype, Document, Form, Options};
use xsd::{Bounds, Limits, NoDocuments, Root, Schema, SchemaSet, Validator};

use super::oracles::Verdict;

/// Allows an internal subset, as the other engines do.
fn options() -> Options {
    Options { doctype: Doctype::Internal, ..Options::default() }
}

/// Judges with the shortcuts of `docs/adr/0025` and without them. Both verdicts must agree. With shortcuts, it judges twice, because the
/// second time they know the document.
pub(crate) fn both_ways(judge: impl Fn() -> Verdict) -> Verdict {
    let [first, second] = [judge(), judge()];
    xml::set_shortcuts(false);
    let plain = judge();
    xml::set_shortcuts(true);
    match [first, second].into_iter().find(|verdict| !verdict.agrees(&plain)) {
        Some(other) => Verdict::Split(format!("with shortcuts {other:?}, without {plain:?}")),
        None => plain,
    }
}

pub(crate) fn well_formed(bytes: &[u8]) -> Verdict {
    match Document::parse(bytes, &options()) {
        Ok(_) => Verdict::Yes(String::new()),
        Err(error) => Verdict::No(error.to_string()),
    }
}

/// A schema, compiled or refused.
pub(crate) struct Validation(Result<Arc<Schema>, String>);

impl Validation {
    pub(crate) fn compile(bytes: &[u8]) -> Validation {
        let mut set = SchemaSet::new(&NoDocuments, Limits::default());
        set.add_bytes(bytes, "s.xsd");
        let first = |complaints: Vec<xsd::Complaint>| {
            complaints.first().map(ToString::to_string).unwrap_or_default()
        };
        Validation(set.compile().map(Arc::new).map_err(first))
    }

    pub(crate) fn judge(&self, instance: &[u8]) -> Verdict {
        let schema = match &self.0 {
            Ok(schema) => schema.clone(),
            Err(why) => return Verdict::Bad(why.clone()),
        };
        let mut validator = Validator::new(schema, Root::Declared, Bounds::default());
        match validator.validate(instance, &options()) {
            Err(error) => Verdict::No(error.to_string()),
            Ok(()) => match validator.invalid().first() {
                Some(invalid) => Verdict::No(invalid.to_string()),
                None => Verdict::Yes(String::new()),
            },
        }
    }
}

pub(crate) fn transformed(stylesheet: &[u8], source: &[u8]) -> Verdict {
    let stylesheet = match xslt::Stylesheet::compile(stylesheet, "", &xslt::NoDocuments) {
        Ok(stylesheet) => stylesheet,
        Err(error) => return Verdict::Bad(error.to_string()),
    };
    match stylesheet.transform_bytes(source, &options(), &xslt::Run::default()) {
        Ok(output) => Verdict::Yes(canonical(&output.bytes)),
        Err(error) => Verdict::No(error.to_string()),
    }
}

/// Returns a result in canonical form, so that only its meaning is compared. A text that is not a document is returned unchanged.
pub(crate) fn canonical(bytes: &[u8]) -> String {
    match Document::parse(bytes, &options()) {
        Ok(document) => document.to_text(Document::ROOT, &Form::Canonical { comments: true }),
        Err(_) => String::from_utf8_lossy(bytes).trim().to_owned(),
    }
}
