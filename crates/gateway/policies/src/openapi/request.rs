//! The request side: finds the operation, and validates the request.

use std::borrow::Cow;
use std::sync::Arc;

use fault::{Fault, Kind};
use mediation::openapi::{OpenApiRejection, OperationAt, OperationMatch, Operations};
use message::{Body, GatheredBody, Reply, RequestHead};
use policy::{Decision, Exchange, Flow, OnBuffered, OnHead, Onward, Slot};

use super::{ERRORS_MAX, OpenApiSettings};
use crate::removed_credentials;

/// State that both sides share.
pub(super) struct Checks {
    pub(super) operations: Arc<Operations>,
    only: Option<usize>,
    request: bool,
    response: bool,
    refuses: bool,
    verbose: bool,
    pub(super) body_bytes_max: usize,
    /// The slot with the operation of the request, for its reply.
    pub(super) slot: Slot<OperationAt>,
}

/// The request step.
pub(super) struct Step(pub(super) Arc<Checks>);

impl OnHead<RequestHead> for Step {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.0.check(ex, head, None)
    }
}

impl OnBuffered<RequestHead> for Step {
    fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
        let reads = match self.0.find(head) {
            OperationMatch::Operation(_, operation, _) => operation.reads_request(&head.headers),
            // The step answers `OPTIONS` itself. Only `on_buffered` can return that reply, so the body is gathered.
            OperationMatch::Options(_) => self.0.refuses,
            OperationMatch::OtherMethod(_) | OperationMatch::Nothing => false,
        };
        if !reads {
            // The result cannot be a reply: requests that the step answers itself are gathered.
            self.0.check(ex, head, None)?;
        }
        Ok(reads)
    }

    fn bytes_max(&self) -> usize {
        self.0.body_bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        Decision::Ready(self.0.check(ex, head, Some(body)))
    }
}

impl Checks {
    pub(super) fn new(settings: OpenApiSettings, slot: Slot<OperationAt>) -> Checks {
        let OpenApiSettings {
            operations,
            only,
            request,
            response,
            refuses,
            verbose,
            body_bytes_max,
        } = settings;
        Checks { operations, only, request, response, refuses, verbose, body_bytes_max, slot }
    }

    fn find<'a>(&'a self, head: &'a RequestHead) -> OperationMatch<'a> {
        let query = head.query().unwrap_or(b"");
        self.operations.find(head.method(), head.path(), query, self.only)
    }

    /// Validates a request. `body` is `None` if there is no body, or if it need not be read.
    fn check(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
        body: Option<&mut GatheredBody>,
    ) -> Flow {
        let at = match self.find(head) {
            OperationMatch::Operation(at, operation, values) => {
                if self.request {
                    // The document may require credentials that policies above have removed, so they are validated, too.
                    let notes = ex.notes.as_ref();
                    let removed = notes.and_then(|notes| notes.removed_credentials.as_deref());
                    let query = match removed {
                        Some(removed) => Cow::Owned(removed_credentials::query(head, removed)),
                        None => Cow::Borrowed(head.query().unwrap_or(b"")),
                    };
                    let lines = removed.map(|removed| &removed.lines);
                    let max = self.errors_max();
                    let checked =
                        operation.check_request(&values, &query, &head.headers, lines, body, max);
                    checked.map_err(|why| self.refused(why))?;
                }
                at
            }
            _ if !self.refuses => return Ok(Onward::Next),
            OperationMatch::Options(allow) => return Ok(Onward::Turn(options(allow))),
            OperationMatch::OtherMethod(allow) => {
                let cause = format!("{} is not a method of this path", shown(head.method()));
                return Err(Fault::new(Kind::MethodNotAllowed, cause).with_header("Allow", allow));
            }
            OperationMatch::Nothing => {
                let path = shown(head.path());
                return Err(Fault::new(
                    Kind::PathUnknown,
                    format!("the document has no path {path}"),
                ));
            }
        };
        if self.response {
            self.slot.put(ex, at);
            // A compressed reply could not be validated.
            head.headers.remove("accept-encoding");
        }
        Ok(Onward::Next)
    }

    fn refused(&self, why: OpenApiRejection) -> Fault {
        match why {
            OpenApiRejection::OtherType(why) => self.wrong(Kind::MediaTypeUnsupported, vec![why]),
            OpenApiRejection::Wrong(wrong) => self.wrong(Kind::RequestInvalid, wrong),
        }
    }

    /// Returns the fault for a message with these errors.
    pub(super) fn wrong(&self, kind: Kind, wrong: Vec<String>) -> Fault {
        let first = wrong.first().map_or("", String::as_str);
        self.told(Fault::new(kind, first), wrong)
    }

    /// Adds the errors for the client, if they may be reported.
    fn told(&self, fault: Fault, mut wrong: Vec<String>) -> Fault {
        if !self.verbose {
            return fault;
        }
        if wrong.len() > ERRORS_MAX {
            wrong.drain(ERRORS_MAX - 1..);
            wrong.push("/: there are more errors than are shown here".to_owned());
        }
        fault.with_errors(wrong.into_iter().map(String::into_boxed_str).collect())
    }

    /// Returns the maximum number of errors to collect: one more than are reported, to show that there are more.
    pub(super) fn errors_max(&self) -> usize {
        if self.verbose { ERRORS_MAX + 1 } else { 1 }
    }
}

fn options(allow: &str) -> Reply {
    let mut reply = Reply::new(204, Body::Empty);
    // Methods are tokens, so the line is valid.
    reply.head.headers.add_known("Allow", allow.as_bytes());
    reply
}

/// Returns the first 256 bytes of a peer's data as text, for the cause of a fault. Logs escape the text.
fn shown(bytes: &[u8]) -> String {
    // Harmless: the text is only logged.
    String::from_utf8_lossy(bytes.get(..256).unwrap_or(bytes)).into_owned()
}
