//! The body of a reply, from its stream, at the pace of its reader. If the body is dropped before its end, the stream is reset.

use std::future::poll_fn;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fault::Fault;
use http2::{BodyPiece, StreamFailure};
use message::{Body, Fill, Reply, Source, Trailers};

use super::call::{StartedReply, broken, lost};
use super::shared::Stream;
use super::upload::Upload;
use crate::reply::Lease;

/// A body still arriving.
struct IncomingBody {
    stream: Stream,
    upload: Upload,
    timeout: Option<Duration>,
    hold: Lease,
}

/// An incoming body with its lease. Both end together.
struct LeasedBody {
    incoming: Option<IncomingBody>,
    trailers: Trailers,
    may_trail: bool,
}

/// Converts a started reply into one that can be forwarded.
pub(crate) fn reply(begun: StartedReply, hold: Lease) -> Reply {
    // An event stream or a gRPC reply has no timeout here: the client's side limits silence in both directions, and notices if the client
    // has gone.
    let timeout = (!crate::reply::is_stream(&begun.head, &hold)).then_some(hold.timeout);
    let whole = begun.stream.with(|session, number| session.whole_body(number));
    let body = match whole {
        // The rest of the request is not sent, since the target replied without it.
        Some(bytes) => Body::whole(bytes.into()),
        None => {
            hold.alarm.borrow_mut().clear();
            let may_trail = begun.stream.with(|session, n| session.remaining(n)).is_none();
            let incoming =
                IncomingBody { stream: begun.stream, upload: begun.upload, timeout, hold };
            let incoming = Some(incoming);
            Body::Stream(Box::new(LeasedBody { incoming, trailers: Trailers::new(), may_trail }))
        }
    };
    Reply { head: begun.head, body, tunnel: None }
}

/// A small reply's whole body with its trailers, for a caller that has its own deadline.
pub(crate) async fn whole(
    begun: StartedReply,
    bytes_max: usize,
) -> Result<(Vec<u8>, Trailers), &'static str> {
    let (stream, mut out) = (begun.stream, Vec::new());
    poll_fn(|cx| {
        loop {
            let piece = stream.with(|session, number| session.poll_body(cx, number, &mut out));
            match piece {
                BodyPiece::None => return Poll::Pending,
                BodyPiece::Gone => return Poll::Ready(Err("its reply is incomplete")),
                BodyPiece::More | BodyPiece::End(_) if out.len() > bytes_max => {
                    return Poll::Ready(Err("its reply is too large"));
                }
                BodyPiece::More => {}
                BodyPiece::End(trailers) => {
                    return Poll::Ready(Ok((std::mem::take(&mut out), trailers)));
                }
            }
        }
    })
    .await
}

impl IncomingBody {
    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(Fill, Trailers), Fault>> {
        // The rest of the request is sent while its reply is read.
        if let Poll::Ready(Err(fault)) = self.upload.poll(cx, &self.stream) {
            return Poll::Ready(Err(fault));
        }
        let piece = self.stream.with(|session, number| session.poll_body(cx, number, out));
        let fill = match piece {
            BodyPiece::None => return self.poll_late(cx).map(Err),
            BodyPiece::Gone => return Poll::Ready(Err(self.gone())),
            BodyPiece::More => (Fill::More, Trailers::new()),
            BodyPiece::End(trailers) => (Fill::End, trailers),
        };
        self.hold.alarm.borrow_mut().clear();
        Poll::Ready(Ok(fill))
    }

    fn gone(&self) -> Fault {
        let url = self.hold.in_flight.url();
        match self.stream.with(|session, number| session.failure(number)) {
            StreamFailure::Lost => lost(&self.stream, url),
            gone @ (StreamFailure::Refused
            | StreamFailure::Reset(_)
            | StreamFailure::Malformed(_)) => broken(gone, &format!("{url}: in the body")),
        }
    }

    fn poll_late(&self, cx: &mut Context<'_>) -> Poll<Fault> {
        let late = self.hold.poll_late(cx, self.timeout, self.upload.is_starved());
        late.map(|(fault, paused)| {
            if paused {
                self.stream.shared().suspect();
            }
            fault
        })
    }
}

impl Source for LeasedBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let Some(incoming) = &mut self.incoming else { return Poll::Ready(Ok(Fill::End)) };
        let (fill, trailers) = ready!(incoming.poll_fill(cx, out))?;
        if fill == Fill::End {
            self.trailers = trailers;
            self.incoming = None;
        }
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        match &self.incoming {
            Some(incoming) => incoming.stream.with(|session, number| session.remaining(number)),
            None => Some(0),
        }
    }

    fn trailers(&mut self) -> Trailers {
        std::mem::take(&mut self.trailers)
    }

    fn may_trail(&self) -> bool {
        self.may_trail
    }
}
