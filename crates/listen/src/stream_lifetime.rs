//! For how long an open stream may stay: until its listener closes, a reload changes its route, or it is old. Then it has to leave,
//! and what has not left when its drain is over is cut. An event stream has to leave too when the client's credential ends, unless a
//! policy sees to that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock::Instant;
use kit::{Alarm, clock};
use pipeline::Account;
use plan::Streams;
use policy::StreamNotes;
use telemetry::{OpenStream, RouteMetrics, StreamEnd, StreamKind};

use crate::accept::Connection;
use crate::connections::Watch;

/// The wishes of one open stream: an event stream or a tunnel. It belongs to one task for life.
pub(crate) struct StreamLifetime {
    watch: Watch,
    /// A reload changed or removed the route. Nothing where that is nothing to the stream.
    changed: Option<Rc<Cell<bool>>>,
    streams: Streams,
    leaving: Cell<bool>,
    /// For its age and the end of the client's credential, and once it leaves for the end of its drain.
    alarm: RefCell<Alarm>,
    /// A policy's notes about an event stream, with the route's metrics and the worker.
    noted: Option<(Rc<StreamNotes>, Arc<RouteMetrics>, usize)>,
    _open: Option<OpenStream>,
}

impl StreamLifetime {
    /// A stream begins, with the route that its account has.
    pub(crate) fn begin(
        account: &Account,
        connection: &Connection,
        kind: StreamKind,
    ) -> StreamLifetime {
        let watch = connection.permit.listener_state.watch();
        let current = connection.worker.current();
        let route = account.route();
        let changed = route.and_then(|route| watch.of_route(route, &current.plan));
        let streams = route.map_or(Streams::USUAL, |route| route.streams);
        let worker = account.ex.caller.worker;
        let notes = account.ex.notes.as_ref().and_then(|notes| notes.stream.clone());
        let expires = match (kind, &notes) {
            (StreamKind::Sse, None) => expiry(account),
            // The policy that notes it ends it.
            (StreamKind::Sse, Some(_)) => None,
            // What passes there is no answer to the one request alone.
            (StreamKind::WebSocket | StreamKind::Tunnel | StreamKind::Grpc, _) => None,
        };
        let mut alarm = Alarm::default();
        alarm.set_by(clock::now(), streams.age_max.unwrap_or(Duration::MAX), expires);
        let noted = notes.filter(|_| kind == StreamKind::Sse).zip(route);
        let noted = noted.map(|(notes, route)| (notes, route.metrics.clone(), worker));
        let open = route.map(|route| OpenStream::begin(&route.metrics, worker, kind));
        let (leaving, alarm) = (Cell::new(false), RefCell::new(alarm));
        StreamLifetime { watch, changed, streams, leaving, alarm, noted, _open: open }
    }

    /// True if the stream has to leave; if not yet, the task is woken when it does.
    pub(crate) fn has_to_leave(&self, cx: &mut Context<'_>) -> bool {
        let is_closing = self.watch.is_closing(cx.waker());
        if self.leaving.get() {
            return true;
        }
        let is_changed = self.changed.as_ref().is_some_and(|changed| changed.get());
        let mut alarm = self.alarm.borrow_mut();
        if !(is_closing || is_changed || alarm.poll(cx).is_ready()) {
            return false;
        }
        self.leaving.set(true);
        alarm.set(clock::now(), self.streams.drain);
        true
    }

    /// Ready when the stream is to be cut.
    pub(crate) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        match self.has_to_leave(cx) {
            true if self.watch.is_cutting() => Poll::Ready(()),
            true => self.alarm.borrow_mut().poll(cx),
            false => Poll::Pending,
        }
    }

    /// The stream has ended because it had to leave.
    pub(crate) fn left(&self) {
        let Some((notes, metrics, worker)) = &self.noted else { return };
        if notes.end.get().is_none() {
            notes.end.set(Some(StreamEnd::Leaving));
            metrics.stream_ended(*worker, StreamEnd::Leaving);
        }
    }

    /// The fault of a stream that was cut.
    pub(crate) fn cut(&self) -> Fault {
        let drain = self.streams.drain;
        Fault::new(Kind::StreamCut, format!("the stream had not ended {drain:?} after it was to"))
    }
}

/// When the client's credential ends.
fn expiry(account: &Account) -> Option<Instant> {
    let expires = account.ex.identity.as_ref()?.expires?;
    clock::now().checked_add(Duration::from_secs(expires).saturating_sub(clock::wall()))
}
