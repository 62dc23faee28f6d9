//! An attempt over HTTP/2.

use std::future::poll_fn;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock;

use super::call::{Call, StartedReply};
use super::shared::{SharedConnection, State, StreamPermit};
use crate::call::{CallSettings, Failure, ReplyTimeouts};
use crate::connect::PendingConnection;
use crate::roster::WorkerTarget;
use crate::send::Attempts;
use crate::settings::Protocol;
use crate::target::Target;

/// The maximum number of tries to get a stream. A try fails if the connection ends before it gives one.
const PLACES_TRIED_MAX: usize = 3;

impl Attempts<'_> {
    /// Makes one attempt over HTTP/2. Returns `None` if the attempt has to use HTTP/1.
    pub(crate) async fn try_http2(
        &mut self,
        place: &Rc<WorkerTarget>,
    ) -> Option<Result<StartedReply, Failure>> {
        let target = &place.target;
        let is_auto = self.upstream.settings.protocol == Protocol::Auto;
        let upgrades = self.request.head.headers.contains("upgrade");
        if is_auto && (upgrades || !target.settings().https) {
            return None;
        }
        if let Some(refused) = self.refuse_websocket(target) {
            return Some(Err(refused));
        }
        for _ in 0..PLACES_TRIED_MAX {
            if is_auto && self.keeps_http1(place) {
                return None;
            }
            let permit = match self.stream_permit(place).await {
                Ok(Some(permit)) => permit,
                // The target has just chosen HTTP/1. Without ALPN, only a stand-in for a
                // service does so.
                Ok(None) if place.connections.borrow().is_http1() => return None,
                Ok(None) => continue,
                Err(fault) => return Some(Err(Failure::unsent(fault))),
            };
            return Some(self.call_http2(target, permit).await);
        }
        let why = format!("{}: its connections end as soon as they are opened", target.url());
        Some(Err(Failure::unsent(Fault::new(Kind::UpstreamReset, why))))
    }

    /// Refuses a WebSocket handshake: as an ordinary request, it would get an answer that a WebSocket client cannot
    /// use.
    fn refuse_websocket(&self, target: &Target) -> Option<Failure> {
        let upgrade = self.request.head.headers.get("upgrade")?;
        http1::list_has(upgrade, "websocket").then(|| {
            let why = "a WebSocket cannot be opened over HTTP/2 (`protocol: http2`)";
            let fault = Fault::new(Kind::NotImplemented, format!("{}: {why}", target.url()));
            Failure::unsent(fault)
        })
    }

    /// True if the target has chosen HTTP/1 and a connection to it is kept. For a new connection it chooses again, since it may have
    /// been replaced.
    fn keeps_http1(&self, place: &WorkerTarget) -> bool {
        !self.was_stale && place.connections.borrow().is_http1() && self.pool.has_idle(place)
    }

    /// Takes a stream of an open connection. Returns `None` if another connection has to be tried.
    async fn stream_permit(
        &mut self,
        place: &Rc<WorkerTarget>,
    ) -> Result<Option<StreamPermit>, Fault> {
        if self.upstream.has_enough_open() {
            // Makes room by closing an idle connection, perhaps of another target.
            self.pool.close_one();
        }
        let shut = place.connections.borrow().shut();
        if let Some(shut) = shut {
            self.let_in(&shut).await?;
        }
        let (upstream, pool) = (self.upstream, &self.pool);
        let permit = place.connections.borrow_mut().stream_permit(upstream, pool, place)?;
        let state = match permit.shared.state() {
            State::Opening => {
                let _pending = PendingConnection::begin(upstream, self.worker)?;
                self.opened(&permit).await?
            }
            state @ (State::Open | State::Http1 | State::Over(..)) => state,
        };
        match state {
            State::Open => Ok(Some(permit)),
            State::Over(kind, why) => Err(Fault::new(kind, &*why)),
            State::Http1 | State::Opening => Ok(None),
        }
    }

    /// Waits until a target whose settings allow no streams allows some again, which should happen soon (RFC 9113, 6.5.2). The time limit
    /// is the connect timeout.
    async fn let_in(&self, shut: &SharedConnection) -> Result<(), Fault> {
        let settings = self.upstream.settings();
        self.alarm.borrow_mut().set_by(clock::now(), settings.timeout.connect, self.deadline);
        let late = || {
            let why = format!("upstream {}: the target allows no streams", settings.name);
            Fault::new(Kind::ConnectTimeout, why)
        };
        poll_fn(|cx| match shut.poll_shut(cx) {
            Poll::Ready(()) => Poll::Ready(Ok(())),
            Poll::Pending => self.alarm.borrow_mut().poll(cx).map(|()| Err(late())),
        })
        .await
    }

    /// Waits for a connection to be opened, until the deadline of the call. Opening has its own time limit.
    async fn opened(&self, permit: &StreamPermit) -> Result<State, Fault> {
        self.alarm.borrow_mut().clear();
        if let Some(deadline) = self.deadline {
            self.alarm.borrow_mut().set_by(deadline, Duration::ZERO, None);
        }
        let late =
            || Fault::new(Kind::ConnectTimeout, "no connection within the time limit of the call");
        poll_fn(|cx| match permit.shared.poll_state(cx) {
            Poll::Ready(state) => Poll::Ready(Ok(state)),
            Poll::Pending => self.alarm.borrow_mut().poll(cx).map(|()| Err(late())),
        })
        .await
    }

    async fn call_http2(
        &mut self,
        target: &Target,
        permit: StreamPermit,
    ) -> Result<StartedReply, Failure> {
        // A body that is in memory is kept at no cost. It is always kept, since a refused stream is retried for every method.
        let kept = self.request.body.replay();
        self.spent = kept.is_none();
        let body = kept.unwrap_or_else(|| std::mem::take(&mut self.request.body));
        let head = &self.request.head;
        let timeout = &self.upstream.settings.timeout;
        let wait = ReplyTimeouts {
            alarm: &self.alarm,
            response: timeout.response,
            write: timeout.write.unwrap_or(timeout.response),
            deadline: self.deadline,
        };
        let authority = match self.host_for(target) {
            Some(host) => host.as_bytes(),
            None => head.host(),
        };
        let settings = CallSettings {
            wait,
            url: target.url(),
            interim: self.interim,
            client_wait: self.client_wait,
        };
        let is_https = target.settings().https;
        let call = Call::new(permit, head, is_https, authority, body, settings);
        let mut begun = match call {
            Ok(call) => call.begin(self.began).await,
            Err(failure) => Err(failure),
        };
        if let Err(failure) = &mut begun
            && let Some(body) = failure.unsent.take()
        {
            self.request.body = body;
            self.spent = false;
        }
        begun
    }
}
