//! Descending and ascending through the list of policies.

use fault::{Fault, Kind};
use kit::{clock, turns};
use message::{Body, Headers, Reply, ReplyHead, Request, RequestHead, Source};
use plan::Route;
use policy::{
    Decision, Exchange, ExchangeTrace, Flow, OnStreamed, Onward, OpenSpan, Step, TracedHead,
    WaitTime,
};

use crate::passing::{PacedBody, TransformedBody};
use crate::{gather, limited, problem, traced};

/// The result of a descent.
pub(crate) enum Descent {
    Through,
    /// The descent ended at `depth`, with the answer of the policy or with a fault. The policies above get the reply.
    Turned {
        depth: usize,
        reply: Reply,
    },
}

/// Runs the request steps from top to bottom. The size limit of the body is checked below the CORS policies at the top of the list, so that
/// a page can read the 413.
pub(crate) async fn descend(route: &Route, ex: &mut Exchange, request: &mut Request) -> Descent {
    if gather_twice(route.policies.iter().map(|policy| &policy.request)) {
        turns::in_turns(each_down(route, ex, request)).await
    } else {
        each_down(route, ex, request).await
    }
}

/// Runs the response steps from bottom to top, starting above the policy at `depth`.
pub(crate) async fn ascend(route: &Route, depth: usize, ex: &mut Exchange, reply: &mut Reply) {
    if gather_twice(route.policies.iter().map(|policy| &policy.response)) {
        turns::in_turns(each_up(route, depth, ex, reply)).await
    } else {
        each_up(route, depth, ex, reply).await
    }
}

/// True if more than one step needs a whole body. All steps then share one call of [`turns::in_turns`], which is cheaper than a call for
/// each such step (see [`run`]).
fn gather_twice<'a, H: 'a>(steps: impl Iterator<Item = &'a Option<Step<H>>>) -> bool {
    steps.filter(|step| matches!(step, Some(Step::Buffered(_)))).nth(1).is_some()
}

async fn each_down(route: &Route, ex: &mut Exchange, request: &mut Request) -> Descent {
    for depth in 0..=route.policies.len() {
        if depth == route.preflights.topmost
            && let Err(fault) = limited::limit(route, request)
        {
            return Descent::Turned { depth, reply: problem::reply(ex, route.errors, fault) };
        }
        let policy = route.policies.get(depth);
        let Some(step) = policy.and_then(|policy| policy.request.as_ref()) else { continue };
        ex.has_body = !request.body.is_empty();
        let ran = run_at((route, depth), step, ex, (&mut request.head, &mut request.body)).await;
        match ran {
            Ok(Onward::Next) => {}
            Ok(Onward::Turn(reply)) => return Descent::Turned { depth, reply },
            Err(fault) => {
                return Descent::Turned { depth, reply: problem::reply(ex, route.errors, fault) };
            }
        }
    }
    Descent::Through
}

async fn each_up(route: &Route, depth: usize, ex: &mut Exchange, reply: &mut Reply) {
    // Harmless: the policies at `depth` and below do not get the reply.
    for (depth, policy) in route.policies.iter().enumerate().take(depth).rev() {
        let Some(step) = &policy.response else { continue };
        match run_at((route, depth), step, ex, (&mut reply.head, &mut reply.body)).await {
            Ok(Onward::Next) => {}
            Ok(Onward::Turn(other)) => *reply = other,
            Err(fault) => *reply = problem::reply(ex, route.errors, fault),
        }
    }
}

/// A head for a step: a request's or a reply's.
pub(crate) trait Head {
    /// The kind of the fault for a body that is too large to buffer.
    const TOO_LARGE: Kind;

    const IS_REPLY: bool;

    /// The sum of the time spent waiting for its body.
    fn wait(ex: &Exchange) -> &WaitTime;

    fn headers(&mut self) -> &mut Headers;

    /// True if its body may never end (an event stream).
    fn is_endless(&self) -> bool;
}

/// Runs the step of the policy at `depth`, and traces it if an operator requested that.
async fn run_at<H: Head + TracedHead>(
    at: (&Route, usize),
    step: &Step<H>,
    ex: &mut Exchange,
    (head, body): (&mut H, &mut Body),
) -> Flow {
    if traced::is_asked(ex) {
        Box::pin(traced::run(at, step, ex, head, body)).await
    } else {
        run(name_of(at), step, ex, head, body).await
    }
}

/// The name of the policy at `depth`.
pub(crate) fn name_of((route, depth): (&Route, usize)) -> &'static str {
    route.policies.get(depth).map_or("", |policy| policy.name)
}

pub(crate) async fn run<H: Head>(
    name: &'static str,
    step: &Step<H>,
    ex: &mut Exchange,
    head: &mut H,
    body: &mut Body,
) -> Flow {
    match step {
        Step::Head(step) => step.on_head(ex, head),
        Step::Call(step) => {
            // Only a policy that waits gets a span. Whether it waits is known only after the call, which borrows `ex`.
            let trace = ex.trace.as_ref().filter(|trace| trace.recorder.is_some()).cloned();
            match step.on_call(ex, head) {
                Decision::Ready(flow) => flow,
                Decision::Waits(flow) => match trace {
                    None => flow.await,
                    Some(trace) => Box::pin(spanned(name, &trace, flow)).await,
                },
            }
        }
        Step::Streamed(step) => {
            stream(&**step, ex, head, body)?;
            Ok(Onward::Next)
        }
        Step::Buffered(step) => {
            if !step.wants(ex, head)? {
                if let Some(transform) = step.on_passing(ex, head)? {
                    transformed(PacedBody::new(TransformedBody::new(body, transform)), head, body);
                }
                return Ok(Onward::Next);
            }
            if head.is_endless() {
                return Err(Fault::new(
                    Kind::ReplyStreams,
                    "an event stream on a route that buffers replies",
                ));
            }
            let flow = turns::in_turns(gather::buffered(&**step, ex, head, body)).await;
            // The step may have replaced the body. The writer of the message adds the new length, but none for an empty body, whose
            // `Content-Length: 0` must therefore stay.
            let lines = head.headers();
            let is_none = matches!(body, Body::Empty) && lines.get("content-length") == Some(b"0");
            if !is_none {
                lines.remove("content-length");
            }
            flow
        }
    }
}

/// Runs a step that may transform the body while it is forwarded. Returns true if the step transforms the body.
pub(crate) fn stream<H: Head>(
    step: &dyn OnStreamed<H>,
    ex: &mut Exchange,
    head: &mut H,
    body: &mut Body,
) -> Result<bool, Fault> {
    let Some(transform) = step.on_streamed(ex, head)? else { return Ok(false) };
    transformed(TransformedBody::new(body, transform), head, body);
    Ok(true)
}

/// Replaces a body by one whose bytes pass through a step.
fn transformed<H: Head>(made: impl Source + 'static, head: &mut H, body: &mut Body) {
    if made.remaining().is_none() {
        head.headers().remove("content-length");
    }
    *body = Body::Stream(Box::new(made));
}

/// Waits for a policy within a separate span.
async fn spanned(
    name: &'static str,
    trace: &ExchangeTrace,
    flow: impl Future<Output = Flow>,
) -> Flow {
    match OpenSpan::begin(trace, name, clock::now(), None) {
        Some(span) => span.around(flow).await,
        None => flow.await,
    }
}

impl Head for RequestHead {
    const TOO_LARGE: Kind = Kind::BodyTooLarge;
    const IS_REPLY: bool = false;

    fn wait(ex: &Exchange) -> &WaitTime {
        &ex.totals.client_wait
    }

    fn headers(&mut self) -> &mut Headers {
        &mut self.headers
    }

    fn is_endless(&self) -> bool {
        false
    }
}

impl Head for ReplyHead {
    const TOO_LARGE: Kind = Kind::ReplyTooLarge;
    const IS_REPLY: bool = true;

    fn wait(ex: &Exchange) -> &WaitTime {
        &ex.totals.upstream_wait
    }

    fn headers(&mut self) -> &mut Headers {
        &mut self.headers
    }

    fn is_endless(&self) -> bool {
        self.is_event_stream()
    }
}
#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use message::Fill;
    use policy::{BodyTransform, Caller, Scheme};

    use super::*;

    /// A body whose client waits for a 100.
    struct Expecting;

    impl Source for Expecting {
        fn poll_fill(&mut self, _: &mut Context<'_>, _: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
            Poll::Pending
        }

        fn remaining(&self) -> Option<u64> {
            Some(5)
        }

        fn expects_continue(&self) -> bool {
            true
        }
    }

    /// Passes bodies through a transform if it is true.
    struct Passes(bool);

    impl BodyTransform for Passes {
        fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
            out.extend_from_slice(bytes);
            Ok(Fill::More)
        }

        fn on_end(&mut self, _out: &mut Vec<u8>) -> Result<(), Fault> {
            Ok(())
        }

        fn remaining(&self, inner: Option<u64>) -> Option<u64> {
            inner
        }
    }

    impl OnStreamed<RequestHead> for Passes {
        fn on_streamed(
            &self,
            _ex: &mut Exchange,
            _head: &mut RequestHead,
        ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
            Ok(self.0.then(|| Box::new(Passes(true)) as _))
        }
    }

    #[test]
    fn a_body_that_passes_a_step_still_waits_for_its_continue() {
        for transforms in [true, false] {
            let peer = ([192, 0, 2, 1], 1).into();
            let mut ex =
                Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
            let mut head = RequestHead::new(message::Protocol::Http11, b"POST", b"/");
            let mut body = Body::Stream(Box::new(Expecting));
            let is = stream(&Passes(transforms), &mut ex, &mut head, &mut body).unwrap();
            assert_eq!(is, transforms);
            assert!(body.expects_continue(), "{transforms}");
        }
    }
}
