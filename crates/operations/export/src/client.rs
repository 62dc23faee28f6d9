//! Requests to a collector, with the gateway's HTTP/1.1 and HTTP/2 clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use grpc::{Outcome, Status};
use kit::clock;
use message::{Body, GatheredBody, Headers, Protocol, Reply, Request, RequestHead};
use policy::{Call, Caller, Scheme, Totals};
use telemetry::UpstreamMetrics;
use telemetry::access::SendFailure;
use upstream::{HostSent, Upstream};

use crate::{Collector, CollectorProtocol};

/// A client of one collector. It belongs to a thread with a runtime.
pub(crate) struct Client {
    upstream: Arc<Upstream>,
    caller: Caller,
    target: String,
    lines: Headers,
    is_grpc: bool,
    timeout: Duration,
}

/// The kind of content that a client sends.
pub(crate) struct Content {
    /// The path of the call, for gRPC.
    pub(crate) grpc_method: &'static str,
    /// The content type, for HTTP.
    pub(crate) media_type: &'static str,
}

/// The largest answer of a collector: a few numbers, and the reason for a refusal.
const ANSWER_BYTES_MAX: usize = 64 * 1024;

/// The size of the prefix of a gRPC message: a byte for compression, and the length.
const PREFIX_BYTES: usize = 5;

impl Client {
    pub(crate) fn new(collector: &Collector, content: &Content) -> Client {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        let mut lines = Headers::new();
        let (target, is_grpc) = match &collector.protocol {
            CollectorProtocol::Http(path) => (path.clone(), false),
            CollectorProtocol::Grpc => (content.grpc_method.to_owned(), true),
        };
        if is_grpc {
            lines.add_known("Content-Type", b"application/grpc");
            lines.add_known("TE", b"trailers");
        } else {
            lines.add_known("Content-Type", content.media_type.as_bytes());
        }
        for (name, value) in &collector.headers {
            // Harmless: `compile` has refused invalid headers.
            let _ = lines.add(name, value.as_bytes());
        }
        Client {
            upstream: Upstream::new(collector.upstream.clone(), UpstreamMetrics::unlisted()),
            caller: Caller::new(nowhere, nowhere, Scheme::Http, telemetry::BACKGROUND),
            target,
            lines,
            is_grpc,
            timeout: collector.timeout,
        }
    }

    /// Sends a message. Returns the collector's answer if it accepted the message.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<Bytes, SendFailure> {
        let mut head = RequestHead::new(Protocol::Http11, b"POST", self.target.as_bytes());
        head.headers.add_all(&self.lines);
        let body = if self.is_grpc { framed(&message)? } else { message };
        let mut request = Request { head, body: Body::whole(body.into()) };
        let totals = Totals::default();
        let deadline = clock::now().checked_add(self.timeout);
        let mut call = Call::detached(&self.caller, deadline, &totals);
        let sent = Box::pin(self.upstream.send(&mut call, &mut request, &HostSent::Target));
        let reply = sent.await.map_err(|fault| failure(&fault))?;
        if self.is_grpc { of_grpc(reply).await } else { of_http(reply).await }
    }
}

/// A gRPC message with its prefix.
fn framed(message: &[u8]) -> Result<Vec<u8>, SendFailure> {
    let length = u32::try_from(message.len());
    let length = length.map_err(|_| SendFailure::permanent("a batch is larger than 4 GiB"))?;
    let mut body = Vec::with_capacity(PREFIX_BYTES + message.len());
    body.push(0);
    body.extend_from_slice(&length.to_be_bytes());
    body.extend_from_slice(message);
    Ok(body)
}

async fn of_http(reply: Reply) -> Result<Bytes, SendFailure> {
    let (status, pause) = (reply.head.status, retry_after(&reply.head.headers));
    let answer = gather(reply.body).await?;
    if (200..300).contains(&status) {
        return Ok(answer.bytes);
    }
    let why = format!("it answered with status {status}");
    Err(if is_passing(status) {
        SendFailure { pause, ..SendFailure::temporary(why) }
    } else {
        SendFailure::permanent(why)
    })
}

async fn of_grpc(reply: Reply) -> Result<Bytes, SendFailure> {
    if reply.head.status != 200 {
        return of_http(reply).await;
    }
    let early = reply.head.headers.get("grpc-status").map(Outcome::of);
    let answer = gather(reply.body).await?;
    let told = early.or_else(|| Outcome::in_trailers(&answer.trailers));
    match told {
        Some(Outcome::Status(Status::Ok)) => {
            let message = answer.bytes.get(PREFIX_BYTES..);
            message.map(|_| answer.bytes.slice(PREFIX_BYTES..)).ok_or_else(not_a_collector)
        }
        Some(Outcome::Status(status)) if may_pass(status) => {
            Err(SendFailure::temporary(format!("it answered with gRPC status {}", status.code())))
        }
        Some(outcome) => {
            Err(SendFailure::permanent(format!("it answered with gRPC status {}", outcome.label())))
        }
        None => Err(not_a_collector()),
    }
}

pub(crate) fn not_a_collector() -> SendFailure {
    SendFailure::permanent("its answer is not that of a collector")
}

async fn gather(body: Body) -> Result<GatheredBody, SendFailure> {
    let gathered = Box::pin(body.gather_all(ANSWER_BYTES_MAX, Kind::ReplyTooLarge)).await;
    gathered.map_err(|fault| {
        if fault.kind == Kind::ReplyTooLarge {
            SendFailure::permanent("its answer is too large")
        } else {
            failure(&fault)
        }
    })
}

fn failure(fault: &Fault) -> SendFailure {
    // If the answer is not HTTP, a retry will not help.
    if fault.kind == Kind::UpstreamMalformed {
        SendFailure::permanent(&*fault.cause)
    } else {
        SendFailure::temporary(&*fault.cause)
    }
}

/// The statuses that ask for a retry (OTLP 1, "Retryable Response Codes").
fn is_passing(status: u16) -> bool {
    matches!(status, 429 | 502 | 503 | 504)
}

/// The gRPC statuses that ask for a retry. `ResourceExhausted` may carry a delay, which is not used: the pauses grow
/// instead.
fn may_pass(status: Status) -> bool {
    matches!(
        status,
        Status::Cancelled
            | Status::DeadlineExceeded
            | Status::ResourceExhausted
            | Status::Aborted
            | Status::OutOfRange
            | Status::Unavailable
            | Status::DataLoss
    )
}

fn retry_after(headers: &Headers) -> Option<Duration> {
    // Harmless: without a readable time the pauses grow.
    let text = std::str::from_utf8(headers.get("retry-after")?).ok()?;
    // Harmless: a date, or any other text, counts as no readable time.
    kit::digits::whole(text.trim()).map(Duration::from_secs)
}
