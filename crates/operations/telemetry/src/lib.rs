//! Observability for operators: metrics ([`Telemetry`]), the access log ([`access`]) and traces of single messages ([`trace`]).
//!
//! Owns the names of all metrics, their shards and the text of `/metrics`, and the lines of the access log with the thread
//! that writes them. It makes no decisions about requests and does not depend on an HTTP server. Recording an exchange takes
//! no lock and no instruction with a bus lock: a worker writes only its own shard, and a scrape adds up the shards.
#![forbid(unsafe_code)]

pub mod access;
pub mod count;
mod definition;
mod durable;
mod engine;
mod exemplar;
mod flow;
mod histogram;
mod hub;
pub mod issuer;
pub mod listener;
pub mod masked;
mod named_map;
pub mod names;
mod operation;
pub mod parses;
mod process;
mod queue;
pub mod reason;
pub mod refusals;
mod reload;
mod render;
pub mod route;
mod schedule;
mod scrape;
mod shards;
mod snapshot;
pub mod span;
pub mod store;
mod stream_kind;
mod streams;
pub mod tail;
pub mod trace;
pub mod traffic;
pub mod upstream;
mod workers;

pub use definition::DefinitionMetrics;
pub use durable::{AskDurable, DurableReading, SharedReading};
pub use engine::{EngineReading, ReadEngine};
pub use flow::{FlowMetrics, FlowNumbers};
pub use hub::{DeliveryOutcome, TopicMetrics};
pub use issuer::IssuerMetrics;
pub use listener::{ListenerMetrics, Refusal};
pub use named_map::Mark;
pub use names::Total;
pub use operation::{OperationMetrics, SoapFault};
pub use queue::{QueueMetrics, QueueRun};
pub use refusals::{REFUSALS_MAX, Refusals, RefusedExchange, cause_shown};
pub use reload::{CertificateExpiry, PlanAlive, ReloadMetrics};
pub use route::{MirrorOutcome, Record, RouteMetrics, StreamEnd};
pub use schedule::ScheduleMetrics;
pub use scrape::{ScrapeFormat, TakePiece};
pub use store::StoreMetrics;
pub use stream_kind::StreamKind;
pub use streams::{OpenStream, RouteStreams};
pub use tail::{EndedExchange, TailPage};
pub use traffic::{RouteTraffic, TrafficNumbers, TrafficPoint};
pub use upstream::{PoolMetrics, TargetHealth, TargetMetrics, UpstreamMetrics};
pub use workers::WorkerReading;

use count::{CachePadded, Counter, SharedCounter};
use durable::DurableMetrics;
use engine::EngineMetrics;
use named_map::NamedMap;
use names::Metric;
use reason::Reasons;
use std::fmt;
use std::sync::Arc;

/// The limit of routes that are counted separately: four times the largest configuration that we test. Further ones
/// count as [`OTHER`].
pub const ROUTES_MAX: usize = 20_000;

/// The limit for upstreams: a configuration has at most about one per route.
pub const UPSTREAMS_MAX: usize = 20_000;

/// The limit for listeners. Each has sockets, so there are never many.
pub const LISTENERS_MAX: usize = 1_000;

/// The limit for issuers. A gateway has a handful.
pub const ISSUERS_MAX: usize = 1_000;

/// The limit for XML definitions: about one for each route with XML.
pub const DEFINITIONS_MAX: usize = 5_000;

/// The limit for stores. More than one is rare.
pub const STORES_MAX: usize = 100;

/// The limit for operations of all routes. A service has some ten, the largest a few hundred.
pub const OPERATIONS_MAX: usize = 20_000;

/// The limit for flows and their steps: a thousand flows of twenty steps.
pub const FLOWS_MAX: usize = 20_000;

/// The limit for queues.
pub const QUEUES_MAX: usize = 1_000;

/// The limit for topics of hubs.
pub const TOPICS_MAX: usize = 20_000;

/// The limit for schedules.
pub const SCHEDULES_MAX: usize = 1_000;

/// The operation of messages that match none in the description.
pub const UNKNOWN_OPERATION: &str = "(unknown)";

/// The worker index of the background thread, which also opens connections for health checks.
pub const BACKGROUND: usize = usize::MAX;

/// The name for everything above a limit.
pub const OTHER: &str = named_map::OTHER;

/// The route name of requests that no route matched.
pub const NO_ROUTE: &str = "(none)";

/// All metrics of a process.
#[derive(Debug)]
pub struct Telemetry {
    workers: Box<[CachePadded<WorkerMetrics>]>,
    /// For an index without a worker, see [`shards`].
    stray: WorkerMetrics,
    routes: NamedMap<RouteMetrics>,
    unmatched: Arc<RouteMetrics>,
    upstreams: NamedMap<UpstreamMetrics>,
    listeners: NamedMap<ListenerMetrics>,
    issuers: NamedMap<IssuerMetrics>,
    stores: NamedMap<StoreMetrics>,
    definitions: NamedMap<DefinitionMetrics>,
    operations: NamedMap<OperationMetrics>,
    flows: NamedMap<FlowMetrics>,
    schedules: NamedMap<ScheduleMetrics>,
    topics: NamedMap<TopicMetrics>,
    durable: DurableMetrics,
    queues: NamedMap<QueueMetrics>,
    engine: EngineMetrics,
    reasons: Arc<Reasons>,
    reload: ReloadMetrics,
    /// One counter for each row, in the order of [`Metric::ALL`]. Counters of rows that are not a [`Total`] stay zero.
    totals: Vec<Arc<SharedCounter>>,
    tracer: Arc<trace::Tracer>,
    refusals: refusals::Refusals,
    tail: tail::Tail,
    traffic: traffic::Traffic,
    started_unix_seconds: u64,
}

/// Counts of one worker.
#[derive(Debug, Default)]
pub struct WorkerMetrics {
    pub requests: Counter,
    pub panics: Counter,
    /// In the order of [`parses::Format::ALL`].
    pub(crate) parses: [Counter; parses::Format::ALL.len()],
}

impl Telemetry {
    /// Metrics for a process with this many workers, numbered from 0.
    pub fn new(workers: usize) -> Arc<Self> {
        let reasons = Arc::new(Reasons::default());
        let route = || RouteMetrics::new(workers, reasons.clone());
        let routes = NamedMap::new(ROUTES_MAX, route());
        Arc::new(Telemetry {
            workers: (0..workers).map(|_| CachePadded::default()).collect(),
            stray: WorkerMetrics::default(),
            unmatched: routes.get_or_create(NO_ROUTE, route),
            routes,
            upstreams: NamedMap::new(UPSTREAMS_MAX, UpstreamMetrics::new(workers)),
            listeners: NamedMap::new(LISTENERS_MAX, ListenerMetrics::new(workers)),
            issuers: NamedMap::new(ISSUERS_MAX, IssuerMetrics::default()),
            stores: NamedMap::new(STORES_MAX, StoreMetrics::default()),
            definitions: NamedMap::new(DEFINITIONS_MAX, DefinitionMetrics::default()),
            operations: NamedMap::new(OPERATIONS_MAX, OperationMetrics::new(workers)),
            flows: NamedMap::new(FLOWS_MAX, FlowMetrics::new(workers, reasons.clone())),
            schedules: NamedMap::new(SCHEDULES_MAX, ScheduleMetrics::default()),
            topics: NamedMap::new(TOPICS_MAX, TopicMetrics::new(workers)),
            durable: DurableMetrics::default(),
            queues: NamedMap::new(QUEUES_MAX, QueueMetrics::default()),
            engine: EngineMetrics::default(),
            reasons,
            reload: ReloadMetrics::default(),
            totals: Metric::ALL.iter().map(|_| Arc::default()).collect(),
            tracer: Arc::default(),
            refusals: refusals::Refusals::new(workers),
            tail: tail::Tail::new(workers),
            traffic: traffic::Traffic::new(kit::clock::wall()),
            started_unix_seconds: kit::clock::wall().as_secs(),
        })
    }

    /// Manages requests for traces.
    pub fn tracer(&self) -> &Arc<trace::Tracer> {
        &self.tracer
    }

    /// The counter of a row without labels.
    pub fn total(&self, total: Total) -> Arc<SharedCounter> {
        // Harmless: there is one for each row.
        self.totals.get(total.0 as usize).cloned().unwrap_or_default()
    }

    /// The last refused exchanges.
    pub fn refusals(&self) -> &refusals::Refusals {
        &self.refusals
    }

    /// The most recently ended exchanges.
    pub fn tail(&self) -> &tail::Tail {
        &self.tail
    }

    /// Ends a sample of the traffic. This and the next four functions read all routes, so they must not be called on a worker's thread.
    pub fn sample_traffic(&self) {
        self.traffic.sample(&self.routes, kit::clock::wall());
    }

    /// The traffic of the last hour: of all routes in each sample, and of each route in total.
    pub fn traffic(&self) -> (Vec<TrafficPoint>, Vec<RouteTraffic>) {
        self.traffic.all(&self.routes, kit::clock::wall())
    }

    /// Requests and server errors of the last hour.
    pub fn traffic_sum(&self) -> (u64, u64) {
        self.traffic.sum(&self.routes, kit::clock::wall())
    }

    /// Requests and server errors since the start.
    pub fn exchanges(&self) -> (u64, u64) {
        traffic::exchanges(&self.routes)
    }

    /// The traffic of a route in each sample of the last hour.
    pub fn traffic_of(&self, route: &str) -> Vec<TrafficPoint> {
        self.traffic.of(&self.routes, route, kit::clock::wall())
    }

    /// Counts one exchange, on the worker that ran it.
    pub fn record(&self, record: &Record<'_>) {
        let worker = self.worker(record.worker);
        worker.requests.add(1);
        let parsed = parses::take();
        if parsed != parses::Parses::default() {
            // Harmless: both are arrays of one length.
            worker.parses.iter().zip(parsed).for_each(|(counter, count)| counter.add(count));
        }
        record.route.unwrap_or(&self.unmatched).record(record);
    }

    /// The metrics of a route. The same name gives the same metrics again, so that counts survive a reload.
    pub fn route(&self, name: &str) -> Arc<RouteMetrics> {
        self.routes.get_or_create(name, || RouteMetrics::new(self.workers(), self.reasons.clone()))
    }

    /// The metrics of an upstream. The same name returns the same metrics.
    pub fn upstream(&self, name: &str) -> Arc<UpstreamMetrics> {
        self.upstreams.get_or_create(name, || UpstreamMetrics::new(self.workers()))
    }

    /// The metrics of a listener. The same name returns the same metrics.
    pub fn listener(&self, name: &str) -> Arc<ListenerMetrics> {
        self.listeners.get_or_create(name, || ListenerMetrics::new(self.workers()))
    }

    /// The metrics of an issuer's keys. The same name returns the same metrics.
    pub fn issuer(&self, name: &str) -> Arc<IssuerMetrics> {
        self.issuers.get_or_create(name, IssuerMetrics::default)
    }

    /// The metrics of a store. The same name returns the same metrics.
    pub fn store(&self, name: &str) -> Arc<StoreMetrics> {
        self.stores.get_or_create(name, StoreMetrics::default)
    }

    /// The metrics of an XML definition. The same name returns the same metrics.
    pub fn definition(&self, name: &str) -> Arc<DefinitionMetrics> {
        self.definitions.get_or_create(name, DefinitionMetrics::default)
    }

    /// The metrics of an operation of a route. The same names return the same metrics.
    pub fn operation(&self, route: &str, operation: &str) -> Arc<OperationMetrics> {
        let name = format!("{route}{}{operation}", operation::BETWEEN);
        self.operations.get_or_create(&name, || OperationMetrics::new(self.workers()))
    }

    /// The metrics of a flow as a whole. The same name returns the same metrics.
    pub fn flow(&self, name: &str) -> Arc<FlowMetrics> {
        self.flows.get_or_create(name, || FlowMetrics::new(self.workers(), self.reasons.clone()))
    }

    /// The metrics of a step of a flow. The same names return the same metrics.
    pub fn flow_step(&self, flow: &str, step: &str) -> Arc<FlowMetrics> {
        self.flow(&format!("{flow}{}{step}", operation::BETWEEN))
    }

    /// The metrics of a queue. The same name returns the same metrics.
    pub fn queue(&self, name: &str) -> Arc<QueueMetrics> {
        self.queues.get_or_create(name, QueueMetrics::default)
    }

    /// The metrics of a topic of a hub. The same names return the same metrics.
    pub fn topic(&self, hub: &str, topic: &str) -> Arc<TopicMetrics> {
        let name = format!("{hub}{}{topic}", operation::BETWEEN);
        self.topics.get_or_create(&name, || TopicMetrics::new(self.workers()))
    }

    /// The metrics of a schedule. The same name returns the same metrics.
    pub fn schedule(&self, name: &str) -> Arc<ScheduleMetrics> {
        self.schedules.get_or_create(name, ScheduleMetrics::default)
    }

    /// Returns the present moment, for [`Telemetry::forget_unused_since`].
    pub fn mark(&self) -> Mark {
        Mark::now()
    }

    /// Removes metrics that were made after a moment and that nothing uses now, such as those of a configuration that was refused. Older
    /// ones stay, so that their counts survive a reload.
    pub fn forget_unused_since(&self, mark: Mark) {
        self.routes.forget_unused_since(mark);
        self.upstreams.forget_unused_since(mark);
        self.listeners.forget_unused_since(mark);
        self.issuers.forget_unused_since(mark);
        self.stores.forget_unused_since(mark);
        self.definitions.forget_unused_since(mark);
        self.operations.forget_unused_since(mark);
        self.flows.forget_unused_since(mark);
        self.schedules.forget_unused_since(mark);
        self.topics.forget_unused_since(mark);
        self.queues.forget_unused_since(mark);
    }

    /// Adds the counts of this store to the output, replacing those of another store.
    pub fn set_durable(&self, ask: AskDurable) {
        self.durable.set(ask);
    }

    /// Adds the counts of this engine to the output.
    pub fn set_engine(&self, ask: ReadEngine) {
        self.engine.set(ask);
    }

    /// The counts of a worker. Only that worker may write them.
    pub fn worker(&self, index: usize) -> &WorkerMetrics {
        debug_assert!(index < self.workers.len(), "there is no worker {index}");
        self.workers.get(index).map_or(&self.stray, |worker| &worker.0)
    }

    /// The number of workers.
    pub fn workers(&self) -> usize {
        self.workers.len()
    }

    /// The metrics of the configuration.
    pub fn reload(&self) -> &ReloadMetrics {
        &self.reload
    }

    /// Writes all metrics. With thousands of busy routes this takes milliseconds, so it must not be called on a
    /// worker's thread.
    pub fn scrape(&self, format: ScrapeFormat, take: &mut TakePiece<'_>) -> fmt::Result {
        snapshot::Snapshot::take(self).render(scrape::Scrape::new(format, take))
    }

    /// All metrics as one OpenMetrics text.
    pub fn render(&self) -> String {
        let mut text = Vec::new();
        let scraped = self.scrape(ScrapeFormat::OpenMetrics, &mut |piece| {
            text.extend(piece);
            Ok(())
        });
        debug_assert!(scraped.is_ok(), "a vector takes every piece");
        // Harmless: it was written from texts.
        String::from_utf8(text).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests;
