//! Settings of upstreams from single keys, and the settings for a URL that a policy calls.

use config::{
    Balance, Decode as _, HashBy, Report, Retry, RetryOn, StatusRange, TargetUrl, UpstreamTimeout,
    UpstreamTls,
};
use plan::upstreams::{self as settled, HashKey, TargetSettings, UpstreamSettings};

use crate::listeners::{bytes, count};
use crate::upstream_tls::client;

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

pub(crate) fn breaker(breaker: &config::Breaker) -> settled::Breaker {
    settled::Breaker {
        connections: breaker.connections.get(),
        requests: breaker.requests.get(),
        pending: breaker.pending.get(),
    }
}

pub(crate) fn balance(balance: &Balance) -> settled::Balance {
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
                HashBy::Cookie(name) => HashKey::Cookie {
                    name: name.clone(),
                    set_path: keys.cookie_path.as_ref().map(|path| path.0.as_str().into()),
                },
                HashBy::Query(name) => HashKey::Query(name.clone()),
                HashBy::Capture(name) => HashKey::Capture(name.clone()),
            };
            settled::Balance::Hash(keys.by.iter().map(key).collect())
        }
    }
}

pub(crate) fn retry(retry: &Retry) -> settled::Retry {
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

pub(crate) fn failures(on: &[RetryOn]) -> settled::Failures {
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

/// Returns status ranges as pairs of the first and the last status.
pub(crate) fn ranges(statuses: &[StatusRange]) -> Vec<(u16, u16)> {
    statuses.iter().map(|range| (range.first, range.last)).collect()
}

/// Returns true if the operator disabled the retry at another target after a failed connection.
pub(crate) fn stays(retry: &Retry) -> bool {
    let none = retry.attempts.as_ref().is_some_and(|attempts| attempts.value.get() == 0);
    none || !retry.when.contains(&RetryOn::ConnectFailure)
}
