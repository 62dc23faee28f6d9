//! Faults of message flows: SOAP faults for SOAP messages.

use std::fmt::Write as _;

use fault::{Fault, Kind, Side};
use message::{Body, RequestHead};
use plan::Errors;
use policy::{Exchange, MessageFormat, WaitTime};
use wsdl::{SOAP_11, SOAP_12};
use xml::Document;

/// The SOAP version of a request according to its headers, or `None` if they do not show one. SOAP 1.2 has its own content type. SOAP 1.1
/// shares the general type of XML, so it also needs a `SOAPAction`. A flow that reads the message corrects the version.
pub(super) fn message_format(head: &RequestHead) -> Option<MessageFormat> {
    let content_type = head.headers.get("content-type")?;
    if message::media_type(content_type).eq_ignore_ascii_case(b"multipart/related") {
        return MessageFormat::of_attachments(content_type);
    }
    match MessageFormat::of(Some(content_type)) {
        MessageFormat::Soap12 => Some(MessageFormat::Soap12),
        MessageFormat::Soap11 if head.headers.contains("soapaction") => Some(MessageFormat::Soap11),
        MessageFormat::Soap11 | MessageFormat::Json => None,
    }
}

/// The maximum size of a body that is kept to find its SOAP version. SOAP messages without attachments are usually smaller, and those with
/// attachments have a distinct content type.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// True if only the body of a request shows whether it is SOAP.
pub(crate) fn keeps_body(errors: Errors, ex: &Exchange, head: &RequestHead) -> bool {
    if errors != Errors::Flow {
        return false;
    }
    let is_known = || ex.notes.as_ref().is_some_and(|notes| notes.message_format.is_some());
    // Harmless: a message may have no type.
    let content_type = head.headers.get("content-type").unwrap_or_default();
    message::media_type(content_type).to_ascii_lowercase().ends_with(b"xml") && !is_known()
}

/// Buffers a small body, and returns a copy of it, which shows the SOAP version if a fault follows. Returns `None` if the body is not
/// small, or if its sender waits for a 100.
pub(crate) async fn keep_body(
    body: &mut Body,
    client_wait: &WaitTime,
) -> Result<Option<Body>, Fault> {
    if body.expects_continue() {
        return Ok(None);
    }
    let waiting = matches!(body, Body::Stream(_)).then(|| client_wait.begin());
    *body = std::mem::take(body).gather_small(KEPT_BYTES_MAX, Kind::BodyTooLarge).await?;
    drop(waiting);
    Ok(body.replay())
}

/// Records the SOAP version of a request's body, unless it is known.
pub(crate) fn note_format_of(ex: &mut Exchange, body: &Body) {
    let notes = ex.notes();
    let (None, Body::Whole(bytes, _)) = (notes.message_format, body) else { return };
    let Ok(document) = Document::parse(bytes, &xml::Options::default()) else { return };
    let Some(root) = document.root_element() else { return };
    let name = document.name(root);
    notes.message_format = match (name.local, name.namespace.uri) {
        ("Envelope", SOAP_11) => Some(MessageFormat::Soap11),
        ("Envelope", SOAP_12) => Some(MessageFormat::Soap12),
        _ => None,
    };
}

/// A SOAP fault, if the message is SOAP. Its status is 500, unless the flow chose another status or the gateway refused the message without
/// reading it.
pub(super) fn reply(ex: &Exchange, own: u16, fault: &Fault) -> Option<(u16, &'static str, String)> {
    let message_format = ex.notes.as_ref().and_then(|notes| notes.message_format)?;
    let chosen = fault.more.as_ref().is_some_and(|more| more.status.is_some());
    let status = if chosen || is_refused_unread(fault.kind) { own } else { 500 };
    let server = fault.side() != Side::Client;
    let reason = escaped(fault.detail.as_deref().unwrap_or(fault.kind.title()));
    let detail = fault.more.as_ref().and_then(|more| more.errors.first()).map(|text| escaped(text));
    match message_format {
        MessageFormat::Soap11 => {
            Some((status, "text/xml; charset=utf-8", fault_11(server, &reason, detail)))
        }
        MessageFormat::Soap12 => {
            Some((status, "application/soap+xml; charset=utf-8", fault_12(server, &reason, detail)))
        }
        MessageFormat::Json => None,
    }
}

/// True for a fault that a step of a flow found in the message. Faults of XML policies do not count.
pub(super) fn is_of_step(fault: &Fault) -> bool {
    let by_policy = fault.more.as_ref().is_some_and(|more| more.processing.is_some());
    let kinds = matches!(
        fault.kind,
        Kind::FlowRefused
            | Kind::FlowFault
            | Kind::FlowFailed
            | Kind::Missing
            | Kind::TooManyParts
            | Kind::RequestInvalid
            | Kind::Template
    );
    kinds && !by_policy
}

/// True if the gateway refused the HTTP request without reading its message.
fn is_refused_unread(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Unauthenticated
            | Kind::CredentialMissing
            | Kind::CredentialExpired
            | Kind::ScopeMissing
            | Kind::SubscriptionMissing
            | Kind::Forbidden
            | Kind::Refused
            | Kind::RateLimited
            | Kind::BodyTooLarge
            | Kind::MediaTypeUnsupported
            | Kind::MethodNotAllowed
            | Kind::RequestTimeout
            | Kind::ClientGone
    )
}

/// Escapes text for an element. Omits characters that XML cannot express.
fn escaped(text: &str) -> String {
    let allowed = |c: &char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..);
    let text: String = text.chars().filter(allowed).collect();
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn fault_11(server: bool, reason: &str, detail: Option<String>) -> String {
    let code = if server { "Server" } else { "Client" };
    let mut text = format!(
        r#"<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="{SOAP_11}"><soap:Body><soap:Fault><faultcode>soap:{code}</faultcode><faultstring>{reason}</faultstring>"#
    );
    if let Some(detail) = detail {
        let _ = write!(text, "<detail>{detail}</detail>");
    }
    text.push_str("</soap:Fault></soap:Body></soap:Envelope>");
    text
}

fn fault_12(server: bool, reason: &str, detail: Option<String>) -> String {
    let code = if server { "Receiver" } else { "Sender" };
    let mut text = format!(
        r#"<?xml version="1.0" encoding="utf-8"?><soap:Envelope xmlns:soap="{SOAP_12}"><soap:Body><soap:Fault><soap:Code><soap:Value>soap:{code}</soap:Value></soap:Code><soap:Reason><soap:Text xml:lang="en">{reason}</soap:Text></soap:Reason>"#
    );
    if let Some(detail) = detail {
        let _ = write!(text, "<soap:Detail>{detail}</soap:Detail>");
    }
    text.push_str("</soap:Fault></soap:Body></soap:Envelope>");
    text
}
