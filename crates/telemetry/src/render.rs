//! Renders a snapshot as OpenMetrics text. Owns the order of the families; the encoder owns the format and the escaping.

mod queues;
mod upstreams;

use crate::exemplar::BucketExemplars;
use crate::histogram::{OWN_MICROS, Sum, WAIT_MICROS};
use crate::listener::Refusal;
use crate::names::{Label, Metric};
use crate::parses::Format;
use crate::reload::CertificateExpiry;
use crate::route::{CLASSES, MirrorOutcome, StreamEnd};
use crate::snapshot::{ListenerSum, MemoryReading, RouteSum, Snapshot};
use crate::streams::StreamKind;
use grpc::Outcome;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{
    DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, MetricEncoder, NoLabelSet, text,
};
use prometheus_client::metrics::exemplar::Exemplar;
use prometheus_client::registry::Registry;
use std::fmt;

const STATUS_CLASSES: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

/// The text of a scrape.
pub(crate) fn text(snapshot: Snapshot) -> String {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(snapshot));
    let mut text = String::new();
    // Writing to a string fails only if one of our encoders does, and none has a reason to.
    if let Err(error) = text::encode(&mut text, &registry) {
        tracing::error!(%error, "the metrics could not be rendered");
    }
    text
}

/// The same with examples for the buckets of the durations of requests, as OpenMetrics writes them. The encoder takes none that were
/// made elsewhere.
pub(crate) fn text_with_exemplars(snapshot: Snapshot) -> String {
    let exemplars: Vec<Option<Box<BucketExemplars>>> =
        snapshot.routes.iter().map(|route| route.exemplars.clone()).collect();
    let plain = text(snapshot);
    if exemplars.iter().all(Option::is_none) {
        return plain;
    }
    let mut out = String::with_capacity(plain.len());
    // The lines are in the order of routes and, of each, of buckets.
    let mut buckets = exemplars.iter().flat_map(|of_route| {
        (0..WAIT_MICROS.len() + 1)
            .map(move |at| of_route.as_ref().and_then(|kept| *kept.get(at)?))
    });
    for line in plain.lines() {
        out.push_str(line);
        if line.starts_with(BUCKETS)
            && let Some(Some(kept)) = buckets.next()
        {
            kept.write(&mut out);
        }
        out.push('\n');
    }
    out
}

/// The beginning of lines of buckets that have examples.
const BUCKETS: &str = "tidegate_request_duration_seconds_bucket{";

impl Collector for Snapshot {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let encoder = &mut encoder;
        self.program(encoder)?;
        self.workers(encoder)?;
        self.listeners(encoder)?;
        self.routes(encoder)?;
        self.durations(encoder)?;
        self.upstreams(encoder)?;
        self.targets(encoder)?;
        self.issuers(encoder)?;
        self.stores(encoder)?;
        self.durable(encoder)?;
        self.definitions(encoder)?;
        self.operations(encoder)?;
        self.flows(encoder)?;
        self.schedules(encoder)?;
        self.topics(encoder)?;
        self.queues(encoder)?;
        self.engine(encoder)?;
        self.memory(encoder)?;
        self.configuration(encoder)?;
        self.process(encoder)
    }
}

impl Snapshot {
    fn program(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let version = [(Label::Version.name(), env!("CARGO_PKG_VERSION"))];
        family(encoder, Metric::BuildInfo)?.encode_info(&version)?;
        family(encoder, Metric::Workers)?.encode_gauge(&self.workers.len())?;
        // Harmless: there is a total for each metric.
        for (metric, total) in Metric::ALL.iter().zip(&self.totals) {
            if metric.is_total() {
                counter(&mut family(encoder, *metric)?, total)?;
            }
        }
        Ok(())
    }

    fn workers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut requests = family(encoder, Metric::WorkerRequests)?;
        for worker in &self.workers {
            labelled_counter(&mut requests, [(Label::Worker, &worker.name)], worker.requests)?;
        }
        let mut panics = family(encoder, Metric::WorkerPanics)?;
        for worker in &self.workers {
            labelled_counter(&mut panics, [(Label::Worker, &worker.name)], worker.panics)?;
        }
        let mut open = family(encoder, Metric::WorkerConnections)?;
        for worker in &self.workers {
            labelled_gauge(&mut open, [(Label::Worker, &worker.name)], worker.connections_open)?;
        }
        let mut parses = family(encoder, Metric::MessageParses)?;
        for (at, format) in Format::ALL.into_iter().enumerate() {
            // Harmless: a worker has a counter for each format.
            let counts = self.workers.iter().filter_map(|worker| worker.parses.get(at));
            let labels = [(Label::Format, format.label())];
            labelled_counter(&mut parses, labels, counts.sum::<u64>())?;
        }
        Ok(())
    }

    fn listeners(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut open = family(encoder, Metric::ConnectionsOpen)?;
        for ListenerSum { name, open: value, .. } in &self.listeners {
            labelled_gauge(&mut open, [(Label::Listener, name)], *value)?;
        }
        let mut opened = family(encoder, Metric::Connections)?;
        for ListenerSum { name, opened: value, .. } in &self.listeners {
            labelled_counter(&mut opened, [(Label::Listener, name)], *value)?;
        }
        let mut refused = family(encoder, Metric::ConnectionsRefused)?;
        for listener in &self.listeners {
            // Harmless: there is a count for each kind.
            for (refusal, count) in Refusal::ALL.iter().zip(listener.refused) {
                let labels = [(Label::Listener, &*listener.name), (Label::Reason, refusal.label())];
                labelled_counter(&mut refused, labels, count)?;
            }
        }
        let mut displaced = family(encoder, Metric::ConnectionsDisplaced)?;
        for ListenerSum { name, displaced: value, .. } in &self.listeners {
            labelled_counter(&mut displaced, [(Label::Listener, name)], *value)?;
        }
        Ok(())
    }

    fn routes(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut requests = family(encoder, Metric::Requests)?;
        for route in &self.routes {
            // Harmless: the same.
            for (class, count) in STATUS_CLASSES.into_iter().zip(route.classes) {
                let labels = [(Label::Route, &*route.name), (Label::StatusClass, class)];
                labelled_counter(&mut requests, labels, count)?;
            }
        }
        let mut bytes = family(encoder, Metric::RequestBytes)?;
        for RouteSum { name, request_bytes, .. } in &self.routes {
            labelled_counter(&mut bytes, [(Label::Route, name)], *request_bytes)?;
        }
        let mut bytes = family(encoder, Metric::ReplyBytes)?;
        for RouteSum { name, reply_bytes, .. } in &self.routes {
            labelled_counter(&mut bytes, [(Label::Route, name)], *reply_bytes)?;
        }
        let mut faults = family(encoder, Metric::Faults)?;
        for route in &self.routes {
            for (reason, count) in &route.faults {
                let labels = [(Label::Route, &*route.name), (Label::Reason, *reason)];
                labelled_counter(&mut faults, labels, *count)?;
            }
        }
        let mut calls = family(encoder, Metric::GrpcCalls)?;
        for route in &self.routes {
            // Harmless: a route without calls has no counts.
            let counts = route.grpc.iter().flatten().enumerate();
            for (index, count) in counts.filter(|(_, count)| **count > 0) {
                let status = Outcome::at(index).label();
                let labels = [(Label::Route, &*route.name), (Label::GrpcStatus, status)];
                labelled_counter(&mut calls, labels, *count)?;
            }
        }
        let mut mirrored = family(encoder, Metric::Mirrored)?;
        for route in &self.routes {
            // Harmless: a route without copies has no counts.
            for (outcome, count) in MirrorOutcome::ALL.iter().zip(route.mirrored.iter().flatten()) {
                let labels = [(Label::Route, &*route.name), (Label::Outcome, outcome.label())];
                labelled_counter(&mut mirrored, labels, *count)?;
            }
        }
        self.streams(encoder)
    }

    fn streams(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let streams =
            // Harmless: a route without streams has no counts.
            || self.routes.iter().filter_map(|route| Some((&*route.name, route.streams.as_ref()?)));
        let mut events = family(encoder, Metric::SseEvents)?;
        for (route, streams) in streams() {
            labelled_counter(&mut events, [(Label::Route, route)], streams.events)?;
        }
        let mut messages = family(encoder, Metric::WebSocketMessages)?;
        for (route, streams) in streams() {
            // Harmless: there is a count for each direction.
            for (direction, count) in ["received", "sent"].into_iter().zip(streams.messages) {
                let labels = [(Label::Route, route), (Label::Direction, direction)];
                labelled_counter(&mut messages, labels, count)?;
            }
        }
        let mut dropped = family(encoder, Metric::WebSocketDropped)?;
        for (route, streams) in streams() {
            labelled_counter(&mut dropped, [(Label::Route, route)], streams.dropped)?;
        }
        let mut open = family(encoder, Metric::StreamsOpen)?;
        for route in &self.routes {
            // Harmless: a route without streams has no counts.
            for (kind, count) in StreamKind::ALL.iter().zip(route.open.into_iter().flatten()) {
                let labels = [(Label::Route, &*route.name), (Label::Kind, kind.label())];
                labelled_gauge(&mut open, labels, count)?;
            }
        }
        let mut ends = family(encoder, Metric::StreamEnds)?;
        for (route, streams) in streams() {
            // Harmless: there is a count for each kind.
            for (end, count) in StreamEnd::ALL.iter().zip(streams.ends) {
                let labels = [(Label::Route, route), (Label::Reason, end.label())];
                labelled_counter(&mut ends, labels, count)?;
            }
        }
        Ok(())
    }

    fn issuers(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut keys = family(encoder, Metric::IssuerKeys)?;
        for issuer in &self.issuers {
            let count = i64::try_from(issuer.keys).unwrap_or(i64::MAX);
            labelled_gauge(&mut keys, [(Label::Issuer, &issuer.name)], count)?;
        }
        let mut reads = family(encoder, Metric::IssuerReads)?;
        for issuer in &self.issuers {
            for (result, count) in [("success", issuer.succeeded), ("failure", issuer.failed)] {
                let labels = [(Label::Issuer, &*issuer.name), (Label::Result, result)];
                labelled_counter(&mut reads, labels, count)?;
            }
        }
        let mut read = family(encoder, Metric::IssuerRead)?;
        for issuer in self.issuers.iter().filter(|issuer| issuer.succeeded > 0) {
            let seconds = i64::try_from(issuer.succeeded_unix_seconds).unwrap_or(i64::MAX);
            labelled_gauge(&mut read, [(Label::Issuer, &issuer.name)], seconds)?;
        }
        Ok(())
    }

    fn stores(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut answers = family(encoder, Metric::StoreAnswers)?;
        for store in &self.stores {
            let answers_now = i64::from(store.answers > 0);
            labelled_gauge(&mut answers, [(Label::Store, &store.name)], answers_now)?;
        }
        let mut calls = family(encoder, Metric::StoreCalls)?;
        for store in &self.stores {
            for (result, count) in [("success", store.succeeded), ("failure", store.failed)] {
                let labels = [(Label::Store, &*store.name), (Label::Result, result)];
                labelled_counter(&mut calls, labels, count)?;
            }
        }
        Ok(())
    }

    fn durable(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(store) = &self.durable else { return Ok(()) };
        let count = store.syncs.iter().map(|(_, count)| count).sum();
        let mut syncs = family(encoder, Metric::StoreSync)?;
        syncs.encode_histogram::<NoLabelSet>(store.sync_seconds, count, &store.syncs, None)?;
        counter(&mut family(encoder, Metric::StoreRecords)?, &store.records)?;
        counter(&mut family(encoder, Metric::StoreBytes)?, &store.written_bytes)?;
        counter(&mut family(encoder, Metric::StoreCommits)?, &store.commits)?;
        counter(&mut family(encoder, Metric::StoreDamaged)?, &store.damaged)?;
        let Some(shared) = &store.shared else { return Ok(()) };
        let gauges = [
            (Metric::StoreAway, u64::from(shared.is_away)),
            (Metric::StoreNodes, shared.nodes),
            (Metric::StorePartitions, shared.partitions),
        ];
        for (metric, value) in gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            family(encoder, metric)?.encode_gauge(&value)?;
        }
        counter(&mut family(encoder, Metric::StoreLosses)?, &shared.losses)
    }

    fn definitions(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut compiled = family(encoder, Metric::DefinitionCompilations)?;
        for definition in &self.definitions {
            results(&mut compiled, &definition.name, definition.compiled)?;
        }
        let mut fetched = family(encoder, Metric::DefinitionFetches)?;
        for definition in &self.definitions {
            results(&mut fetched, &definition.name, definition.fetched)?;
        }
        Ok(())
    }

    fn operations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut calls = family(encoder, Metric::SoapOperations)?;
        for sum in &self.operations {
            for (fault, count) in &sum.counts {
                let labels = [
                    (Label::Route, &*sum.route),
                    (Label::Operation, &*sum.operation),
                    (Label::Fault, *fault),
                ];
                labelled_counter(&mut calls, labels, *count)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "microseconds of centuries fit 52 bits")]
    fn schedules(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut runs = family(encoder, Metric::ScheduleRuns)?;
        for schedule in &self.schedules {
            let results = [("success", schedule.succeeded), ("failure", schedule.failed)];
            for (result, count) in results {
                let labels = [(Label::Schedule, &*schedule.name), (Label::Result, result)];
                labelled_counter(&mut runs, labels, count)?;
            }
        }
        let mut skipped = family(encoder, Metric::ScheduleSkipped)?;
        for schedule in &self.schedules {
            let labels = [(Label::Schedule, &*schedule.name)];
            labelled_counter(&mut skipped, labels, schedule.skipped)?;
        }
        let mut last = family(encoder, Metric::ScheduleLast)?;
        for schedule in self.schedules.iter().filter(|sum| sum.last_unix_seconds > 0) {
            let seconds = i64::try_from(schedule.last_unix_seconds).unwrap_or(i64::MAX);
            labelled_gauge(&mut last, [(Label::Schedule, &schedule.name)], seconds)?;
        }
        Ok(())
    }

    fn topics(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut published = family(encoder, Metric::HubPublished)?;
        for sum in &self.topics {
            let labels = [(Label::Hub, &*sum.hub), (Label::Topic, &*sum.topic)];
            labelled_counter(&mut published, labels, sum.published)?;
        }
        let mut deliveries = family(encoder, Metric::HubDeliveries)?;
        for sum in &self.topics {
            for (outcome, count) in sum.outcomes {
                let labels = [
                    (Label::Hub, &*sum.hub),
                    (Label::Topic, &*sum.topic),
                    (Label::Outcome, outcome),
                ];
                labelled_counter(&mut deliveries, labels, count)?;
            }
        }
        let mut lag = family(encoder, Metric::HubLag)?;
        for sum in &self.topics {
            let labels = [(Label::Hub, &*sum.hub), (Label::Topic, &*sum.topic)];
            labelled_gauge(&mut lag, labels, sum.lag)?;
        }
        Ok(())
    }

    fn flows(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let flows = || self.flows.iter().filter(|sum| sum.step.is_none());
        let mut runs = family(encoder, Metric::FlowRuns)?;
        for sum in flows() {
            labelled_counter(&mut runs, [(Label::Flow, &*sum.flow)], sum.runs)?;
        }
        let mut faults = family(encoder, Metric::FlowFaults)?;
        for sum in flows() {
            for (reason, count) in &sum.faults {
                let labels = [(Label::Flow, &*sum.flow), (Label::Reason, *reason)];
                labelled_counter(&mut faults, labels, *count)?;
            }
        }
        // Harmless: the sum of a flow has no step.
        let steps = || self.flows.iter().filter_map(|sum| Some((sum, sum.step.as_deref()?)));
        let mut runs = family(encoder, Metric::FlowStepRuns)?;
        for (sum, step) in steps() {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            labelled_counter(&mut runs, labels, sum.runs)?;
        }
        let mut faults = family(encoder, Metric::FlowStepFaults)?;
        for (sum, step) in steps() {
            for (reason, count) in &sum.faults {
                let labels =
                    [(Label::Flow, &*sum.flow), (Label::FlowStep, step), (Label::Reason, *reason)];
                labelled_counter(&mut faults, labels, *count)?;
            }
        }
        let mut faults = family(encoder, Metric::FlowBranchFaults)?;
        for (sum, step) in steps() {
            for (reason, count) in &sum.branch_faults {
                let labels =
                    [(Label::Flow, &*sum.flow), (Label::FlowStep, step), (Label::Reason, *reason)];
                labelled_counter(&mut faults, labels, *count)?;
            }
        }
        let mut dropped = family(encoder, Metric::FlowTapsDropped)?;
        for (sum, step) in steps().filter(|(sum, _)| sum.dropped > 0) {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            labelled_counter(&mut dropped, labels, sum.dropped)?;
        }
        let mut own = family(encoder, Metric::FlowStepOwn)?;
        for (sum, step) in steps() {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            labelled_counter(&mut own, labels, sum.own_micros as f64 / 1e6)?;
        }
        let mut calls = family(encoder, Metric::FlowStepCall)?;
        for (sum, step) in steps() {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            labelled_counter(&mut calls, labels, sum.call_micros as f64 / 1e6)?;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "microseconds of centuries fit 52 bits")]
    fn engine(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let Some(engine) = &self.engine else { return Ok(()) };
        family(encoder, Metric::EngineThreads)?.encode_gauge(&engine.threads)?;
        family(encoder, Metric::EnginePending)?.encode_gauge(&engine.pending)?;
        family(encoder, Metric::EngineHeap)?.encode_gauge(&engine.heap_used_bytes)?;
        family(encoder, Metric::EngineHeapMax)?.encode_gauge(&engine.heap_max_bytes)?;
        let mut calls = family(encoder, Metric::EngineCalls)?;
        labelled_counter(&mut calls, [(Label::Result, "success")], engine.done)?;
        labelled_counter(&mut calls, [(Label::Result, "failure")], engine.failed)?;
        labelled_counter(&mut calls, [(Label::Result, "refused")], engine.refused)?;
        counter(&mut family(encoder, Metric::EngineOnWorkers)?, &engine.on_workers)?;
        counter(&mut family(encoder, Metric::EngineStopped)?, &engine.stopped)?;
        let seconds = engine.busy_micros as f64 / 1e6;
        counter(&mut family(encoder, Metric::EngineBusy)?, &seconds)
    }

    fn memory(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let MemoryReading { used, limit, refused } = self.memory;
        family(encoder, Metric::MemoryUsed)?.encode_gauge(&used)?;
        if let Some(limit) = limit {
            family(encoder, Metric::MemoryLimit)?.encode_gauge(&limit)?;
        }
        counter(&mut family(encoder, Metric::MemoryRefused)?, &refused)
    }

    fn durations(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut total = family(encoder, Metric::Duration)?;
        for route in &self.routes {
            histogram(&mut total, &route.name, &route.total, &WAIT_MICROS)?;
        }
        let mut own = family(encoder, Metric::OwnDuration)?;
        for route in &self.routes {
            histogram(&mut own, &route.name, &route.own, &OWN_MICROS)?;
        }
        let mut upstream = family(encoder, Metric::UpstreamDuration)?;
        for route in self.routes.iter().filter(|route| route.upstream.count() > 0) {
            histogram(&mut upstream, &route.name, &route.upstream, &WAIT_MICROS)?;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit 52 bits")]
    fn configuration(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let reloads = &self.reloads;
        family(encoder, Metric::ConfigInfo)?
            .encode_info(&[(Label::Hash.name(), &*reloads.hash)])?;
        family(encoder, Metric::ConfigGeneration)?.encode_gauge(&reloads.generation)?;
        family(encoder, Metric::PlansAlive)?.encode_gauge(&reloads.plans)?;
        let seconds = reloads.succeeded_unix_millis as f64 / 1e3;
        family(encoder, Metric::ConfigReloaded)?.encode_gauge(&seconds)?;
        let mut results = family(encoder, Metric::ConfigReloads)?;
        labelled_counter(&mut results, [(Label::Result, "success")], reloads.succeeded)?;
        labelled_counter(&mut results, [(Label::Result, "failure")], reloads.failed)?;
        let mut expiries = family(encoder, Metric::CertificateExpiry)?;
        for CertificateExpiry { place, not_after } in reloads.certificates.iter() {
            labelled_gauge(&mut expiries, [(Label::Certificate, place)], *not_after)?;
        }
        Ok(())
    }

    fn process(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let process = &self.process;
        let gauges = [
            (Metric::ProcessResident, process.resident_bytes),
            (Metric::ProcessVirtual, process.virtual_bytes),
            (Metric::ProcessThreads, process.threads),
            (Metric::ProcessFds, process.open_fds),
            (Metric::ProcessFdsMax, process.max_fds),
            (Metric::ProcessStart, Some(self.started_unix_seconds)),
        ];
        for (metric, value) in gauges {
            if let Some(value) = value {
                family(encoder, metric)?.encode_gauge(&value)?;
            }
        }
        match process.cpu_seconds {
            Some(seconds) => counter(&mut family(encoder, Metric::ProcessCpu)?, &seconds),
            None => Ok(()),
        }
    }
}

fn family<'s>(
    encoder: &'s mut DescriptorEncoder<'_>,
    metric: Metric,
) -> Result<MetricEncoder<'s>, fmt::Error> {
    encoder.encode_descriptor(metric.name(), metric.help(), None, metric.kind())
}

fn counter(encoder: &mut MetricEncoder<'_>, value: &impl EncodeCounterValue) -> fmt::Result {
    let exemplar: Option<&Exemplar<NoLabelSet, f64>> = None;
    encoder.encode_counter(value, exemplar)
}

/// Successes and failures of a definition's compilations or fetches.
fn results(encoder: &mut MetricEncoder<'_>, definition: &str, counts: [u64; 2]) -> fmt::Result {
    // Harmless: there are two of each.
    for (result, count) in ["success", "failure"].into_iter().zip(counts) {
        let labels = [(Label::Definition, definition), (Label::Result, result)];
        labelled_counter(encoder, labels, count)?;
    }
    Ok(())
}

fn labelled_counter<const N: usize>(
    encoder: &mut MetricEncoder<'_>,
    labels: [(Label, &str); N],
    value: impl EncodeCounterValue,
) -> fmt::Result {
    let labels = labels.map(|(label, value)| (label.name(), value));
    counter(&mut encoder.encode_family(&labels)?, &value)
}

fn labelled_gauge<const N: usize>(
    encoder: &mut MetricEncoder<'_>,
    labels: [(Label, &str); N],
    value: impl EncodeGaugeValue,
) -> fmt::Result {
    let labels = labels.map(|(label, value)| (label.name(), value));
    encoder.encode_family(&labels)?.encode_gauge(&value)
}

fn histogram<const BUCKETS: usize>(
    encoder: &mut MetricEncoder<'_>,
    route: &str,
    sum: &Sum<BUCKETS>,
    micros: &[u32],
) -> fmt::Result {
    let bounds = micros.iter().map(|bound| f64::from(*bound) / 1e6).chain([f64::INFINITY]);
    // Harmless: there is a bound for each bucket.
    let mut bounds = bounds.zip(sum.buckets);
    // Harmless: the same.
    let buckets: [(f64, u64); BUCKETS] = std::array::from_fn(|_| bounds.next().unwrap_or_default());
    let labels = [(Label::Route.name(), route)];
    let mut encoder = encoder.encode_family(&labels)?;
    encoder.encode_histogram::<NoLabelSet>(sum.seconds(), sum.count(), &buckets, None)
}
