//! `xslt`: a message transformed by a stylesheet, on its way to the upstream or back.
//!
//! Owns the run's budgets, the clean-up of empty namespaces, and the content type of what came out. Stylesheets come
//! compiled.

use std::sync::Arc;

use bytes::Bytes;
use fault::Fault;
use kit::LocalBoxFuture;
use message::{Gathered, Headers, ReplyHead, RequestHead};
use policy::{Exchange, Flow, OnWhole, Onward, Policy, Step};
use xslt::{Budgets, Parameter, Run, Stylesheet};

use crate::soap::coding::Refused;
use crate::soap::{self, Codings, Failed};

/// What a transformation may cost: it runs on a worker that others wait for.
// A tenth of a second at worst; messages of services take thousands.
const STEPS_MAX: u64 = 5_000_000;

/// Text in result trees and in the result together, for each byte of the largest body.
const GROWTH_MAX: u64 = 4;

/// Which side it is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum On {
    Request,
    Response,
}

/// A transformation.
pub struct Settings {
    /// Or why there is none: then each message is refused with it.
    pub stylesheet: Arc<Result<Stylesheet, String>>,
    pub parameters: Vec<Parameter>,
    /// Takes every ` xmlns=""` out of the result.
    pub strip_empty_namespaces: bool,
    /// It stands before the validation of its side, or where there is none behind it.
    pub before: bool,
    pub verbose: bool,
    pub codings: Codings,
}

/// The policy.
pub fn policy(on: On, settings: Settings) -> Policy {
    let (request, response): (Option<Step<_>>, Option<Step<_>>) = match on {
        On::Request => (Some(Step::Whole(Box::new(settings))), None),
        On::Response => (None, Some(Step::Whole(Box::new(settings)))),
    };
    Policy { name: "xslt", request, response }
}

impl Settings {
    fn step(&self, on: On) -> &'static str {
        match (on, self.before) {
            (On::Request, true) => "Request - XSLT transformation failed (before XSD validation)",
            (On::Request, false) => "Request - XSLT transformation failed (after XSD validation)",
            (On::Response, true) => "Response - XSLT transformation failed (before XSD validation)",
            (On::Response, false) => "Response - XSLT transformation failed (after XSD validation)",
        }
    }

    fn transformed(&self, message: &[u8]) -> Result<Bytes, Failed> {
        let stylesheet = match &*self.stylesheet {
            Ok(stylesheet) => stylesheet,
            Err(why) => return Err(Failed::server(why.as_str())),
        };
        let options = xml::Options::default();
        let document = xml::Document::parse(message, &options)
            .map_err(|error| Failed::client(soap::malformed(&error, message)))?;
        let bytes_max = u64::try_from(self.codings.bytes_max).unwrap_or(u64::MAX);
        let run = Run {
            parameters: &self.parameters,
            budgets: Budgets {
                steps_max: STEPS_MAX,
                output_bytes_max: bytes_max.saturating_mul(GROWTH_MAX),
                ..Budgets::default()
            },
            seed: fastrand::u64(..),
            ..Run::default()
        };
        let output = stylesheet
            .transform(&Arc::new(document), &run)
            .map_err(|error| Failed::server(error.kind.to_string()))?;
        Ok(match self.strip_empty_namespaces {
            true => without_empty_namespaces(output.bytes).into(),
            false => output.bytes.into(),
        })
    }
}

/// The text without any ` xmlns=""`, so that what a stylesheet wrote without a namespace takes its parent's.
fn without_empty_namespaces(bytes: Vec<u8>) -> Vec<u8> {
    const EMPTY: &str = " xmlns=\"\"";
    match std::str::from_utf8(&bytes) {
        Ok(text) if text.contains(EMPTY) => text.replace(EMPTY, "").into_bytes(),
        Ok(_) | Err(_) => bytes,
    }
}

/// A result of another kind than the message was has another content type.
fn label(headers: &mut Headers, result: &[u8]) -> Result<(), Fault> {
    let first = result.trim_ascii_start().first().copied();
    let was_json = matches!(policy::Speech::of(headers.get("content-type")), policy::Speech::Json);
    let label: &[u8] = match (first, was_json) {
        (Some(b'<'), true) => b"text/xml; charset=utf-8",
        (Some(b'{' | b'['), false) => b"application/json",
        _ => return Ok(()),
    };
    headers.remove("content-type");
    headers.add_known("Content-Type", label);
    Ok(())
}

impl OnWhole<RequestHead> for Settings {
    fn bytes_max(&self) -> usize {
        self.codings.bytes_max
    }

    fn on_whole<'a>(
        &'a self,
        _ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut Gathered,
    ) -> LocalBoxFuture<'a, Flow> {
        let flow = match self.transformed(&body.bytes) {
            Ok(result) => {
                body.bytes = result;
                label(&mut head.headers, &body.bytes).map(|()| Onward::Next)
            }
            Err(failed) => Err(soap::refused_request(self.step(On::Request), failed, self.verbose)),
        };
        Box::pin(std::future::ready(flow))
    }
}

impl Settings {
    fn reply(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut Gathered,
    ) -> Result<(), Fault> {
        // A fault of ours is no message of the upstream's.
        if ex.fault.is_some() || soap::has_no_body(ex, head, body) {
            return Ok(());
        }
        let (step, status) = (self.step(On::Response), head.status);
        let refused = |failed| soap::refused_reply(step, failed, self.verbose, status);
        match self.codings.take_off(ex, head, body) {
            Ok(()) => {}
            Err(Refused::Fault(fault)) => return Err(fault),
            Err(Refused::Text(text)) => return Err(refused(Failed::server(text))),
        }
        body.bytes = self.transformed(&body.bytes).map_err(refused)?;
        label(&mut head.headers, &body.bytes)?;
        self.codings.put_on(ex, head, body)
    }
}

impl OnWhole<ReplyHead> for Settings {
    fn bytes_max(&self) -> usize {
        self.codings.bytes_max
    }

    fn on_whole<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut Gathered,
    ) -> LocalBoxFuture<'a, Flow> {
        let flow = self.reply(ex, head, body).map(|()| Onward::Next);
        Box::pin(std::future::ready(flow))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_namespaces_go_and_others_stay() {
        let text = br#"<a xmlns="u"><b xmlns="">1</b><c xmlns="v" xmlns:d=""/></a>"#;
        let clean = without_empty_namespaces(text.to_vec());
        assert_eq!(clean, br#"<a xmlns="u"><b>1</b><c xmlns="v" xmlns:d=""/></a>"#);
    }

    #[test]
    fn what_became_something_else_is_labelled() {
        for (was, result, is) in [
            ("text/xml", "{}", "application/json"),
            ("application/json", " <a/>", "text/xml; charset=utf-8"),
            ("text/xml;charset=utf-8", "<a/>", "text/xml;charset=utf-8"),
            ("application/json", "[1]", "application/json"),
            ("text/xml", "plain", "text/xml"),
        ] {
            let mut headers = Headers::new();
            headers.add("Content-Type", was.as_bytes()).unwrap();
            label(&mut headers, result.as_bytes()).unwrap();
            assert_eq!(headers.get("content-type"), Some(is.as_bytes()), "{was} {result}");
        }
    }
}
