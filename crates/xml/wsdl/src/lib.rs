//! WSDL 1.1 and 2.0: services with the schemas of their messages as one set.
//!
//! Owns the reading of descriptions with all their imports and includes, and the references between services, ports, bindings, operations
//! and messages. It never reads a file or uses the network: the caller passes an [`xsd::Resolver`]. [`read()`] returns a [`Description`],
//! in which every reference is a valid index, or all complaints about it. [`outline()`] returns as many schemas and actions as it can find.
#![forbid(unsafe_code)]

mod bindings;
mod definitions;
mod documents;
mod element;
mod encoding;
mod limits;
mod model;
mod outline;
mod read;
mod rpc;
mod soap;
pub mod typed;
mod v11;
mod v20;

pub use limits::Limits;
pub use model::{
    Binding, BindingOperation, Body, Content, Description, Fault, Header, Interface, Message, Name,
    Operation, Part, Payload, Port, Protocol, Service, Shape, Style, Use, Version,
};
pub use outline::{Outline, RpcMessages, SchemaResult, is_needed, outline};
pub use read::read;
pub use soap::{BINDING_11, BINDING_12, SOAP_11, SOAP_12, SoapVersion};
pub use xsd::Complaint;

/// The namespace of WSDL 1.1 documents.
pub const WSDL11: &str = "http://schemas.xmlsoap.org/wsdl/";

/// The namespace of WSDL 2.0 documents.
pub const WSDL20: &str = "http://www.w3.org/ns/wsdl";
