//! Records what a policy does to a message, if an operator has requested a trace. Otherwise none of this runs.
//!
//! Owns the comparison of a message before and after a step. Secrets are masked, and bodies are cut.

use std::collections::HashSet;

use bytes::Bytes;
use message::{Body, Headers, ReplyHead, RequestHead};
use telemetry::trace::{self, MASK, TracedPolicy};

use crate::{Exchange, Flow, Onward};

/// A head that can be compared.
pub trait TracedHead {
    /// Returns the parts of the first line, each with its name.
    fn start(&self) -> Vec<(&'static str, String)>;

    fn lines(&self) -> &Headers;
}

/// A message before a step, with other state that a step may change.
pub struct MessageBefore {
    start: Vec<(&'static str, String)>,
    lines: Vec<(String, String)>,
    /// The body, if it is in memory.
    body: Option<Bytes>,
    /// Whether the client identity was known before the step.
    is_known: bool,
}

/// The maximum length, in characters, of a header's values. The rest is cut off.
const VALUE_CHARS_MAX: usize = 200;

impl TracedHead for RequestHead {
    fn start(&self) -> Vec<(&'static str, String)> {
        vec![
            // Harmless: the text is only displayed.
            ("method", String::from_utf8_lossy(self.method()).into_owned()),
            ("path", trace::target(self.target())),
        ]
    }

    fn lines(&self) -> &Headers {
        &self.headers
    }
}

impl TracedHead for ReplyHead {
    fn start(&self) -> Vec<(&'static str, String)> {
        vec![("status", self.status.to_string())]
    }

    fn lines(&self) -> &Headers {
        &self.headers
    }
}

impl MessageBefore {
    pub fn of<H: TracedHead>(ex: &Exchange, head: &H, body: Option<Bytes>) -> MessageBefore {
        let is_known = ex.identity.is_some();
        MessageBefore { start: start(ex, head), lines: lines(head.lines()), body, is_known }
    }

    /// Returns what a step has decided and changed.
    pub fn after<H: TracedHead>(
        &self,
        name: &'static str,
        place: &str,
        ex: &Exchange,
        head: &H,
        body: Option<Bytes>,
        flow: &Flow,
    ) -> TracedPolicy {
        let (mut changes, mut made) = (Vec::new(), None);
        if matches!(flow, Ok(Onward::Next)) {
            changes = self.changes(ex, head);
            if let Some(body) = body.filter(|body| self.body.as_ref() != Some(body)) {
                let len = body.len();
                changes.push(match &self.body {
                    Some(before) => format!("body: {} -> {len} bytes", before.len()),
                    None => format!("body: {len} bytes"),
                });
                made = Some(trace::body(&body).into());
            }
        }
        let verdict = verdict(flow).into();
        TracedPolicy { name, place: place.into(), verdict, changes, body: made }
    }

    fn changes<H: TracedHead>(&self, ex: &Exchange, head: &H) -> Vec<String> {
        let mut changes = Vec::new();
        let now = start(ex, head);
        for (what, value) in &now {
            let before = self.start.iter().find(|(known, _)| known == what);
            match before.map(|(_, before)| before) {
                Some(before) if before == value => {}
                Some(before) => changes.push(format!("{what}: {before} -> {value}")),
                None => changes.push(format!("{what}: {value}")),
            }
        }
        let lines = lines(head.lines());
        for name in names(&self.lines, &lines) {
            match (values(&self.lines, name), values(&lines, name)) {
                (before, after) if before == after => {}
                (Some(before), Some(after)) => {
                    changes.push(format!("~ {}", shown(name, &format!("{before} -> {after}"))));
                }
                // A header that the authentication step removed is a credential.
                (Some(_), None) if ex.identity.is_some() && !self.is_known => {
                    changes.push(format!("- {name}: {MASK}"));
                }
                (Some(before), None) => changes.push(format!("- {}", shown(name, &before))),
                (None, Some(after)) => changes.push(format!("+ {}", shown(name, &after))),
                (None, None) => {}
            }
        }
        changes
    }
}

/// Returns the bytes of a body if they are in memory.
pub fn bytes_in_memory(body: &Body) -> Option<Bytes> {
    match body {
        Body::Empty => Some(Bytes::new()),
        Body::Whole(bytes, _) => Some(bytes.clone()),
        Body::Stream(_) => None,
    }
}

/// Describes a decision, with the reason that is logged.
fn verdict(flow: &Flow) -> String {
    match flow {
        Ok(Onward::Next) => "passes".to_owned(),
        Ok(Onward::Turn(reply)) => format!("answers with {}", reply.head.status),
        Err(fault) => format!("refuses with {}: {}", fault.status(), fault.cause),
    }
}

/// Returns the parts of the first line of a head, and the exchange's state about the client and the destination.
fn start<H: TracedHead>(ex: &Exchange, head: &H) -> Vec<(&'static str, String)> {
    let mut start = head.start();
    if let Some(identity) = &ex.identity {
        start.push(("client identity", identity.subject.to_string()));
    }
    if let Some(target) = ex.notes.as_ref().and_then(|notes| notes.target.as_deref()) {
        start.push(("path for the upstream", trace::target(target)));
    }
    if let Some(number) = ex.notes.as_ref().and_then(|notes| notes.divert) {
        start.push(("destination", format!("another upstream (number {})", number + 1)));
    }
    start
}

/// Returns the header lines in their order, with names in lower case, without the framing headers, which follow from the body.
fn lines(headers: &Headers) -> Vec<(String, String)> {
    // Harmless: the values are only displayed.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let lines = headers.iter();
    let lines = lines.map(|(name, value)| (text(name).to_ascii_lowercase(), text(value)));
    lines.filter(|(name, _)| !matches!(&**name, "content-length" | "transfer-encoding")).collect()
}

/// Returns each name once, in the order of first occurrence.
fn names<'l>(before: &'l [(String, String)], after: &'l [(String, String)]) -> Vec<&'l str> {
    let mut known = HashSet::new();
    let all = before.iter().chain(after).map(|(name, _)| name.as_str());
    all.filter(|name| known.insert(*name)).collect()
}

/// Returns the values of a header as one text.
fn values(lines: &[(String, String)], name: &str) -> Option<String> {
    let values: Vec<&str> =
        lines.iter().filter(|(known, _)| known == name).map(|(_, value)| &**value).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

fn shown(name: &str, values: &str) -> String {
    if trace::is_secret(name.as_bytes()) {
        return format!("{name}: {MASK}");
    }
    match values.char_indices().nth(VALUE_CHARS_MAX) {
        None => format!("{name}: {values}"),
        Some((end, _)) => {
            let (begin, rest) = values.split_at_checked(end).unwrap_or((values, ""));
            format!("{name}: {begin}... ({} more bytes)", rest.len())
        }
    }
}
