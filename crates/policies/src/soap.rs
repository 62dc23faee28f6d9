//! `soap`: requests and replies held to the envelope's schema, the API's, and the actions of its description.
//!
//! Owns what becomes of a message that is refused, and what an exchange notes of its messages. How they are checked is
//! [`mediation::soap`]'s; a request enters with its gathered body and leaves as it came, or as a fault that says which rule it
//! breaks.

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
    /// The client may read what is wrong.
    pub verbose: bool,
    /// A reply other than 200 becomes a fault.
    pub upstream_errors_fault: bool,
    /// Such a reply is let through, because a policy above makes a fault of it.
    pub errors_pass: bool,
    pub codings: Codings,
}

/// The step in faults of requests.
const REQUEST: &str = "Request - XSD validation failed";

/// The step in faults of replies.
const RESPONSE: &str = "Response - XSD validation failed";

/// The words about a reply that is not looked into because of its status.
const UPSTREAM_ERROR: &str =
    "Service Backend returned an HTTP error. The SOAP/XML process is ignored";

/// The policy. A side that is not looked into has no step, but for what is counted of it.
pub fn policy(definitions: Arc<Definitions>, settings: SoapSettings) -> Policy {
    let side = || Side { definitions: definitions.clone(), settings };
    // The reference system reads a message with attachments as if it were XML.
    let of = |step| {
        let (verbose, codings) = (settings.verbose, settings.codings);
        let of = RootedStep { root: RootUse::Validates, step, verbose, codings };
        (!definitions.lenient).then_some(of)
    };
    let request = settings.request.then(|| rooted(side(), of(REQUEST)));
    let response = match settings.response || settings.upstream_errors_fault {
        true => Some(rooted(side(), of(RESPONSE))),
        false if definitions.operations.is_empty() => None,
        false => Some(Step::Streamed(Box::new(Watch) as Box<dyn OnStreamed<_>>)),
    };
    Policy { name: "soap", request, response }
}

struct Side {
    definitions: Arc<Definitions>,
    settings: SoapSettings,
}

/// Reads the codes of faults as they pass.
struct Watch;

impl OnStreamed<ReplyHead> for Watch {
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        // A service's faults come with 500 (SOAP 1.1, 6.2), those of 1.2 with 400 too (part 2, 7.5.2.2).
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
    /// Notes what a request turned out to be, and how its refusal is told.
    fn judged(
        &self,
        ex: &mut Exchange,
        found: &MessageFacts,
        checked: Result<(), Rejection>,
    ) -> Result<(), Fault> {
        let counted = !self.definitions.operations.is_empty();
        if found.version.is_some() || counted {
            let notes = ex.notes();
            // The envelope says better than the head how the client speaks, if it is the client's.
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
        // A fault of ours is not a message of the upstream's.
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
        // An error page of the service or of a server before it is not a message for the schema.
        let is_error = !self.definitions.lenient && !(200..300).contains(&status);
        if is_error && !head.headers.get("content-type").is_some_and(is_xml) {
            return Ok(());
        }
        let codings = self.settings.codings;
        codings.take_off(ex, head, body).map_err(|refused| refused.fault(verbose, status))?;
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
        codings.put_on(ex, head, body)
    }
}

/// True if a content type says XML, or is of a message with attachments, whose root may be XML.
fn is_xml(content_type: &[u8]) -> bool {
    let media = message::media_type(content_type).to_ascii_lowercase();
    matches!(&*media, b"text/xml" | b"application/xml")
        || media.ends_with(b"+xml")
        || media.starts_with(b"multipart/related")
}

/// True if a step above made the request: it is in the version that the step wants.
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
        // Where there is no definition yet, the message waits for one with all its bytes.
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

/// A request that is checked while it arrives.
struct Pieces {
    side: Side,
    /// Until it has ended.
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
