//! Bodies whose bytes pass through a step.
//!
//! Owns the calls of a step's transform: at each piece, at the end, and for the trailers.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};

use fault::Fault;
use kit::{LocalBoxFuture, scratch, turns};
use message::{Body, Fill, Source, Trailers};
use policy::BodyTransform;

/// A body whose bytes pass through a step.
pub(crate) struct TransformedBody {
    inner: Body,
    transform: Box<dyn BodyTransform>,
    /// The trailers that the step returned.
    trailers: Trailers,
    /// The fault that follows the bytes returned last.
    broken: Option<Box<Fault>>,
}

impl TransformedBody {
    /// Takes a body, whose bytes pass through `transform` from now on.
    pub(crate) fn new(body: &mut Body, transform: Box<dyn BodyTransform>) -> TransformedBody {
        let inner = std::mem::take(body);
        TransformedBody { inner, transform, trailers: Trailers::new(), broken: None }
    }

    /// Ends the body here. Its sender is notified at once, by the end of its connection or stream.
    fn end_early(&mut self) -> Fill {
        self.inner = Body::Empty;
        Fill::End
    }

    /// Passes new bytes to the step.
    fn step(&mut self, bytes: &[u8], fill: Fill, out: &mut Vec<u8>) -> Result<Fill, Fault> {
        if !bytes.is_empty() && self.transform.on_bytes(bytes, out)? == Fill::End {
            return Ok(self.end_early());
        }
        if fill == Fill::End {
            self.trailers = self.inner.trailers();
            self.transform.on_trailers(&mut self.trailers);
            self.transform.on_end(out)?;
        }
        Ok(fill)
    }
}

impl Source for TransformedBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        if let Some(fault) = self.broken.take() {
            return Poll::Ready(Err(*fault));
        }
        if self.transform.poll_end(cx).is_ready() {
            return Poll::Ready(Ok(self.end_early()));
        }
        let mut bytes = scratch::lend();
        let fill = ready!(self.inner.poll_fill(cx, &mut bytes))?;
        let before = out.len();
        match self.step(&bytes, fill, out) {
            // The caller would discard bytes that come with a fault. So this poll returns the bytes, and the next one the fault.
            Err(fault) if out.len() > before => {
                self.broken = Some(Box::new(fault));
                Poll::Ready(Ok(Fill::More))
            }
            filled => Poll::Ready(filled),
        }
    }

    fn remaining(&self) -> Option<u64> {
        self.transform.remaining(self.inner.remaining())
    }

    fn trailers(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.trailers)
    }

    fn may_trail(&self) -> bool {
        self.inner.may_trail()
    }

    fn expects_continue(&self) -> bool {
        self.inner.expects_continue()
    }
}

/// A body whose transform may take long: it is polled in turns, so that it can pause.
pub(crate) struct PacedBody {
    /// The body, or `None` while it is being polled.
    body: Option<Box<TransformedBody>>,
    filling: Option<LocalBoxFuture<'static, FillResult>>,
}

/// The body after one poll, the bytes that it appended, and the result.
type FillResult = (Box<TransformedBody>, Vec<u8>, Result<Fill, Fault>);

impl PacedBody {
    pub(crate) fn new(body: TransformedBody) -> PacedBody {
        PacedBody { body: Some(Box::new(body)), filling: None }
    }
}

async fn fill(mut body: Box<TransformedBody>) -> FillResult {
    let mut out = Vec::new();
    let filled = poll_fn(|cx| body.poll_fill(cx, &mut out)).await;
    (body, out, filled)
}

impl Source for PacedBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        if let Some(body) = self.body.take() {
            self.filling = Some(Box::pin(turns::in_turns(fill(body))));
        }
        let Some(filling) = &mut self.filling else { return Poll::Ready(Ok(Fill::End)) };
        let (body, mut made, filled) = ready!(filling.as_mut().poll(cx));
        self.filling = None;
        self.body = Some(body);
        out.append(&mut made);
        Poll::Ready(filled)
    }

    /// Usually the new length is unknown; it is known only before the first poll.
    fn remaining(&self) -> Option<u64> {
        self.body.as_ref()?.remaining()
    }

    fn trailers(&mut self) -> Vec<u8> {
        // Harmless: the body is absent only while it is polled, before its end.
        self.body.as_mut().map(|body| body.trailers()).unwrap_or_default()
    }

    fn may_trail(&self) -> bool {
        self.body.as_ref().is_none_or(|body| body.may_trail())
    }

    fn expects_continue(&self) -> bool {
        self.body.as_ref().is_some_and(|body| body.expects_continue())
    }
}
