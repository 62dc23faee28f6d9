//! The reply side.

use std::sync::Arc;

use fault::{Fault, Kind};
use mediation::openapi::Operation;
use message::{GatheredBody, ReplyHead};
use policy::{Decision, Exchange, OnBuffered, Onward};

use super::request;

/// The response step.
pub(super) struct Checks(pub(super) Arc<request::Checks>);

impl OnBuffered<ReplyHead> for Checks {
    fn wants(&self, ex: &mut Exchange, head: &mut ReplyHead) -> Result<bool, Fault> {
        let Some(operation) = self.operation(ex) else { return Ok(false) };
        // A reply of the gateway itself is not validated.
        if ex.fault.is_some() {
            return Ok(false);
        }
        let reads = operation.reads_response(head.status, has_no_body(ex, head), &head.headers);
        if !reads {
            self.check(operation, ex, head, None)?;
        }
        Ok(reads)
    }

    fn bytes_max(&self) -> usize {
        self.0.body_bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        let flow = match self.operation(ex) {
            Some(operation) => self.check(operation, ex, head, Some(body)),
            None => Ok(()),
        };
        Decision::Ready(flow.map(|()| Onward::Next))
    }
}

impl Checks {
    /// Returns the operation that the request side recorded.
    fn operation(&self, ex: &Exchange) -> Option<&Operation> {
        self.0.operations.get(*self.0.slot.get(ex)?)
    }

    fn check(
        &self,
        operation: &Operation,
        ex: &Exchange,
        head: &ReplyHead,
        body: Option<&mut GatheredBody>,
    ) -> Result<(), Fault> {
        let (has_no_body, max) = (has_no_body(ex, head), self.0.errors_max());
        let checked = operation.check_response(head.status, has_no_body, &head.headers, body, max);
        checked.map_err(|wrong| self.0.wrong(Kind::ReplyInvalid, wrong))
    }
}

/// Returns true if a reply has no body, whatever the document describes.
fn has_no_body(ex: &Exchange, head: &ReplyHead) -> bool {
    let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
    asked_head || matches!(head.status, 100..=199 | 204 | 205 | 304)
}
