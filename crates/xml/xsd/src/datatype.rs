//! Simple types of XML Schema 1.0 Part 2: the built-in types, derived types, and their values.
//!
//! Owns the lexical mapping, white space, value spaces with their equality and order, facets, and the rules of derivation. It does not read
//! schema documents, does not determine the type of a node, and knows no positions: callers add those to a [`FacetError`] or a
//! [`Violation`].
//!
//! A [`SimpleType`] is immutable and shared by `Arc`. [`SimpleType::check`] decides whether a text is valid, usually without allocating.
//! [`SimpleType::validate`] also returns the [`Value`].

mod atom;
mod builtin;
mod date_time;
mod decimal;
mod diagnose;
mod duration;
mod error;
mod facets;
mod fail;
mod kind;
mod messages;
mod names;
mod quick;
mod restrict;
mod scan;
mod simple;
#[cfg(test)]
mod tests;
mod text;
mod value;
mod white;

pub use builtin::Builtin;
pub use date_time::{DateTime, DateTimeKind};
pub use decimal::Decimal;
pub use diagnose::Breach;
pub use duration::Duration;
pub use error::{FacetError, Violation};
pub(crate) use facets::Bound;
pub use kind::FacetKind;
pub use names::{EmptyScope, NameScope, SharedBudget};
pub use restrict::RawFacet;
pub use simple::{Identifier, SimpleType, Variety};
pub(crate) use text::{NAME_REST, NAME_START, is_name_char, is_ncname};
pub use value::Value;
pub use white::WhiteSpace;

pub use crate::regex::{Steps, StepsLeft};
