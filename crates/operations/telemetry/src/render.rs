//! Renders a snapshot. Owns the order of the metrics and the choice of samples; `scrape` owns the formats.

mod queues;
mod upstreams;

use crate::histogram::{OWN_MICROS, WAIT_MICROS};
use crate::listener::Refusal;
use crate::names::{Label, Metric};
use crate::parses::Format;
use crate::reload::CertificateExpiry;
use crate::route::{CLASSES, MirrorOutcome, StreamEnd};
use crate::scrape::{Family, Scrape};
use crate::snapshot::{ListenerSum, MemoryReading, RouteSum, Snapshot};
use crate::stream_kind::StreamKind;
use grpc::Outcome;
use std::fmt;

const STATUS_CLASSES: [&str; CLASSES] = ["1xx", "2xx", "3xx", "4xx", "5xx"];

impl Snapshot {
    /// Writes all metrics.
    pub(crate) fn render(&self, mut to: Scrape<'_>) -> fmt::Result {
        let scrape = &mut to;
        self.program(scrape)?;
        self.workers(scrape)?;
        self.listeners(scrape)?;
        self.routes(scrape)?;
        self.durations(scrape)?;
        self.upstreams(scrape)?;
        self.targets(scrape)?;
        self.issuers(scrape)?;
        self.stores(scrape)?;
        self.durable(scrape)?;
        self.definitions(scrape)?;
        self.operations(scrape)?;
        self.flows(scrape)?;
        self.schedules(scrape)?;
        self.topics(scrape)?;
        self.queues(scrape)?;
        self.engine(scrape)?;
        self.memory(scrape)?;
        self.configuration(scrape)?;
        self.process(scrape)?;
        to.finish()
    }

    fn program(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let version = [(Label::Version, env!("CARGO_PKG_VERSION"))];
        scrape.family(Metric::BuildInfo)?.sample(version, 1_u64)?;
        scrape.family(Metric::Workers)?.sample([], self.workers.len())?;
        // Harmless: there is a total for each metric.
        for (metric, total) in Metric::ALL.iter().zip(&self.totals) {
            if metric.is_total() {
                scrape.family(*metric)?.sample([], *total)?;
            }
        }
        Ok(())
    }

    fn workers(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut requests = scrape.family(Metric::WorkerRequests)?;
        for worker in &self.workers {
            requests.sample([(Label::Worker, &worker.name)], worker.requests)?;
        }
        let mut panics = scrape.family(Metric::WorkerPanics)?;
        for worker in &self.workers {
            panics.sample([(Label::Worker, &worker.name)], worker.panics)?;
        }
        let mut open = scrape.family(Metric::WorkerConnections)?;
        for worker in &self.workers {
            open.sample([(Label::Worker, &worker.name)], worker.connections_open)?;
        }
        let mut parses = scrape.family(Metric::MessageParses)?;
        for (at, format) in Format::ALL.into_iter().enumerate() {
            // Harmless: a worker has a counter for each format.
            let counts = self.workers.iter().filter_map(|worker| worker.parses.get(at));
            let labels = [(Label::Format, format.label())];
            parses.sample(labels, counts.sum::<u64>())?;
        }
        Ok(())
    }

    fn listeners(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut open = scrape.family(Metric::ConnectionsOpen)?;
        for ListenerSum { name, open: value, .. } in &self.listeners {
            open.sample([(Label::Listener, name)], *value)?;
        }
        let mut opened = scrape.family(Metric::Connections)?;
        for ListenerSum { name, opened: value, .. } in &self.listeners {
            opened.sample([(Label::Listener, name)], *value)?;
        }
        let mut refused = scrape.family(Metric::ConnectionsRefused)?;
        for listener in &self.listeners {
            // Harmless: there is a count for each kind.
            for (refusal, count) in Refusal::ALL.iter().zip(listener.refused) {
                let labels = [(Label::Listener, &*listener.name), (Label::Reason, refusal.label())];
                refused.sample(labels, count)?;
            }
        }
        let mut displaced = scrape.family(Metric::ConnectionsDisplaced)?;
        for ListenerSum { name, displaced: value, .. } in &self.listeners {
            displaced.sample([(Label::Listener, name)], *value)?;
        }
        Ok(())
    }

    fn routes(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut requests = scrape.family(Metric::Requests)?;
        for route in &self.routes {
            // Harmless: there is a count for each class.
            for (class, count) in STATUS_CLASSES.into_iter().zip(route.classes) {
                let labels = [(Label::Route, &*route.name), (Label::StatusClass, class)];
                requests.sample(labels, count)?;
            }
        }
        let mut bytes = scrape.family(Metric::RequestBytes)?;
        for RouteSum { name, request_bytes, .. } in &self.routes {
            bytes.sample([(Label::Route, name)], *request_bytes)?;
        }
        let mut bytes = scrape.family(Metric::ReplyBytes)?;
        for RouteSum { name, reply_bytes, .. } in &self.routes {
            bytes.sample([(Label::Route, name)], *reply_bytes)?;
        }
        let mut faults = scrape.family(Metric::Faults)?;
        for route in &self.routes {
            for (reason, count) in &route.faults {
                let labels = [(Label::Route, &*route.name), (Label::Reason, *reason)];
                faults.sample(labels, *count)?;
            }
        }
        let mut calls = scrape.family(Metric::GrpcCalls)?;
        for route in &self.routes {
            // Harmless: a route without calls has no counts.
            let counts = route.grpc.iter().flatten().enumerate();
            for (index, count) in counts.filter(|(_, count)| **count > 0) {
                let status = Outcome::at(index).label();
                let labels = [(Label::Route, &*route.name), (Label::GrpcStatus, status)];
                calls.sample(labels, *count)?;
            }
        }
        let mut mirrored = scrape.family(Metric::Mirrored)?;
        for route in &self.routes {
            // Harmless: a route without copies has no counts.
            for (outcome, count) in MirrorOutcome::ALL.iter().zip(route.mirrored.iter().flatten()) {
                let labels = [(Label::Route, &*route.name), (Label::Outcome, outcome.label())];
                mirrored.sample(labels, *count)?;
            }
        }
        self.streams(scrape)
    }

    fn streams(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let streams =
            // Harmless: a route without streams has no counts.
            || self.routes.iter().filter_map(|route| Some((&*route.name, route.streams.as_ref()?)));
        let mut events = scrape.family(Metric::SseEvents)?;
        for (route, streams) in streams() {
            events.sample([(Label::Route, route)], streams.events)?;
        }
        let mut messages = scrape.family(Metric::WebSocketMessages)?;
        for (route, streams) in streams() {
            // Harmless: there is a count for each direction.
            for (direction, count) in ["received", "sent"].into_iter().zip(streams.messages) {
                let labels = [(Label::Route, route), (Label::Direction, direction)];
                messages.sample(labels, count)?;
            }
        }
        let mut dropped = scrape.family(Metric::WebSocketDropped)?;
        for (route, streams) in streams() {
            dropped.sample([(Label::Route, route)], streams.dropped)?;
        }
        let mut open = scrape.family(Metric::StreamsOpen)?;
        for route in &self.routes {
            // Harmless: a route without streams has no counts.
            for (kind, count) in StreamKind::ALL.iter().zip(route.open.into_iter().flatten()) {
                let labels = [(Label::Route, &*route.name), (Label::Kind, kind.label())];
                open.sample(labels, count)?;
            }
        }
        let mut ends = scrape.family(Metric::StreamEnds)?;
        for (route, streams) in streams() {
            // Harmless: there is a count for each kind.
            for (end, count) in StreamEnd::ALL.iter().zip(streams.ends) {
                let labels = [(Label::Route, route), (Label::Reason, end.label())];
                ends.sample(labels, count)?;
            }
        }
        Ok(())
    }

    fn issuers(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut keys = scrape.family(Metric::IssuerKeys)?;
        for issuer in &self.issuers {
            let count = i64::try_from(issuer.keys).unwrap_or(i64::MAX);
            keys.sample([(Label::Issuer, &issuer.name)], count)?;
        }
        let mut reads = scrape.family(Metric::IssuerReads)?;
        for issuer in &self.issuers {
            for (result, count) in [("success", issuer.succeeded), ("failure", issuer.failed)] {
                let labels = [(Label::Issuer, &*issuer.name), (Label::Result, result)];
                reads.sample(labels, count)?;
            }
        }
        let mut read = scrape.family(Metric::IssuerRead)?;
        for issuer in self.issuers.iter().filter(|issuer| issuer.succeeded > 0) {
            let seconds = i64::try_from(issuer.succeeded_unix_seconds).unwrap_or(i64::MAX);
            read.sample([(Label::Issuer, &issuer.name)], seconds)?;
        }
        Ok(())
    }

    fn stores(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut answers = scrape.family(Metric::StoreAnswers)?;
        for store in &self.stores {
            let answers_now = i64::from(store.answers > 0);
            answers.sample([(Label::Store, &store.name)], answers_now)?;
        }
        let mut calls = scrape.family(Metric::StoreCalls)?;
        for store in &self.stores {
            for (result, count) in [("success", store.succeeded), ("failure", store.failed)] {
                let labels = [(Label::Store, &*store.name), (Label::Result, result)];
                calls.sample(labels, count)?;
            }
        }
        Ok(())
    }

    fn durable(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let Some(store) = &self.durable else { return Ok(()) };
        let (bounds, counts): (Vec<f64>, Vec<u64>) = store.syncs.iter().copied().unzip();
        let mut syncs = scrape.histogram(Metric::StoreSync, bounds.into_iter())?;
        syncs.sample(None, store.sync_seconds, &counts, None)?;
        scrape.family(Metric::StoreRecords)?.sample([], store.records)?;
        scrape.family(Metric::StoreBytes)?.sample([], store.written_bytes)?;
        scrape.family(Metric::StoreCommits)?.sample([], store.commits)?;
        scrape.family(Metric::StoreDamaged)?.sample([], store.damaged)?;
        let Some(shared) = &store.shared else { return Ok(()) };
        let gauges = [
            (Metric::StoreAway, u64::from(shared.is_away)),
            (Metric::StoreNodes, shared.nodes),
            (Metric::StorePartitions, shared.partitions),
        ];
        for (metric, value) in gauges {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            scrape.family(metric)?.sample([], value)?;
        }
        scrape.family(Metric::StoreLosses)?.sample([], shared.losses)
    }

    fn definitions(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut compiled = scrape.family(Metric::DefinitionCompilations)?;
        for definition in &self.definitions {
            results(&mut compiled, &definition.name, definition.compiled)?;
        }
        let mut fetched = scrape.family(Metric::DefinitionFetches)?;
        for definition in &self.definitions {
            results(&mut fetched, &definition.name, definition.fetched)?;
        }
        Ok(())
    }

    fn operations(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut calls = scrape.family(Metric::SoapOperations)?;
        for sum in &self.operations {
            for (fault, count) in &sum.counts {
                let labels = [
                    (Label::Route, &*sum.route),
                    (Label::Operation, &*sum.operation),
                    (Label::Fault, *fault),
                ];
                calls.sample(labels, *count)?;
            }
        }
        Ok(())
    }

    fn schedules(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut runs = scrape.family(Metric::ScheduleRuns)?;
        for schedule in &self.schedules {
            let results = [("success", schedule.succeeded), ("failure", schedule.failed)];
            for (result, count) in results {
                let labels = [(Label::Schedule, &*schedule.name), (Label::Result, result)];
                runs.sample(labels, count)?;
            }
        }
        let mut skipped = scrape.family(Metric::ScheduleSkipped)?;
        for schedule in &self.schedules {
            let labels = [(Label::Schedule, &*schedule.name)];
            skipped.sample(labels, schedule.skipped)?;
        }
        let mut last = scrape.family(Metric::ScheduleLast)?;
        for schedule in self.schedules.iter().filter(|sum| sum.last_unix_seconds > 0) {
            let seconds = i64::try_from(schedule.last_unix_seconds).unwrap_or(i64::MAX);
            last.sample([(Label::Schedule, &schedule.name)], seconds)?;
        }
        Ok(())
    }

    fn topics(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut published = scrape.family(Metric::HubPublished)?;
        for sum in &self.topics {
            let labels = [(Label::Hub, &*sum.hub), (Label::Topic, &*sum.topic)];
            published.sample(labels, sum.published)?;
        }
        let mut deliveries = scrape.family(Metric::HubDeliveries)?;
        for sum in &self.topics {
            for (outcome, count) in sum.outcomes {
                let labels = [
                    (Label::Hub, &*sum.hub),
                    (Label::Topic, &*sum.topic),
                    (Label::Outcome, outcome),
                ];
                deliveries.sample(labels, count)?;
            }
        }
        let mut lag = scrape.family(Metric::HubLag)?;
        for sum in &self.topics {
            let labels = [(Label::Hub, &*sum.hub), (Label::Topic, &*sum.topic)];
            lag.sample(labels, sum.lag)?;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "microseconds of centuries fit 52 bits")]
    fn flows(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let flows = || self.flows.iter().filter(|sum| sum.step.is_none());
        let mut runs = scrape.family(Metric::FlowRuns)?;
        for sum in flows() {
            runs.sample([(Label::Flow, &*sum.flow)], sum.runs)?;
        }
        let mut faults = scrape.family(Metric::FlowFaults)?;
        for sum in flows() {
            for (reason, count) in &sum.faults {
                let labels = [(Label::Flow, &*sum.flow), (Label::Reason, *reason)];
                faults.sample(labels, *count)?;
            }
        }
        // Harmless: the sum of a flow has no step.
        let steps = || self.flows.iter().filter_map(|sum| Some((sum, sum.step.as_deref()?)));
        let mut runs = scrape.family(Metric::FlowStepRuns)?;
        for (sum, step) in steps() {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            runs.sample(labels, sum.runs)?;
        }
        let mut faults = scrape.family(Metric::FlowStepFaults)?;
        for (sum, step) in steps() {
            for (reason, count) in &sum.faults {
                let labels =
                    [(Label::Flow, &*sum.flow), (Label::FlowStep, step), (Label::Reason, *reason)];
                faults.sample(labels, *count)?;
            }
        }
        let mut faults = scrape.family(Metric::FlowBranchFaults)?;
        for (sum, step) in steps() {
            for (reason, count) in &sum.branch_faults {
                let labels =
                    [(Label::Flow, &*sum.flow), (Label::FlowStep, step), (Label::Reason, *reason)];
                faults.sample(labels, *count)?;
            }
        }
        let mut dropped = scrape.family(Metric::FlowTapsDropped)?;
        for (sum, step) in steps().filter(|(sum, _)| sum.dropped > 0) {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            dropped.sample(labels, sum.dropped)?;
        }
        let mut own = scrape.family(Metric::FlowStepOwn)?;
        for (sum, step) in steps() {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            own.sample(labels, sum.own_micros as f64 / 1e6)?;
        }
        let mut calls = scrape.family(Metric::FlowStepCall)?;
        for (sum, step) in steps() {
            let labels = [(Label::Flow, &*sum.flow), (Label::FlowStep, step)];
            calls.sample(labels, sum.call_micros as f64 / 1e6)?;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "microseconds of centuries fit 52 bits")]
    fn engine(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let Some(engine) = &self.engine else { return Ok(()) };
        scrape.family(Metric::EngineThreads)?.sample([], engine.threads)?;
        scrape.family(Metric::EnginePending)?.sample([], engine.pending)?;
        scrape.family(Metric::EngineHeap)?.sample([], engine.heap_used_bytes)?;
        scrape.family(Metric::EngineHeapMax)?.sample([], engine.heap_max_bytes)?;
        let mut calls = scrape.family(Metric::EngineCalls)?;
        calls.sample([(Label::Result, "success")], engine.done)?;
        calls.sample([(Label::Result, "failure")], engine.failed)?;
        calls.sample([(Label::Result, "refused")], engine.refused)?;
        scrape.family(Metric::EngineOnWorkers)?.sample([], engine.on_workers)?;
        scrape.family(Metric::EngineStopped)?.sample([], engine.stopped)?;
        let seconds = engine.busy_micros as f64 / 1e6;
        scrape.family(Metric::EngineBusy)?.sample([], seconds)
    }

    fn memory(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let MemoryReading { used, limit, refused } = self.memory;
        scrape.family(Metric::MemoryUsed)?.sample([], used)?;
        if let Some(limit) = limit {
            scrape.family(Metric::MemoryLimit)?.sample([], limit)?;
        }
        scrape.family(Metric::MemoryRefused)?.sample([], refused)
    }

    fn durations(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let mut total = scrape.histogram(Metric::Duration, seconds(&WAIT_MICROS))?;
        for RouteSum { name, total: sum, exemplars, .. } in &self.routes {
            let label = Some((Label::Route, &**name));
            total.sample(label, sum.seconds(), &sum.buckets, exemplars.as_deref())?;
        }
        let mut own = scrape.histogram(Metric::OwnDuration, seconds(&OWN_MICROS))?;
        for RouteSum { name, own: sum, .. } in &self.routes {
            own.sample(Some((Label::Route, name)), sum.seconds(), &sum.buckets, None)?;
        }
        let mut upstream = scrape.histogram(Metric::UpstreamDuration, seconds(&WAIT_MICROS))?;
        for RouteSum { name, upstream: sum, .. } in &self.routes {
            if sum.count() > 0 {
                upstream.sample(Some((Label::Route, name)), sum.seconds(), &sum.buckets, None)?;
            }
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss, reason = "milliseconds since 1970 fit 52 bits")]
    fn configuration(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
        let reloads = &self.reloads;
        scrape.family(Metric::ConfigInfo)?.sample([(Label::Hash, &*reloads.hash)], 1_u64)?;
        scrape.family(Metric::ConfigGeneration)?.sample([], reloads.generation)?;
        scrape.family(Metric::PlansAlive)?.sample([], reloads.plans)?;
        let seconds = reloads.succeeded_unix_millis as f64 / 1e3;
        scrape.family(Metric::ConfigReloaded)?.sample([], seconds)?;
        let mut results = scrape.family(Metric::ConfigReloads)?;
        results.sample([(Label::Result, "success")], reloads.succeeded)?;
        results.sample([(Label::Result, "failure")], reloads.failed)?;
        let mut expiries = scrape.family(Metric::CertificateExpiry)?;
        for CertificateExpiry { place, not_after } in reloads.certificates.iter() {
            expiries.sample([(Label::Certificate, place)], *not_after)?;
        }
        Ok(())
    }

    fn process(&self, scrape: &mut Scrape<'_>) -> fmt::Result {
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
                scrape.family(metric)?.sample([], value)?;
            }
        }
        match process.cpu_seconds {
            Some(seconds) => scrape.family(Metric::ProcessCpu)?.sample([], seconds),
            None => Ok(()),
        }
    }
}

/// Successes and failures of a definition's compilations or fetches.
fn results(family: &mut Family<'_, '_>, definition: &str, counts: [u64; 2]) -> fmt::Result {
    // Harmless: both arrays have two items.
    for (result, count) in ["success", "failure"].into_iter().zip(counts) {
        let labels = [(Label::Definition, definition), (Label::Result, result)];
        family.sample(labels, count)?;
    }
    Ok(())
}

/// The bounds of a histogram in seconds, followed by infinity.
fn seconds(micros: &[u32]) -> impl Iterator<Item = f64> {
    micros.iter().map(|bound| f64::from(*bound) / 1e6).chain([f64::INFINITY])
}
