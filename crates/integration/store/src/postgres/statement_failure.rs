//! The reasons why a statement failed, and the meaning of the server's errors.

use sql::postgres::error_text;

use crate::Error;

/// The reason why a statement failed.
#[derive(Debug)]
pub(super) enum StatementFailure {
    /// The connection is gone, and the outcome is unknown.
    Lost(String),
    /// The server has no space left on its disk.
    Full(String),
    /// The server refused the statement, which had no effect.
    Refused(String),
    /// The tables were made by a newer program.
    Newer(String),
}

impl StatementFailure {
    pub(super) fn error(self) -> Error {
        match self {
            StatementFailure::Full(why) => Error::Full(why),
            StatementFailure::Lost(why)
            | StatementFailure::Refused(why)
            | StatementFailure::Newer(why) => Error::Unavailable(why),
        }
    }
}

/// Converts an error of the client library.
pub(super) fn failed(error: &tokio_postgres::Error) -> StatementFailure {
    let Some(db) = error.as_db_error() else { return StatementFailure::Lost(error_text(error)) };
    match db.code().code() {
        "53100" => StatementFailure::Full(error_text(error)),
        // A lost connection, a server that shuts down or has become a standby, and a timeout of the session: another connection may work.
        code if ["08", "57P", "25006", "25P03"].iter().any(|class| code.starts_with(class)) => {
            StatementFailure::Lost(error_text(error))
        }
        _ => StatementFailure::Refused(error_text(error)),
    }
}

/// The failure of a statement that the server did not answer in time.
pub(super) fn unanswered() -> StatementFailure {
    StatementFailure::Lost("the server does not answer".to_owned())
}
