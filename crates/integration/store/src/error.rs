//! Errors of a store.

use std::fmt;

/// The reason why a call failed. Only [`Error::Unavailable`] and [`Error::OutcomeUnknown`] leave open whether a write happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The store cannot be reached, or is temporarily unavailable. A write may have happened.
    Unavailable(String),
    /// A write was not acknowledged in time. It may have happened, and the reply to the client says so.
    OutcomeUnknown(String),
    /// There is no room for more data. The store continues by itself once there is room.
    Full(String),
    /// Too many calls are waiting.
    Busy,
    /// Stored data is damaged. The text says which. `tidegate store check` shows details.
    Corrupt(String),
    /// The lease has been given to another owner.
    Fenced,
    /// The change at `index` found another row than it expected. `version` is the version of the row, or `None` if there is no row.
    Conflict { index: usize, version: Option<u64> },
    /// Records after the requested position were trimmed. `oldest` is the position of the first record that is kept.
    Trimmed { oldest: u64 },
    /// A name, key, value, record or list exceeds the store's limit, or a name, key or list is empty. `max` is `None` if the
    /// gateway does not know the limit, because a server of the store sets it.
    Size { what: &'static str, size: usize, max: Option<usize> },
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unavailable(why) => write!(f, "the store is not available: {why}"),
            Error::OutcomeUnknown(why) => write!(f, "it is unknown whether this was stored: {why}"),
            Error::Full(why) => write!(f, "the store is full: {why}"),
            Error::Busy => f.write_str("too many calls wait for the store"),
            Error::Corrupt(where_) => write!(f, "the store is damaged: {where_}"),
            Error::Fenced => f.write_str("the lease was given to another owner"),
            Error::Conflict { index, version: Some(version) } => {
                write!(f, "change {index} found the row with version {version}")
            }
            Error::Conflict { index, version: None } => write!(f, "change {index} found no row"),
            Error::Trimmed { oldest } => {
                write!(f, "records after the position were trimmed; the oldest is {oldest}")
            }
            Error::Size { what, size, max: Some(max) } if size > max => {
                write!(f, "the {what} has a size of {size}; it must be at most {max}")
            }
            Error::Size { what, size: 0, .. } => write!(f, "the {what} is empty"),
            Error::Size { what, size, .. } => {
                write!(f, "the {what} has a size of {size}, which is too large")
            }
        }
    }
}

impl std::error::Error for Error {}

/// Converts an I/O error of the disk.
pub(crate) fn of_disk(error: &std::io::Error) -> Error {
    let full = [std::io::ErrorKind::StorageFull, std::io::ErrorKind::QuotaExceeded];
    if full.contains(&error.kind()) {
        Error::Full(error.to_string())
    } else {
        Error::Unavailable(error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_size_is_described() {
        for (size, max, text) in [
            (0, Some(512), "the name is empty"),
            (600, Some(512), "the name has a size of 600; it must be at most 512"),
            (600, None, "the name has a size of 600, which is too large"),
        ] {
            assert_eq!(Error::Size { what: "name", size, max }.to_string(), text);
        }
    }
}
