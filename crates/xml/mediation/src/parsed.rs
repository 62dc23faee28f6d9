//! The parsed form of a message, shared between steps that would otherwise parse the same bytes again.
//!
//! Owns the limits of parsing. A tape or tree is shared only if it was made from the body's bytes as they are. A body that has to be
//! decoded first is parsed by each step separately. Every parse is counted.

use std::sync::Arc;

use json::{JsonError, Limits, Tape};
use message::GatheredBody;
use telemetry::parses::{self, Format};
use xml::Document;

use crate::{Rejection, charset, libxml_messages};

/// The same depth as in `serde_json` and other parsers. The size of the body already bounds the number of values and tape entries.
pub const JSON_LIMITS: Limits = Limits { depth_max: 127, entries_max: u32::MAX as usize };

/// Takes the tape of a body, or parses `text`, which must be the text of that body. [`GatheredBody::keep_tape`] stores it for the next
/// step.
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

/// Returns the tree of a body and keeps it for the next step.
pub fn tree(
    content_type: Option<&[u8]>,
    body: &mut GatheredBody,
) -> Result<Arc<Document>, Rejection> {
    let settled = charset::to_utf8_or_refuse(content_type, &body.bytes)?;
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
