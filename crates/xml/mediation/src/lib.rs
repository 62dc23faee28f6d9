//! Validation, transformation and search of messages: the engines that policies and flows share.
//!
//! Owns the use of stylesheets, SOAP and OpenAPI checks, and XPath searches, and the texts of refusals.
//! A message enters as its parts: its bytes, its content type and its header lines. It leaves as bytes or as a [`Rejection`].
//! This crate does not know requests, replies, exchanges or faults: the caller decides what a refusal means for a client.
#![forbid(unsafe_code)]

pub mod attachments;
pub mod charset;
pub mod content_coding;
pub mod date_time;
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

/// The processing of one message. If it is already done, it costs no future and no allocation.
pub enum Work<'a, T> {
    Done(T),
    Waits(LocalBoxFuture<'a, T>),
}
