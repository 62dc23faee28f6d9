//! Validation, transformation and search of messages, whoever's they are: the engines behind policies and behind flows.
//!
//! Owns the use of stylesheets, SOAP and OpenAPI checks, XPath searches, and the texts with which messages are refused.
//! A message enters as its parts: its bytes, its content type, the lines of its head. It leaves as bytes, or as a [`Rejection`].
//! Nothing here names a type of requests, replies, exchanges or faults: the caller decides what a refusal means for a client.
#![forbid(unsafe_code)]

pub mod attachments;
pub mod charset;
pub mod content_coding;
mod date_time;
pub mod form;
pub mod json_schema;
pub mod libxml_messages;
pub mod multipart;
pub mod openapi;
pub mod parsed;
mod rejection;
pub mod remote_definition;
pub mod soap;
pub mod soap_json;
pub mod ws_addressing;
pub mod ws_security;
pub mod xml_edit;
pub mod xpath_search;
pub mod xslt;

pub use rejection::{DefinitionFailure, Rejection};

use kit::LocalBoxFuture;

/// Work on one message, which may be done already. Done work costs no future and no allocation.
pub enum Work<'a, T> {
    Done(T),
    Waits(LocalBoxFuture<'a, T>),
}
