//! Samples of a row, once per second: what the processes of each server used, and what sar reports of the machine.

#![allow(clippy::disallowed_methods, reason = "the machine's clock is the measuring tool")]

use std::collections::BTreeMap;
use std::fs;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::machine::{Machine, sar_reports};
use crate::folder::{ProcessSample, sar};

/// The processes of each server, by the server's name in files.
pub(super) type ServerPids = Vec<(String, Vec<u32>)>;

/// Takes samples until it is stopped.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    samples: Arc<Mutex<Samples>>,
    thread: Option<JoinHandle<()>>,
}

/// What was sampled.
#[derive(Clone, Debug, Default)]
pub(super) struct Samples {
    /// Samples of processes, by server.
    pub(super) servers: BTreeMap<String, Vec<ProcessSample>>,
    /// Samples of the machine.
    pub(super) machine: Vec<(u64, Machine)>,
    /// Whether the time of day and the monotonic clock differ by more than [`JUMP_MIN`].
    pub(super) clock_jumped: bool,
}

/// Minimum difference that counts as a jump of the clock, more than a clock is slewed in a second.
const JUMP_MIN: Duration = Duration::from_millis(500);

impl Sampler {
    /// Starts sampling.
    ///
    /// # Errors
    ///
    /// If no thread can be started.
    pub(super) fn start(servers: ServerPids) -> std::io::Result<Sampler> {
        let stop = Arc::new(AtomicBool::new(false));
        let samples = Arc::new(Mutex::new(Samples::default()));
        let (stopped, filled) = (Arc::clone(&stop), Arc::clone(&samples));
        let thread = thread::Builder::new().name("sampler".to_owned());
        let thread = thread.spawn(move || sample(&servers, &stopped, &filled))?;
        Ok(Sampler { stop, samples, thread: Some(thread) })
    }

    /// Stops sampling, and returns the samples.
    #[must_use]
    pub(super) fn finish(mut self) -> Samples {
        self.end();
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // A panic of the thread has been printed already.
        drop(self.thread.take().map(JoinHandle::join));
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.end();
    }
}

impl Samples {
    /// Returns the mean CPU of a server within these seconds, in percent of one core.
    #[must_use]
    pub(super) fn cpu_percent(&self, server: &str, times: &RangeInclusive<u64>) -> Option<f64> {
        let samples = self.servers.get(server)?.iter();
        let samples = samples.filter(|sample| times.contains(&sample.timestamp));
        let values: Vec<f64> = samples.filter_map(|sample| sample.cpu_percent).collect();
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }

    /// Returns the samples as reports of sar.
    #[must_use]
    pub(super) fn sar(&self) -> Vec<sar::Report> {
        sar_reports(&self.machine)
    }
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn sample(servers: &ServerPids, stop: &AtomicBool, samples: &Mutex<Samples>) {
    let (begin, begin_wall) = (Instant::now(), wall());
    let mut before: Vec<Used> = servers.iter().map(|(_, pids)| Used::of(pids)).collect();
    let mut at = begin;
    let mut machine = Machine::now();
    for second in 1.. {
        let next = begin + Duration::from_secs(second);
        while Instant::now() < next {
            if stop.load(Ordering::Relaxed) {
                return;
            }
            thread::sleep(
                next.saturating_duration_since(Instant::now()).min(Duration::from_millis(50)),
            );
        }
        let (now, now_wall) = (Instant::now(), wall());
        let seconds = (now - at).as_secs_f64();
        at = now;
        let mut kept = samples.lock().unwrap_or_else(PoisonError::into_inner);
        kept.clock_jumped |= has_jumped(begin_wall, now_wall, now - begin);
        let machine_now = Machine::now();
        let network = machine_now.network_kib(&machine);
        for ((name, pids), before) in servers.iter().zip(&mut before) {
            let used = Used::of(pids);
            let part = |now: f64, before: f64| (now - before).max(0.0) / seconds;
            let sample = ProcessSample {
                timestamp: now_wall.as_secs(),
                cpu_percent: used.is_there.then(|| part(used.cpu, before.cpu) * 100.0),
                rss_kib: used.is_there.then_some(used.rss_kib),
                threads: used.is_there.then_some(used.threads),
                fds: used.fds.filter(|_| used.is_there),
                read_kib: used.read_kib.zip(before.read_kib).map(|(a, b)| part(a, b)),
                written_kib: used.written_kib.zip(before.written_kib).map(|(a, b)| part(a, b)),
                received_kib: network.map(|(received, _)| received / seconds),
                sent_kib: network.map(|(_, sent)| sent / seconds),
                load1: machine_now.load.map(|load| load[0]),
            };
            kept.servers.entry(name.clone()).or_default().push(sample);
            *before = used;
        }
        kept.machine.push((now_wall.as_secs(), machine_now.clone()));
        machine = machine_now;
    }
}

/// Returns true if the time of day went from `begin` to `now` although so much time has passed.
fn has_jumped(begin: Duration, now: Duration, passed: Duration) -> bool {
    now.abs_diff(begin + passed) > JUMP_MIN
}

/// What processes have used since their start.
#[derive(Clone, Copy, Default)]
struct Used {
    is_there: bool,
    /// CPU time in seconds.
    cpu: f64,
    rss_kib: u64,
    threads: u64,
    /// `None` if those of one process cannot be counted.
    fds: Option<u64>,
    read_kib: Option<f64>,
    written_kib: Option<f64>,
}

impl Used {
    fn of(pids: &[u32]) -> Used {
        let mut sum = Used { fds: Some(0), ..Used::default() };
        for pid in pids {
            let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
            // A process that has ended and that nobody has waited for has no memory.
            let Some(rss_kib) = line(&status, "VmRSS:") else { continue };
            sum.is_there = true;
            sum.cpu += crate::process::cpu_of(*pid).as_secs_f64();
            sum.rss_kib += rss_kib;
            sum.threads += line(&status, "Threads:").unwrap_or(0);
            let fds = fs::read_dir(format!("/proc/{pid}/fd")).ok();
            sum.fds = sum.fds.zip(fds).map(|(sum, fds)| sum + fds.count() as u64);
            let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            let add = |sum: &mut Option<f64>, name: &str| {
                if let Some(bytes) = line(&io, name) {
                    *sum = Some(sum.unwrap_or(0.0) + bytes as f64 / 1024.0);
                }
            };
            add(&mut sum.read_kib, "read_bytes:");
            add(&mut sum.written_kib, "write_bytes:");
        }
        sum
    }
}

/// Returns the first number after a name at the beginning of a line.
pub(super) fn line(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_is_set_jumps_and_one_that_is_slewed_does_not() {
        let (begin, passed) = (Duration::from_secs(1_700_000_000), Duration::from_secs(900));
        for (by_ms, jumped) in [(0, false), (450, false), (501, true), (3_600_000, true)] {
            let by = Duration::from_millis(by_ms);
            for now in [begin + passed + by, begin + passed - by] {
                assert_eq!(has_jumped(begin, now, passed), jumped, "{by:?}");
            }
        }
    }

    #[test]
    fn a_process_that_has_ended_is_not_sampled() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let status = format!("/proc/{}/status", child.id());
        while !fs::read_to_string(&status).unwrap().contains("State:\tZ") {
            thread::sleep(Duration::from_millis(1));
        }
        let used = Used::of(&[child.id()]);
        assert!(!used.is_there && used.rss_kib == 0);
        assert!(Used::of(&[child.id(), std::process::id()]).is_there);
        child.wait().unwrap();
    }

    #[test]
    fn this_process_is_sampled() {
        let sampler = Sampler::start(vec![("us".to_owned(), vec![std::process::id()])]).unwrap();
        let end = Instant::now() + Duration::from_millis(2200);
        while Instant::now() < end {
            std::hint::black_box(0);
        }
        let samples = sampler.finish();
        let us = &samples.servers["us"];
        assert!(us.len() >= 2 && us[0].rss_kib.unwrap() > 0 && us[0].fds.unwrap() > 2, "{us:?}");
        assert!(samples.cpu_percent("us", &(0..=u64::MAX)).unwrap() > 5.0, "{us:?}");
        assert!(!samples.clock_jumped && samples.sar().len() == sar::Kind::ALL.len());
    }
}
