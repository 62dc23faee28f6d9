//! Messages of Protocol Buffers by their descriptors: JSON to messages and back, and the HTTP rules of methods.
//!
//! Owns descriptor sets, the JSON mapping, and templates of paths. Nothing is generated from a definition, and no message becomes a tree:
//! the wire format is written from the tape of a JSON text, and JSON from the bytes of a message. The crate knows nothing of connections,
//! header lines and exchanges. A request enters at [`Transcoder::request`], and a reply leaves at [`Transcoder::reply`].
#![forbid(unsafe_code)]
#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "each match concerns a few kinds of fields or values, and all others are the same"
)]

mod bindings;
mod descriptors;
mod error;
mod from_json;
mod output_limit;
mod parameters;
mod rule;
mod scalar;
mod schema;
mod template;
#[cfg(test)]
mod tests;
mod to_json;
mod translate;
mod well_known;
mod wire;

pub use bindings::{Binding, Bindings, Match, NoMatch};
pub use error::TranslationError;
pub use schema::{Method, Schema, Service};
pub use to_json::JsonStyle;
pub use translate::{HttpBody, PREFIX_BYTES, RequestParts, StatusParts, Transcoder};
