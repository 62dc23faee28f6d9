//! `SERVER_process.csv`: the resources that the processes of one server used, one line per second.

use anyhow::{Context as _, Result};

pub(super) const HEADER: &str =
    "timestamp,cpu_percent,rss_kib,threads,fds,read_kib,written_kib,received_kib,sent_kib,load1";

/// One second of a server. A value that could not be measured is `None`, and its cell is empty.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ProcessSample {
    /// The end of the second, since 1970.
    pub timestamp: u64,
    /// 100 is one full CPU.
    pub cpu_percent: Option<f64>,
    /// Resident memory.
    pub rss_kib: Option<u64>,
    /// Threads.
    pub threads: Option<u64>,
    /// Open file descriptors.
    pub fds: Option<u64>,
    /// Read from disks within the second.
    pub read_kib: Option<f64>,
    /// Written to disks within the second.
    pub written_kib: Option<f64>,
    /// Received by the machine's interfaces within the second.
    pub received_kib: Option<f64>,
    /// Sent by the machine's interfaces within the second.
    pub sent_kib: Option<f64>,
    /// The load average of the last minute.
    pub load1: Option<f64>,
}

impl ProcessSample {
    pub(super) fn line(&self) -> String {
        let whole = |value: Option<u64>| value.map_or(String::new(), |value| value.to_string());
        let part = |value: Option<f64>| value.map_or(String::new(), |value| format!("{value:.2}"));
        [
            self.timestamp.to_string(),
            part(self.cpu_percent),
            whole(self.rss_kib),
            whole(self.threads),
            whole(self.fds),
            part(self.read_kib),
            part(self.written_kib),
            part(self.received_kib),
            part(self.sent_kib),
            part(self.load1),
        ]
        .join(",")
    }

    pub(super) fn parse(line: &str) -> Result<ProcessSample> {
        let mut cells = line.split(',');
        let mut number = || -> Result<Option<f64>> {
            let cell = cells.next().context("the line has fewer than 10 cells")?;
            if cell.is_empty() { Ok(None) } else { super::seconds::number(cell).map(Some) }
        };
        let timestamp = number()?.context("the line has no timestamp")?;
        let sample = ProcessSample {
            timestamp: whole(timestamp),
            cpu_percent: number()?,
            rss_kib: number()?.map(whole),
            threads: number()?.map(whole),
            fds: number()?.map(whole),
            read_kib: number()?,
            written_kib: number()?,
            received_kib: number()?,
            sent_kib: number()?,
            load1: number()?,
        };
        anyhow::ensure!(cells.next().is_none(), "the line has more than 10 cells");
        Ok(sample)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn whole(value: f64) -> u64 {
    value.round() as u64
}
