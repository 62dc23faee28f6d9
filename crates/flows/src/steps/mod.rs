//! The actions of the steps, one file each.

pub(crate) mod cache;
pub(crate) mod call;
pub(crate) mod convert;
mod element_names;
pub(crate) mod enrich;
pub(crate) mod fault;
pub(crate) mod gather;
pub(crate) mod header;
pub(crate) mod payload;
pub(crate) mod script;
pub(crate) mod soap_header;
pub(crate) mod sql;
pub(crate) mod store;
pub(crate) mod validate;
pub(crate) mod variable;
pub(crate) mod wire_tap;
pub(crate) mod xslt;
