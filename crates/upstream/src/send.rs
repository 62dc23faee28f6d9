//! Sending a request: choose, connect, call; and again, where that is safe and allowed.

use std::rc::Rc;
use std::sync::Arc;

use fault::{Fault, Kind};
use kit::clock;
use message::{Body, Reply, Request, RequestHead};
use policy::Exchange;

use crate::Upstream;
use crate::call::{Begun, Call, Failure};
use crate::pool::Pool;
use crate::reply::{Active, Hold, reply};
use crate::settings::HostSent;
use crate::target::Target;

/// One exchange's way through its attempts.
struct Attempts<'a> {
    upstream: &'a Arc<Upstream>,
    pool: Rc<Pool>,
    worker: usize,
    head: RequestHead,
    host: &'a HostSent,
    /// Gone once a body that cannot be replayed is on its way.
    body: Option<Body>,
    key: Option<u64>,
    /// Targets that failed.
    tried: Vec<usize>,
    /// Attempts that are still allowed.
    left: u32,
    /// A stale pooled connection is forgiven once.
    stale_left: bool,
}

impl Upstream {
    /// Sends a request and gives the reply as soon as its head is there. The body follows at the reader's pace.
    pub async fn send(
        self: &Arc<Upstream>,
        ex: &mut Exchange,
        request: Request,
        host: &HostSent,
    ) -> Result<Reply, Fault> {
        let began = clock::now();
        let sent = self.attempt(ex, request, host).await;
        ex.upstream_wait += clock::now().duration_since(began);
        sent
    }

    async fn attempt(
        self: &Arc<Upstream>,
        ex: &mut Exchange,
        request: Request,
        host: &HostSent,
    ) -> Result<Reply, Fault> {
        let pool = self.pool(ex.worker);
        let metrics = self.metrics.pool(ex.worker);
        let place = self.limits.requests.take().inspect_err(|_| metrics.breaker_refused.add(1))?;
        let idempotent = request.head.is_idempotent();
        let retry = &self.settings.retry;
        let body = match idempotent || retry.attempts > 0 {
            true => request.body.gather_small(retry.body_bytes_max, Kind::BodyTooLarge).await?,
            false => request.body,
        };
        let mut attempts = Attempts {
            key: self.hash_key(&request.head, ex.client),
            upstream: self,
            pool,
            worker: ex.worker,
            head: request.head,
            host,
            body: Some(body),
            tried: Vec::new(),
            left: retry.attempts,
            stale_left: idempotent,
        };
        let active = Active::new(self.metrics.clone(), ex.worker);
        loop {
            let at = attempts.choose()?;
            let Some(target) = self.targets.get(at) else { continue };
            ex.target = Some(target.url().clone());
            let in_flight = target.begin();
            match attempts.once(at, target).await {
                Ok(begun) if attempts.repeats(at, begun.parsed.status) => {}
                Ok(begun) => {
                    self.judge(target, begun.parsed.status < 500);
                    let hold = Hold {
                        pool: attempts.pool,
                        target: at,
                        url: target.url().clone(),
                        timeout: self.settings.timeout.response,
                        _place: place,
                        _in_flight: in_flight,
                        _active: active,
                    };
                    return Ok(reply(begun, hold));
                }
                Err(failure) => attempts.forgive(at, target, failure)?,
            }
            ex.retries += 1;
            metrics.retries.add(1);
        }
    }

    /// Keeps the score of a target, and ejects it when it fails too often.
    fn judge(&self, target: &Target, good: bool) {
        if good {
            return target.succeeded();
        }
        let Some(outlier) = &self.settings.outlier else { return };
        if target.failed(outlier) && self.may_eject(outlier.max_ejected_percent) {
            target.eject(outlier.eject);
            tracing::warn!(upstream = self.settings.name, target = %target.url(), "target ejected: it keeps failing");
        }
    }

    fn may_eject(&self, max_percent: u32) -> bool {
        let ejected = self.targets.iter().filter(|t| t.is_ejected()).count();
        (ejected + 1) * 100 <= self.targets.len() * usize::try_from(max_percent).unwrap_or(100)
    }
}

impl Attempts<'_> {
    fn choose(&self) -> Result<usize, Fault> {
        let chosen = self.upstream.choose(&mut self.pool.turn.borrow_mut(), self.key, &self.tried);
        chosen.ok_or_else(|| {
            let name = &self.upstream.settings.name;
            Fault::new(Kind::NoTarget, format!("upstream {name}: every target is unhealthy or ejected"))
        })
    }

    async fn once(&mut self, at: usize, target: &Target) -> Result<Begun, Failure> {
        let connection = match self.pool.take(at) {
            Some(connection) => connection,
            None => self.upstream.connect(target, self.worker).await.map_err(Failure::unsent)?,
        };
        let reused = connection.reused;
        let Some(body) = self.body.as_ref().and_then(Body::replay).or_else(|| self.body.take()) else {
            return Err(Failure::unsent(Fault::new(Kind::Internal, "the body is gone")));
        };
        let host = match self.host {
            HostSent::AsItCame if self.head.headers.contains("host") => None,
            // An HTTP/1.0 client may name no host; the target is spoken to in 1.1, which must.
            HostSent::AsItCame => Some(target.authority()),
            HostSent::Target => Some(target.authority()),
            HostSent::Named(name) => Some(&**name),
        };
        if host.is_some() {
            self.head.headers.remove("host");
        }
        let timeout = &self.upstream.settings.timeout;
        let call = Call::new(connection, &self.head, host, body, timeout, target.url());
        call.begin().await.map_err(|failure| Failure { silent: failure.silent && reused, ..failure })
    }

    /// Whether a reply of this status is thrown away and asked for again.
    fn repeats(&mut self, at: usize, status: u16) -> bool {
        let again = self.left > 0
            && self.body.is_some()
            && self.upstream.settings.retry.on.statuses.contains(&status);
        if again {
            self.left -= 1;
            self.tried.push(at);
        }
        again
    }

    /// Decides whether to go on after a failure; if not, it is the exchange's fault.
    fn forgive(&mut self, at: usize, target: &Target, failure: Failure) -> Result<(), Fault> {
        if failure.silent && self.stale_left && self.body.is_some() {
            self.stale_left = false;
            return Ok(());
        }
        let (counts, on) = (counts_against(failure.fault.kind), &self.upstream.settings.retry.on);
        if counts {
            self.upstream.judge(target, false);
            self.tried.push(at);
        }
        let allowed = match failure.fault.kind {
            Kind::ConnectFailure | Kind::UpstreamTls => on.connect_failure,
            Kind::ConnectTimeout => on.connect_failure || on.timeout,
            Kind::UpstreamReset => on.reset,
            Kind::UpstreamTimeout => on.timeout,
            _ => false,
        };
        if !(allowed && self.left > 0 && self.body.is_some()) {
            return Err(failure.fault);
        }
        self.left -= 1;
        Ok(())
    }
}

/// A fault of the target, not of the client or of our own limits.
fn counts_against(kind: Kind) -> bool {
    kind.side() == fault::Side::Upstream && kind != Kind::BreakerOpen && kind != Kind::NoTarget
}

impl Failure {
    fn unsent(fault: Fault) -> Failure {
        Failure { fault, silent: false }
    }
}
