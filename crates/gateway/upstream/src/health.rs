//! Background work for the targets of an upstream: name look-ups and active health checks. It ends when the upstream is dropped. Checks
//! also end when another upstream has taken over the target's metrics.

use std::sync::{Arc, Weak};
use std::time::Duration;

use fault::{Fault, Kind};
use grpc::health::ServingStatus;
use grpc::{Dialect, Outcome, Status};
use kit::{SharedAlarm, clock};
use message::{Body, Protocol, RequestHead};
use policy::WaitTime;

use crate::call::{Call, CallSettings, ReplyTimeouts};
use crate::connect::Connection;
use crate::settings::{Health, TargetSettings, UnhealthyAfter};
use crate::target::Target;
use crate::{Upstream, h2, resolver};

/// Starts the background work of one target. It ends when the target is removed.
pub(crate) fn keep_up(upstream: &Arc<Upstream>, target: &Arc<Target>) {
    target.claim(upstream.serial);
    if target.literal().is_none() {
        kit::spawn(refresh(Arc::downgrade(upstream), Arc::downgrade(target)));
    }
    if upstream.settings.health.is_some() {
        kit::spawn(check(Arc::downgrade(upstream), Arc::downgrade(target)));
    }
}

/// An upstream and its target, while both exist.
fn alive(upstream: &Weak<Upstream>, target: &Weak<Target>) -> Option<(Arc<Upstream>, Arc<Target>)> {
    let target = target.upgrade().filter(|target| !target.has_left())?;
    Some((upstream.upgrade()?, target))
}

/// Resolves the target's name periodically. A failed look-up keeps the addresses of the last good one.
async fn refresh(upstream: Weak<Upstream>, target: Weak<Target>) {
    loop {
        let pause = {
            let Some((upstream, target)) = alive(&upstream, &target) else { return };
            let (TargetSettings { host, port, .. }, dns) =
                (target.settings(), &upstream.settings.dns);
            match target.known.look_up(dns, host, *port).await {
                Ok(ttl) => resolver::pause(dns, ttl),
                Err(e) => {
                    upstream.metrics.look_ups_failed(1);
                    tracing::warn!(upstream = upstream.settings.name, target = %target.url(), "name look-up failed: {e}");
                    dns.refresh
                }
            }
        };
        tokio::time::sleep(pause).await;
    }
}

/// Probes the target periodically, and takes it out of balancing or back in after enough equal results in a row.
async fn check(upstream: Weak<Upstream>, target: Weak<Target>) {
    let mut streak = Streak::default();
    let mut stood = true;
    loop {
        let pause = {
            let Some((upstream, target)) = alive(&upstream, &target) else { return };
            let Some(health) = &upstream.settings.health else { return };
            let probed = upstream.probe(&target, health).await;
            if target.is_replaced(upstream.serial) || target.has_left() {
                return;
            }
            let was = target.passes_checks();
            if stood && !was {
                // The target's replies have taken it out meanwhile, so earlier probes no longer count.
                streak = Streak::default();
            }
            let now = streak.after(&probed, was, health);
            stood = now;
            if now == was && now && probed == Probed::Good {
                // This matters for the first result, while the health of the target is still unknown.
                target.set_healthy(true);
            }
            if let (false, Probed::Failed { why, .. }) = (now, &probed) {
                target.explain(why.clone());
            }
            if now != was {
                target.set_healthy(now);
                let why = match probed {
                    Probed::Failed { why, .. } => why,
                    Probed::Good | Probed::Neither => "probes succeed again".to_owned(),
                };
                tracing::warn!(upstream = upstream.settings.name, target = %target.url(), healthy = now, "{why}");
            }
            jittered(health.interval)
        };
        tokio::time::sleep(pause).await;
    }
}

/// The result of a probe.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Probed {
    Good,
    /// A status that is neither good nor a failure.
    Neither,
    Failed {
        kind: FailedBy,
        why: String,
    },
}

/// The kind of a failed probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailedBy {
    Connection,
    Timeout,
    Status,
}

impl Probed {
    fn failed(kind: FailedBy, why: impl Into<String>) -> Probed {
        Probed::Failed { kind, why: why.into() }
    }

    /// What a probe without an answer means.
    fn without_answer(fault: &Fault) -> Probed {
        let is_late = matches!(fault.kind, Kind::ConnectTimeout | Kind::UpstreamTimeout);
        let kind = if is_late {
            FailedBy::Timeout
        } else if fault.kind == Kind::UpstreamMalformed {
            FailedBy::Status
        } else {
            FailedBy::Connection
        };
        Probed::failed(kind, fault.to_string())
    }
}

/// The results since the last one of the other sort.
#[derive(Default)]
struct Streak {
    good: u32,
    connection: u32,
    timeout: u32,
    status: u32,
}

impl Streak {
    /// True if the target is healthy after another result.
    fn after(&mut self, probed: &Probed, was: bool, health: &Health) -> bool {
        match probed {
            Probed::Good => {
                *self = Streak { good: self.good.saturating_add(1), ..Streak::default() };
                was || self.good >= health.healthy_after
            }
            Probed::Neither => was,
            Probed::Failed { kind, .. } => {
                self.good = 0;
                was && !self.failed(*kind, &health.unhealthy_after)
            }
        }
    }

    /// Counts a failure. True if it is the last one that a target may have.
    fn failed(&mut self, kind: FailedBy, after: &UnhealthyAfter) -> bool {
        let count = match kind {
            FailedBy::Connection => &mut self.connection,
            FailedBy::Timeout => &mut self.timeout,
            FailedBy::Status => &mut self.status,
        };
        *count = count.saturating_add(1);
        let count = *count;
        match (after, kind) {
            (UnhealthyAfter::Any(most), _) => {
                let all = self.connection.saturating_add(self.timeout).saturating_add(self.status);
                all >= *most
            }
            (UnhealthyAfter::Each { connection: most, .. }, FailedBy::Connection)
            | (UnhealthyAfter::Each { timeout: most, .. }, FailedBy::Timeout)
            | (UnhealthyAfter::Each { status: most, .. }, FailedBy::Status) => {
                *most > 0 && count >= *most
            }
        }
    }
}

/// The interval, up to a tenth shorter, so that many targets are not probed in one burst.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(1.0 - fastrand::f64() / 10.0)
}

impl Upstream {
    /// Makes one probe on a separate connection.
    async fn probe(self: &Arc<Upstream>, target: &Target, health: &Health) -> Probed {
        let probe = tokio::time::timeout(health.timeout, self.probe_untimed(target, health));
        match probe.await {
            Ok(Ok(probed) | Err(probed)) => probed,
            Err(_) => {
                let why = format!("probe: no answer within {:?}", health.timeout);
                Probed::failed(FailedBy::Timeout, why)
            }
        }
    }

    /// Makes the probe. The error is a failure that ended it early.
    async fn probe_untimed(
        self: &Arc<Upstream>,
        target: &Target,
        health: &Health,
    ) -> Result<Probed, Probed> {
        let offer = self.settings.protocol.offer();
        let (connection, is_http2) = self
            .connect_now(target, telemetry::BACKGROUND, offer)
            .await
            .map_err(|fault| Probed::without_answer(&fault))?;
        if let Some(service) = &health.grpc {
            return if is_http2 {
                self.ask_service(connection, target, service, health.timeout).await
            } else {
                let why = "probe: the target does not support HTTP/2";
                Err(Probed::failed(FailedBy::Connection, why))
            };
        }
        let Some(path) = &health.path else { return Ok(Probed::Good) };
        let mut head = RequestHead::new(Protocol::Http11, b"GET", path.as_bytes());
        for (name, value) in [("connection", &b"close"[..]), ("user-agent", b"tidegate-health")] {
            let unwritten = |_| Probed::failed(FailedBy::Connection, "the probe cannot be written");
            head.headers.add(name, value).map_err(unwritten)?;
        }
        let alarm = SharedAlarm::default();
        let wait = ReplyTimeouts::within(&alarm, health.timeout);
        let (began, authority) = (clock::now(), target.authority());
        let client_wait = WaitTime::default();
        let settings =
            CallSettings { wait, url: target.url(), interim: None, client_wait: &client_wait };
        let body = Body::Empty;
        let status = if is_http2 {
            let permit = h2::apart(self, connection, target);
            let is_https = target.settings().https;
            match h2::Call::new(permit, &head, is_https, authority.as_bytes(), body, settings) {
                Ok(call) => call.begin(began).await.map(|begun| begun.head.status),
                Err(failure) => Err(failure),
            }
        } else {
            let call = Call::new(connection, &head, Some(authority), body, settings);
            call.begin(began).await.map(|begun| begun.parsed.status)
        };
        let status = status.map_err(|failure| Probed::without_answer(&failure.fault))?;
        let is_in =
            |ranges: &[(u16, u16)]| ranges.iter().any(|(from, to)| (*from..=*to).contains(&status));
        let failed = health.unhealthy_statuses.as_deref();
        if is_in(&health.statuses) {
            Ok(Probed::Good)
        } else if failed.is_some_and(|failed| !is_in(failed)) {
            Ok(Probed::Neither)
        } else {
            let took = clock::now().duration_since(began);
            let why = format!("probe: status {status} after {took:?}");
            Ok(Probed::failed(FailedBy::Status, why))
        }
    }
}

impl Upstream {
    /// Queries a target by the gRPC health protocol.
    async fn ask_service(
        self: &Arc<Upstream>,
        connection: Connection,
        target: &Target,
        service: &str,
        timeout: Duration,
    ) -> Result<Probed, Probed> {
        let mut head = RequestHead::new(Protocol::Http2, b"POST", grpc::health::PATH.as_bytes());
        let lines = &mut head.headers;
        lines.add_known("content-type", Dialect::Grpc.name().as_bytes());
        lines.add_known("te", b"trailers");
        lines.add_known("grpc-timeout", grpc::write_timeout(timeout).as_bytes());
        lines.add_known("user-agent", b"tidegate-health");
        let alarm = SharedAlarm::default();
        let wait = ReplyTimeouts::within(&alarm, timeout);
        let permit = h2::apart(self, connection, target);
        let (is_https, authority) = (target.settings().https, target.authority().as_bytes());
        let client_wait = WaitTime::default();
        let body = Body::whole(grpc::health::request(service).into());
        let settings =
            CallSettings { wait, url: target.url(), interim: None, client_wait: &client_wait };
        let call = h2::Call::new(permit, &head, is_https, authority, body, settings);
        let begun = match call {
            Ok(call) => call.begin(clock::now()).await,
            Err(failure) => Err(failure),
        };
        let begun = begun.map_err(|failure| Probed::without_answer(&failure.fault))?;
        let bad = |why: String| Probed::failed(FailedBy::Status, why);
        let status = begun.head.status;
        if status != 200 {
            return Err(bad(format!("probe: status {status}")));
        }
        let early = begun.head.headers.get("grpc-status").map(Outcome::of);
        let whole = h2::whole(begun, grpc::health::REPLY_BYTES_MAX).await;
        let (message, trailers) = whole.map_err(|why| bad(format!("probe: {why}")))?;
        match early.or_else(|| Outcome::in_trailers(&trailers)) {
            Some(Outcome::Status(Status::Ok)) => {}
            Some(other) => return Err(bad(format!("probe: grpc-status {}", other.label()))),
            None => return Err(bad("probe: a reply without a grpc-status".to_owned())),
        }
        match grpc::health::reply(&message) {
            Ok(ServingStatus::Serving) => Ok(Probed::Good),
            Ok(other) => Err(bad(format!("probe: the service is {}", other.name()))),
            Err(why) => Err(bad(format!("probe: {why}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn health(unhealthy_after: UnhealthyAfter) -> Health {
        Health {
            path: None,
            grpc: None,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            unhealthy_after,
            healthy_after: 3,
            statuses: vec![(200, 399)],
            unhealthy_statuses: None,
        }
    }

    /// Compares the health after each letter: `g`ood, `n`either, or failed by `c`onnection, `t`imeout or `s`tatus. In the second text
    /// `+` is healthy.
    fn expect_health(after: UnhealthyAfter, results: &str, expected: &str) {
        let health = health(after);
        let mut streak = Streak::default();
        let mut healthy = true;
        let shown: String = results
            .chars()
            .map(|result| {
                let probed = match result {
                    'g' => Probed::Good,
                    'c' => Probed::failed(FailedBy::Connection, ""),
                    't' => Probed::failed(FailedBy::Timeout, ""),
                    's' => Probed::failed(FailedBy::Status, ""),
                    _ => Probed::Neither,
                };
                healthy = streak.after(&probed, healthy, &health);
                if healthy { '+' } else { '-' }
            })
            .collect();
        assert_eq!(shown, expected, "{results} with {:?}", health.unhealthy_after);
    }

    #[test]
    fn health_changes_after_enough_results_in_a_row() {
        let each =
            |connection, timeout, status| UnhealthyAfter::Each { connection, timeout, status };
        for (after, results, expected) in [
            (UnhealthyAfter::Any(2), "sgssggsggg", "+++------+"),
            (UnhealthyAfter::Any(2), "cgts", "+++-"),
            (UnhealthyAfter::Any(2), "snngnsns", "+++++++-"),
            (each(2, 1, 3), "cscsg", "++---"),
            (each(2, 1, 3), "cgcsst", "+++++-"),
            (each(0, 0, 2), "cctttsgsns", "+++++++++-"),
            (each(2, 0, 0), "cscggncgggg", "++-------++"),
        ] {
            expect_health(after, results, expected);
        }
    }
}
