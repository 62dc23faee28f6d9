//! Compiles `upstreams` to settings, and settings to upstreams.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use config::{
    At, Balance, Config, Decode as _, HashBy, OutlierUntil, Report, Retry, RetryOn, StatusRange,
    TargetAddress, TargetUrl, UpstreamAddresses, UpstreamProtocol, UpstreamTimeout, UpstreamTls,
};
use plan::telemetry::Telemetry;
use plan::upstreams::{self as settled, HashKey, TargetSettings, Upstream, UpstreamSettings};
use plan::{Plan, UpstreamAddition};
use tls::{Client, ClientSpec};

use crate::files::InService;
use crate::listeners::{bytes, count};
use crate::policies::{self, NamedUpstreams};
use crate::policy_builder::PolicyBuilder;
use crate::{files, paths, upstream_basic, upstream_oauth, upstream_soap, upstream_targets};

/// Compiles the settings of all upstreams. Upstreams with faults get complaints.
pub(crate) fn compile(
    config: &Config,
    in_service: InService<'_>,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Vec<UpstreamSettings> {
    let routes = config.routes.iter().filter_map(|(_, route)| route.value.upstream.as_ref());
    let mirrors = config.routes.iter().filter_map(|(_, route)| route.value.mirror.as_ref());
    let mirrors = mirrors.map(|mirror| mirror.value.upstream.value.as_str());
    let used = routes.flat_map(|upstream| upstream.value.names()).chain(mirrors);
    let mut used: HashSet<&str> = used.collect();
    for row in config.routes.iter().flat_map(|(_, route)| policies::of(&route.value)) {
        match row.upstreams {
            NamedUpstreams::These(names) => used.extend(names),
            NamedUpstreams::Any => used.extend(config.upstreams.names()),
        }
    }
    used.extend(crate::flows::upstreams(config));
    // If a route could not be read completely, it may use any upstream, so none is reported as unused.
    let whole = config.routes.names().count() == config.routes.len()
        && config.routes.iter().all(|(_, route)| route.intact)
        && config.flows.iter().all(|(_, flow)| flow.intact);
    // The host of a URL may be the name of an upstream in another case.
    let is_used = |name: &str| used.contains(name) || used.contains(&*name.to_ascii_lowercase());
    let unused = |name: &str| whole && !is_used(name);
    for (name, _) in config.upstreams.iter().filter(|(name, _)| unused(&name.value)) {
        let what = format!("nothing uses the upstream `{}`", name.value);
        report.warn(
            name.at,
            what,
            "remove it, or name it in a route's `upstream` or a flow's `call`",
        );
    }
    let mut clients = Clients { in_service, known: HashMap::new() };
    let all: Vec<UpstreamSettings> = config
        .upstreams
        .iter()
        .filter_map(|(name, upstream)| {
            settings(config, &name.value, upstream, (&mut clients, &mut *builder), report)
        })
        .collect();
    let names = config.upstreams.names().map(str::to_owned).collect();
    builder.set_upstreams(names, &all);
    all
}

/// Builds the upstreams. An upstream whose settings did not change is taken over from the previous plan, with its connections and its
/// health.
pub(crate) fn build(
    all: Vec<UpstreamSettings>,
    previous: Option<&Plan>,
    telemetry: &Telemetry,
) -> Vec<Arc<Upstream>> {
    let old: HashMap<&str, &Arc<Upstream>> = previous
        .into_iter()
        .flat_map(|plan| &plan.upstreams)
        .map(|upstream| (upstream.settings().name.as_str(), upstream))
        .collect();
    all.into_iter()
        .map(|settings| match old.get(settings.name.as_str()) {
            Some(old) if *old.settings() == settings => Arc::clone(old),
            old => {
                let metrics = telemetry.upstream(&settings.name);
                let upstream = Upstream::new(settings, metrics);
                old.inspect(|old| upstream.inherit(old));
                upstream
            }
        })
        .collect()
}

/// Compiles the timeouts of an upstream.
pub(crate) fn timeouts(keys: &UpstreamTimeout) -> settled::Timeouts {
    settled::Timeouts {
        connect: keys.connect.0,
        response: keys.response.0,
        write: keys.write.map(|write| write.0),
        total: keys.total.map(|total| total.0),
        idle: keys.idle.0,
    }
}

/// Returns the settings of an upstream for a URL that a policy calls: one target, the default bounds, no retries.
pub(crate) fn to_url(
    url: &TargetUrl,
    timeout: settled::Timeouts,
    tls: &UpstreamTls,
    report: &mut Report,
) -> Option<UpstreamSettings> {
    let target =
        TargetSettings { https: url.tls, host: url.host.clone(), port: url.port, weight: 1 };
    Some(UpstreamSettings {
        name: target.url(),
        addresses: None,
        targets: settled::Targets::Fixed(vec![target]),
        protocol: settled::Protocol::Http1,
        balance: settled::Balance::RoundRobin,
        available_min_percent: 0,
        timeout,
        retry: retry(&Retry::absent()?),
        sticky: None,
        suspend: None,
        health: None,
        outlier: None,
        breaker: breaker(&config::Breaker::absent()?),
        idle_max: count(config::Pool::absent()?.idle_max.get()),
        dns: settled::Dns {
            refresh: config::Dns::absent()?.refresh.0,
            servers: settled::Servers::default(),
        },
        writes_at_once: false,
        tls: client(tls, report)?,
        additions: settled::Additions::default(),
    })
}

/// Returns the TLS client for a service that is not an upstream.
pub(crate) fn client(tls: &UpstreamTls, report: &mut Report) -> Option<Client> {
    Clients { in_service: InService::NONE, known: HashMap::new() }.of("", tls, report)
}

fn settings(
    config: &Config,
    name: &str,
    upstream: &config::Upstream,
    (clients, builder): (&mut Clients<'_>, &mut PolicyBuilder<'_>),
    report: &mut Report,
) -> Option<UpstreamSettings> {
    let targets = upstream_targets::compile(config, upstream, report);
    warn_stays(upstream, report);
    check_retry(upstream, report);
    let timeout = &upstream.timeout;
    let health =
        upstream.health.as_ref().map(|health| self::health(health, upstream.protocol, report));
    let additions = additions((name, upstream), &targets, builder, report)?;
    Some(UpstreamSettings {
        name: name.to_owned(),
        addresses: None,
        sticky: upstream.sticky.as_ref().map(|sticky| self::sticky(sticky, report)),
        suspend: upstream.suspend.as_ref().map(|suspend| self::suspend(suspend, report)),
        targets,
        protocol: match upstream.protocol {
            config::UpstreamProtocol::Http1 => settled::Protocol::Http1,
            config::UpstreamProtocol::Http2 => settled::Protocol::Http2,
            config::UpstreamProtocol::Auto => settled::Protocol::Auto,
        },
        balance: balance(&upstream.balance),
        available_min_percent: upstream.available_min_percent.get(),
        timeout: timeouts(timeout),
        retry: retry(&upstream.retry),
        health,
        outlier: upstream.outlier.as_ref().map(|outlier| self::outlier(outlier, upstream, report)),
        breaker: self::breaker(&upstream.breaker),
        idle_max: count(upstream.pool.idle_max.get()),
        dns: upstream_targets::dns(upstream, report),
        writes_at_once: false,
        tls: clients.of(name, &upstream.tls, report)?,
        additions,
    })
}

/// Compiles the gateway's additions to every request to an upstream.
fn additions(
    (name, upstream): (&str, &config::Upstream),
    targets: &settled::Targets,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Option<settled::Additions> {
    let mut additions: Vec<Arc<dyn UpstreamAddition>> = Vec::new();
    if let Some(oauth) = &upstream.oauth {
        additions.push(upstream_oauth::compile(name, oauth, builder, report)?);
    }
    additions.extend(upstream_basic::compile(upstream, builder, report)?);
    additions.extend(upstream_soap::compile(upstream, targets, builder, report)?);
    Some(settled::Additions(additions))
}

fn breaker(breaker: &config::Breaker) -> settled::Breaker {
    settled::Breaker {
        connections: breaker.connections.get(),
        requests: breaker.requests.get(),
        pending: breaker.pending.get(),
    }
}

fn balance(balance: &Balance) -> settled::Balance {
    match balance {
        Balance::RoundRobin => settled::Balance::RoundRobin,
        Balance::LeastRequests => settled::Balance::LeastRequests,
        Balance::Failover => settled::Balance::Failover,
        Balance::Hash(keys) => {
            let key = |by: &HashBy| match by {
                HashBy::Client => HashKey::Client,
                HashBy::Consumer => HashKey::Subject,
                HashBy::Path => HashKey::Path,
                HashBy::Header(name) => HashKey::Header(name.clone()),
                HashBy::Cookie(name) => HashKey::Cookie(name.clone()),
                HashBy::Query(name) => HashKey::Query(name.clone()),
                HashBy::Capture(name) => HashKey::Capture(name.clone()),
            };
            settled::Balance::Hash(keys.iter().map(key).collect())
        }
    }
}

fn retry(retry: &Retry) -> settled::Retry {
    settled::Retry {
        attempts: retry.attempts.as_ref().map_or(0, |attempts| attempts.value.get()),
        elsewhere: !stays(retry),
        on: failures(&retry.when),
        body_bytes_max: bytes(retry.body_bytes_max),
        non_idempotent: retry.non_idempotent,
        pause: retry.pause.as_ref().map(|pause| pause.value.0),
        pause_max: retry.pause_max.value.0,
        try_timeout: retry.try_timeout.as_ref().map(|timeout| timeout.value.0),
        budget_millionths: retry.budget.map(config::Percent::of_million),
    }
}

fn failures(on: &[RetryOn]) -> settled::Failures {
    let status = |on: &RetryOn| match on {
        RetryOn::Status(status) => Some(*status),
        RetryOn::ConnectFailure | RetryOn::Reset | RetryOn::Timeout | RetryOn::Call(_) => None,
    };
    let call = |on: &RetryOn| match on {
        RetryOn::Call(status) => Some(*status),
        RetryOn::ConnectFailure | RetryOn::Reset | RetryOn::Timeout | RetryOn::Status(_) => None,
    };
    settled::Failures {
        connect_failure: on.contains(&RetryOn::ConnectFailure),
        reset: on.contains(&RetryOn::Reset),
        timeout: on.contains(&RetryOn::Timeout),
        // Harmless: the other kinds of failure go into the other fields.
        statuses: on.iter().filter_map(status).collect(),
        // Harmless: the other kinds of failure go into the other fields.
        calls: on.iter().filter_map(call).collect(),
    }
}

fn sticky(sticky: &config::Sticky, report: &mut Report) -> settled::Sticky {
    if let Some(empty) = sticky.secret.as_ref().filter(|secret| secret.value.0.is_empty()) {
        report.error(empty.at, "the secret must not be empty", "write one, or remove the key");
    }
    let secret = sticky.secret.as_ref().map_or("tidegate", |secret| secret.value.0.as_str());
    let secret = settled::StickySecret(secret.to_owned());
    settled::Sticky { cookie: sticky.cookie.0.clone(), secret }
}

fn suspend(suspend: &config::Suspend, report: &mut Report) -> settled::Suspend {
    let (on, initial, max) = (&suspend.on, &suspend.initial, &suspend.max);
    if on.value.is_empty() && on.intact {
        let help = "write what suspends a target, such as `timeout`, or remove `suspend`";
        report.error(on.at, "nothing suspends a target", help);
    }
    if initial.value > max.value {
        let at = if initial.at == At::NOWHERE { max.at } else { initial.at };
        let what = "`initial` is longer than `max`";
        report.error(at, what, "write an `initial` of at most `max`");
    }
    settled::Suspend {
        on: failures(&on.value),
        after: suspend.after.get(),
        initial: initial.value.0,
        factor_permille: suspend.factor.permille(),
        max: max.value.0,
    }
}

fn outlier(
    outlier: &config::Outlier,
    upstream: &config::Upstream,
    report: &mut Report,
) -> settled::Outlier {
    let until_probe = outlier.until.value == OutlierUntil::Probe;
    if until_probe && upstream.health.is_none() {
        let what = "no health check can bring a target back";
        report.error(
            outlier.until.at,
            what,
            "add `health: { path: /health }`, or write `until: time`",
        );
    }
    settled::Outlier {
        consecutive_faults: outlier.consecutive_faults.get(),
        statuses: ranges(&outlier.statuses),
        until_probe,
        eject: outlier.eject.0,
        max_ejected_percent: outlier.max_ejected_percent.get(),
    }
}

/// Returns status ranges as pairs of the first and the last status.
pub(crate) fn ranges(statuses: &[StatusRange]) -> Vec<(u16, u16)> {
    statuses.iter().map(|range| (range.first, range.last)).collect()
}

/// Returns true if the operator disabled the retry at another target after a failed connection.
fn stays(retry: &Retry) -> bool {
    let none = retry.attempts.as_ref().is_some_and(|attempts| attempts.value.get() == 0);
    none || !retry.when.contains(&RetryOn::ConnectFailure)
}

/// Warns of an upstream with several targets whose requests are not sent to another target after a failed connection.
fn warn_stays(upstream: &config::Upstream, report: &mut Report) {
    let Retry { attempts, when, .. } = &upstream.retry;
    let is_service = |of: &config::Target| matches!(of.url.value, TargetAddress::Service(_));
    let may_be_many = upstream.targets.value.len() > 1
        || upstream.addresses.value == UpstreamAddresses::Each
        || upstream.targets.value.iter().any(is_service);
    if !may_be_many || !stays(&upstream.retry) {
        return;
    }
    let help = if when.contains(&RetryOn::ConnectFailure) {
        "remove `attempts: 0`; a retry is safe, because nothing was sent"
    } else {
        "add `connect_failure` to `when`; a retry is safe, because nothing was sent"
    };
    let at = attempts.as_ref().map_or(upstream.targets.at, |attempts| attempts.at);
    let what = "a request fails if its target cannot be connected to, although there are others";
    report.warn(at, what, help);
}

fn check_retry(upstream: &config::Upstream, report: &mut Report) {
    let retry = &upstream.retry;
    if let Some(pause) = retry.pause.as_ref().filter(|pause| pause.value > retry.pause_max.value) {
        let what = "`pause` is longer than `pause_max`";
        report.error(pause.at, what, "write a `pause` of at most `pause_max`");
    }
    let attempts = retry.attempts.as_ref().map_or(0, |attempts| attempts.value.get());
    if let Some(timeout) = &retry.try_timeout
        && attempts > 0
        && !retry.when.contains(&RetryOn::Timeout)
    {
        let what = "an attempt that takes longer than `try_timeout` is not retried";
        report.warn(timeout.at, what, "add `timeout` to `when`");
    }
    if let (Some(pause), 0) = (&retry.pause, attempts) {
        report.warn(
            pause.at,
            "`pause` has no effect, because nothing is retried",
            "add `attempts: 2`",
        );
    }
}

fn health(
    health: &config::Health,
    protocol: UpstreamProtocol,
    report: &mut Report,
) -> settled::Health {
    if let Some(service) = &health.grpc {
        let (what, help) = match (&health.path, protocol) {
            (Some(_), _) => ("`path` and `grpc` cannot be combined", "remove one"),
            (None, UpstreamProtocol::Http1 | UpstreamProtocol::Auto) => (
                "the health protocol of gRPC needs HTTP/2",
                "add `protocol: http2` to the upstream",
            ),
            (None, UpstreamProtocol::Http2) => ("", ""),
        };
        if !what.is_empty() {
            report.error(service.at, what, help);
        }
    }
    if let Some(path) = &health.path
        && !paths::is_target(&path.value)
    {
        let what = format!("`{}` is not a valid request path", path.value.escape_debug());
        report.error(path.at, what, "write a path that begins with `/`, such as `/health`");
    }
    settled::Health {
        path: health.path.as_ref().map(|path| path.value.clone()),
        grpc: health.grpc.as_ref().map(|service| service.value.clone()),
        interval: health.interval.0,
        timeout: health.timeout.0,
        unhealthy_after: health.unhealthy_after.get(),
        healthy_after: health.healthy_after.get(),
        statuses: ranges(&health.statuses),
    }
}

/// TLS clients by their settings. Upstreams with equal settings share a client, because each new client reads the system's certificate
/// authorities.
struct Clients<'p> {
    in_service: InService<'p>,
    known: HashMap<ClientSpec, Client>,
}

impl Clients<'_> {
    /// Returns the TLS client of an upstream. `upstream` is empty for a service that is not an upstream.
    fn of(&mut self, upstream: &str, tls: &UpstreamTls, report: &mut Report) -> Option<Client> {
        warn_unverified(tls, report);
        let ca = tls.ca.as_ref().map(|file| files::read(file, report));
        let pair = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                let place = plan::upstreams::certificate_place(upstream);
                let valid = self.in_service.is_valid_at(&place);
                Some(files::pair(certificate, key, valid, report))
            }
            (Some(alone), None) => {
                report.error(alone.at, "`certificate` needs `key`", "add `key: FILE`");
                return None;
            }
            (None, Some(alone)) => {
                report.error(alone.at, "`key` needs `certificate`", "add `certificate: FILE`");
                return None;
            }
            (None, None) => None,
        };
        let spec = ClientSpec {
            ca: match ca {
                Some(pem) => Some(pem?),
                None => None,
            },
            pair: match pair {
                Some(pair) => Some(pair?),
                None => None,
            },
            verify: tls.verify.value,
            server_name: tls.server_name.as_ref().map(|name| name.value.clone()),
        };
        if let Some(client) = self.known.get(&spec) {
            return Some(client.clone());
        }
        let client = Client::new(&spec).map_err(|error| complain(&error, tls, report)).ok()?;
        self.known.insert(spec, client.clone());
        Some(client)
    }
}

fn warn_unverified(tls: &UpstreamTls, report: &mut Report) {
    if !tls.verify.value {
        let help = "name the authority of the service's certificate in `ca` instead";
        report.warn(tls.verify.at, "certificates are not verified, so any server is trusted", help);
    }
}

fn complain(error: &tls::Error, tls: &UpstreamTls, report: &mut Report) {
    // The certificate and key were validated before, so the error must be in an authority or a name.
    let ca = tls.ca.as_ref().map(|file| file.at);
    let name = tls.server_name.as_ref().map(|name| name.at);
    let at = match error {
        tls::Error::Name(_) => name.or(ca),
        tls::Error::Certificate(_)
        | tls::Error::Key(_)
        | tls::Error::Mismatch(_)
        | tls::Error::Authority(_)
        | tls::Error::Versions => ca.or(name),
    };
    let at = at.unwrap_or(tls.verify.at);
    files::complain(error, at, at, report);
}
