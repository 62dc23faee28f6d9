//! The reply's side.

use std::sync::Arc;

use fault::{Fault, Kind};
use message::{Gathered, ReplyHead};
use policy::{Decision, Exchange, Flow, OnBuffered, Onward};

use super::body::{self, Checked};
use super::model::Operation;
use super::{ERRORS_MAX, parameter, request};

/// The response step.
pub(super) struct Checks(pub(super) Arc<request::Checks>);

impl OnBuffered<ReplyHead> for Checks {
    fn bytes_max(&self) -> usize {
        self.0.settings.body_bytes_max
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut ReplyHead,
        body: &'a mut Gathered,
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
        self.0.operation(*self.0.slot.get(ex)?)
    }

    fn check(
        &self,
        operation: &Operation,
        ex: &Exchange,
        head: &ReplyHead,
        body: &Gathered,
    ) -> Flow {
        // What the gateway itself says is not the service's to answer for.
        if ex.fault.is_some() {
            return Ok(Onward::Next);
        }
        let described =
            operation.replies.iter().map(|reply| (reply.statuses.fits(head.status), reply));
        let best = described.filter(|(fits, _)| *fits > 0).max_by_key(|(fits, _)| *fits);
        // A status that is not described has no schema to break.
        let Some((_, reply)) = best else { return Ok(Onward::Next) };
        let max = if self.0.settings.verbose { ERRORS_MAX } else { 1 };
        let mut faults = Vec::new();
        for header in &reply.headers {
            let found = parameter::header(header, &head.headers);
            parameter::check(header, found, max, &mut faults);
        }
        let asked_head = ex.notes.as_ref().is_some_and(|notes| notes.asked_head);
        let has_none = asked_head || matches!(head.status, 100..=199 | 204 | 205 | 304);
        if body.bytes.is_empty() && !head.headers.contains("content-type") {
            if !has_none && !reply.content.is_empty() {
                faults.push("/: there is no body".to_owned());
            }
        } else if !has_none && !reply.content.is_empty() {
            match body::check(&reply.content, &head.headers, &body.bytes, false, max) {
                Checked::Good => {}
                Checked::OtherType(other) => faults.push(format!(
                    "/: the content type `{}` is not described",
                    other.escape_debug()
                )),
                Checked::Wrong(wrong) => faults.extend(wrong),
            }
        }
        let Some(first) = faults.first() else { return Ok(Onward::Next) };
        let fault = Fault::new(Kind::ReplyInvalid, first.escape_debug().to_string());
        Err(self.0.told(fault, faults))
    }
}
