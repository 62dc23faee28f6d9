//! Operations on a store that no gateway has open: checking it, exporting it, and freeing space.

use std::path::Path;
use std::sync::Arc;

use tokio::sync::oneshot;

use crate::command::Command;
use crate::disk::Disk;
use crate::embedded::open_folder;
use crate::engine::{Engine, Tuning};
use crate::overlay::Overlay;
use crate::recovery::{self, RecoveryReport};
use crate::{Error, ReadQuery, Record, Row, limits, reader, segment, tables};

/// The name of the file of tables.
pub const TABLES_FILE: &str = tables::FILE;

/// The result of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckReport {
    pub recovered: RecoveryReport,
    pub rows: u64,
    /// Rows whose checksum is wrong.
    pub damaged_rows: u64,
    /// The damage of the file of tables, if any.
    pub tables: Option<String>,
    /// Why the file of tables cannot be opened. Nothing else was checked then, and no gateway can start.
    pub unreadable: Option<String>,
}

impl CheckReport {
    /// Returns true if no durable data is damaged.
    pub fn is_whole(&self) -> bool {
        self.recovered.damage.is_empty()
            && self.recovered.missing.is_empty()
            && self.damaged_rows == 0
            && self.tables.is_none()
            && self.unreadable.is_none()
    }
}

/// One item in a store.
#[derive(Debug)]
pub enum StoredItem<'a> {
    Record { log: &'a str, record: &'a Record },
    Row { table: &'a str, row: &'a Row },
}

/// Checks all data without changing anything.
pub fn check(path: &Path) -> Result<CheckReport, Error> {
    let engine = match open(path, true) {
        Ok(engine) => engine,
        Err(Error::Corrupt(why)) => {
            return Ok(CheckReport { unreadable: Some(why), ..CheckReport::default() });
        }
        Err(error) => return Err(error),
    };
    let (engine, recovered) = engine;
    let mut checked = CheckReport { recovered, ..CheckReport::default() };
    let rows = engine.shared.tables.each_row(&mut |_, row| match row {
        Ok(_) => checked.rows += 1,
        Err(_) => checked.damaged_rows += 1,
    });
    checked.tables = match rows.and_then(|()| engine.shared.tables.check()) {
        Ok(true) => None,
        Ok(false) => Some("its pages were inconsistent and were repaired in the copy".to_owned()),
        Err(error) => Some(error.to_string()),
    };
    Ok(checked)
}

/// Rewrites the tables, and all segments except the last one and damaged ones. Returns the size in bytes before and after.
pub fn compact(path: &Path) -> Result<(u64, u64), Error> {
    let (mut engine, _) = open(path, false)?;
    let before = bytes(&engine)?;
    let (done, mut answer) = oneshot::channel();
    engine.run(vec![Command::Compact { all: true, done }]);
    answer.try_recv().unwrap_or_else(|_| Err(crate::queue::closed()))?;
    engine.shared.tables.compact()?;
    Ok((before, bytes(&engine)?))
}

/// Passes all items of a store to `each`, log by log and table by table, without changing anything. Damaged data is not passed, but the
/// result lists it.
pub fn export(
    path: &Path,
    each: &mut dyn FnMut(StoredItem<'_>) -> std::io::Result<()>,
) -> Result<CheckReport, Error> {
    let (engine, recovered) = open(path, true)?;
    let mut report = CheckReport { recovered, ..CheckReport::default() };
    let mut names: Vec<_> = engine.logs.keys().collect();
    names.sort_unstable();
    for name in names {
        let mut after = 0;
        loop {
            let records_max = limits::READ_RECORDS_MAX;
            let read = ReadQuery { after, records_max, bytes_max: limits::READ_BYTES_MAX };
            let records = reader::read(&engine.shared, name, read)?.records;
            let Some(last) = records.last() else { break };
            after = last.position;
            for record in &records {
                each(StoredItem::Record { log: name, record })
                    .map_err(|e| crate::error::of_disk(&e))?;
            }
        }
    }
    let mut written = Ok(());
    engine.shared.tables.each_row(&mut |table, row| match row {
        Ok(row) if written.is_ok() => {
            report.rows += 1;
            written = each(StoredItem::Row { table, row: &row });
        }
        // An earlier item could not be written. That error is returned below.
        Ok(_) => {}
        Err(_) => report.damaged_rows += 1,
    })?;
    written.map_err(|error| crate::error::of_disk(&error))?;
    Ok(report)
}

/// Opens an existing store. If `read_only`, changes stay in memory.
fn open(path: &Path, read_only: bool) -> Result<(Engine, RecoveryReport), Error> {
    match has_store(path) {
        Ok(true) => {}
        Ok(false) => {
            return Err(Error::Unavailable(format!("there is no store in {}", path.display())));
        }
        Err(error) => {
            let what = format!("the folder {} cannot be read: {error}", path.display());
            return Err(Error::Unavailable(what));
        }
    }
    let folder = open_folder(path)?;
    let disk: Arc<dyn Disk> =
        if read_only { Arc::new(Overlay::new(folder)) } else { Arc::new(folder) };
    recovery::open(disk, Tuning::default(), Arc::default())
}

/// Returns true if a folder contains files of a store.
fn has_store(path: &Path) -> std::io::Result<bool> {
    let entries = match std::fs::read_dir(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(false),
        entries => entries?,
    };
    for entry in entries {
        let name = entry?.file_name();
        let is_file = |name: &str| name == tables::FILE || segment::number(name).is_some();
        if name.to_str().is_some_and(is_file) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn bytes(engine: &Engine) -> Result<u64, Error> {
    let disk = &engine.shared.disk;
    let size = |name: &String| disk.open(name)?.size();
    let sizes = disk.list().and_then(|names| names.iter().map(size).sum());
    sizes.map_err(|error| crate::error::of_disk(&error))
}
