//! Keeps what policies remove from a request, so that a policy below can validate the request as received.

use policy::{CutCredentials, Decision, Exchange, Flow, OnCall, OnHead, Policy, Step};

use message::RequestHead;

use crate::query;

/// The header lines and query parameters that a policy removes.
#[derive(Debug, Clone, Default)]
pub struct CutNames {
    pub headers: Vec<String>,
    pub queries: Vec<String>,
}

/// Wraps a policy: before the policy runs, the header lines and query parameters that it may remove are recorded. A policy that reads or
/// buffers the body is not wrapped.
pub fn recording_removed(policy: Policy, names: CutNames) -> Policy {
    let request = match policy.request {
        Some(Step::Head(step)) => Some(Step::Head(Box::new(RecordingStep { step, names }) as _)),
        Some(Step::Call(step)) => Some(Step::Call(Box::new(RecordingStep { step, names }) as _)),
        other => other,
    };
    Policy { request, ..policy }
}

/// A step with the names of what it may remove.
struct RecordingStep<S: ?Sized> {
    names: CutNames,
    step: Box<S>,
}

impl<S: ?Sized> RecordingStep<S> {
    fn note(&self, ex: &mut Exchange, head: &RequestHead) {
        let query = head.query().unwrap_or(b"");
        let cut = ex.notes().cut.get_or_insert_default();
        for name in &self.names.headers {
            if !cut.lines.contains(name) {
                head.headers.get_all(name).for_each(|value| cut.lines.add_known(name, value));
            }
        }
        for name in &self.names.queries {
            if !cut.pairs.iter().any(|(known, _)| known == name) {
                // Harmless: the ranges were computed from this query.
                let values = query::values(query, name).filter_map(|range| query.get(range));
                let pairs = values.map(|value| (name.clone(), value.to_vec()));
                cut.pairs.extend(pairs.collect::<Vec<_>>());
            }
        }
    }
}

impl OnHead<RequestHead> for RecordingStep<dyn OnHead<RequestHead>> {
    fn on_head(&self, ex: &mut Exchange, head: &mut RequestHead) -> Flow {
        self.note(ex, head);
        self.step.on_head(ex, head)
    }
}

impl OnCall<RequestHead> for RecordingStep<dyn OnCall<RequestHead>> {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
        self.note(ex, head);
        self.step.on_call(ex, head)
    }
}

/// Returns the query with the removed parameters added again.
pub(crate) fn query(head: &RequestHead, cut: &CutCredentials) -> Vec<u8> {
    let mut all = head.query().unwrap_or(b"").to_vec();
    for (name, value) in &cut.pairs {
        let is_there = query::values(head.query().unwrap_or(b""), name).next().is_some();
        if !is_there {
            let name = kit::percent::encoded(name.as_bytes(), b"");
            all.extend_from_slice(&[b"&", name.as_bytes(), b"=", value].concat());
        }
    }
    all
}
