//! The reply's side.

use std::sync::Arc;

use fault::Kind;
use mediation::openapi::Operation;
use message::{GatheredBody, ReplyHead};
use policy::{Decision, Exchange, Flow, OnBuffered, Onward};

use super::request;

/// The response step.
pub(super) struct Checks(pub(super) Arc<request::Checks>);

impl OnBuffered<ReplyHead> for Checks {
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
            Some(operation) => self.check(operation, ex, head, body),
            None => Ok(Onward::Next),
        };
        Decision::Ready(flow)
    }
}

impl Checks {
    /// The operation that the request's side noted.
    fn operation(&self, ex: &Exchange) -> Option<&Operation> {
        self.0.operations.get(*self.0.slot.get(ex)?)
    }

    fn check(
        &self,
        operation: &Operation,
        ex: &Exchange,
        head: &ReplyHead,
        body: &mut GatheredBody,
    ) -> Flow {
        // What the gateway itself says is not the service's to answer for.
        if ex.fault.is_some() {
            return Ok(Onward::Next);
        }
        let (status, max) = (head.status, self.0.errors_max());
        let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
        let has_none = asked_head || matches!(status, 100..=199 | 204 | 205 | 304);
        let checked = operation.check_response(status, has_none, &head.headers, body, max);
        checked.map(|()| Onward::Next).map_err(|wrong| self.0.wrong(Kind::ReplyInvalid, wrong))
    }
}
