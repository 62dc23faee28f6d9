//! For how long an open stream may stay: until its listener closes, a reload changes its route, it is old, or nothing has passed for too
//! long; and for some time after another process has taken this one's place. Then it has to leave, and what has not left when its drain is
//! over is cut. A stream has to leave too when the client's credential ends, unless a policy sees to that. A call of gRPC and a tunnel that
//! is not a WebSocket end at once then: nobody can tell them to leave.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock::Instant;
use kit::{Alarm, clock};
use message::Reply;
use pipeline::{Account, CallStart};
use plan::{Errors, IDLE_MAX, Route, Streams};
use policy::StreamNotes;
use telemetry::{OpenStream, RouteMetrics, StreamEnd, StreamKind};

use crate::accept::Connection;
use crate::calls::{self, CallLifetime};
use crate::connections::Watch;
use crate::events;
use crate::frames::GOING_AWAY;
use crate::pace::BodyProgress;

/// The wishes of one open stream: an event stream, a call of gRPC or a tunnel. It belongs to one task for life.
pub(crate) struct StreamLifetime {
    watch: Watch,
    /// A reload changed or removed the route. Nothing where that is nothing to the stream.
    changed: Option<Rc<Cell<bool>>>,
    streams: Streams,
    leaving: Cell<bool>,
    /// It knows that another process has taken this one's place.
    outlived: Cell<bool>,
    /// When the client's credential ends.
    expires: Option<Expiry>,
    /// The code with which a WebSocket says that it leaves.
    close_code: Cell<u16>,
    /// For its age and the end of the client's credential, and once it leaves for the end of its drain.
    alarm: RefCell<Alarm>,
    /// None for a tunnel, whose ends see to silence.
    silence: Option<StreamSilence>,
    /// It ends at once with the client's credential.
    ends_with_credential: bool,
    /// A policy's notes about an event stream, with the route's metrics and the worker.
    noted: Option<(Rc<StreamNotes>, Arc<RouteMetrics>, usize)>,
    _open: Option<OpenStream>,
}

/// Silence in both directions. A stream passes on what comes without a look at the clock, so its silence is looked for now and then.
struct StreamSilence {
    max: Duration,
    /// Looks in a row at which nothing had passed.
    looks: Cell<u32>,
    alarm: RefCell<Alarm>,
    /// Some of the reply passed since the last look.
    moved: Cell<bool>,
    /// How the request gets on, if that is still coming.
    request: Option<BodyProgress>,
}

/// Looks in the longest silence: it ends at most a quarter late.
const LOOKS: u32 = 4;

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
        let stay = events::end_between(reply, account, connection, call.progress())
            .or_else(|| calls::end_by_status(reply, account, call));
        if let (Some(_), Some(progress)) = (&stay, call.progress()) {
            progress.begin_stream();
        }
        stay
    }

    /// A call of gRPC began then. It is counted elsewhere, from its arrival on.
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

    /// A stream begins, with the route that its account has.
    pub(crate) fn begin(
        account: &Account,
        connection: &Connection,
        kind: StreamKind,
        progress: Option<BodyProgress>,
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

    /// True if the stream has to leave; if not yet, the task is woken when it does.
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

    /// Something of the reply has passed.
    pub(crate) fn moved(&self) {
        if let Some(silence) = &self.silence {
            silence.moved.set(true);
        }
    }

    /// True if nothing has passed in either direction for too long; if not yet, the task is woken for the next look.
    fn is_silent(&self, cx: &mut Context<'_>) -> bool {
        self.silence.as_ref().is_some_and(|silence| silence.is_over(cx))
    }

    /// True for what ends with the client's credential, once that is over.
    fn has_expired(&self) -> bool {
        let is_over = |expires: Expiry| expires.at <= clock::now();
        self.ends_with_credential && self.expires.is_some_and(is_over)
    }

    /// For how long a tunnel may be silent, where its listener allows this time.
    pub(crate) fn tunnel_silence(&self, usual: Duration) -> Duration {
        self.streams.idle.unwrap_or(usual)
    }

    /// Ready when the stream is to be cut.
    pub(crate) fn poll_over(&self, cx: &mut Context<'_>) -> Poll<()> {
        let is_leaving = self.has_to_leave(cx);
        // A call and a tunnel cannot be told to leave, so these ends have no drain.
        let ends_now = self.ends_with_credential && (self.is_silent(cx) || self.has_expired());
        match is_leaving {
            true if ends_now || self.watch.is_cutting() => Poll::Ready(()),
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
        if self.has_expired() {
            let why = "the client's credential has ended, and the stream with it";
            return Fault::new(Kind::CredentialExpired, why);
        }
        if let Some(silence) = self.silence.as_ref().filter(|silence| silence.has_ended()) {
            let why = format!("nothing passed in either direction for {:?}", silence.max);
            return Fault::new(Kind::StreamCut, why);
        }
        let drain = self.streams.drain;
        Fault::new(Kind::StreamCut, format!("the stream had not ended {drain:?} after it was to"))
    }
}

impl StreamSilence {
    fn of(streams: &Streams, request: Option<BodyProgress>) -> StreamSilence {
        let max = streams.idle.unwrap_or(IDLE_MAX);
        let mut alarm = Alarm::default();
        alarm.set(clock::now(), max / LOOKS);
        let (looks, moved) = (Cell::new(0), Cell::new(false));
        StreamSilence { max, looks, alarm: RefCell::new(alarm), moved, request }
    }

    fn has_ended(&self) -> bool {
        self.looks.get() >= LOOKS
    }

    fn is_over(&self, cx: &mut Context<'_>) -> bool {
        let mut alarm = self.alarm.borrow_mut();
        while !self.has_ended() && alarm.poll(cx).is_ready() {
            let has_asked = self.request.as_ref().is_some_and(|request| request.has_moved());
            let has_moved = self.moved.replace(false) || has_asked;
            self.looks.set(if has_moved { 0 } else { self.looks.get() + 1 });
            alarm.set(clock::now(), self.max / LOOKS);
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

/// When the client's credential ends.
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
