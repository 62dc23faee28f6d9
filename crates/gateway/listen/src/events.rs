//! Event streams that end between two events once they have to leave, and what a listener that closes leaves, which is cut.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use fault::Fault;
use message::{Body, DirectWriter, EventScanner, Fill, Reply, Source, Trailers};
use pipeline::Account;
use telemetry::StreamKind;

use crate::accept::Connection;
use crate::connections::Permit;
use crate::pace::BodyProgress;
use crate::stream_lifetime::StreamLifetime;

/// The body of an event stream, which ends behind a whole event as soon as it has to leave.
struct Events {
    body: Body,
    stay: Rc<StreamLifetime>,
    /// Nothing where a policy passes whole events only, and so any place between two pieces will do.
    scanner: Option<EventScanner>,
    /// Bytes that were made since it last waited.
    made: usize,
}

/// Bytes that are made before they are written. All of them wait if the client is slow, and many may be.
const MADE_BYTES_MAX: usize = 16 << 10;

/// Makes an event stream end between two events once it has to leave, and gives what it asks. Other replies without an announced end stay
/// as they are.
pub(crate) fn end_between(
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

/// The result of a connection's work, or nothing if its listener was cut before.
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
                // Harmless: a reader that leaves asks for the next events elsewhere.
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

    /// Whatever makes it leave wakes its task.
    fn write_directly(&mut self, writer: &Rc<dyn DirectWriter>) -> bool {
        self.scanner.is_none() && self.body.write_directly(writer)
    }
}
