//! One second of a load after the other: what passed, what the gateway used, and how that is shown.

use std::io;
use std::time::Duration;

use crate::apart::Apart;
use crate::peers::Peer;
use crate::rig::Count;

pub(crate) struct Second {
    pub(crate) count: Count,
    /// The part of a core.
    cpu: f64,
    resident_bytes: u64,
}

/// Runs so many, each at this rate.
pub(crate) fn run(
    rig: &mut Apart,
    peer: &Peer,
    rate: f64,
    seconds: u64,
) -> io::Result<Vec<Second>> {
    let second = |_| {
        let before = peer.cpu();
        let count = rig.run(rate, Duration::from_secs(1))?;
        let cpu = peer.cpu().saturating_sub(before).as_secs_f64() / count.wall.as_secs_f64();
        Ok(Second { count, cpu, resident_bytes: peer.process.rss_bytes() })
    };
    (0..seconds).map(second).collect()
}

/// CPU and memory of each, for two columns of a table.
pub(crate) fn usage(seconds: &[Second]) -> String {
    let cpu: Vec<String> = seconds.iter().map(|s| format!("{:.0} %", s.cpu * 100.0)).collect();
    let memory = seconds.iter().map(|s| s.resident_bytes as f64 / f64::from(1 << 20));
    let memory: Vec<String> = memory.map(|mib| format!("{mib:.0}")).collect();
    format!("{} | {}", cpu.join(" "), memory.join(" "))
}
