//! The size limits of every implementation, and the checks of arguments.

use bytes::Bytes;

use crate::{Change, Error};

/// The longest name: the path of a topic with a prefix. PostgreSQL can index it.
pub const NAME_BYTES_MAX: usize = 512;
/// The longest key. It must fit into an index page of PostgreSQL (2,704 bytes).
pub const KEY_BYTES_MAX: usize = 2048;
/// The largest value of a row. It has room for a waiting or dead message: its head, and the largest body that a flow accepts by default.
pub const VALUE_BYTES_MAX: usize = 20 << 20;
/// The largest record. Chosen as for values.
pub const RECORD_BYTES_MAX: usize = 20 << 20;
/// The most records of one append, or changes of one call.
pub const ITEMS_MAX: usize = 1000;
/// The most bytes of all records of one append, or of all values of the changes of one call. Keys do not count.
pub const WRITE_BYTES_MAX: usize = 32 << 20;
/// The most rows of one scan.
pub const ROWS_MAX: usize = 1000;
/// The size after which a scan returns no further row.
pub const SCAN_BYTES: usize = 4 << 20;
/// The most records of one read.
pub const READ_RECORDS_MAX: usize = 10_000;
/// The most bytes of one read. The first record is returned whatever its size.
pub const READ_BYTES_MAX: usize = 16 << 20;

/// Checks the name of a log, table, lease, counter or owner.
pub fn name(name: &str) -> Result<(), Error> {
    within("name", name.len(), NAME_BYTES_MAX)
}

/// Checks an append.
pub fn append(log: &str, records: &[Bytes]) -> Result<(), Error> {
    name(log)?;
    within("list of records", records.len(), ITEMS_MAX)?;
    for record in records {
        at_most("record", record.len(), RECORD_BYTES_MAX)?;
    }
    at_most("append", records.iter().map(Bytes::len).sum(), WRITE_BYTES_MAX)
}

/// Checks a list of changes.
pub(crate) fn changes(changes: &[Change]) -> Result<(), Error> {
    within("list of changes", changes.len(), ITEMS_MAX)?;
    let mut bytes = 0;
    for change in changes {
        name(&change.table)?;
        within("key", change.key.len(), KEY_BYTES_MAX)?;
        let value = change.value.as_ref().map_or(0, Bytes::len);
        at_most("value", value, VALUE_BYTES_MAX)?;
        bytes += value;
    }
    at_most("list of changes", bytes, WRITE_BYTES_MAX)
}

fn within(what: &'static str, size: usize, max: usize) -> Result<(), Error> {
    match size {
        0 => Err(Error::Size { what, size, max: Some(max) }),
        _ => at_most(what, size, max),
    }
}

fn at_most(what: &'static str, size: usize, max: usize) -> Result<(), Error> {
    if size <= max { Ok(()) } else { Err(Error::Size { what, size, max: Some(max) }) }
}
