//! Any message as a SOAP envelope: the model of products in which expressions see all messages in one form.
//!
//! Plain XML is placed in the Body, and JSON as the XML that Synapse makes of it. A SOAP message is its own envelope.

use std::sync::Arc;

use expression::{FailureKind, NodeGroup, Nodes, Value};
use fault::{Fault, Kind};
use mediation::soap::{SOAP_11, Version};
use xml::{Document, Form, NodeId};

use crate::content::{Content, View};
use crate::soap::Envelope;
use crate::state::{Run, State};
use crate::steps::convert::{self, Marks};

/// The namespace of the element around a text.
const TEXT_NAMESPACE: &str = "http://ws.apache.org/commons/ns/payload";

/// A message as an envelope.
#[derive(Debug)]
pub(crate) struct Infoset {
    pub(crate) document: Arc<Document>,
    pub(crate) envelope: Envelope,
    /// True if the envelope was created around the message. False if the message is itself a SOAP envelope.
    pub(crate) is_made: bool,
}

impl Infoset {
    /// Creates the envelope of a message. The error names the part of the message that cannot be written as XML.
    pub(crate) fn of(content: &Content) -> Result<Infoset, Box<str>> {
        let view = content.view().map_err(|kind| kind.to_string())?;
        let inside = match view {
            View::Xml { document, envelope: Some(envelope) } => {
                let (document, envelope) = (document.clone(), *envelope);
                return Ok(Infoset { document, envelope, is_made: false });
            }
            View::Xml { document, .. } => {
                document.root_element().map_or_else(String::new, |root| markup(document, root))
            }
            View::Json(text) => {
                convert::json_as_xml(text, content, Marks::All).map_err(|fault| fault.cause)?
            }
            View::Text(text) => {
                let mut inside = format!("<text xmlns=\"{TEXT_NAMESPACE}\">");
                xml::escape_text(text, &mut inside);
                inside + "</text>"
            }
            View::Empty => String::new(),
            View::Bytes => return Err("binary data cannot be read as XML".into()),
        };
        let text = enveloped(Version::V11, "", &inside);
        let options = xml::Options::default();
        let document = Document::parse(text.as_bytes(), &options).map_err(|e| e.to_string())?;
        let envelope = Envelope::of(&document).ok_or("an envelope without a Body")?;
        Ok(Infoset { document: document.into(), envelope, is_made: true })
    }

    /// `$infoset`.
    pub(crate) fn root(&self) -> Value {
        Value::Nodes(Nodes::one(self.document.clone(), Document::ROOT))
    }

    /// `$infoset_body`.
    pub(crate) fn body(&self) -> Value {
        Value::Nodes(Nodes::one(self.document.clone(), self.envelope.body))
    }

    /// Returns the message in an envelope of this SOAP version.
    pub(crate) fn in_version(&self, version: Version) -> String {
        let inside = |node: NodeId| -> String {
            self.document.children(node).map(|child| markup(&self.document, child)).collect()
        };
        let header = self.envelope.header.map_or_else(String::new, inside);
        enveloped(version, &header, &inside(self.envelope.body))
    }
}

/// Returns `$infoset_payload`: the content of the Body of a SOAP message, or `$body` of any other message.
pub(crate) fn payload(content: &Content) -> Result<Value, FailureKind> {
    let View::Xml { document, envelope: Some(envelope) } = content.view()? else {
        return content.body();
    };
    let ids: Vec<NodeId> = document.children(envelope.body).collect();
    Ok(Value::Nodes(Nodes::new(vec![NodeGroup { document: document.clone(), ids }])))
}

/// Returns the markup of the first element in the Body of a SOAP message. It is empty if there is none.
pub(crate) fn unwrapped(document: &Document, envelope: &Envelope) -> String {
    let mut inside = document.children(envelope.body);
    let first = inside.find(|node| document.kind(*node) == xml::Kind::Element);
    first.map_or_else(String::new, |node| markup(document, node))
}

/// Replaces the message by the content of an envelope that was made around it and then changed.
pub(crate) fn put_back(
    step: &str,
    text: &str,
    content: &Content,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let failed = |what: String| Fault::new(Kind::FlowFailed, format!("{step}: {what}"));
    let document = Document::parse(text.as_bytes(), &xml::Options::default());
    let document = document.map_err(|error| failed(error.to_string()))?;
    let envelope = Envelope::of(&document);
    let envelope = envelope.ok_or_else(|| failed("the message lost its Body".to_owned()))?;
    let elements = document.children(envelope.body);
    let elements = elements.filter(|node| document.kind(*node) == xml::Kind::Element).count();
    if elements > 1 {
        return Err(failed("a message that is not SOAP must have one root element".to_owned()));
    }
    let text = match content.known()? {
        View::Json(_) => convert::xml_as_json(&document, envelope.body, content)?,
        View::Empty | View::Xml { .. } => unwrapped(&document, &envelope),
        View::Text(_) | View::Bytes => {
            return Err(failed("a text cannot contain elements".to_owned()));
        }
    };
    run.bound(text.len())?;
    state.message.rewrite(text)
}

/// Returns an envelope of this SOAP version with the given content of its Header and its Body. An empty Header is left out.
pub(crate) fn enveloped(version: Version, header: &str, inside: &str) -> String {
    let namespace = match version {
        Version::V11 => SOAP_11,
        Version::V12 => mediation::soap::SOAP_12,
    };
    let header = if header.is_empty() {
        String::new()
    } else {
        format!("<soapenv:Header>{header}</soapenv:Header>")
    };
    format!(
        "<soapenv:Envelope xmlns:soapenv=\"{namespace}\">{header}<soapenv:Body>{inside}</soapenv:Body></soapenv:Envelope>"
    )
}

fn markup(document: &Document, node: NodeId) -> String {
    document.to_text(node, &Form::Moved { kept: &[] })
}
