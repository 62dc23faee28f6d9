//! The place of an exchange in a distributed trace: its ids, the headers that carry them, and its recorder if it is sampled.

use std::rc::Rc;

use fault::Fault;
use kit::clock::Instant;
use message::{Headers, RequestHead};
use telemetry::span::{
    Attribute, AttributeValue, ParentSpan, Propagation, Recorder, Span, SpanId, SpanIds, SpanKind,
    Tracing, wall_of,
};

/// The span of an exchange.
#[derive(Debug, Clone)]
pub struct ExchangeTrace {
    tracing: Rc<Tracing>,
    pub span: SpanIds,
    pub parent: Option<SpanId>,
    /// The recorder of spans, if the exchange is sampled.
    pub recorder: Option<Rc<Recorder>>,
    /// The path of the route as written in the configuration, if the exchange is sampled.
    pub route: Option<Box<str>>,
}

/// The place of a call in a trace.
#[derive(Debug, Clone, Copy)]
pub struct CallTrace<'a> {
    pub trace: &'a ExchangeTrace,
    /// The parent span of the call, or `None` if the call begins a trace.
    pub parent: Option<SpanId>,
    /// The span that caused the call, if it belongs to another trace.
    pub link: Option<SpanIds>,
}

const TRACEPARENT: &str = "traceparent";

/// The headers of the multi-header form of B3.
const B3_TRACE_ID: &str = "x-b3-traceid";
const B3_SPAN_ID: &str = "x-b3-spanid";
const B3_SAMPLED: &str = "x-b3-sampled";
const B3_FLAGS: &str = "x-b3-flags";
const B3_PARENT: &str = "x-b3-parentspanid";

impl ExchangeTrace {
    /// Creates the trace of a request from its headers.
    pub fn of_request(tracing: &Rc<Tracing>, headers: &Headers) -> ExchangeTrace {
        let (span, parent) = tracing.begin(extract(&tracing.settings.propagate, headers));
        ExchangeTrace::begun(tracing, span, parent)
    }

    /// Creates a trace for work that no request started. It is sampled if the span that caused the work is sampled.
    pub fn of_own(tracing: &Rc<Tracing>, cause: Option<SpanIds>) -> ExchangeTrace {
        let root = tracing.root();
        let sampled = cause.map_or(root.sampled, |cause| cause.sampled);
        ExchangeTrace::begun(tracing, SpanIds { sampled, ..root }, None)
    }

    fn begun(tracing: &Rc<Tracing>, span: SpanIds, parent: Option<SpanId>) -> ExchangeTrace {
        let recorder = span.sampled.then(|| Rc::new(Recorder::new(tracing.clone(), span.span_id)));
        ExchangeTrace { tracing: tracing.clone(), span, parent, recorder, route: None }
    }

    /// Adds the header that stores the span with a message, for the run that processes the message later.
    pub fn note_in(&self, headers: &mut Headers) {
        headers.set_line(TRACEPARENT, &self.span.traceparent_line());
    }

    /// Removes the stored span from a message's headers, and returns it.
    pub fn take_note(headers: &mut Headers) -> Option<SpanIds> {
        let parent = only(headers, TRACEPARENT).and_then(ParentSpan::of_traceparent);
        headers.remove(TRACEPARENT);
        let (trace_id, span_id) = parent?.ids?;
        Some(SpanIds { trace_id, span_id, sampled: parent?.sampled? })
    }

    /// Records the span of work that no request started.
    pub fn end_own(
        &self,
        name: String,
        kind: SpanKind,
        began: Instant,
        link: Option<SpanIds>,
        failed: Option<&str>,
    ) {
        let Some(recorder) = &self.recorder else { return };
        recorder.record(Span {
            context: self.span,
            parent: self.parent,
            link,
            kind,
            name: name.into(),
            start: wall_of(began),
            end: kit::clock::wall(),
            attributes: Vec::new(),
            error: failed.map(Into::into),
        });
    }

    /// Returns true if steps of flows get spans of their own.
    pub fn has_steps(&self) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.settings().steps)
    }

    /// Returns the trace of a call within the exchange.
    pub fn call(&self) -> CallTrace<'_> {
        let current = self.recorder.as_ref().map(|recorder| recorder.current());
        CallTrace { trace: self, parent: current.or(Some(self.span.span_id)), link: None }
    }
}

impl CallTrace<'_> {
    /// Begins an attempt of a call. Writes its span to the headers, and returns it.
    pub fn begin_attempt(&self, headers: &mut Headers) -> SpanIds {
        let ExchangeTrace { tracing, span, recorder, .. } = self.trace;
        // An unsampled exchange has no spans of calls, so all calls send the span of the exchange.
        let span = if recorder.is_some() { span.child() } else { *span };
        inject(&tracing.settings.propagate, span, headers);
        span
    }
}

/// A span in progress, for work within an exchange.
pub struct OpenSpan {
    recorder: Rc<Recorder>,
    context: SpanIds,
    parent: SpanId,
    name: Box<str>,
    began: Instant,
    attributes: Vec<Attribute>,
}

impl OpenSpan {
    /// Begins a span below `parent`, or else below the current span of the exchange. Returns `None` if the exchange is not sampled.
    pub fn begin(
        trace: &ExchangeTrace,
        name: &str,
        began: Instant,
        parent: Option<SpanId>,
    ) -> Option<OpenSpan> {
        let recorder = trace.recorder.clone()?;
        let parent = parent.unwrap_or_else(|| recorder.current());
        let context = trace.span.child();
        Some(OpenSpan {
            recorder,
            context,
            parent,
            name: name.into(),
            began,
            attributes: Vec::new(),
        })
    }

    pub fn id(&self) -> SpanId {
        self.context.span_id
    }

    pub fn add(&mut self, name: &'static str, value: impl Into<AttributeValue>) {
        self.attributes.push((name.into(), value.into()));
    }

    /// Runs the work, whose calls get spans below this one, and then ends the span.
    pub async fn around<T>(self, work: impl Future<Output = Result<T, Fault>>) -> Result<T, Fault> {
        let before = self.recorder.enter(self.context.span_id);
        let done = work.await;
        self.recorder.enter(before);
        self.end(done.as_ref().err().map(|fault| &*fault.cause));
        done
    }

    /// Ends the span. `failed` is the reason if the work failed.
    pub fn end(self, failed: Option<&str>) {
        let OpenSpan { recorder, context, parent, name, began, attributes } = self;
        recorder.record(Span {
            context,
            parent: Some(parent),
            link: None,
            kind: SpanKind::Internal,
            name: String::from(name).into(),
            start: wall_of(began),
            end: kit::clock::wall(),
            attributes,
            error: failed.map(Into::into),
        });
    }
}

/// Returns the parent span in the headers, from the first format with a valid header.
fn extract(formats: &[Propagation], headers: &Headers) -> ParentSpan {
    // Harmless: without a valid header the exchange begins a trace.
    formats.iter().find_map(|format| parent(*format, headers)).unwrap_or_default()
}

fn parent(format: Propagation, headers: &Headers) -> Option<ParentSpan> {
    match format {
        Propagation::W3c => ParentSpan::of_traceparent(only(headers, TRACEPARENT)?),
        Propagation::B3 | Propagation::B3Multi => {
            let lines = || {
                let (trace_id, span_id) = (only(headers, B3_TRACE_ID), only(headers, B3_SPAN_ID));
                let (sampled, flags) = (only(headers, B3_SAMPLED), only(headers, B3_FLAGS));
                ParentSpan::of_b3_lines(trace_id, span_id, sampled, flags)
            };
            only(headers, "b3").and_then(ParentSpan::of_b3).or_else(lines)
        }
    }
}

/// Returns the value of a header that occurs exactly once.
fn only<'h>(headers: &'h Headers, name: &'h str) -> Option<&'h [u8]> {
    let mut values = headers.get_all(name);
    values.next().filter(|_| values.next().is_none())
}

/// Writes the headers of all formats in use, and replaces those received.
fn inject(formats: &[Propagation], span: SpanIds, headers: &mut Headers) {
    if formats.iter().any(|format| *format != Propagation::W3c) {
        for name in ["b3", B3_TRACE_ID, B3_SPAN_ID, B3_SAMPLED, B3_FLAGS, B3_PARENT] {
            headers.remove(name);
        }
    }
    for format in formats {
        match format {
            Propagation::W3c => {
                let received = only(headers, TRACEPARENT).and_then(ParentSpan::of_traceparent);
                if received.is_none() {
                    // Without a valid `traceparent`, the received `tracestate` must not be passed on (W3C Trace Context, 4.2 and 4.3). At
                    // a second attempt, the headers already have the `traceparent` of the first attempt.
                    headers.remove("tracestate");
                }
                headers.set_line(TRACEPARENT, &span.traceparent_line());
            }
            Propagation::B3 => headers.add_known("b3", &span.b3()),
            Propagation::B3Multi => {
                headers.add_known("X-B3-TraceId", span.trace_id_text().as_str().as_bytes());
                headers.add_known("X-B3-SpanId", span.span_id_text().as_str().as_bytes());
                headers.add_known("X-B3-Sampled", if span.sampled { b"1" } else { b"0" });
            }
        }
    }
}

/// Returns the attributes of a call's target, for the span of each attempt.
pub fn attributes_of(recorder: &Recorder, head: &RequestHead, url: &str) -> Vec<Attribute> {
    let authority = url.split_once("://").map_or(url, |(_, authority)| authority);
    let (host, port) = match authority.rsplit_once(':') {
        // Harmless: the URL of a target has a valid port, or none.
        Some((host, port)) if !port.contains(']') => (host, port.parse().ok()),
        Some(_) | None => (authority, None),
    };
    let default = if url.starts_with("https:") { 443 } else { 80 };
    let target = recorder.shown_target(head.target());
    vec![
        ("http.request.method".into(), AttributeValue::of_bytes(head.method())),
        ("server.address".into(), host.trim_matches(['[', ']']).into()),
        ("server.port".into(), port.unwrap_or(default).into()),
        ("url.full".into(), AttributeValue::Text(format!("{url}{target}").into())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tracestate_passes_only_with_a_valid_traceparent() {
        const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let span = SpanIds { trace_id: [1; 16], span_id: [2; 8], sampled: true };
        for (parents, passes) in
            [(&[][..], false), (&["00-0-1-01"], false), (&[VALID], true), (&[VALID, VALID], false)]
        {
            let mut headers = Headers::new();
            parents.iter().for_each(|parent| headers.add_known(TRACEPARENT, parent.as_bytes()));
            headers.add_known("tracestate", b"a=b");
            // A second attempt sends the same lines as the first attempt.
            for _attempt in 0..2 {
                inject(&[Propagation::W3c], span, &mut headers);
                assert_eq!(headers.contains("tracestate"), passes, "{parents:?}");
                assert!(only(&headers, TRACEPARENT).is_some(), "{parents:?}");
            }
        }
    }
}
