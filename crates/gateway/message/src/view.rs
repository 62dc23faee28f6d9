//! The parsed form of a body (tree, tape or transcript), kept for the next step that reads the same bytes.

use std::sync::Arc;

use bytes::Bytes;
use json::Tape;
use xml::{Document, Transcript};

/// A tape, tree or transcript of a body's bytes. It is valid only for these bytes.
#[derive(Debug)]
pub struct View(Box<ViewOf>);

#[derive(Debug)]
struct ViewOf {
    /// The bytes. Keeping them ensures that their address is not reused, so that the same address means the same bytes.
    of: Bytes,
    parsed: ParsedForm,
}

#[derive(Debug)]
enum ParsedForm {
    Json(Tape),
    Xml(Arc<Document>),
    Transcript(Transcript),
}

impl View {
    pub(crate) fn json(of: &Bytes, tape: Tape) -> View {
        View(Box::new(ViewOf { of: of.clone(), parsed: ParsedForm::Json(tape) }))
    }

    pub(crate) fn xml(of: &Bytes, tree: Arc<Document>) -> View {
        View(Box::new(ViewOf { of: of.clone(), parsed: ParsedForm::Xml(tree) }))
    }

    pub(crate) fn transcript(of: &Bytes, transcript: Transcript) -> View {
        View(Box::new(ViewOf { of: of.clone(), parsed: ParsedForm::Transcript(transcript) }))
    }

    /// Returns true if this is the parsed form of these bytes: the same bytes in memory, not merely equal ones.
    pub(crate) fn is_of(&self, bytes: &Bytes) -> bool {
        let known = &self.0.of;
        known.len() == bytes.len() && std::ptr::eq(known.as_ptr(), bytes.as_ptr())
    }

    pub(crate) fn into_tape(self) -> Option<Tape> {
        match self.0.parsed {
            ParsedForm::Json(tape) => Some(tape),
            ParsedForm::Xml(_) | ParsedForm::Transcript(_) => None,
        }
    }

    pub(crate) fn tree(&self) -> Option<&Arc<Document>> {
        match &self.0.parsed {
            ParsedForm::Xml(tree) => Some(tree),
            ParsedForm::Json(_) | ParsedForm::Transcript(_) => None,
        }
    }

    pub(crate) fn transcript_mut(&mut self) -> Option<&mut Transcript> {
        match &mut self.0.parsed {
            ParsedForm::Transcript(transcript) => Some(transcript),
            ParsedForm::Json(_) | ParsedForm::Xml(_) => None,
        }
    }
}
