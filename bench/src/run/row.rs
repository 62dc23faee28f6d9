//! One row: its processes, its load, and its files.

#![allow(clippy::disallowed_methods, reason = "the machine's clock is the measuring tool")]

use std::fs;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::cores::{CoreLists, cores};
use super::meter::Meter;
use super::own_latency::own_latency;
use super::sampler::{Sampler, Samples};
use super::senders::Senders;
use super::servers::{Ground, Servers, Starting};
use super::watchers::Watchers;
use crate::folder::{
    Corrected, Cost, Folder, LABEL, Mark, Measured, Part, Row as RowFile, RowDuration, RowFolder,
    RowKey, Second, Settled, Statistics, Summary,
};
use crate::generator::{self, Control, Load, Outcome, Phase, Work};
use crate::process::{check_stopped, pause};
use crate::scenarios::Row;

/// One run of a row with one gateway.
pub(super) struct RowRun<'a> {
    pub(super) row: &'a Row,
    pub(super) key: RowKey,
    pub(super) starting: Starting<'a>,
    pub(super) cores: &'a CoreLists,
    pub(super) jtl: bool,
    pub(super) senders: &'a Senders,
}

/// The result of a run.
pub(super) enum RowEnd {
    /// The row was run and has these marks.
    Done(Vec<Mark>),
    /// The gateway cannot do the work.
    Cannot,
}

/// Maximum share of its cores that a backend may use. Above it, the backend limits the row.
const BACKEND_BUSY_MAX: f64 = 0.9;
/// Time for which the gateway is sampled before a load of event streams.
const IDLE: Duration = Duration::from_millis(2200);
/// Time for which it is sampled after such a load. Document 003 claims that CPU settles.
const SETTLE: Duration = Duration::from_millis(5200);
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// Maximum time after the end of a load until the replies in progress are complete.
const AFTER_END_MAX: Duration = Duration::from_secs(180);

impl RowRun<'_> {
    /// Runs the row and writes its files.
    ///
    /// # Errors
    ///
    /// If the run was interrupted. Any other failure is a mark of the row.
    pub(super) fn run(
        &self,
        ground: &Ground,
        folder: &Folder,
        tick: &mut dyn FnMut(),
    ) -> Result<RowEnd> {
        let files = folder.row(&self.key);
        let error = match self.run_into(&files, ground, tick) {
            Err(error) if is_disk_full(&error) => error,
            ended => return ended,
        };
        super::say(&format!("{}: {error:#}", self.key.path().display()));
        let marks = vec![Mark::DiskFull];
        // The small file with the mark may still fit. Without it, the row runs again with `--resume`.
        match self.finish_without(&files, marks.clone()) {
            Err(error) if is_disk_full(&error) => Ok(RowEnd::Done(marks)),
            ended => ended,
        }
    }

    fn run_into(
        &self,
        files: &RowFolder,
        ground: &Ground,
        tick: &mut dyn FnMut(),
    ) -> Result<RowEnd> {
        ground.make_tokens(self.row.scenario.tokens())?;
        let backends = match ground.start_backends(self.row) {
            Ok(backends) => backends,
            Err(error) => return self.not_started(files, error, Mark::BackendStopped),
        };
        let heap = &self.key.heap;
        let mut servers = match ground.start(self.row, self.starting, heap, self.senders, backends)
        {
            Ok(Some(servers)) => servers,
            Ok(None) => return Ok(RowEnd::Cannot),
            Err(error) => return self.not_started(files, error, Mark::GatewayStopped),
        };
        let run = ground.row_load(servers.address, self.senders);
        let load = self.row.load(&run).map_err(anyhow::Error::msg)?;
        fs::create_dir_all(&files.path).with_context(|| files.path.display().to_string())?;
        match self.send(&load, &mut servers, files, tick)? {
            Ok(result) => self.write(files, &load, ground, result),
            Err(marks) => self.finish_without(files, marks),
        }
    }

    /// Writes a row of which a process did not start.
    fn not_started(&self, files: &RowFolder, error: io::Error, mark: Mark) -> Result<RowEnd> {
        if is_full(&error) {
            return Err(error.into());
        }
        check_stopped()?;
        super::say(&format!("{}: {error}", self.key.path().display()));
        self.finish_without(files, vec![mark])
    }

    /// Writes a row for which nothing was measured.
    fn finish_without(&self, files: &RowFolder, marks: Vec<Mark>) -> Result<RowEnd> {
        let row = RowFile { marks: marks.clone(), ..self.row_file() };
        files.finish(&row)?;
        Ok(RowEnd::Done(marks))
    }

    fn row_file(&self) -> RowFile {
        RowFile {
            document: self.row.scenario.document().to_owned(),
            scenario: self.key.scenario.clone(),
            users: self.key.users,
            size: self.key.size,
            delay: self.key.delay,
            ..RowFile::default()
        }
    }

    /// Sends the load, and watches the processes meanwhile. Returns only marks if no load server has a result.
    fn send(
        &self,
        load: &Load,
        servers: &mut Servers,
        files: &RowFolder,
        tick: &mut dyn FnMut(),
    ) -> Result<Result<LoadResult, Vec<Mark>>> {
        let pids = vec![
            (self.key.gateway.clone(), servers.gateway_pids()),
            ("netty".to_owned(), servers.backend_pids()),
            ("jmeter".to_owned(), self.senders.pids()),
        ];
        let sampler = Sampler::start(pids)?;
        let settles = self.row.scenario.settles();
        if settles {
            pause(IDLE)?;
        }
        let control = Control::default();
        let log = self.jtl.then(|| fs::File::create(files.path.join("results.jtl"))).transpose()?;
        let meter = Meter::new(servers.gateway_pids(), &self.cores.own());
        let mut watched = Watched { marks: Vec::new(), before: None, meter };
        let is_over = AtomicBool::new(false);
        let outcome = thread::scope(|scope| -> Result<_> {
            let watches = &self.row.scenario.own.watch;
            let watchers = Watchers::start(scope, servers.admin(), watches, &is_over);
            let sender = scope.spawn(|| self.senders.send(load, &control, log));
            let is_sent = || sender.is_finished();
            let seen = self.watch(&is_sent, load, &control, servers, &mut watched, tick);
            is_over.store(true, Ordering::SeqCst);
            seen?;
            watchers.finish()?;
            sender.join().map_err(|_| anyhow::anyhow!("the generator panicked"))
        })?;
        let Watched { mut marks, before, meter } = watched;
        check_stopped()?;
        let after = servers.metrics();
        if settles && marks.is_empty() {
            pause(SETTLE)?;
        }
        let samples = sampler.finish();
        let gc_log = servers.gc_log();
        let own = before.zip(after).and_then(|(before, after)| own_latency(&before, &after));
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(why) if self.senders.are_agents() => {
                super::say(&format!("{}: {why}", self.key.path().display()));
                // Load servers return no results of a load that was stopped.
                return Ok(Err(if marks.is_empty() { vec![Mark::AgentLost] } else { marks }));
            }
            Err(why) => return Err(anyhow::Error::msg(why)),
        };
        for lost in &outcome.agents_lost {
            super::say(&format!("{}: load server {lost}", self.key.path().display()));
        }
        if outcome.log_failed.is_some() {
            marks.push(Mark::DiskFull);
        }
        let (workers, gateway_started) = (servers.workers, servers.started);
        // Load servers report their counts too rarely to be compared with CPU time, and that of a gateway that has ended is gone.
        let is_unknown = self.senders.are_agents() || marks.contains(&Mark::GatewayStopped);
        let cost = if is_unknown { None } else { meter.cost() };
        Ok(Ok(LoadResult { outcome, samples, marks, own, gc_log, workers, gateway_started, cost }))
    }

    /// Watches the processes until the load has been sent, and stops the load if one of them ends.
    fn watch(
        &self,
        is_finished: &dyn Fn() -> bool,
        load: &Load,
        control: &Control,
        servers: &mut Servers,
        watched: &mut Watched,
        tick: &mut dyn FnMut(),
    ) -> Result<()> {
        let Watched { marks, before, meter } = watched;
        let begin = std::time::Instant::now();
        while !is_finished() {
            tick();
            if begin.elapsed() < load.warm_up {
                // All streams are open before the first message, so their memory before the measurement is not sampled.
                if matches!(load.work, Work::Requests(_)) {
                    meter.look_before(control.samples(), self.key.users);
                }
            } else if begin.elapsed() < load.duration {
                // Without the counts of the warm-up, those of the measurement are unknown.
                if before.is_none() {
                    *before = servers.metrics();
                }
                meter.look(control.samples());
            }
            let stopped = check_stopped().is_err();
            if marks.is_empty() && servers.has_gateway_ended()? {
                marks.push(Mark::GatewayStopped);
            }
            if marks.is_empty() && servers.has_backend_ended()? {
                marks.push(Mark::BackendStopped);
            }
            if stopped || !marks.is_empty() || begin.elapsed() > load.duration + AFTER_END_MAX {
                control.stop();
            }
            thread::sleep(LOOK_AGAIN);
        }
        // The load of a hub may end early, with the last delivery.
        if (load.warm_up..load.duration).contains(&begin.elapsed()) {
            meter.look(control.samples());
        }
        Ok(())
    }

    fn write(
        &self,
        files: &RowFolder,
        load: &Load,
        ground: &Ground,
        result: LoadResult,
    ) -> Result<RowEnd> {
        let mut marks = result.marks.clone();
        let mut row = self.measured(&result);
        marks.extend(doubts(&result, &row, ground, &self.key.gateway));
        // If rows differ in the ramp, those without a ramp have the figure too.
        let has_ramp = !self.row.ramp.is_zero() || !self.row.scenario.own.ramps.is_empty();
        row.ramp_seconds = has_ramp.then_some(self.row.ramp.as_secs_f64());
        row.marks = marks.clone();
        let written = self.write_files(files, load, &result).and_then(|()| files.finish(&row));
        let Err(error) = written else { return Ok(RowEnd::Done(marks)) };
        if !is_disk_full(&error) {
            return Err(error);
        }
        super::say(&format!("{}: {error:#}", self.key.path().display()));
        marks.push(Mark::DiskFull);
        row.marks = marks.clone();
        // This small file may still fit. Without it, the row runs again with `--resume`.
        if let Err(error) = files.finish(&row) {
            super::say(&format!("{}: {error:#}", self.key.path().display()));
        }
        Ok(RowEnd::Done(marks))
    }

    fn measured(&self, result: &LoadResult) -> RowFile {
        let outcome = &result.outcome;
        let phase = outcome.measured();
        let (warm_up, is_stream) = (outcome.warmed_up(), outcome.streams.is_some());
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        let corrected = (!is_stream && !phase.latencies.is_empty()).then(|| {
            let mut all = generator::Latencies::default();
            outcome.labels.iter().for_each(|label| all.add(&label.corrected()));
            Corrected {
                mean: ms(all.mean().unwrap_or_default()),
                p50: ms(all.quantile(0.5)),
                p90: ms(all.quantile(0.9)),
                p95: ms(all.quantile(0.95)),
                p99: ms(all.quantile(0.99)),
                p999: ms(all.quantile(0.999)),
                max: ms(all.max()),
            }
        });
        let whole = warm_up.latencies.len() + phase.latencies.len();
        let seconds = outcome.elapsed.as_secs_f64();
        let users = outcome.users.measured;
        let own = &self.row.scenario.own;
        let several = own.requests.len() > 1;
        let share = |group: &crate::scenarios::file::Group| {
            let label = group.label.clone().unwrap_or_else(|| LABEL.to_owned());
            (label, users * f64::from(group.users_percent.get()) / 100.0)
        };
        let rate = own.websocket.as_ref().map(|socket| socket.events_per_second.get());
        let rate = rate.or(own.sse.as_ref().map(|sse| sse.events_per_second.get()));
        RowFile {
            measured_seconds: phase.window_length().unwrap_or_default().as_secs_f64(),
            corrected,
            streams: outcome.streams.clone(),
            users_mean: ((users - f64::from(self.key.users)).abs() > 0.005).then_some(users),
            label_users: if several {
                own.requests.iter().map(share).collect()
            } else {
                Vec::new()
            },
            all_labels: (outcome.labels.len() > 1).then(|| statistics(&phase)),
            think_ms: outcome.labels.first().map_or(0.0, |label| ms(label.think)),
            events_per_second: rate.map(f64::from),
            own_latency: result.own.clone(),
            workers: result.workers,
            gateway_started: Some(result.gateway_started),
            settled: self
                .row
                .scenario
                .settles()
                .then(|| settled(result, &self.key.gateway))
                .flatten(),
            received_bytes: Some(warm_up.received_bytes + phase.received_bytes),
            sent_bytes: Some(warm_up.sent_bytes + phase.sent_bytes),
            whole_throughput: (seconds > 0.0).then(|| whole as f64 / seconds),
            cost: result.cost,
            ..self.row_file()
        }
    }

    fn write_files(&self, files: &RowFolder, load: &Load, result: &LoadResult) -> Result<()> {
        let LoadResult { outcome, samples, .. } = result;
        let (start, length) = (outcome.started.as_secs(), outcome.elapsed.as_secs());
        files.write_duration(&RowDuration {
            start_timestamp: start,
            end_timestamp: start + length,
            test_duration: length,
        })?;
        files.write_summary(Part::WarmUp, &summary(outcome, |label| &label.warm_up))?;
        files.write_summary(Part::Measurement, &summary(outcome, |label| &label.measured))?;
        files.write_seconds(&seconds(load, outcome))?;
        let mut log = Vec::new();
        generator::write_interval_log(outcome, &mut log).map_err(anyhow::Error::msg)?;
        files.write_interval_log(&log)?;
        if let Some(log) = &result.gc_log {
            files.write_gc_log(&self.key.gateway, log)?;
        }
        for (server, lines) in &samples.servers {
            files.write_process(server, lines)?;
            for report in samples.sar() {
                files.write_sar(server, &report)?;
            }
        }
        Ok(())
    }
}

/// What was observed while a load was sent.
struct Watched {
    marks: Vec<Mark>,
    /// The gateway's metrics at the end of the warm-up.
    before: Option<String>,
    meter: Meter,
}

/// The result of a load.
struct LoadResult {
    outcome: Outcome,
    samples: Samples,
    marks: Vec<Mark>,
    own: Option<crate::folder::OwnLatency>,
    gc_log: Option<String>,
    workers: Option<u32>,
    gateway_started: u64,
    cost: Option<Cost>,
}

/// Returns what the gateway still used after the load, or `None` if it was not sampled before and after.
fn settled(result: &LoadResult, gateway: &str) -> Option<Settled> {
    let end = (result.outcome.started + result.outcome.elapsed).as_secs();
    let samples = result.samples.servers.get(gateway)?;
    let idle = samples.iter().take_while(|one| one.timestamp <= result.outcome.started.as_secs());
    let (idle, last) = (idle.last()?, samples.last()?);
    let seconds = last.timestamp.checked_sub(end).filter(|seconds| *seconds > 1)?;
    Some(Settled {
        seconds,
        idle_cpu_percent: idle.cpu_percent?,
        cpu_percent: last.cpu_percent?,
        idle_fds: idle.fds?,
        fds: last.fds?,
    })
}

/// Returns the reasons to doubt the figures.
fn doubts(result: &LoadResult, row: &RowFile, ground: &Ground, gateway: &str) -> Vec<Mark> {
    let LoadResult { outcome, samples, .. } = result;
    let mut marks = Vec::new();
    // Users who only wait send no requests that could be counted.
    let is_idle = outcome.labels.iter().all(|label| label.think >= outcome.duration);
    let figures = summary(outcome, |label| &label.measured);
    if outcome.streams.is_none() && !is_idle && row.deviates_from_little(&figures) {
        marks.push(Mark::Little);
    }
    let from = (outcome.started + outcome.warm_up).as_secs() + 1;
    let measured = from..=(outcome.started + outcome.elapsed).as_secs().max(from);
    let busy = |server: &str| samples.cpu_percent(server, &measured).unwrap_or(0.0);
    let room = |list: &str| cores(list).len().max(1) as f64 * 100.0 * BACKEND_BUSY_MAX;
    let (load, backend) = (busy("jmeter"), busy("netty"));
    let shared = ground.cores.load == ground.cores.backend;
    // If the gateway itself is busy, it is what was measured, even if the others are busy too.
    let is_gateway = busy(gateway) > room(&ground.cores.gateway);
    let is_full = shared && load + backend > room(&ground.cores.load) && !is_gateway;
    if outcome.is_generator_bottleneck() || (is_full && load >= backend) {
        marks.push(Mark::Generator);
    }
    if backend > room(&ground.cores.backend) || (is_full && backend > load) {
        marks.push(Mark::Backend);
    }
    if !outcome.agents_lost.is_empty() {
        marks.push(Mark::AgentLost);
    }
    if samples.clock_jumped {
        marks.push(Mark::ClockJumped);
    }
    marks
}

fn summary(outcome: &Outcome, phase: fn(&generator::LabelOutcome) -> &Phase) -> Summary {
    let labels = outcome.labels.iter();
    Summary(labels.map(|label| (label.label.clone(), statistics(phase(label)))).collect())
}

fn statistics(phase: &Phase) -> Statistics {
    Statistics::of(&Measured {
        histogram: phase.latencies.histogram(),
        mean: phase.latencies.mean(),
        errors: phase.error_count(),
        window: phase.window_length().unwrap_or_default(),
        received_bytes: phase.received_bytes,
        sent_bytes: phase.sent_bytes,
    })
}

fn seconds(load: &Load, outcome: &Outcome) -> Vec<Second> {
    let steps = outcome.labels.iter().map(|label| label.steps.len()).max().unwrap_or(0);
    let users_at = |at: Duration| match &load.work {
        Work::Requests(requests) => requests.groups.iter().map(|group| group.users_at(at)).sum(),
        Work::Sse(_) | Work::Websocket(_) | Work::Websub(_) | Work::Calls(_) => {
            load.connections() as f64
        }
    };
    let second = |at: usize| {
        let of = outcome.labels.iter().filter_map(|label| label.steps.get(at));
        let mut sum = generator::Step::default();
        for step in of {
            sum.samples += step.samples;
            sum.errors += step.errors;
            sum.untimed += step.untimed;
            sum.latency_sum += step.latency_sum;
            sum.latency_max = sum.latency_max.max(step.latency_max);
        }
        let timed = sum.samples - sum.untimed;
        let some = |value: f64| (timed > 0).then_some(value);
        let end = outcome.step.mul_f64(at as f64 + 1.0);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at least 0")]
        let users = users_at(end).round() as u64;
        Second {
            timestamp: (outcome.started + outcome.step.mul_f64(at as f64)).as_secs(),
            users,
            samples: sum.samples,
            errors: sum.errors,
            mean_ms: some(sum.latency_sum.as_secs_f64() * 1e3 / timed.max(1) as f64),
            max_ms: some(sum.latency_max.as_secs_f64() * 1e3),
        }
    };
    (0..steps).map(second).collect()
}

/// Returns true if an error is that of a disk without room.
pub(super) fn is_disk_full(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>()).any(is_full)
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
