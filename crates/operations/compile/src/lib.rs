//! Compiles the configuration to a plan: names become pointers, and texts become compiled forms for the hot path. All complaints are
//! reported at once.
//!
//! Owns the checks that involve more than one value: a name must refer to something, two items must not conflict, a certificate must match
//! its key. It starts nothing and changes nothing that is running: apart from reading the files that the configuration names, it is a
//! function from a configuration and the previous plan to the next plan.
//!
//! The public names: [`compile`] and [`CompiledPlan`]; [`explain()`] for a whole configuration, [`explain_request`] for one request and
//! [`explain_differences`] for a change; [`is_only_key_mismatch`] for a reload in the middle of a certificate renewal.

#![forbid(unsafe_code)]

mod access_fields;
mod admin;
mod apis;
mod cases;
mod catalog;
mod certificates;
mod client_lines;
mod destinations;
mod explain;
mod facts;
mod files;
mod flows;
mod hubs;
mod issuers;
mod kafka;
mod listeners;
mod log_receivers;
mod names;
mod paths;
mod plans;
mod policies;
mod policy;
mod policy_builder;
mod published;
mod queues;
mod routes;
mod schedules;
mod sets;
mod store;
mod streams;
mod subscription_state;
mod subscriptions;
mod templates;
mod tokens;
mod traces;
mod upstream_basic;
mod upstream_oauth;
mod upstream_settings;
mod upstream_soap;
mod upstream_targets;
mod upstream_tls;
mod upstreams;

use std::collections::BTreeMap;
use std::num::NonZero;
use std::sync::Arc;
use std::time::Duration;

use config::{At, Config, LoadedConfig, LogFormat, LogTo, MemoryLimit, Report};
use plan::telemetry::Telemetry;
use plan::telemetry::access::{Field, Format, Sink, Template, TemplateError};
use plan::{AccessLogSettings, CatalogSettings, FlowOutline, LogSink, Plan};

use policy_builder::PolicyBuilder;

pub use explain::{ExplainedRequest, explain, explain_differences, explain_request};

/// A plan that may be served.
pub struct CompiledPlan {
    /// The plan.
    pub plan: Plan,
    /// Warnings for the operator, without errors.
    pub warnings: Report,
}

/// Compiles a configuration, or returns a report of everything that is wrong with it.
///
/// Parts that did not change are taken over from `previous`, so that their connections, health and counts are kept. If there is an error,
/// `telemetry` has no metrics of what only this configuration has.
pub fn compile(
    loaded: &LoadedConfig,
    previous: Option<&Plan>,
    telemetry: &Telemetry,
) -> Result<CompiledPlan, Report> {
    // Flows, queues and other parts register their metrics when they are built, which is before the last complaint.
    let mark = telemetry.mark();
    let compiled = compile_all(loaded, previous, telemetry);
    if compiled.is_err() {
        telemetry.forget_unused_since(mark);
    }
    compiled
}

fn compile_all(
    loaded: &LoadedConfig,
    previous: Option<&Plan>,
    telemetry: &Telemetry,
) -> Result<CompiledPlan, Report> {
    let mut report = loaded.report.clone();
    let Some(config) = &loaded.config else { return Err(report) };
    let config = catalog::with_issuers(sets::expand(config, &mut report), &mut report);
    let apis::ExpandedApis { config, open } = apis::expand(&config, &mut report);
    let config = &*config;
    let in_service = files::InService::of(previous);
    let listeners = listeners::compile(config, loaded.lacks("listen"), in_service, &mut report);
    let mut builder = PolicyBuilder::new(previous, telemetry);
    let mut upstreams = upstreams::compile(config, in_service, &mut builder, &mut report);
    builder.store = store::StoreBuilder::new(loaded, config, previous, &mut report);
    let catalog = clients(config, previous, &mut builder, telemetry, &mut report);
    let entrances = queues::entrances(config, &mut builder);
    let flows = flows::compile(config, &entrances, &mut builder, &mut report);
    let queues = queues::compile(config, &entrances, &flows, &mut builder, &mut report);
    let workers = workers(config, previous, &mut report);
    let drain_delay = drain_delay(config, &mut report);
    let hubs = hubs::compile(config, workers, &mut builder, &mut report);
    let routes = routes::check(config, &flows, &hubs, &open, &mut builder, &mut report);
    cases::check(config, &builder.all_upstream_names(), &mut report);
    let schedules = schedules::compile(config, &flows, &mut builder, &mut report);
    let operators = admin::compile(config, previous, telemetry, &mut report);
    if report.has_errors() {
        return Err(report);
    }
    let generation = builder.generation;
    let outlines = flow_outlines(&flows, std::mem::take(&mut builder.flow_steps));
    let (revoked, own_keys) = (builder.tokens.revoked.clone(), builder.tokens.publish());
    upstreams.extend(builder.made());
    let store = std::mem::take(&mut builder.store).finish(telemetry);
    let upstreams = upstreams::build(upstreams, previous, telemetry);
    let (kept, background) = builder.finish(&upstreams);
    let unchanged_since = routes::unchanged_since(&routes);
    let (table, warnings) = routes::build(routes, &upstreams, telemetry, report)?;
    let plan = Plan {
        generation,
        listeners: listeners::build(listeners, previous),
        upstreams,
        table,
        unchanged_since,
        schedules,
        flows: outlines,
        shown_certificates: operators.certificates,
        hubs: hubs.all().cloned().collect(),
        queues,
        background,
        kept,
        revoked,
        own_keys,
        store,
        catalog,
        workers,
        memory: memory(config.limits.memory),
        drain: config.shutdown.drain,
        upgrade: upgrade(config),
        drain_delay,
        admin: operators.admin,
        status: operators.status,
        audit_log: operators.audit_log,
        access_log: operators.access_log,
        traces: operators.traces,
        follow: operators.follow,
        alive: telemetry.reload().plan_alive(),
    };
    Ok(CompiledPlan { plan, warnings })
}

/// Compiles the sources of client identities: issuers of tokens, applications with their subscriptions, and the catalog.
fn clients(
    config: &Config,
    previous: Option<&Plan>,
    builder: &mut PolicyBuilder<'_>,
    telemetry: &Telemetry,
    report: &mut Report,
) -> Option<Arc<CatalogSettings>> {
    builder.tokens = tokens::Tokens::new(previous);
    issuers::compile(config, builder, telemetry, report);
    subscriptions::compile(config, builder, report);
    catalog::compile(config, previous, builder, report)
}

/// Returns the names of all flows, each with the labels of its steps.
fn flow_outlines(flows: &flows::Flows, steps: Vec<(String, String)>) -> Vec<FlowOutline> {
    let mut outlines: BTreeMap<String, Vec<String>> =
        flows.names().map(|name| (name.to_owned(), Vec::new())).collect();
    for (flow, label) in steps {
        let labels = outlines.entry(flow).or_default();
        // The name that an operator gives to a step may equal the numbered label of another step.
        if !labels.contains(&label) {
            labels.push(label);
        }
    }
    outlines.into_iter().map(|(name, steps)| FlowOutline { name, steps }).collect()
}

fn upgrade(config: &Config) -> plan::Upgrade {
    plan::Upgrade { timeout: config.upgrade.timeout.0, drain: config.upgrade.drain }
}

/// Returns how long listeners stay open after the gateway reports that it is not ready. The section `drain` is an older form of this key.
fn drain_delay(config: &Config, report: &mut Report) -> Duration {
    let delay = &config.shutdown.delay;
    let Some(older) = &config.drain else { return delay.value };
    if delay.at == At::NOWHERE {
        let what = "`drain: { delay }` is an older form of `shutdown: { delay }`";
        report.warn(older.at, what, "write `delay` in `shutdown`, and remove `drain`");
        return older.value.delay;
    }
    let what = "`drain` and `shutdown` both set the delay of a shutdown";
    report.error(older.at, what, "remove `drain`");
    delay.value
}

/// Returns the configured number of workers, or else one per core within the same bounds. Workers are started once, so a plan keeps the
/// number of the previous plan.
fn workers(config: &Config, previous: Option<&Plan>, report: &mut Report) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get).min(256);
    let written = config.workers.map(|workers| listeners::count(workers.value.get()));
    let workers = written.unwrap_or_else(cores);
    let running = previous.map_or(workers, |plan| plan.workers);
    if let Some(written) = &config.workers
        && workers != running
    {
        let what =
            format!("the number of workers stays at {running} until the gateway is restarted");
        report.warn(written.at, what, "restart it, or restore the number in use");
    }
    running
}

fn memory(limit: MemoryLimit) -> plan::MemoryLimit {
    match limit {
        MemoryLimit::Share(percent) => plan::MemoryLimit::Share(percent.of_million()),
        MemoryLimit::Bytes(bytes) => plan::MemoryLimit::Bytes(bytes.0),
    }
}

fn access_log(config: &Config, report: &mut Report) -> Option<AccessLogSettings> {
    let log = config.telemetry.access_log.as_ref()?;
    let format = match &log.format.value {
        LogFormat::Json => Format::Json,
        LogFormat::Template(text) => match Template::parse(text) {
            Ok(template) => Format::Template(template),
            Err(error) => {
                let what = template_fault(&error, report);
                report.error(log.format.at, what, template_help());
                return None;
            }
        },
    };
    let sink = match &log.to.value {
        LogTo::Stdout => LogSink::Local(Sink::Stdout),
        LogTo::Stderr => LogSink::Local(Sink::Stderr),
        LogTo::File(path) => {
            let path = files::log("access log", path.as_path(), log.to.at, report);
            LogSink::Local(Sink::File(path))
        }
        LogTo::Receiver(receiver) => {
            LogSink::Receiver(Box::new(log_receivers::lines(receiver, report)?))
        }
    };
    let fields = Arc::new(access_fields::compile(log, report));
    Some(AccessLogSettings { fields, format, sink })
}

fn template_fault(error: &TemplateError, report: &Report) -> String {
    match error {
        TemplateError::Unknown(name) => {
            let meant = report.suggest(name, Field::ALL.iter().map(|field| field.name()));
            names::unknown("a field", name, meant)
        }
        TemplateError::Unbalanced => "unbalanced brace".to_owned(),
        TemplateError::Control => "control characters are not allowed in the access log".to_owned(),
    }
}

fn template_help() -> String {
    let fields: Vec<String> =
        Field::ALL.iter().map(|field| format!("{{{}}}", field.name())).collect();
    format!("the fields are {}; write `{{{{` for a literal brace", fields.join(" "))
}

/// Returns the old value if it equals the new one, so that both plans share it.
fn kept<T: PartialEq>(new: T, old: Option<&Arc<T>>) -> Arc<T> {
    match old {
        Some(old) if **old == new => old.clone(),
        Some(_) | None => Arc::new(new),
    }
}

/// Returns true if the only errors are certificates that do not match their keys. This happens while the two files of a renewed pair are
/// being copied.
pub fn is_only_key_mismatch(report: &Report) -> bool {
    let mut errors = report.errors().peekable();
    errors.peek().is_some() && errors.all(|error| error.what.starts_with(tls::PAIR_MISMATCH))
}
