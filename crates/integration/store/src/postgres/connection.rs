//! A connection with its prepared statements.

use std::collections::HashMap;
use std::time::Duration;

use sql::Failure;
use sql::postgres::{OnNotification, Server, Session, error_text};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::schema;
use super::statement_failure::{StatementFailure, failed, unanswered};
use crate::limits;

/// Arguments of a statement.
pub(super) type Arguments<'a> = &'a [&'a (dyn ToSql + Sync)];

/// The maximum time for an answer. A server that is silent for longer counts as not available. A commit of the largest write
/// over a slow line takes less time.
pub(super) const ANSWER_MAX: Duration = Duration::from_secs(30);

/// The settings of each connection. The timeouts limit how long a node that stops in the middle of a transaction can delay the others. A
/// commit returns only when it is durable.
///
/// The server keeps the plan of a prepared statement until it analyses the tables. A plan made for small tables reads them
/// sequentially, and would still do so with a million rows. Every statement can use an index, so sequential scans, hash joins and
/// merge joins are switched off. If the server must use one of them anyway, it adds a large penalty to the estimated cost. That cost would
/// trigger JIT compilation at each execution, which takes 50 ms, so JIT is switched off too.
const SETTINGS: &str = "
    set statement_timeout = '30s';
    set idle_in_transaction_session_timeout = '5s';
    set enable_seqscan = off;
    set enable_hashjoin = off;
    set enable_mergejoin = off;
    set client_min_messages = warning;
    select set_config('jit', 'off', false) where current_setting('jit', true) is not null;
    select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off';
";

/// The largest answer: the records of one read, one more record of the largest size, and 16 MiB for names and overhead.
pub(super) const ANSWER_BYTES_MAX: usize =
    limits::READ_BYTES_MAX + limits::RECORD_BYTES_MAX + (16 << 20);

/// A connection. It is closed when dropped.
pub(super) struct Link {
    pub(super) session: Session,
    statements: HashMap<&'static str, Statement>,
}

impl Link {
    /// Connects, and creates the tables if they do not exist.
    pub(super) async fn open(
        server: &Server,
        told: OnNotification,
    ) -> Result<Link, StatementFailure> {
        let opened = tokio::time::timeout(ANSWER_MAX, async {
            let session = server.connect_listening(told).await.map_err(|why| match why {
                Failure::Unavailable(why) | Failure::Busy(why) => StatementFailure::Lost(why),
                Failure::Refused(why) | Failure::TooLarge(why) => StatementFailure::Lost(why),
                Failure::Late => unanswered(),
            })?;
            let set = session.client.batch_execute(SETTINGS).await;
            set.map_err(|error| failed(&error))?;
            schema::migrate(&session).await?;
            Ok(Link { session, statements: HashMap::new() })
        });
        opened.await.unwrap_or_else(|_| Err(unanswered()))
    }

    pub(super) fn is_closed(&self) -> bool {
        self.session.client.is_closed()
    }

    /// Returns the prepared statement for a text. It is prepared at the first use.
    pub(super) async fn statement(
        &mut self,
        text: &'static str,
    ) -> Result<Statement, StatementFailure> {
        if let Some(known) = self.statements.get(text) {
            return Ok(known.clone());
        }
        let made = self.session.client.prepare(text).await.map_err(|error| failed(&error))?;
        self.statements.insert(text, made.clone());
        Ok(made)
    }

    /// Runs a statement, and returns its rows.
    pub(super) async fn rows(
        &mut self,
        text: &'static str,
        arguments: Arguments<'_>,
    ) -> Result<Vec<Row>, StatementFailure> {
        let statement = self.statement(text).await?;
        self.session.allow(ANSWER_BYTES_MAX);
        self.session.client.query(&statement, arguments).await.map_err(|error| failed(&error))
    }

    /// Runs a statement, and returns the number of changed rows.
    pub(super) async fn execute(
        &mut self,
        text: &'static str,
        arguments: Arguments<'_>,
    ) -> Result<u64, StatementFailure> {
        let statement = self.statement(text).await?;
        self.session.client.execute(&statement, arguments).await.map_err(|error| failed(&error))
    }
}

/// Returns a column of a row. A wrong type means that the gateway did not create the table.
pub(super) fn column<'a, T: tokio_postgres::types::FromSql<'a>>(
    row: &'a Row,
    index: usize,
) -> Result<T, StatementFailure> {
    row.try_get(index).map_err(|error| StatementFailure::Refused(error_text(&error)))
}

/// Returns a column with an unsigned number, which the database stores as a signed one with the same bits.
pub(super) fn count(row: &Row, index: usize) -> Result<u64, StatementFailure> {
    column::<i64>(row, index).map(i64::cast_unsigned)
}
