//! Keeps what policies remove from a request, so that a policy below can validate the request as received.

use fault::Fault;
use message::{GatheredBody, RequestHead};
use policy::{
    BodyTransform, Decision, Exchange, Flow, OnBuffered, OnCall, OnHead, OnPieces, Policy,
    RemovedCredentials, Step,
};

use crate::query;

/// The header lines and query parameters that a policy removes.
#[derive(Debug, Clone, Default)]
pub struct CredentialNames {
    pub headers: Vec<String>,
    pub queries: Vec<String>,
}

/// Wraps a policy: before the policy runs, the header lines and query parameters that it may remove are recorded. What the policy removes
/// from the body is not recorded. Policies that stream the body remove no credentials, so they are not wrapped.
pub fn recording_removed(policy: Policy, names: CredentialNames) -> Policy {
    let request = match policy.request {
        Some(Step::Head(step)) => Some(Step::Head(Box::new(RecordingStep { step, names }) as _)),
        Some(Step::Call(step)) => Some(Step::Call(Box::new(RecordingStep { step, names }) as _)),
        Some(Step::Buffered(step)) => {
            Some(Step::Buffered(Box::new(RecordingStep { step, names }) as _))
        }
        other @ (Some(Step::Streamed(_)) | None) => other,
    };
    Policy { request, ..policy }
}

/// A step with the names of what it may remove.
struct RecordingStep<S: ?Sized> {
    names: CredentialNames,
    step: Box<S>,
}

impl<S: ?Sized> RecordingStep<S> {
    fn note(&self, ex: &mut Exchange, head: &RequestHead) {
        let query = head.query().unwrap_or(b"");
        let removed = ex.notes().removed_credentials.get_or_insert_default();
        for name in &self.names.headers {
            if !removed.lines.contains(name) {
                head.headers.get_all(name).for_each(|value| removed.lines.add_known(name, value));
            }
        }
        for name in &self.names.queries {
            if !removed.pairs.iter().any(|(known, _)| known == name) {
                // Harmless: the ranges were computed from this query.
                let values = query::values(query, name).filter_map(|range| query.get(range));
                let pairs = values.map(|value| (name.clone(), value.to_vec()));
                removed.pairs.extend(pairs.collect::<Vec<_>>());
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

impl OnBuffered<RequestHead> for RecordingStep<dyn OnBuffered<RequestHead>> {
    fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
        self.note(ex, head);
        self.step.wants(ex, head)
    }

    fn on_passing(
        &self,
        ex: &mut Exchange,
        head: &mut RequestHead,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        self.step.on_passing(ex, head)
    }

    fn bytes_max(&self) -> usize {
        self.step.bytes_max()
    }

    fn on_pieces(
        &self,
        ex: &mut Exchange,
        head: &RequestHead,
    ) -> Option<Box<dyn OnPieces<RequestHead>>> {
        self.step.on_pieces(ex, head)
    }

    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut RequestHead,
        body: &'a mut GatheredBody,
    ) -> Decision<'a> {
        self.step.on_buffered(ex, head, body)
    }
}

/// Returns the query with the removed parameters added again.
pub(crate) fn query(head: &RequestHead, removed: &RemovedCredentials) -> Vec<u8> {
    let mut all = head.query().unwrap_or(b"").to_vec();
    for (name, value) in &removed.pairs {
        let is_there = query::values(head.query().unwrap_or(b""), name).next().is_some();
        if !is_there {
            let name = kit::percent::encoded(name.as_bytes(), b"");
            all.extend_from_slice(&[b"&", name.as_bytes(), b"=", value].concat());
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use message::Protocol;
    use policy::{Caller, Onward, Scheme};

    struct Remove;

    impl OnHead<RequestHead> for Remove {
        fn on_head(&self, _ex: &mut Exchange, head: &mut RequestHead) -> Flow {
            head.headers.remove("x-key");
            crate::query::remove(head, "key");
            Ok(Onward::Next)
        }
    }

    impl OnCall<RequestHead> for Remove {
        fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut RequestHead) -> Decision<'a> {
            Decision::Ready(self.on_head(ex, head))
        }
    }

    impl OnBuffered<RequestHead> for Remove {
        fn wants(&self, ex: &mut Exchange, head: &mut RequestHead) -> Result<bool, Fault> {
            self.on_head(ex, head).map(|_| false)
        }

        fn bytes_max(&self) -> usize {
            0
        }

        fn on_buffered<'a>(
            &'a self,
            _ex: &'a mut Exchange,
            _head: &'a mut RequestHead,
            _body: &'a mut GatheredBody,
        ) -> Decision<'a> {
            Decision::Ready(Ok(Onward::Next))
        }
    }

    #[test]
    fn each_shape_of_step_is_recorded() {
        for step in [
            Step::Head(Box::new(Remove) as _),
            Step::Call(Box::new(Remove)),
            Step::Buffered(Box::new(Remove)),
        ] {
            let cost = step.cost();
            let names =
                CredentialNames { headers: vec!["x-key".into()], queries: vec!["key".into()] };
            let built = Policy { name: "p", request: Some(step), response: None };
            let built = recording_removed(built, names);
            let peer = ([192, 0, 2, 1], 1).into();
            let mut ex =
                Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
            let mut head = RequestHead::new(Protocol::Http11, b"GET", b"/?a=b&key=k");
            head.headers.add_known("X-Key", b"secret");
            match built.request.unwrap() {
                Step::Head(step) => drop(step.on_head(&mut ex, &mut head)),
                Step::Call(step) => drop(step.on_call(&mut ex, &mut head)),
                Step::Buffered(step) => {
                    assert_eq!(step.wants(&mut ex, &mut head).ok(), Some(false))
                }
                Step::Streamed(_) => panic!("{cost}"),
            }
            assert_eq!((head.headers.get("x-key"), head.query()), (None, Some(&b"a=b"[..])));
            let removed = ex.notes().removed_credentials.take().unwrap();
            assert_eq!(removed.lines.get("x-key"), Some(&b"secret"[..]), "{cost}");
            assert_eq!(query(&head, &removed), b"a=b&key=k", "{cost}");
        }
    }
}
