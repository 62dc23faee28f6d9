//! Runs one step of a policy, with as much of the body as its kind needs.

use fault::{Fault, Kind};
use kit::{clock, turns};
use message::{Body, Source};
use policy::{Decision, Exchange, ExchangeTrace, Flow, OnStreamed, Onward, OpenSpan, Step};

use crate::gather;
use crate::head::Head;
use crate::passing::{PacedBody, TransformedBody};

/// Runs a step. `name` is that of its policy.
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

#[cfg(test)]
mod tests {
    use std::task::{Context, Poll};

    use message::{Fill, RequestHead};
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
