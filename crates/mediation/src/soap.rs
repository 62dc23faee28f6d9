//! SOAP messages held to the envelope's schema, the API's, and the actions of its description.
//!
//! Owns the order of the checks. Schemas come compiled; a message enters with the lines of its head, whole or as it arrives, and
//! is found good or is refused. What calls an operation is its input, what the service says to that its output, as WSDL has it.

mod action;
mod check;
mod code;
mod definitions;
mod label;
pub mod nodes;
mod recall;
mod schemas;

use std::borrow::Cow;
use std::sync::Arc;

use message::Headers;
use telemetry::SoapFault;
use xml::Transcript;

use crate::{Rejection, charset};

pub use action::{ActionRules, Actions, IN_OPT_OUT, IN_OUT, OperationAction, Strictness};
pub use check::Envelope;
pub use code::Code;
pub use definitions::{Api, CompiledDefinition, Definitions};
pub use schemas::{SchemaResult, Schemas};
pub use wsdl::{SOAP_11, SOAP_12, SoapVersion as Version};

/// The schema of SOAP 1.1 envelopes that is built in.
pub const ENVELOPE_11: &str = include_str!("soap/envelope11.xsd");

/// The same for those who want no other rule to the letter: services say in which language a fault is, which the schema has
/// no attribute for and WS-I's Basic Profile allows (R1016).
pub fn envelope_11_lenient() -> Cow<'static, str> {
    const PLAIN: &str = r#"<xs:element name="faultstring" type="xs:string"/>"#;
    const LENIENT: &str = r#"<xs:element name="faultstring"><xs:complexType><xs:simpleContent><xs:extension base="xs:string"><xs:anyAttribute namespace="http://www.w3.org/XML/1998/namespace" processContents="lax"/></xs:extension></xs:simpleContent></xs:complexType></xs:element>"#;
    Cow::Owned(ENVELOPE_11.replace(PLAIN, LENIENT))
}

/// The schema of SOAP 1.2 envelopes that is built in.
pub const ENVELOPE_12: &str = include_str!("soap/envelope12.xsd");

/// The text for a definition without any schema.
pub const NO_SCHEMA: &str = "Unable to find a suitable Schema to validate the SOAP/XML";

/// The facts found about a message, so far as they were asked for; also about one that is refused.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct MessageFacts {
    /// By the root's namespace; none for XML that is not an envelope.
    pub version: Option<Version>,
    /// The index of the operation that the first element in the body calls, if it is known.
    pub operation: Option<u32>,
    /// It is a fault, and so an output.
    pub fault: Option<SoapFault>,
}

impl Definitions {
    /// Checks an input, with the lines of its head. `translated`: its version was chosen by whoever made an envelope of it, so
    /// that its lines say nothing of that. `transcript` is the message's, if there is one.
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

    /// Checks an output, which may be a fault.
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

    /// The message in UTF-8, where it cannot be read as it stands. The reference does not look at the content type, so a lenient check
    /// reads a message with a wrong label as it stands.
    fn settled(
        &self,
        content_type: Option<&[u8]>,
        message: &[u8],
    ) -> Result<Option<Vec<u8>>, Rejection> {
        match charset::settled_or_refused(content_type, message) {
            Err(_) if self.lenient => Ok(None),
            settled => settled,
        }
    }

    /// Checks that an input is in the coding that its head names; none is decoded here.
    fn check_coding(&self, headers: &Headers) -> Result<(), Rejection> {
        if self.lenient { Ok(()) } else { label::coding(headers) }
    }

    /// Checks a valid input against its content type.
    fn check_content_type(
        &self,
        headers: &Headers,
        message: &[u8],
        version: Option<Version>,
    ) -> Result<(), Rejection> {
        if self.lenient { Ok(()) } else { label::content_type(headers, message, version) }
    }
}

/// An input that is checked while it arrives.
pub struct ArrivingInput {
    definitions: Arc<Definitions>,
    feed: check::ArrivingMessage,
}

impl ArrivingInput {
    /// Fails where there is no definition yet, so that the message has to wait for one with all its bytes.
    pub fn new(definitions: Arc<Definitions>) -> Result<ArrivingInput, Rejection> {
        Ok(ArrivingInput { feed: check::ArrivingMessage::new(definitions.clone())?, definitions })
    }

    /// Checks the bytes of `so_far` behind `from`. The error is the first fault.
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
            // Read in a wrong encoding; it is read again when it is whole.
            Err(_) if charset::may_differ(headers.get("content-type"), so_far) => Ok(()),
            fed => fed,
        }
    }

    /// The message is over; see [`Definitions::check_input`].
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
