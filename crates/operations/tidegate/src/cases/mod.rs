//! `tidegate test`, `tidegate explain --run` and `tidegate diff --replay`: requests through a whole gateway without a network.
//!
//! Owns the stand-ins for clients and upstreams ([`rehearsal`], [`services`]), the comparison of messages with the expected ones
//! ([`compare`]), and the report. Each case has its own gateway, so that counters and caches are not shared.

mod compare;
mod difference;
mod json;
mod junit;
mod message;
mod recorded;
mod rehearsal;
mod replay;
mod run;
mod sent_request;
mod services;
mod xml;

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use anyhow::Context as _;
use config::{
    Case, CaseCall, CaseExpect, CaseMessage, CaseReply, FilePath, LoadedConfig, Map, Spanned,
};
use fault::Fault;
use regex::Regex;
use telemetry::Telemetry;

use crate::check::{compiled, say_report};
use crate::{WRONG_USAGE, log};
use difference::Difference;
use message::Message;
use rehearsal::{Rehearsed, Task};
use sent_request::SentRequest;
use services::Services;

pub(crate) use replay::replay;
pub(crate) use run::explain_run;

/// The outcome of a case.
struct Outcome {
    name: String,
    took: Duration,
    /// Empty if it passed. A failure has one or more lines.
    failures: Vec<String>,
}

/// The file of results for a build server, if requested.
struct JunitReport<'a> {
    suite: String,
    path: Option<&'a Path>,
}

/// Cases mostly wait for delays, so there may be more threads than cores.
const THREADS_MAX: usize = 8;

/// Runs the cases of a configuration whose names match `only`.
pub(crate) fn test(
    file: &Path,
    only: Option<&str>,
    junit: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let report = JunitReport { suite: file.display().to_string(), path: junit };
    report.replace_older()?;
    let loaded = match loaded(file) {
        Ok(loaded) => loaded,
        Err(why) => return report.not_run(&why),
    };
    let cases = match chosen(&loaded, only) {
        Ok(cases) => cases,
        Err(why) => return report.not_run(&format!("{}: {why}", file.display())),
    };
    let outcomes = run_all(&loaded, &cases)?;
    report.write(|suite| junit::written(suite, &outcomes))?;
    let failed = outcomes.iter().filter(|outcome| !outcome.failures.is_empty()).count();
    let (all, passed) = (outcomes.len(), outcomes.len() - failed);
    let cases = if all == 1 { "case" } else { "cases" };
    log::write_out(&format!("{all} {cases}: {passed} passed, {failed} failed"))?;
    Ok(match failed {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Loads a configuration and prints its warnings, or returns its complaints.
fn loaded(file: &Path) -> Result<LoadedConfig, String> {
    match compiled(file) {
        Ok((compiled, loaded)) => {
            say_report(&compiled.warnings);
            Ok(loaded)
        }
        Err(report) => Err(format!("{report:#}").trim_end().to_owned()),
    }
}

/// The cases whose names match, or the reason why there are none.
fn chosen<'l>(
    loaded: &'l LoadedConfig,
    only: Option<&str>,
) -> Result<Vec<(&'l str, &'l Case)>, String> {
    let only = only.map(Regex::new).transpose().map_err(|error| format!("--only: {error}"))?;
    let all = loaded.config.iter().flat_map(|config| config.cases.iter());
    let cases: Vec<(&str, &Case)> = all
        .map(|(name, case)| (name.value.as_str(), &case.value))
        .filter(|(name, _)| only.as_ref().is_none_or(|only| only.is_match(name)))
        .collect();
    match (cases.is_empty(), only) {
        (false, _) => Ok(cases),
        (true, Some(_)) => Err("no case has a name that matches".to_owned()),
        (true, None) => Err("it has no `cases`".to_owned()),
    }
}

impl JunitReport<'_> {
    /// Replaces an older file at the start, so that a build server cannot mistake it for the result of this run.
    fn replace_older(&self) -> anyhow::Result<()> {
        if self.path.is_some_and(Path::is_file) {
            self.write(|suite| junit::not_run(suite, "the run has not ended"))
        } else {
            Ok(())
        }
    }

    /// Reports why there are no results.
    fn not_run(&self, why: &str) -> anyhow::Result<ExitCode> {
        log::say_error(why);
        self.write(|suite| junit::not_run(suite, why))?;
        Ok(ExitCode::from(WRONG_USAGE))
    }

    fn write(&self, text: impl FnOnce(&str) -> String) -> anyhow::Result<()> {
        let Some(path) = self.path else { return Ok(()) };
        fs::write(path, text(&self.suite))
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}

/// Runs cases concurrently, and reports them in their order.
fn run_all(loaded: &LoadedConfig, cases: &[(&str, &Case)]) -> anyhow::Result<Vec<Outcome>> {
    let next = AtomicUsize::new(0);
    let (send, receive) = sync_channel(cases.len());
    let mut slots: Vec<Option<Outcome>> = Vec::new();
    slots.resize_with(cases.len(), || None);
    let mut told = 0;
    std::thread::scope(|scope| {
        for _ in 0..cases.len().min(THREADS_MAX) {
            let (send, next) = (send.clone(), &next);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((name, case)) = cases.get(number) else { return };
                    // A gateway keeps state in its thread, so each case has its own thread.
                    let ran = std::thread::scope(|scope| {
                        scope.spawn(|| run_case(loaded, name, case)).join()
                    });
                    let outcome = ran.unwrap_or_else(|_| Outcome::broken(name));
                    // Harmless: the channel has room for all outcomes, so sending does not fail.
                    let _ = send.send((number, outcome));
                }
            });
        }
        drop(send);
        for (number, outcome) in receive {
            if let Some(slot) = slots.get_mut(number) {
                *slot = Some(outcome);
            }
            while let Some(Some(outcome)) = slots.get(told) {
                outcome.tell()?;
                told += 1;
            }
        }
        // Harmless: each case has stored its outcome.
        Ok(slots.into_iter().flatten().collect())
    })
}

fn run_case(loaded: &LoadedConfig, name: &str, case: &Case) -> Outcome {
    let began = kit::clock::now();
    let failures = failures(loaded, case).unwrap_or_else(|error| vec![format!("{error:#}")]);
    Outcome { name: name.to_owned(), took: began.elapsed(), failures }
}

fn failures(loaded: &LoadedConfig, case: &Case) -> anyhow::Result<Vec<String>> {
    let telemetry = Telemetry::new(1);
    let compiled = compile::compile(loaded, None, &telemetry);
    let compiled = compiled.map_err(|report| anyhow::anyhow!("{report:#}"))?;
    let services = Services::answering_once(case.calls.iter().map(|call| call.value.clone()));
    let rehearsed = rehearsal::run(compiled, telemetry, &services, &task(case)?);
    // Calls first, since they are usually the cause of a wrong reply.
    let mut failures = wrong_calls(&services);
    match rehearsed {
        Ok(Rehearsed { end, queues }) => {
            failures.extend(wrong_end(&case.reply, end));
            if let Some(expected) = &case.queues {
                failures.extend(wrong_messages(expected, &queues));
            }
        }
        Err(error) => failures.push(format!("{error:#}")),
    }
    Ok(failures)
}

/// The task of a case.
fn task(case: &Case) -> anyhow::Result<Task> {
    match (&case.request, &case.message, &case.schedule) {
        (Some(request), ..) => {
            let body = body(request.body.as_ref(), request.body_file.as_ref())?;
            Ok(Task::Request(sent(&request.method, &request.path, &request.headers, body)))
        }
        (None, Some(message), _) => {
            let CaseMessage { queue, method, path, headers, .. } = &message.value;
            let body = body(message.value.body.as_ref(), message.value.body_file.as_ref())?;
            Ok(Task::Message(queue.value.clone(), sent(method, path, headers, body)))
        }
        (None, None, Some(schedule)) => Ok(Task::Schedule(schedule.value.clone())),
        (None, None, None) => anyhow::bail!("the case has no `request`"),
    }
}

fn sent(
    method: &Spanned<String>,
    path: &Spanned<String>,
    headers: &Map<Spanned<String>>,
    body: Vec<u8>,
) -> SentRequest {
    let lines = headers.iter().map(|(name, value)| (name.value.clone(), value.value.clone()));
    let (method, target) = (method.value.clone(), path.value.clone());
    SentRequest { method, target, lines: lines.collect(), body }
}

fn body(
    body: Option<&Spanned<String>>,
    file: Option<&Spanned<FilePath>>,
) -> anyhow::Result<Vec<u8>> {
    match (body, file) {
        (Some(body), _) => Ok(body.value.clone().into_bytes()),
        (None, Some(file)) => {
            let path = file.value.as_path();
            fs::read(path).map_err(|error| {
                anyhow::anyhow!("cannot read `{}`: {}", path.display(), config::reason(&error))
            })
        }
        (None, None) => Ok(Vec::new()),
    }
}

/// The differences between the result and the expected one.
fn wrong_end(expected: &CaseReply, end: Result<Message, Fault>) -> Vec<String> {
    let told = |at: &str, expected: &str, came: &str| {
        let difference = Difference::new(at, expected, came);
        vec![format!("reply: {}", difference.lines().join("\n"))]
    };
    match (end, &expected.fault) {
        (Ok(reply), None) => {
            let found = compare::of_reply(expected, &reply);
            found.iter().map(|it| format!("reply: {}", it.lines().join("\n"))).collect()
        }
        (Ok(reply), Some(fault)) => {
            told("fault", &fault.value, &format!("(no fault, but a reply with {})", reply.status))
        }
        (Err(fault), Some(part)) => {
            let came = fault_shown(&fault);
            if came.contains(&part.value) {
                Vec::new()
            } else {
                told("fault", &format!("text that contains {:?}", part.value), &came)
            }
        }
        (Err(fault), None) => vec![format!("reply: the flow failed: {}", fault_shown(&fault))],
    }
}

fn fault_shown(fault: &Fault) -> String {
    format!("{} {}: {}", fault.status(), fault.kind.label(), fault.cause)
}

/// The differences between the messages that were put into queues and the expected ones.
fn wrong_messages(
    expected: &Map<Vec<CaseExpect>>,
    queues: &[(String, Vec<Message>)],
) -> Vec<String> {
    let mut told = Vec::new();
    for (name, came) in queues {
        let listed = expected.get(name).map_or(&[][..], Vec::as_slice);
        let place = |number: usize| format!("queues.{name}[{number}]");
        // Harmless: the remaining ones of either list are reported after this loop.
        for (number, (listed, came)) in listed.iter().zip(came).enumerate() {
            let found = compare::of_request(listed, came);
            told.extend(
                found.iter().map(|it| format!("{}: {}", place(number), it.lines().join("\n"))),
            );
        }
        for number in came.len()..listed.len() {
            told.push(format!("{}: no such message was put into the queue", place(number)));
        }
        for (number, came) in came.iter().enumerate().skip(listed.len()) {
            // Harmless: the text is only shown.
            let body = difference::shown(&String::from_utf8_lossy(&came.body));
            let line = format!("{} {}", came.method, came.target);
            told.push(format!(
                "{}: {line} was put into the queue, but the case does not list it\n  body: {body}",
                place(number)
            ));
        }
    }
    told
}

/// Calls that are not listed, and listed calls that were not made. An unlisted call and a missing call of the same upstream are
/// reported as one difference.
fn wrong_calls(services: &Services) -> Vec<String> {
    let mut missing = services.not_made();
    let mut told = Vec::new();
    for came in services.received().iter().filter(|came| came.answered.is_none()) {
        let request = &came.request;
        let line = format!("{} {} to `{}`", request.method, request.target, came.upstream);
        let meant = missing.iter().position(|(_, call)| call.peer() == came.upstream);
        let Some((number, call)) = meant.map(|at| missing.remove(at)) else {
            // Harmless: the text is only shown.
            let body = difference::shown(&String::from_utf8_lossy(&request.body));
            told.push(format!(
                "call: {line} was made, but the case does not list it\n  body: {body}"
            ));
            continue;
        };
        for found in came.differences(&call) {
            told.push(format!("calls[{number}]: {line}: {}", found.lines().join("\n")));
        }
    }
    let not_made = missing.iter().map(|(number, call)| not_made(*number, call));
    told.into_iter().chain(not_made).collect()
}

fn not_made(number: usize, call: &CaseCall) -> String {
    let method = call.expect.method.as_ref().map_or("*", |method| &method.value);
    let path = call.expect.path.as_ref().map_or("*", |path| &path.value);
    format!("calls[{number}]: {method} {path} to `{}` was not made", call.peer())
}

impl Outcome {
    fn broken(name: &str) -> Outcome {
        let why = "the case caused a panic: please report it".to_owned();
        Outcome { name: name.to_owned(), took: Duration::ZERO, failures: vec![why] }
    }

    fn tell(&self) -> anyhow::Result<()> {
        let mark = if self.failures.is_empty() { "ok  " } else { "FAIL" };
        let mut text = format!("{mark} {} ({} ms)", self.name, self.took.as_millis());
        for line in self.failures.iter().flat_map(|failure| failure.lines()) {
            text.push_str("\n       ");
            text.push_str(&log::printable(line));
        }
        log::write_out(&text)
    }
}
