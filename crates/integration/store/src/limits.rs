//! The sizes that every implementation takes, and the check of what comes in.

use bytes::Bytes;

use crate::{Change, Error};

/// Bytes of a name: those of a topic's path, with a prefix, and what an index of PostgreSQL takes easily.
pub const NAME_BYTES_MAX: usize = 512;
/// Bytes of a key, which must fit into an index page of PostgreSQL (2,704).
pub const KEY_BYTES_MAX: usize = 2048;
/// Bytes of a row's value: a message that waits or is dead, at the largest body that a flow takes by default, and its head.
pub const VALUE_BYTES_MAX: usize = 20 << 20;
/// Bytes of a record, as for values.
pub const RECORD_BYTES_MAX: usize = 20 << 20;
/// Records of one append, or changes of one call.
pub const ITEMS_MAX: usize = 1000;
/// Bytes of one append or of all changes of one call.
pub const WRITE_BYTES_MAX: usize = 32 << 20;
/// Rows of one scan.
pub const ROWS_MAX: usize = 1000;
/// Bytes after which a scan gives no further row.
pub const SCAN_BYTES: usize = 4 << 20;
/// Records of one read.
pub const READ_RECORDS_MAX: usize = 10_000;
/// Bytes of one read beyond its first record.
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
        0 => Err(Error::Size { what, size, max }),
        _ => at_most(what, size, max),
    }
}

fn at_most(what: &'static str, size: usize, max: usize) -> Result<(), Error> {
    if size <= max { Ok(()) } else { Err(Error::Size { what, size, max }) }
}
