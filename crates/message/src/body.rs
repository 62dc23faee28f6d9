//! Bodies are pulled: the sender of a body asks for its next bytes once it has room for them. This is the only back pressure.

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

/// Memory that is reserved at once for the announced rest of a body. A peer that announces more than it sends has not more than
/// this for its first bytes.
const RESERVED_BYTES_MAX: usize = 128 << 10;

/// Trailer lines, raw and validated: `Name: value\r\n...`. Empty if there are none.
pub type Trailers = Vec<u8>;

/// The payload of a request or reply, without its framing.
#[derive(Default)]
pub enum Body {
    /// Empty, and nothing will come.
    #[default]
    Empty,
    /// Complete, in memory, with what a step read of it.
    Whole(Bytes, Option<View>),
    /// Still arriving.
    Stream(Box<dyn Source>),
}

/// A body that was read to its end.
#[derive(Debug, Default)]
pub struct GatheredBody {
    pub bytes: Bytes,
    pub trailers: Trailers,
    /// Of these bytes, or of those that a step has replaced.
    view: Option<View>,
}

/// The origin of a streaming body's bytes.
// One method more than a trait should have: a body inside another must only be written directly if the outer one lets it, so whatever
// wraps a body has to be asked.
pub trait Source {
    /// Appends the next bytes to `out`, at most about [`kit::scratch::SCRATCH_BYTES`]. It may append and return `End` at once.
    /// After `End` or a fault it is not called again.
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>>;

    /// Bytes still to come, if the sender announced them.
    fn remaining(&self) -> Option<u64>;

    /// The trailer lines, after the end.
    fn trailers(&mut self) -> Trailers {
        Trailers::new()
    }

    /// True if trailer lines may come. False if the framing has no place for them.
    fn may_trail(&self) -> bool {
        true
    }

    /// True if the sender waits for a 100 before it sends the body (`Expect: 100-continue`, RFC 9110, 10.1.1). Pulling the body
    /// sends the 100.
    fn awaits_leave(&self) -> bool {
        false
    }

    /// The task waits for nothing but the next bytes. Until it asks for them, whoever makes them may write them by this writer and leave
    /// the task asleep. False if it never does.
    fn write_directly(&mut self, _writer: &Rc<dyn DirectWriter>) -> bool {
        false
    }
}

/// The result of a call of [`Source::poll_fill`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    More,
    /// There is more, but nothing now: the task is woken when there is. Asking again before that costs a look in vain, and is allowed.
    Later,
    End,
}

impl Body {
    /// A body in memory; empty bytes are an empty body.
    pub fn whole(bytes: Bytes) -> Body {
        if bytes.is_empty() { Body::Empty } else { Body::Whole(bytes, None) }
    }

    /// A body in memory, with its trailers if there are some.
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

    /// Drops what was read of it: no step will ask for it any more.
    pub fn forget_view(&mut self) {
        if let Body::Whole(_, view) = self {
            *view = None;
        }
    }

    /// Bytes still to come, if known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            Body::Empty => Some(0),
            Body::Whole(bytes, _) => Some(u64::try_from(bytes.len()).unwrap_or(u64::MAX)),
            Body::Stream(source) => source.remaining(),
        }
    }

    /// Lets all other ready tasks run before the message is written. A large body does not wait: the other tasks would push it
    /// out of the CPU's cache.
    pub async fn yield_to_ready(&self) {
        if self.remaining().is_none_or(|n| n < LARGE_BYTES as u64) {
            kit::task::yield_to_ready().await;
        }
    }

    pub fn is_empty(&self) -> bool {
        matches!(self, Body::Empty)
    }

    /// Appends the next bytes to `out`; see [`Source::poll_fill`]. A body at its end is `Empty` and returns `End`.
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

    /// The trailer lines, after the end.
    pub fn trailers(&mut self) -> Trailers {
        match self {
            Body::Empty | Body::Whole(..) => Trailers::new(),
            Body::Stream(source) => source.trailers(),
        }
    }

    /// True if trailers may come after the body.
    pub fn may_trail(&self) -> bool {
        match self {
            Body::Empty | Body::Whole(..) => false,
            Body::Stream(source) => source.may_trail(),
        }
    }

    /// True if its sender waits for a 100 before it sends the body.
    pub fn awaits_leave(&self) -> bool {
        matches!(self, Body::Stream(source) if source.awaits_leave())
    }

    /// See [`Source::write_directly`].
    pub fn write_directly(&mut self, writer: &Rc<dyn DirectWriter>) -> bool {
        match self {
            Body::Empty | Body::Whole(..) => false,
            Body::Stream(source) => source.write_directly(writer),
        }
    }

    /// Drops trailers whose name the head has decided about. Otherwise a header that a policy set or removed in the head would
    /// come back for a reader that merges trailers into headers.
    pub fn guard_trailers(&mut self, head: &Headers) {
        *self = match std::mem::take(self) {
            Body::Stream(inner) if inner.may_trail() => {
                Body::Stream(Box::new(GuardedBody { inner, decided: head.decided() }))
            }
            other @ (Body::Empty | Body::Whole(..) | Body::Stream(_)) => other,
        };
    }

    /// Reads all of it into one piece; more than `bytes_max` is a fault of kind `too_large`. Trailers are dropped: a gathered
    /// body gets a length.
    pub async fn gather(self, bytes_max: usize, too_large: Kind) -> Result<Bytes, Fault> {
        Ok(self.gather_all(bytes_max, too_large).await?.bytes)
    }

    /// Reads all of it into one piece, with its trailers; more than `bytes_max` is a fault of kind `too_large`.
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
            // It grows to twice its size, and is moved.
            room(gathered.len())?;
            // The rest is on its way: it is read into one piece of memory, which does not grow with each part.
            let rest =
                source.remaining().map_or(0, |rest| usize::try_from(rest).unwrap_or(usize::MAX));
            gathered.reserve(rest.min(RESERVED_BYTES_MAX));
        }
    }

    /// Gathers a body whose announced length is small, so that it can be sent more than once. Any other body stays as it is.
    pub async fn gather_small(self, bytes_max: usize, too_large: Kind) -> Result<Body, Fault> {
        let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX);
        let small = self.remaining().is_some_and(|n| n <= limit);
        if small && matches!(self, Body::Stream(_)) {
            self.gather(bytes_max, too_large).await.map(Body::whole)
        } else {
            Ok(self)
        }
    }

    /// A second body with the same bytes, if they are in memory.
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

    /// Takes the tape of the bytes, if a step has read them as JSON.
    pub fn take_tape(&mut self) -> Option<Tape> {
        self.take_view()?.into_tape()
    }

    /// Keeps the tape of the bytes, all of which are one text of JSON, for the next step.
    pub fn keep_tape(&mut self, tape: Tape) {
        self.view = Some(View::json(&self.bytes, tape));
    }

    /// The tree of the bytes, if a step has read them as XML.
    pub fn tree(&self) -> Option<&Arc<Document>> {
        self.view.as_ref().filter(|view| view.is_of(&self.bytes))?.tree()
    }

    /// Keeps the tree of the bytes for the next step.
    pub fn keep_tree(&mut self, tree: Arc<Document>) {
        self.view = Some(View::xml(&self.bytes, tree));
    }

    /// The bytes with their transcript, if the step that wrote them noted one.
    pub fn transcribed(&mut self) -> (&Bytes, Option<&mut Transcript>) {
        let view = self.view.as_mut().filter(|view| view.is_of(&self.bytes));
        (&self.bytes, view.and_then(View::events))
    }

    /// Keeps the transcript of the bytes for the next step.
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

    fn awaits_leave(&self) -> bool {
        self.inner.awaits_leave()
    }
}

/// It is sent in chunks, since trailers need them.
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

    /// The body as the next step gets it, which it need not wait for.
    fn next(body: GatheredBody) -> GatheredBody {
        let gathered = pin!(Body::gathered(body).gather_all(99, Kind::BodyTooLarge));
        match gathered.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(body) => body.unwrap(),
            Poll::Pending => panic!("it is in memory"),
        }
    }

    #[test]
    fn a_view_goes_with_its_bytes_and_no_others() {
        assert!(next(read("[1]")).take_tape().is_some());
        assert!(next(next(read("[1]"))).take_tape().is_some());
        let mut taken = next(read("[1]"));
        taken.take_tape();
        assert!(next(taken).take_tape().is_none());
        let mut equal = read("[1]");
        equal.bytes = Bytes::from("[1]".to_owned());
        assert!(equal.take_tape().is_none(), "these bytes were not read");
        let mut part = read("[1]");
        part.bytes.truncate(2);
        assert!(next(part).take_tape().is_none());
        let mut gone = read("[1]");
        gone.bytes = Bytes::new();
        assert!(matches!(Body::gathered(gone), Body::Empty));
        let mut forgotten = Body::gathered(read("[1]"));
        forgotten.forget_view();
        let Body::Whole(bytes, None) = forgotten else { panic!("its bytes stay") };
        assert_eq!(bytes, "[1]");
        let replayed = Body::gathered(read("[1]")).replay().unwrap();
        assert!(matches!(replayed, Body::Whole(_, None)));
    }

    #[test]
    fn a_tree_is_shared_and_is_no_tape() {
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
    fn a_transcript_is_lent_with_its_bytes_and_no_others() {
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
        assert!(body.transcribed().1.is_none(), "these bytes are others");
    }
}
