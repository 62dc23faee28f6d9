//! `soap`: requests and replies held to the envelope's schema, the API's, and the actions of its description.
//!
//! Owns the order of the checks and what becomes of a message that fails one. Schemas come compiled; a request enters
//! with its gathered body and leaves as it came, or as a fault that says which rule it breaks.

mod action;
mod check;
pub(crate) mod coding;
mod words;

use std::sync::Arc;

use fault::{Fault, Kind, Processing};
use kit::LocalBoxFuture;
use message::{Gathered, ReplyHead, RequestHead};
use policy::{Exchange, Flow, OnWhole, Onward, Policy, Speech, Step};

pub use action::{Actions, Expected, Strictness};
pub use check::Envelope;
pub use coding::Codings;

/// The namespace of SOAP 1.1 envelopes.
pub const SOAP_11: &str = "http://schemas.xmlsoap.org/soap/envelope/";

/// The namespace of SOAP 1.2 envelopes.
pub const SOAP_12: &str = "http://www.w3.org/2003/05/soap-envelope";

/// The schema of SOAP 1.1 envelopes that is built in.
pub const ENVELOPE_11: &str = include_str!("soap/envelope11.xsd");

/// The schema of SOAP 1.2 envelopes that is built in.
pub const ENVELOPE_12: &str = include_str!("soap/envelope12.xsd");

/// A version of SOAP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    V11,
    V12,
}

impl Version {
    /// Its place among the envelopes.
    pub fn index(self) -> usize {
        match self {
            Version::V11 => 0,
            Version::V12 => 1,
        }
    }

    /// As people write it.
    pub fn text(self) -> &'static str {
        match self {
            Version::V11 => "1.1",
            Version::V12 => "1.2",
        }
    }
}

/// What messages are held to, compiled.
pub struct Definitions {
    /// Of SOAP 1.1, which is for XML without an envelope too, and of SOAP 1.2.
    pub envelopes: [Envelope; 2],
    /// The schema of what stands in the body.
    pub api: Option<Arc<xsd::Schema>>,
    /// The API's schema does not compile: each message is refused with this.
    pub broken: Option<Failed>,
    /// What requests are to name as their action.
    pub actions: Option<(Strictness, Arc<Actions>)>,
}

/// Why a message is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// In the words of libxml2 where it has some.
    pub text: Box<str>,
    /// Not the sender's fault.
    pub server: bool,
}

impl Failed {
    /// The sender's fault.
    pub fn client(text: impl Into<Box<str>>) -> Failed {
        Failed { text: text.into(), server: false }
    }

    /// The receiver's.
    pub fn server(text: impl Into<Box<str>>) -> Failed {
        Failed { text: text.into(), server: true }
    }
}

/// How the policy behaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    pub request: bool,
    pub response: bool,
    /// The client may read what is wrong.
    pub verbose: bool,
    /// A reply other than 200 becomes a fault.
    pub upstream_errors_fault: bool,
    pub codings: Codings,
}

/// The step in faults of requests.
const REQUEST: &str = "Request - XSD validation failed";

/// The step in faults of replies.
const RESPONSE: &str = "Response - XSD validation failed";

/// The step where no other fits.
const RESPONSE_GENERAL: &str = "Response - General process failed";

/// What is said of a reply that is not looked into because of its status.
const UPSTREAM_ERROR: &str =
    "Service Backend returned an HTTP error. The SOAP/XML process is ignored";

/// The policy. A side that is not validated has no step.
pub fn policy(definitions: Arc<Definitions>, settings: Settings) -> Policy {
    let response = settings.response || settings.upstream_errors_fault;
    let side = || Side { definitions: definitions.clone(), settings };
    Policy {
        name: "soap",
        request: settings.request.then(|| Step::Whole(Box::new(side()) as Box<dyn OnWhole<_>>)),
        response: response.then(|| Step::Whole(Box::new(side()) as Box<dyn OnWhole<_>>)),
    }
}

struct Side {
    definitions: Arc<Definitions>,
    settings: Settings,
}

impl Side {
    fn checked(&self, message: &[u8], reply: bool, found: &mut check::Found) -> Result<(), Failed> {
        match &self.definitions.broken {
            Some(failed) => Err(failed.clone()),
            None => check::check(&self.definitions, message, reply, found),
        }
    }

    fn request(&self, ex: &mut Exchange, head: &RequestHead, message: &[u8]) -> Result<(), Failed> {
        let mut found = check::Found { version: None, operation: String::new() };
        let checked = self.checked(message, false, &mut found);
        // The envelope says better than the head how the client speaks.
        if let Some(version) = found.version {
            ex.notes().speech = Some(speech(version));
        }
        checked?;
        if let (Some((strictness, actions)), Some(version)) =
            (&self.definitions.actions, found.version)
        {
            let checked = actions.check(*strictness, version, &found.operation, &head.headers);
            checked.map_err(Failed::client)?;
        }
        Ok(())
    }

    fn response(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut Gathered,
    ) -> Result<(), Fault> {
        // A fault of ours is no message of the upstream's.
        if ex.fault.is_some() || has_no_body(ex, head, body) {
            return Ok(());
        }
        let (verbose, status) = (self.settings.verbose, head.status);
        if self.settings.upstream_errors_fault && status != 200 {
            let failed = Failed::server(UPSTREAM_ERROR);
            return Err(refused_reply(RESPONSE_GENERAL, failed, verbose, status));
        }
        let codings = self.settings.codings;
        match codings.take_off(ex, head, body) {
            Ok(()) => {}
            Err(coding::Refused::Fault(fault)) => return Err(fault),
            Err(coding::Refused::Text(text)) => {
                return Err(refused_reply(RESPONSE_GENERAL, Failed::server(text), verbose, status));
            }
        }
        if self.settings.response {
            let mut found = check::Found { version: None, operation: String::new() };
            self.checked(&body.bytes, true, &mut found)
                .map_err(|failed| refused_reply(RESPONSE, failed, verbose, status))?;
        }
        codings.put_on(ex, head, body)
    }
}

fn speech(version: Version) -> Speech {
    match version {
        Version::V11 => Speech::Soap11,
        Version::V12 => Speech::Soap12,
    }
}

/// Replies that carry no message: of a one-way operation, of HEAD, of a tunnel.
pub(crate) fn has_no_body(ex: &Exchange, head: &ReplyHead, body: &Gathered) -> bool {
    let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
    body.bytes.is_empty() && (asked_head || matches!(head.status, 101 | 202 | 204 | 205 | 304))
}

/// What is said of a message that is no XML.
pub(crate) fn malformed(error: &xml::Error, message: &[u8]) -> String {
    words::malformed(error, message)
}

/// The fault for a request that a step refuses.
pub(crate) fn refused_request(step: &'static str, failed: Failed, verbose: bool) -> Fault {
    let kind = if failed.server { Kind::ProcessingFailed } else { Kind::RequestInvalid };
    fault(kind, step, failed, verbose, None)
}

/// The fault for a reply that a step refuses.
pub(crate) fn refused_reply(
    step: &'static str,
    failed: Failed,
    verbose: bool,
    status: u16,
) -> Fault {
    let kind = if failed.server { Kind::ProcessingFailed } else { Kind::ReplyInvalid };
    fault(kind, step, failed, verbose, Some(status))
}

fn fault(
    kind: Kind,
    step: &'static str,
    failed: Failed,
    verbose: bool,
    backend_status: Option<u16>,
) -> Fault {
    let cause = format!("{step}: {}", failed.text);
    let Failed { text, server } = failed;
    let detail = verbose.then(|| text.clone());
    let fault = Fault { detail, ..Fault::new(kind, cause) };
    fault.with_processing(Processing { step, text, server, backend_status, verbose })
}

impl OnWhole<RequestHead> for Side {
    fn bytes_max(&self) -> usize {
        self.settings.codings.bytes_max
    }

    fn on_whole<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut Gathered,
    ) -> LocalBoxFuture<'a, Flow> {
        let checked = self.request(ex, head, &body.bytes);
        let flow = match checked {
            Ok(()) => Ok(Onward::Next),
            Err(failed) => Err(refused_request(REQUEST, failed, self.settings.verbose)),
        };
        Box::pin(std::future::ready(flow))
    }
}

impl OnWhole<ReplyHead> for Side {
    fn bytes_max(&self) -> usize {
        self.settings.codings.bytes_max
    }

    fn on_whole<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut Gathered,
    ) -> LocalBoxFuture<'a, Flow> {
        let flow = self.response(ex, head, body).map(|()| Onward::Next);
        Box::pin(std::future::ready(flow))
    }
}
