//! For how long an open stream may stay: until its listener closes, a reload changes its route, or it is old. Then it has to leave,
//! and what has not left when its drain is over is cut.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::task::{Context, Poll};

use fault::{Fault, Kind};
use kit::{Alarm, clock};
use pipeline::Account;
use plan::Streams;
use telemetry::{OpenStream, StreamKind};

use crate::accept::Connection;
use crate::connections::Watch;

/// The wishes of one open stream: an event stream or a tunnel. It belongs to one task for life.
pub(crate) struct Stay {
    watch: Watch,
    /// A reload changed or removed the route. Nothing where that is nothing to the stream.
    changed: Option<Rc<Cell<bool>>>,
    streams: Streams,
    leaving: Cell<bool>,
    /// For its age, and once it leaves for the end of its drain.
    alarm: RefCell<Alarm>,
    _open: Option<OpenStream>,
}

impl Stay {
    /// A stream begins, with the route that its account has.
    pub(crate) fn begin(account: &Account, connection: &Connection, kind: StreamKind) -> Stay {
        let watch = connection.permit.listener_state.watch();
        let current = connection.worker.current();
        let route = account.route();
        let changed = route.and_then(|route| watch.of_route(route, &current.plan));
        let streams = route.map_or(Streams::USUAL, |route| route.streams);
        let mut alarm = Alarm::default();
        if let Some(age_max) = streams.age_max {
            alarm.set(clock::now(), age_max);
        }
        let worker = account.ex.caller.worker;
        let open = route.map(|route| OpenStream::begin(&route.metrics, worker, kind));
        let (leaving, alarm) = (Cell::new(false), RefCell::new(alarm));
        Stay { watch, changed, streams, leaving, alarm, _open: open }
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

    /// The fault of a stream that was cut.
    pub(crate) fn cut(&self) -> Fault {
        let drain = self.streams.drain;
        Fault::new(Kind::StreamCut, format!("the stream had not ended {drain:?} after it was to"))
    }
}
