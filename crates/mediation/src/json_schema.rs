//! JSON held to schemas, draft 2020-12.
//!
//! Owns how a text becomes a [`Document`], and what is said of one that breaks its schema. Schemas are compiled once, with
//! whatever they refer to; which schema a message has to obey is the caller's business.

#[cfg(test)]
mod agrees;
mod document;
mod node;
mod number;
mod schema;

pub(crate) use document::malformed;
pub use document::{Document, Unreadable};
pub use schema::{Schema, Schemas};
