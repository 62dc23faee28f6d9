//! Runs a load on this machine: starts its threads, and merges what they measured.

use std::fs::{self, File};
use std::io;
use std::thread;
use std::time::Duration;

use super::control::Control;
use super::load::{Load, Requests, Work};
use super::log::LogFile;
use super::outcome::{GeneratorUse, LabelOutcome, Outcome, Streams, Users};
use super::recorder::Shape;
use super::users::Crowd;
use super::{calls, sse, websocket, websub};

/// What one thread measured.
pub(super) struct ThreadOutcome {
    pub(super) labels: Vec<LabelOutcome>,
    pub(super) users: Users,
    pub(super) streams: Option<Streams>,
    pub(super) cpu: CpuTime,
    pub(super) log_failed: Option<String>,
}

/// CPU time of a thread, and how long it was ready to run but had no CPU.
#[derive(Clone, Copy, Default)]
pub(super) struct CpuTime {
    pub(super) cpu: Duration,
    pub(super) waited: Duration,
}

impl CpuTime {
    /// Returns the times of this thread since its start.
    pub(super) fn now() -> Result<CpuTime, String> {
        let file = "/proc/thread-self/schedstat";
        let text = fs::read_to_string(file).map_err(|error| format!("{file}: {error}"))?;
        let mut numbers =
            text.split_ascii_whitespace().map(|text| text.parse().map(Duration::from_nanos));
        match (numbers.next(), numbers.next()) {
            (Some(Ok(cpu)), Some(Ok(waited))) => Ok(CpuTime { cpu, waited }),
            _ => Err(format!("{file} must have two numbers")),
        }
    }

    /// Returns the times of this thread from the end of the warm-up to the end of the work. The work calls its argument at the end of the
    /// warm-up.
    pub(super) fn from_warm_up(
        work: impl FnOnce(&mut dyn FnMut()) -> io::Result<()>,
    ) -> Result<CpuTime, String> {
        let mut before = Ok(CpuTime::now()?);
        work(&mut || before = CpuTime::now()).map_err(|error| error.to_string())?;
        Ok(CpuTime::now()?.since(before?))
    }

    pub(super) fn since(self, before: CpuTime) -> CpuTime {
        CpuTime {
            cpu: self.cpu.saturating_sub(before.cpu),
            waited: self.waited.saturating_sub(before.waited),
        }
    }
}

/// Runs a load until it ends or is stopped. If `log` is given, writes each sample to it in the format of JMeter's logs.
///
/// # Errors
///
/// If the load is invalid, or cannot be started.
pub fn run(load: &Load, control: &Control, log: Option<File>) -> Result<Outcome, String> {
    let complaints = load.complaints();
    if !complaints.is_empty() {
        return Err(complaints.join("\n"));
    }
    match &load.work {
        Work::Requests(requests) => run_requests(load, requests, control, log),
        Work::Sse(sse) => outcome(load, control, vec![sse::run(load, sse, control)?]),
        Work::Websocket(socket) => {
            outcome(load, control, vec![websocket::run(load, socket, control)?])
        }
        Work::Websub(hub) => outcome(load, control, vec![websub::run(load, hub, control)?]),
        Work::Calls(made) => outcome(load, control, vec![calls::run(load, made, control)?]),
    }
}

fn run_requests(
    load: &Load,
    requests: &Requests,
    control: &Control,
    log: Option<File>,
) -> Result<Outcome, String> {
    let log = log.map(|file| LogFile::new(file, control.started())).transpose()?;
    let one = |thread| {
        let log = log.as_ref().map(LogFile::of_thread);
        let mut crowd = Crowd::new(load, requests, thread, control, log)?;
        let cpu = CpuTime::from_warm_up(|at_warm_up| crowd.run(at_warm_up))?;
        let (labels, users, log_failed) = crowd.finish();
        Ok(ThreadOutcome { labels, users, streams: None, cpu, log_failed })
    };
    let threads = thread::scope(|scope| {
        let start = |thread| {
            let named = thread::Builder::new().name(format!("generator-{thread}"));
            named.spawn_scoped(scope, move || one(thread)).map_err(|error| error.to_string())
        };
        let threads: Vec<_> = (0..load.threads).map(start).collect();
        let join = |thread: Result<thread::ScopedJoinHandle<'_, _>, String>| {
            let ended = thread?.join();
            ended.unwrap_or_else(|_| Err("a thread of the generator panicked".to_owned()))
        };
        threads.into_iter().map(join).collect::<Result<Vec<ThreadOutcome>, String>>()
    })?;
    outcome(load, control, threads)
}

/// Returns the outcome of all threads of this generator.
pub(super) fn outcome(
    load: &Load,
    control: &Control,
    threads: Vec<ThreadOutcome>,
) -> Result<Outcome, String> {
    let shape = Shape::of(load);
    let elapsed = control.start().elapsed();
    let mut generator = GeneratorUse {
        threads: u32::try_from(threads.len()).unwrap_or(u32::MAX),
        wall: elapsed.saturating_sub(load.warm_up),
        ..GeneratorUse::default()
    };
    let mut outcomes = Vec::new();
    for thread in threads {
        generator.cpu += thread.cpu.cpu;
        generator.cpu_max = generator.cpu_max.max(thread.cpu.cpu);
        generator.waited += thread.cpu.waited;
        outcomes.push(Outcome {
            started: control.started(),
            elapsed,
            warm_up: load.warm_up,
            duration: load.duration,
            stopped: control.is_stopped(),
            step: shape.step,
            interval: shape.interval,
            labels: thread.labels,
            users: thread.users,
            generators: Vec::new(),
            streams: thread.streams,
            agents_lost: Vec::new(),
            log_failed: thread.log_failed,
        });
    }
    let mut merged = Outcome::merge(outcomes)?;
    merged.generators = vec![generator];
    Ok(merged)
}

#[cfg(test)]
mod tests;
