//! The lifetime of open streams. A stream has to leave when its listener closes, when a reload changes its route, when it reaches its age
//! limit, when nothing has passed for too long, or when the client's credential expires, unless a policy handles that. After another
//! process has replaced this one, streams may stay for some more time. A stream that has to leave is cut if it has not left when its drain
//! is over. A gRPC call, or a tunnel other than a WebSocket, is cut as soon as its credential expires, since there is no way to tell the
//! client to leave.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock::Instant;
use kit::{Alarm, clock};
use pipeline::{Account, CallStart};
use plan::{Errors, IDLE_MAX, Route, Streams};
use policy::StreamNotes;
use telemetry::{OpenStream, RouteMetrics, StreamEnd, StreamKind};

use crate::connection::Connection;
use crate::connections::Watch;
use crate::frames::GOING_AWAY;
use crate::pace::BodyProgress;

/// The lifetime of one open stream: an event stream, a gRPC call or a tunnel. It belongs to one task at a time.
pub(crate) struct StreamLifetime {
    watch: Watch,
    /// True once a reload has changed or removed the route. `None` if reloads do not affect the stream.
    changed: Option<Rc<Cell<bool>>>,
    streams: Streams,
    leaving: Cell<bool>,
    /// True once the alarm has been set for the time that streams may stay after another process has replaced this one.
    outlived: Cell<bool>,
    /// When the client's credential expires, if it does and no policy handles that.
    expires: Option<Expiry>,
    /// The close code with which a WebSocket leaves.
    close_code: Cell<u16>,
    /// Set for the earliest of these: the age limit, the expiry of the client's credential, and the end of the time that streams may stay
    /// after another process has replaced this one. Once the stream leaves, set for the end of its drain.
    alarm: RefCell<Alarm>,
    /// `None` for a tunnel, which checks for silence itself.
    silence: Option<StreamSilence>,
    /// True if the stream is cut as soon as the client's credential expires.
    ends_with_credential: bool,
    /// A policy's notes about an event stream, with the route's metrics and the worker.
    noted: Option<(Rc<StreamNotes>, Arc<RouteMetrics>, usize)>,
    _open: Option<OpenStream>,
}

/// Silence in both directions. A stream forwards data without reading the clock, so silence is checked at intervals.
struct StreamSilence {
    max: Duration,
    /// The number of consecutive checks without data.
    checks: Cell<u32>,
    alarm: RefCell<Alarm>,
    /// True if some of the reply has passed since the last check.
    moved: Cell<bool>,
    /// The progress of the request, if it is still arriving.
    request: Option<BodyProgress>,
}

/// The number of checks during the maximum silence. A silent stream ends late by at most a quarter of it.
const CHECKS: u32 = 4;

/// The expiry of a client's credential, and the close code that a WebSocket then gets.
#[derive(Clone, Copy)]
struct Expiry {
    at: Instant,
    close_code: u16,
}

/// The code for a violated policy (RFC 6455, 7.4.1).
const POLICY_VIOLATION: u16 = 1008;

/// The code of WSO2's API Manager for invalid credentials.
const INVALID_CREDENTIALS: u16 = 4001;

impl StreamLifetime {
    /// Starts the lifetime of a gRPC call that arrived at this time. It is not counted as a stream here.
    pub(crate) fn of_call(
        route: &Arc<Route>,
        call: CallStart,
        connection: &Connection,
        progress: Option<BodyProgress>,
    ) -> StreamLifetime {
        let expires = call.expires.and_then(|expires| Expiry::at(expires, POLICY_VIOLATION));
        let stay = StreamLifetime::new(Some(route), call.started, expires, connection);
        let silence = Some(StreamSilence::of(&stay.streams, progress));
        StreamLifetime { silence, ends_with_credential: true, ..stay }
    }

    /// Starts the lifetime of a stream on the route of its account.
    pub(crate) fn begin(
        account: &Account,
        connection: &Connection,
        kind: StreamKind,
        progress: Option<BodyProgress>,
    ) -> StreamLifetime {
        let route = account.route();
        let worker = account.ex.caller.worker;
        let notes = account.ex.notes.as_ref();
        // A policy that observes an event stream or a WebSocket handles the expiry itself.
        let expires = match kind {
            StreamKind::Sse if notes.is_none_or(|notes| notes.stream.is_none()) => expiry(account),
            StreamKind::WebSocket if notes.is_none_or(|notes| notes.relay.is_none()) => {
                expiry(account)
            }
            StreamKind::Tunnel | StreamKind::Grpc => expiry(account),
            StreamKind::Sse | StreamKind::WebSocket => None,
        };
        let noted = notes.and_then(|notes| notes.stream.clone());
        let noted = match (noted, route) {
            (Some(notes), Some(route)) if kind == StreamKind::Sse => {
                Some((notes, route.metrics.clone(), worker))
            }
            (None | Some(_), _) => None,
        };
        let open = route.map(|route| OpenStream::begin(&route.metrics, worker, kind));
        let stay = StreamLifetime::new(route, clock::now(), expires, connection);
        let silence = match kind {
            StreamKind::Sse | StreamKind::Grpc => Some(StreamSilence::of(&stay.streams, progress)),
            StreamKind::WebSocket | StreamKind::Tunnel => None,
        };
        let ends_with_credential = matches!(kind, StreamKind::Tunnel | StreamKind::Grpc);
        StreamLifetime { noted, silence, ends_with_credential, _open: open, ..stay }
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
            outlived: Cell::new(false),
            expires,
            close_code: Cell::new(GOING_AWAY),
            alarm: RefCell::new(alarm),
            silence: None,
            ends_with_credential: false,
            noted: None,
            _open: None,
        }
    }

    /// True if the stream has to leave. Otherwise the task is woken when the stream has to leave.
    pub(crate) fn has_to_leave(&self, cx: &mut Context<'_>) -> bool {
        let is_closing = self.watch.ends_streams(cx.waker());
        if self.leaving.get() {
            return true;
        }
        let is_changed = self.changed.as_ref().is_some_and(|changed| changed.get());
        let is_silent = self.is_silent(cx);
        let mut alarm = self.alarm.borrow_mut();
        if self.watch.leaves_streams() && !self.outlived.replace(true) {
            let until = self.streams.upgrade.and_then(|stay| clock::now().checked_add(stay));
            alarm.bring_forward(until);
        }
        if !(is_closing || is_changed || is_silent || alarm.poll(cx).is_ready()) {
            return false;
        }
        let expired = self.expires.filter(|expires| expires.at <= clock::now());
        if let Some(expired) = expired.filter(|_| !is_closing && !is_changed) {
            self.close_code.set(expired.close_code);
        }
        self.leaving.set(true);
        let now = clock::now();
        let expires = self.expires.map(|expires| expires.at).filter(|at| *at > now);
        alarm.set_by(now, self.streams.drain, expires);
        true
    }

    /// Records that some of the reply has passed.
    pub(crate) fn moved(&self) {
        if let Some(silence) = &self.silence {
            silence.moved.set(true);
        }
    }

    /// True if nothing has passed in either direction for too long. Otherwise the task is woken for the next check.
    fn is_silent(&self, cx: &mut Context<'_>) -> bool {
        self.silence.as_ref().is_some_and(|silence| silence.is_over(cx))
    }

    /// True if the client's credential has expired and the stream ends with it.
    fn has_expired(&self) -> bool {
        let is_over = |expires: Expiry| expires.at <= clock::now();
        self.ends_with_credential && self.expires.is_some_and(is_over)
    }

    /// The time for which a tunnel may be silent. `usual` is the listener's setting.
    pub(crate) fn tunnel_silence(&self, usual: Duration) -> Duration {
        self.streams.idle.unwrap_or(usual)
    }

    /// Ready when the stream is to be cut.
    pub(crate) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_leaving = self.has_to_leave(cx);
        // Calls, and tunnels other than WebSockets, cannot be told to leave, so they have no drain in these cases.
        let ends_now = self.ends_with_credential && (self.is_silent(cx) || self.has_expired());
        if !is_leaving {
            Poll::Pending
        } else if ends_now || self.watch.is_cutting() {
            Poll::Ready(())
        } else {
            self.alarm.borrow_mut().poll(cx)
        }
    }

    /// The close code with which a WebSocket that has to leave closes.
    pub(crate) fn close_code(&self) -> u16 {
        self.close_code.get()
    }

    /// Records that the stream has left.
    pub(crate) fn left(&self) {
        let Some((notes, metrics, worker)) = &self.noted else { return };
        if notes.end.get().is_none() {
            notes.end.set(Some(StreamEnd::Leaving));
            metrics.stream_ended(*worker, StreamEnd::Leaving);
        }
    }

    /// The fault of a stream that was cut.
    pub(crate) fn cut(&self) -> Fault {
        if self.has_expired() {
            let why = "the client's credential has expired, so the stream was closed";
            return Fault::new(Kind::CredentialExpired, why);
        }
        let silence = self.silence.as_ref().filter(|silence| silence.has_ended());
        let why = if let Some(silence) = silence {
            format!("no data passed in either direction for {:?}", silence.max)
        } else if self.watch.is_cutting() {
            "the stream did not end before all connections of its listener were closed (`shutdown.drain`)".to_owned()
        } else {
            format!("the stream did not end within its drain time of {:?}", self.streams.drain)
        };
        Fault::new(Kind::StreamCut, why)
    }
}

impl StreamSilence {
    fn of(streams: &Streams, request: Option<BodyProgress>) -> StreamSilence {
        let max = streams.idle.unwrap_or(IDLE_MAX);
        let mut alarm = Alarm::default();
        alarm.set(clock::now(), max / CHECKS);
        let (checks, moved) = (Cell::new(0), Cell::new(false));
        StreamSilence { max, checks, alarm: RefCell::new(alarm), moved, request }
    }

    fn has_ended(&self) -> bool {
        self.checks.get() >= CHECKS
    }

    fn is_over(&self, cx: &mut Context<'_>) -> bool {
        let mut alarm = self.alarm.borrow_mut();
        while !self.has_ended() && alarm.poll(cx).is_ready() {
            let has_asked = self.request.as_ref().is_some_and(|request| request.has_moved());
            let has_moved = self.moved.replace(false) || has_asked;
            self.checks.set(if has_moved { 0 } else { self.checks.get() + 1 });
            alarm.set(clock::now(), self.max / CHECKS);
        }
        self.has_ended()
    }
}

impl Expiry {
    /// `expires` is in seconds since the Unix epoch.
    fn at(expires: u64, close_code: u16) -> Option<Expiry> {
        let left = Duration::from_secs(expires).saturating_sub(clock::wall());
        Some(Expiry { at: clock::now().checked_add(left)?, close_code })
    }
}

/// Returns when the client's credential expires, if it does, with the close code in the style of the route's faults.
fn expiry(account: &Account) -> Option<Expiry> {
    let expires = account.ex.identity.as_ref()?.expires?;
    let close_code = match account.route()?.errors {
        Errors::Wso2 | Errors::Apim => INVALID_CREDENTIALS,
        Errors::Problem | Errors::Kong { .. } | Errors::Soap { .. } | Errors::Flow => {
            POLICY_VIOLATION
        }
    };
    Expiry::at(expires, close_code)
}

#[cfg(test)]
mod tests;
