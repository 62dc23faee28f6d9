//! The values for one scrape: the sums over the shards of all workers. Taking a snapshot never waits for a worker. Unused
//! routes, upstreams and listeners are left out, so that the cost of a scrape depends only on those in use.

use crate::Telemetry;
use crate::count::Counter;
use crate::definition::DefinitionSum;
use crate::durable::DurableReading;
use crate::engine::EngineReading;
use crate::exemplar::BucketExemplars;
use crate::flow::FlowSum;
use crate::histogram::{OWN_MICROS, Sum, WAIT_MICROS};
use crate::hub::TopicSum;
use crate::issuer::IssuerSum;
use crate::listener::{ListenerMetrics, Refusal};
use crate::operation::OperationSum;
use crate::parses::Parses;
use crate::process::Process;
use crate::queue::QueueSum;
use crate::reason::REASONS_MAX;
use crate::reload::Reloads;
use crate::route::{CLASSES, MirrorOutcome, RouteMetrics, StreamEnd};
use crate::schedule::ScheduleSum;
use crate::store::StoreSum;
use crate::stream_kind::StreamKind;
use crate::upstream::{TargetMetrics, UpstreamMetrics};
use grpc::Outcome;
use kit::memory;
use std::sync::Arc;

/// All numbers of a scrape.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) workers: Vec<WorkerSum>,
    pub(crate) routes: Vec<RouteSum>,
    pub(crate) upstreams: Vec<UpstreamSum>,
    pub(crate) listeners: Vec<ListenerSum>,
    pub(crate) issuers: Vec<IssuerSum>,
    pub(crate) stores: Vec<StoreSum>,
    pub(crate) definitions: Vec<DefinitionSum>,
    pub(crate) operations: Vec<OperationSum>,
    pub(crate) flows: Vec<FlowSum>,
    pub(crate) schedules: Vec<ScheduleSum>,
    pub(crate) topics: Vec<TopicSum>,
    pub(crate) durable: Option<DurableReading>,
    pub(crate) queues: Vec<QueueSum>,
    pub(crate) engine: Option<EngineReading>,
    pub(crate) reloads: Reloads,
    pub(crate) memory: MemoryReading,
    pub(crate) process: Process,
    /// In the order of [`Metric::ALL`](crate::names::Metric::ALL).
    pub(crate) totals: Vec<u64>,
    pub(crate) started_unix_seconds: u64,
}

/// The memory of the process, as counted by the allocator.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MemoryReading {
    pub(crate) used: u64,
    /// The limit, if there is one.
    pub(crate) limit: Option<u64>,
    /// The number of times that the limit left no room.
    pub(crate) refused: u64,
}

impl MemoryReading {
    fn take() -> MemoryReading {
        let bytes = |bytes: usize| u64::try_from(bytes).unwrap_or(u64::MAX);
        MemoryReading {
            used: bytes(memory::used()),
            limit: memory::limit().map(bytes),
            refused: memory::refused(),
        }
    }
}

#[derive(Debug)]
pub(crate) struct WorkerSum {
    pub(crate) name: String,
    pub(crate) requests: u64,
    pub(crate) panics: u64,
    pub(crate) parses: Parses,
    pub(crate) connections_open: i64,
}

#[derive(Debug, Default)]
pub(crate) struct RouteSum {
    pub(crate) name: Box<str>,
    pub(crate) classes: [u64; CLASSES],
    pub(crate) request_bytes: u64,
    pub(crate) reply_bytes: u64,
    pub(crate) total: Sum<{ WAIT_MICROS.len() + 1 }>,
    /// Exemplars for buckets of `total`, if a trace was sampled.
    pub(crate) exemplars: Option<Box<BucketExemplars>>,
    pub(crate) own: Sum<{ OWN_MICROS.len() + 1 }>,
    pub(crate) upstream: Sum<{ WAIT_MICROS.len() + 1 }>,
    /// The number of faults by label, sorted by label.
    pub(crate) faults: Vec<(&'static str, u64)>,
    /// In the order of [`Outcome::index`], if there were gRPC calls.
    pub(crate) grpc: Option<[u64; Outcome::COUNT]>,
    /// In the order of [`MirrorOutcome::ALL`], if there was a mirror.
    pub(crate) mirrored: Option<[u64; MirrorOutcome::ALL.len()]>,
    /// Set if a policy observes streams.
    pub(crate) streams: Option<StreamSum>,
    /// In the order of [`StreamKind::ALL`], if there ever was a stream.
    pub(crate) open: Option<[i64; StreamKind::ALL.len()]>,
}

#[derive(Debug, Default)]
pub(crate) struct StreamSum {
    pub(crate) events: u64,
    /// Messages received from clients, and sent to them.
    pub(crate) messages: [u64; 2],
    pub(crate) dropped: u64,
    /// In the order of [`StreamEnd::ALL`].
    pub(crate) ends: [u64; StreamEnd::ALL.len()],
}

#[derive(Debug, Default)]
pub(crate) struct UpstreamSum {
    pub(crate) name: Box<str>,
    pub(crate) connections_open: i64,
    pub(crate) connections_idle: i64,
    pub(crate) connections_created: u64,
    pub(crate) connections_failed: u64,
    pub(crate) requests_active: i64,
    pub(crate) requests_pending: i64,
    pub(crate) retries: u64,
    pub(crate) breaker_refused: u64,
    pub(crate) look_ups_failed: u64,
    /// Targets that DNS lists beyond the upstream's limit.
    pub(crate) targets_left_out: i64,
    pub(crate) targets: Vec<(Box<str>, Arc<TargetMetrics>)>,
}

#[derive(Debug, Default)]
pub(crate) struct ListenerSum {
    pub(crate) name: Box<str>,
    pub(crate) open: i64,
    pub(crate) opened: u64,
    pub(crate) refused: [u64; Refusal::ALL.len()],
    pub(crate) displaced: u64,
}

impl Snapshot {
    pub(crate) fn take(telemetry: &Telemetry) -> Snapshot {
        let listeners = telemetry.listeners.all();
        let workers = (0..telemetry.workers()).map(|index| WorkerSum {
            name: index.to_string(),
            requests: telemetry.worker(index).requests.get(),
            panics: telemetry.worker(index).panics.get(),
            parses: telemetry.worker(index).parses.each_ref().map(Counter::get),
            connections_open: listeners.iter().map(|(_, listener)| open_on(listener, index)).sum(),
        });
        Snapshot {
            workers: workers.collect(),
            routes: sums(telemetry.routes.all(), route),
            upstreams: sums(telemetry.upstreams.all(), upstream),
            listeners: sums(listeners.clone(), listener),
            issuers: sums(telemetry.issuers.all(), |name, issuer| issuer.sum(name)),
            stores: sums(telemetry.stores.all(), |name, store| store.sum(name)),
            definitions: sums(telemetry.definitions.all(), |name, definition| definition.sum(name)),
            operations: sums(telemetry.operations.all(), |name, operation| operation.sum(&name)),
            flows: sums(telemetry.flows.all(), |name, flow| flow.sum(&name)),
            schedules: sums(telemetry.schedules.all(), |name, schedule| Some(schedule.sum(name))),
            queues: sums(telemetry.queues.all(), |name, queue| queue.sum(name)),
            topics: sums(telemetry.topics.all(), |name, topic| topic.sum(&name)),
            durable: telemetry.durable.read(),
            engine: telemetry.engine.read(),
            reloads: telemetry.reload.read(),
            memory: MemoryReading::take(),
            process: Process::read(),
            totals: telemetry.totals.iter().map(|total| total.get()).collect(),
            started_unix_seconds: telemetry.started_unix_seconds,
        }
    }
}

fn sums<T, S>(all: Vec<(Box<str>, Arc<T>)>, sum: impl Fn(Box<str>, &T) -> Option<S>) -> Vec<S> {
    // Harmless: an unused object has no sum.
    all.into_iter().filter_map(|(name, thing)| sum(name, &thing)).collect()
}

pub(crate) fn open_on(listener: &ListenerMetrics, worker: usize) -> i64 {
    listener.shards.seen(worker).map_or(0, |shard| shard.open.get())
}

fn route(name: Box<str>, metrics: &RouteMetrics) -> Option<RouteSum> {
    metrics.shards.all().next()?;
    let mut sum = RouteSum { name, ..RouteSum::default() };
    let mut faults = [0_u64; REASONS_MAX];
    for shard in metrics.shards.all() {
        // Harmless: both arrays have the same length.
        for (total, class) in sum.classes.iter_mut().zip(&shard.classes) {
            *total += class.get();
        }
        sum.request_bytes += shard.request_bytes.get();
        sum.reply_bytes += shard.reply_bytes.get();
        shard.total.add_to(&mut sum.total);
        if let Some(exemplars) = shard.exemplars.get() {
            exemplars.add_to(sum.exemplars.get_or_insert_default());
        }
        shard.own.add_to(&mut sum.own);
        shard.upstream.add_to(&mut sum.upstream);
        // Harmless: both arrays have the same length.
        for (total, fault) in faults.iter_mut().zip(shard.faults.get().iter().flat_map(|f| &f.0)) {
            *total += fault.get();
        }
        if let Some(counts) = shard.grpc.get() {
            let totals = sum.grpc.get_or_insert_default();
            // Harmless: both arrays have the same length.
            totals.iter_mut().zip(counts.iter()).for_each(|(total, count)| *total += count.get());
        }
        if let Some(counts) = shard.mirrored.get() {
            let totals = sum.mirrored.get_or_insert_default();
            // Harmless: both arrays have the same length.
            totals.iter_mut().zip(counts.iter()).for_each(|(total, count)| *total += count.get());
        }
        if let Some(counts) = shard.open.get() {
            let totals = sum.open.get_or_insert_default();
            // Harmless: both arrays have the same length.
            totals.iter_mut().zip(counts.iter()).for_each(|(total, open)| *total += open.get());
        }
        if let Some(counts) = shard.streams.get() {
            let totals = sum.streams.get_or_insert_default();
            totals.events += counts.events.get();
            totals.dropped += counts.dropped.get();
            // Harmless: both arrays have the same length.
            let messages = totals.messages.iter_mut().zip(&counts.messages);
            messages.for_each(|(total, count)| *total += count.get());
            // Harmless: both arrays have the same length.
            totals.ends.iter_mut().zip(&counts.ends).for_each(|(total, end)| *total += end.get());
        }
    }
    let counted = faults.into_iter().enumerate().filter(|(_, count)| *count > 0);
    sum.faults = counted.map(|(index, count)| (metrics.reasons.label(index), count)).collect();
    sum.faults.sort_unstable();
    Some(sum)
}

fn upstream(name: Box<str>, metrics: &UpstreamMetrics) -> Option<UpstreamSum> {
    let targets = metrics.targets();
    let is_unused = targets.is_empty() && metrics.failed_look_ups() == 0;
    if is_unused && metrics.pools().next().is_none() {
        return None;
    }
    let mut sum = UpstreamSum {
        name,
        targets,
        look_ups_failed: metrics.failed_look_ups(),
        targets_left_out: i64::try_from(metrics.left_out()).unwrap_or(i64::MAX),
        ..UpstreamSum::default()
    };
    for pool in metrics.pools() {
        sum.connections_open += pool.connections_open.get();
        sum.connections_idle += pool.connections_idle.get();
        sum.connections_created += pool.connections_created.get();
        sum.connections_failed += pool.connections_failed.get();
        sum.requests_active += pool.requests_active.get();
        sum.requests_pending += pool.requests_pending.get();
        sum.retries += pool.retries.get();
        sum.breaker_refused += pool.breaker_refused.get();
    }
    Some(sum)
}

fn listener(name: Box<str>, metrics: &ListenerMetrics) -> Option<ListenerSum> {
    metrics.shards.all().next()?;
    let mut sum = ListenerSum { name, ..ListenerSum::default() };
    for shard in metrics.shards.all() {
        sum.open += shard.open.get();
        sum.opened += shard.opened.get();
        // Harmless: both arrays have the same length.
        for (total, refused) in sum.refused.iter_mut().zip(&shard.refused) {
            *total += refused.get();
        }
        sum.displaced += shard.displaced.get();
    }
    Some(sum)
}
