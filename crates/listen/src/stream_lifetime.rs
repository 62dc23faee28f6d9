//! For how long an open stream may stay: until its listener closes, a reload changes its route, or it is old. Then it has to leave,
//! and what has not left when its drain is over is cut. An event stream and a WebSocket have to leave too when the client's credential
//! ends, unless a policy sees to that.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock::Instant;
use kit::{Alarm, clock};
use message::Reply;
use pipeline::Account;
use plan::{Errors, Route, Streams};
use policy::StreamNotes;
use telemetry::{OpenStream, RouteMetrics, StreamEnd, StreamKind};

use crate::accept::Connection;
use crate::calls::{self, CallLifetime};
use crate::connections::Watch;
use crate::events;
use crate::frames::GOING_AWAY;

/// The wishes of one open stream: an event stream, a call of gRPC or a tunnel. It belongs to one task for life.
pub(crate) struct StreamLifetime {
    watch: Watch,
    /// A reload changed or removed the route. Nothing where that is nothing to the stream.
    changed: Option<Rc<Cell<bool>>>,
    streams: Streams,
    leaving: Cell<bool>,
    /// When the client's credential ends.
    expires: Option<Expiry>,
    /// The code with which a WebSocket says that it leaves.
    close_code: Cell<u16>,
    /// For its age and the end of the client's credential, and once it leaves for the end of its drain.
    alarm: RefCell<Alarm>,
    /// A policy's notes about an event stream, with the route's metrics and the worker.
    noted: Option<(Rc<StreamNotes>, Arc<RouteMetrics>, usize)>,
    _open: Option<OpenStream>,
}

/// The end of a client's credential, with the code that a WebSocket tells it by.
#[derive(Clone, Copy)]
struct Expiry {
    at: Instant,
    close_code: u16,
}

/// The code for what a policy forbids (RFC 6455, 7.4.1).
const POLICY_VIOLATION: u16 = 1008;

/// The code of WSO2's API Manager for credentials that are not valid.
const INVALID_CREDENTIALS: u16 = 4001;

impl StreamLifetime {
    /// The lifetime of a reply that is a stream: it has no announced end, and is of events or of a call. Its body then ends as such a
    /// stream does when it has to leave.
    pub(crate) fn of_reply(
        reply: &mut Reply,
        account: &Account,
        connection: &Connection,
        call: &CallLifetime<'_>,
    ) -> Option<Rc<StreamLifetime>> {
        if reply.body.remaining().is_some() {
            return None;
        }
        events::end_between(reply, account, connection)
            .or_else(|| calls::end_by_status(reply, account, call))
    }

    /// A call of gRPC began then. It is counted elsewhere, from its arrival on.
    pub(crate) fn of_call(
        route: &Arc<Route>,
        started: Instant,
        connection: &Connection,
    ) -> StreamLifetime {
        StreamLifetime::new(Some(route), started, None, connection)
    }

    /// A stream begins, with the route that its account has.
    pub(crate) fn begin(
        account: &Account,
        connection: &Connection,
        kind: StreamKind,
    ) -> StreamLifetime {
        let route = account.route();
        let worker = account.ex.caller.worker;
        let notes = account.ex.notes.as_ref();
        // A policy that notes an event stream, or looks into a WebSocket, ends it with the credential.
        let expires = match kind {
            StreamKind::Sse if notes.is_none_or(|notes| notes.stream.is_none()) => expiry(account),
            StreamKind::WebSocket if notes.is_none_or(|notes| notes.relay.is_none()) => {
                expiry(account)
            }
            StreamKind::Sse | StreamKind::WebSocket | StreamKind::Tunnel | StreamKind::Grpc => None,
        };
        let noted = notes.and_then(|notes| notes.stream.clone());
        let noted = noted.filter(|_| kind == StreamKind::Sse).zip(route);
        let noted = noted.map(|(notes, route)| (notes, route.metrics.clone(), worker));
        let open = route.map(|route| OpenStream::begin(&route.metrics, worker, kind));
        let stay = StreamLifetime::new(route, clock::now(), expires, connection);
        StreamLifetime { noted, _open: open, ..stay }
    }

    fn new(
        route: Option<&Arc<Route>>,
        began: Instant,
        expires: Option<Expiry>,
        connection: &Connection,
    ) -> StreamLifetime {
        let watch = connection.permit.listener_state.watch();
        let current = connection.worker.current();
        let changed = route.and_then(|route| watch.of_route(route, &current.plan));
        let streams = route.map_or(Streams::USUAL, |route| route.streams);
        let mut alarm = Alarm::default();
        let age_max = streams.age_max.unwrap_or(Duration::MAX);
        alarm.set_by(began, age_max, expires.map(|expires| expires.at));
        StreamLifetime {
            watch,
            changed,
            streams,
            leaving: Cell::new(false),
            expires,
            close_code: Cell::new(GOING_AWAY),
            alarm: RefCell::new(alarm),
            noted: None,
            _open: None,
        }
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
        let expired = self.expires.filter(|expires| expires.at <= clock::now());
        if let Some(expired) = expired.filter(|_| !is_closing && !is_changed) {
            self.close_code.set(expired.close_code);
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

    /// The code with which a WebSocket that has to leave says so to its client.
    pub(crate) fn close_code(&self) -> u16 {
        self.close_code.get()
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
fn expiry(account: &Account) -> Option<Expiry> {
    let expires = account.ex.identity.as_ref()?.expires?;
    let left = Duration::from_secs(expires).saturating_sub(clock::wall());
    let close_code = match account.route()?.errors {
        Errors::Wso2 => INVALID_CREDENTIALS,
        Errors::Problem | Errors::Kong { .. } | Errors::Soap { .. } | Errors::Flow => {
            POLICY_VIOLATION
        }
    };
    Some(Expiry { at: clock::now().checked_add(left)?, close_code })
}
