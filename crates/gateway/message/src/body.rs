//! Message bodies. The sender of a body pulls its next bytes when it has room for them. This is the only back pressure.

use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use fault::{Fault, Kind};
use json::Tape;
use kit::scratch::LARGE_BYTES;
use xml::{Document, Transcript};

use crate::{DecidedNames, DirectWriter, Headers, View, room};

/// Maximum memory reserved in advance for the announced rest of a body. A peer that announces more than it sends obtains no more than this.
const RESERVED_BYTES_MAX: usize = 128 << 10;

/// Trailer lines, raw and validated: `Name: value\r\n...`. Empty if there are none.
pub type Trailers = Vec<u8>;

/// The payload of a request or reply, without its framing.
#[derive(Default)]
pub enum Body {
    /// The body is empty, and no bytes will follow.
    #[default]
    Empty,
    /// The complete body in memory, optionally with its parsed form.
    Whole(Bytes, Option<View>),
    /// Still arriving.
    Stream(Box<dyn Source>),
}

/// A body that was read to its end.
#[derive(Debug, Default)]
pub struct GatheredBody {
    pub bytes: Bytes,
    pub trailers: Trailers,
    /// The parsed form of `bytes`, or of bytes that a step has replaced since.
    view: Option<View>,
}

/// The origin of a streaming body's bytes.
// One method more than the project's limit for traits. A body inside another may be written directly only if the outer one allows it, so
// every wrapper has to be asked.
pub trait Source {
    /// Appends the next bytes to `out`, at most about [`kit::scratch::SCRATCH_BYTES`]. May append bytes and return `End` at once. Must not
    /// be called after `End` or a fault.
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>>;

    /// Returns the number of bytes still to come, or `None` if the sender did not announce it.
    fn remaining(&self) -> Option<u64>;

    /// Returns the trailer lines. Called after the end.
    fn trailers(&mut self) -> Trailers {
        Trailers::new()
    }

    /// Returns true if trailer lines may follow, and false if the framing has no place for them.
    fn may_trail(&self) -> bool {
        true
    }

    /// Returns true if the sender waits for a 100 before it sends the body (`Expect: 100-continue`, RFC 9110, 10.1.1). Pulling the body
    /// sends the 100.
    fn expects_continue(&self) -> bool {
        false
    }

    /// Tells the source that the client's task waits only for the next bytes. Until the task polls again, the source may write bytes
    /// through `writer` and let the task sleep. Returns false if the source never writes directly.
    fn write_directly(&mut self, _writer: &Rc<dyn DirectWriter>) -> bool {
        false
    }
}

/// The result of a call of [`Source::poll_fill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    More,
    /// There are more bytes, but not now. The task is woken when they arrive. Polling earlier is allowed, but useless.
    Later,
    End,
}

impl Body {
    /// Returns a body in memory. Empty bytes make an empty body.
    pub fn whole(bytes: Bytes) -> Body {
        if bytes.is_empty() { Body::Empty } else { Body::Whole(bytes, None) }
    }

    /// Returns a body in memory, with its trailers if there are any.
    pub fn gathered(mut gathered: GatheredBody) -> Body {
        match (gathered.trailers.is_empty(), gathered.bytes.is_empty()) {
            (true, true) => Body::Empty,
            (true, false) => {
                let view = gathered.take_view();
                Body::Whole(gathered.bytes, view)
            }
            (false, _) => {
                gathered.view = None;
                Body::Stream(Box::new(gathered))
            }
        }
    }

    /// Drops the parsed form, because no later step will use it.
    pub fn forget_view(&mut self) {
        if let Body::Whole(_, view) = self {
            *view = None;
        }
    }

    /// Returns the number of bytes still to come, or `None` if it is unknown.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Whole(bytes, _) => Some(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Body::Stream(source) => source.remaining(),
        }
    }

    /// Lets all other ready tasks run before the message is written. Returns at once for a large body, because the other tasks would evict
    /// it from the CPU cache.
    pub async fn yield_to_ready(&self) {
        if self.remaining().is_none_or(|n| n < LARGE_BYTES as u64) {
            kit::task::yield_to_ready().await;
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Body::Empty)
    }

    /// Appends the next bytes to `out`; see [`Source::poll_fill`]. A body in memory returns all of its bytes with `End`, and becomes
    /// `Empty`.
    pub fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<Fill, Fault>> {
        match self {
            Body::Empty => Poll::Ready(Ok(Fill::End)),
            Body::Whole(bytes, _) => {
                out.extend_from_slice(bytes);
                *self = Body::Empty;
                Poll::Ready(Ok(Fill::End))
            }
            Body::Stream(source) => source.poll_fill(cx, out),
        }
    }

    /// Returns the trailer lines. Called after the end.
    pub fn trailers(&mut self) -> Trailers {
        match self {
            Body::Empty | Body::Whole(..) => Trailers::new(),
            Body::Stream(source) => source.trailers(),
        }
    }

    /// Returns true if trailers may follow the body.
    pub fn may_trail(&self) -> bool {
        match self {
            Body::Empty | Body::Whole(..) => false,
            Body::Stream(source) => source.may_trail(),
        }
    }

    /// Returns true if the sender waits for a 100 before it sends the body.
    pub fn expects_continue(&self) -> bool {
        matches!(self, Body::Stream(source) if source.expects_continue())
    }

    /// See [`Source::write_directly`].
    pub fn write_directly(&mut self, writer: &Rc<dyn DirectWriter>) -> bool {
        match self {
            Body::Empty | Body::Whole(..) => false,
            Body::Stream(source) => source.write_directly(writer),
        }
    }

    /// Drops trailers whose names occur in the head or were removed from it. Otherwise a recipient that merges trailers into headers would
    /// see the value that a policy has replaced or removed.
    pub fn guard_trailers(&mut self, head: &Headers) {
        *self = match std::mem::take(self) {
            Body::Stream(inner) if inner.may_trail() => {
                Body::Stream(Box::new(GuardedBody { inner, decided: head.decided() }))
            }
            other @ (Body::Empty | Body::Whole(..) | Body::Stream(_)) => other,
        };
    }

    /// Reads the whole body into one buffer. More than `bytes_max` bytes are a fault of kind `too_large`. Trailers are dropped, because the
    /// body is then sent with a length.
    pub async fn gather(self, bytes_max: usize, too_large: Kind) -> Result<Bytes, Fault> {
        Ok(self.gather_all(bytes_max, too_large).await?.bytes)
    }

    /// Reads the whole body into one buffer, with its trailers. More than `bytes_max` bytes are a fault of kind `too_large`.
    pub async fn gather_all(
        self,
        bytes_max: usize,
        too_large: Kind,
    ) -> Result<GatheredBody, Fault> {
        let over = || Fault::new(too_large, format!("the body is over {bytes_max} bytes"));
        if self.remaining().is_some_and(|n| n > u64::try_from(bytes_max).unwrap_or(u64::MAX)) {
            return Err(over());
        }
        let mut source = match self {
            Body::Empty => return Ok(GatheredBody::default()),
            Body::Whole(bytes, view) => {
                return Ok(GatheredBody { bytes, trailers: Trailers::new(), view });
            }
            Body::Stream(source) => source,
        };
        let mut gathered = Vec::new();
        loop {
            let fill = poll_fn(|cx| source.poll_fill(cx, &mut gathered)).await?;
            if gathered.len() > bytes_max {
                return Err(over());
            }
            if fill == Fill::End {
                return Ok(GatheredBody::new(gathered.into(), source.trailers()));
            }
            // The buffer doubles when it grows, and for a moment both copies exist.
            room(gathered.len())?;
            // Reserves memory for the announced rest, so that the buffer does not grow with each part.
            let rest =
                source.remaining().map_or(0, |rest| usize::try_from(rest).unwrap_or(usize::MAX));
            gathered.reserve(rest.min(RESERVED_BYTES_MAX));
        }
    }

    /// Buffers a body whose announced length is small, so that it can be sent more than once. Any other body stays unchanged.
    pub async fn gather_small(self, bytes_max: usize, too_large: Kind) -> Result<Body, Fault> {
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let small = self.remaining().is_some_and(|n| n <= limit);
        if small && matches!(self, Body::Stream(_)) {
            self.gather(bytes_max, too_large).await.map(Body::whole)
        } else {
            Ok(self)
        }
    }

    /// Returns a second body with the same bytes, or `None` if they are not in memory.
    pub fn replay(&self) -> Option<Body> {
        match self {
            Body::Empty => Some(Body::Empty),
            Body::Whole(bytes, _) => Some(Body::Whole(bytes.clone(), None)),
            Body::Stream(_) => None,
        }
    }
}

impl GatheredBody {
    pub fn new(bytes: Bytes, trailers: Trailers) -> GatheredBody {
        GatheredBody { bytes, trailers, view: None }
    }

    /// Removes and returns the tape of the bytes, if a step has parsed them as JSON.
    pub fn take_tape(&mut self) -> Option<Tape> {
        self.take_view()?.into_tape()
    }

    /// Stores the tape of the bytes for the next step. All of the bytes must be one JSON text.
    pub fn keep_tape(&mut self, tape: Tape) {
        self.view = Some(View::json(&self.bytes, tape));
    }

    /// Returns the tree of the bytes, if a step has parsed them as XML.
    pub fn tree(&self) -> Option<&Arc<Document>> {
        self.view.as_ref().filter(|view| view.is_of(&self.bytes))?.tree()
    }

    /// Stores the tree of the bytes for the next step.
    pub fn keep_tree(&mut self, tree: Arc<Document>) {
        self.view = Some(View::xml(&self.bytes, tree));
    }

    /// Returns the bytes with their transcript, if the step that wrote them recorded one.
    pub fn transcribed(&mut self) -> (&Bytes, Option<&mut Transcript>) {
        let view = self.view.as_mut().filter(|view| view.is_of(&self.bytes));
        (&self.bytes, view.and_then(View::transcript_mut))
    }

    /// Stores the transcript of the bytes for the next step.
    pub fn keep_transcript(&mut self, transcript: Transcript) {
        self.view = Some(View::transcript(&self.bytes, transcript));
    }

    fn take_view(&mut self) -> Option<View> {
        self.view.take().filter(|view| view.is_of(&self.bytes))
    }
}

/// See [`Body::guard_trailers`].
struct GuardedBody {
    inner: Box<dyn Source>,
    decided: DecidedNames,
}

impl Source for GuardedBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        self.inner.poll_fill(cx, out)
    }

    fn remaining(&self) -> Option<u64> {
        self.inner.remaining()
    }

    fn trailers(&mut self) -> Trailers {
        self.decided.others(self.inner.trailers())
    }

    fn expects_continue(&self) -> bool {
        self.inner.expects_continue()
    }
}

/// A buffered body with trailers is sent in chunks, because only chunked framing has trailers.
impl Source for GatheredBody {
    fn poll_fill(&mut self, _: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        out.extend_from_slice(&std::mem::take(&mut self.bytes));
        Poll::Ready(Ok(Fill::End))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn trailers(&mut self) -> Trailers {
        std::mem::take(&mut self.trailers)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::Waker;

    use json::Limits;

    use super::*;

    const LIMITS: Limits = Limits { depth_max: 9, entries_max: 9 };

    fn read(text: &'static str) -> GatheredBody {
        let mut body = GatheredBody::new(Bytes::from(text.to_owned()), Trailers::new());
        body.keep_tape(Tape::read(text, &LIMITS).unwrap());
        body
    }

    /// Returns the body as the next step receives it, without waiting.
    fn next(body: GatheredBody) -> GatheredBody {
        let gathered = pin!(Body::gathered(body).gather_all(99, Kind::BodyTooLarge));
        match gathered.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(body) => body.unwrap(),
            Poll::Pending => panic!("the body is in memory"),
        }
    }

    #[test]
    fn a_view_is_valid_only_for_its_own_bytes() {
        assert!(next(read("[1]")).take_tape().is_some());
        assert!(next(next(read("[1]"))).take_tape().is_some());
        let mut taken = next(read("[1]"));
        taken.take_tape();
        assert!(next(taken).take_tape().is_none());
        let mut equal = read("[1]");
        equal.bytes = Bytes::from("[1]".to_owned());
        assert!(equal.take_tape().is_none(), "these bytes were not parsed");
        let mut part = read("[1]");
        part.bytes.truncate(2);
        assert!(next(part).take_tape().is_none());
        let mut gone = read("[1]");
        gone.bytes = Bytes::new();
        assert!(matches!(Body::gathered(gone), Body::Empty));
        let mut forgotten = Body::gathered(read("[1]"));
        forgotten.forget_view();
        let Body::Whole(bytes, None) = forgotten else { panic!("the bytes are kept") };
        assert_eq!(bytes, "[1]");
        let replayed = Body::gathered(read("[1]")).replay().unwrap();
        assert!(matches!(replayed, Body::Whole(_, None)));
    }

    #[test]
    fn a_tree_is_shared_and_is_not_a_tape() {
        let mut body = GatheredBody::new(Bytes::from("<a/>".to_owned()), Trailers::new());
        let tree = Document::parse(&body.bytes, &xml::Options::default()).unwrap();
        body.keep_tree(Arc::new(tree));
        let body = next(body);
        assert!(body.tree().is_some() && body.tree().is_some());
        let mut other = body;
        assert!(other.take_tape().is_none());
        other.bytes = Bytes::from("<b/>".to_owned());
        assert!(other.tree().is_none());
    }

    #[test]
    fn a_transcript_is_valid_only_for_its_own_bytes() {
        let mut transcript = Transcript::default();
        transcript.start(0, "", "a");
        transcript.started(b"<a");
        transcript.end(2, true);
        let mut body = GatheredBody::new(Bytes::from("<a/>".to_owned()), Trailers::new());
        body.keep_transcript(transcript.complete(4).unwrap());
        let mut body = next(body);
        assert!(body.transcribed().1.is_some() && body.transcribed().1.is_some());
        assert!(body.tree().is_none());
        body.bytes = Bytes::from("<a/>".to_owned());
        assert!(body.transcribed().1.is_none(), "these bytes were not transcribed");
    }
}
