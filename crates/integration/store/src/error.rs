//! Errors of a store.

use std::fmt;

/// The reason why a call failed. Only [`Error::Away`] and [`Error::Unknown`] leave open whether a write happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The store cannot be reached, or does not work at present. A write may have happened.
    Away(String),
    /// A write was not answered in time. It may have happened, and the client's reply says so.
    Unknown(String),
    /// There is no room for more data. The store continues by itself once there is room.
    Full(String),
    /// Too many calls are waiting.
    Busy,
    /// Stored data is damaged here. `tidegate store check` shows details.
    Corrupt(String),
    /// Another owner was given the lease since.
    Fenced,
    /// The change at `index` expected a version or no row, and the table has another version or no row.
    Conflict { index: usize, version: Option<u64> },
    /// Records after the position were trimmed; `oldest` is the first that is kept.
    Trimmed { oldest: u64 },
    /// A name, key, value, record or list exceeds the store's limit, or a name is empty.
    Size { what: &'static str, size: usize, max: usize },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Away(why) => write!(f, "the store cannot be used: {why}"),
            Error::Unknown(why) => write!(f, "it is unknown whether this was stored: {why}"),
            Error::Full(why) => write!(f, "the store is full: {why}"),
            Error::Busy => f.write_str("too many calls wait for the store"),
            Error::Corrupt(where_) => write!(f, "the store is damaged: {where_}"),
            Error::Fenced => f.write_str("the lease was given to another owner"),
            Error::Conflict { index, version: Some(version) } => {
                write!(f, "change {index} found the row in version {version}")
            }
            Error::Conflict { index, version: None } => write!(f, "change {index} found no row"),
            Error::Trimmed { oldest } => {
                write!(f, "records at the position are gone; the oldest kept is {oldest}")
            }
            Error::Size { what, size, max } => {
                write!(f, "the {what} has a size of {size}; it must be from 1 to {max}")
            }
        }
    }
}

impl std::error::Error for Error {}

/// An error of the disk.
pub(crate) fn of_disk(error: &std::io::Error) -> Error {
    let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
    if full.contains(&error.kind()) {
        Error::Full(error.to_string())
    } else {
        Error::Away(error.to_string())
    }
}
