//! `tidegate diff --replay FILE`: sends recorded requests through two configurations in memory, and prints the
//! different results.
//!
//! Each configuration has one gateway for all requests in their order, so that counters and caches continue from one request to
//! the next. Calls of upstreams are answered as recorded.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, anyhow};
use config::LoadedConfig;
use telemetry::Telemetry;
use telemetry::trace::{MASK, PolicyTrace, is_secret, target};

use super::message::Message;
use super::recorded::{self, RecordedRequest, Recording};
use super::rehearsal;
use super::services::{ReceivedCall, Services};
use crate::log;

/// Headers that differ with each request.
const OF_THE_MOMENT: [&str; 6] =
    ["date", "x-request-id", "traceparent", "tracestate", "age", "server-timing"];

/// The number of skipped entries that are shown.
const LEFT_OUT_SHOWN: usize = 10;

/// The result of one request with one configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ReplayOutcome {
    /// The route. Empty if there was none.
    route: String,
    /// The fault of the exchange, with its cause.
    fault: Option<String>,
    /// The reply, or the reason why there was none.
    reply: Result<Shown, String>,
    calls: Vec<(String, Shown)>,
}

/// A message in the form used for the comparison.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Shown {
    /// A status, or method and target.
    start: String,
    /// The headers, sorted by name.
    lines: Vec<(String, String)>,
    body_bytes: usize,
    body_hash: u64,
}

/// Prints the results that differ. Returns true if there are any.
pub(crate) fn replay(old: &LoadedConfig, new: &LoadedConfig, file: &Path) -> anyhow::Result<bool> {
    let name = file.display();
    let recording = recorded::read(file).with_context(|| format!("{name}"))?;
    // Harmless: the number of the others is printed below.
    for why in recording.left_out.iter().take(LEFT_OUT_SHOWN) {
        log::say_error(&log::printable(&format!("{name}: left out: {why}")));
    }
    let hidden = recording.left_out.len().saturating_sub(LEFT_OUT_SHOWN);
    if hidden > 0 {
        log::say_error(&format!("{name}: left out: {hidden} more"));
    }
    if recording.is_log {
        log::say_error(
            "an access log has no other headers than Host and User-Agent and no bodies: rules that depend on them behave as if they were absent",
        );
    }
    let Recording { requests, .. } = &recording;
    // A gateway keeps state in its thread, so each has its own thread.
    let (before, after) = std::thread::scope(|scope| {
        let [old, new] = [old, new].map(|config| scope.spawn(move || outcomes(config, requests)));
        (old.join(), new.join())
    });
    let done = |joined: std::thread::Result<anyhow::Result<Vec<ReplayOutcome>>>| {
        joined.map_err(|_| anyhow!("the replay caused a panic: please report it"))?
    };
    let (before, after) = (done(before)?, done(after)?);
    let mut changed = 0;
    // Harmless: there is an outcome for each request.
    for ((request, old), new) in requests.iter().zip(&before).zip(&after) {
        if old != new {
            changed += 1;
            log::write_out(&described(request, old, new))?;
        }
    }
    log::write_out(&format!("{changed} of {} requests have different results", requests.len()))?;
    Ok(changed > 0)
}

fn outcomes(
    config: &LoadedConfig,
    requests: &[RecordedRequest],
) -> anyhow::Result<Vec<ReplayOutcome>> {
    let telemetry = Telemetry::new(1);
    let compiled = compile::compile(config, None, &telemetry);
    let compiled = compiled.map_err(|report| anyhow!("{report:#}"))?;
    rehearsal::replay(compiled, telemetry, &Services::recorded(), requests, ReplayOutcome::of)
}

impl ReplayOutcome {
    fn of(
        reply: anyhow::Result<Message>,
        policies: Option<PolicyTrace>,
        calls: Vec<ReceivedCall>,
    ) -> ReplayOutcome {
        // Harmless: an exchange without a trace had no route.
        let policies = policies.unwrap_or_default();
        let mut calls: Vec<(String, Shown)> = calls
            .iter()
            .map(|ReceivedCall { upstream, request, .. }| {
                let start = format!("{} {}", request.method, target(request.target.as_bytes()));
                (upstream.clone(), Shown::of(start, request))
            })
            .collect();
        // Calls of a `scatter` and of mirrors have no fixed order.
        calls.sort_by(|a, b| (&a.0, &a.1.start).cmp(&(&b.0, &b.1.start)));
        ReplayOutcome {
            route: policies.route.into(),
            fault: policies.fault.map(Into::into),
            reply: reply
                .map(|reply| Shown::of(reply.status.to_string(), &reply))
                .map_err(|why| format!("{why:#}")),
            calls,
        }
    }
}

impl Shown {
    fn of(start: String, message: &Message) -> Shown {
        let is_lasting = |(name, _): &&(String, String)| !OF_THE_MOMENT.contains(&name.as_str());
        let mut lines: Vec<(String, String)> =
            message.lines().iter().filter(is_lasting).cloned().collect();
        lines.sort();
        let body_hash = kit::hash::fixed(&message.body);
        Shown { start, lines, body_bytes: message.body.len(), body_hash }
    }

    fn differences(&self, what: &str, new: &Shown, text: &mut String) {
        changed(text, what, &self.start, &new.start);
        for (name, value) in self.lines.iter().filter(|line| !new.lines.contains(line)) {
            add(text, '-', &format!("{what}: {}", header(name, value)));
        }
        for (name, value) in new.lines.iter().filter(|line| !self.lines.contains(line)) {
            add(text, '+', &format!("{what}: {}", header(name, value)));
        }
        if (self.body_bytes, self.body_hash) != (new.body_bytes, new.body_hash) {
            let (old, new) = (self.body_bytes, new.body_bytes);
            add(
                text,
                '~',
                &format!("{what}: body of {old} bytes -> different body of {new} bytes"),
            );
        }
    }
}

fn described(request: &RecordedRequest, old: &ReplayOutcome, new: &ReplayOutcome) -> String {
    let RecordedRequest { place, sent, .. } = request;
    let shown = target(sent.target.as_bytes());
    let mut text = log::printable(&format!("{} {shown} ({place})", sent.method)).to_string();
    let named = |route: &str| if route.is_empty() { "(none)".to_owned() } else { route.to_owned() };
    changed(&mut text, "route", &named(&old.route), &named(&new.route));
    match (&old.reply, &new.reply) {
        (Ok(old), Ok(new)) => old.differences("reply", new, &mut text),
        (old, new) => {
            let shown = |reply: &Result<Shown, String>| match reply {
                Ok(reply) => reply.start.clone(),
                Err(why) => why.clone(),
            };
            changed(&mut text, "reply", &shown(old), &shown(new));
        }
    }
    let fault =
        |outcome: &ReplayOutcome| outcome.fault.clone().unwrap_or_else(|| "none".to_owned());
    changed(&mut text, "fault", &fault(old), &fault(new));
    for at in 0..old.calls.len().max(new.calls.len()) {
        match (old.calls.get(at), new.calls.get(at)) {
            (Some((upstream, old)), Some((other, new))) if upstream == other => {
                old.differences(&format!("call of {upstream}"), new, &mut text);
            }
            (before, after) => {
                let call = |(upstream, shown): &(String, Shown)| {
                    format!("call of {upstream}: {}", shown.start)
                };
                before.iter().for_each(|one| add(&mut text, '-', &call(one)));
                after.iter().for_each(|one| add(&mut text, '+', &call(one)));
            }
        }
    }
    text
}

fn changed(text: &mut String, what: &str, old: &str, new: &str) {
    if old != new {
        add(text, '~', &format!("{what}: {old} -> {new}"));
    }
}

fn add(text: &mut String, sign: char, line: &str) {
    let _ = write!(text, "\n  {sign} {}", log::printable(line));
}

fn header(name: &str, value: &str) -> String {
    let value = if is_secret(name.as_bytes()) { MASK } else { value };
    format!("{name}: {value}")
}
