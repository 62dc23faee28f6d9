//! Sends a request: chooses a target, connects, calls, and retries if that is safe and allowed.

mod additions;
mod outcomes;

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use fault::{Fault, Kind};
use grpc::Outcome;
use kit::SharedAlarm;
use kit::clock::{self, Instant};
use message::{Body, Reply, ReplyHead, Request};
use policy::{CallTrace, Interim, Totals, WaitTime};

use crate::attempt_span::AttemptSpan;
use crate::balance::TargetPreference;
use crate::breaker::ActiveRetry;
use crate::call::{Call, CallSettings, Failure, ReplyTimeouts, StartedReply};
use crate::pool::Pool;
use crate::reply::{Lease, RequestPermit, reply};
use crate::roster::{Roster, WorkerTarget};
use crate::settings::Protocol;
use crate::settings::{HostSent, Outlier};
use crate::target::Target;
use crate::{Upstream, forward, h2, replay_buffer};
use outcomes::{counts_against, replied};

/// The state of a call over its attempts.
pub(crate) struct Attempts<'a> {
    pub(crate) upstream: &'a Arc<Upstream>,
    pub(crate) pool: Rc<Pool>,
    pub(crate) worker: usize,
    pub(crate) alarm: SharedAlarm,
    /// The deadline of the whole call.
    pub(crate) deadline: Option<Instant>,
    pub(crate) request: &'a mut Request,
    pub(crate) interim: Option<&'a Interim>,
    pub(crate) client_wait: &'a WaitTime,
    /// True if a body that cannot be replayed is being sent.
    pub(crate) spent: bool,
    /// The copy of a sent body that had no known length.
    copy: Option<Rc<RefCell<replay_buffer::Copy>>>,
    host: &'a HostSent,
    preference: TargetPreference,
    /// The targets at the start of the attempt.
    roster: Rc<Roster>,
    /// The start of the attempt.
    pub(crate) began: Instant,
    /// Targets that have failed.
    tried: Vec<Arc<Target>>,
    /// The remaining attempts.
    left: u32,
    /// Whether the request may be sent again after a target may have received it.
    may_repeat: bool,
    /// The number of retries that a target may have received.
    retried: u32,
    repeated: u32,
    /// With a budget: the retry in progress.
    active_retry: Option<ActiveRetry>,
    /// The pause before the next attempt.
    next_pause: Duration,
    /// The number of other targets that may still be tried after a failed connection.
    elsewhere: usize,
    /// True if an addition that a target refuses may be replaced. This happens once.
    may_renew: bool,
    /// The number of refused streams after which the request is still sent again.
    refusals_left: u32,
    /// True if the request may still be sent again because a pooled connection was stale. This happens once, and only for an idempotent
    /// request.
    stale_left: bool,
    /// True if a pooled connection was stale: the others of the pool may be stale as well.
    pub(crate) was_stale: bool,
}

/// Measures the time in which a call waits for its upstream: the time until the reply begins, without the waits for its client. When
/// dropped, it adds this time to the totals, however the call ended: the client may have left, or a time limit of the caller may
/// have passed.
struct CallWait<'a> {
    totals: &'a Totals,
    began: Instant,
    /// The total of the waits for the client at the start of the call.
    client_wait: Duration,
    /// The time at which the reply began.
    ended: Option<Instant>,
}

/// A reply that has begun, over either protocol.
enum OpenReply {
    Http1(Box<StartedReply>),
    Http2(Box<h2::StartedReply>),
}

/// The maximum number of refused streams after which a request is sent again. A target that is full or shuts down refuses streams only for
/// a while: it gets room again, or has a successor.
const REFUSALS_MAX: u32 = 3;

impl Upstream {
    /// Sends a request, and returns the reply as soon as its head has arrived, without hop-by-hop headers. The body is read
    /// later. The request stays with the caller, so that it is not moved during the wait. Afterwards its content is undefined.
    pub async fn send(
        self: &Arc<Upstream>,
        call: &mut policy::Call<'_>,
        request: &mut Request,
        host: &HostSent,
    ) -> Result<Reply, Fault> {
        if !self.settings.writes_at_once {
            request.body.yield_to_ready().await;
        }
        let began = clock::now();
        if let Some(end) = self.settings.timeout.total.and_then(|total| began.checked_add(total)) {
            call.deadline = Some(call.deadline.map_or(end, |deadline| deadline.min(end)));
        }
        let mut reply = self.attempt(call, request, host, began).await?;
        forward::reply(&mut reply);
        Ok(reply)
    }

    async fn attempt(
        self: &Arc<Upstream>,
        call: &mut policy::Call<'_>,
        request: &mut Request,
        host: &HostSent,
        mut began: Instant,
    ) -> Result<Reply, Fault> {
        let mut wait = CallWait::new(call.totals, began);
        let pool = self.pool(call.worker);
        let mut permit = RequestPermit::take(self, pool.clone())?;
        if self.needs_body(request) {
            Box::pin(self.gather_small(call.totals, request)).await?;
            began = clock::now();
        }
        if !self.settings.additions.0.is_empty() {
            Box::pin(self.make_additions(request, call.deadline)).await?;
            began = clock::now();
        }
        let roster = self.roster(&pool, call.worker, call.deadline).await?;
        let mut attempts = self.attempts(pool, roster, call, request, host, began);
        let mut place = attempts.choose().ok_or_else(|| self.no_target(&attempts.roster))?;
        loop {
            let target = &place.target;
            if self.settings.protocol == Protocol::Http1 {
                permit.connect()?;
            }
            if let Some(noted) = &mut call.target {
                **noted = Some(target.url().clone());
            }
            let in_flight = target.begin();
            let span = call.trace.and_then(|trace| attempts.begin_span(&place, trace));
            let tried = match (span, self.settings.retry.try_timeout) {
                (None, None) => attempts.try_once(&place).await,
                (span, _) => Box::pin(attempts.try_recorded(&place, span)).await,
            };
            match tried {
                Ok(mut begun) => {
                    let status = begun.head().status;
                    let is_good = begun.is_good(self.settings.outlier.as_ref());
                    self.record_outcome(target, is_good, || replied(status));
                    self.record_reply(target, begun.head(), attempts.began);
                    let Some(next) = attempts.after_reply(&place, begun.head()).await else {
                        attempts.preference.tell(self.pins.as_ref(), target, begun.head());
                        let hold = Lease {
                            pool: attempts.pool,
                            place,
                            timeout: self.settings.timeout.response,
                            may_pause: call.may_pause,
                            deadline: call.deadline,
                            alarm: attempts.alarm,
                            in_flight,
                            _permit: permit,
                        };
                        let now = clock::now();
                        wait.ended = Some(now);
                        return Ok(match begun {
                            OpenReply::Http1(begun) => reply(begun, hold, now),
                            OpenReply::Http2(begun) => h2::reply(*begun, hold),
                        });
                    };
                    place = next;
                }
                Err(failure) => place = attempts.next_attempt(target, failure)?,
            }
            attempts.pause().await;
            call.totals.retries.set(call.totals.retries.get().saturating_add(1));
            attempts.pool.metrics().retries.add(1);
            attempts.began = clock::now();
        }
    }

    /// True if the request has a body that is still arriving and may have to be sent twice.
    fn needs_body(&self, request: &Request) -> bool {
        let settings = &self.settings;
        let is_sent_again = || {
            request.head.is_idempotent()
                || settings.retry.attempts > 0
                || !settings.additions.0.is_empty()
        };
        matches!(request.body, Body::Stream(_))
            && !request.body.expects_continue()
            && is_sent_again()
    }

    /// Buffers a small body that is still arriving, since it may have to be sent twice.
    async fn gather_small(&self, totals: &Totals, request: &mut Request) -> Result<(), Fault> {
        let body = std::mem::take(&mut request.body);
        let waiting = totals.client_wait.begin();
        let gathered = body.gather_small(self.settings.retry.body_bytes_max, Kind::BodyTooLarge);
        request.body = gathered.await?;
        drop(waiting);
        Ok(())
    }

    fn attempts<'a>(
        self: &'a Arc<Upstream>,
        pool: Rc<Pool>,
        roster: Rc<Roster>,
        call: &policy::Call<'a>,
        request: &'a mut Request,
        host: &'a HostSent,
        began: Instant,
    ) -> Attempts<'a> {
        let (retry, idempotent) = (&self.settings.retry, request.head.is_idempotent());
        let key = self.hash_key(&request.head, call);
        let copy = if retry.attempts > 0 && !retry.on.calls.is_empty() {
            replay_buffer::keep(&mut request.body, retry.body_bytes_max)
        } else {
            None
        };
        let headers = &mut request.head.headers;
        let pins = self.pins.as_ref();
        let pinned = pins.and_then(|pins| pins.read(headers, &roster.set.pins));
        let pinned = pinned.and_then(|at| roster.places.get(at));
        Attempts {
            preference: TargetPreference::of(key, pinned.map(|place| place.target.clone())),
            began,
            upstream: self,
            pool,
            worker: call.worker,
            alarm: call.alarm.clone(),
            deadline: call.deadline,
            request,
            interim: call.interim,
            client_wait: &call.totals.client_wait,
            spent: false,
            copy,
            host,
            tried: Vec::new(),
            left: retry.attempts,
            may_repeat: idempotent || retry.non_idempotent,
            retried: 0,
            repeated: 0,
            active_retry: None,
            next_pause: Duration::ZERO,
            elsewhere: if retry.elsewhere { roster.places.len().saturating_sub(1) } else { 0 },
            roster,
            may_renew: !self.settings.additions.0.is_empty(),
            refusals_left: REFUSALS_MAX,
            stale_left: idempotent,
            was_stale: false,
        }
    }
}

impl<'a> Attempts<'a> {
    fn choose(&self) -> Option<Rc<WorkerTarget>> {
        let settings = &self.upstream.settings;
        if !self.roster.has_available(settings.available_min_percent) {
            return None;
        }
        self.roster.choose(&settings.balance, &self.preference, &self.tried)
    }

    /// Chooses among the current targets.
    fn choose_again(&mut self) -> Option<Rc<WorkerTarget>> {
        self.roster = self.pool.roster(self.upstream);
        self.choose()
    }

    /// Begins the span of an attempt. Returns `None` if the exchange is not sampled.
    fn begin_span(
        &mut self,
        place: &Rc<WorkerTarget>,
        trace: CallTrace<'a>,
    ) -> Option<AttemptSpan<'a>> {
        let (head, url) = (&mut self.request.head, place.target.url());
        let span = AttemptSpan::begin(trace, head, url, self.repeated);
        self.repeated = self.repeated.saturating_add(1);
        span
    }

    /// Makes one attempt that is recorded in a span or has a separate time limit. Other attempts bypass this function, since each layer of
    /// futures makes every poll slower.
    async fn try_recorded(
        &mut self,
        place: &Rc<WorkerTarget>,
        span: Option<AttemptSpan<'a>>,
    ) -> Result<OpenReply, Failure> {
        let mut tried = self.try_in_time(place).await;
        match (span, &mut tried) {
            (Some(span), Ok(reply)) => span.replied(reply.head().status),
            (Some(span), Err(failure)) => span.failed(&failure.fault),
            (None, _) => {}
        }
        tried
    }

    /// Makes one attempt within its own time limit.
    async fn try_in_time(&mut self, place: &Rc<WorkerTarget>) -> Result<OpenReply, Failure> {
        let Some(time) = self.upstream.settings.retry.try_timeout else {
            return self.try_once(place).await;
        };
        let tried = tokio::time::timeout(time, self.try_once(place)).await;
        tried.unwrap_or_else(|_| {
            let url = place.target.url();
            let why = format!("{url}: no reply within {time:?} (`try_timeout`)");
            Err(Failure::unsent(Fault::new(Kind::UpstreamTimeout, why)))
        })
    }

    /// Waits before a retry of a request that a target may have received.
    async fn pause(&mut self) {
        let pause = std::mem::take(&mut self.next_pause);
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
    }

    /// Counts another retry, if the budget and the deadline allow it.
    fn may_retry(&mut self) -> bool {
        let retry = &self.upstream.settings.retry;
        if let Some(budget) = retry.budget_millionths {
            // The previous retry has ended.
            self.active_retry = None;
            self.active_retry = self.upstream.limits.retry(budget);
            if self.active_retry.is_none() {
                let upstream = self.upstream.settings.name.as_str();
                tracing::debug!(upstream, "not retried: the retry budget is used up");
                return false;
            }
        }
        let retried = self.retried.saturating_add(1);
        let pause = retry.pause_before(retried);
        let ends = clock::now().checked_add(pause);
        if let (Some(deadline), Some(ends)) = (self.deadline, ends)
            && ends >= deadline
        {
            return false;
        }
        self.left = self.left.saturating_sub(1);
        self.retried = retried;
        self.next_pause = pause;
        true
    }

    async fn try_once(&mut self, place: &Rc<WorkerTarget>) -> Result<OpenReply, Failure> {
        if self.upstream.settings.protocol == Protocol::Http1 {
            return self.try_http1(place).await.map(OpenReply::Http1);
        }
        if let Some(begun) = Box::pin(self.try_http2(place)).await {
            return begun.map(|begun| OpenReply::Http2(Box::new(begun)));
        }
        // `TE` is a hop-by-hop header, kept only for HTTP/2.
        self.request.head.headers.remove("te");
        Box::pin(self.try_http1(place)).await.map(OpenReply::Http1)
    }

    async fn try_http1(&mut self, place: &WorkerTarget) -> Result<Box<StartedReply>, Failure> {
        let target = &place.target;
        let pooled = if self.was_stale { None } else { self.pool.pop(place) };
        let connection = match pooled {
            Some(connection) => connection,
            None => {
                if self.upstream.has_enough_open() {
                    // Makes room by closing an idle connection, perhaps of another target.
                    self.pool.close_one();
                }
                // Boxed: connecting is rare, and its future is larger than the rest of the exchange.
                Box::pin(self.upstream.connect(target, self.worker, self.deadline))
                    .await
                    .map_err(Failure::unsent)?
            }
        };
        let reused = connection.reused;
        let again = self.stale_left || self.left > 0 || self.may_renew;
        // A body that is in memory is kept at no cost, whatever its size.
        let kept = if again { self.request.body.replay() } else { None };
        self.spent = kept.is_none();
        let body = kept.unwrap_or_else(|| std::mem::take(&mut self.request.body));
        let host = self.host_for(target);
        let head = &mut self.request.head;
        if host.is_some() {
            head.headers.remove("host");
        }
        let timeout = &self.upstream.settings.timeout;
        let wait = ReplyTimeouts {
            alarm: &self.alarm,
            response: timeout.response,
            write: timeout.write.unwrap_or(timeout.response),
            deadline: self.deadline,
        };
        let settings = CallSettings {
            wait,
            url: target.url(),
            interim: self.interim,
            client_wait: self.client_wait,
        };
        let call = Call::new(connection, head, host, body, settings);
        if !again {
            // The head is written and never needed again: the next request reuses its memory while it is still in the CPU's
            // cache.
            drop(std::mem::take(&mut head.headers));
        }
        let began = if reused { self.began } else { clock::now() };
        let mut begun = call.begin(began).await;
        if let Err(failure) = &mut begun {
            failure.no_bytes_received &= reused;
            if let Some(body) = failure.unsent.take() {
                self.request.body = body;
                self.spent = false;
            }
        }
        begun
    }

    /// The host to send to the target. None if it is the one in the head.
    pub(crate) fn host_for<'t>(&self, target: &'t Target) -> Option<&'t str>
    where
        'a: 't,
    {
        match self.host {
            HostSent::Unchanged if self.request.head.headers.contains("host") => None,
            // An HTTP/1.0 client may send no host, but the target requires one.
            HostSent::Unchanged => Some(target.authority()),
            HostSent::Target => Some(target.authority()),
            HostSent::Named(name) => Some(&**name),
        }
    }

    /// Returns the target for another attempt, if a reply with this head makes one necessary: a target for a retry, or the same target if
    /// it refuses an addition that was replaced. The reply is then dropped.
    async fn after_reply(
        &mut self,
        place: &Rc<WorkerTarget>,
        head: &ReplyHead,
    ) -> Option<Rc<WorkerTarget>> {
        if self.may_renew && Box::pin(self.renew(head)).await {
            return Some(place.clone());
        }
        self.repeats(&place.target, head)
    }

    /// Returns the target for a retry, if a reply with this head is to be dropped, or `None` if the reply is to be forwarded.
    fn repeats(&mut self, target: &Arc<Target>, head: &ReplyHead) -> Option<Rc<WorkerTarget>> {
        let is_meant = self.may_repeat && self.upstream.settings.retry.on.have_reply(head);
        if self.left == 0 || !is_meant {
            return None;
        }
        self.restore();
        if self.spent || !self.may_retry() {
            return None;
        }
        self.tried.push(target.clone());
        self.choose_again()
    }

    /// Restores a body that was sent and kept completely.
    fn restore(&mut self) {
        let body = self.copy.as_ref().filter(|_| self.spent).and_then(|copy| copy.borrow().body());
        if let Some(body) = body {
            self.request.body = body;
            self.spent = false;
        }
    }

    /// Decides whether to retry after a failure, and with which target. Otherwise the failure is the fault of the exchange.
    fn next_attempt(
        &mut self,
        target: &Arc<Target>,
        failure: Failure,
    ) -> Result<Rc<WorkerTarget>, Fault> {
        // The total deadline of the call is not a failure of the target.
        let is_late = self.deadline.is_some_and(|deadline| clock::now() >= deadline);
        let is_retried = !is_late && self.should_retry(target, &failure);
        is_retried.then(|| self.choose_again()).flatten().ok_or(failure.fault)
    }

    fn should_retry(&mut self, target: &Arc<Target>, failure: &Failure) -> bool {
        self.was_stale |= failure.no_bytes_received;
        self.restore();
        if failure.refused && !self.spent && self.refusals_left > 0 {
            self.refusals_left -= 1;
            return true;
        }
        if failure.no_bytes_received && self.stale_left && !self.spent {
            self.stale_left = false;
            return true;
        }
        let (kind, settings) = (failure.fault.kind, &self.upstream.settings);
        if counts_against(kind) {
            self.upstream.record_outcome(target, false, || failure.fault.cause.to_string());
            self.tried.push(target.clone());
        }
        let suspend = settings.suspend.as_ref().filter(|rule| rule.on.have(kind));
        if let Some(rule) = suspend {
            let why = || failure.fault.cause.to_string();
            self.upstream.record_failure(target, rule, self.began, why);
        }
        let connecting =
            matches!(kind, Kind::ConnectFailure | Kind::UpstreamTls | Kind::ConnectTimeout);
        if connecting && settings.outlier.is_none() && suspend.is_none() {
            // The operator has configured no rule for failing targets.
            target.set_unreachable();
        }
        if connecting && self.elsewhere > 0 {
            self.elsewhere -= 1;
            return true;
        }
        let is_meant = (connecting || self.may_repeat) && settings.retry.on.have(kind);
        is_meant && self.left > 0 && !self.spent && self.may_retry()
    }
}

impl<'a> CallWait<'a> {
    fn new(totals: &'a Totals, began: Instant) -> CallWait<'a> {
        CallWait { totals, began, client_wait: totals.client_wait.get(), ended: None }
    }
}

impl Drop for CallWait<'_> {
    fn drop(&mut self) {
        let ended = self.ended.unwrap_or_else(clock::now);
        let client = self.totals.client_wait.get().saturating_sub(self.client_wait);
        self.totals.upstream_wait.add(ended.duration_since(self.began).saturating_sub(client));
    }
}

impl OpenReply {
    fn head(&mut self) -> &mut ReplyHead {
        match self {
            OpenReply::Http1(begun) => &mut begun.head,
            OpenReply::Http2(begun) => &mut begun.head,
        }
    }

    /// True if the reply is not a failure of the target.
    fn is_good(&self, outlier: Option<&Outlier>) -> bool {
        let status = self.status();
        let is_within = |(first, last): &(u16, u16)| (*first..=*last).contains(&status);
        outlier.map_or(status < 500, |outlier| !outlier.statuses.iter().any(is_within))
    }

    /// Returns the status. A gRPC call without messages reports it in its head, while the HTTP status is 200. Then this is the HTTP status
    /// that corresponds to the status of the call.
    fn status(&self) -> u16 {
        match self {
            OpenReply::Http1(begun) => begun.head.status,
            OpenReply::Http2(begun) => {
                let told = begun.head.headers.get("grpc-status").map(Outcome::of);
                match told {
                    Some(Outcome::Status(status)) => status.to_http(),
                    Some(Outcome::Other) | None => begun.head.status,
                }
            }
        }
    }
}

impl Failure {
    pub(crate) fn unsent(fault: Fault) -> Failure {
        Failure { fault, no_bytes_received: false, unsent: None, refused: false }
    }

    /// The failure of a target that has not started to process the request.
    pub(crate) fn refused(why: String) -> Failure {
        Failure { refused: true, ..Failure::unsent(Fault::new(Kind::UpstreamReset, why)) }
    }
}

#[cfg(test)]
mod tests;
