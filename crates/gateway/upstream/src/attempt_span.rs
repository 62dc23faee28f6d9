//! The span of one attempt to call an upstream, if the exchange is traced.

use fault::Fault;
use kit::clock::{self, Instant};
use message::RequestHead;
use policy::{CallTrace, attributes_of};
use telemetry::span::{Attribute, AttributeValue, Span, SpanIds, SpanKind, wall_of};

/// An attempt in progress. Dropping it records an aborted attempt.
pub(crate) struct AttemptSpan<'a> {
    of: CallTrace<'a>,
    context: SpanIds,
    began: Instant,
    attributes: Vec<Attribute>,
    error: Option<Box<str>>,
}

impl<'a> AttemptSpan<'a> {
    /// Begins the span of an attempt, and writes its ids to the request's headers. Returns `None` if no spans are recorded. `resent` is the
    /// number of earlier attempts.
    pub(crate) fn begin(
        of: CallTrace<'a>,
        head: &mut RequestHead,
        url: &str,
        resent: u32,
    ) -> Option<AttemptSpan<'a>> {
        let context = of.begin_attempt(&mut head.headers);
        let mut attributes = attributes_of(of.trace.recorder.as_ref()?, head, url);
        if resent > 0 {
            let resent = AttributeValue::Number(resent.into());
            attributes.push(("http.request.resend_count".into(), resent));
        }
        let error = Some("aborted".into());
        Some(AttemptSpan { of, context, began: clock::now(), attributes, error })
    }

    /// Records that the target replied. In a client span, a status of 400 or above is an error.
    pub(crate) fn replied(mut self, status: u16) {
        self.attributes.push(("http.response.status_code".into(), status.into()));
        self.error = None;
        if status >= 400 {
            self.attributes.push(("error.type".into(), status.to_string().as_str().into()));
            self.error = Some(Box::default());
        }
    }

    pub(crate) fn failed(mut self, fault: &Fault) {
        self.attributes.push(("error.type".into(), fault.kind.label().into()));
        self.error = Some(fault.cause.clone());
    }
}

impl Drop for AttemptSpan<'_> {
    fn drop(&mut self) {
        let Some(recorder) = &self.of.trace.recorder else { return };
        let method = self.attributes.iter().find(|(name, _)| name == "http.request.method");
        let name = match method {
            Some((_, AttributeValue::Text(method))) => String::from(&**method),
            Some(_) | None => "HTTP".to_owned(),
        };
        recorder.record(Span {
            context: self.context,
            parent: self.of.parent,
            link: self.of.link,
            kind: SpanKind::Client,
            name: name.into(),
            start: wall_of(self.began),
            end: clock::wall(),
            attributes: std::mem::take(&mut self.attributes),
            error: self.error.take(),
        });
    }
}
