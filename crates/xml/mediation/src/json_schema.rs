//! Validates JSON against JSON Schema, draft 2020-12.
//!
//! Parses a text into a [`Document`] and reports how the document violates a schema. Schemas are compiled once, together with the schemas
//! that they reference. The caller decides which schema applies to a message.

#[cfg(test)]
mod agrees;
mod document;
mod node;
mod number;
mod number_keyword;
mod schema;

pub(crate) use document::malformed;
pub use document::{Document, Unreadable};
pub use schema::{Schema, Schemas};
