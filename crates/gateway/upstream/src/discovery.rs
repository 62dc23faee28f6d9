//! Targets from DNS: the records of a service (SRV, RFC 2782), or each address of a name.
//!
//! One task for each upstream repeats the look-ups when an answer has expired, and installs a new set of targets if something has changed.
//! If a look-up fails, the previous result stays. Requests wait only until the first look-up has ended.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dns::Service;
use fault::Fault;
use futures_util::{StreamExt as _, stream};
use kit::clock::{self, Instant};

use crate::connect::PendingConnection;
use crate::pool::Pool;
use crate::resolver::{self, LookupResult};
use crate::roster::Roster;
use crate::settings::{Dns, ServiceName, TargetSettings, Targets};
use crate::target_set::Knowledge;
use crate::{Upstream, health};

/// The largest number of targets of one upstream. Each has metrics, connections on every worker and perhaps health checks. Further targets
/// are left out and reported.
pub(crate) const TARGETS_MAX: usize = 1000;

/// The maximum number of concurrent look-ups of one upstream.
const LOOK_UPS_MAX: usize = 16;

/// The maximum number of reasons in one log line.
const REASONS_TOLD_MAX: usize = 5;

/// The pause after a failed look-up.
const FAILURE_PAUSE: Duration = Duration::from_secs(1);

/// If only some records of a priority have a weight of zero, the weights of the others are multiplied by this.
const WEIGHT_FACTOR: u32 = 100;

/// One target as DNS describes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FoundTarget {
    pub(crate) priority: u16,
    pub(crate) settings: TargetSettings,
    /// Set if the target is one of the addresses of a name.
    pub(crate) address: Option<SocketAddr>,
    pub(crate) weight: u32,
}

/// The results of an upstream's look-ups.
#[derive(Default)]
struct Names {
    /// The records of the last successful answer.
    services: Vec<Service>,
    /// The addresses of each host in the last successful answers, for each version of IP.
    addresses: BTreeMap<String, [Vec<IpAddr>; 2]>,
    /// The problems of the last round, as logged.
    wrong: Vec<String>,
    left_out: usize,
}

/// The result of one look-up of all names.
#[derive(Default)]
struct Round {
    ttl: Option<Duration>,
    /// Failed look-ups, and records that cannot be used.
    wrong: Vec<String>,
    failures: u64,
}

/// Repeats the look-ups of an upstream while it exists.
pub(crate) async fn discover(upstream: Weak<Upstream>) {
    let mut names = Names::default();
    loop {
        let pause = {
            let Some(upstream) = upstream.upgrade() else { return };
            names.round(&upstream).await
        };
        tokio::time::sleep(pause).await;
    }
}

impl Names {
    /// One look-up of all names. Returns the time until the next.
    async fn round(&mut self, upstream: &Arc<Upstream>) -> Duration {
        let dns = &upstream.settings().dns;
        let mut round = Round::default();
        let mut targets = match &upstream.settings().targets {
            Targets::Fixed(_) => return Duration::MAX,
            Targets::EachAddress(targets) => {
                let hosts = targets.iter().map(|target| target.host.clone()).collect();
                self.look_up_hosts(dns, hosts, &mut round).await;
                targets.iter().flat_map(|target| self.each_address(target, 0, 1)).collect()
            }
            Targets::Service(name) => self.look_up_service(dns, name, &mut round).await,
        };
        merge(&mut targets);
        let left_out = targets.len().saturating_sub(TARGETS_MAX);
        self.report(upstream, &round, left_out);
        // Harmless: the targets that are left out were reported.
        targets.truncate(TARGETS_MAX);
        let is_none = |service: &Service| service.host.is_empty();
        let knowledge = match (targets.is_empty(), self.services.is_empty()) {
            (false, _) => Knowledge::Known,
            (true, false) if self.services.iter().all(is_none) => Knowledge::NotAvailable,
            (true, _) => Knowledge::Unresolved(told(&round.wrong)),
        };
        for target in upstream.install(targets, knowledge) {
            health::keep_up(upstream, &target);
        }
        match round.failures {
            0 => resolver::pause(dns, round.ttl),
            _ => FAILURE_PAUSE.min(dns.refresh),
        }
    }

    async fn look_up_service(
        &mut self,
        dns: &Dns,
        name: &ServiceName,
        round: &mut Round,
    ) -> Vec<FoundTarget> {
        match dns.servers.services(&name.name).await {
            Ok(found) => {
                round.note_ttl(found.ttl);
                self.services = found.records;
            }
            Err(failure) => round.failed(format!("{}: {failure}", name.name)),
        }
        let mut usable: Vec<&Service> = Vec::new();
        for service in self.services.iter().filter(|service| !service.host.is_empty()) {
            match unusable(service, name) {
                Some(why) => round.wrong.push(why),
                None => usable.push(service),
            }
        }
        let weighed = weigh(&usable);
        let target = |service: &Service| TargetSettings {
            https: name.https,
            host: service.host.clone(),
            port: service.port,
            weight: 1,
        };
        let named: Vec<(u16, u32, TargetSettings)> =
            weighed.map(|(service, weight)| (service.priority, weight, target(service))).collect();
        if name.each_address {
            let hosts = named.iter().map(|(.., target)| target.host.clone()).collect();
            self.look_up_hosts(dns, hosts, round).await;
            let each =
                |(priority, weight, target): &_| self.each_address(target, *priority, *weight);
            return named.iter().flat_map(each).collect();
        }
        let found = |(priority, weight, settings)| FoundTarget {
            priority,
            settings,
            address: None,
            weight,
        };
        named.into_iter().map(found).collect()
    }

    /// Looks up the addresses of hosts, and forgets those of all other hosts.
    async fn look_up_hosts(&mut self, dns: &Dns, mut hosts: Vec<String>, round: &mut Round) {
        hosts.sort_unstable();
        hosts.dedup();
        self.addresses.retain(|host, _| hosts.binary_search(host).is_ok());
        let look_up = async |host: String| {
            let looked = resolver::look_up(dns, &host).await;
            (host, looked)
        };
        let looked = stream::iter(hosts).map(look_up).buffer_unordered(LOOK_UPS_MAX);
        let looked: Vec<(String, LookupResult)> = looked.collect().await;
        for (host, LookupResult { families, ttl }) in looked {
            ttl.into_iter().for_each(|ttl| round.note_ttl(ttl));
            if families.iter().all(|found| found.as_ref().is_ok_and(Vec::is_empty)) {
                round.failed(format!("{host}: {}", resolver::no_address()));
                continue;
            }
            let known = self.addresses.entry(host.clone()).or_default();
            let mut why: Option<String> = None;
            // Harmless: both have a place for each version of IP.
            for (known, found) in known.iter_mut().zip(families) {
                match found {
                    Ok(found) => *known = found,
                    Err(error) => why = Some(format!("{host}: {error}")),
                }
            }
            why.into_iter().for_each(|why| round.failed(why));
        }
    }

    /// The addresses of a target's host, as targets.
    fn each_address(
        &self,
        target: &TargetSettings,
        priority: u16,
        weight: u32,
    ) -> Vec<FoundTarget> {
        // Harmless: missing addresses were reported by the look-up.
        let known = self.addresses.get(&target.host).into_iter().flatten().flatten();
        let found = |ip: &IpAddr| FoundTarget {
            priority,
            settings: TargetSettings { weight: 1, ..target.clone() },
            address: Some(SocketAddr::new(*ip, target.port)),
            weight,
        };
        known.map(found).collect()
    }

    /// Logs the problems if they differ from those of the last round.
    fn report(&mut self, upstream: &Upstream, round: &Round, left_out: usize) {
        let name = &upstream.settings().name;
        upstream.metrics.look_ups_failed(round.failures);
        upstream.metrics.set_left_out(left_out);
        if round.wrong != self.wrong {
            match round.wrong.as_slice() {
                [] => tracing::info!(upstream = name, "the look-up of targets succeeds again"),
                wrong => {
                    let targets = upstream.set.load().members().len();
                    let wrong = told(wrong);
                    tracing::warn!(upstream = name, targets, "look-up of targets: {wrong}");
                }
            }
            self.wrong.clone_from(&round.wrong);
        }
        if left_out != self.left_out && left_out > 0 {
            tracing::warn!(
                upstream = name,
                left_out,
                "DNS names more targets than the {TARGETS_MAX} that an upstream may have"
            );
        }
        self.left_out = left_out;
    }
}

impl Round {
    fn note_ttl(&mut self, ttl: Duration) {
        self.ttl = Some(self.ttl.map_or(ttl, |known| known.min(ttl)));
    }

    fn failed(&mut self, why: String) {
        self.failures += 1;
        self.wrong.push(why);
    }
}

/// The first reasons, and the number of the others, since an answer may have thousands of records.
fn told(wrong: &[String]) -> String {
    let (first, more) = wrong.split_at(wrong.len().min(REASONS_TOLD_MAX));
    match more.len() {
        0 => first.join("; "),
        more => format!("{}; and {more} more", first.join("; ")),
    }
}

/// Returns the reason why a record cannot be a target, or `None` if it can.
fn unusable(service: &Service, name: &ServiceName) -> Option<String> {
    let Service { host, port, .. } = service;
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    if *port == 0 || !host.chars().all(is_part) {
        return Some(format!("{}: `{}:{port}` cannot be a target", name.name, host.escape_debug()));
    }
    let domain = name.hosts_in.as_deref()?;
    let is_within =
        host.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
    (!is_within).then(|| {
        format!("{}: `{host}` is not in `{domain}`, and without `tls.server_name` a certificate cannot prove that it is a target", name.name)
    })
}

/// The weight of each record. A record with zero gets few requests beside others; if all have zero, they get the same
/// share.
fn weigh<'s>(services: &'s [&'s Service]) -> impl Iterator<Item = (&'s Service, u32)> {
    let group = |priority: u16| services.iter().filter(move |of| of.priority == priority);
    services.iter().map(move |service| {
        let has_zero = group(service.priority).any(|of| of.weight == 0);
        let has_more = group(service.priority).any(|of| of.weight > 0);
        let weight = u32::from(service.weight);
        let weight = match (has_zero, has_more) {
            (false, _) => weight,
            (true, true) => weight * WEIGHT_FACTOR,
            (true, false) => 1,
        };
        (*service, weight.max(1))
    })
}

/// Sorts targets by priority. A repeated target counts once, with its best priority and the sum of its weights in that
/// priority.
fn merge(targets: &mut Vec<FoundTarget>) {
    targets.sort_by(|a, b| {
        let key = |of: &FoundTarget| (of.priority, of.address);
        a.settings.cmp(&b.settings).then(a.address.cmp(&b.address)).then(key(a).cmp(&key(b)))
    });
    targets.dedup_by(|again, first| {
        let is_same = again.settings == first.settings && again.address == first.address;
        if is_same && again.priority == first.priority {
            first.weight = first.weight.saturating_add(again.weight);
        }
        is_same
    });
    targets.sort();
}

impl Upstream {
    /// The current targets. Waits for the first look-up if necessary.
    pub(crate) async fn roster(
        &self,
        pool: &Pool,
        worker: usize,
        deadline: Option<Instant>,
    ) -> Result<Rc<Roster>, Fault> {
        let roster = pool.roster(self);
        if !roster.set.is_unknown() {
            return Ok(roster);
        }
        // Boxed, since it happens only once.
        Box::pin(self.first_set(worker, deadline)).await?;
        Ok(pool.roster(self))
    }

    /// Waits for the first look-up, for at most the connect timeout.
    async fn first_set(&self, worker: usize, deadline: Option<Instant>) -> Result<(), Fault> {
        if kit::stand_in::is_active() {
            self.install(self.stand_ins(), Knowledge::Known);
            return Ok(());
        }
        let _pending = PendingConnection::begin(self, worker)?;
        let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
        let connect = self.settings().timeout.connect;
        let time = left.map_or(connect, |left| left.min(connect));
        let first = async {
            loop {
                let changed = self.set_changed.notified();
                if !self.set.load().is_unknown() {
                    return;
                }
                changed.await;
            }
        };
        // Harmless: if the set is still unknown after the timeout, the request fails with that reason.
        let _ = tokio::time::timeout(time, first).await;
        Ok(())
    }

    /// The targets if a stand-in replaces look-ups and connections.
    fn stand_ins(&self) -> Vec<FoundTarget> {
        let targets = match &self.settings().targets {
            Targets::Fixed(targets) | Targets::EachAddress(targets) => targets.clone(),
            Targets::Service(ServiceName { https, name, .. }) => {
                let port = if *https { 443 } else { 80 };
                vec![TargetSettings { https: *https, host: name.clone(), port, weight: 1 }]
            }
        };
        let found = |settings| FoundTarget { priority: 0, settings, address: None, weight: 1 };
        targets.into_iter().map(found).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn service(priority: u16, weight: u16, port: u16, host: &str) -> Service {
        Service { priority, weight, port, host: host.to_owned() }
    }

    #[test]
    fn a_weight_of_zero_is_little_beside_others() {
        for (weights, expected) in [
            (&[1, 3][..], &[1, 3][..]),
            (&[0, 0], &[1, 1]),
            (&[0, 1, 65_535], &[1, 100, 6_553_500]),
        ] {
            let all: Vec<Service> =
                weights.iter().map(|weight| service(5, *weight, 80, "a")).collect();
            let mut all: Vec<&Service> = all.iter().collect();
            let other = service(6, 0, 80, "b");
            all.push(&other);
            let weighed: Vec<u32> = weigh(&all).map(|(_, weight)| weight).collect();
            assert_eq!(weighed, [expected, &[1]].concat(), "{weights:?}");
        }
    }

    #[test]
    fn a_repeated_target_counts_once_in_its_best_priority() {
        let found = |priority, host: &str, weight| FoundTarget {
            priority,
            settings: TargetSettings { https: false, host: host.to_owned(), port: 80, weight: 1 },
            address: None,
            weight,
        };
        let mut all = vec![found(2, "a", 4), found(1, "a", 1), found(3, "b", 1), found(1, "a", 2)];
        merge(&mut all);
        assert_eq!(all, [found(1, "a", 3), found(3, "b", 1)]);
    }

    #[test]
    fn only_hosts_that_a_certificate_can_prove_are_targets_over_tls() {
        let mut name = ServiceName {
            https: true,
            name: "_a._tcp.example.com".to_owned(),
            each_address: false,
            hosts_in: Some("example.com".to_owned()),
        };
        for (host, port, expected) in [
            ("a.example.com", 443, true),
            ("example.com", 443, true),
            ("badexample.com", 443, false),
            ("example.com.evil.test", 443, false),
            ("a.example.com", 0, false),
            ("a b.example.com", 443, false),
        ] {
            let why = unusable(&service(0, 0, port, host), &name);
            assert_eq!(why.is_none(), expected, "{host}: {why:?}");
        }
        name.hosts_in = None;
        assert_eq!(unusable(&service(0, 0, 1, "evil.test"), &name), None);
    }
}
