//! The reply's side: from an envelope to JSON, and from a fault to a problem.

use std::sync::Arc;

use fault::{Fault, Kind};
use mediation::charset;
use message::{Gathered, ReplyHead};
use policy::{Decision, Exchange, OnBuffered, Onward, Slot};
use serde_json::{Map, Value as Json, json};
use telemetry::SoapFault;
use wsdl::typed::{self, Said};

use super::{Faults, Settings};
use crate::body_lines;
use crate::soap::coding::Refused;
use crate::soap::has_no_body;

/// The JSON may be so many times as long as the largest body: escapes and keys are longer than what they stand for.
const GROWTH_MAX: usize = 8;

/// The response step.
pub(super) struct Translate {
    pub(super) settings: Arc<Settings>,
    pub(super) called: Slot<usize>,
}

impl OnBuffered<ReplyHead> for Translate {
    fn bytes_max(&self) -> usize {
        self.settings.codings.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut Gathered,
    ) -> Decision<'a> {
        let flow = self.reply(ex, head, body).map(|()| Onward::Next);
        Decision::Ready(flow)
    }
}

impl Translate {
    fn reply(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut Gathered,
    ) -> Result<(), Fault> {
        let operations = self.settings.api.operations();
        let Some(operation) = self.called.get(ex).and_then(|at| operations.get(*at)) else {
            return Ok(());
        };
        // What the gateway says of its own accord is a problem already, unless a policy below speaks SOAP.
        if ex.fault.is_some() && !is_xml(head) || has_no_body(ex, head, body) {
            return Ok(());
        }
        let codings = self.settings.codings;
        codings.take_off(ex, head, body).map_err(|refused| match refused {
            Refused::Fault(fault) => fault,
            Refused::Failed(failed) => Fault::new(Kind::ReplyInvalid, failed.text),
        })?;
        if body.bytes.trim_ascii().is_empty() && operation.is_one_way() && head.status < 300 {
            return Ok(());
        }
        let settled = charset::settled(head.headers.get("content-type"), &body.bytes);
        let message = settled.as_deref().unwrap_or(&body.bytes);
        body_lines::replaced(&mut head.headers);
        let bytes_max = codings.bytes_max.saturating_mul(GROWTH_MAX);
        let status = head.status;
        match self.settings.api.reply(operation, message, bytes_max) {
            Ok(Said::Value(json)) => {
                body.bytes = json.into_bytes().into();
                label(head, b"application/json");
            }
            Ok(Said::Nothing) if operation.is_one_way() => {
                body.bytes = bytes::Bytes::new();
                head.headers.remove("content-type");
            }
            Ok(Said::Nothing) => {
                body.bytes = bytes::Bytes::from_static(b"{}");
                label(head, b"application/json");
            }
            Ok(Said::Fault(fault)) => {
                ex.notes()
                    .soap_fault
                    .get_or_insert_default()
                    .set(Some(SoapFault::of_code(&fault.code)));
                head.status = self.settings.faults.status(&fault, status);
                let problem = problem(ex, head.status, &fault);
                body.bytes = problem.into_bytes().into();
                label(head, b"application/problem+json");
            }
            Err(why) if status < 400 => {
                return Err(Fault::new(Kind::ReplyInvalid, why.to_string()));
            }
            Err(_) => {
                let what =
                    format!("The service answered with the status {status} and no SOAP message.");
                let text = json!({
                    "type": "about:blank",
                    "title": "The service failed.",
                    "status": status,
                    "fault": "upstream_error",
                    "detail": what,
                    "request_id": ex.id.as_str(),
                });
                body.bytes = format!("{text}\n").into_bytes().into();
                label(head, b"application/problem+json");
            }
        }
        codings.put_on(ex, head, body)
    }
}

fn is_xml(head: &ReplyHead) -> bool {
    let value = head.headers.get("content-type").unwrap_or_default();
    let media = message::media_type(value);
    media.eq_ignore_ascii_case(b"text/xml") || media.eq_ignore_ascii_case(b"application/soap+xml")
}

fn label(head: &mut ReplyHead, content_type: &[u8]) {
    head.headers.remove("content-type");
    head.headers.add_known("Content-Type", content_type);
}

impl Faults {
    /// The status of a fault that came with another one.
    fn status(&self, fault: &typed::Fault, status: u16) -> u16 {
        let names = fault.names.iter().chain(fault.subcodes.iter().rev()).chain([&fault.code]);
        let mut named = names
            .filter_map(|name| self.statuses.iter().find(|(known, _)| **known == *name.as_str()));
        if let Some((_, status)) = named.next() {
            return *status;
        }
        match fault.code.as_str() {
            "Client" | "Sender" if self.by_code => 400,
            _ if self.by_code => 502,
            // A fault is no success, whatever came with it.
            _ if status < 400 => 500,
            _ => status,
        }
    }
}

/// Problem details (RFC 9457) of a fault of the service.
fn problem(ex: &Exchange, status: u16, fault: &typed::Fault) -> String {
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
    add("request_id", ex.id.as_str().into());
    let mut text = Json::Object(keys).to_string();
    if !fault.details.is_empty() {
        // Written already, with every digit.
        text.pop();
        text.push_str(",\"details\":{");
        text.push_str(&fault.details);
        text.push_str("}}");
    }
    text.push('\n');
    text
}
