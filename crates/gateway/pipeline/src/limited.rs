//! The route's limit for request bodies.

use std::task::{Context, Poll, ready};

use fault::{Fault, Kind};
use message::{Body, Fill, Request, Source, Trailers};
use plan::Route;

/// Refuses a body whose announced length is too large. A body without a length is counted as it arrives, or refused if the route requires
/// a length.
pub(crate) fn limit(route: &Route, request: &mut Request) -> Result<(), Fault> {
    if route.length_required && request.body.remaining().is_none() {
        let detail = "Send the body with a Content-Length.";
        let fault =
            Fault::with_detail(Kind::RequestInvalid, "the body has no announced length", detail);
        return Err(fault.with_status(411));
    }
    let Some(max) = route.body_bytes_max else { return Ok(()) };
    match request.body.remaining() {
        Some(n) if n > max => Err(too_large(max)),
        Some(_) => Ok(()),
        None => {
            let inner = std::mem::take(&mut request.body);
            request.body = Body::Stream(Box::new(LimitedBody { inner, max, left: max }));
            Ok(())
        }
    }
}

struct LimitedBody {
    inner: Body,
    max: u64,
    left: u64,
}

impl Source for LimitedBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let before = out.len();
        let fill = ready!(self.inner.poll_fill(cx, out))?;
        let added = u64::try_from(out.len().saturating_sub(before)).unwrap_or(u64::MAX);
        match self.left.checked_sub(added) {
            Some(left) => self.left = left,
            None => {
                // Harmless: the fault says that the body is too large.
                out.truncate(before);
                return Poll::Ready(Err(too_large(self.max)));
            }
        }
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn trailers(&mut self) -> Trailers {
        self.inner.trailers()
    }

    fn expects_continue(&self) -> bool {
        self.inner.expects_continue()
    }
}

fn too_large(max: u64) -> Fault {
    Fault::new(Kind::BodyTooLarge, format!("the body is over {max} bytes"))
}
