//! Background work for the targets of an upstream: name look-ups and active health checks. It ends when the upstream is dropped. Checks
//! also end when another upstream has taken over the target's metrics.

use std::sync::{Arc, Weak};
use std::time::Duration;

use grpc::health::ServingStatus;
use grpc::{Dialect, Outcome, Status};
use kit::{SharedAlarm, clock};
use message::{Body, Protocol, RequestHead};
use policy::WaitTime;

use crate::call::{Call, CallSettings, ReplyTimeouts};
use crate::connect::Connection;
use crate::settings::{Health, TargetSettings};
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
            let now = streak.after(probed.is_ok(), was, health);
            stood = now;
            if now == was && now && probed.is_ok() {
                // This matters for the first result, while the health of the target is still unknown.
                target.set_healthy(true);
            }
            if let (false, Err(why)) = (now, &probed) {
                target.explain(why.clone());
            }
            if now != was {
                target.set_healthy(now);
                let why = probed.err().unwrap_or_else(|| "probes succeed again".to_owned());
                tracing::warn!(upstream = upstream.settings.name, target = %target.url(), healthy = now, "{why}");
            }
            jittered(health.interval)
        };
        tokio::time::sleep(pause).await;
    }
}

/// The number of successive results of the same kind.
#[derive(Default)]
struct Streak {
    good: bool,
    len: u32,
}

impl Streak {
    /// True if the target is healthy after another result.
    fn after(&mut self, good: bool, was: bool, health: &Health) -> bool {
        self.len = if self.good == good { self.len.saturating_add(1) } else { 1 };
        self.good = good;
        if good {
            was || self.len >= health.healthy_after
        } else {
            was && self.len < health.unhealthy_after
        }
    }
}

/// The interval, up to a tenth shorter, so that many targets are not probed in one burst.
fn jittered(interval: Duration) -> Duration {
    interval.mul_f64(1.0 - fastrand::f64() / 10.0)
}

impl Upstream {
    /// Makes one probe on a separate connection.
    async fn probe(self: &Arc<Upstream>, target: &Target, health: &Health) -> Result<(), String> {
        let probe = tokio::time::timeout(health.timeout, self.probe_untimed(target, health));
        probe.await.unwrap_or_else(|_| Err(format!("probe: no answer within {:?}", health.timeout)))
    }

    async fn probe_untimed(
        self: &Arc<Upstream>,
        target: &Target,
        health: &Health,
    ) -> Result<(), String> {
        let offer = self.settings.protocol.offer();
        let (connection, is_http2) = self
            .connect_now(target, telemetry::BACKGROUND, offer)
            .await
            .map_err(|fault| fault.to_string())?;
        if let Some(service) = &health.grpc {
            return if is_http2 {
                self.ask_service(connection, target, service, health.timeout).await
            } else {
                Err("probe: the target does not support HTTP/2".to_owned())
            };
        }
        let Some(path) = &health.path else { return Ok(()) };
        let mut head = RequestHead::new(Protocol::Http11, b"GET", path.as_bytes());
        for (name, value) in [("connection", &b"close"[..]), ("user-agent", b"tidegate-health")] {
            head.headers.add(name, value).map_err(|_| "the probe cannot be written".to_owned())?;
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
        let status = status.map_err(|failure| failure.fault.to_string())?;
        if health.statuses.iter().any(|(from, to)| (*from..=*to).contains(&status)) {
            Ok(())
        } else {
            Err(format!("probe: status {status} after {:?}", clock::now().duration_since(began)))
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
    ) -> Result<(), String> {
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
        let begun = begun.map_err(|failure| failure.fault.to_string())?;
        let status = begun.head.status;
        if status != 200 {
            return Err(format!("probe: status {status}"));
        }
        let early = begun.head.headers.get("grpc-status").map(Outcome::of);
        let whole = h2::whole(begun, grpc::health::REPLY_BYTES_MAX).await;
        let (message, trailers) = whole.map_err(|why| format!("probe: {why}"))?;
        match early.or_else(|| Outcome::in_trailers(&trailers)) {
            Some(Outcome::Status(Status::Ok)) => {}
            Some(other) => return Err(format!("probe: grpc-status {}", other.label())),
            None => return Err("probe: a reply without a grpc-status".to_owned()),
        }
        match grpc::health::reply(&message) {
            Ok(ServingStatus::Serving) => Ok(()),
            Ok(other) => Err(format!("probe: the service is {}", other.name())),
            Err(why) => Err(format!("probe: {why}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn health_changes_after_enough_results_in_a_row() {
        let health = Health {
            path: None,
            grpc: None,
            interval: Duration::from_secs(1),
            timeout: Duration::from_secs(1),
            unhealthy_after: 2,
            healthy_after: 3,
            statuses: vec![(200, 399)],
        };
        let mut streak = Streak::default();
        let mut healthy = true;
        let results = [false, true, false, false, true, true, false, true, true, true];
        let expected = [true, true, true, false, false, false, false, false, false, true];
        for (good, expected) in results.into_iter().zip(expected) {
            healthy = streak.after(good, healthy, &health);
            assert_eq!(healthy, expected);
        }
    }
}
