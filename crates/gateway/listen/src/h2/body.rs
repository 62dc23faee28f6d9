//! The body of a request on a stream.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};

use fault::{Fault, Kind};
use http2::BodyPiece;
use message::{Body, Fill, RequestHead, Source, Trailers};
use plan::Listener;

use super::stream::{SharedConnection, Stream};
use crate::pace::{BodyProgress, Pace};

/// The parts of a request, other than its head, that the exchange needs.
#[derive(Default)]
pub(super) struct IncomingRequest {
    pub(super) body: Body,
    /// Counts the bytes that are read from a body that is still arriving.
    pub(super) counted: Option<Rc<Cell<u64>>>,
    /// The progress of a body that is still arriving.
    pub(super) progress: Option<BodyProgress>,
}

/// Returns the body of a stream's request.
pub(super) fn of(stream: &Stream, head: &RequestHead, listener: &Listener) -> IncomingRequest {
    if let Some(whole) = stream.with(|session, number| session.whole_body(number)) {
        return IncomingRequest { body: Body::whole(whole.into()), counted: None, progress: None };
    }
    if head.headers.contains("expect") {
        stream.with(|session, number| session.defer_continue(number));
    }
    let (progress, counted) = (BodyProgress::default(), Rc::new(Cell::new(0)));
    let body = StreamBody {
        shared: stream.shared.clone(),
        number: stream.number,
        trailers: Trailers::new(),
        counted: counted.clone(),
        pace: Pace::of(listener, progress.clone()),
    };
    IncomingRequest {
        body: Body::Stream(Box::new(body)),
        counted: Some(counted),
        progress: Some(progress),
    }
}

/// A body that is still arriving.
struct StreamBody {
    shared: Rc<SharedConnection>,
    number: u32,
    trailers: Trailers,
    counted: Rc<Cell<u64>>,
    pace: Pace,
}

impl Source for StreamBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let before = out.len();
        let mut session = self.shared.session();
        let piece = session.poll_body(cx, self.number, out);
        if !session.unsent().is_empty() {
            self.shared.write_soon();
        }
        drop(session);
        let fill = match piece {
            BodyPiece::None => return self.pace.poll_late(cx).map(Err),
            BodyPiece::Gone => {
                let gone = Fault::new(
                    Kind::ClientGone,
                    "the stream was closed while the request's body was read",
                );
                return Poll::Ready(Err(gone));
            }
            BodyPiece::More => Fill::More,
            BodyPiece::End(trailers) => {
                self.trailers = trailers;
                Fill::End
            }
        };
        let read = out.len() - before;
        self.pace.received(read);
        self.counted.set(self.counted.get().saturating_add(read as u64));
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        self.shared.session().remaining(self.number)
    }

    fn trailers(&mut self) -> Trailers {
        std::mem::take(&mut self.trailers)
    }

    fn expects_continue(&self) -> bool {
        self.shared.session().owes_continue(self.number)
    }
}
