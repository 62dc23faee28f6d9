//! Ends event streams between two events when they have to leave, and ends a connection's work when its listener is cut.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use fault::Fault;
use message::{Body, DirectWriter, EventScanner, Fill, Reply, Source, Trailers};
use pipeline::Account;
use telemetry::StreamKind;

use crate::connection::Connection;
use crate::connections::Permit;
use crate::pace::BodyProgress;
use crate::stream_lifetime::StreamLifetime;

/// The body of an event stream. It ends after a complete event as soon as it has to leave.
struct Events {
    body: Body,
    stay: Rc<StreamLifetime>,
    /// `None` if a policy passes only complete events, so that the stream can end between any two pieces.
    scanner: Option<EventScanner>,
    /// The number of bytes produced since the stream last waited.
    made: usize,
}

/// The maximum number of bytes that are produced before they are written. All of them stay in memory for a slow client, and there may be
/// many slow clients.
const MADE_BYTES_MAX: usize = 16 << 10;

/// Makes an event stream end between two events when it has to leave, and returns its lifetime. Returns `None` for any other reply, which
/// does not change.
pub(crate) fn end_between_events(
    reply: &mut Reply,
    account: &Account,
    connection: &Connection,
    progress: Option<&BodyProgress>,
) -> Option<Rc<StreamLifetime>> {
    if !reply.head.is_event_stream() {
        return None;
    }
    let body = std::mem::take(&mut reply.body);
    let stay =
        Rc::new(StreamLifetime::begin(account, connection, StreamKind::Sse, progress.cloned()));
    let is_whole = account.ex.notes.as_ref().is_some_and(|notes| notes.stream.is_some());
    let scanner = (!is_whole).then(EventScanner::default);
    let events = Events { body, stay: stay.clone(), scanner, made: 0 };
    reply.body = Body::Stream(Box::new(events));
    Some(stay)
}

/// Returns the result of a connection's work, or `None` if its listener is cut first.
pub(crate) async fn until_cut<T>(
    permit: &Permit,
    mut work: impl Future<Output = T> + Unpin,
) -> Option<T> {
    poll_fn(|cx| match Pin::new(&mut work).poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if permit.is_closing(cx.waker()) && permit.listener_state.is_cutting() => {
            Poll::Ready(None)
        }
        Poll::Pending => Poll::Pending,
    })
    .await
}

impl Source for Events {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let is_leaving = self.stay.has_to_leave(cx);
        if is_leaving && self.scanner.as_ref().is_none_or(EventScanner::is_between) {
            self.stay.left();
            return Poll::Ready(Ok(Fill::End));
        }
        if self.made >= MADE_BYTES_MAX {
            self.made = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = out.len();
        let Poll::Ready(fill) = self.body.poll_fill(cx, out) else {
            self.made = 0;
            return Poll::Pending;
        };
        let fill = fill?;
        self.stay.moved();
        self.made = match fill {
            Fill::Later => 0,
            Fill::More | Fill::End => self.made + out.len().saturating_sub(before),
        };
        let Some(scanner) = &mut self.scanner else { return Poll::Ready(Ok(fill)) };
        let mut at = before;
        while let Some(block) = scanner.next_block(out.get(at..).unwrap_or_default()) {
            at += block.len;
            if is_leaving {
                // Harmless: a client that reconnects requests the events after this one.
                out.truncate(at);
                self.stay.left();
                return Poll::Ready(Ok(Fill::End));
            }
        }
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        None
    }

    fn trailers(&mut self) -> Trailers {
        self.body.trailers()
    }

    /// Only complete events may be written directly. The task sleeps meanwhile, but any reason to leave wakes it.
    fn write_directly(&mut self, writer: &Rc<dyn DirectWriter>) -> bool {
        self.scanner.is_none() && self.body.write_directly(writer)
    }
}
