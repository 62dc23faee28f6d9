//! `soap`: validates requests and replies against the schema of the envelope, the schema of the API, and the actions of its description.
//!
//! Owns the treatment of invalid messages, and what an exchange records about its messages. The checks are in [`mediation::soap`]. A
//! request enters with its gathered body and leaves unchanged, or as a fault that names the violated rule.

mod fault_code;

use std::sync::Arc;

use fault::Fault;
use mediation::soap::{ArrivingInput, Definitions, MessageFacts, Version};
use mediation::{Rejection, content_coding};
use message::{GatheredBody, ReplyHead, RequestHead};
use policy::{
    BodyTransform, Decision, Exchange, Flow, MessageFormat, OnBuffered, OnPieces, OnStreamed,
    Onward, Policy, Step,
};

use crate::attachments::{RootUse, RootedStep, rooted};
use crate::reply_coding::Codings;
use crate::xml_fault::{RESPONSE_GENERAL, has_no_body, refused_reply, refused_request};

/// Settings of the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SoapSettings {
    pub request: bool,
    pub response: bool,
    /// Whether errors are reported to the client.
    pub verbose: bool,
    /// Whether a reply with a status other than 200 becomes a fault.
    pub upstream_errors_fault: bool,
    /// Whether a reply with a status other than 200 passes unchecked, because a policy above turns it into a fault.
    pub errors_pass: bool,
    pub codings: Codings,
}

/// The name of the step in faults of requests.
const REQUEST: &str = "Request - XSD validation failed";

/// The name of the step in faults of replies.
const RESPONSE: &str = "Response - XSD validation failed";

/// The text about a reply that is not validated because of its status.
const UPSTREAM_ERROR: &str =
    "Service Backend returned an HTTP error. The SOAP/XML process is ignored";

/// Returns the policy. Requests have a step if they are validated. Replies have one if they are validated, if errors of the upstream become
/// faults, or if operations are counted; in the last case only the code of a fault is read.
pub fn policy(definitions: Arc<Definitions>, settings: SoapSettings) -> Policy {
    let side = || Side { definitions: definitions.clone(), settings };
    // Kong treats a message with attachments as XML.
    let of = |step| {
        let (verbose, codings) = (settings.verbose, settings.codings);
        let of = RootedStep { root: RootUse::Validates, step, verbose, codings };
        (!definitions.lenient).then_some(of)
    };
    let request = settings.request.then(|| rooted(side(), of(REQUEST)));
    let response = if settings.response || settings.upstream_errors_fault {
        Some(rooted(side(), of(RESPONSE)))
    } else if definitions.operations.is_empty() {
        None
    } else {
        Some(Step::Streamed(Box::new(Watch) as Box<dyn OnStreamed<_>>))
    };
    Policy { name: "soap", request, response }
}

struct Side {
    definitions: Arc<Definitions>,
    settings: SoapSettings,
}

/// Reads the codes of faults in replies that are streamed.
struct Watch;

impl OnStreamed<ReplyHead> for Watch {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        // Faults of a service have status 500 (SOAP 1.1, 6.2), or in SOAP 1.2 also 400 (part 2, 7.5.2.2).
        let fault = matches!(head.status, 400 | 500) && ex.fault.is_none();
        let counted = ex.notes.as_ref().is_some_and(|notes| notes.operation.is_some());
        if !fault || !counted {
            return Ok(None);
        }
        let gzip = match content_coding::named(&head.headers).as_deref() {
            None => false,
            Some("gzip" | "x-gzip") => true,
            Some(_) => return Ok(None),
        };
        let told = ex.notes().soap_fault.get_or_insert_default().clone();
        Ok(Some(Box::new(fault_code::FaultCodeReader::new(told, gzip))))
    }
}

impl Side {
    /// Records the findings about a request, and builds the fault if it is refused.
    fn judged(
        &self,
        ex: &mut Exchange,
        found: &MessageFacts,
        checked: Result<(), Rejection>,
    ) -> Result<(), Fault> {
        let counted = !self.definitions.operations.is_empty();
        if found.version.is_some() || counted {
            let notes = ex.notes();
            // The client's own envelope indicates its version more reliably than the head.
            if let (Some(version), false) = (found.version, notes.translated) {
                notes.message_format = Some(message_format(version));
            }
            if counted {
                notes.operation = Some(found.operation.unwrap_or(policy::UNKNOWN_OPERATION));
            }
        }
        checked.map_err(|failed| refused_request(REQUEST, failed, self.settings.verbose))
    }

    fn request(
        &self,
        ex: &mut Exchange,
        head: &RequestHead,
        body: &mut GatheredBody,
    ) -> Result<(), Fault> {
        let mut found = MessageFacts::default();
        let (headers, translated) = (&head.headers, translated(ex));
        let (message, notes) = body.transcribed();
        let checked = self.definitions.check_input(headers, message, notes, translated, &mut found);
        self.judged(ex, &found, checked)
    }

    fn response(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut GatheredBody,
    ) -> Result<(), Fault> {
        // A fault of the gateway is not a message of the upstream.
        if ex.fault.is_some() || self.settings.errors_pass && head.status != 200 {
            return Ok(());
        }
        let (verbose, status) = (self.settings.verbose, head.status);
        if self.settings.upstream_errors_fault && !matches!(status, 101 | 200) {
            let failed = Rejection::server(UPSTREAM_ERROR);
            return Err(refused_reply(RESPONSE_GENERAL, failed, verbose, status));
        }
        if has_no_body(ex, head, body) {
            return Ok(());
        }
        // An error page of the service or of a proxy in front of it is not validated.
        let is_error = !self.definitions.lenient && !(200..300).contains(&status);
        if is_error && !head.headers.get("content-type").is_some_and(is_xml) {
            return Ok(());
        }
        let codings = self.settings.codings;
        codings.decode(ex, head, body).map_err(|refused| refused.fault(verbose, status))?;
        if self.settings.response {
            let mut found = MessageFacts::default();
            let content_type = head.headers.get("content-type");
            let (message, notes) = body.transcribed();
            let checked = self.definitions.check_output(content_type, message, notes, &mut found);
            if let Some(fault) = found.fault {
                ex.notes().soap_fault.get_or_insert_default().set(Some(fault));
            }
            if !(is_error && found.version.is_none()) {
                checked.map_err(|failed| refused_reply(RESPONSE, failed, verbose, status))?;
            }
        }
        codings.encode(ex, head, body)
    }
}

/// Returns true if a content type is XML, or that of a message with attachments, whose root may be XML.
fn is_xml(content_type: &[u8]) -> bool {
    let media = message::media_type(content_type).to_ascii_lowercase();
    matches!(&*media, b"text/xml" | b"application/xml")
        || media.ends_with(b"+xml")
        || media.starts_with(b"multipart/related")
}

/// Returns true if a step above produced the envelope, in the version that the upstream expects.
fn translated(ex: &Exchange) -> bool {
    ex.notes.as_ref().is_some_and(|notes| notes.translated)
}

fn message_format(version: Version) -> MessageFormat {
    match version {
        Version::V11 => MessageFormat::Soap11,
        Version::V12 => MessageFormat::Soap12,
    }
}

impl OnBuffered<RequestHead> for Side {
    fn bytes_max(&self) -> usize {
        self.settings.codings.bytes_max
    }

    fn on_pieces(
        &self,
        _ex: &mut Exchange,
        _head: &RequestHead,
    ) -> Option<Box<dyn OnPieces<RequestHead>>> {
        // If the definition is not available yet, the message is gathered and waits for it.
        let arriving = ArrivingInput::new(self.definitions.clone()).ok()?;
        let side = Side { definitions: self.definitions.clone(), settings: self.settings };
        Some(Box::new(Pieces { side, arriving: Some(arriving) }))
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        if self.definitions.awaited().next().is_none() {
            let checked = self.request(ex, head, body);
            return Decision::Ready(checked.map(|()| Onward::Next));
        }
        Decision::Waits(Box::pin(async move {
            self.definitions.settle().await;
            self.request(ex, head, body).map(|()| Onward::Next)
        }))
    }
}

/// A request that is validated while it arrives.
struct Pieces {
    side: Side,
    /// The incremental validation, until it has ended.
    arriving: Option<ArrivingInput>,
}

impl OnPieces<RequestHead> for Pieces {
    fn on_piece(
        &mut self,
        ex: &mut Exchange,
        head: &RequestHead,
        so_far: &[u8],
        from: usize,
    ) -> Result<(), Fault> {
        let Some(arriving) = &mut self.arriving else { return Ok(()) };
        let mut found = MessageFacts::default();
        match arriving.feed(&head.headers, so_far, from, &mut found) {
            Ok(()) => Ok(()),
            Err(failed) => self.side.judged(ex, &found, Err(failed)),
        }
    }

    fn on_end(
        &mut self,
        ex: &mut Exchange,
        head: &mut RequestHead,
        body: &mut GatheredBody,
    ) -> Flow {
        let Some(arriving) = self.arriving.take() else { return Ok(Onward::Next) };
        let mut found = MessageFacts::default();
        let checked = arriving.finish(&head.headers, &body.bytes, translated(ex), &mut found);
        self.side.judged(ex, &found, checked).map(|()| Onward::Next)
    }
}

impl OnBuffered<ReplyHead> for Side {
    fn bytes_max(&self) -> usize {
        self.settings.codings.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        if self.definitions.awaited().next().is_none() {
            return Decision::Ready(self.response(ex, head, body).map(|()| Onward::Next));
        }
        Decision::Waits(Box::pin(async move {
            self.definitions.settle().await;
            self.response(ex, head, body).map(|()| Onward::Next)
        }))
    }
}
