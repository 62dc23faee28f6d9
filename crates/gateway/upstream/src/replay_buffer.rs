//! Keeps a body while it is sent, up to a limit, so that the request can be retried.
//!
//! gRPC calls announce no length, so it is not known beforehand whether such a body is small. It is kept only if the upstream retries
//! calls by their status.

use std::cell::RefCell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

use fault::Fault;
use message::{Body, Fill, GatheredBody, Source, Trailers};

/// A copy of the sent bytes of a body.
#[derive(Default)]
pub(crate) struct Copy {
    bytes: Vec<u8>,
    is_whole: bool,
    is_over: bool,
}

/// A body that keeps a copy of the bytes that are read from it.
struct ReplayableBody {
    inner: Body,
    copy: Rc<RefCell<Copy>>,
    bytes_max: usize,
}

/// Keeps the sent bytes of a body without a known length.
pub(crate) fn keep(body: &mut Body, bytes_max: usize) -> Option<Rc<RefCell<Copy>>> {
    let is_unknown = matches!(body, Body::Stream(_)) && body.remaining().is_none();
    if !is_unknown || body.expects_continue() {
        return None;
    }
    let copy = Rc::default();
    let kept = ReplayableBody { inner: std::mem::take(body), copy: Rc::clone(&copy), bytes_max };
    *body = Body::Stream(Box::new(kept));
    Some(copy)
}

impl Copy {
    /// Returns the body if all of it was sent and kept. If it was not sent completely, its sender still has the rest. An empty body stays a
    /// stream, as `Forward::answer` explains.
    pub(crate) fn body(&self) -> Option<Body> {
        let is_kept = self.is_whole && !self.is_over;
        is_kept.then(|| {
            if self.bytes.is_empty() {
                Body::Stream(Box::new(GatheredBody::default()))
            } else {
                Body::whole(self.bytes.clone().into())
            }
        })
    }
}

impl Source for ReplayableBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let before = out.len();
        let fill = ready!(self.inner.poll_fill(cx, out))?;
        let mut copy = self.copy.borrow_mut();
        let came = out.get(before..).unwrap_or_default();
        copy.is_over |= came.len() > self.bytes_max.saturating_sub(copy.bytes.len())
            || !kit::memory::might_have_room(copy.bytes.len());
        if copy.is_over {
            copy.bytes = Vec::new()
        } else {
            copy.bytes.extend_from_slice(came)
        }
        copy.is_whole = fill == Fill::End;
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        self.inner.remaining()
    }

    fn trailers(&mut self) -> Trailers {
        let trailers = self.inner.trailers();
        // A copy has no trailers, so a body with trailers is not kept.
        self.copy.borrow_mut().is_over |= !trailers.is_empty();
        trailers
    }

    fn may_trail(&self) -> bool {
        self.inner.may_trail()
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Returns its pieces one by one.
    struct Pieces(Vec<&'static [u8]>);

    impl Source for Pieces {
        fn poll_fill(
            &mut self,
            _: &mut Context<'_>,
            out: &mut Vec<u8>,
        ) -> Poll<Result<Fill, Fault>> {
            out.extend_from_slice(self.0.remove(0));
            Poll::Ready(Ok(if self.0.is_empty() { Fill::End } else { Fill::More }))
        }

        fn remaining(&self) -> Option<u64> {
            None
        }
    }

    #[test]
    fn a_body_is_kept_whole_or_not_at_all() {
        let mut cx = Context::from_waker(Waker::noop());
        for (bytes_max, kept) in [(6, true), (5, false), (0, false)] {
            let mut body = Body::Stream(Box::new(Pieces(vec![b"abc", b"", b"def"])));
            let copy = keep(&mut body, bytes_max).unwrap();
            let mut out = Vec::new();
            for _ in 0..2 {
                assert_eq!(
                    body.poll_fill(&mut cx, &mut out).map(Result::unwrap),
                    Poll::Ready(Fill::More)
                );
                assert!(copy.borrow().body().is_none(), "the body is not complete yet");
            }
            assert_eq!(
                body.poll_fill(&mut cx, &mut out).map(Result::unwrap),
                Poll::Ready(Fill::End)
            );
            assert_eq!(out, b"abcdef");
            match copy.borrow().body() {
                Some(Body::Whole(bytes, _)) if kept => assert_eq!(bytes, "abcdef"),
                other => assert!(other.is_none() && !kept, "{bytes_max}"),
            }
        }
        assert!(keep(&mut Body::whole("abc".into()), 9).is_none(), "it is in memory");
    }
}
