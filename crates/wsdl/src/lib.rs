//! WSDL 1.1 and 2.0: what a service offers, with the schemas of its messages as one set.
//!
//! Owns the reading of descriptions, of everything they import or include, and the references between services, ports,
//! bindings, operations and messages. It never reads a file or the network by itself: an [`xsd::Resolver`] the caller gives
//! does. A description enters by [`read`] and leaves as a [`Description`], in which every reference is an index that leads
//! somewhere, or as all complaints about it; by [`outline`] it leaves as what there is of its schemas and actions.
#![forbid(unsafe_code)]

mod bindings;
mod documents;
mod element;
mod encoding;
mod model;
mod outline;
mod read;
mod soap;
pub mod typed;
mod v11;
mod v20;

pub use model::{
    Binding, BindingOperation, Body, Content, Description, Fault, Header, Interface, Message, Name,
    Operation, Part, Payload, Port, Protocol, Service, Shape, Style, Use, Version,
};
pub use outline::{Made, Outline, is_needed, outline};
pub use read::{Limits, read};
pub use soap::{BINDING_11, BINDING_12, SOAP_11, SOAP_12, Soap};
pub use xsd::Complaint;

/// The namespace of WSDL 1.1 documents.
pub const WSDL11: &str = "http://schemas.xmlsoap.org/wsdl/";

/// The namespace of WSDL 2.0 documents.
pub const WSDL20: &str = "http://www.w3.org/ns/wsdl";
