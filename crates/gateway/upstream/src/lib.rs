//! Sends requests to upstreams: chooses the target and the connection, applies time limits, and handles failures.
//!
//! Owns the connection pools of each worker, balancing, sticky cookies, health, outlier ejection, suspension, breaker limits, timeouts and
//! retries, the HTTP/1 and HTTP/2 clients, and the hop-by-hop part of a head ([`forward`]). A request enters through [`Upstream::send`],
//! and leaves as a reply whose body is read from the target's connection. This crate never decides what the client gets for a failure:
//! every failure is a `Fault`.
#![forbid(unsafe_code)]

mod address_rule;
mod addresses;
mod attempt_span;
mod balance;
mod breaker;
mod call;
mod called_url;
mod connect;
mod discovery;
mod endpoints;
pub mod forward;
mod h2;
mod health;
mod maintain;
mod mirror;
mod pool;
mod replay_buffer;
mod reply;
mod resolver;
mod roster;
mod send;
mod settings;
mod sticky;
mod suspension;
mod target;
mod target_set;
#[cfg(test)]
mod tests;

pub use address_rule::AddressRule;
pub use balance::hash_of_capture;
pub use called_url::{CalledUrl, UrlError, split_origin};
pub use dns::Servers;
pub use endpoints::{AllowedHost, AllowedUrl, Endpoint, Endpoints};
pub use maintain::maintain;
pub use mirror::Mirror;
pub use pool::sweep;
pub use settings::{
    Additions, Balance, Breaker, Dns, Failures, HashKey, Health, HostSent, Outlier, Protocol,
    Retry, ServiceName, Sticky, StickySecret, Suspend, TargetSettings, Targets, Timeouts,
    UnhealthyAfter, UpstreamSettings,
};
pub use target::Target;
pub use target_set::{Knowledge, Member, TargetSet};

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwap;
use telemetry::UpstreamMetrics;
use tokio::sync::Notify;

use crate::discovery::FoundTarget;

/// One upstream: its settings and the state all workers share.
pub struct Upstream {
    settings: UpstreamSettings,
    /// The current targets. Each worker has a copy.
    set: ArcSwap<TargetSet>,
    /// The version of that set, by which workers notice that their copy is old.
    set_version: AtomicU64,
    /// Notifies requests that wait for the first set.
    set_changed: Notify,
    /// The cookie that keeps clients at their targets, if configured.
    pins: Option<sticky::Pins>,
    limits: breaker::Limits,
    metrics: Arc<UpstreamMetrics>,
    /// The TLS settings for connections that may use HTTP/2, if any may.
    tls_http2: Option<Arc<rustls::ClientConfig>>,
    /// The serial number of this upstream in the process, by which each worker finds its pool.
    serial: u64,
}

impl Upstream {
    /// Makes the shared state. Nothing is connected or resolved yet: see [`maintain()`].
    pub fn new(settings: UpstreamSettings, metrics: Arc<UpstreamMetrics>) -> Arc<Upstream> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let pins = settings.sticky.as_ref().map(sticky::Pins::new);
        let mut upstream = Upstream {
            set: ArcSwap::from_pointee(TargetSet::new(0, Vec::new(), Knowledge::Unknown)),
            set_version: AtomicU64::new(0),
            set_changed: Notify::new(),
            pins,
            limits: breaker::Limits::new(&settings.breaker),
            tls_http2: match settings.protocol {
                Protocol::Http1 => None,
                Protocol::Http2 => Some(settings.tls.offering(&["h2"])),
                Protocol::Auto => Some(settings.tls.offering(&["h2", "http/1.1"])),
            },
            metrics,
            serial: SERIAL.fetch_add(1, Ordering::Relaxed),
            settings,
        };
        if let Targets::Fixed(targets) = &upstream.settings.targets {
            let member = |target: &TargetSettings| Member {
                target: upstream.target(target, None),
                weight: target.weight,
                priority: 0,
            };
            let set = TargetSet::new(0, targets.iter().map(member).collect(), Knowledge::Known);
            upstream.set = ArcSwap::from_pointee(set);
        }
        Arc::new(upstream)
    }

    /// Takes over the DNS results of a previous upstream, until its own first look-ups have ended: the targets, and the addresses of
    /// their names.
    pub fn inherit(&self, before: &Upstream) {
        let found = before.targets();
        let is_fixed = matches!(self.settings.targets, Targets::Fixed(_));
        let are_same = self.settings.targets == before.settings.targets;
        if !is_fixed && are_same && !found.members().is_empty() {
            let target = |member: &Member| FoundTarget {
                priority: member.priority,
                settings: member.target.settings().clone(),
                address: member.target.address(),
                weight: member.weight,
            };
            self.install(found.members().iter().map(target).collect(), Knowledge::Known);
        }
        for member in self.targets().members().iter().filter(|of| of.target.literal().is_none()) {
            let place = |target: &Target| (target.settings().host.clone(), target.settings().port);
            let same = found.members().iter().find(|of| {
                of.target.literal().is_none() && place(&of.target) == place(&member.target)
            });
            same.inspect(|same| member.target.known.inherit(&same.target.known));
        }
    }

    pub fn settings(&self) -> &UpstreamSettings {
        &self.settings
    }

    /// The targets with their current state: the best priority first, then in the configured order.
    pub fn targets(&self) -> Arc<TargetSet> {
        self.set.load_full()
    }

    pub(crate) fn set_version(&self) -> u64 {
        self.set_version.load(Ordering::Acquire)
    }

    fn target(&self, settings: &TargetSettings, address: Option<SocketAddr>) -> Arc<Target> {
        let pins = self.pins.as_ref();
        Arc::new(Target::new(settings, address, &self.settings, &self.metrics, pins))
    }

    /// Installs a new set of targets, and returns those that are new. Targets that stay keep their state. An empty set is ignored if
    /// there are targets already, unless DNS states that there are none.
    fn install(&self, endpoints: Vec<FoundTarget>, knowledge: Knowledge) -> Vec<Arc<Target>> {
        let before = self.set.load_full();
        if matches!(knowledge, Knowledge::Unresolved(_)) && !before.members().is_empty() {
            return Vec::new();
        }
        let known: HashMap<(&TargetSettings, Option<SocketAddr>), &Arc<Target>> = before
            .members()
            .iter()
            .map(|member| ((member.target.settings(), member.target.address()), &member.target))
            .collect();
        let mut new = Vec::new();
        let members = endpoints.into_iter().map(|endpoint| {
            let target = match known.get(&(&endpoint.settings, endpoint.address)) {
                Some(target) => Arc::clone(target),
                None => {
                    let target = self.target(&endpoint.settings, endpoint.address);
                    new.push(target.clone());
                    target
                }
            };
            Member { target, weight: endpoint.weight, priority: endpoint.priority }
        });
        let members: Vec<Member> = members.collect();
        if before.is_same(&members, &knowledge) {
            return new;
        }
        let set = TargetSet::new(before.version + 1, members, knowledge);
        let left = before.members().iter().filter(|member| !set.contains(&member.target));
        let left = left.inspect(|member| member.target.leave()).count();
        let (name, targets) = (&self.settings.name, set.members().len());
        tracing::info!(upstream = name, targets, new = new.len(), left, "targets changed");
        let version = set.version;
        self.set.store(Arc::new(set));
        self.set_version.store(version, Ordering::Release);
        self.set_changed.notify_waiters();
        new
    }
}
