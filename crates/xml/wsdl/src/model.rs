//! The model of a description, with all references resolved.
//!
//! Owns the types, and queries that need no other input. Indexes refer to the lists of one [`Description`].

use std::fmt;
use std::sync::Arc;

use crate::soap::SoapVersion;

/// A name with its namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name {
    /// Empty for no namespace.
    pub namespace: Box<str>,
    pub local: Box<str>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// W3C note of 2001.
    V11,
    /// W3C recommendation of 2007.
    V20,
}

/// A description with everything it imports.
#[derive(Debug)]
pub struct Description {
    pub version: Version,
    pub target_namespace: Box<str>,
    /// Locations of all documents read as WSDL, the first document first.
    pub documents: Vec<Box<str>>,
    pub services: Vec<Service>,
    pub bindings: Vec<Binding>,
    /// Interfaces, which WSDL 1.1 calls port types.
    pub interfaces: Vec<Interface>,
    /// Messages of WSDL 1.1. In WSDL 2.0, elements of the schema take their place.
    pub messages: Vec<Message>,
    /// Whether some document has a `types` element, which may be empty.
    pub has_types: bool,
    /// All schemas, inline and imported, as one.
    pub schema: Arc<xsd::Schema>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub name: Name,
    pub ports: Vec<Port>,
}

/// A port, which WSDL 2.0 calls an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    pub name: Box<str>,
    /// Index of the binding.
    pub binding: usize,
    /// Address of the service, as written.
    pub address: Option<Box<str>>,
}

/// Binding of an interface to a protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub name: Name,
    pub protocol: Protocol,
    /// URI of the transport, if there is one (`http://schemas.xmlsoap.org/soap/http`).
    pub transport: Option<Box<str>>,
    /// Index of the interface; WSDL 2.0 has bindings without one.
    pub interface: Option<usize>,
    /// Default style of the operations.
    pub style: Style,
    pub operations: Vec<BindingOperation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    Soap(SoapVersion),
    /// HTTP without SOAP: the method, if the whole binding has one.
    Http(Option<Box<str>>),
    /// The namespace of an unknown extension, or empty.
    Other(Box<str>),
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Style {
    #[default]
    Document,
    Rpc,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Use {
    #[default]
    Literal,
    Encoded,
}

/// One operation of a binding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BindingOperation {
    /// The name, which is that of the interface's operation.
    pub name: Box<str>,
    /// Indexes of the interface and of its operation. Always present in a [`Description`].
    pub operation: Option<(usize, usize)>,
    /// `soapAction` or `wsoap:action`, if present; it may be empty.
    pub action: Option<Box<str>>,
    /// `soapActionRequired`, if present.
    pub action_required: Option<bool>,
    pub style: Style,
    pub input: Option<Content>,
    pub output: Option<Content>,
    pub faults: Vec<Fault>,
    /// Location of the operation in an HTTP binding.
    pub location: Option<Box<str>>,
}

/// Content of one direction.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Content {
    pub body: Body,
    pub headers: Vec<Header>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body {
    /// Indexes into the message's parts, in order.
    pub parts: Vec<usize>,
    pub usage: Use,
    /// Namespace of the wrapper of an rpc message.
    pub namespace: Option<Box<str>>,
    pub encoding: Option<Box<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    pub payload: Payload,
    pub usage: Use,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    pub name: Box<str>,
    pub usage: Use,
}

/// An interface: operations, independent of any protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: Name,
    pub operations: Vec<Operation>,
    /// Faults by name, only in WSDL 2.0.
    pub faults: Vec<(Box<str>, Payload)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub name: Box<str>,
    pub input: Option<Message>,
    pub output: Option<Message>,
    /// Faults by name.
    pub faults: Vec<(Box<str>, Message)>,
    /// Whether the output comes first, so that the service calls the client (solicit-response).
    pub solicits: bool,
    /// `parameterOrder`, or empty.
    pub parameter_order: Vec<Box<str>>,
}

/// A message's parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub name: Name,
    pub parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    pub name: Box<str>,
    pub payload: Payload,
}

/// Type of a message part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// A global element.
    Element(Name),
    /// The content of a type, in an element whose name depends on the style.
    Type(Name),
    /// Any one element (`#any`).
    Any,
    /// Nothing (`#none`).
    None,
    /// Not XML (`#other`).
    Other,
}

/// Shape of an operation's messages in a SOAP body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Any number of elements of the schema, usually one.
    DocumentLiteral,
    /// One element with the name of the operation, whose children are the parameters.
    Wrapped,
    /// An element with the name of the operation, in the body's namespace, with a child for each part.
    RpcLiteral,
    /// Like `RpcLiteral`, with the SOAP encoding rules.
    RpcEncoded,
    /// Elements with the SOAP encoding rules; discouraged.
    DocumentEncoded,
}

impl Name {
    pub fn new(namespace: &str, local: &str) -> Name {
        Name { namespace: namespace.into(), local: local.into() }
    }
}

/// Returns the operation that a binding's operation refers to.
pub(crate) fn meant<'i>(
    interfaces: &'i [Interface],
    bound: &BindingOperation,
) -> Option<&'i Operation> {
    let (interface, operation) = bound.operation?;
    interfaces.get(interface)?.operations.get(operation)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.local)
        } else {
            write!(f, "{{{}}}{}", self.namespace, self.local)
        }
    }
}

impl Description {
    /// Returns the operation that a binding's operation refers to.
    pub fn operation(&self, bound: &BindingOperation) -> Option<&Operation> {
        meant(&self.interfaces, bound)
    }

    /// Returns the shape of the messages of a binding's operation.
    pub fn shape(&self, bound: &BindingOperation) -> Shape {
        let usage =
            bound.input.as_ref().or(bound.output.as_ref()).map(|content| content.body.usage);
        // Harmless: without messages the use does not matter.
        match (bound.style, usage.unwrap_or_default()) {
            (Style::Rpc, Use::Literal) => Shape::RpcLiteral,
            (Style::Rpc, Use::Encoded) => Shape::RpcEncoded,
            (Style::Document, Use::Encoded) => Shape::DocumentEncoded,
            (Style::Document, Use::Literal) if self.is_wrapped(bound) => Shape::Wrapped,
            (Style::Document, Use::Literal) => Shape::DocumentLiteral,
        }
    }

    /// Returns whether the operation follows the convention `document/literal wrapped`: one part, an element with the name of the
    /// operation.
    fn is_wrapped(&self, bound: &BindingOperation) -> bool {
        let Some(input) = self.operation(bound).and_then(|operation| operation.input.as_ref())
        else {
            return false;
        };
        match (bound.input.as_ref().map(|content| &content.body.parts[..]), &input.parts[..]) {
            (Some([at]), parts) => parts.get(*at).is_some_and(|part| match &part.payload {
                Payload::Element(name) => name.local == bound.name,
                Payload::Type(_) | Payload::Any | Payload::None | Payload::Other => false,
            }),
            _ => false,
        }
    }
}
