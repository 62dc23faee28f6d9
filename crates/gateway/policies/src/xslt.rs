//! `xslt`: transforms a request or a reply with a stylesheet.
//!
//! Owns the effects of a transformation on the exchange: the note of the client's message format, the content type of the result, and the
//! fault after a failure. [`mediation::xslt`] runs the stylesheets.

mod client_format;

use fault::{Fault, Kind};
use mediation::xslt::{TransformRejection, TransformResult, Transformation};
use mediation::{Rejection, Work};
use message::{GatheredBody, Headers, ReplyHead, RequestHead};
use policy::{Decision, Exchange, OnBuffered, Onward, Policy};

use crate::attachments::{RootUse, RootedStep, rooted};
use crate::body_lines;
use crate::reply_coding::Codings;
use crate::xml_fault;

/// Whether requests or replies are transformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransformedSide {
    Request,
    Response,
}

/// A transformation on a route.
pub struct XsltSettings {
    pub transformation: Transformation,
    /// Whether another policy validates the result. This only selects the text of faults.
    pub before: bool,
    pub verbose: bool,
    /// Whether a reply with a status other than 200 passes unchanged, because a policy above turns it into a fault.
    pub errors_pass: bool,
    pub codings: Codings,
}

/// The value of `Retry-After`, in seconds. Saxon processes all waiting messages in much less time.
const RETRY_AFTER: &str = "1";

/// Builds the policy for requests or for replies.
pub fn policy(on: TransformedSide, settings: XsltSettings) -> Policy {
    let of = RootedStep {
        root: RootUse::Edits,
        step: settings.step(on),
        verbose: settings.verbose,
        codings: settings.codings,
    };
    // With `gzip_only`, which routes with Kong's faults have, the whole message is transformed even if it has attachments, as by Kong.
    let of = (!settings.codings.gzip_only).then_some(of);
    let (request, response) = match on {
        TransformedSide::Request => (Some(rooted(settings, of)), None),
        TransformedSide::Response => (None, Some(rooted(settings, of))),
    };
    Policy { name: "xslt", request, response }
}

impl XsltSettings {
    fn step(&self, on: TransformedSide) -> &'static str {
        match (on, self.before) {
            (TransformedSide::Request, true) => {
                "Request - XSLT transformation failed (before XSD validation)"
            }
            (TransformedSide::Request, false) => {
                "Request - XSLT transformation failed (after XSD validation)"
            }
            (TransformedSide::Response, true) => {
                "Response - XSLT transformation failed (before XSD validation)"
            }
            (TransformedSide::Response, false) => {
                "Response - XSLT transformation failed (after XSD validation)"
            }
        }
    }

    fn transformed(
        &self,
        ex: &Exchange,
        headers: &Headers,
        body: &mut GatheredBody,
    ) -> Work<'_, Result<TransformResult, TransformRejection>> {
        let content_type = headers.get("content-type");
        self.transformation.run(content_type, body, ex.alarm.clone())
    }
}

/// Returns the fault for a failed transformation. `of` converts a rejection to a fault of the request or the reply.
fn fault(refused: TransformRejection, of: impl FnOnce(Rejection) -> Fault) -> Fault {
    match refused {
        TransformRejection::Failed(failed) => of(failed),
        TransformRejection::Late(failed) => Fault { kind: Kind::EngineTimeout, ..of(failed) },
        TransformRejection::Broken(cause) => {
            let fault = of(Rejection::server("The stylesheet could not be run"));
            Fault { cause: format!("{}: {cause}", fault.cause).into(), ..fault }
        }
        // The message was not processed, so `of` does not apply. The fault has the status of its kind.
        TransformRejection::Busy => {
            Fault::new(Kind::EngineBusy, "too many messages wait for Saxon")
                .with_header("Retry-After", RETRY_AFTER)
        }
    }
}

/// Replaces the message with the result.
fn replace(headers: &mut Headers, body: &mut GatheredBody, made: TransformResult) {
    body_lines::replaced(headers);
    if let Some(label) = made.label(headers.get("content-type")) {
        headers.remove("content-type");
        headers.add_known("Content-Type", label.as_bytes());
    }
    body.bytes = made.bytes;
    if let Some(transcript) = made.transcript {
        body.keep_transcript(transcript);
    }
}

impl OnBuffered<RequestHead> for XsltSettings {
    fn bytes_max(&self) -> usize {
        self.codings.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let message_format = client_format::format_of(ex, &body.bytes);
        let made = self.transformed(ex, &head.headers, body);
        let mut take = move |made: Result<TransformResult, TransformRejection>| {
            let refused = |failed| {
                xml_fault::refused_request(
                    self.step(TransformedSide::Request),
                    failed,
                    self.verbose,
                )
            };
            let made = made.map_err(|why| fault(why, refused))?;
            client_format::note(ex, message_format);
            replace(&mut head.headers, body, made);
            Ok(Onward::Next)
        };
        match made {
            Work::Done(made) => Decision::Ready(take(made)),
            Work::Waits(made) => Decision::Waits(Box::pin(async move { take(made.await) })),
        }
    }
}

impl XsltSettings {
    /// Prepares a reply's body for the transformation. Returns false if the reply must not be transformed.
    fn opened(
        &self,
        ex: &mut Exchange,
        head: &mut ReplyHead,
        body: &mut GatheredBody,
    ) -> Result<bool, Fault> {
        // A reply of the gateway itself, which describes a fault, is not transformed.
        let above = self.errors_pass && head.status != 200;
        if ex.fault.is_some() || above {
            return Ok(false);
        }
        if xml_fault::has_no_body(ex, head, body) {
            // The headers describe the body that a GET would return. The gateway would transform that body, so they do not apply.
            if ex.notes().asked_head || head.status == 304 {
                body_lines::replaced(&mut head.headers);
            }
            return Ok(false);
        }
        let decoded = self.codings.decode(ex, head, body);
        decoded.map_err(|refused| refused.fault(self.verbose, head.status))?;
        Ok(true)
    }
}

impl OnBuffered<ReplyHead> for XsltSettings {
    fn bytes_max(&self) -> usize {
        self.codings.bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        match self.opened(ex, head, body) {
            Ok(true) => {}
            passed => return Decision::Ready(passed.map(|_| Onward::Next)),
        }
        let made = self.transformed(ex, &head.headers, body);
        let mut take = move |made: Result<TransformResult, TransformRejection>| {
            let (step, status) = (self.step(TransformedSide::Response), head.status);
            let refused = |failed| xml_fault::refused_reply(step, failed, self.verbose, status);
            replace(&mut head.headers, body, made.map_err(|why| fault(why, refused))?);
            self.codings.encode(ex, head, body).map(|()| Onward::Next)
        };
        match made {
            Work::Done(made) => Decision::Ready(take(made)),
            Work::Waits(made) => Decision::Waits(Box::pin(async move { take(made.await) })),
        }
    }
}
