//! A request's body, from its stream.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use http2::Piece;
use kit::{Alarm, clock};
use message::{Body, Fill, RequestHead, Source, Trailers};

use super::stream::{Shared, Stream};

/// The body of a stream's request, and where its bytes are counted as they are read.
pub(super) fn of(stream: &Stream, head: &RequestHead, timeout: Duration) -> (Body, Rc<Cell<u64>>) {
    let counted = Rc::new(Cell::new(0));
    if let Some(whole) = stream.with(|session, number| session.whole_body(number)) {
        counted.set(whole.len() as u64);
        return (Body::whole(whole.into()), counted);
    }
    if head.headers.contains("expect") {
        stream.with(|session, number| session.owe_leave(number));
    }
    let body = StreamBody {
        shared: stream.shared.clone(),
        number: stream.number,
        trailers: Trailers::new(),
        counted: counted.clone(),
        alarm: Alarm::default(),
        timeout,
    };
    (Body::Stream(Box::new(body)), counted)
}

/// A body that is still coming.
struct StreamBody {
    shared: Rc<Shared>,
    number: u32,
    trailers: Trailers,
    counted: Rc<Cell<u64>>,
    alarm: Alarm,
    /// Allowed between two frames.
    timeout: Duration,
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
            Piece::None => return self.poll_alarm(cx),
            Piece::Gone => {
                let gone = Fault::new(Kind::ClientGone, "the stream, while its body was read");
                return Poll::Ready(Err(gone));
            }
            Piece::More => Fill::More,
            Piece::End(trailers) => {
                self.trailers = trailers;
                Fill::End
            }
        };
        self.alarm.clear();
        let read = (out.len() - before) as u64;
        self.counted.set(self.counted.get().saturating_add(read));
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        self.shared.session().remaining(self.number)
    }

    fn trailers(&mut self) -> Trailers {
        std::mem::take(&mut self.trailers)
    }
}

impl StreamBody {
    fn poll_alarm(&mut self, cx: &mut Context<'_>) -> Poll<Result<Fill, Fault>> {
        if !self.alarm.is_set() {
            self.alarm.set(clock::now(), self.timeout);
        }
        std::task::ready!(self.alarm.poll(cx));
        let why = format!("the request's body paused for {:?}", self.timeout);
        Poll::Ready(Err(Fault::new(Kind::RequestTimeout, why)))
    }
}
