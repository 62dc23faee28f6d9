//! XML Schema 1.0: schema documents compiled to tables, documents validated against them as they are read.
//!
//! Owns schema components and the rules they must keep, content models as automata, datatypes, identity constraints and
//! the validator. It never reads a file or the network by itself: a [`Resolver`] the caller gives does. A schema enters
//! through [`SchemaSet`] and leaves as an immutable [`Schema`]; a document enters a [`Validator`] as the events of
//! `xml::parse`, and leaves as a list of [`Invalid`].
#![forbid(unsafe_code)]

mod arena;
mod automaton;
mod complaint;
pub mod datatype;
mod derive;
mod documents;
pub mod identity;
mod model;
mod names;
mod read;
pub mod regex;
mod resolve;
mod rules;
mod schema;
mod set;
mod syntax;
mod validator;
pub mod walk;
mod wildcard;

pub use complaint::Complaint;
pub use datatype::Breach;
pub use resolve::{Directory, Map, Nothing, Resolver, Unresolved, join};
pub use schema::Schema;
pub use set::{Limits, SchemaSet};
pub use validator::{
    About, Bounds, Hints, Invalid, Mark, Root, Stop, TextRule, TypeName, Validator,
};
