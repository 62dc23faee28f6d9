//! Simple types of XML Schema 1.0 Part 2: the built-in types, what is derived from them, and the values they stand for.
//!
//! Owns lexical mapping, white space, value spaces with their equality and order, facets, and the rules that a derivation
//! has to keep. It never reads a schema document, never decides which type a node has, and knows no positions: who asks
//! adds them to a [`FacetError`] or a [`Violation`].
//!
//! A [`SimpleType`] is immutable and shared by `Arc`. [`SimpleType::check`] says whether a text is valid and allocates
//! nothing in the usual cases; [`SimpleType::validate`] also gives the [`Value`].

mod atom;
mod blame;
mod builtin;
mod decimal;
mod duration;
mod error;
mod facets;
mod fail;
mod kind;
mod moment;
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

pub use blame::Breach;
pub use builtin::Builtin;
pub use decimal::Decimal;
pub use duration::Duration;
pub use error::{FacetError, Violation};
pub(crate) use facets::Bound;
pub use kind::FacetKind;
pub use moment::{Moment, MomentKind};
pub use names::{Names, NoNames, Sharing};
pub use simple::{Identifier, RawFacet, SimpleType, Variety};
pub(crate) use text::{NAME_REST, NAME_START, is_name_char, is_ncname};
pub use value::Value;
pub use white::White;

pub use crate::regex::{Steps, StepsLeft};
