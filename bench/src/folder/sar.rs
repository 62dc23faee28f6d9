//! `SERVER_sar_report_KIND.csv`, as written by `sadf -d -U` and kept by the reference's harness: the header without `# `.
//!
//! Owns the columns of the reports and the averages that the reference computes from them. It measures nothing.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};

/// A report of sar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs, reason = "the names are those of the files")]
pub enum Kind {
    LoadAverage,
    Cpu,
    Memory,
    Disk,
    Io,
    Task,
    File,
    Network,
}

/// The lines of one report.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    /// The kind of the report.
    pub kind: Kind,
    /// The machine's name.
    pub hostname: String,
    /// In the order of time.
    pub lines: Vec<Line>,
}

/// One line.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// Seconds since the previous line of this device.
    pub interval: u64,
    /// Seconds since 1970.
    pub timestamp: u64,
    /// `-1` for all CPUs, `sda`, `eth0`; empty for reports without devices.
    pub device: String,
    /// In the order of [`Kind::columns`]. `None` if it was not measured, which is an empty cell.
    pub values: Vec<Option<f64>>,
}

impl Kind {
    /// In the order in which the reference reads them.
    pub const ALL: [Kind; 8] = [
        Kind::LoadAverage,
        Kind::Cpu,
        Kind::Memory,
        Kind::Disk,
        Kind::Io,
        Kind::Task,
        Kind::File,
        Kind::Network,
    ];

    /// The part of the file name that identifies the report.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::LoadAverage => "loadavg",
            Kind::Cpu => "cpu",
            Kind::Memory => "memory",
            Kind::Disk => "disk",
            Kind::Io => "io",
            Kind::Task => "task",
            Kind::File => "file",
            Kind::Network => "network",
        }
    }

    /// The column that names the device, or `None` if the lines do not belong to devices.
    #[must_use]
    pub fn device(self) -> Option<&'static str> {
        match self {
            Kind::Cpu => Some("CPU"),
            Kind::Disk => Some("DEV"),
            Kind::Network => Some("IFACE"),
            Kind::LoadAverage | Kind::Memory | Kind::Io | Kind::Task | Kind::File => None,
        }
    }

    /// The columns with values.
    #[must_use]
    pub fn columns(self) -> &'static [&'static str] {
        match self {
            Kind::LoadAverage => {
                &["runq-sz", "plist-sz", "ldavg-1", "ldavg-5", "ldavg-15", "blocked"]
            }
            Kind::Cpu => &["%user", "%nice", "%system", "%iowait", "%steal", "%idle"],
            Kind::Memory => &[
                "kbmemfree",
                "kbavail",
                "kbmemused",
                "%memused",
                "kbbuffers",
                "kbcached",
                "kbcommit",
                "%commit",
                "kbactive",
                "kbinact",
                "kbdirty",
            ],
            Kind::Disk => {
                &["tps", "rkB/s", "wkB/s", "dkB/s", "areq-sz", "aqu-sz", "await", "%util"]
            }
            Kind::Io => &["tps", "rtps", "wtps", "dtps", "bread/s", "bwrtn/s", "bdscd/s"],
            Kind::Task => &["proc/s", "cswch/s"],
            Kind::File => &["dentunusd", "file-nr", "inode-nr", "pty-nr"],
            Kind::Network => &[
                "rxpck/s", "txpck/s", "rxkB/s", "txkB/s", "rxcmp/s", "txcmp/s", "rxmcst/s",
                "%ifutil",
            ],
        }
    }

    pub(super) fn file(self) -> String {
        format!("sar_report_{}.csv", self.name())
    }

    fn header(self) -> String {
        let mut names = vec!["hostname", "interval", "timestamp"];
        names.extend(self.device());
        names.extend(self.columns());
        names.join(";")
    }
}

impl Report {
    /// Returns the averages of all columns over the lines from `start` to `end`, as the reference computes them: also over devices. A
    /// column that was not measured has no average.
    #[must_use]
    pub fn averages(&self, start: u64, end: u64) -> Vec<Option<f64>> {
        let lines = || self.lines.iter().filter(|line| (start..=end).contains(&line.timestamp));
        let average = |column: usize| {
            let values = lines().map(|line| line.values.get(column).copied()?);
            let (mut sum, mut count) = (0.0, 0_u32);
            for value in values {
                sum += value.unwrap_or(0.0);
                count += u32::from(value.is_some());
            }
            (count > 0).then(|| sum / f64::from(count))
        };
        (0..self.kind.columns().len()).map(average).collect()
    }

    /// The file's content.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}\n", self.kind.header());
        for Line { interval, timestamp, device, values } in &self.lines {
            let _ = write!(text, "{};{interval};{timestamp}", self.hostname);
            if self.kind.device().is_some() {
                let _ = write!(text, ";{device}");
            }
            for value in values {
                let _ = match value {
                    Some(value) => write!(text, ";{value:.2}"),
                    None => write!(text, ";"),
                };
            }
            text.push('\n');
        }
        text
    }

    /// Parses the content of a file, with or without `# ` before the header. Columns are found by name, because they differ between
    /// versions of sar.
    ///
    /// # Errors
    ///
    /// If a line does not match the header.
    pub fn parse(kind: Kind, text: &str) -> Result<Report> {
        let mut lines = text.lines();
        let header = lines.next().context("the file is empty")?;
        let names: Vec<&str> = header.strip_prefix("# ").unwrap_or(header).split(';').collect();
        let place = |name: &str| names.iter().position(|one| *one == name);
        let required = |name: &str| place(name).with_context(|| format!("no column `{name}`"));
        let (host, interval) = (required("hostname")?, required("interval")?);
        let (timestamp, device) = (required("timestamp")?, kind.device().map(required));
        let device = device.transpose()?;
        let columns: Vec<Option<usize>> = kind.columns().iter().map(|name| place(name)).collect();
        let mut report = Report { kind, hostname: String::new(), lines: Vec::new() };
        for (number, line) in lines.enumerate() {
            if line.contains("RESTART") || line.starts_with("# ") {
                continue;
            }
            let cells: Vec<&str> = line.split(';').collect();
            let told = || format!("line {}", number + 2);
            anyhow::ensure!(cells.len() == names.len(), "{} does not match the header", told());
            let cell = |place: usize| cells.get(place).copied().unwrap_or("");
            let whole = |place: usize| cell(place).parse::<u64>().with_context(told);
            let value = |place: &Option<usize>| match place.map(cell) {
                None | Some("") => Ok(None),
                Some(cell) => cell.parse::<f64>().map(Some).with_context(told),
            };
            report.hostname = cell(host).to_owned();
            report.lines.push(Line {
                interval: whole(interval)?,
                timestamp: whole(timestamp)?,
                device: device.map_or("", cell).to_owned(),
                values: columns.iter().map(value).collect::<Result<_>>()?,
            });
        }
        Ok(report)
    }
}
