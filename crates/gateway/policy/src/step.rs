//! Steps: the work of a policy on the request and on the reply.

use std::fmt;
use std::task::{Context, Poll};

use fault::Fault;
use kit::LocalBoxFuture;
use message::{Fill, GatheredBody, Reply, ReplyHead, RequestHead, Trailers};

use crate::Exchange;

/// One policy of a route, built by `compile` and shared by all workers.
pub struct Policy {
    pub name: &'static str,
    pub request: Option<Step<RequestHead>>,
    pub response: Option<Step<ReplyHead>>,
}

/// A request step or a response step. Its variant determines what it can access, and so what it costs.
pub enum Step<H> {
    /// Reads and edits the head. It runs inline and cannot wait.
    Head(Box<dyn OnHead<H>>),
    /// Reads and edits the head, and may wait, for example for another service.
    Call(Box<dyn OnCall<H>>),
    /// Sees the body's bytes as they pass.
    Streamed(Box<dyn OnStreamed<H>>),
    /// Gets the whole body in memory, within its bound.
    Buffered(Box<dyn OnBuffered<H>>),
}

/// The decision of a step. A fault ends the descent like [`Onward::Turn`], with a reply that is made from the fault.
pub type Flow = Result<Onward, Fault>;

/// The direction of an exchange after a step.
pub enum Onward {
    Next,
    /// Answer with this reply now. The response steps of the policies above see it; the policies below never see the request. From a
    /// response step, it replaces the current reply.
    Turn(Reply),
}

pub trait OnHead<H>: Send + Sync {
    fn on_head(&self, ex: &mut Exchange, head: &mut H) -> Flow;
}

/// A decision, or a future that resolves to one. A ready decision needs no future and no allocation. `explain` uses only ready decisions.
pub enum Decision<'a, T = Flow> {
    Ready(T),
    /// No other service is called before the future is polled.
    Waits(LocalBoxFuture<'a, T>),
}

pub trait OnCall<H>: Send + Sync {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut H) -> Decision<'a>;
}

pub trait OnStreamed<H>: Send + Sync {
    /// Reads the head and returns a transform for the body's bytes, or `None` to let the body pass unchanged.
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut H,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault>;
}

/// Transforms one body while it is streamed.
pub trait BodyTransform {
    /// Appends to `out` the bytes that replace `bytes`. `End` ends the body after them: the rest is not read, and [`BodyTransform::on_end`]
    /// is not called.
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault>;

    /// Ready when the body must end before its sender ends it, such as at a deadline. It is polled before each read, and wakes the task
    /// when it becomes ready. In this case [`BodyTransform::on_end`] is not called.
    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Gets the trailer lines after the body, before [`BodyTransform::on_end`]. It may change them, or move them into the body.
    fn on_trailers(&mut self, _trailers: &mut Trailers) {}

    /// Appends the remaining bytes at the end of the body.
    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault>;

    /// Returns the number of bytes still to come, if known. `inner` is this number for the original body.
    fn remaining(&self, _inner: Option<u64>) -> Option<u64> {
        None
    }
}

pub trait OnBuffered<H>: Send + Sync {
    /// Reads the head before the body is gathered. If it returns false, the body is streamed, see [`OnBuffered::on_passing`].
    fn wants(&self, _ex: &mut Exchange, _head: &mut H) -> Result<bool, Fault> {
        Ok(true)
    }

    /// Called if the body is not gathered. Returns a transform for its bytes, or `None` to let the body pass unchanged. Unlike one of
    /// [`OnStreamed`], the transform runs in turns, so it may do as much work on the bytes as a step on a whole body.
    fn on_passing(
        &self,
        _ex: &mut Exchange,
        _head: &mut H,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault> {
        Ok(None)
    }

    /// Returns the maximum size of the body. A larger body gets 413 for a request, and 502 for a reply.
    fn bytes_max(&self) -> usize;

    /// Returns an inspector for a body that arrives in pieces, which then decides in place of [`OnBuffered::on_buffered`]. If `None`, the
    /// step waits for the end of the body.
    fn on_pieces(&self, _ex: &mut Exchange, _head: &H) -> Option<Box<dyn OnPieces<H>>> {
        None
    }

    /// Reads and may replace the body.
    fn on_buffered<'a>(
        &'a self,
        ex: &'a mut Exchange,
        head: &'a mut H,
        body: &'a mut GatheredBody,
    ) -> Decision<'a>;
}

/// Inspects one body while it is gathered, so that an error is found before its end.
pub trait OnPieces<H> {
    /// Inspects the bytes from `from` on. `so_far` is everything received so far.
    fn on_piece(
        &mut self,
        ex: &mut Exchange,
        head: &H,
        so_far: &[u8],
        from: usize,
    ) -> Result<(), Fault>;

    /// Called with the complete body, which it may replace.
    fn on_end(&mut self, ex: &mut Exchange, head: &mut H, body: &mut GatheredBody) -> Flow;
}

impl<H> Step<H> {
    /// Returns the name of the step's shape, for `explain`.
    pub fn cost(&self) -> &'static str {
        match self {
            Step::Head(_) => "head",
            Step::Call(_) => "call",
            Step::Streamed(_) => "streamed",
            Step::Buffered(_) => "buffered",
        }
    }
}

impl fmt::Debug for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policy")
            .field("name", &self.name)
            .field("request", &self.request.as_ref().map(Step::cost))
            .field("response", &self.response.as_ref().map(Step::cost))
            .finish()
    }
}
