//! The tables file: a redb database on a [`Disk`] with the rows and the engine's own data.
//!
//! Owns the file and its transactions. After a disk error, redb refuses all further operations, so the file is reopened. The reopened
//! file shows whether the failed transaction was committed.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use redb::{
    Database, ReadTransaction, ReadableDatabase, ReadableTable, Table, TableDefinition, TableError,
    WriteTransaction,
};

use crate::disk::{Disk, DiskFile};
use crate::{Change, Error, Expect, Row, Rows, Scan, limits, segment};

/// The name of the file.
pub(crate) const FILE: &str = "tables.redb";

/// The name of a marker file. It exists while no process has the tables open, provided that the last process closed them without an error.
const CLEAN: &str = "clean";

/// The size of redb's own page cache. The operating system caches further pages.
const CACHE_BYTES: usize = 8 << 20;
/// The page size of a redb file.
const PAGE_BYTES: u64 = 4096;
/// Files up to this size are checked completely when they are opened. The check reads at least one gigabyte per second.
const CHECKED_BYTES: u64 = 512 << 20;

/// Rows. Key: the length of the table's name, the name, and the row's key. Value: the version, a checksum, and the row's value.
const ROWS: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
/// Logs, by name: the number that stands for the name in segments, and the oldest position that is kept.
const LOGS: TableDefinition<'_, &str, (u32, u64)> = TableDefinition::new("logs");
/// Leases, by name: the last token that was given out.
const LEASES: TableDefinition<'_, &str, u64> = TableDefinition::new("leases");
/// Counters, by name: the sum, and the end of the window in milliseconds since the Unix epoch.
const COUNTERS: TableDefinition<'_, &str, (u64, u64)> = TableDefinition::new("counters");
/// Logs, by name: the newest position that was durable when the entry was written. No row refers to a later position.
const NEWEST: TableDefinition<'_, &str, u64> = TableDefinition::new("newest");
/// The engine's own numbers.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("numbers");
/// In [`NUMBERS`]: the format of the whole store.
const FORMAT: &str = "format";
/// In [`NUMBERS`]: the last version that was given to a row.
const VERSION: &str = "version";
/// In [`NUMBERS`]: the number of the last transaction.
const COMMITS: &str = "commits";

/// The open tables file.
#[derive(Debug)]
pub(crate) struct TablesFile {
    disk: Arc<dyn Disk>,
    /// True if a sync failed and the file has not been rewritten since.
    unsure: Arc<AtomicBool>,
    /// `None` after an error, until the file has been reopened.
    database: RwLock<Option<Arc<Database>>>,
}

/// The state in the file when the engine starts.
#[derive(Debug, Default)]
pub(crate) struct RestoredState {
    pub(crate) logs: Vec<(String, u32, u64)>,
    pub(crate) newest: HashMap<String, u64>,
    pub(crate) leases: Vec<(String, u64)>,
    pub(crate) counters: Vec<(String, u64, u64)>,
    pub(crate) version: u64,
    pub(crate) commits: u64,
}

/// The writes of one transaction.
#[derive(Debug, Default)]
pub(crate) struct TransactionWork {
    pub(crate) logs: Vec<(String, u32, u64)>,
    /// The newest durable position of each log that has new records since its position was last written.
    pub(crate) newest: Vec<(Box<str>, u64)>,
    pub(crate) leases: Vec<(Arc<str>, u64)>,
    /// `None` removes the counter.
    pub(crate) counters: Vec<(String, Option<(u64, u64)>)>,
    pub(crate) changes: Vec<Vec<Change>>,
    /// The last version that was given to a row.
    pub(crate) version: u64,
    /// The number of this transaction.
    pub(crate) commit: u64,
}

/// The result of each list of changes: the new versions of its rows.
pub(crate) type ChangeResults = Vec<Result<Vec<u64>, Error>>;

impl Drop for TablesFile {
    fn drop(&mut self) {
        let database = self.database.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        // Harmless: without the marker file, the next start rewrites the tables, which only takes time.
        let closed = database.and_then(|database| Arc::try_unwrap(database).ok());
        let closed = closed.is_some_and(|database| database.close().is_ok());
        if closed && !self.unsure.load(Ordering::Acquire) {
            drop(self.disk.open(CLEAN).and_then(|_| self.disk.sync()));
        }
    }
}

impl TransactionWork {
    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.has_only_changes()
    }

    fn has_only_changes(&self) -> bool {
        self.logs.is_empty()
            && self.leases.is_empty()
            && self.counters.is_empty()
            && self.newest.is_empty()
    }
}

impl TablesFile {
    /// Opens the file. Creates it if it does not exist.
    pub(crate) fn open(disk: Arc<dyn Disk>) -> Result<(TablesFile, RestoredState), Error> {
        let unsure = Arc::new(AtomicBool::new(false));
        if begin_unclean(&*disk).map_err(|error| crate::error::of_disk(&error))? {
            write_again(&*disk).map_err(|error| crate::error::of_disk(&error))?;
        }
        let database = open(&*disk, &unsure)?;
        let kept = read_kept(&database).map_err(failed)?;
        let database = RwLock::new(Some(Arc::new(database)));
        Ok((TablesFile { disk, unsure, database }, kept))
    }

    /// Returns the row with this key.
    pub(crate) fn get(&self, table: &str, key: &[u8]) -> Result<Option<Row>, Error> {
        let full = full_key(table, key);
        self.read(|transaction| {
            let rows = transaction.open_table(ROWS)?;
            let value = rows.get(full.as_slice())?;
            Ok(value.map(|value| row(&full, key.len(), value.value())))
        })?
        .transpose()
    }

    /// Returns rows of a table in the order of their keys.
    pub(crate) fn scan(&self, table: &str, scan: &Scan) -> Result<Rows, Error> {
        let begin = scan.prefix.as_slice().max(scan.after.as_deref().unwrap_or(&[]));
        let (prefix, begin) = (full_key(table, &scan.prefix), full_key(table, begin));
        let table_len = full_key(table, &[]).len();
        let after = scan.after.as_ref().map(|after| full_key(table, after));
        let found = self.read(|transaction| {
            let rows = transaction.open_table(ROWS)?;
            let mut found = (Vec::new(), false);
            let mut bytes = 0;
            for entry in rows.range(begin.as_slice()..)? {
                let (key, value) = entry?;
                let (key, value) = (key.value(), value.value());
                if !key.starts_with(&prefix) {
                    break;
                }
                if after.as_deref() == Some(key) {
                    continue;
                }
                if found.0.len() >= scan.rows_max.min(limits::ROWS_MAX)
                    || bytes >= limits::SCAN_BYTES
                {
                    found.1 = true;
                    break;
                }
                bytes += key.len() + value.len();
                found.0.push(row(key, key.len() - table_len, value));
            }
            Ok(found)
        })?;
        Ok(Rows { rows: found.0.into_iter().collect::<Result<_, _>>()?, more: found.1 })
    }

    /// Calls `each` for every row, with the name of its table. For a damaged row, `each` gets the error.
    pub(crate) fn each_row(
        &self,
        each: &mut dyn FnMut(&str, Result<Row, Error>),
    ) -> Result<(), Error> {
        self.read(|transaction| {
            for entry in transaction.open_table(ROWS)?.iter()? {
                let (key, value) = entry?;
                match table_of(key.value()) {
                    Some((table, key_len)) => {
                        each(table, row(key.value(), key_len, value.value()));
                    }
                    None => each("", Err(Error::Corrupt("a row without a table name".to_owned()))),
                }
            }
            Ok(())
        })
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&ReadTransaction) -> Result<T, redb::Error>,
    ) -> Result<T, Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner).clone();
        let database = database.ok_or_else(away)?;
        let transaction = database.begin_read().map_err(failed)?;
        work(&transaction).map_err(failed)
    }

    /// Commits one transaction. After an error nothing was written, except after [`Error::Unavailable`], which leaves this open.
    pub(crate) fn commit(&self, work: &mut TransactionWork) -> Result<ChangeResults, Error> {
        let database = self.database.read().unwrap_or_else(PoisonError::into_inner).clone();
        let database = match database {
            Some(database) => database,
            None => self.reopen()?,
        };
        let error = match transact(&database, work) {
            Ok(changed) => return Ok(changed),
            Err(error) => error,
        };
        // After a disk error, redb refuses all further operations.
        drop(database);
        let database = self.reopen().map_err(|_| Error::Unavailable(error.to_string()))?;
        // The error may have occurred after the commit.
        if read_kept(&database).map_err(failed)?.commits == work.commit {
            Err(Error::Unavailable(error.to_string()))
        } else {
            Err(error)
        }
    }

    /// Waits until no reader uses the old database, and then opens the file again.
    fn reopen(&self) -> Result<Arc<Database>, Error> {
        let mut place = self.database.write().unwrap_or_else(PoisonError::into_inner);
        let mut old = place.take();
        // A reader holds the database for microseconds. The loop waits for at most about one second.
        for _ in 0..1000 {
            match old.map(Arc::try_unwrap) {
                None | Some(Ok(_)) => {
                    old = None;
                    break;
                }
                Some(Err(shared)) => old = Some(shared),
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        drop(old);
        if self.unsure.load(Ordering::Acquire) {
            write_again(&*self.disk).map_err(|error| crate::error::of_disk(&error))?;
            self.unsure.store(false, Ordering::Release);
        }
        let database = Arc::new(open(&*self.disk, &self.unsure)?);
        *place = Some(database.clone());
        Ok(database)
    }

    /// Returns free pages to the file system.
    pub(crate) fn compact(&self) -> Result<(), Error> {
        let mut place = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Harmless: no reader uses the database at this time. If one does, the result is an error.
        let database = place.take().and_then(|database| Arc::try_unwrap(database).ok());
        let mut database = database.ok_or_else(away)?;
        let compacted = database.compact().map_err(failed);
        *place = Some(Arc::new(database));
        compacted.map(|_| ())
    }

    /// Checks the checksums of all pages. Returns false if redb had to repair the file.
    pub(crate) fn check(&self) -> Result<bool, Error> {
        let mut place = self.database.write().unwrap_or_else(PoisonError::into_inner);
        // Harmless: no reader uses the database at this time. If one does, the result is an error.
        let database = place.take().and_then(|database| Arc::try_unwrap(database).ok());
        let mut database = database.ok_or_else(away)?;
        let checked = database.check_integrity().map_err(failed);
        *place = Some(Arc::new(database));
        checked
    }
}

fn open(disk: &dyn Disk, unsure: &Arc<AtomicBool>) -> Result<Database, Error> {
    let file = disk.open(FILE).map_err(|error| crate::error::of_disk(&error))?;
    let size = cut_to_pages(&*file).map_err(|error| crate::error::of_disk(&error))?;
    let mut builder = redb::Builder::new();
    builder.set_cache_size(CACHE_BYTES).set_check_integrity_on_open(size <= CHECKED_BYTES);
    let database =
        builder.create_with_backend(Backend { file, unsure: unsure.clone() }).map_err(failed)?;
    if size == 0 {
        disk.sync().map_err(|error| crate::error::of_disk(&error))?;
    }
    let known = match database.begin_read().map_err(failed)?.open_table(NUMBERS) {
        Ok(numbers) => numbers.get(FORMAT).map_err(failed)?.map(|format| format.value()),
        // The file is new.
        Err(TableError::TableDoesNotExist(_)) => None,
        Err(error) => return Err(failed(error)),
    };
    match known {
        Some(format) if format == u64::from(segment::VERSION) => {}
        Some(format) => {
            return Err(Error::Unavailable(format!(
                "its format {format} needs another program version"
            )));
        }
        None => begin(&database).map_err(failed)?,
    }
    Ok(database)
}

/// Truncates an incomplete page at the end of the file. Returns the resulting size in bytes.
///
/// A crash may keep the first sectors of a new page but lose the file's new size. No durable commit uses such a page, and
/// redb accepts only files of whole pages.
fn cut_to_pages(file: &dyn DiskFile) -> io::Result<u64> {
    let size = file.size()?;
    let whole = size - size % PAGE_BYTES;
    if whole < size {
        file.set_size(whole)?;
    }
    Ok(whole)
}

/// Removes the marker [`CLEAN`], because the file is now open. Returns true if the file exists and the last process did not close it
/// cleanly.
fn begin_unclean(disk: &dyn Disk) -> io::Result<bool> {
    let names = disk.list()?;
    let clean = names.iter().any(|name| name == CLEAN);
    if clean {
        disk.remove(CLEAN)?;
        disk.sync()?;
    }
    Ok(!clean && names.iter().any(|name| name == FILE))
}

/// Rewrites the whole file with the content that the operating system returns for it.
///
/// After a failed sync, the operating system may mark pages as clean that it could not write. Reads then return the new content, but no
/// later sync writes it to the disk. A crash would lose these pages and all later data that depends on them.
fn write_again(disk: &dyn Disk) -> io::Result<()> {
    let file = disk.open(FILE)?;
    let size = file.size()?;
    let mut bytes = vec![0; 1 << 20];
    let mut offset = 0;
    while offset < size {
        let len = usize::try_from(size - offset).unwrap_or(usize::MAX).min(bytes.len());
        let Some(part) = bytes.get_mut(..len) else { break };
        file.read_at(offset, part)?;
        file.write_at(offset, part)?;
        offset += len as u64;
    }
    file.sync()
}

/// Creates the tables of a new file.
fn begin(database: &Database) -> Result<(), redb::Error> {
    let transaction = database.begin_write()?;
    transaction.open_table(ROWS)?;
    transaction.open_table(LOGS)?;
    transaction.open_table(LEASES)?;
    transaction.open_table(COUNTERS)?;
    transaction.open_table(NEWEST)?;
    transaction.open_table(NUMBERS)?.insert(FORMAT, u64::from(segment::VERSION))?;
    Ok(transaction.commit()?)
}

fn read_kept(database: &Database) -> Result<RestoredState, redb::Error> {
    let transaction = database.begin_read()?;
    let mut kept = RestoredState::default();
    for entry in transaction.open_table(LOGS)?.iter()? {
        let (name, row) = entry?;
        kept.logs.push((name.value().to_owned(), row.value().0, row.value().1));
    }
    match transaction.open_table(NEWEST) {
        Ok(newest) => {
            for entry in newest.iter()? {
                let (name, position) = entry?;
                kept.newest.insert(name.value().to_owned(), position.value());
            }
        }
        // Harmless: a file of an older program does not have this table.
        Err(TableError::TableDoesNotExist(_)) => {}
        Err(error) => return Err(error.into()),
    }
    for entry in transaction.open_table(LEASES)?.iter()? {
        let (name, token) = entry?;
        kept.leases.push((name.value().to_owned(), token.value()));
    }
    for entry in transaction.open_table(COUNTERS)?.iter()? {
        let (name, row) = entry?;
        kept.counters.push((name.value().to_owned(), row.value().0, row.value().1));
    }
    let numbers = transaction.open_table(NUMBERS)?;
    kept.version = numbers.get(VERSION)?.map_or(0, |number| number.value());
    kept.commits = numbers.get(COMMITS)?.map_or(0, |number| number.value());
    Ok(kept)
}

fn transact(database: &Database, work: &mut TransactionWork) -> Result<ChangeResults, Error> {
    let transaction = database.begin_write().map_err(failed)?;
    let changed = write(&transaction, work).map_err(failed)?;
    if changed.iter().all(Result::is_err) && work.has_only_changes() {
        transaction.abort().map_err(failed)?
    } else {
        transaction.commit().map_err(failed)?
    }
    Ok(changed)
}

fn write(
    transaction: &WriteTransaction,
    work: &mut TransactionWork,
) -> Result<ChangeResults, redb::Error> {
    let mut logs = transaction.open_table(LOGS)?;
    for (name, id, oldest) in &work.logs {
        let known = logs.get(name.as_str())?.map(|row| row.value());
        if known.is_none_or(|(known, kept)| known != *id || kept < *oldest) {
            logs.insert(name.as_str(), (*id, *oldest))?;
        }
    }
    let mut newest = transaction.open_table(NEWEST)?;
    for (name, position) in &work.newest {
        newest.insert(&**name, *position)?;
    }
    let mut leases = transaction.open_table(LEASES)?;
    for (name, token) in &work.leases {
        leases.insert(name.as_ref(), *token)?;
    }
    let mut counters = transaction.open_table(COUNTERS)?;
    for (name, row) in &work.counters {
        match row {
            Some(row) => counters.insert(name.as_str(), *row)?,
            None => counters.remove(name.as_str())?,
        };
    }
    let mut rows = transaction.open_table(ROWS)?;
    let mut changed = Vec::with_capacity(work.changes.len());
    for changes in &work.changes {
        changed.push(change(&mut rows, changes, &mut work.version)?);
    }
    let mut numbers = transaction.open_table(NUMBERS)?;
    numbers.insert(VERSION, work.version)?;
    numbers.insert(COMMITS, work.commit)?;
    Ok(changed)
}

/// Makes all changes or none. Each change sees the effects of those before it.
fn change(
    rows: &mut Table<'_, &[u8], &[u8]>,
    changes: &[Change],
    last: &mut u64,
) -> Result<Result<Vec<u64>, Error>, redb::Error> {
    let mut undo: Vec<(Vec<u8>, Option<Vec<u8>>)> = Vec::new();
    let mut versions = Vec::with_capacity(changes.len());
    for (index, change) in changes.iter().enumerate() {
        let key = full_key(&change.table, &change.key);
        let was = rows.get(key.as_slice())?.map(|value| value.value().to_vec());
        let version = was.as_deref().and_then(version_of);
        let expected = match change.expect {
            Expect::Anything => true,
            Expect::Nothing => version.is_none(),
            Expect::Version(expected) => version == Some(expected),
        };
        if !expected {
            for (key, was) in undo.into_iter().rev() {
                match was {
                    Some(value) => rows.insert(key.as_slice(), value.as_slice())?,
                    None => rows.remove(key.as_slice())?,
                };
            }
            return Ok(Err(Error::Conflict { index, version }));
        }
        *last += 1;
        versions.push(*last);
        match &change.value {
            Some(value) => {
                rows.insert(key.as_slice(), full_value(&key, *last, value).as_slice())?
            }
            None => rows.remove(key.as_slice())?,
        };
        undo.push((key, was));
    }
    Ok(Ok(versions))
}

/// Returns the key of a row in the file. The rows of a table are adjacent and in the order of their keys.
fn full_key(table: &str, key: &[u8]) -> Vec<u8> {
    let len = u16::try_from(table.len()).unwrap_or(u16::MAX);
    [&len.to_be_bytes(), table.as_bytes(), key].concat()
}

/// Splits a key in the file. Returns the name of the table, and the length of the row's key in the table.
fn table_of(full: &[u8]) -> Option<(&str, usize)> {
    let (len, rest) = full.split_first_chunk()?;
    let (table, key) = rest.split_at_checked(usize::from(u16::from_be_bytes(*len)))?;
    Some((std::str::from_utf8(table).ok()?, key.len()))
}

fn full_value(key: &[u8], version: u64, value: &[u8]) -> Vec<u8> {
    let crc = checksum(key, version, value);
    [version.to_le_bytes().as_slice(), &crc.to_le_bytes(), value].concat()
}

fn checksum(key: &[u8], version: u64, value: &[u8]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(&version.to_le_bytes());
    crc.update(key);
    crc.update(value);
    crc.finalize()
}

fn version_of(full: &[u8]) -> Option<u64> {
    full.first_chunk().map(|version| u64::from_le_bytes(*version))
}

/// Decodes a row. `key` and `full` are its key and value in the file. The last `key_len` bytes of `key` are the row's key in its table.
fn row(key: &[u8], key_len: usize, full: &[u8]) -> Result<Row, Error> {
    let parts = || {
        let (version, rest) = full.split_first_chunk()?;
        let (crc, value) = rest.split_first_chunk()?;
        let version = u64::from_le_bytes(*version);
        let sound = checksum(key, version, value) == u32::from_le_bytes(*crc);
        let key = key.get(key.len().checked_sub(key_len)?..)?;
        let (key, value) = (Bytes::copy_from_slice(key), Bytes::copy_from_slice(value));
        sound.then_some(Row { key, value, version })
    };
    parts().ok_or_else(|| Error::Corrupt("a row is damaged".to_owned()))
}

fn away() -> Error {
    Error::Unavailable("the tables file could not be reopened yet after an error".to_owned())
}

/// Converts an error of redb.
fn failed(error: impl Into<redb::Error>) -> Error {
    let error = error.into();
    // redb reports a file that is not a redb database as an I/O error of this kind.
    let is_other =
        matches!(&error, redb::Error::Io(error) if error.kind() == io::ErrorKind::InvalidData);
    if let (redb::Error::Io(error), false) = (&error, is_other) {
        return crate::error::of_disk(error);
    }
    if is_other || matches!(error, redb::Error::Corrupted(_)) {
        Error::Corrupt(format!("tables: {error}"))
    } else {
        Error::Unavailable(format!("tables: {error}"))
    }
}

/// Implements redb's storage interface on a file of a [`Disk`].
#[derive(Debug)]
struct Backend {
    file: Arc<dyn DiskFile>,
    unsure: Arc<AtomicBool>,
}

impl redb::StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.file.size()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_size(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.file.sync().inspect_err(|_| self.unsure.store(true, Ordering::Release))
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.file.write_at(offset, data)
    }
}
