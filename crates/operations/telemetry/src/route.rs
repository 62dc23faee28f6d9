//! The counts of every exchange. [`RouteMetrics::record`] is the hot path of this crate: it runs once at the end of each
//! exchange and touches one shard, which no other thread writes.

use crate::count::Counter;
use crate::exemplar::Exemplars;
use crate::histogram::{OwnHistogram, WaitHistogram};
use crate::reason::{REASONS_MAX, Reasons};
use crate::shards::Shards;
use crate::span::SpanIds;
use crate::stream_kind::OpenCounts;
use grpc::Outcome;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The measurements of one exchange, made once at its end.
#[derive(Debug, Clone, Copy, Default)]
pub struct Record<'a> {
    /// The worker that ran it.
    pub worker: usize,
    /// The route's metrics; `None` if no route was found.
    pub route: Option<&'a RouteMetrics>,
    /// The status for the client, even if the client left before the reply.
    pub status: u16,
    /// The label of the fault's kind.
    pub fault: Option<&'static str>,
    /// The end of a call of gRPC.
    pub grpc: Option<Outcome>,
    /// From the first byte of the request to the last byte of the reply.
    pub duration: Duration,
    /// The part of `duration` spent waiting for upstreams; zero if none was called.
    pub upstream: Duration,
    /// The part of `duration` spent waiting for the client to take the reply.
    pub client: Duration,
    pub request_bytes: u64,
    pub reply_bytes: u64,
    /// The span of the exchange, if it is sampled.
    pub exemplar: Option<SpanIds>,
}

/// The outcome of a copy of a request for a mirror.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirrorOutcome {
    /// The mirror replied, with any status.
    Success,
    /// There was no reply, or not in time.
    Failure,
    /// Too many copies were active.
    Dropped,
    /// The body was larger than the bound.
    TooLarge,
    /// The request's body was incomplete, or the gateway stopped.
    Incomplete,
}

/// The metrics of one route.
#[derive(Debug)]
pub struct RouteMetrics {
    pub(crate) shards: Shards<RouteShard>,
    pub(crate) reasons: Arc<Reasons>,
}

/// One worker's counts. In this order, the buckets of usual times share cache lines with sums, so that a usual request writes to four lines.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct RouteShard {
    pub(crate) classes: [Counter; CLASSES],
    pub(crate) request_bytes: Counter,
    pub(crate) reply_bytes: Counter,
    pub(crate) own: OwnHistogram,
    pub(crate) total: WaitHistogram,
    /// Created on demand, since most routes never have a fault.
    pub(crate) faults: OnceLock<Box<Faults>>,
    pub(crate) upstream: WaitHistogram,
    /// gRPC calls by status. Most routes have none.
    pub(crate) grpc: OnceLock<Box<CallCounts>>,
    /// Most routes have no mirror.
    pub(crate) mirrored: OnceLock<Box<MirrorCounts>>,
    /// Most routes have no policies for streams.
    pub(crate) streams: OnceLock<Box<StreamCounts>>,
    /// Most routes have no open streams.
    pub(crate) open: OnceLock<Box<OpenCounts>>,
    /// Created on demand. Without traces, there are no exemplars.
    pub(crate) exemplars: OnceLock<Box<Exemplars>>,
}

/// Counts of what policies observe in streams.
#[derive(Debug, Default)]
pub(crate) struct StreamCounts {
    pub(crate) events: Counter,
    /// Messages from clients and to them.
    pub(crate) messages: [Counter; 2],
    pub(crate) dropped: Counter,
    /// Streams that ended early, in the order of [`StreamEnd::ALL`].
    pub(crate) ends: [Counter; StreamEnd::ALL.len()],
}

/// The reason why a stream ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamEnd {
    /// Its quota was used up.
    Quota,
    /// An event or message was too large.
    TooLarge,
    /// Nothing arrived for too long.
    Idle,
    /// The client's token expired.
    Expired,
    /// The client sent a message without permission.
    Forbidden,
    /// A message did not match its schema.
    Invalid,
    /// A side sent bytes that are not a WebSocket.
    Malformed,
    /// A side did not answer pings.
    Unanswered,
    /// The client closed its connection without ending the stream.
    ClientGone,
    /// The upstream closed its connection without ending the stream.
    UpstreamGone,
    /// The gateway stopped, its route changed, or the stream reached its age limit.
    Leaving,
    /// The client of a shared stream was so slow that its next event was removed.
    Slow,
    /// There was not enough memory for an event or message.
    NoMemory,
}

/// Copies by outcome, in the order of [`MirrorOutcome::ALL`].
pub(crate) type MirrorCounts = [Counter; MirrorOutcome::ALL.len()];

/// Calls of gRPC, in the order of [`Outcome::index`].
pub(crate) type CallCounts = [Counter; Outcome::COUNT];

/// Faults by the index of their reason.
#[derive(Debug)]
pub(crate) struct Faults(pub(crate) [Counter; REASONS_MAX]);

/// Status classes 1xx to 5xx.
pub(crate) const CLASSES: usize = 5;

impl Default for Faults {
    fn default() -> Self {
        Faults(std::array::from_fn(|_| Counter::default()))
    }
}

impl MirrorOutcome {
    /// All outcomes, in the order of their numbers.
    pub const ALL: [MirrorOutcome; 5] = [
        MirrorOutcome::Success,
        MirrorOutcome::Failure,
        MirrorOutcome::Dropped,
        MirrorOutcome::TooLarge,
        MirrorOutcome::Incomplete,
    ];

    /// The label in metrics.
    pub const fn label(self) -> &'static str {
        match self {
            MirrorOutcome::Success => "success",
            MirrorOutcome::Failure => "failure",
            MirrorOutcome::Dropped => "dropped",
            MirrorOutcome::TooLarge => "too_large",
            MirrorOutcome::Incomplete => "incomplete",
        }
    }
}

impl StreamEnd {
    /// All reasons, in the order of their numbers.
    pub const ALL: [StreamEnd; 13] = [
        StreamEnd::Quota,
        StreamEnd::TooLarge,
        StreamEnd::Idle,
        StreamEnd::Expired,
        StreamEnd::Forbidden,
        StreamEnd::Invalid,
        StreamEnd::Malformed,
        StreamEnd::Unanswered,
        StreamEnd::ClientGone,
        StreamEnd::UpstreamGone,
        StreamEnd::Leaving,
        StreamEnd::Slow,
        StreamEnd::NoMemory,
    ];

    /// The label in metrics and in the access log.
    pub const fn label(self) -> &'static str {
        match self {
            StreamEnd::Quota => "quota",
            StreamEnd::TooLarge => "too_large",
            StreamEnd::Idle => "idle",
            StreamEnd::Expired => "expired",
            StreamEnd::Forbidden => "forbidden",
            StreamEnd::Invalid => "invalid",
            StreamEnd::Malformed => "malformed",
            StreamEnd::Unanswered => "unanswered",
            StreamEnd::ClientGone => "client_gone",
            StreamEnd::UpstreamGone => "upstream_gone",
            StreamEnd::Leaving => "leaving",
            StreamEnd::Slow => "slow",
            StreamEnd::NoMemory => "no_memory",
        }
    }
}

impl RouteMetrics {
    pub(crate) fn new(workers: usize, reasons: Arc<Reasons>) -> Self {
        RouteMetrics { shards: Shards::new(workers), reasons }
    }

    /// Counts one exchange. It takes no lock and no instruction with a bus lock, and allocates only the first time.
    pub fn record(&self, record: &Record<'_>) {
        let shard = self.shards.of(record.worker);
        shard.record(record);
        if let Some(label) = record.fault {
            let faults = shard.faults.get_or_init(Box::default);
            if let Some(counter) = faults.0.get(self.reasons.index(label)) {
                counter.add(1);
            }
        }
        if let Some(outcome) = record.grpc {
            let calls = shard.grpc.get_or_init(Box::default);
            if let Some(counter) = calls.get(outcome.index()) {
                counter.add(1);
            }
        }
    }

    /// Counts events of event streams that passed.
    pub fn events(&self, worker: usize, count: u64) {
        self.shards.of(worker).streams.get_or_init(Box::default).events.add(count);
    }

    /// Counts a message of a WebSocket that passes, from the client or to it.
    pub fn message(&self, worker: usize, is_from_client: bool) {
        let counts = self.shards.of(worker).streams.get_or_init(Box::default);
        let [up, down] = &counts.messages;
        if is_from_client { up.add(1) } else { down.add(1) }
    }

    /// Counts a message of a WebSocket that was dropped.
    pub fn message_dropped(&self, worker: usize) {
        self.shards.of(worker).streams.get_or_init(Box::default).dropped.add(1);
    }

    /// Counts a stream that ended early.
    pub fn stream_ended(&self, worker: usize, end: StreamEnd) {
        let counts = self.shards.of(worker).streams.get_or_init(Box::default);
        if let Some(counter) = counts.ends.get(end as usize) {
            counter.add(1);
        }
    }

    /// Counts the outcome of a copy for a mirror.
    pub fn mirrored(&self, worker: usize, outcome: MirrorOutcome) {
        let counts = self.shards.of(worker).mirrored.get_or_init(Box::default);
        if let Some(counter) = counts.get(outcome as usize) {
            counter.add(1);
        }
    }
}

impl RouteShard {
    fn record(&self, record: &Record<'_>) {
        if let Some(class) = self.classes.get(class_index(record.status)) {
            class.add(1);
        }
        self.request_bytes.add(record.request_bytes);
        self.reply_bytes.add(record.reply_bytes);
        self.total.record(record.duration);
        self.own
            .record(record.duration.saturating_sub(record.upstream).saturating_sub(record.client));
        if !record.upstream.is_zero() {
            self.upstream.record(record.upstream);
        }
        if let Some(span) = record.exemplar {
            self.exemplars.get_or_init(Box::default).keep(span, record.duration);
        }
    }
}

/// Index of the status class. An invalid status (0, if a client left before there was one) counts as 5xx, since something
/// failed.
fn class_index(status: u16) -> usize {
    match status / 100 {
        class @ 1..=5 => usize::from(class) - 1,
        _ => CLASSES - 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_has_a_class() {
        for (status, class) in
            [(100, 0), (101, 0), (204, 1), (304, 2), (499, 3), (504, 4), (0, 4), (999, 4)]
        {
            assert_eq!(class_index(status), class, "{status}");
        }
    }
}
