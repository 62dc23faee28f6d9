//! Validation of SOAP messages against the schema of the envelope, the schema of the API, and the actions of the description.
//!
//! Owns the order of the checks. Schemas arrive compiled. A message enters with its header lines, whole or in pieces, and is accepted or
//! refused. As in WSDL, a request is called an input and a reply an output.

mod action;
mod check;
mod code;
mod definitions;
mod label;
pub mod nodes;
mod schemas;

use std::borrow::Cow;
use std::sync::Arc;

use message::Headers;
use telemetry::SoapFault;
use xml::Transcript;

use crate::{Rejection, charset};

pub use action::{ActionRules, Actions, IN_OPT_OUT, IN_OUT, OperationAction, Strictness};
pub use code::Code;
pub use definitions::{Api, CompiledDefinition, Definitions, Envelope};
pub use schemas::{SchemaResult, Schemas};
pub use wsdl::{SOAP_11, SOAP_12, SoapVersion as Version};

/// The built-in schema of SOAP 1.1 envelopes.
pub const ENVELOPE_11: &str = include_str!("soap/envelope11.xsd");

/// Returns the built-in schema of SOAP 1.1 envelopes, extended by `xml:lang` and other `xml:` attributes on `faultstring`. Services use
/// `xml:lang` and WS-I Basic Profile 1.1 (R1016) allows it, but the original schema does not.
pub fn envelope_11_lenient() -> Cow<'static, str> {
    const PLAIN: &str = r#"<xs:element name="faultstring" type="xs:string"/>"#;
    const LENIENT: &str = r#"<xs:element name="faultstring"><xs:complexType><xs:simpleContent><xs:extension base="xs:string"><xs:anyAttribute namespace="http://www.w3.org/XML/1998/namespace" processContents="lax"/></xs:extension></xs:simpleContent></xs:complexType></xs:element>"#;
    Cow::Owned(ENVELOPE_11.replace(PLAIN, LENIENT))
}

/// The built-in schema of SOAP 1.2 envelopes.
pub const ENVELOPE_12: &str = include_str!("soap/envelope12.xsd");

/// The error text for a definition without any schema.
pub const NO_SCHEMA: &str = "Unable to find a suitable Schema to validate the SOAP/XML";

/// Facts about a message that the check determined, even if it refused the message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageFacts {
    /// The SOAP version by the namespace of the root element, or `None` if the message is not an envelope.
    pub version: Option<Version>,
    /// The index of the operation that the first element of the Body calls, or `None` if unknown.
    pub operation: Option<u32>,
    /// The fault code, if the message is a fault and therefore an output.
    pub fault: Option<SoapFault>,
}

impl Definitions {
    /// Checks an input with its header lines. `translated`: a policy wrote the envelope, so the client's header lines say nothing about its
    /// version. `transcript` is the transcript of the message, if there is one.
    pub fn check_input(
        self: &Arc<Self>,
        headers: &Headers,
        message: &[u8],
        transcript: Option<&mut Transcript>,
        translated: bool,
        found: &mut MessageFacts,
    ) -> Result<(), Rejection> {
        self.check_coding(headers)?;
        let settled = self.settled(headers.get("content-type"), message)?;
        let text = settled.as_deref().unwrap_or(message);
        let transcript = transcript.filter(|_| settled.is_none());
        check::check(self, text, transcript, Some(headers), found)?;
        self.check_content_type(headers, message, found.version.filter(|_| !translated))
    }

    /// Checks an output, which may be a SOAP fault.
    pub fn check_output(
        self: &Arc<Self>,
        content_type: Option<&[u8]>,
        message: &[u8],
        transcript: Option<&mut Transcript>,
        found: &mut MessageFacts,
    ) -> Result<(), Rejection> {
        let settled = self.settled(content_type, message)?;
        let transcript = transcript.filter(|_| settled.is_none());
        check::check(self, settled.as_deref().unwrap_or(message), transcript, None, found)
    }

    /// Returns the message in UTF-8 if it cannot be parsed unchanged. Kong's SOAP/XML plugin ignores the content type, so a lenient check
    /// parses a mislabelled message unchanged.
    fn settled(
        &self,
        content_type: Option<&[u8]>,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, Rejection> {
        match charset::to_utf8_or_refuse(content_type, message) {
            Err(_) if self.lenient => Ok(None),
            settled => settled,
        }
    }

    /// Checks that the header lines of an input name no content coding. Nothing is decoded here.
    fn check_coding(&self, headers: &Headers) -> Result<(), Rejection> {
        if self.lenient { Ok(()) } else { label::coding(headers) }
    }

    /// Checks the content type of an input that is otherwise valid.
    fn check_content_type(
        &self,
        headers: &Headers,
        message: &[u8],
        version: Option<Version>,
    ) -> Result<(), Rejection> {
        if self.lenient { Ok(()) } else { label::content_type(headers, message, version) }
    }
}

/// Checks an input while it arrives.
pub struct ArrivingInput {
    definitions: Arc<Definitions>,
    feed: check::ArrivingMessage,
}

impl ArrivingInput {
    /// Fails if there is no definition yet. The message then has to be buffered until there is one.
    pub fn new(definitions: Arc<Definitions>) -> Result<ArrivingInput, Rejection> {
        Ok(ArrivingInput { feed: check::ArrivingMessage::new(definitions.clone())?, definitions })
    }

    /// Checks the bytes of `so_far` after the offset `from`. The error is the first fault.
    pub fn feed(
        &mut self,
        headers: &Headers,
        so_far: &[u8],
        from: usize,
        found: &mut MessageFacts,
    ) -> Result<(), Rejection> {
        if from == 0 {
            self.definitions.check_coding(headers)?;
        }
        match self.feed.feed(so_far.get(from..).unwrap_or_default(), so_far, found) {
            // The bytes may be in another encoding. The message is checked again once it is complete.
            Err(_) if charset::may_differ(headers.get("content-type"), so_far) => Ok(()),
            fed => fed,
        }
    }

    /// Ends the message; see [`Definitions::check_input`].
    pub fn finish(
        self,
        headers: &Headers,
        message: &[u8],
        translated: bool,
        found: &mut MessageFacts,
    ) -> Result<(), Rejection> {
        let ArrivingInput { definitions, feed } = self;
        if charset::may_differ(headers.get("content-type"), message) {
            return definitions.check_input(headers, message, None, translated, found);
        }
        feed.finish(message, headers, found)?;
        definitions.check_coding(headers)?;
        definitions.check_content_type(headers, message, found.version.filter(|_| !translated))
    }
}

/// Returns true for the namespaces of both versions' envelopes.
fn is_soap(uri: &str) -> bool {
    matches!(uri, SOAP_11 | SOAP_12)
}
