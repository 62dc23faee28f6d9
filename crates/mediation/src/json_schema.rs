//! JSON held to schemas, draft 2020-12.
//!
//! Owns the reading of a text as a [`Document`], and the faults of one that breaks its schema. Schemas are compiled once, with
//! their references; the caller decides which schema a message has to obey.

#[cfg(test)]
mod agrees;
mod document;
mod node;
mod number;
mod schema;

pub(crate) use document::malformed;
pub use document::{Document, Unreadable};
pub use schema::{Schema, Schemas};
