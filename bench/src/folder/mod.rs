//! The folder of results. It has the layout, names and keys of the reference's harness, and files of our own.
//!
//! Owns every file of the folder except for the content of `results.hdr`, which is the generator's. Each file is written completely under
//! another name and then renamed, so that a run that is killed leaves no partial file. `row.json` is written last, so a row is finished if
//! it exists.
//!
//! ```text
//! DIR/test-metadata.json                          Metadata
//! DIR/test-duration.json                          TotalDuration
//! DIR/SCENARIO/2G_heap/100_users/500B/0ms_sleep/  RowKey; SCENARIO@PEER for a peer, round-2/ below it for more rounds
//!     test_duration.json                          RowDuration
//!     results-warmup-summary.json                 Summary: label -> Statistics
//!     results-measurement-summary.json            Summary
//!     results-seconds.csv                         Second
//!     results.hdr                                 an interval log of HdrHistogram
//!     row.json                                    Row
//!     SERVER/SERVER_process.csv                   ProcessSample
//!     SERVER/SERVER_sar_report_KIND.csv           sar::Report
//!     SERVER_gc.log                               of a JVM
//! ```

pub mod jtl;
mod key;
mod metadata;
mod process;
mod row;
pub mod sar;
mod seconds;
mod summary;

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

pub use key::{BEFORE, OURS, RowKey};
pub use metadata::{BUILD, Metadata, PROGRAM, Scenario, SystemFact, TotalDuration};
pub use process::ProcessSample;
pub use row::{Corrected, Cost, DOCUMENTS, Mark, OwnLatency, Row, RowDuration, Settled};
pub use seconds::Second;
pub use summary::{LABEL, Measured, Statistics, Summary};

/// Maximum size of a file. A day of samples, one per second, takes less than 10 MiB.
const FILE_BYTES_MAX: u64 = 256 << 20;
/// Maximum number of rows. A folder with more was not written by this program.
const ROWS_MAX: usize = 100_000;

/// A folder of results.
#[derive(Clone, Debug)]
pub struct Folder {
    /// Its path.
    pub path: PathBuf,
}

/// The files of one row.
#[derive(Clone, Debug)]
pub struct RowFolder {
    /// What was run.
    pub key: RowKey,
    /// The path of the row.
    pub path: PathBuf,
}

/// Which part of a run a summary is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Before the end of the warm-up.
    WarmUp,
    /// After it.
    Measurement,
}

impl Folder {
    /// Creates the folder at this path, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Folder {
        Folder { path: path.into() }
    }

    /// Returns true if the folder is empty or does not exist.
    ///
    /// # Errors
    ///
    /// If it cannot be read.
    pub fn is_empty(&self) -> Result<bool> {
        match fs::read_dir(&self.path) {
            Ok(mut entries) => Ok(entries.next().is_none()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
            Err(error) => Err(error).with_context(|| format!("{}", self.path.display())),
        }
    }

    /// The files of this row, whether or not they exist.
    #[must_use]
    pub fn row(&self, key: &RowKey) -> RowFolder {
        RowFolder { key: key.clone(), path: self.path.join(key.path()) }
    }

    /// The finished rows, sorted by scenario, gateway, heap, users, size, delay and round.
    ///
    /// # Errors
    ///
    /// If a folder cannot be read.
    pub fn rows(&self) -> Result<Vec<RowFolder>> {
        let mut rows = Vec::new();
        find_rows(&self.path, &self.path, 0, &mut rows)?;
        rows.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(rows)
    }

    /// The content of `test-metadata.json`, or `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// If it is not what we write.
    pub fn metadata(&self) -> Result<Option<Metadata>> {
        read_json(&self.path.join("test-metadata.json"))
    }

    /// Writes `test-metadata.json`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_metadata(&self, metadata: &Metadata) -> Result<()> {
        write_json(&self.path.join("test-metadata.json"), metadata)
    }

    /// The content of `test-duration.json`, or `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// If it is not what we write.
    pub fn duration(&self) -> Result<Option<TotalDuration>> {
        read_json(&self.path.join("test-duration.json"))
    }

    /// Writes `test-duration.json`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_duration(&self, duration: &TotalDuration) -> Result<()> {
        write_json(&self.path.join("test-duration.json"), duration)
    }
}

impl RowFolder {
    /// True if the row is finished.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.path.join("row.json").is_file()
    }

    /// The content of `row.json`, or `None` if the row is not finished.
    ///
    /// # Errors
    ///
    /// If it is not what we write.
    pub fn row(&self) -> Result<Option<Row>> {
        read_json(&self.path.join("row.json"))
    }

    /// Writes `row.json`, after which the row is finished.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn finish(&self, row: &Row) -> Result<()> {
        write_json(&self.path.join("row.json"), row)
    }

    /// The begin and the end of the run, or `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// If it is not what we write.
    pub fn duration(&self) -> Result<Option<RowDuration>> {
        read_json(&self.path.join("test_duration.json"))
    }

    /// Writes `test_duration.json`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_duration(&self, duration: &RowDuration) -> Result<()> {
        write_json(&self.path.join("test_duration.json"), duration)
    }

    /// The statistics of a part, or `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// If it is not what we write.
    pub fn summary(&self, part: Part) -> Result<Option<Summary>> {
        read_json(&self.path.join(part.file()))
    }

    /// Writes the statistics of a part.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write_summary(&self, part: Part, summary: &Summary) -> Result<()> {
        write_json(&self.path.join(part.file()), summary)
    }

    /// Samples and errors of each second, or `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// If a line is not what we write.
    pub fn seconds(&self) -> Result<Option<Vec<Second>>> {
        read_table(&self.path.join("results-seconds.csv"), seconds::HEADER, Second::parse)
    }

    /// Writes `results-seconds.csv`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_seconds(&self, seconds: &[Second]) -> Result<()> {
        let lines = seconds.iter().map(Second::line);
        write_table(&self.path.join("results-seconds.csv"), seconds::HEADER, lines)
    }

    /// Writes `results.hdr`, an interval log of HdrHistogram.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_interval_log(&self, log: &[u8]) -> Result<()> {
        write_whole(&self.path.join("results.hdr"), log)
    }

    /// The samples of a server's process, or `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// If a line is not what we write.
    pub fn process(&self, server: &str) -> Result<Option<Vec<ProcessSample>>> {
        let path = self.server_file(server, "process.csv");
        read_table(&path, process::HEADER, ProcessSample::parse)
    }

    /// Writes `SERVER/SERVER_process.csv`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_process(&self, server: &str, samples: &[ProcessSample]) -> Result<()> {
        let lines = samples.iter().map(ProcessSample::line);
        write_table(&self.server_file(server, "process.csv"), process::HEADER, lines)
    }

    /// A report of sar for a server, or `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// If it is not what `sadf -d` writes.
    pub fn sar(&self, server: &str, kind: sar::Kind) -> Result<Option<sar::Report>> {
        let path = self.server_file(server, &kind.file());
        let Some(text) = read_text(&path)? else { return Ok(None) };
        sar::Report::parse(kind, &text).with_context(|| format!("{}", path.display())).map(Some)
    }

    /// Writes `SERVER/SERVER_sar_report_KIND.csv`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_sar(&self, server: &str, report: &sar::Report) -> Result<()> {
        write_whole(&self.server_file(server, &report.kind.file()), report.text().as_bytes())
    }

    /// `SERVER/SERVER_NAME`.
    #[must_use]
    pub fn server_file(&self, server: &str, name: &str) -> PathBuf {
        self.path.join(server).join(format!("{server}_{name}"))
    }

    /// Writes the log of garbage collections of a server.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_gc_log(&self, server: &str, log: &str) -> Result<()> {
        write_whole(&self.gc_log(server), log.as_bytes())
    }

    /// The log of garbage collections of a server.
    #[must_use]
    pub fn gc_log(&self, server: &str) -> PathBuf {
        self.path.join(format!("{server}_gc.log"))
    }
}

impl Part {
    fn file(self) -> &'static str {
        match self {
            Part::WarmUp => "results-warmup-summary.json",
            Part::Measurement => "results-measurement-summary.json",
        }
    }
}

/// Writes a whole file under another name and renames it, with its folders.
///
/// # Errors
///
/// If it cannot be written, such as when the disk is full.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let told = || format!("{} cannot be written", path.display());
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(told)?;
    }
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    let unfinished = PathBuf::from(name);
    fs::write(&unfinished, content).with_context(told)?;
    fs::rename(&unfinished, path).with_context(told)
}

/// The text of a file, or `None` if the file does not exist.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>> {
    match fs::metadata(path) {
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            anyhow::bail!("{} has more than {FILE_BYTES_MAX} bytes", path.display())
        }
        Ok(_) => fs::read_to_string(path).map(Some),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
    .with_context(|| format!("{} cannot be read", path.display()))
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    serde_json::from_str(&text).with_context(|| format!("{}", path.display())).map(Some)
}

fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<()> {
    let mut text = serde_json::to_vec_pretty(value)?;
    text.push(b'\n');
    write_whole(path, &text)
}

fn read_table<T>(
    path: &Path,
    header: &str,
    parse: impl Fn(&str) -> Result<T>,
) -> Result<Option<Vec<T>>> {
    let Some(text) = read_text(path)? else { return Ok(None) };
    let mut lines = text.lines();
    if lines.next() != Some(header) {
        anyhow::bail!("{}: the first line must be `{header}`", path.display());
    }
    let line = |(number, line)| {
        parse(line).with_context(|| format!("{}, line {}", path.display(), number + 2))
    };
    lines.enumerate().map(line).collect::<Result<Vec<T>>>().map(Some)
}

fn write_table(path: &Path, header: &str, lines: impl Iterator<Item = String>) -> Result<()> {
    let mut text = format!("{header}\n");
    for line in lines {
        text.push_str(&line);
        text.push('\n');
    }
    write_whole(path, text.as_bytes())
}

/// Finds the finished rows. Rows are five folders deep, and those of further rounds six.
fn find_rows(root: &Path, at: &Path, depth: usize, rows: &mut Vec<RowFolder>) -> Result<()> {
    let told = || format!("{} cannot be read", at.display());
    let inside = at.strip_prefix(root).with_context(told)?;
    if let Some(key) = RowKey::of_path(inside) {
        let row = RowFolder { key, path: at.to_owned() };
        if row.is_finished() {
            rows.push(row);
        }
        anyhow::ensure!(rows.len() <= ROWS_MAX, "{} has too many rows", root.display());
    }
    if depth == key::DEPTH_MAX {
        return Ok(());
    }
    for entry in fs::read_dir(at).with_context(told)? {
        let entry = entry.with_context(told)?;
        // Links are not followed, because they could form a cycle.
        if entry.file_type().with_context(told)?.is_dir() {
            find_rows(root, &entry.path(), depth + 1, rows)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
