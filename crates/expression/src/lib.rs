//! The expression language of message flows, as far as it is here: values with their conversions ([`Value`]), what names
//! mean at compile and hold when something runs ([`Names`], [`Scope`]), and JSONPath ([`Query`]).
//!
//! It knows no message. Whatever runs takes from a [`Budget`].
#![forbid(unsafe_code)]

mod budget;
mod error;
mod jsonpath;
mod markup;
mod names;
mod number;
mod tape;
mod value;

pub use budget::{Budget, Limits};
pub use error::{Error, ErrorKind, Failure, FailureKind, Place};
pub use jsonpath::Query;
pub use names::{Known, Member, Names, Scope, Slot};
pub use tape::{JsonNode, JsonText};
pub use value::{JsonNodes, NodeGroup, Nodes, Number, Value};
