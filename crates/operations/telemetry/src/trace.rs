//! Traces of the steps of single messages, requested by operators.
//!
//! A flow checks a flag once; without a request nothing is recorded. A request has conditions and the number of messages to
//! trace. Bodies are truncated, and likely secrets in them are masked.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Manages requests for traces and the recorded traces.
#[derive(Debug, Default)]
pub struct Tracer {
    /// True while there is a request.
    asked: AtomicBool,
    request: Mutex<Option<TraceRequest>>,
    /// The newest first.
    recorded: Mutex<VecDeque<Trace>>,
    policies_asked: AtomicBool,
    policies: Mutex<Option<PolicyTrace>>,
}

/// A request for traces: all given conditions have to hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TraceRequest {
    pub route: Option<String>,
    pub flow: Option<String>,
    /// The path of the request; with `/**` at its end, all paths below it too.
    pub path: Option<String>,
    pub request_id: Option<String>,
    /// The number of messages that are still to be traced.
    pub count: usize,
}

/// A message that could be traced. Route and path are empty for a run without a route.
#[derive(Debug, Clone, Copy)]
pub struct TraceCandidate<'a> {
    pub route: &'a str,
    /// None for an exchange without a flow.
    pub flow: Option<&'a str>,
    pub path: &'a [u8],
    pub request_id: &'a str,
}

/// The policies of one exchange, for the request and the reply.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PolicyTrace {
    /// Empty if no route matched.
    pub route: Box<str>,
    /// The policies of the request, and those that were not reached.
    pub down: Vec<TracedPolicy>,
    /// The policies of the reply.
    pub up: Vec<TracedPolicy>,
    /// The fault of the exchange, with its logged cause.
    pub fault: Option<Box<str>>,
}

/// The effect of a policy on a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedPolicy {
    pub name: &'static str,
    /// The place in the configuration.
    pub place: Box<str>,
    /// Its decision as text.
    pub verdict: Box<str>,
    /// Its changes and decisions, one per line. Secrets are masked.
    pub changes: Vec<String>,
    /// The beginning of the body that it set, from [`body`].
    pub body: Option<Box<str>>,
}

/// The steps of one message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The time of the trace, since the Unix epoch.
    pub time: Duration,
    /// The route's name. Empty for a run without a route.
    pub route: Box<str>,
    /// The flow's name; empty for an exchange without one.
    pub flow: Box<str>,
    /// The id of the request.
    pub request_id: Box<str>,
    /// The steps, in the order in which they began.
    pub steps: Vec<TracedStep>,
    /// The number of further steps that are not listed.
    pub left_out: usize,
    /// The policies of an exchange without a flow.
    pub policies: Option<PolicyTrace>,
}

/// One run of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedStep {
    /// The configured name of the step, or its key.
    pub name: Arc<str>,
    /// The configured name, or the key and the path in the flow.
    pub label: Arc<str>,
    /// The number of enclosing steps.
    pub depth: u16,
    /// The number of the branch or of the part of the message, from 1.
    pub part: Option<usize>,
    pub before: TracedMessage,
    /// The message after the step, or the fault. None if the step was cancelled.
    pub after: Option<Result<TracedMessage, Box<str>>>,
}

/// A message in a trace.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracedMessage {
    /// None for a request.
    pub status: Option<u16>,
    /// Empty if there is none.
    pub content_type: Box<str>,
    /// None if the body was not read.
    pub bytes: Option<usize>,
    /// The beginning of the body, from [`body`].
    pub body: Box<str>,
}

/// The limit of traces that are kept.
pub const TRACES_MAX: usize = 100;

/// The approximate limit of the total size of the traces that are kept.
const ALL_BYTES_MAX: usize = 16 << 20;

/// The limit of a body in a trace: a few screens. With [`STEPS_MAX`], a trace has at most some 8 MiB.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// The limit of steps in one trace. A flow has tens, and repeats them for parts of a message.
pub const STEPS_MAX: usize = 1_000;

/// Parts of names of secrets, in any case.
const SECRETS: [&str; 9] = [
    "password",
    "passwd",
    "secret",
    "token",
    "apikey",
    "api_key",
    "api-key",
    "authorization",
    "credential",
];

/// Headers that are secrets despite other names.
const SECRET_HEADERS: [&str; 2] = ["cookie", "set-cookie"];

/// Replaces a secret.
pub const MASK: &str = "***";

impl Tracer {
    /// Requests traces, replacing the last request. Earlier traces are removed.
    pub fn ask(&self, request: TraceRequest) {
        self.recorded().clear();
        self.asked.store(request.count > 0, Ordering::Relaxed);
        *self.requested() = Some(request).filter(|request| request.count > 0);
    }

    /// Requests a trace of the policies of the next exchange.
    pub fn ask_policies(&self) {
        self.policies_asked.store(true, Ordering::Relaxed);
    }

    /// True for the one exchange whose policies are traced.
    pub fn answers_policies(&self) -> bool {
        self.policies_asked.load(Ordering::Relaxed)
            && self.policies_asked.swap(false, Ordering::Relaxed)
    }

    /// Stores the trace of an exchange's policies.
    pub fn leave_policies(&self, trace: PolicyTrace) {
        *self.policies.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace);
    }

    /// The trace of the policies, if there is one.
    pub fn take_policies(&self) -> Option<PolicyTrace> {
        self.policies.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// True if this message is to be traced.
    pub fn takes(&self, candidate: &TraceCandidate<'_>) -> bool {
        // Requests are rare, so usually only a flag is read.
        if !self.is_asked() {
            return false;
        }
        let mut requested = self.requested();
        let Some(request) = requested.as_mut().filter(|request| request.is_for(candidate)) else {
            return false;
        };
        request.count = request.count.saturating_sub(1);
        if request.count == 0 {
            *requested = None;
            self.asked.store(false, Ordering::Relaxed);
        }
        true
    }

    /// Stores a trace. Old traces are removed if there are too many or they are too large.
    pub fn store(&self, trace: Trace) {
        let mut recorded = self.recorded();
        recorded.push_front(Trace { time: kit::clock::wall(), ..trace });
        // Harmless: the oldest ones are removed, as the guide says.
        recorded.truncate(TRACES_MAX);
        let mut bytes = 0;
        // Harmless: the newest one is always kept, and its size is bounded.
        let kept = recorded.iter().take_while(|trace| {
            bytes += trace.bytes();
            bytes <= ALL_BYTES_MAX
        });
        let kept = kept.count().max(1);
        // Harmless: the oldest ones are removed, as the guide says.
        recorded.truncate(kept);
    }

    /// True if a message is still to be traced.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The current request, if there is one.
    pub fn request(&self) -> Option<TraceRequest> {
        self.requested().clone()
    }

    /// The stored traces, newest first. They stay stored.
    pub fn traces(&self) -> Vec<Trace> {
        self.recorded().iter().cloned().collect()
    }

    /// Takes the newest trace.
    pub fn take(&self) -> Option<Trace> {
        self.recorded().pop_front()
    }

    fn requested(&self) -> MutexGuard<'_, Option<TraceRequest>> {
        self.request.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recorded(&self) -> MutexGuard<'_, VecDeque<Trace>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TraceRequest {
    /// A request for the next message.
    pub fn any() -> TraceRequest {
        TraceRequest { count: 1, ..TraceRequest::default() }
    }

    fn is_for(&self, candidate: &TraceCandidate<'_>) -> bool {
        let is =
            |wanted: &Option<String>, has: &str| wanted.as_ref().is_none_or(|text| text == has);
        is(&self.route, candidate.route)
            && is(&self.request_id, candidate.request_id)
            && self.flow.as_deref().is_none_or(|flow| candidate.flow == Some(flow))
            && self.path.as_deref().is_none_or(|path| is_below(path, candidate.path))
    }
}

/// True for this path, or for one below it if it ends with `/**`.
fn is_below(wanted: &str, path: &[u8]) -> bool {
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    match wanted.strip_suffix("/**") {
        None => path == wanted.as_bytes(),
        Some(above) => path
            .strip_prefix(above.as_bytes())
            .is_some_and(|below| below.is_empty() || below.starts_with(b"/")),
    }
}

impl Trace {
    /// Its approximate size in memory.
    fn bytes(&self) -> usize {
        let seen = |message: &TracedMessage| message.body.len() + message.content_type.len();
        let step = |step: &TracedStep| {
            let after = match &step.after {
                Some(Ok(after)) => seen(after),
                Some(Err(fault)) => fault.len(),
                None => 0,
            };
            seen(&step.before) + after + size_of::<TracedStep>()
        };
        let policies = self.policies.as_ref().map_or(0, PolicyTrace::bytes);
        self.steps.iter().map(step).sum::<usize>() + policies
    }
}

impl PolicyTrace {
    /// Its approximate size in memory.
    fn bytes(&self) -> usize {
        let policy = |policy: &TracedPolicy| {
            let changes = policy.changes.iter().map(|change| change.len() + size_of::<String>());
            let texts = policy.place.len() + policy.verdict.len();
            let body = policy.body.as_ref().map_or(0, |body| body.len());
            changes.sum::<usize>() + texts + body + size_of::<TracedPolicy>()
        };
        let policies = self.down.iter().chain(&self.up).map(policy);
        policies.sum::<usize>() + self.fault.as_ref().map_or(0, |fault| fault.len())
    }
}

/// The beginning of a body as text, with likely secrets masked.
pub fn body(bytes: &[u8]) -> String {
    let (mut begin, mut rest) = bytes.split_at_checked(BODY_BYTES_MAX).unwrap_or((bytes, &[]));
    if !rest.is_empty()
        && let Err(cut) = std::str::from_utf8(begin)
        && cut.error_len().is_none()
    {
        // The cut must not split a character.
        (begin, rest) = bytes.split_at_checked(cut.valid_up_to()).unwrap_or((begin, rest));
    }
    // Harmless: the text is only shown. The names of secrets in UTF-16 are readable without the zeros.
    let mut text = masked(&String::from_utf8_lossy(begin).replace('\0', ""));
    if !rest.is_empty() {
        text.push_str(&format!("... ({} more bytes)", rest.len()));
    }
    text
}

/// Masks likely secrets in JSON, XML, a form or lines: values of members, elements, attributes, fields and lines whose names
/// denote a secret. In doubt, more is masked.
pub fn masked(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    // Otherwise the text is a form or lines, whose values may have any characters.
    let is_markup = text.trim_start().starts_with(['{', '[', '<', '"']);
    let mut out = String::with_capacity(text.len());
    let (mut written, mut from) = (0, 0);
    while let Some(name) = next_secret(&lower, from) {
        from = name.end;
        let Some(value) = value_of(text, &name, is_markup) else { continue };
        out.push_str(text.get(written..value.start).unwrap_or_default());
        out.push_str(MASK);
        (written, from) = (value.end, value.end);
    }
    out.push_str(text.get(written..).unwrap_or_default());
    out
}

/// True if the name of a header denotes a secret.
pub fn is_secret(header: &[u8]) -> bool {
    // Harmless: the text is only compared with names.
    let name = String::from_utf8_lossy(header).to_ascii_lowercase();
    SECRET_HEADERS.contains(&name.as_str()) || SECRETS.iter().any(|word| name.contains(word))
}

/// The target of a request. Values of parameters whose names denote secrets are masked.
pub fn target(target: &[u8]) -> String {
    // Harmless: the text is only shown.
    let target = String::from_utf8_lossy(target);
    match target.split_once('?') {
        Some((path, query)) => format!("{path}?{}", masked(query)),
        None => target.into_owned(),
    }
}

/// Returns the next whole name that contains one of `SECRETS`.
fn next_secret(lower: &str, from: usize) -> Option<Range<usize>> {
    let rest = lower.get(from..)?;
    // Harmless: a missing part has no position.
    let found = SECRETS.iter().filter_map(|word| rest.find(word)).min()? + from;
    let (before, behind) = lower.split_at_checked(found)?;
    let start = before.trim_end_matches(is_of_name).len();
    let (whole, after) =
        behind.split_at_checked(behind.find(|c| !is_of_name(c)).unwrap_or(behind.len()))?;
    // `password:x`: a colon after the name is part of it only in XML.
    let is_of_xml = before.get(..start)?.ends_with(['<', '/']) || after.starts_with('=');
    let whole = if is_of_xml { whole } else { whole.split(':').next().unwrap_or_default() };
    Some(start..found + whole.trim_end_matches([':', '.']).len())
}

fn is_of_name(c: char) -> bool {
    c.is_alphanumeric() || "_-.:".contains(c)
}

/// The range of a name's value, if it has one that is not empty.
fn value_of(text: &str, name: &Range<usize>, is_markup: bool) -> Option<Range<usize>> {
    let (before, behind) = (text.get(..name.start)?, text.get(name.end..)?);
    if before.ends_with('<') {
        return content(text, name);
    }
    if before.trim_end_matches('"').ends_with("name=")
        && let Some(head) = behind.find("\r\n\r\n")
    {
        // A part of a form: its value follows the empty line.
        return until(text, name.end + head + 4, |rest| rest.find("\r\n--"));
    }
    // The name and its value may be in JSON text nested in another JSON text.
    let escapes = behind.len() - behind.trim_start_matches('\\').len();
    let quote = behind.get(..=escapes).filter(|quote| quote.ends_with('"'));
    let behind = quote.and_then(|quote| behind.strip_prefix(quote)).unwrap_or(behind).trim_start();
    let is_line = quote.is_none() && behind.starts_with(':');
    let behind = behind.strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
    let behind = if is_markup { behind.trim_start() } else { behind };
    let start = text.len() - behind.len();
    let opened = quote.unwrap_or("\"");
    if behind.starts_with(opened) {
        return until(text, start + opened.len(), |rest| closing(rest, opened));
    }
    match (behind.chars().next()?, is_markup) {
        ('\'', _) => until(text, start + 1, |rest| rest.find('\'')),
        ('{' | '[', true) => until(text, start, bracketed),
        (_, true) if is_line => until(text, start, |rest| rest.find(['"', '<', '\n', '\r'])),
        (_, true) => until(text, start, |rest| {
            rest.find([',', '}', ']', '&', ' ', '\n', '\r', '<', '>', '"'])
        }),
        (_, false) if is_line => until(text, start, |rest| rest.find(['\n', '\r'])),
        (_, false) => until(text, start, |rest| rest.find(['&', '\n', '\r'])),
    }
}

/// The range of an element's content. Its name may denote a secret that is in nested elements.
fn content(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    let behind = text.get(name.end..)?;
    let mut quote = None;
    let tag = behind.find(|c: char| {
        match (quote, c) {
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            // Harmless: other characters are part of the tag.
            _ => {}
        }
        quote.is_none() && c == '>'
    })?;
    let is_empty = behind.get(..tag)?.ends_with('/');
    let name_text = text.get(name.clone())?;
    until(text, name.end + tag + 1, |rest| end_tag(rest, name_text)).filter(|_| !is_empty)
}

/// The position of the end tag of an element, after nested elements of the same name.
fn end_tag(rest: &str, name: &str) -> Option<usize> {
    let mut depth = 1_usize;
    let end = rest.match_indices('<').find(|(at, _)| {
        let tag = rest.get(at + 1..).unwrap_or_default();
        let (tag, is_end) = tag.strip_prefix('/').map_or((tag, false), |tag| (tag, true));
        match (tag.strip_prefix(name).is_some_and(|tag| !tag.starts_with(is_of_name)), is_end) {
            (true, true) => depth -= 1,
            (true, false) => depth += 1,
            (false, _) => {}
        }
        depth == 0
    });
    end.map(|(at, _)| at)
}

/// The range up to the end of a value, or of a truncated text.
fn until(
    text: &str,
    start: usize,
    end: impl FnOnce(&str) -> Option<usize>,
) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let len = end(rest).unwrap_or(rest.len());
    (len > 0).then_some(start..start + len)
}

/// The end of a text that `quote` opened: a quote with the same number of backslashes. A quote within the text has
/// more of them.
fn closing(rest: &str, quote: &str) -> Option<usize> {
    let own = quote.len() - 1;
    let mut escapes = 0_usize;
    let end = rest.find(|c: char| {
        let more = escapes.checked_sub(own);
        let ends = c == '"' && more.is_none_or(|more| more.is_multiple_of(2 * (own + 1)));
        escapes = if c == '\\' { escapes + 1 } else { 0 };
        ends
    })?;
    let before = rest.get(..end)?;
    Some(end - own.min(end - before.trim_end_matches('\\').len()))
}

/// The end of an array or object.
fn bracketed(rest: &str) -> Option<usize> {
    let (mut depth, mut is_text, mut is_escaped) = (0_usize, false, false);
    let end = rest.find(|c: char| {
        match c {
            '"' if !is_escaped => is_text = !is_text,
            '{' | '[' if !is_text => depth += 1,
            '}' | ']' if !is_text => depth = depth.saturating_sub(1),
            // Harmless: other characters are part of the text.
            _ => {}
        }
        is_escaped = c == '\\' && !is_escaped;
        depth == 0
    })?;
    Some(end + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_traces_the_matching_messages_up_to_its_count() {
        let tracer = Tracer::default();
        let candidate = |path: &'static str, flow| TraceCandidate {
            route: "r",
            flow,
            path: path.as_bytes(),
            request_id: "id",
        };
        assert!(!tracer.takes(&candidate("/a", None)));
        tracer.ask(TraceRequest::any());
        assert!(tracer.takes(&candidate("/a", None)));
        assert!(!tracer.takes(&candidate("/a", None)));
        tracer.ask(TraceRequest {
            path: Some("/a/**".to_owned()),
            flow: Some("f".to_owned()),
            count: 2,
            ..TraceRequest::default()
        });
        for (path, flow, answers) in [
            ("/b", Some("f"), false),
            ("/ab", Some("f"), false),
            ("/a/b?c", None, false),
            ("/a/b?c", Some("f"), true),
            ("/a", Some("f"), true),
            ("/a", Some("f"), false),
        ] {
            assert_eq!(tracer.takes(&candidate(path, flow)), answers, "{path}");
        }
        for at in 0..TRACES_MAX + 3 {
            tracer.store(Trace { request_id: at.to_string().into(), ..Trace::default() });
        }
        let traces = tracer.traces();
        assert_eq!((traces.len(), &*traces[0].request_id), (TRACES_MAX, "102"));
    }

    #[test]
    fn traces_of_policies_count_for_the_limit_of_bytes() {
        let policy = TracedPolicy {
            name: "headers",
            place: "routes.r.policies[0]".into(),
            verdict: "continues".into(),
            changes: vec!["x".repeat(BODY_BYTES_MAX)],
            body: Some("x".repeat(BODY_BYTES_MAX).into()),
        };
        let policies = PolicyTrace { down: vec![policy; 100], ..PolicyTrace::default() };
        let (tracer, each) = (Tracer::default(), 100 * 2 * BODY_BYTES_MAX);
        for _ in 0..TRACES_MAX {
            tracer.store(Trace { policies: Some(policies.clone()), ..Trace::default() });
        }
        let count = tracer.traces().len();
        assert!((1..=ALL_BYTES_MAX / each).contains(&count), "{count} are kept");
    }

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        for (text, shown) in [
            (r#"{"user":"a","Password":"b\"c","n":1}"#, r#"{"user":"a","Password":"***","n":1}"#),
            (r#"{"access_token" : 12, "b": 2}"#, r#"{"access_token" : ***, "b": 2}"#),
            (r#"{"token":{"a":"}","b":[1]},"c":1}"#, r#"{"token":***,"c":1}"#),
            (r#"{"tokens" : ["a]", "b"], "c": 1}"#, r#"{"tokens" : ***, "c": 1}"#),
            (r#"{"password":"cut of"#, r#"{"password":"***"#),
            (r#"{"secret":["cut of"#, r#"{"secret":***"#),
            (r#"{"a":"{\"token\":\"x\\\"y\",\"b\":1}"}"#, r#"{"a":"{\"token\":\"***\",\"b\":1}"}"#),
            (
                r#"{"a":"/b?token=x&c=d","e":"Authorization: Basic eDp5"}"#,
                r#"{"a":"/b?token=***&c=d","e":"Authorization: ***"}"#,
            ),
            (
                r#"<w:Password w:Type="t">x</w:Password><a>b</a>"#,
                r#"<w:Password w:Type="t">***</w:Password><a>b</a>"#,
            ),
            ("<password/><a>b</a>", "<password/><a>b</a>"),
            ("<password><![CDATA[x]]></password><a>b</a>", "<password>***</password><a>b</a>"),
            (
                "<p:credentials a='>'>\n<user>x</user><!-- --><pass>y</pass></p:credentials><a>b</a>",
                "<p:credentials a='>'>***</p:credentials><a>b</a>",
            ),
            (
                "<token><tokens>a</tokens><token>b</token>c</token><a>d</a>",
                "<token>***</token><a>d</a>",
            ),
            ("<token><a>cut of", "<token>***"),
            (r#"<a client-secret='x' b="y"/>"#, r#"<a client-secret='***' b="y"/>"#),
            ("user=a&password=b&c=d", "user=a&password=***&c=d"),
            ("password=b, c]d e&f=g", "password=***&f=g"),
            ("Authorization: Bearer x y\r\na: b", "Authorization: ***\r\na: b"),
            ("password:x\nsecret\n: no", "password:***\nsecret\n: ***"),
            ("p\0a\0s\0s\0w\0o\0r\0d\0=\0x\0&\0a\0=\0b\0", "password=***&a=b"),
            (
                "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\na\r\nb\r\n--b--",
                "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n***\r\n--b--",
            ),
            (
                "--b\r\nContent-Disposition: form-data; name=password\r\n\r\na\r\n--b--",
                "--b\r\nContent-Disposition: form-data; name=password\r\n\r\n***\r\n--b--",
            ),
            ("no secret here", "no secret here"),
        ] {
            assert_eq!(body(text.as_bytes()), shown);
        }
        let long = "x".repeat(BODY_BYTES_MAX + 3);
        assert!(body(long.as_bytes()).ends_with("x... (3 more bytes)"));
        let long = format!("{}äb", "x".repeat(BODY_BYTES_MAX - 1));
        assert!(body(long.as_bytes()).ends_with("x... (3 more bytes)"));
    }
}
