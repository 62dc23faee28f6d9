//! Sends spans to a collector: a thread takes them from the workers' queue and sends batches.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use kit::clock::{self, Instant, nanos};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, ArrayValue, KeyValue};
use opentelemetry_proto::tonic::trace::v1::span::{Link, SpanKind as OtlpKind};
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span as OtlpSpan, Status};
use prost::Message as _;
use telemetry::access::{Pauses, SendFailure};
use telemetry::count::SharedCounter;
use telemetry::span::{AttributeValue, Span, SpanKind, SpanQueue, SpanReceiver};

use crate::Collector;
use crate::client::{Client, Content, not_a_collector};
use crate::lines::runtime;
use crate::resource::{attribute, resource, scope};

/// A collector of spans, and the identity of this process there.
#[derive(Debug, Clone, PartialEq)]
pub struct SpanCollector {
    pub collector: Collector,
    /// Attributes set by the operator.
    pub attributes: Vec<(String, String)>,
}

/// A running exporter. Dropping it sends the remaining spans, without waiting.
#[derive(Debug)]
pub struct SpanExporter {
    queue: Arc<SpanQueue>,
    ending: Arc<Ending>,
}

/// Tells the thread to end, and tells others that it has ended.
#[derive(Debug, Default)]
struct Ending {
    is_asked: AtomicBool,
    ended: Mutex<bool>,
    ends: Condvar,
}

const CONTENT: Content = Content {
    grpc_method: "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    media_type: "application/x-protobuf",
};

/// The size from which a batch is sent at once.
const BATCH_SPANS: usize = 512;

/// How long a smaller batch waits for further spans.
const BATCH_EVERY: Duration = Duration::from_secs(1);

/// The interval of checks of the queue. In that time a gateway at full load makes no more spans than fit into the queue.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How long the end of the program waits for the last spans.
const CLOSE_MAX: Duration = Duration::from_secs(2);

impl SpanExporter {
    /// Starts the thread. Nothing is connected yet. Lost spans are counted in `dropped`.
    pub fn start(to: &SpanCollector, dropped: Arc<SharedCounter>) -> io::Result<SpanExporter> {
        let (queue, receiver) = SpanQueue::new(dropped.clone());
        let ending: Arc<Ending> = Arc::default();
        let (to, of_thread) = (to.clone(), ending.clone());
        let (started, hears) = sync_channel(1);
        let body = move || {
            let runtime = match runtime() {
                Ok(runtime) => runtime,
                // Harmless: the starting thread waits for this message.
                Err(error) => return drop(started.send(Err(error))),
            };
            // Harmless: the starting thread waits for this message too.
            let _ = started.send(Ok(()));
            let client = Client::new(&to.collector, &CONTENT);
            let courier =
                SpanCourier { to, client, receiver, dropped, ending: of_thread, failing: false };
            runtime.block_on(courier.run());
        };
        thread::Builder::new().name("traces".into()).spawn(body)?;
        match hears.recv() {
            Ok(started) => started?,
            Err(_) => return Err(io::Error::other("its thread has ended")),
        }
        Ok(SpanExporter { queue: Arc::new(queue), ending })
    }

    /// The queue into which workers put spans.
    pub fn queue(&self) -> &Arc<SpanQueue> {
        &self.queue
    }

    /// Sends the last spans. False if the collector did not accept them in time.
    pub fn close(self) -> bool {
        self.ending.is_asked.store(true, Ordering::Release);
        let ended = self.ending.ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ending.ends.wait_timeout_while(ended, CLOSE_MAX, |ended| !*ended);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Drop for SpanExporter {
    fn drop(&mut self) {
        self.ending.is_asked.store(true, Ordering::Release);
    }
}

impl Ending {
    fn is_asked(&self) -> bool {
        self.is_asked.load(Ordering::Acquire)
    }

    fn end(&self) {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.notify_all();
    }
}

/// The state of the thread.
struct SpanCourier {
    to: SpanCollector,
    client: Client,
    receiver: SpanReceiver,
    dropped: Arc<SharedCounter>,
    ending: Arc<Ending>,
    /// True if the last attempt failed. This is logged once, not for each batch.
    failing: bool,
}

impl SpanCourier {
    async fn run(mut self) {
        let mut batch = Vec::new();
        let mut began: Option<Instant> = None;
        loop {
            let is_ending = self.ending.is_asked();
            let is_open = self.receiver.take(&mut batch, BATCH_SPANS);
            if !batch.is_empty() {
                let waited = began.get_or_insert_with(clock::now).elapsed();
                if is_ending || !is_open || batch.len() >= BATCH_SPANS || waited >= BATCH_EVERY {
                    self.send(std::mem::take(&mut batch)).await;
                    began = None;
                    continue;
                }
            } else if !is_open || is_ending {
                // Workers may still have the queue of an old plan. Later spans in it are lost and counted.
                return self.ending.end();
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Sends a batch, with retries if they may help, and counts lost spans.
    async fn send(&mut self, batch: Vec<Span>) {
        let count = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        let request = request(&self.to, batch).encode_to_vec();
        let mut pauses = Pauses::begin();
        loop {
            match self.attempt(request.clone()).await {
                Ok(rejected) => {
                    self.dropped.add(rejected);
                    self.failing = false;
                    return;
                }
                Err(failure) => {
                    if !std::mem::replace(&mut self.failing, true) {
                        let (why, to) = (&failure.why, self.to.collector.name());
                        tracing::error!(to, "spans cannot be sent: {why}");
                    }
                    let pause = pauses.after(&failure).filter(|_| !self.ending.is_asked());
                    let Some(pause) = pause else { return self.dropped.add(count) };
                    self.wait(pause).await;
                }
            }
        }
    }

    async fn attempt(&self, request: Vec<u8>) -> Result<u64, SendFailure> {
        let answer = self.client.send(request).await?;
        let answer = ExportTraceServiceResponse::decode(answer).map_err(|_| not_a_collector())?;
        let rejected = answer.partial_success.map_or(0, |partial| partial.rejected_spans);
        // Harmless: a negative number of rejected spans counts as zero.
        Ok(u64::try_from(rejected).unwrap_or(0))
    }

    /// Waits for a time, or until the exporter ends.
    async fn wait(&self, pause: Duration) {
        let until = clock::now() + pause;
        while !self.ending.is_asked() && clock::now() < until {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

fn request(to: &SpanCollector, batch: Vec<Span>) -> ExportTraceServiceRequest {
    let spans = ScopeSpans {
        scope: Some(scope()),
        spans: batch.into_iter().map(otlp).collect(),
        ..ScopeSpans::default()
    };
    let resource_spans = vec![ResourceSpans {
        resource: Some(resource(&to.attributes)),
        scope_spans: vec![spans],
        ..ResourceSpans::default()
    }];
    ExportTraceServiceRequest { resource_spans }
}

fn otlp(span: Span) -> OtlpSpan {
    let kind = match span.kind {
        SpanKind::Server => OtlpKind::Server,
        SpanKind::Client => OtlpKind::Client,
        SpanKind::Internal => OtlpKind::Internal,
        SpanKind::Consumer => OtlpKind::Consumer,
        SpanKind::Producer => OtlpKind::Producer,
    };
    let links = span.link.into_iter().map(|link| Link {
        trace_id: link.trace_id.to_vec(),
        span_id: link.span_id.to_vec(),
        ..Link::default()
    });
    let failed =
        |message: Box<str>| Status { message: message.into(), code: StatusCode::Error.into() };
    OtlpSpan {
        trace_id: span.context.trace_id.to_vec(),
        span_id: span.context.span_id.to_vec(),
        parent_span_id: span.parent.map_or_else(Vec::new, |id| id.to_vec()),
        name: span.name.into_owned(),
        kind: kind.into(),
        start_time_unix_nano: nanos(span.start),
        end_time_unix_nano: nanos(span.end.max(span.start)),
        attributes: span
            .attributes
            .into_iter()
            .map(|(name, value)| otlp_attribute(&name, value))
            .collect(),
        links: links.collect(),
        status: span.error.map(failed),
        ..OtlpSpan::default()
    }
}

fn otlp_attribute(name: &str, value: AttributeValue) -> KeyValue {
    let text = |text: Box<str>| Value::StringValue(text.into());
    let value = match value {
        AttributeValue::Text(one) => text(one),
        AttributeValue::Number(number) => Value::IntValue(number),
        AttributeValue::Texts(texts) => {
            let values = texts.into_iter().map(|one| AnyValue { value: Some(text(one)) });
            Value::ArrayValue(ArrayValue { values: values.collect() })
        }
    };
    attribute(name, value)
}
