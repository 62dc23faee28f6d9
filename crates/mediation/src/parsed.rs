//! The parsed form of a message, shared by those who would parse the same bytes again.
//!
//! Owns its limits. A tape or a tree is that of the bytes as they stand; a message that has to be decoded first
//! is parsed by each for itself. Each parse is counted.

use std::sync::Arc;

use json::{JsonError, Limits, Tape};
use message::GatheredBody;
use telemetry::parses::{self, Format};
use xml::Document;

use crate::{Rejection, charset, libxml_messages};

/// As deep as `serde_json` and other readers go. The number of values is bounded by the body's bytes, and by the entries of a
/// tape.
pub const JSON_LIMITS: Limits = Limits { depth_max: 127, entries_max: u32::MAX as usize };

/// Takes the tape of a body, which is this text; it is parsed if nobody has. [`GatheredBody::keep_tape`] gives it to the next one.
pub fn tape(body: &mut GatheredBody, text: &str, limits: &Limits) -> Result<Tape, JsonError> {
    debug_assert!(std::ptr::eq(text.as_bytes(), &*body.bytes), "it is the text of these bytes");
    match body.take_tape().filter(|tape| tape.is_within(limits)) {
        Some(tape) => Ok(tape),
        None => {
            parses::count(Format::Json);
            Tape::read(text, limits)
        }
    }
}

/// The tree of a body, which the next one gets too.
pub fn tree(
    content_type: Option<&[u8]>,
    body: &mut GatheredBody,
) -> Result<Arc<Document>, Rejection> {
    let settled = charset::settled_or_refused(content_type, &body.bytes)?;
    if let (None, Some(tree)) = (&settled, body.tree()) {
        return Ok(tree.clone());
    }
    parses::count(Format::Xml);
    let message = settled.as_deref().unwrap_or(&body.bytes);
    let document = Document::parse(message, &xml::Options::default())
        .map_err(|error| Rejection::client(libxml_messages::malformed(&error, message)))?;
    let tree = Arc::new(document);
    if settled.is_none() {
        body.keep_tree(tree.clone());
    }
    Ok(tree)
}
