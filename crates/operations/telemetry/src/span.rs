//! Spans of distributed traces: the data of sampled exchanges, and the queue to the thread that sends it.
//!
//! None of this runs without `telemetry.traces`. An exchange that is not sampled has ids but no recorder, so it allocates
//! nothing. A worker puts its spans into the queue without ever waiting.

mod propagation;

pub use propagation::{HexText, ParentSpan, Propagation};

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use kit::clock::{self, Instant};

use crate::count::SharedCounter;

/// The id of a trace. It is not zero.
pub type TraceId = [u8; 16];

/// The id of a span. It is not zero.
pub type SpanId = [u8; 8];

/// The identity of a span, for references to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanIds {
    pub trace_id: TraceId,
    pub span_id: SpanId,
    pub sampled: bool,
}

/// The settings: what is traced, and how ids are passed on.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// The share of traces starting here that are sampled.
    pub sampler: Sampler,
    /// The formats of headers. The first one with a valid header is used.
    pub propagate: Vec<Propagation>,
    /// Request headers that become attributes, in lower case.
    pub request_headers: Vec<String>,
    /// A span for each step of a flow.
    pub steps: bool,
}

/// Samples a share of all traces by the low bits of their ids, so that several gateways agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampler(u64);

/// Tracing for a gateway or a worker: the settings, and the destination of spans.
#[derive(Debug)]
pub struct Tracing {
    pub settings: Arc<TraceSettings>,
    queue: Arc<SpanQueue>,
}

/// Spans that wait for the exporter, up to [`SPANS_WAITING_MAX`].
#[derive(Debug)]
pub struct SpanQueue {
    sender: SyncSender<Vec<Span>>,
    waiting: Arc<AtomicUsize>,
    dropped: Arc<SharedCounter>,
}

/// The receiving end of the queue.
#[derive(Debug)]
pub struct SpanReceiver {
    receiver: Receiver<Vec<Span>>,
    waiting: Arc<AtomicUsize>,
}

/// An operation that has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Span {
    pub context: SpanIds,
    pub parent: Option<SpanId>,
    /// A span of another trace that caused it.
    pub link: Option<SpanIds>,
    pub kind: SpanKind,
    pub name: Cow<'static, str>,
    /// Since the Unix epoch.
    pub start: Duration,
    pub end: Duration,
    pub attributes: Vec<Attribute>,
    /// The error text. It is empty if there are no details.
    pub error: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SpanKind {
    Server,
    Client,
    Internal,
    Consumer,
    Producer,
}

/// A name with its value, according to the semantic conventions where they define one.
pub type Attribute = (Cow<'static, str>, AttributeValue);

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttributeValue {
    Text(Box<str>),
    Number(i64),
    Texts(Vec<Box<str>>),
}

/// The limit of spans that wait for the exporter. Further ones are dropped and counted.
pub const SPANS_WAITING_MAX: usize = 4_096;

/// The limit of spans in one exchange. A flow over many parts has a span for each step of each part.
const SPANS_MAX: usize = 1_000;

impl Sampler {
    /// Samples this share of all traces, in millionths.
    pub fn new(millionths: u32) -> Sampler {
        let share = u64::from(millionths.min(1_000_000));
        // Only 63 bits of an id are compared, as in the sampler `TraceIdRatioBased` of OpenTelemetry.
        Sampler((1 << 63) / 1_000_000 * share + if share == 1_000_000 { 1 << 63 } else { 0 })
    }

    /// True if a trace is sampled.
    pub fn samples(self, trace_id: &TraceId) -> bool {
        let [.., a, b, c, d, e, f, g, h] = *trace_id;
        u64::from_be_bytes([a, b, c, d, e, f, g, h]) >> 1 < self.0
    }
}

impl SpanIds {
    /// Another span of the same trace.
    pub fn child(self) -> SpanIds {
        SpanIds { span_id: new_span_id(), ..self }
    }
}

/// A new id, unique and not secret.
pub fn new_trace_id() -> TraceId {
    // A random number in a range would need a division of 128 bits, and each request has an id.
    let id = u128::from(fastrand::u64(..)) << 64 | u128::from(fastrand::u64(..));
    id.max(1).to_be_bytes()
}

/// A new id, unique and not secret.
pub fn new_span_id() -> SpanId {
    fastrand::u64(..).max(1).to_be_bytes()
}

impl Tracing {
    pub fn new(settings: Arc<TraceSettings>, queue: Arc<SpanQueue>) -> Tracing {
        Tracing { settings, queue }
    }

    /// The span of a new exchange and the id of its parent, according to the request's headers.
    pub fn begin(&self, parent: ParentSpan) -> (SpanIds, Option<SpanId>) {
        let trace_id = parent.ids.map_or_else(new_trace_id, |(trace_id, _)| trace_id);
        let sampled = parent.sampled.unwrap_or_else(|| self.settings.sampler.samples(&trace_id));
        let context = SpanIds { trace_id, span_id: new_span_id(), sampled };
        (context, parent.ids.map(|(_, span_id)| span_id))
    }

    /// A span that starts a new trace.
    pub fn root(&self) -> SpanIds {
        self.begin(ParentSpan::default()).0
    }
}

impl SpanQueue {
    /// Makes both ends. Dropped spans are counted in `dropped`.
    pub fn new(dropped: Arc<SharedCounter>) -> (SpanQueue, SpanReceiver) {
        let (sender, receiver) = sync_channel(SPANS_WAITING_MAX);
        let waiting: Arc<AtomicUsize> = Arc::default();
        (
            SpanQueue { sender, waiting: waiting.clone(), dropped },
            SpanReceiver { receiver, waiting },
        )
    }

    /// Adds spans. They are dropped and counted if too many are waiting.
    pub fn push(&self, spans: Vec<Span>) {
        let count = spans.len();
        if count == 0 {
            return;
        }
        let is_full = self.waiting.fetch_add(count, Relaxed) + count > SPANS_WAITING_MAX;
        if is_full || self.sender.try_send(spans).is_err() {
            self.waiting.fetch_sub(count, Relaxed);
            self.lose(count);
        }
    }

    /// Counts spans that are lost.
    pub fn lose(&self, count: usize) {
        self.dropped.add(u64::try_from(count).unwrap_or(u64::MAX));
    }
}

impl SpanReceiver {
    /// Moves waiting spans to `spans` until it has `enough`. Returns false if the queue is closed.
    pub fn take(&self, spans: &mut Vec<Span>, enough: usize) -> bool {
        while spans.len() < enough {
            match self.receiver.try_recv() {
                Ok(mut more) => {
                    self.waiting.fetch_sub(more.len(), Relaxed);
                    spans.append(&mut more);
                }
                Err(error) => return error == std::sync::mpsc::TryRecvError::Empty,
            }
        }
        true
    }
}

/// The spans of one sampled exchange so far. The last owner puts them into the queue.
#[derive(Debug)]
pub struct Recorder {
    tracing: Rc<Tracing>,
    spans: RefCell<Vec<Span>>,
    /// The number of spans above the limit.
    left_out: Cell<usize>,
    /// The span around the current work of the exchange.
    current: Cell<SpanId>,
    /// Query parameters that are credentials on the route.
    secrets: RefCell<Box<[String]>>,
}

impl Recorder {
    pub fn new(tracing: Rc<Tracing>, around: SpanId) -> Recorder {
        Recorder {
            tracing,
            spans: RefCell::default(),
            left_out: Cell::new(0),
            current: Cell::new(around),
            secrets: RefCell::default(),
        }
    }

    pub fn settings(&self) -> &TraceSettings {
        &self.tracing.settings
    }

    pub fn current(&self) -> SpanId {
        self.current.get()
    }

    /// Sets the current span, and returns the previous one.
    pub fn enter(&self, span: SpanId) -> SpanId {
        self.current.replace(span)
    }

    pub fn set_secrets(&self, secrets: &[String]) {
        *self.secrets.borrow_mut() = secrets.into();
    }

    /// The target of a request as text, without credentials.
    pub fn shown_target(&self, target: &[u8]) -> String {
        // Harmless: it is only shown.
        String::from_utf8_lossy(&crate::masked::masked(target, &self.secrets.borrow())).into_owned()
    }

    pub fn record(&self, span: Span) {
        let mut spans = self.spans.borrow_mut();
        if spans.len() < SPANS_MAX {
            spans.push(span);
        } else {
            self.left_out.set(self.left_out.get() + 1);
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.tracing.queue.lose(self.left_out.get());
        self.tracing.queue.push(self.spans.take());
    }
}

/// Converts a time of the monotonic clock to one since the Unix epoch.
pub fn wall_of(instant: Instant) -> Duration {
    clock::wall().saturating_sub(instant.elapsed())
}

impl AttributeValue {
    /// Text from a peer, which may have any bytes.
    pub fn of_bytes(bytes: &[u8]) -> AttributeValue {
        // Harmless: it is only shown.
        AttributeValue::Text(String::from_utf8_lossy(bytes).into())
    }
}

impl From<&str> for AttributeValue {
    fn from(text: &str) -> AttributeValue {
        AttributeValue::Text(text.into())
    }
}

impl From<u16> for AttributeValue {
    fn from(number: u16) -> AttributeValue {
        AttributeValue::Number(number.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_traces_is_sampled_by_their_ids() {
        let id = |low: u64| {
            let mut id = [7; 16];
            id[8..].copy_from_slice(&low.to_be_bytes());
            id
        };
        for (millionths, low, samples) in [
            (0, 0, false),
            (1_000_000, u64::MAX, true),
            (500_000, u64::MAX / 2 - 1_000_000, true),
            (500_000, u64::MAX / 2 + 1_000_000, false),
            (10_000, u64::MAX / 101, true),
            (10_000, u64::MAX / 99, false),
        ] {
            assert_eq!(Sampler::new(millionths).samples(&id(low)), samples, "{millionths} {low}");
        }
    }

    #[test]
    fn spans_beyond_the_limit_are_dropped_and_counted() {
        let dropped: Arc<SharedCounter> = Arc::default();
        let (queue, receiver) = SpanQueue::new(dropped.clone());
        let context = SpanIds { trace_id: new_trace_id(), span_id: new_span_id(), sampled: true };
        let span = Span {
            context,
            parent: None,
            link: None,
            kind: SpanKind::Internal,
            name: "a".into(),
            start: Duration::ZERO,
            end: Duration::ZERO,
            attributes: Vec::new(),
            error: None,
        };
        for _ in 0..SPANS_WAITING_MAX / 2 + 3 {
            queue.push(vec![span.clone(), span.clone()]);
        }
        assert_eq!(dropped.get(), 6);
        let mut taken = Vec::new();
        assert!(receiver.take(&mut taken, usize::MAX));
        assert_eq!(taken.len(), SPANS_WAITING_MAX);
        queue.push(vec![span]);
        drop(queue);
        assert!(receiver.take(&mut taken, SPANS_WAITING_MAX + 1));
        assert!(!receiver.take(&mut taken, usize::MAX));
        assert_eq!((dropped.get(), taken.len()), (6, SPANS_WAITING_MAX + 1));
    }
}
