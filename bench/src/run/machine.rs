//! The machine's counters, and the reports of sar computed from them.

use std::fs;

use super::sampler::line;
use crate::folder::sar;

/// Counters of the machine at one time. A counter that the system does not provide is `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Machine {
    pub(super) load: Option<[f64; 3]>,
    running: Option<f64>,
    processes: Option<f64>,
    /// user, nice, system, idle, iowait, irq, softirq, steal.
    cpu: Vec<f64>,
    switches: Option<f64>,
    forks: Option<f64>,
    blocked: Option<f64>,
    memory: String,
    /// Interface, received and sent bytes and packets.
    interfaces: Vec<(String, [f64; 4])>,
    /// Device: reads, sectors read, writes, sectors written, milliseconds.
    disks: Vec<(String, [f64; 5])>,
    files: [Option<f64>; 4],
}

const SECTOR_KIB: f64 = 0.5;

impl Machine {
    pub(super) fn now() -> Machine {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/stat");
        let loads = read("/proc/loadavg");
        let mut words = loads.split_whitespace();
        let mut load = || words.next().and_then(|word| word.parse().ok());
        let load = (|| Some([load()?, load()?, load()?]))();
        let tasks = words.next().and_then(|word| word.split_once('/'));
        let number = |text: &str| text.parse::<f64>().ok();
        let cpu = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
        let of = |name: &str| line(&stat, name).map(|value| value as f64);
        let first = |path: &str| read(path).split_whitespace().next().and_then(number);
        Machine {
            load,
            running: tasks.and_then(|(running, _)| number(running)),
            processes: tasks.and_then(|(_, all)| number(all)),
            cpu: cpu.filter_map(number).collect(),
            switches: of("ctxt "),
            forks: of("processes "),
            blocked: of("procs_blocked "),
            memory: read("/proc/meminfo"),
            interfaces: interfaces(&read("/proc/net/dev")),
            disks: disks(&read("/proc/diskstats")),
            files: [
                first("/proc/sys/fs/dentry-state"),
                first("/proc/sys/fs/file-nr"),
                first("/proc/sys/fs/inode-nr"),
                first("/proc/sys/kernel/pty/nr"),
            ],
        }
    }

    /// Returns the KiB that all interfaces received and sent since `before`.
    pub(super) fn network_kib(&self, before: &Machine) -> Option<(f64, f64)> {
        if self.interfaces.is_empty() {
            return None;
        }
        let sum = |machine: &Machine, at: usize| {
            machine.interfaces.iter().filter_map(|(_, values)| values.get(at)).sum::<f64>() / 1024.0
        };
        Some((sum(self, 0) - sum(before, 0), sum(self, 1) - sum(before, 1)))
    }

    fn values(&self, before: &Machine, kind: sar::Kind) -> Vec<(String, Vec<Option<f64>>)> {
        let one = |values: Vec<Option<f64>>| vec![(String::new(), values)];
        match kind {
            sar::Kind::LoadAverage => one(vec![
                self.running,
                self.processes,
                self.load.map(|load| load[0]),
                self.load.map(|load| load[1]),
                self.load.map(|load| load[2]),
                self.blocked,
            ]),
            sar::Kind::Cpu => vec![("-1".to_owned(), self.cpu_percent(before))],
            sar::Kind::Memory => one(self.memory_values()),
            sar::Kind::Disk => self.disk_values(before),
            sar::Kind::Io => one(self.io_values(before)),
            sar::Kind::Task => {
                let rate = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
                one(vec![rate(self.forks, before.forks), rate(self.switches, before.switches)])
            }
            sar::Kind::File => one(self.files.to_vec()),
            sar::Kind::Network => self.network_values(before),
        }
    }

    fn cpu_percent(&self, before: &Machine) -> Vec<Option<f64>> {
        let used: Vec<f64> =
            self.cpu.iter().zip(&before.cpu).map(|(now, then)| now - then).collect();
        let all: f64 = used.iter().take(8).sum();
        let part = |indices: &[usize]| {
            let sum: f64 = indices.iter().filter_map(|at| used.get(*at)).sum();
            (all > 0.0).then(|| sum * 100.0 / all)
        };
        vec![part(&[0]), part(&[1]), part(&[2, 5, 6]), part(&[4]), part(&[7]), part(&[3])]
    }

    fn memory_values(&self) -> Vec<Option<f64>> {
        let of = |name: &str| line(&self.memory, name).map(|kib| kib as f64);
        let (total, free) = (of("MemTotal:"), of("MemFree:"));
        let sum = |names: [&str; 3]| names.into_iter().map(of).sum::<Option<f64>>();
        let cached = sum(["Cached:", "SReclaimable:", "Buffers:"]);
        let used = total.zip(free).zip(cached).map(|((total, free), cached)| total - free - cached);
        let percent = |part: Option<f64>| Some(part? * 100.0 / total?);
        let commit = of("Committed_AS:");
        vec![
            free,
            of("MemAvailable:"),
            used,
            percent(used),
            of("Buffers:"),
            of("Cached:"),
            commit,
            percent(commit),
            of("Active:"),
            of("Inactive:"),
            of("Dirty:"),
        ]
    }

    fn disk_values(&self, before: &Machine) -> Vec<(String, Vec<Option<f64>>)> {
        let pairs = self.disks.iter().filter_map(|(name, now)| {
            let (_, then) = before.disks.iter().find(|(other, _)| other == name)?;
            Some((name, now, then))
        });
        let values = pairs.map(|(name, now, then)| {
            let [reads, read, writes, written, busy] = difference(now, then);
            let each = reads + writes;
            let size = (each > 0.0).then(|| (read + written) * SECTOR_KIB / each);
            let util = Some((busy / 10.0).min(100.0));
            let (read, written) = (Some(read * SECTOR_KIB), Some(written * SECTOR_KIB));
            (name.clone(), vec![Some(each), read, written, None, size, None, None, util])
        });
        values.collect()
    }

    fn io_values(&self, before: &Machine) -> Vec<Option<f64>> {
        let sum = |machine: &Machine, at: usize| {
            machine.disks.iter().filter_map(|(_, values)| values.get(at)).sum::<f64>()
        };
        let of = |at: usize| sum(self, at) - sum(before, at);
        let (reads, read, writes, written) = (of(0), of(1), of(2), of(3));
        let known = |value: f64| (!self.disks.is_empty()).then_some(value);
        vec![
            known(reads + writes),
            known(reads),
            known(writes),
            None,
            known(read),
            known(written),
            None,
        ]
    }

    fn network_values(&self, before: &Machine) -> Vec<(String, Vec<Option<f64>>)> {
        let pairs = self.interfaces.iter().filter_map(|(name, now)| {
            let (_, then) = before.interfaces.iter().find(|(other, _)| other == name)?;
            Some((name, now, then))
        });
        let values = pairs.map(|(name, now, then)| {
            let [received, sent, packets_in, packets_out] = difference(now, then);
            let kib = |bytes: f64| Some(bytes / 1024.0);
            let (packets_in, packets_out) = (Some(packets_in), Some(packets_out));
            let values =
                vec![packets_in, packets_out, kib(received), kib(sent), None, None, None, None];
            (name.clone(), values)
        });
        values.collect()
    }
}

fn difference<const N: usize>(now: &[f64; N], then: &[f64; N]) -> [f64; N] {
    let mut difference = *now;
    difference.iter_mut().zip(then).for_each(|(value, then)| *value -= then);
    difference
}

fn interfaces(text: &str) -> Vec<(String, [f64; 4])> {
    let one = |line: &str| {
        let (name, rest) = line.split_once(':')?;
        let numbers: Vec<f64> =
            rest.split_whitespace().map(|word| word.parse().unwrap_or(0.0)).collect();
        let at = |index: usize| numbers.get(index).copied();
        Some((name.trim().to_owned(), [at(0)?, at(8)?, at(1)?, at(9)?]))
    };
    text.lines().filter_map(one).collect()
}

fn disks(text: &str) -> Vec<(String, [f64; 5])> {
    let one = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = |index: usize| words.get(index)?.parse::<f64>().ok();
        let name = *words.get(2)?;
        let is_part = name.starts_with("loop") || name.starts_with("ram");
        let values = [at(3)?, at(5)?, at(7)?, at(9)?, at(12)?];
        (!is_part).then(|| (name.to_owned(), values))
    };
    text.lines().filter_map(one).collect()
}

/// Returns all reports of samples that were taken a second apart.
pub(super) fn sar_reports(samples: &[(u64, Machine)]) -> Vec<sar::Report> {
    let hostname = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let hostname = hostname.trim().to_owned();
    let report = |kind: sar::Kind| {
        let mut lines = Vec::new();
        for ((_, before), (timestamp, now)) in samples.iter().zip(samples.iter().skip(1)) {
            for (device, values) in now.values(before, kind) {
                lines.push(sar::Line { interval: 1, timestamp: *timestamp, device, values });
            }
        }
        sar::Report { kind, hostname: hostname.clone(), lines }
    };
    sar::Kind::ALL.into_iter().map(report).collect()
}
