//! Any message as a SOAP envelope: the model of products in which expressions see all messages in one form.
//!
//! Plain XML is placed in the Body, and JSON as the XML that Synapse makes of it. A SOAP message is its own envelope.

use std::sync::Arc;

use expression::{Nodes, Value, detached_markup};
use mediation::soap::{SOAP_11, Version};
use xml::{Document, NodeId};

use crate::json_xml::{Marks, json_as_xml};
use crate::sender::Sender;
use crate::soap::Envelope;
use crate::view::View;

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
    /// Creates the envelope of a message from its parsed form. The error names the part of the message that cannot be written as XML.
    pub(crate) fn of(view: &View, sender: Sender) -> Result<Infoset, Box<str>> {
        let inside = match view {
            View::Xml { document, envelope: Some(envelope) } => {
                let (document, envelope) = (document.clone(), *envelope);
                return Ok(Infoset { document, envelope, is_made: false });
            }
            View::Xml { document, .. } => document
                .root_element()
                .map_or_else(String::new, |root| detached_markup(document, root)),
            View::Json(text) => {
                json_as_xml(text, sender, Marks::All).map_err(|fault| fault.cause)?
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
            self.document
                .children(node)
                .map(|child| detached_markup(&self.document, child))
                .collect()
        };
        let header = self.envelope.header.map_or_else(String::new, inside);
        enveloped(version, &header, &inside(self.envelope.body))
    }
}

/// Returns the markup of the first element in the Body of a SOAP message. It is empty if there is none.
pub(crate) fn unwrapped(document: &Document, envelope: &Envelope) -> String {
    let mut inside = document.children(envelope.body);
    let first = inside.find(|node| document.kind(*node) == xml::Kind::Element);
    first.map_or_else(String::new, |node| detached_markup(document, node))
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

#[cfg(test)]
mod tests {
    use crate::content::Content;

    use super::*;

    /// Returns the markup of the envelope, without the names of the envelope's own elements, and whether it was made.
    fn infoset(text: &[u8], content_type: &str) -> Result<(String, bool), Box<str>> {
        let content =
            Content::new(text.to_vec().into(), Some(content_type.as_bytes()), Sender::Client);
        let infoset = Infoset::of(content.view().unwrap(), Sender::Client)?;
        let inside = infoset.document.children(infoset.envelope.body);
        let inside = inside.map(|child| detached_markup(&infoset.document, child)).collect();
        Ok((inside, infoset.is_made))
    }

    #[test]
    fn every_message_that_xml_can_represent_is_in_a_body() {
        let soap = enveloped(Version::V12, "<h/>", "<a>1</a>");
        for (text, content_type, expected, is_made) in [
            (&b"<a x='1'><b/></a>"[..], "application/xml", "<a x=\"1\"><b/></a>", true),
            (soap.as_bytes(), "application/soap+xml", "<a>1</a>", false),
            (b"{\"a\":1}", "application/json", "<jsonObject><a>1</a></jsonObject>", true),
            (
                b"a<b",
                "text/plain",
                "<text xmlns=\"http://ws.apache.org/commons/ns/payload\">a&lt;b</text>",
                true,
            ),
            (b"", "text/plain", "", true),
        ] {
            let made = infoset(text, content_type).unwrap();
            assert_eq!(made, (expected.to_owned(), is_made), "{content_type}");
        }
        assert!(infoset(b"\xff\xfe\x00", "application/octet-stream").is_err());
        let wrong = infoset(br#"{"a":"\u0000"}"#, "application/json").unwrap_err();
        assert!(wrong.contains("U+0000"), "{wrong}");
    }

    #[test]
    fn an_envelope_changes_its_version_and_keeps_its_parts() {
        let text = enveloped(Version::V11, "<h/>", "<a/>");
        let content = Content::new(text.into(), Some(b"text/xml"), Sender::Client);
        let infoset = Infoset::of(content.view().unwrap(), Sender::Client).unwrap();
        let other = enveloped(Version::V12, "<h/>", "<a/>");
        assert_eq!(infoset.in_version(Version::V12), other);
        let document = Document::parse(other.as_bytes(), &xml::Options::default()).unwrap();
        assert_eq!(unwrapped(&document, &Envelope::of(&document).unwrap()), "<a/>");
    }

    #[test]
    fn what_moves_declares_the_prefixes_of_its_names_and_values() {
        let text = "<s:Envelope xmlns:s='http://schemas.xmlsoap.org/soap/envelope/' xmlns:x='urn:x' xmlns:i='urn:i'>\
            <s:Body xmlns:y='urn:y'><a xmlns:b='urn:b' i:type='x:t'><c>y:z</c><b:d/><b:e/></a></s:Body></s:Envelope>";
        let moved = "<a xmlns:b=\"urn:b\" xmlns:y=\"urn:y\" xmlns:x=\"urn:x\" xmlns:i=\"urn:i\" i:type=\"x:t\">\
            <c>y:z</c><b:d/><b:e/></a>";
        let content = Content::new(text.into(), Some(b"text/xml"), Sender::Client);
        let infoset = Infoset::of(content.view().unwrap(), Sender::Client).unwrap();
        assert_eq!(unwrapped(&infoset.document, &infoset.envelope), moved);
        assert_eq!(infoset.in_version(Version::V12), enveloped(Version::V12, "", moved));
    }
}
