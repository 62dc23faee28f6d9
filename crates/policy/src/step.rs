//! Steps: the work of a policy on the way down and on the way up.

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

/// The shape of a step is its cost.
pub enum Step<H> {
    /// Reads and edits the head. Inline, cannot wait.
    Head(Box<dyn OnHead<H>>),
    /// May wait for something outside.
    Call(Box<dyn OnCall<H>>),
    /// Sees the body's bytes as they pass.
    Streamed(Box<dyn OnStreamed<H>>),
    /// Gets the gathered body, within its bound.
    Buffered(Box<dyn OnBuffered<H>>),
}

/// The decision of a step. A fault also turns the exchange around, with the reply of its kind.
pub type Flow = Result<Onward, Fault>;

/// The direction of an exchange after a step.
pub enum Onward {
    Next,
    /// Answer now: the steps above this one see the reply, those below never saw the request. On the way up it
    /// replaces the reply.
    Turn(Reply),
}

pub trait OnHead<H>: Send + Sync {
    fn on_head(&self, ex: &mut Exchange, head: &mut H) -> Flow;
}

/// A decision, or a wait for one. A decision that is ready costs no future and no allocation, and `explain` uses no other.
pub enum Decision<'a, T = Flow> {
    Ready(T),
    /// Nothing outside is called before this is polled.
    Waits(LocalBoxFuture<'a, T>),
}

pub trait OnCall<H>: Send + Sync {
    fn on_call<'a>(&'a self, ex: &'a mut Exchange, head: &'a mut H) -> Decision<'a>;
}

pub trait OnStreamed<H>: Send + Sync {
    /// Looks at the head and returns a step for the body's bytes, or none to let the body pass untouched.
    fn on_streamed(
        &self,
        ex: &mut Exchange,
        head: &mut H,
    ) -> Result<Option<Box<dyn BodyTransform>>, Fault>;
}

/// Sees one body as it passes.
pub trait BodyTransform {
    /// Appends to `out` the bytes that replace `bytes`. `End` ends the body behind them: the rest is not read, and
    /// [`BodyTransform::on_end`] is not called.
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault>;

    /// Ready when the body is to end before its sender ends it, such as at a deadline. Asked before each read; until it is ready, the
    /// task is woken when that changes. [`BodyTransform::on_end`] is not called.
    fn poll_end(&mut self, _cx: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }

    /// Gets the trailer lines behind the body, before [`BodyTransform::on_end`]. It may change them, or take them for the body.
    fn on_trailers(&mut self, _trailers: &mut Trailers) {}

    /// Appends the rest at the end.
    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault>;

    /// Bytes still to come, if known; `inner` is that number for the body that passes.
    fn remaining(&self, _inner: Option<u64>) -> Option<u64> {
        None
    }
}

pub trait OnBuffered<H>: Send + Sync {
    /// Looks at the head before its body is gathered. False: the step is done, and the body passes as it comes.
    fn wants(&self, _ex: &mut Exchange, _head: &mut H) -> Result<bool, Fault> {
        Ok(true)
    }

    /// A larger body is 413 for a request and 502 for a reply.
    fn bytes_max(&self) -> usize;

    /// Looks at a body that comes in pieces, and decides in place of [`OnBuffered::on_buffered`]. None: the step waits for the end.
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

/// Looks at one body while it is gathered, so that a mistake is found before the end.
pub trait OnPieces<H> {
    /// Looks at the bytes from `from` on; `so_far` is everything that has come.
    fn on_piece(
        &mut self,
        ex: &mut Exchange,
        head: &H,
        so_far: &[u8],
        from: usize,
    ) -> Result<(), Fault>;

    /// The body is whole. Reads and may replace it.
    fn on_end(&mut self, ex: &mut Exchange, head: &mut H, body: &mut GatheredBody) -> Flow;
}

impl<H> Step<H> {
    /// The name of the step's cost, for `explain`.
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
