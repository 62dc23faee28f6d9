//! Plans, reports and states as JSON for the admin API. A plan is shown with all defaults, but without secrets: values of
//! headers and fixed replies are left out.

mod live;

use std::time::Duration;

use config::{Complaint, Difference, Report, Severity};
use kit::clock::millis;
use plan::telemetry::access::{Format, Sink};
use plan::upstreams::{
    Balance, HashKey, Knowledge, Member, UnhealthyAfter, Upstream, UpstreamSettings,
};
use plan::{
    AccessLogSettings, EmptySegments, EscapedSlash, FlowOutline, Listener, LogSink, Matcher,
    PathParameters, Plan, Policy, Route, ShownCertificate, ValueCondition,
};
use serde_json::{Value, json};
use telemetry::trace::{Trace, TracedMessage, TracedPolicy, TracedStep, Tracer};
use telemetry::{FlowNumbers, RefusedExchange, Telemetry};

pub use live::{memory, streams, tail, traffic, traffic_of};

use crate::{Bundle, Status};

/// The whole plan.
pub fn plan(plan: &Plan) -> Value {
    json!({
        "generation": plan.generation,
        "workers": plan.workers,
        "drain_ms": millis(plan.drain),
        "drain_delay_ms": millis(plan.drain_delay),
        "admin": plan.admin.as_ref().map(|admin| admin.address.to_string()),
        "access_log": plan.access_log.as_ref().map(access_log),
        "traces": plan.traces.as_ref().map(|traces| traces.collector.collector.name()),
        "listeners": plan.listeners.iter().map(|listener| self::listener(listener)).collect::<Vec<_>>(),
        "upstreams": upstreams(plan),
        "routes": routes(plan),
    })
}

/// The routes, in their configured order.
pub fn routes(plan: &Plan) -> Value {
    plan.table.routes().map(|(matcher, route)| self::route(matcher, route)).collect()
}

/// The upstreams with the live state of their targets.
pub fn upstreams(plan: &Plan) -> Value {
    plan.upstreams.iter().map(|upstream| self::upstream(upstream)).collect()
}

/// One upstream, if there is one of that name.
pub fn upstream_named(plan: &Plan, name: &str) -> Option<Value> {
    let found = plan.upstreams.iter().find(|upstream| upstream.settings().name == name);
    found.map(|found| upstream(found))
}

/// The flows with their counts.
pub fn flows(plan: &Plan, telemetry: &Telemetry) -> Value {
    let flow = |flow: &FlowOutline| numbers(&flow.name, &telemetry.flow(&flow.name).numbers());
    json!({ "flows": plan.flows.iter().map(flow).collect::<Vec<_>>() })
}

/// One flow with the counts of its steps, if there is one of that name.
pub fn flow(plan: &Plan, telemetry: &Telemetry, name: &str) -> Option<Value> {
    let flow = plan.flows.iter().find(|flow| flow.name == name)?;
    let step = |label: &String| {
        let counted = telemetry.flow_step(name, label).numbers();
        let mut told = numbers(label, &counted);
        if let Some(told) = told.as_object_mut() {
            told.insert("own_ms".to_owned(), json!(counted.own.as_secs_f64() * 1000.0));
            told.insert("call_ms".to_owned(), json!(counted.in_calls.as_secs_f64() * 1000.0));
        }
        told
    };
    let steps: Vec<Value> = flow.steps.iter().map(step).collect();
    let mut told = numbers(name, &telemetry.flow(name).numbers());
    told.as_object_mut()?.insert("steps".to_owned(), steps.into());
    Some(told)
}

fn numbers(name: &str, numbers: &FlowNumbers) -> Value {
    let faults: serde_json::Map<String, Value> =
        numbers.faults.iter().map(|(label, count)| ((*label).to_owned(), json!(count))).collect();
    json!({ "name": name, "runs": numbers.runs, "faults": faults })
}

/// The last refused exchanges, newest first.
pub fn refusals(telemetry: &Telemetry, max: usize) -> Value {
    let one = |refused: &RefusedExchange| {
        json!({
            "time": kit::calendar::rfc3339(refused.time),
            "request_id": refused.request_id,
            "route": refused.route,
            "policy": refused.policy,
            "status": refused.status,
            "fault": refused.fault,
            "cause": refused.cause,
            "client": refused.client.to_canonical().to_string(),
            "subject": refused.subject,
        })
    };
    let refused = telemetry.refusals().newest(max);
    json!({ "refusals": refused.iter().map(one).collect::<Vec<_>>() })
}

/// The gateway's certificates.
pub fn certificates(plan: &Plan) -> Value {
    let now = i64::try_from(kit::clock::wall().as_secs()).unwrap_or(i64::MAX);
    let time = |seconds: i64| {
        kit::calendar::rfc3339(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
    };
    let one = |shown: &ShownCertificate| {
        let details = &shown.details;
        let mut told = json!({
            "subject": details.subject,
            "names": details.names,
            "issuer": details.issuer,
            "serial": details.serial,
            "not_before": time(details.not_before),
            "not_after": time(details.not_after),
            "days_left": details.not_after.saturating_sub(now).div_euclid(24 * 60 * 60),
            "file": shown.file.display().to_string(),
        });
        if let Some(told) = told.as_object_mut() {
            told.insert(shown.kind.to_owned(), shown.name.as_str().into());
        }
        told
    };
    json!({ "certificates": plan.shown_certificates.iter().map(one).collect::<Vec<_>>() })
}

/// The revoked tokens, each with its end in seconds since 1970.
pub fn revoked(plan: &Plan) -> Value {
    let all = plan.revoked.all(kit::clock::wall().as_secs());
    let one = |(id, until): (String, u64)| json!({ "jti": id, "until": until });
    json!({ "revoked": all.into_iter().map(one).collect::<Vec<_>>() })
}

/// The pending request for traces, and the last traces, newest first.
pub fn traces(tracer: &Tracer) -> Value {
    let asked = tracer.request().map(|request| {
        json!({
            "route": request.route,
            "flow": request.flow,
            "path": request.path,
            "request_id": request.request_id,
            "count": request.count,
        })
    });
    let traces: Vec<Value> = tracer.traces().iter().map(trace).collect();
    json!({ "asked": asked, "traces": traces })
}

fn trace(trace: &Trace) -> Value {
    let steps: Vec<Value> = match &trace.policies {
        None => trace.steps.iter().map(step).collect(),
        Some(policies) => {
            let down = policies.down.iter().map(|policy| traced_policy(policy, "request"));
            down.chain(policies.up.iter().map(|policy| traced_policy(policy, "response"))).collect()
        }
    };
    let named = |name: &str| (!name.is_empty()).then(|| name.to_owned());
    json!({
        "request_id": trace.request_id,
        "route": named(&trace.route),
        "flow": named(&trace.flow),
        "time": kit::calendar::rfc3339(trace.time),
        "steps": steps,
        "left_out": trace.left_out,
        "fault": trace.policies.as_ref().and_then(|policies| policies.fault.as_deref()),
    })
}

fn traced_policy(policy: &TracedPolicy, on: &str) -> Value {
    json!({
        "name": policy.name,
        "step": policy.place,
        "on": on,
        "verdict": policy.verdict,
        "changes": policy.changes,
        "body": policy.body,
    })
}

/// Complaints, errors before warnings, up to a limit.
fn complaints(report: &Report) -> Value {
    report
        .errors()
        .chain(report.warnings())
        .map(|complaint| self::complaint(report, complaint))
        .collect()
}

/// Adds complaints to an answer as the member `name`, and `left_out` with the number of further ones, if any.
pub fn with_complaints(mut answer: Value, name: &str, report: &Report) -> Value {
    let (errors, warnings) = (report.errors_left_out(), report.warnings_left_out());
    if let Some(members) = answer.as_object_mut() {
        members.insert(name.to_owned(), complaints(report));
        if errors + warnings > 0 {
            let left_out = json!({ "errors": errors, "warnings": warnings });
            members.insert("left_out".to_owned(), left_out);
        }
    }
    answer
}

/// The differences that a change would make.
pub fn differences(differences: &[Difference]) -> Value {
    differences.iter().map(Difference::to_json).collect()
}

/// The state of the configuration.
pub fn status(status: &Status) -> Value {
    let failed = status.last_failed.as_ref();
    let told = json!({
        "generation": status.generation,
        "hash": status.hash,
        "since_unix_ms": millis(status.since),
        "last_failed": failed.map(|failed| json!({ "at_unix_ms": millis(failed.at), "why": failed.why })),
    });
    with_complaints(told, "warnings", &status.warnings)
}

fn complaint(report: &Report, complaint: &Complaint) -> Value {
    let Complaint { at, severity, what, help } = complaint;
    json!({
        "file": report.sources().of(*at).map(|source| source.name.as_str()),
        // A complaint about a whole file refers to its first line.
        "line": at.line.max(1),
        "column": at.column.max(1),
        "severity": match severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        },
        "message": what,
        "help": help,
    })
}

fn listener(listener: &Listener) -> Value {
    let Listener { name, address, tls, http2, proxy_protocol, trusted_proxies, .. } = listener;
    let Listener { pass_untrusted_headers, paths, limits, timeout, .. } = listener;
    json!({
        "name": name,
        "address": address.to_string(),
        "tls": tls.is_some(),
        "http2": http2,
        "proxy_protocol": proxy_protocol,
        "trusted_proxies": trusted_proxies.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "pass_untrusted_headers": pass_untrusted_headers,
        "paths": {
            "escaped_slash": match paths.escaped_slash {
                EscapedSlash::Refuse => "refuse",
                EscapedSlash::Keep => "keep",
                EscapedSlash::Decode => "decode",
            },
            "empty_segments": match paths.empty_segments {
                EmptySegments::Merge => "merge",
                EmptySegments::Refuse => "refuse",
                EmptySegments::Keep => "keep",
            },
            "parameters": match paths.parameters {
                PathParameters::Refuse => "refuse",
                PathParameters::Strip => "strip",
                PathParameters::Keep => "keep",
            },
        },
        "limits": {
            "head_bytes_max": limits.head_bytes_max,
            "target_bytes_max": limits.target_bytes_max,
            "headers_max": limits.headers_max,
            "connections_max": limits.connections_max,
            "connections_per_client": limits.connections_per_client,
            "streams_max": limits.streams_max,
            "body_rate_min": limits.body_rate_min,
        },
        "timeout": {
            "head_ms": millis(timeout.head),
            "body_ms": millis(timeout.body),
            "body_total_ms": timeout.body_total.map(millis),
            "idle_ms": millis(timeout.idle),
            "tunnel_ms": millis(timeout.tunnel),
            "tls_ms": millis(timeout.tls),
        },
    })
}

fn route(matcher: &Matcher, route: &Route) -> Value {
    json!({
        "name": route.name,
        "match": {
            "host": matcher.host.as_ref().map(ToString::to_string),
            "path": matcher.path.to_string(),
            "priority": matcher.priority,
            "listeners": matcher.listeners,
            "sni": matcher.server_names.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "sources": matcher.sources.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "methods": matcher.methods,
            "headers": wants(&matcher.headers),
            "query": wants(&matcher.query),
        },
        "body_bytes_max": route.body_bytes_max,
        "policies": route.policies.iter().map(policy).collect::<Vec<_>>(),
        "destination": route.view(),
    })
}

fn wants(wants: &[(String, ValueCondition)]) -> Value {
    let want = |(name, want): &(String, ValueCondition)| match want {
        ValueCondition::Present => json!({ "name": name, "present": true }),
        // The value may be a secret of a client.
        ValueCondition::Equals(_) => {
            json!({ "name": name, "present": true, "equals": "(not shown)" })
        }
        ValueCondition::OneOf(_) => json!({ "name": name, "present": true, "any": "(not shown)" }),
        ValueCondition::Regex(_) => {
            json!({ "name": name, "present": true, "regex": "(not shown)" })
        }
    };
    wants.iter().map(want).collect()
}

fn policy(policy: &Policy) -> Value {
    json!({
        "name": policy.name,
        "request": policy.request.as_ref().map(|step| step.cost()),
        "response": policy.response.as_ref().map(|step| step.cost()),
    })
}

pub(crate) fn upstream(upstream: &Upstream) -> Value {
    let settings = upstream.settings();
    let set = upstream.targets();
    let targets = set.members().iter().map(|Member { target, weight, priority }| {
        json!({
            "id": target.id(),
            "url": &**target.url(),
            "weight": target.weight_set().unwrap_or(*weight),
            "configured_weight": weight,
            "drain": target.is_drained(),
            "priority": priority,
            "addresses": target.addresses().iter().map(ToString::to_string).collect::<Vec<_>>(),
            "health": target.health().name(),
            "healthy": target.health().is_healthy(),
            "ejected": target.is_ejected(),
            "suspended_until_unix_ms": target.suspended_until().map(millis),
            "reason": target.reason().map(|reason| (*reason).clone()),
            "requests_active": target.active(),
        })
    });
    let mut view = self::settings(settings);
    if let Some(view) = view.as_object_mut() {
        view.insert("targets".to_owned(), targets.collect());
        view.insert("no_targets_because".to_owned(), unknown(set.knowledge()));
    }
    view
}

/// Why there are no targets, if they come from DNS.
fn unknown(knowledge: &Knowledge) -> Value {
    match knowledge {
        Knowledge::Known => Value::Null,
        Knowledge::Unknown => json!("the first look-up has not ended"),
        Knowledge::Unresolved(why) => json!(why),
        Knowledge::NotAvailable => json!("according to DNS, the service is not available"),
    }
}

fn settings(settings: &UpstreamSettings) -> Value {
    let (timeout, retry, breaker) = (&settings.timeout, &settings.retry, &settings.breaker);
    let servers = &settings.dns.servers.addresses;
    json!({
        "name": settings.name,
        "protocol": settings.protocol.name(),
        "balance": balance(&settings.balance),
        "available_min_percent": settings.available_min_percent,
        "timeout": {
            "connect_ms": millis(timeout.connect),
            "response_ms": millis(timeout.response),
            "total_ms": timeout.total.map(millis),
            "idle_ms": millis(timeout.idle),
        },
        "retry": {
            "attempts": retry.attempts,
            "connect_failure": retry.on.connect_failure,
            "reset": retry.on.reset,
            "timeout": retry.on.timeout,
            "statuses": retry.on.statuses,
            "body_bytes_max": retry.body_bytes_max,
        },
        "sticky": settings.sticky.as_ref().map(|sticky| json!({ "cookie": sticky.cookie })),
        "suspend": settings.suspend.as_ref().map(|suspend| json!({
            "connect_failure": suspend.on.connect_failure,
            "reset": suspend.on.reset,
            "timeout": suspend.on.timeout,
            "statuses": suspend.on.statuses,
            "after": suspend.after,
            "initial_ms": millis(suspend.initial),
            "factor": f64::from(suspend.factor_permille) / 1000.0,
            "max_ms": millis(suspend.max),
        })),
        "health": settings.health.as_ref().map(|health| json!({
            "path": health.path,
            "interval_ms": millis(health.interval),
            "timeout_ms": millis(health.timeout),
            "unhealthy_after": unhealthy_after(&health.unhealthy_after),
            "healthy_after": health.healthy_after,
            "statuses": health.statuses,
            "unhealthy_statuses": health.unhealthy_statuses,
        })),
        "outlier": settings.outlier.as_ref().map(|outlier| json!({
            "consecutive_faults": outlier.consecutive_faults,
            "eject_ms": millis(outlier.eject),
            "max_ejected_percent": outlier.max_ejected_percent,
        })),
        "breaker": {
            "connections": breaker.connections,
            "requests": breaker.requests,
            "pending": breaker.pending,
        },
        "idle_max": settings.idle_max,
        "listed": settings.targets.shown(),
        "dns_refresh_ms": millis(settings.dns.refresh),
        "dns_servers": servers.iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn step(step: &TracedStep) -> Value {
    let (after, fault) = match &step.after {
        None => (None, None),
        Some(Ok(after)) => (Some(seen(after)), None),
        Some(Err(fault)) => (None, Some(fault)),
    };
    json!({
        "name": &*step.name,
        "step": &*step.label,
        "depth": step.depth,
        "part": step.part,
        "before": seen(&step.before),
        "after": after,
        "fault": fault,
    })
}

/// The bundles with their files.
pub fn bundles(bundles: &[Bundle]) -> Value {
    let bundles = bundles.iter().map(|bundle| {
        json!({
            "name": bundle.name,
            "files": bundle.files,
            "unlisted": bundle.unlisted,
            "bytes": bundle.bytes,
            "since": bundle.since,
        })
    });
    json!({ "bundles": bundles.collect::<Vec<Value>>() })
}

fn seen(seen: &TracedMessage) -> Value {
    json!({
        "status": seen.status,
        "content_type": seen.content_type,
        "bytes": seen.bytes,
        "body": seen.body,
    })
}

/// A number for failures of all kinds, or one for each kind.
fn unhealthy_after(after: &UnhealthyAfter) -> Value {
    match after {
        UnhealthyAfter::Any(count) => json!(count),
        UnhealthyAfter::Each { connection, timeout, status } => {
            json!({ "connection": connection, "timeout": timeout, "status": status })
        }
    }
}

fn balance(balance: &Balance) -> String {
    match balance {
        Balance::RoundRobin => "round_robin".to_owned(),
        Balance::LeastRequests => "least_requests".to_owned(),
        Balance::Failover => "failover".to_owned(),
        Balance::Hash(keys) => {
            let key = |key: &HashKey| match key {
                HashKey::Client => "client".to_owned(),
                HashKey::Subject => "consumer".to_owned(),
                HashKey::Path => "path".to_owned(),
                HashKey::Header(name) => format!("header {name}"),
                HashKey::Cookie { name, set_path: None } => format!("cookie {name}"),
                HashKey::Cookie { name, set_path: Some(path) } => {
                    format!("cookie {name}, which is set for {path}")
                }
                HashKey::Query(name) => format!("query {name}"),
                HashKey::Capture(name) => format!("capture {name}"),
            };
            format!("hash by {}", keys.iter().map(key).collect::<Vec<_>>().join(", else "))
        }
    }
}

fn access_log(settings: &AccessLogSettings) -> Value {
    json!({
        "format": match settings.format {
            Format::Json => "json",
            Format::Template(_) => "template",
        },
        "path": match &settings.sink {
            LogSink::Local(Sink::Stdout) => "stdout".to_owned(),
            LogSink::Local(Sink::Stderr) => "stderr".to_owned(),
            LogSink::Local(Sink::File(path)) => path.display().to_string(),
            LogSink::Receiver(receiver) => receiver.name(),
        },
    })
}
