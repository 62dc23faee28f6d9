//! `tidegate explain FILE --run FILE`: shows the effect of each policy on a message, and the message before and after each step
//! of a flow.

use std::fmt::Write as _;
use std::fs;
use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use config::{Case, CaseCall, Config, Map};
use telemetry::Telemetry;
use telemetry::trace::{
    PolicyTrace, Trace, TraceRequest, TracedMessage, TracedPolicy, body as masked, target,
};

use super::rehearsal::{self, Rehearsed, Task};
use super::sent_request::{SentRequest, is_sendable};
use super::services::Services;
use crate::check::say_report;
use crate::{WRONG_USAGE, log};

/// The largest request: the largest body of a flow, and a head.
const REQUEST_BYTES_MAX: u64 = 17 * 1024 * 1024;

/// Sends the request in a file, and prints the trace.
pub(crate) fn explain_run(file: &Path, request: &Path) -> anyhow::Result<ExitCode> {
    let loaded = config::load(file);
    let telemetry = Telemetry::new(1);
    let compiled = match compile::compile(&loaded, None, &telemetry) {
        Ok(compiled) => compiled,
        Err(report) => {
            say_report(&report);
            return Ok(ExitCode::FAILURE);
        }
    };
    let sent = match read(request) {
        Ok(sent) => sent,
        Err(why) => {
            log::say_error(&format!("{}: {why:#}", request.display()));
            return Ok(ExitCode::from(WRONG_USAGE));
        }
    };
    // Harmless: a configuration that could not be read was refused above.
    let calls = loaded.config.as_ref().map(|config| calls(config, &sent)).unwrap_or_default();
    let services = Services::answering_always(calls.into_iter());
    let tracer = telemetry.tracer();
    tracer.ask(TraceRequest::any());
    tracer.ask_policies();
    let task = Task::Request(sent);
    let rehearsed = rehearsal::run(compiled, telemetry.clone(), &services, &task)?;
    let Task::Request(sent) = task else { anyhow::bail!("the request was not run") };
    let (policies, trace) = (tracer.take_policies(), tracer.take());
    let text = described(&sent, policies.as_ref(), trace.as_ref(), &services, &rehearsed)?;
    log::write_out(text.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// The calls of all cases, starting with cases for this request. Each is listed once as in its case, and once with only its
/// method and path, since the request may differ from that of the case.
fn calls(config: &Config, sent: &SentRequest) -> Vec<CaseCall> {
    let is_this = |case: &&Case| {
        case.request.as_ref().is_some_and(|request| {
            request.method.value == sent.method && request.path.value == sent.origin().1
        })
    };
    let all = config.cases.iter().map(|(_, case)| &case.value);
    let (own, others): (Vec<&Case>, Vec<&Case>) = all.partition(is_this);
    let listed = |cases: &[&Case]| -> Vec<CaseCall> {
        cases.iter().flat_map(|case| &case.calls).map(|call| call.value.clone()).collect()
    };
    let own = listed(&own);
    let looser: Vec<CaseCall> = own.iter().cloned().map(looser).collect();
    [own, looser, listed(&others)].concat()
}

/// The same call with any headers and any body.
fn looser(mut call: CaseCall) -> CaseCall {
    call.expect.headers = Map::default();
    (call.expect.body, call.expect.xml, call.expect.json) = (None, None, None);
    call
}

/// Reads a request in the format of HTTP/1.1. Lines may end with only LF, and the body is the rest of the file. Headers that frame a
/// body are ignored.
fn read(file: &Path) -> anyhow::Result<SentRequest> {
    let mut bytes = Vec::new();
    // A device may be endless and has no size, so the read is limited.
    let read = fs::File::open(file)
        .and_then(|file| file.take(REQUEST_BYTES_MAX + 1).read_to_end(&mut bytes));
    let read = read.map_err(|error| anyhow::anyhow!(config::reason(&error)))?;
    let fits = u64::try_from(read).is_ok_and(|read| read <= REQUEST_BYTES_MAX);
    anyhow::ensure!(fits, "it is larger than {REQUEST_BYTES_MAX} bytes");
    request(&bytes)
}

fn request(bytes: &[u8]) -> anyhow::Result<SentRequest> {
    let mut rest = bytes;
    let mut line = || -> anyhow::Result<Option<&str>> {
        if rest.is_empty() {
            return Ok(None);
        }
        let end = rest.iter().position(|byte| *byte == b'\n');
        let (line, after) =
            // Harmless: the position of a line end is within the text.
            rest.split_at_checked(end.map_or(rest.len(), |end| end + 1)).unwrap_or_default();
        rest = after;
        let text = std::str::from_utf8(line).context("its head is not UTF-8 text")?;
        Ok(Some(text.trim_end_matches(['\r', '\n'])).filter(|text| !text.is_empty()))
    };
    let start =
        line()?.context("it does not begin with a request line: write `POST /path HTTP/1.1`")?;
    let mut words = start.split(' ');
    // Harmless: an absent word is refused below.
    let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    anyhow::ensure!(
        is_sendable(method, target)
            && words.next().is_none_or(|version| version == "HTTP/1.1" || version == "HTTP/1.0"),
        "its first line is `{}`: write `POST /path HTTP/1.1`",
        start.escape_debug()
    );
    let mut lines = Vec::new();
    while let Some(text) = line()? {
        let (name, value) = text.split_once(':').context("a header without a colon")?;
        let (name, value) = (name.trim_end(), value.trim());
        let good = http1::is_token(name.as_bytes()) && http1::is_header_value(value.as_bytes());
        anyhow::ensure!(good, "the header `{}` cannot be sent", name.escape_debug());
        if !["content-length", "transfer-encoding"].contains(&&*name.to_lowercase()) {
            lines.push((name.to_owned(), value.to_owned()));
        }
    }
    let (method, target) = (method.to_owned(), target.to_owned());
    Ok(SentRequest { method, target, lines, body: rest.to_vec() })
}

fn described(
    sent: &SentRequest,
    policies: Option<&PolicyTrace>,
    trace: Option<&Trace>,
    services: &Services,
    Rehearsed { end, queues }: &Rehearsed,
) -> anyhow::Result<String> {
    let mut text = String::new();
    line(&mut text, 0, &format!("{} {}", sent.method, target(sent.target.as_bytes())));
    let none = PolicyTrace::default();
    let policies = policies.unwrap_or(&none);
    match &*policies.route {
        "" => text.push_str("no route matched\n"),
        route => line(&mut text, 0, &format!("route `{route}`")),
    }
    each_policy(&mut text, "policies on the request:", &policies.down);
    match trace {
        Some(trace) => steps(&mut text, trace),
        None if policies.route.is_empty() => {}
        None => text.push_str(
            "no step ran: a policy answered, the route has another destination, or its flow only forwards\n",
        ),
    }
    let calls = services.received();
    text.push_str(if calls.is_empty() { "" } else { "calls:\n" });
    for came in calls {
        let (method, target) = (&came.request.method, target(came.request.target.as_bytes()));
        let answer = match came.answered {
            Some(status) => format!("{status} by a case"),
            None => "no case has an answer for it".to_owned(),
        };
        line(&mut text, 1, &format!("{method} {target} to `{}`: {answer}", came.upstream));
    }
    for (queue, message) in
        queues.iter().flat_map(|(queue, all)| all.iter().map(move |m| (queue, m)))
    {
        let (method, target) = (&message.method, target(message.target.as_bytes()));
        line(&mut text, 0, &format!("queued: {method} {target} in `{queue}`"));
        body(&mut text, 1, &masked(&message.body));
    }
    each_policy(&mut text, "policies on the reply:", &policies.up);
    if let Some(fault) = &policies.fault {
        line(&mut text, 0, &format!("fault: {fault}"));
    }
    let reply = end.as_ref().map_err(|fault| anyhow::anyhow!("{fault}"))?;
    // Harmless: a reply may have no type.
    let content_type = reply.get("content-type").unwrap_or_default();
    line(&mut text, 0, format!("reply: {} {content_type}", reply.status).trim_end());
    body(&mut text, 1, &masked(&reply.body));
    Ok(text)
}

fn each_policy(text: &mut String, title: &str, policies: &[TracedPolicy]) {
    if !policies.is_empty() {
        line(text, 0, title);
    }
    for policy in policies {
        line(text, 1, &format!("{}: {} ({})", policy.name, policy.verdict, policy.place));
        policy.changes.iter().for_each(|change| line(text, 2, change));
        policy.body.iter().for_each(|made| body(text, 3, made));
    }
}

fn steps(text: &mut String, trace: &Trace) {
    line(text, 0, &format!("flow `{}`", trace.flow));
    for (number, step) in (1..).zip(&trace.steps) {
        let depth = usize::from(step.depth) + 1;
        let part = step.part.map(|part| format!(" (part {part})")).unwrap_or_default();
        line(text, depth, &format!("{number} {}{part}", step.name));
        if step.label != step.name {
            line(text, depth + 1, &format!("step: {}", step.label));
        }
        seen(text, depth + 1, "before", &step.before);
        match &step.after {
            None => line(text, depth + 1, "cancelled"),
            Some(Ok(after)) if *after == step.before => line(text, depth + 1, "after: unchanged"),
            Some(Ok(after)) => seen(text, depth + 1, "after", after),
            Some(Err(fault)) => line(text, depth + 1, &format!("fault: {fault}")),
        }
    }
    if trace.left_out > 0 {
        line(text, 1, &format!("{} more steps", trace.left_out));
    }
}

fn seen(text: &mut String, depth: usize, when: &str, seen: &TracedMessage) {
    let status = seen.status.map(|status| format!("{status}, ")).unwrap_or_default();
    let content_type = match &*seen.content_type {
        "" => "no content type",
        content_type => content_type,
    };
    let bytes = match seen.bytes {
        Some(bytes) => format!("{bytes} bytes"),
        None => "not read".to_owned(),
    };
    line(text, depth, &format!("{when}: {status}{content_type}, {bytes}"));
    body(text, depth + 1, &seen.body);
}

fn body(text: &mut String, depth: usize, body: &str) {
    body.lines().for_each(|part| line(text, depth, part));
}

fn line(text: &mut String, depth: usize, line: &str) {
    let line = log::printable(line);
    let _ = writeln!(text, "{:depth$}{line}", "", depth = depth * 2);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_it_is_written() {
        for text in [
            "POST /a?b HTTP/1.1\r\nA: b\r\nContent-Length: 9\r\n\r\nx\r\n\r\ny",
            "POST /a?b\nA:b\n\nx\r\n\r\ny",
        ] {
            let sent = request(text.as_bytes()).unwrap();
            assert_eq!((&*sent.method, &*sent.target), ("POST", "/a?b"));
            assert_eq!(sent.lines, [("A".to_owned(), "b".to_owned())]);
            assert_eq!(sent.body, b"x\r\n\r\ny");
        }
        for (target, expected) in [
            ("http://a.test:80/b?c", Some(("a.test:80", "/b?c"))),
            ("HTTPS://[::1]", Some(("[::1]", "/"))),
            ("http://a?c", Some(("a", "/?c"))),
            ("/a://b", None),
        ] {
            let sent = request(format!("GET {target} HTTP/1.1\n").as_bytes()).unwrap();
            assert_eq!(sent.target, target);
            let (host, path) = sent.origin();
            assert_eq!(
                (host, &*path),
                expected.map_or((None, target), |(host, path)| (Some(host), path))
            );
        }
        for (text, why) in [
            ("GET ftp://a/ HTTP/1.1\n", "its first line"),
            ("GET http://a b/ HTTP/1.1\n", "its first line"),
            ("GET http://u@a/ HTTP/1.1\n", "its first line"),
            ("GET http:///b HTTP/1.1\n", "its first line"),
            ("GET a:80 HTTP/1.1\n", "its first line"),
            ("", "does not begin with a request line"),
            ("POST", "its first line"),
            ("PO,ST / HTTP/1.1\n", "its first line"),
            ("GET / HTTP/2\n", "its first line"),
            ("GET a b HTTP/1.1\n", "its first line"),
            ("GET / HTTP/1.1\nno colon\n", "without a colon"),
            ("GET / HTTP/1.1\na\u{1}: b\n", "cannot be sent"),
        ] {
            let error = request(text.as_bytes()).err().unwrap().to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
