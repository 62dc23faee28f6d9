//! The statements of a batch, to fetch and to write its rows. Their number depends on the kinds of rows, and not on the size of
//! the batch.

use std::sync::Arc;

use futures_util::future::join_all;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

use super::call::BatchNames;
use super::connection::{Link, column, count};
use super::encode_notification;
use super::state::{HeldLease, Log, RowState, State, Window};
use super::statement_failure::{StatementFailure, failed};

const BEGIN: &str = "begin";
const COMMIT: &str = "commit";
const ROLLBACK: &str = "rollback";
/// Counts may be lost by a crash of the server, so the commit does not wait for its disk.
const RELAX: &str = "set local synchronous_commit = off";
/// One writer of all nodes at a time. So positions have no gaps, versions increase, and fetched rows do not change.
const LOCK: &str = "select from tidegate.head where one for update";
const HEAD: &str = "select version, (extract(epoch from clock_timestamp()) * 1000000)::bigint from tidegate.head where one";
const LOGS: &str = "select name, id, oldest, newest, before, total, time from tidegate.logs \
     where name = any($1)";
const ROWS: &str = "select r.name, r.key, r.version \
     from unnest($1::bytea[], $2::bytea[]) as w (name, key) \
     join tidegate.rows r on r.name = w.name and r.key = w.key";
const LEASES: &str = "select name, owner, token, until from tidegate.leases where name = any($1)";
const COUNTERS: &str = "select name, total, until from tidegate.counters where name = any($1)";

const NEW_RECORDS: &str = "insert into tidegate.records (log, position, time, before, bytes) \
     select * from unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bytea[])";
const NEW_LOGS: &str = "insert into tidegate.logs (name, id, oldest, newest, before, total, time) \
     select * from unnest($1::bytea[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[]) \
     on conflict (name) do update set oldest = excluded.oldest, newest = excluded.newest, \
     before = excluded.before, total = excluded.total, time = excluded.time";
const NEW_ROWS: &str = "insert into tidegate.rows (name, key, version, value) \
     select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bytea[]) \
     on conflict (name, key) do update set version = excluded.version, value = excluded.value";
const NO_ROWS: &str = "delete from tidegate.rows r using unnest($1::bytea[], $2::bytea[]) as w (name, key) \
     where r.name = w.name and r.key = w.key";
const NEW_LEASES: &str = "insert into tidegate.leases (name, owner, token, until) \
     select * from unnest($1::bytea[], $2::bytea[], $3::bigint[], $4::bigint[]) \
     on conflict (name) do update set owner = excluded.owner, token = excluded.token, until = excluded.until";
const NEW_COUNTERS: &str = "insert into tidegate.counters (name, total, until) \
     select * from unnest($1::bytea[], $2::bigint[], $3::bigint[]) \
     on conflict (name) do update set total = excluded.total, until = excluded.until";
const NEW_HEAD: &str = "update tidegate.head set version = $1 where one";
/// Records the node's last batch. If the answer to a commit is lost, this row shows whether the commit happened.
const NEW_BATCH: &str = "insert into tidegate.nodes (node, batch, seen) values ($1, $2, now()) \
     on conflict (node) do update set batch = excluded.batch, seen = excluded.seen";
const NOTIFY: &str = "select pg_notify('tidegate', news) from unnest($1::text[]) as w (news)";
/// The writes of a batch of appends as one statement, since each statement costs a switch to the server and back. It
/// combines the statements in [`APPEND`], and has their arguments in the same order.
const APPENDED: &str = "with head as (update tidegate.head set version = $1 where one), \
     records as (insert into tidegate.records (log, position, time, before, bytes) \
       select * from unnest($2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[])), \
     logs as (insert into tidegate.logs (name, id, oldest, newest, before, total, time) \
       select * from unnest($7::bytea[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[], $13::bigint[]) \
       on conflict (name) do update set oldest = excluded.oldest, newest = excluded.newest, \
       before = excluded.before, total = excluded.total, time = excluded.time), \
     batch as (insert into tidegate.nodes (node, batch, seen) values ($15, $16, now()) \
       on conflict (node) do update set batch = excluded.batch, seen = excluded.seen) \
     select pg_notify('tidegate', news) from unnest($14::text[]) as w (news)";
const APPEND: [&str; 5] = [NEW_HEAD, NEW_RECORDS, NEW_LOGS, NOTIFY, NEW_BATCH];
const BATCH: &str = "select batch from tidegate.nodes where node = $1";

const ALL: &[&str] = &[
    BEGIN,
    COMMIT,
    ROLLBACK,
    RELAX,
    LOCK,
    HEAD,
    LOGS,
    ROWS,
    LEASES,
    COUNTERS,
    NEW_RECORDS,
    NEW_LOGS,
    NEW_ROWS,
    NO_ROWS,
    NEW_LEASES,
    NEW_COUNTERS,
    NEW_HEAD,
    NEW_BATCH,
    NOTIFY,
    APPENDED,
    BATCH,
];

/// The outcome of a batch of statements.
#[derive(Debug)]
pub(super) enum BatchOutcome {
    Committed,
    /// The batch had no effect.
    Refused(StatementFailure),
    /// The outcome is unknown.
    Unknown(String),
}

type OwnedArgument = Box<dyn ToSql + Sync + Send>;
/// A statement with its arguments.
type Part = (&'static str, Vec<OwnedArgument>);

/// Prepares all statements, so that a batch takes two round trips.
pub(super) async fn prepare(link: &mut Link) -> Result<(), StatementFailure> {
    for text in ALL {
        link.statement(text).await?;
    }
    Ok(())
}

/// Sends statements without waiting in between, and returns their answers.
async fn pipeline(
    link: &mut Link,
    parts: &[Part],
) -> Result<Vec<Result<Vec<Row>, StatementFailure>>, StatementFailure> {
    let mut statements: Vec<Statement> = Vec::with_capacity(parts.len());
    for (text, _) in parts {
        statements.push(link.statement(text).await?);
    }
    link.session.allow(super::connection::ANSWER_BYTES_MAX);
    let client = &link.session.client;
    // Harmless: there is a statement for each part.
    let asked = statements.iter().zip(parts).map(|(statement, (_, arguments))| async move {
        let arguments: Vec<&(dyn ToSql + Sync)> =
            arguments.iter().map(|argument| &**argument as &(dyn ToSql + Sync)).collect();
        client.query(statement, &arguments).await.map_err(|error| failed(&error))
    });
    // Each is sent when it is first polled, in this order.
    Ok(join_all(asked).await)
}

fn names<'a>(names: impl Iterator<Item = &'a str>) -> OwnedArgument {
    Box::new(names.map(|name| name.as_bytes().to_vec()).collect::<Vec<_>>())
}

fn numbers(numbers: impl Iterator<Item = u64>) -> OwnedArgument {
    Box::new(numbers.map(u64::cast_signed).collect::<Vec<_>>())
}

/// Starts a transaction, waits for the lock of the writers, and fetches the rows.
pub(super) async fn fetch(
    link: &mut Link,
    wanted: &BatchNames<'_>,
) -> Result<State, StatementFailure> {
    let mut parts: Vec<Part> = vec![(BEGIN, vec![])];
    if wanted.only_counts() {
        parts.push((RELAX, vec![]));
    }
    parts.extend([(LOCK, vec![]), (HEAD, vec![])]);
    if !wanted.logs.is_empty() {
        parts.push((LOGS, vec![names(wanted.logs.iter().copied())]));
    }
    if !wanted.rows.is_empty() {
        let keys: Vec<Vec<u8>> = wanted.rows.iter().map(|(_, key)| key.to_vec()).collect();
        let tables = names(wanted.rows.iter().map(|(table, _)| *table));
        parts.push((ROWS, vec![tables, Box::new(keys)]));
    }
    if !wanted.leases.is_empty() {
        parts.push((LEASES, vec![names(wanted.leases.iter().copied())]));
    }
    if !wanted.counters.is_empty() {
        parts.push((COUNTERS, vec![names(wanted.counters.iter().copied())]));
    }
    let mut state = State::default();
    let answers = pipeline(link, &parts).await?;
    // Harmless: there is an answer for each part.
    for ((text, _), rows) in parts.iter().zip(answers) {
        for row in &rows? {
            read(&mut state, text, row)?;
        }
    }
    Ok(state)
}

/// Reads a fetched row.
fn read(state: &mut State, text: &str, row: &Row) -> Result<(), StatementFailure> {
    match text {
        HEAD => (state.version, state.clock) = (count(row, 0)?, count(row, 1)?),
        LOGS => {
            let log = Log {
                id: count(row, 1)?,
                oldest: count(row, 2)?,
                newest: count(row, 3)?,
                before: count(row, 4)?,
                total: count(row, 5)?,
                time: count(row, 6)?,
                changed: false,
            };
            state.logs.insert(text_of(row, 0)?, log);
        }
        ROWS => {
            let name = (Arc::from(text_of(row, 0)?), column(row, 1)?);
            let known = RowState { version: Some(count(row, 2)?), written: None };
            state.rows.insert(name, known);
        }
        LEASES => {
            let owner: Option<&[u8]> = column(row, 1)?;
            let owner = owner.map(text_in).transpose()?.map(String::into);
            let (token, until) = (count(row, 2)?, count(row, 3)?);
            state
                .leases
                .insert(text_of(row, 0)?, HeldLease { owner, token, until, changed: false });
        }
        COUNTERS => {
            let (total, until) = (count(row, 1)?, count(row, 2)?);
            state.counters.insert(text_of(row, 0)?, Window { total, until, changed: false });
        }
        // Harmless: the rows of other statements have no columns.
        _ => {}
    }
    Ok(())
}

fn text_of(row: &Row, index: usize) -> Result<String, StatementFailure> {
    text_in(column(row, index)?)
}

/// Reads a name as text.
fn text_in(bytes: &[u8]) -> Result<String, StatementFailure> {
    let text = std::str::from_utf8(bytes).map(str::to_owned);
    text.map_err(|_| StatementFailure::Refused("a name in the tables is not UTF-8".to_owned()))
}

/// Ends a transaction that has nothing to write.
pub(super) async fn leave(link: &mut Link) -> Result<(), StatementFailure> {
    link.execute(ROLLBACK, &[]).await.map(drop)
}

/// Writes the result of a batch, and commits it.
pub(super) async fn commit(link: &mut Link, state: State, node: &str, batch: i64) -> BatchOutcome {
    let mut parts = writes(state);
    parts.push((NEW_BATCH, vec![Box::new(node.to_owned()), Box::new(batch)]));
    if parts.iter().map(|(text, _)| *text).eq(APPEND) {
        let arguments = parts.into_iter().flat_map(|(_, arguments)| arguments).collect();
        parts = vec![(APPENDED, arguments)];
    }
    parts.push((COMMIT, vec![]));
    let answers = match pipeline(link, &parts).await {
        Ok(answers) => answers,
        Err(StatementFailure::Lost(why)) => return BatchOutcome::Unknown(why),
        Err(refused) => return BatchOutcome::Refused(refused),
    };
    let mut lost = None;
    for answer in answers {
        match answer {
            Ok(_) => {}
            Err(StatementFailure::Lost(why)) => lost = Some(why),
            // After an error the server rolls back the transaction in any case.
            Err(refused) => return BatchOutcome::Refused(refused),
        }
    }
    lost.map_or(BatchOutcome::Committed, BatchOutcome::Unknown)
}

fn writes(state: State) -> Vec<Part> {
    let State { version, logs, rows, leases, counters, records, changed_subjects, .. } = state;
    let mut parts: Vec<Part> = vec![(NEW_HEAD, vec![Box::new(version.cast_signed())])];
    if !records.is_empty() {
        let columns = vec![
            numbers(records.iter().map(|record| record.log)),
            numbers(records.iter().map(|record| record.position)),
            numbers(records.iter().map(|record| record.time)),
            numbers(records.iter().map(|record| record.before)),
            Box::new(records.into_iter().map(|record| Raw(record.bytes)).collect::<Vec<_>>())
                as OwnedArgument,
        ];
        parts.push((NEW_RECORDS, columns));
    }
    let logs: Vec<_> = logs.into_iter().filter(|(_, log)| log.changed).collect();
    if !logs.is_empty() {
        let column = |of: fn(&Log) -> u64| numbers(logs.iter().map(|(_, log)| of(log)));
        let columns = vec![
            names(logs.iter().map(|(name, _)| name.as_str())),
            column(|log| log.id),
            column(|log| log.oldest),
            column(|log| log.newest),
            column(|log| log.before),
            column(|log| log.total),
            column(|log| log.time),
        ];
        parts.push((NEW_LOGS, columns));
    }
    parts.extend(row_writes(rows));
    let leases: Vec<_> = leases.into_iter().filter(|(_, held)| held.changed).collect();
    if !leases.is_empty() {
        let owners =
            leases.iter().map(|(_, held)| held.owner.as_ref().map(|o| o.as_bytes().to_vec()));
        let columns = vec![
            names(leases.iter().map(|(name, _)| name.as_str())),
            Box::new(owners.collect::<Vec<_>>()) as OwnedArgument,
            numbers(leases.iter().map(|(_, held)| held.token)),
            numbers(leases.iter().map(|(_, held)| held.until)),
        ];
        parts.push((NEW_LEASES, columns));
    }
    let counters: Vec<_> = counters.into_iter().filter(|(_, window)| window.changed).collect();
    if !counters.is_empty() {
        let columns = vec![
            names(counters.iter().map(|(name, _)| name.as_str())),
            numbers(counters.iter().map(|(_, window)| window.total)),
            numbers(counters.iter().map(|(_, window)| window.until)),
        ];
        parts.push((NEW_COUNTERS, columns));
    }
    if !changed_subjects.is_empty() {
        let texts: Vec<String> =
            changed_subjects.iter().map(|subject| encode_notification(version, subject)).collect();
        parts.push((NOTIFY, vec![Box::new(texts)]));
    }
    parts
}

type RowStates = std::collections::HashMap<(Arc<str>, Vec<u8>), RowState>;

fn row_writes(rows: RowStates) -> Vec<Part> {
    let (mut tables, mut keys, mut versions, mut values) = (vec![], vec![], vec![], vec![]);
    let (mut gone_tables, mut gone_keys) = (vec![], vec![]);
    for ((table, key), row) in rows {
        match (row.written, row.version) {
            (Some(Some(value)), Some(version)) => {
                tables.push(table.as_bytes().to_vec());
                keys.push(key);
                versions.push(version.cast_signed());
                values.push(Raw(value));
            }
            (Some(_), _) => {
                gone_tables.push(table.as_bytes().to_vec());
                gone_keys.push(key);
            }
            (None, _) => {}
        }
    }
    let mut parts: Vec<Part> = Vec::new();
    if !tables.is_empty() {
        let columns: Vec<OwnedArgument> =
            vec![Box::new(tables), Box::new(keys), Box::new(versions), Box::new(values)];
        parts.push((NEW_ROWS, columns));
    }
    if !gone_tables.is_empty() {
        parts.push((NO_ROWS, vec![Box::new(gone_tables), Box::new(gone_keys)]));
    }
    parts
}

/// Returns true if a batch is the last one that this node has committed. First takes the lock, so that no other connection of the node can
/// still commit it.
pub(super) async fn is_committed(
    link: &mut Link,
    node: &str,
    batch: i64,
) -> Result<bool, StatementFailure> {
    link.execute(BEGIN, &[]).await?;
    link.execute(LOCK, &[]).await?;
    let rows = link.rows(BATCH, &[&node]).await?;
    let last = rows.first().map(|row| column::<i64>(row, 0)).transpose()?;
    link.execute(ROLLBACK, &[]).await?;
    Ok(last == Some(batch))
}

/// Bytes as an argument, without copying them.
#[derive(Debug)]
struct Raw(bytes::Bytes);

impl ToSql for Raw {
    fn to_sql(
        &self,
        kind: &tokio_postgres::types::Type,
        out: &mut bytes::BytesMut,
    ) -> Result<tokio_postgres::types::IsNull, Box<dyn std::error::Error + Sync + Send>> {
        self.0.as_ref().to_sql(kind, out)
    }

    fn accepts(kind: &tokio_postgres::types::Type) -> bool {
        <&[u8] as ToSql>::accepts(kind)
    }

    tokio_postgres::types::to_sql_checked!();
}
