//! What the gateway uses during the measurement: CPU time and memory, together with the number of replies.

use std::time::Duration;

use crate::folder::Cost;
use crate::process::{cpu_of, rss_bytes_of, softirq_thread};

/// Samples the gateway's processes.
pub(super) struct Meter {
    pids: Vec<u32>,
    /// The kernel's threads that handle the network on the gateway's cores.
    kernel: Vec<u32>,
    idle_rss_kib: u64,
    first: Option<CostSample>,
    last: Option<CostSample>,
    rss_kib_max: u64,
}

/// The state at one time.
#[derive(Clone, Copy)]
struct CostSample {
    cpu: Duration,
    samples: u64,
    rss_kib: u64,
}

impl Meter {
    /// Begins before the load. `cores` are those that the gateway does not share.
    pub(super) fn new(pids: Vec<u32>, cores: &[usize]) -> Meter {
        let idle_rss_kib = rss_kib(&pids);
        // Harmless: on a system without such a thread, the CPU time is charged to the process.
        let kernel = cores.iter().filter_map(|core| softirq_thread(*core)).collect();
        Meter { pids, kernel, idle_rss_kib, first: None, last: None, rss_kib_max: 0 }
    }

    /// Samples memory before the measurement. What a gateway allocates once, for the first hundredth of its users, does not count as cost
    /// per user.
    pub(super) fn look_before(&mut self, samples: u64, users: u32) {
        if samples <= u64::from(users / 100) {
            self.idle_rss_kib = rss_kib(&self.pids);
        }
    }

    /// Samples during the measurement. CPU time and the number of requests are read together, so that the exact time of a sample does not
    /// matter.
    pub(super) fn look(&mut self, samples: u64) {
        let cpu = self.pids.iter().chain(&self.kernel).map(|pid| cpu_of(*pid)).sum();
        let rss_kib = rss_kib(&self.pids);
        self.rss_kib_max = self.rss_kib_max.max(rss_kib);
        self.last = Some(CostSample { cpu, samples, rss_kib });
        self.first = self.first.or(self.last);
    }

    /// Returns what was used from the first sample to the last one. The ends of connections after the load are not included.
    pub(super) fn cost(&self) -> Option<Cost> {
        let (first, last) = self.first.zip(self.last)?;
        Some(Cost {
            cpu_us: last.cpu.saturating_sub(first.cpu).as_secs_f64() * 1e6,
            requests: last.samples.saturating_sub(first.samples),
            idle_rss_kib: self.idle_rss_kib,
            rss_kib: last.rss_kib,
            rss_kib_max: self.rss_kib_max,
        })
    }
}

fn rss_kib(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| rss_bytes_of(*pid) / 1024).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_between_two_samples_is_counted() {
        // This process also runs other tests, and the CPU time of a thread is gone when the thread ends.
        let mut busy = std::process::Command::new("sh");
        let mut busy = busy.args(["-c", "while :; do :; done"]).spawn().unwrap();
        let mut meter = Meter::new(vec![busy.id()], &[]);
        assert!(meter.cost().is_none());
        meter.look(100);
        let before = cpu_of(busy.id());
        while cpu_of(busy.id()) - before < Duration::from_millis(20) {
            std::thread::sleep(Duration::from_millis(1));
        }
        meter.look(150);
        busy.kill().unwrap();
        busy.wait().unwrap();
        let cost = meter.cost().unwrap();
        assert!(cost.requests == 50 && cost.cpu_us >= 20_000.0, "{cost:?}");
        assert!(cost.cpu_us_each().unwrap() >= 400.0 && cost.idle_rss_kib > 0, "{cost:?}");
        assert!(cost.rss_kib_max >= cost.rss_kib, "{cost:?}");
    }
}
