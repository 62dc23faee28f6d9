//! Compiles `upstreams` to settings, and settings to upstreams.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use config::{
    At, Config, OutlierUntil, Report, Retry, RetryOn, Spanned, StatusRange, TargetAddress,
    UpstreamAddresses, UpstreamProtocol,
};
use plan::telemetry::Telemetry;
use plan::upstreams::{self as settled, Upstream, UpstreamSettings};
use plan::{Plan, UpstreamAddition};

use crate::files::InService;
use crate::listeners::count;
use crate::policies::{self, NamedUpstreams};
use crate::policy_builder::PolicyBuilder;
use crate::upstream_settings::{balance, breaker, failures, ranges, retry, stays, timeouts};
use crate::upstream_tls::Clients;
use crate::{paths, upstream_basic, upstream_oauth, upstream_soap, upstream_targets};

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
    let mut clients = Clients::new(in_service);
    let all: Vec<UpstreamSettings> = config
        .upstreams
        .iter()
        .filter_map(|(name, upstream)| {
            settings(config, &name.value, upstream, &mut clients, &mut *builder, report)
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

fn settings(
    config: &Config,
    name: &str,
    upstream: &config::Upstream,
    clients: &mut Clients<'_>,
    builder: &mut PolicyBuilder<'_>,
    report: &mut Report,
) -> Option<UpstreamSettings> {
    let targets = upstream_targets::compile(config, upstream, report);
    warn_stays(upstream, report);
    check_retry(upstream, report);
    let timeout = &upstream.timeout;
    let health =
        upstream.health.as_ref().map(|health| self::health(health, upstream.protocol, report));
    let additions = additions(name, upstream, &targets, builder, report)?;
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
    name: &str,
    upstream: &config::Upstream,
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
    if let Some(failed) = &health.unhealthy_statuses {
        unhealthy_statuses(health, failed, report);
    }
    let unhealthy_after = match &health.unhealthy_after.value {
        config::UnhealthyAfter::Any(count) => settled::UnhealthyAfter::Any(count.get()),
        config::UnhealthyAfter::Each(each) => settled::UnhealthyAfter::Each {
            connection: each.connection.get(),
            timeout: each.timeout.get(),
            status: each.status.get(),
        },
    };
    settled::Health {
        path: health.path.as_ref().map(|path| path.value.clone()),
        grpc: health.grpc.as_ref().map(|service| service.value.clone()),
        interval: health.interval.0,
        timeout: health.timeout.0,
        unhealthy_after,
        healthy_after: health.healthy_after.get(),
        statuses: ranges(&health.statuses),
        unhealthy_statuses: health.unhealthy_statuses.as_ref().map(|all| ranges(&all.value)),
    }
}

/// Complains about statuses of failed checks that no check has, or that are also those of good ones.
fn unhealthy_statuses(
    health: &config::Health,
    failed: &Spanned<Vec<StatusRange>>,
    report: &mut Report,
) {
    if health.path.is_none() {
        let what = "only a check of a path has a status";
        report.error(failed.at, what, "add `path`, or remove `unhealthy_statuses`");
    }
    let is_good = |one: &StatusRange| {
        health.statuses.iter().any(|good| good.first <= one.last && one.first <= good.last)
    };
    if let Some(StatusRange { first, last }) = failed.value.iter().find(|one| is_good(one)) {
        let statuses = if first == last { first.to_string() } else { format!("{first}-{last}") };
        let what = format!("`statuses` has {statuses}, too");
        report.error(failed.at, what, "list each status once");
    }
}
