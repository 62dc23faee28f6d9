//! XML Schema 1.0: compiles schema documents to tables, and validates documents against them while they are parsed.
//!
//! Owns schema components and their rules, content models as automata, datatypes, identity constraints and the validator. It never reads a
//! file or uses the network: the caller passes a [`Resolver`]. A [`SchemaSet`] takes schema documents and returns an immutable [`Schema`].
//! A [`Validator`] receives the events of `xml::parse` and returns a list of [`Invalid`].
#![forbid(unsafe_code)]

mod arena;
mod automaton;
mod complaint;
pub mod datatype;
mod derive;
mod documents;
pub mod identity;
mod limits;
mod location;
mod model;
mod names;
mod read;
pub mod regex;
mod resolve;
mod rules;
mod schema;
mod scope;
mod set;
mod syntax;
mod validator;
pub mod walk;
mod wildcard;

pub use complaint::Complaint;
pub use datatype::Breach;
pub use limits::Limits;
pub use resolve::{Directory, Map, NoDocuments, ResolveError, Resolver, join};
pub use schema::Schema;
pub use set::SchemaSet;
pub use validator::{
    Bounds, ErrorDetails, Hints, Invalid, ParseStop, Root, TextRule, TypeName, Validator,
    ValidatorMark,
};
