//! Translation of JSON to SOAP and back, by the types in the description of a service.
//!
//! Owns the content type of envelopes, the status of faults, and the error texts. `wsdl::typed` translates the values, with tables
//! compiled beforehand.

use std::sync::Arc;

use bytes::Bytes;
use message::{GatheredBody, Headers};
use serde_json::{Map, Value as Json, json};
use telemetry::SoapFault;
use wsdl::SoapVersion;
use wsdl::typed::{self, Api, Operation, ReadMessage};

use crate::{charset, parsed};

/// Maximum output size, as a multiple of `bytes_max`. Tags repeat names that JSON has once, and escapes and keys are longer than the text
/// they stand for.
const GROWTH_MAX: usize = 8;

const JSON: &str = "application/json";

const PROBLEM: &str = "application/problem+json";

/// The translation of a service's messages.
pub struct Translation {
    pub api: Arc<Api>,
    pub faults: Faults,
    /// Maximum size of a message before translation.
    pub bytes_max: usize,
}

/// The HTTP status of faults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Faults {
    /// Whether the fault code decides the status. Otherwise the status of the service's reply is kept.
    pub by_code: bool,
    /// Status by the name of a detail element or of a fault code.
    pub statuses: Vec<(Box<str>, u16)>,
}

/// The reason why JSON could not be translated, in words for its sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TranslationError {
    /// All faults of the input.
    Wrong(Vec<String>),
    TooLarge(String),
}

/// A service's message as JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TranslatedMessage {
    pub bytes: Bytes,
    /// The content type, or `None` if there are no bytes.
    pub content_type: Option<&'static str>,
    /// If the message is a fault: its code and the HTTP status to use.
    pub fault: Option<(SoapFault, u16)>,
}

impl Translation {
    /// Translates JSON to the envelope that calls an operation.
    pub fn to_soap(
        &self,
        operation: &Operation,
        body: &mut GatheredBody,
    ) -> Result<Bytes, TranslationError> {
        let bytes = body.bytes.clone();
        let envelope = self.envelope(operation, body, &bytes);
        envelope.map(|made| made.into_bytes().into()).map_err(|why| refused(&why, &bytes))
    }

    fn envelope(
        &self,
        operation: &Operation,
        body: &mut GatheredBody,
        bytes: &[u8],
    ) -> Result<String, typed::RequestRefusal> {
        let bytes_max = self.made_bytes_max();
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.trim_ascii().is_empty() => {
                let tape = parsed::tape(body, text, &typed::LIMITS).map_err(|why| {
                    typed::RequestRefusal::Malformed { at: why.at, expected: why.what }
                })?;
                self.api.request_on(operation, text, &tape, bytes_max)
            }
            // `Api::request` reports bytes that are not UTF-8, and reads an empty body as an empty object.
            Ok(_) | Err(_) => self.api.request(operation, bytes, bytes_max),
        }
    }

    /// Replaces the header lines that describe JSON by those of an envelope. `action` is the value of `SOAPAction` for SOAP 1.1, and the
    /// whole content type for SOAP 1.2.
    pub fn label(&self, headers: &mut Headers, action: &str) {
        headers.retain(|name, _| {
            ![&b"content-type"[..], b"accept", b"soapaction"]
                .iter()
                .any(|own| http1::is_alias(name, own))
        });
        match self.api.version() {
            SoapVersion::V11 => {
                headers.add_known("Content-Type", b"text/xml; charset=utf-8");
                headers.add_known("Accept", b"text/xml");
                headers.add_known("SOAPAction", action.as_bytes());
            }
            SoapVersion::V12 => {
                headers.add_known("Content-Type", action.as_bytes());
                headers.add_known("Accept", b"application/soap+xml");
            }
        }
    }

    /// Translates a service's reply, which came with this status. `id` is the exchange's id in problem details. The error says why a reply
    /// that should be a SOAP message is not one.
    pub fn to_json(
        &self,
        operation: &Operation,
        content_type: Option<&[u8]>,
        message: &[u8],
        status: u16,
        id: &str,
    ) -> Result<TranslatedMessage, String> {
        let settled = charset::to_utf8(content_type, message)?;
        let message = settled.as_deref().unwrap_or(message);
        let made = |text: String, content_type| TranslatedMessage {
            bytes: text.into_bytes().into(),
            content_type: Some(content_type),
            fault: None,
        };
        match self.api.reply(operation, message, self.made_bytes_max()) {
            Ok(ReadMessage::Value(json)) => Ok(made(json, JSON)),
            Ok(ReadMessage::Nothing) if operation.is_one_way() => {
                Ok(TranslatedMessage { bytes: Bytes::new(), content_type: None, fault: None })
            }
            Ok(ReadMessage::Nothing) => Ok(made("{}".to_owned(), JSON)),
            Ok(ReadMessage::Fault(fault)) => {
                let status = self.faults.status(&fault, status);
                let code = SoapFault::of_code(&fault.code);
                let problem = made(problem(id, status, &fault), PROBLEM);
                Ok(TranslatedMessage { fault: Some((code, status)), ..problem })
            }
            Err(why) if status < 400 => Err(why.to_string()),
            Err(_) => Ok(made(no_message(id, status), PROBLEM)),
        }
    }

    fn made_bytes_max(&self) -> usize {
        self.bytes_max.saturating_mul(GROWTH_MAX)
    }
}

#[cold]
fn refused(why: &typed::RequestRefusal, json: &[u8]) -> TranslationError {
    match why {
        typed::RequestRefusal::Malformed { at, expected } => {
            let before = json.get(..*at).unwrap_or(json);
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            let start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            let column = before.len().saturating_sub(start) + 1;
            let text = format!("/: no JSON at line {line}, column {column}: expected {expected}");
            TranslationError::Wrong(vec![text])
        }
        typed::RequestRefusal::Mismatch(mismatch) if mismatch.is_too_large() => {
            TranslationError::TooLarge(mismatch.to_string())
        }
        typed::RequestRefusal::Mismatch(mismatch) => {
            TranslationError::Wrong(mismatch.all().map(ToString::to_string).collect())
        }
    }
}

impl Faults {
    /// Returns the status of a fault whose reply had `status`.
    fn status(&self, fault: &typed::Fault, status: u16) -> u16 {
        let names = fault.names.iter().chain(fault.subcodes.iter().rev()).chain([&fault.code]);
        // Harmless: the other names have no configured status.
        let mut named = names
            .filter_map(|name| self.statuses.iter().find(|(known, _)| **known == *name.as_str()));
        if let Some((_, status)) = named.next() {
            return *status;
        }
        match fault.code.as_str() {
            "Client" | "Sender" if self.by_code => 400,
            _ if self.by_code => 502,
            // A fault must not have a success status.
            _ if status < 400 => 500,
            _ => status,
        }
    }
}

/// Writes the problem details (RFC 9457) of a SOAP fault.
fn problem(id: &str, status: u16, fault: &typed::Fault) -> String {
    let mut keys: Map<String, Json> = Map::new();
    let mut add = |key: &str, value: Json| keys.insert(key.to_owned(), value);
    add("type", "about:blank".into());
    add("title", "The service answered with a fault.".into());
    add("status", status.into());
    add("fault", "soap_fault".into());
    if !fault.reason.is_empty() {
        add("detail", fault.reason.as_str().into());
    }
    add("code", fault.code.as_str().into());
    if !fault.subcodes.is_empty() {
        add("subcodes", fault.subcodes.clone().into());
    }
    if !fault.actor.is_empty() {
        add("actor", fault.actor.as_str().into());
    }
    add("request_id", id.into());
    let mut text = Json::Object(keys).to_string();
    if !fault.details.is_empty() || !fault.detail_text.is_empty() {
        text.pop();
        text.push_str(",\"details\":");
        push_details(fault, &mut text);
        text.push('}');
    }
    text.push('\n');
    text
}

/// Writes the detail of a fault: an object of its elements, with text between them as the member `#text`; or a string if there is only
/// text.
fn push_details(fault: &typed::Fault, out: &mut String) {
    if fault.details.is_empty() {
        return ::json::push_string(out, &fault.detail_text);
    }
    out.push('{');
    // The details are JSON already, with every digit preserved.
    out.push_str(&fault.details);
    if !fault.detail_text.is_empty() {
        out.push_str(",\"#text\":");
        ::json::push_string(out, &fault.detail_text);
    }
    out.push('}');
}

/// Writes the problem details for a reply that is not a SOAP message.
fn no_message(id: &str, status: u16) -> String {
    let what = format!("The service answered with the status {status} and no SOAP message.");
    let text = json!({
        "type": "about:blank",
        "title": "The service failed.",
        "status": status,
        "fault": "upstream_error",
        "detail": what,
        "request_id": id,
    });
    format!("{text}\n")
}
