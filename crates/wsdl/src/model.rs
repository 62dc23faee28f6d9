//! What a description says, read and resolved.
//!
//! Owns the shapes and the questions they answer alone. Indexes lead into the lists of one [`Description`].

use std::fmt;
use std::sync::Arc;

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
    /// Locations of all documents that were read as WSDL, the first one first.
    pub documents: Vec<Box<str>>,
    pub services: Vec<Service>,
    pub bindings: Vec<Binding>,
    /// Port types, as WSDL 1.1 calls them.
    pub interfaces: Vec<Interface>,
    /// Of WSDL 1.1; 2.0 has none beside the schema's elements.
    pub messages: Vec<Message>,
    /// Some document has types, though they may declare no element.
    pub has_types: bool,
    /// All schemas, inline and imported, as one.
    pub schema: Arc<xsd::Schema>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    pub name: Name,
    pub ports: Vec<Port>,
}

/// An endpoint, as WSDL 2.0 calls it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    pub name: Box<str>,
    /// Index of the binding.
    pub binding: usize,
    /// Where it runs, as it was written.
    pub address: Option<Box<str>>,
}

/// How the operations of an interface are spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub name: Name,
    pub protocol: Protocol,
    /// The URI of what carries it, where one is named (`http://schemas.xmlsoap.org/soap/http`).
    pub transport: Option<Box<str>>,
    /// Index of the interface; WSDL 2.0 has bindings without one.
    pub interface: Option<usize>,
    /// What operations are that say nothing else.
    pub style: Style,
    pub operations: Vec<BindingOperation>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Protocol {
    Soap11,
    Soap12,
    /// HTTP without SOAP: the method, where the whole binding has one.
    Http(Option<Box<str>>),
    /// The namespace of an extension that is not known here, or nothing.
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
    /// The name, the same as the operation's.
    pub name: Box<str>,
    /// Index of the interface and of the operation in it. Every operation of a [`Description`] has them.
    pub operation: Option<(usize, usize)>,
    /// `soapAction` or `wsoap:action`, where one is written; it may be empty.
    pub action: Option<Box<str>>,
    /// `soapActionRequired`, where it is written.
    pub action_required: Option<bool>,
    pub style: Style,
    pub input: Option<Content>,
    pub output: Option<Content>,
    pub faults: Vec<Fault>,
    /// Of an HTTP binding.
    pub location: Option<Box<str>>,
}

/// What one direction carries.
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
    /// Of the wrapper of an rpc message.
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

/// An interface: operations without a word about how they are spoken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    pub name: Name,
    pub operations: Vec<Operation>,
    /// Faults by name, of WSDL 2.0.
    pub faults: Vec<(Box<str>, Payload)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Operation {
    pub name: Box<str>,
    pub input: Option<Message>,
    pub output: Option<Message>,
    /// By name.
    pub faults: Vec<(Box<str>, Message)>,
    /// The output is written first: the service asks.
    pub solicits: bool,
    /// `parameterOrder`, or none.
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

/// What stands in a message at some place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Payload {
    /// This global element.
    Element(Name),
    /// Content of this type, in an element that the style names.
    Type(Name),
    /// Any one element (`#any`).
    Any,
    /// Nothing (`#none`).
    None,
    /// Not XML (`#other`).
    Other,
}

/// What an operation's messages look like in a SOAP body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Any number of elements of the schema, usually one.
    DocumentLiteral,
    /// One element, named as the operation, whose children are the parameters.
    Wrapped,
    /// An element named as the operation in the body's namespace, with a child for each part.
    RpcLiteral,
    /// The same, by the SOAP encoding rules.
    RpcEncoded,
    /// Elements by the SOAP encoding rules; nobody should.
    DocumentEncoded,
}

impl Name {
    pub fn new(namespace: &str, local: &str) -> Name {
        Name { namespace: namespace.into(), local: local.into() }
    }
}

/// The operation that a binding's operation speaks.
pub(crate) fn meant<'i>(
    interfaces: &'i [Interface],
    bound: &BindingOperation,
) -> Option<&'i Operation> {
    let (interface, operation) = bound.operation?;
    interfaces.get(interface)?.operations.get(operation)
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.namespace.is_empty() {
            true => f.write_str(&self.local),
            false => write!(f, "{{{}}}{}", self.namespace, self.local),
        }
    }
}

impl Description {
    /// The operation that a binding's operation speaks.
    pub fn operation(&self, bound: &BindingOperation) -> Option<&Operation> {
        meant(&self.interfaces, bound)
    }

    /// What the messages of a binding's operation look like.
    pub fn shape(&self, bound: &BindingOperation) -> Shape {
        let usage =
            bound.input.as_ref().or(bound.output.as_ref()).map(|content| content.body.usage);
        match (bound.style, usage.unwrap_or_default()) {
            (Style::Rpc, Use::Literal) => Shape::RpcLiteral,
            (Style::Rpc, Use::Encoded) => Shape::RpcEncoded,
            (Style::Document, Use::Encoded) => Shape::DocumentEncoded,
            (Style::Document, Use::Literal) if self.is_wrapped(bound) => Shape::Wrapped,
            (Style::Document, Use::Literal) => Shape::DocumentLiteral,
        }
    }

    /// The convention of `document/literal wrapped`: one part, an element named as the operation.
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
