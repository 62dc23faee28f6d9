//! The work of the steps of one message, for an operator who asked.
//!
//! Whoever runs a flow looks once whether somebody asks; without a question nothing is kept. One message is traced for each
//! question. Bodies are cut, and what looks like a secret in them is masked.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The one place where a trace is asked for and left.
#[derive(Debug, Default)]
pub struct Tracer {
    asked: AtomicBool,
    left: Mutex<Option<Trace>>,
}

/// The steps that one message went through.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// The flow's name.
    pub flow: Box<str>,
    /// The id of the request.
    pub request_id: Box<str>,
    /// In the order in which they began.
    pub steps: Vec<TracedStep>,
    /// The number of steps that ran after the last of these.
    pub left_out: usize,
}

/// One run of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TracedStep {
    pub name: &'static str,
    /// The number of steps around it.
    pub depth: u16,
    /// Of a branch, or a part of the message: its number, from 1.
    pub part: Option<usize>,
    pub before: TracedMessage,
    /// The message behind it, or the fault; none if it was cancelled.
    pub after: Option<Result<TracedMessage, Box<str>>>,
}

/// A message as a trace shows it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TracedMessage {
    /// None for a request.
    pub status: Option<u16>,
    /// Empty if there is none.
    pub content_type: Box<str>,
    /// None if nobody has read it.
    pub bytes: Option<usize>,
    /// The beginning, by [`body`].
    pub body: Box<str>,
}

/// A few screens; with [`STEPS_MAX`] a trace is at most some 8 MiB.
const BODY_BYTES_MAX: usize = 4 * 1024;

/// Steps of one trace: a flow has tens, and one that goes over parts of a message repeats them.
pub const STEPS_MAX: usize = 1_000;

/// Words in the names of secrets, without regard to case.
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

/// Stands for a secret.
const MASK: &str = "***";

impl Tracer {
    /// Asks for a trace of the next message that runs through a flow. One that was left is forgotten.
    pub fn ask(&self) {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.asked.store(true, Ordering::Relaxed);
    }

    /// True for the one message that is traced.
    pub fn answers(&self) -> bool {
        // Asking is rare: whoever does not trace only reads.
        self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::Relaxed)
    }

    /// Leaves the trace.
    pub fn leave(&self, trace: Trace) {
        *self.left.lock().unwrap_or_else(PoisonError::into_inner) = Some(trace);
    }

    /// True if a message is still waited for.
    pub fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// The trace that was left; it stays.
    pub fn left(&self) -> Option<Trace> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The trace that was left.
    pub fn take(&self) -> Option<Trace> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The beginning of a body as a text, with what looks like a secret masked.
pub fn body(bytes: &[u8]) -> String {
    let (begin, rest) = bytes.split_at_checked(BODY_BYTES_MAX).unwrap_or((bytes, &[]));
    let mut text = masked(&String::from_utf8_lossy(begin));
    if !rest.is_empty() {
        text.push_str(&format!("... ({} more bytes)", rest.len()));
    }
    text
}

/// A text of JSON, XML or a form, with the values of members, elements, attributes and fields masked whose names say that they
/// are secrets.
fn masked(text: &str) -> String {
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let (mut written, mut from) = (0, 0);
    while let Some(name) = next_secret(&lower, from) {
        from = name.end;
        let Some(value) = value_of(text, &name) else { continue };
        out.push_str(text.get(written..value.start).unwrap_or_default());
        out.push_str(MASK);
        (written, from) = (value.end, value.end);
    }
    out.push_str(text.get(written..).unwrap_or_default());
    out
}

/// The next whole name that has one of the words in it.
fn next_secret(lower: &str, from: usize) -> Option<Range<usize>> {
    let rest = lower.get(from..)?;
    let found = SECRETS.iter().filter_map(|word| rest.find(word)).min()? + from;
    let of_name = |c: char| c.is_alphanumeric() || "_-.:".contains(c);
    let (before, behind) = lower.split_at_checked(found)?;
    let start = before.trim_end_matches(of_name).len();
    // `"password":"x"`: a colon behind the name belongs to it only in XML, where another letter follows.
    let whole = behind.len() - behind.trim_start_matches(of_name).len();
    let whole = behind.get(..whole)?.trim_end_matches([':', '.']).len();
    Some(start..found + whole)
}

/// The range of a name's value, if it has one that is not empty.
fn value_of(text: &str, name: &Range<usize>) -> Option<Range<usize>> {
    let (before, behind) = (text.get(..name.start)?, text.get(name.end..)?);
    if before.ends_with('<') {
        let tag = behind.find('>')?;
        let start = name.end + tag + 1;
        return until(text, start, &['<'])
            .filter(|_| !behind.get(..tag).unwrap_or_default().ends_with('/'));
    }
    if before.ends_with("name=\"") {
        // A part of a form: its value stands behind the empty line.
        let start = name.end + behind.find("\r\n\r\n")? + 4;
        let rest = text.get(start..)?;
        let len = rest.find("\r\n--").unwrap_or(rest.len());
        return (len > 0).then_some(start..start + len);
    }
    let behind = behind.strip_prefix('"').unwrap_or(behind).trim_start();
    let behind = behind.strip_prefix([':', '='])?.trim_start();
    let start = text.len() - behind.len();
    match behind.chars().next()? {
        '"' => quoted(text, start + 1),
        '\'' => until(text, start + 1, &['\'']),
        '{' | '[' => None,
        _ => until(text, start, &[',', '}', ']', '&', ' ', '\n', '\r', '>']),
    }
}

fn until(text: &str, start: usize, ends: &[char]) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let len = rest.find(ends).unwrap_or(rest.len());
    (len > 0).then_some(start..start + len)
}

/// Up to the quote that is not escaped.
fn quoted(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = text.get(start..)?;
    let mut escaped = false;
    let end = rest.find(|c: char| {
        let ends = c == '"' && !escaped;
        escaped = c == '\\' && !escaped;
        ends
    });
    let len = end.unwrap_or(rest.len());
    (len > 0).then_some(start..start + len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_message_is_traced_for_each_question() {
        let tracer = Tracer::default();
        assert!(!tracer.answers());
        tracer.ask();
        assert!(tracer.answers());
        assert!(!tracer.answers());
        tracer.leave(Trace { flow: "a".into(), ..Trace::default() });
        assert_eq!(tracer.left(), tracer.left());
        assert_eq!(tracer.take().unwrap().flow, "a".into());
        assert!(tracer.take().is_none());
    }

    #[test]
    fn secrets_are_masked_and_nothing_else() {
        for (text, shown) in [
            (r#"{"user":"a","Password":"b\"c","n":1}"#, r#"{"user":"a","Password":"***","n":1}"#),
            (r#"{"access_token" : 12, "b": 2}"#, r#"{"access_token" : ***, "b": 2}"#),
            (r#"{"token":{"a":"b"}}"#, r#"{"token":{"a":"b"}}"#),
            (r#"{"password":"cut of"#, r#"{"password":"***"#),
            (
                r#"<w:Password w:Type="t">x</w:Password><a>b</a>"#,
                r#"<w:Password w:Type="t">***</w:Password><a>b</a>"#,
            ),
            ("<password/><a>b</a>", "<password/><a>b</a>"),
            (r#"<a client-secret='x' b="y"/>"#, r#"<a client-secret='***' b="y"/>"#),
            ("user=a&password=b&c=d", "user=a&password=***&c=d"),
            (
                "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\na\r\nb\r\n--b--",
                "--b\r\nContent-Disposition: form-data; name=\"password\"\r\n\r\n***\r\n--b--",
            ),
            ("no secret here", "no secret here"),
        ] {
            assert_eq!(body(text.as_bytes()), shown);
        }
        let long = "x".repeat(BODY_BYTES_MAX + 3);
        assert!(body(long.as_bytes()).ends_with("x... (3 more bytes)"));
    }
}
