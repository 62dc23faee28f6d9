//! A folder of results, read once for all tables and graphs.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};

use super::gc::Gc;
use crate::folder::sar::Kind;
use crate::folder::{
    Folder, Mark, Metadata, OURS, Part, ProcessSample, Row, RowKey, Second, Statistics, Summary,
};

/// All finished rows of a folder.
#[derive(Clone, Debug)]
pub struct Results {
    /// The folder's name.
    pub name: String,
    /// The parameters. `None` if the file is missing.
    pub metadata: Option<Metadata>,
    /// The parameters of further folders whose rows have been added, by name.
    pub stacks: Vec<(String, Metadata)>,
    /// In the order of their keys.
    pub rows: Vec<Measured>,
}

/// One row with all of its files.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// What was run.
    pub key: RowKey,
    /// The scenario's name in tables.
    pub title: String,
    /// `row.json`.
    pub row: Row,
    /// The statistics of the measurement. Empty if the row ended before it.
    pub summary: Summary,
    /// When it began, in seconds since 1970. `None` if it never began.
    pub started: Option<u64>,
    /// Samples by the second.
    pub seconds: Vec<Second>,
    /// Processes by server.
    pub processes: BTreeMap<String, Vec<ProcessSample>>,
    /// The averages of the gateway's reports of sar.
    pub sar: Vec<(Kind, Vec<Option<f64>>)>,
    /// The gateway's garbage collections, if it has a log of them.
    pub gc: Option<Gc>,
    /// The gateway's perf counters by name, if there are any.
    pub perf: BTreeMap<String, String>,
}

/// The reference takes samples of sar until a minute after the end.
const SAR_SECONDS_AFTER: u64 = 60;

impl Results {
    /// Reads the folder.
    ///
    /// # Errors
    ///
    /// If a file is invalid.
    pub fn read(path: &Path) -> Result<Results> {
        anyhow::ensure!(path.is_dir(), "{} must be a folder of results", path.display());
        let folder = Folder::new(path);
        let metadata = folder.metadata()?;
        let known = crate::scenarios::all().map_err(|report| anyhow::anyhow!("{report}"))?;
        let title = |key: &RowKey| {
            let name = key.folder_name();
            let scenarios = metadata.iter().flat_map(|metadata| &metadata.test_scenarios);
            let mut named = scenarios.filter(|one| !one.display_name.is_empty());
            if let Some(one) = named.find(|one| one.name == name) {
                return one.display_name.clone();
            }
            let Some(one) = known.iter().find(|one| one.name == key.scenario) else { return name };
            if key.gateway == OURS {
                one.own.title.clone()
            } else {
                format!("{} ({})", one.own.title, key.gateway)
            }
        };
        let mut rows = Vec::new();
        for files in folder.rows()? {
            let row = files.row()?.context("row.json is gone")?;
            let key = files.key.clone();
            let mut processes = BTreeMap::new();
            for server in [key.gateway.as_str(), "netty", "jmeter"] {
                if let Some(samples) = files.process(server)? {
                    processes.insert(server.to_owned(), samples);
                }
            }
            let mut sar = Vec::new();
            let duration = files.duration()?;
            if let Some(time) = duration {
                for kind in Kind::ALL {
                    let Some(report) = files.sar(&key.gateway, kind)? else { continue };
                    let end = time.end_timestamp.saturating_add(SAR_SECONDS_AFTER);
                    sar.push((kind, report.averages(time.start_timestamp, end)));
                }
            }
            let gc_log = crate::folder::read_text(&files.gc_log(&key.gateway))?;
            let perf = crate::folder::read_text(&files.server_file(&key.gateway, "perf.csv"))?;
            rows.push(Measured {
                title: title(&key),
                key,
                row,
                started: duration.map(|time| time.start_timestamp),
                summary: files.summary(Part::Measurement)?.unwrap_or(Summary(Vec::new())),
                seconds: files.seconds()?.unwrap_or(Vec::new()),
                processes,
                sar,
                gc: gc_log.and_then(|text| Gc::parse(&text)),
                perf: perf.map_or(BTreeMap::new(), |text| counters(&text)),
            });
        }
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        Ok(Results { name, metadata, stacks: Vec::new(), rows })
    }

    /// Adds the rows of another folder, such as of a second machine that ran a part of them.
    ///
    /// # Errors
    ///
    /// If both have the same row.
    pub fn add(&mut self, other: Results) -> Result<()> {
        for row in &other.rows {
            if self.rows.iter().any(|known| known.key == row.key) {
                anyhow::bail!(
                    "{} and {} both have {}",
                    self.name,
                    other.name,
                    row.key.path().display()
                );
            }
        }
        self.rows.extend(other.rows);
        self.rows.sort_by(|one, next| one.key.cmp(&next.key));
        self.stacks.extend(other.metadata.map(|metadata| (other.name, metadata)));
        Ok(())
    }

    /// Returns one row for each group of rounds: the one with the median throughput, with the marks of all rounds.
    #[must_use]
    pub fn typical(&self) -> Vec<Measured> {
        let mut groups: BTreeMap<RowKey, Vec<&Measured>> = BTreeMap::new();
        for row in &self.rows {
            groups.entry(RowKey { round: 0, ..row.key.clone() }).or_default().push(row);
        }
        let typical = |mut rounds: Vec<&Measured>| {
            rounds.sort_by(|one, other| {
                let throughput = |row: &Measured| row.throughput().unwrap_or(0.0);
                throughput(one).total_cmp(&throughput(other))
            });
            let mut row = (*rounds.get((rounds.len() - 1) / 2)?).clone();
            let marks: std::collections::BTreeSet<Mark> =
                rounds.iter().flat_map(|row| row.row.marks.iter().copied()).collect();
            row.row.marks = marks.into_iter().collect();
            Some(row)
        };
        // Harmless: no group is empty.
        groups.into_values().filter_map(typical).collect()
    }

    /// Returns the names of the peers that have rows or were asked for, even if they can do the work of no row.
    #[must_use]
    pub fn peers(&self) -> Vec<String> {
        let metadata = self.metadata.iter().chain(self.stacks.iter().map(|(_, one)| one));
        let scenarios = metadata.flat_map(|one| &one.test_scenarios);
        // Harmless: a folder of our own gateway has the name of its scenario alone.
        let asked = scenarios.filter_map(|one| Some(one.name.split_once('@')?.1));
        let names = self.rows.iter().map(|row| row.key.gateway.as_str()).chain(asked);
        let peers: std::collections::BTreeSet<&str> = names.filter(|name| *name != OURS).collect();
        peers.into_iter().map(str::to_owned).collect()
    }
}

impl Measured {
    /// Returns the statistics of a label, or those of all labels together if `label` is `None`.
    #[must_use]
    pub fn statistics(&self, label: Option<&str>) -> Option<&Statistics> {
        match (label, self.summary.0.as_slice()) {
            (Some(label), _) => self.summary.label(label),
            (None, [(_, only)]) => Some(only),
            (None, _) => self.row.all_labels.as_ref(),
        }
    }

    /// Returns the requests per second of all labels together.
    #[must_use]
    pub fn throughput(&self) -> Option<f64> {
        let all = self.summary.0.iter().map(|(_, statistics)| statistics.throughput);
        let all: Option<Vec<f64>> = all.collect();
        all.filter(|all| !all.is_empty()).map(|all| all.iter().sum())
    }

    /// Returns the requests per second as the tables show them: document 001 counts the whole run with its ramp.
    #[must_use]
    pub fn rate(&self) -> Option<f64> {
        let whole = self.row.whole_throughput.filter(|_| self.row.document == "001");
        whole.or_else(|| self.throughput())
    }

    /// Returns the marks as the text of a cell, which is empty without marks.
    #[must_use]
    pub fn marks(&self) -> String {
        let names: Vec<&str> = self.row.marks.iter().map(|mark| mark.name()).collect();
        names.join(", ")
    }

    /// Returns the samples of the gateway's process.
    #[must_use]
    pub fn gateway(&self) -> &[ProcessSample] {
        self.processes.get(&self.key.gateway).map_or(&[], Vec::as_slice)
    }
}

/// Parses `VALUE;UNIT;NAME;...`, as written by `perf stat -x ;`. As in the reference, names lose their first hyphen.
fn counters(text: &str) -> BTreeMap<String, String> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.contains("<not "));
    let counter = |line: &str| {
        let mut cells = line.split(';');
        let (value, name) = (cells.next()?, cells.nth(1)?);
        Some((name.replacen('-', "", 1), value.to_owned()))
    };
    // Harmless: lines that are not counters are remarks of perf; a missing counter is shown as N/A.
    lines.filter_map(counter).collect()
}
