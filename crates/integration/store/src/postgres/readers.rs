//! The readers: connections that run one query at a time.

use std::sync::Arc;

use sql::postgres::Server;

use super::SharedState;
use super::call::ReadCommand;
use super::connection::{ANSWER_MAX, Link, column, count};
use super::statement_failure::{StatementFailure, unanswered};
use crate::{Error, Keep, ReadQuery, Record, Records, Row, Rows, Scan, Span, limits};

/// Positions of a log are consecutive here, so a batch of records is a range of positions. The first record is returned
/// whatever its size.
const READ: &str = "with head as (select id, oldest, newest, greatest(oldest, $2::bigint + 1) as first from tidegate.logs where name = $1) \
     select h.oldest, h.newest, r.position, r.time, r.bytes from head h left join tidegate.records r \
     on r.log = h.id and r.position >= h.first and r.position < h.first + $3::bigint and r.position <= h.newest \
     and (r.position = h.first or r.before + octet_length(r.bytes) - \
     (select f.before from tidegate.records f where f.log = h.id and f.position = h.first) <= $4::bigint) \
     order by r.position";
const SPAN: &str = "select oldest, newest, total - before from tidegate.logs where name = $1";
/// Selects the first record to keep. `time` and `before` increase with the position, so a single scan finds the record.
const FIRST_KEPT: &str = "select h.oldest, h.newest, h.total, r.position, r.before from tidegate.logs h left join lateral \
     (select position, before from tidegate.records where log = h.id and position >= h.oldest and position > $2::bigint \
     and time >= $3::bigint and before >= h.total - $4::bigint \
     order by position limit 1) r on true where h.name = $1";
const CLOCK: &str = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";
/// Deletes trimmed records of a log, at most 5,000 at a time.
const SWEEP: &str = "delete from tidegate.records using (select l.id, l.oldest from tidegate.logs l where l.name = $1) h \
     where log = h.id and position < h.oldest and position in (select s.position from tidegate.records s \
     join tidegate.logs l on l.id = s.log where l.name = $1 order by s.position limit 5000)";
const GET: &str = "select value, version from tidegate.rows where name = $1 and key = $2";
/// Selects one row more than requested, to show whether more follow. The value is null in that row, and in rows beyond the limit in bytes.
const SCAN: &str = "select key, version, case when number <= $4::bigint and before < $5::bigint then value end from \
     (select key, version, value, row_number() over w as number, \
     coalesce(sum(octet_length(key) + octet_length(value)) over (w rows between unbounded preceding and 1 preceding), 0) as before \
     from (select key, version, value from tidegate.rows where name = $1 and key >= $2 and key > $3 order by key limit $4::bigint + 1) found \
     window w as (order by key)) counted order by key";
/// Like [`SCAN`], but only keys below `$6`.
const SCAN_TO: &str = "select key, version, case when number <= $4::bigint and before < $5::bigint then value end from \
     (select key, version, value, row_number() over w as number, \
     coalesce(sum(octet_length(key) + octet_length(value)) over (w rows between unbounded preceding and 1 preceding), 0) as before \
     from (select key, version, value from tidegate.rows where name = $1 and key >= $2 and key > $3 and key < $6 order by key limit $4::bigint + 1) found \
     window w as (order by key)) counted order by key";

/// Runs queries until the queue is closed and empty.
pub(super) async fn run(shared: Arc<SharedState>, server: Arc<Server>) {
    let mut kept: Option<Link> = None;
    loop {
        let Some(look) = shared.reads.take(1, usize::MAX).await.pop() else { return };
        if look.is_over() {
            continue;
        }
        if let Some(error) = shared.away() {
            // Waiting calls fail at once, since each attempt to connect would take seconds.
            look.refuse(error);
            continue;
        }
        if let ReadCommand::Sweep { log } = look {
            if sweep(&server, &mut kept, &log).await == Some(true) {
                // The rest is deleted in another step, so that other calls do not wait. Harmless: if the queue is full, a later sweep
                // deletes it.
                let _ = shared.reads.push(ReadCommand::Sweep { log }, 0);
            }
            continue;
        }
        answer(&shared, &server, &mut kept, look).await;
    }
}

async fn answer(shared: &SharedState, server: &Server, kept: &mut Option<Link>, look: ReadCommand) {
    let asked = |failed: StatementFailure| shared.away().unwrap_or_else(|| failed.error());
    match look {
        ReadCommand::Read { log, read, done } => {
            let found = ask(server, kept, async |link| self::read(link, &log, read).await).await;
            // Harmless: a caller that has stopped waiting needs no answer.
            let _ = done.send(found.map_err(asked).and_then(|found| found));
        }
        ReadCommand::Span { log, done } => {
            let found = ask(server, kept, async |link| span(link, &log).await).await;
            // Harmless: a caller that has stopped waiting needs no answer.
            let _ = done.send(found.map_err(asked));
        }
        ReadCommand::Beyond { log, keep, done } => {
            let found =
                ask(server, kept, async |link| first_kept(link, shared, &log, keep).await).await;
            // Harmless: a caller that has stopped waiting needs no answer.
            let _ = done.send(found.map_err(asked));
        }
        ReadCommand::Get { table, key, done } => {
            let found = ask(server, kept, async |link| get(link, &table, &key).await).await;
            // Harmless: a caller that has stopped waiting needs no answer.
            let _ = done.send(found.map_err(asked));
        }
        ReadCommand::Scan { table, scan, done } => {
            let found = ask(server, kept, async |link| self::scan(link, &table, &scan).await).await;
            // Harmless: a caller that has stopped waiting needs no answer.
            let _ = done.send(found.map_err(asked));
        }
        ReadCommand::Sweep { .. } => {}
    }
}

/// Runs a query on the kept connection, or on a new one if there is none. If the kept connection is lost, the query is
/// repeated on a new one: all queries here are idempotent.
async fn ask<T>(
    server: &Server,
    kept: &mut Option<Link>,
    mut look: impl AsyncFnMut(&mut Link) -> Result<T, StatementFailure>,
) -> Result<T, StatementFailure> {
    let mut is_new = false;
    loop {
        if kept.as_ref().is_none_or(Link::is_closed) {
            *kept = None;
            *kept = Some(Link::open(server, Box::new(|_, _| {})).await?);
            is_new = true;
        }
        let Some(link) = kept else { continue };
        let found = tokio::time::timeout(ANSWER_MAX, look(link)).await;
        match found.unwrap_or_else(|_| Err(unanswered())) {
            Ok(found) => return Ok(found),
            Err(StatementFailure::Lost(_)) if !is_new => *kept = None,
            Err(failed) => {
                *kept = None;
                return Err(failed);
            }
        }
    }
}

async fn read(
    link: &mut Link,
    log: &str,
    read: ReadQuery,
) -> Result<Result<Records, Error>, StatementFailure> {
    let after = i64::try_from(read.after).unwrap_or(i64::MAX - 1).min(i64::MAX / 2);
    let records_max = bounded(read.records_max, limits::READ_RECORDS_MAX);
    let bytes_max = bounded(read.bytes_max, limits::READ_BYTES_MAX);
    let rows = link.rows(READ, &[&log.as_bytes(), &after, &records_max, &bytes_max]).await?;
    let mut found = Records { records: Vec::new(), newest: 0 };
    for row in &rows {
        let oldest = count(row, 0)?;
        found.newest = count(row, 1)?;
        if read.after != 0 && read.after.saturating_add(1) < oldest {
            return Ok(Err(Error::Trimmed { oldest }));
        }
        let Some(position) = column::<Option<i64>>(row, 2)? else { continue };
        let bytes: &[u8] = column(row, 4)?;
        found.records.push(Record {
            position: position.cast_unsigned(),
            time: std::time::Duration::from_millis(count(row, 3)?),
            bytes: bytes::Bytes::copy_from_slice(bytes),
        });
    }
    Ok(Ok(found))
}

fn bounded(asked: usize, max: usize) -> i64 {
    i64::try_from(asked.min(max)).unwrap_or(i64::MAX)
}

async fn span(link: &mut Link, log: &str) -> Result<Span, StatementFailure> {
    let rows = link.rows(SPAN, &[&log.as_bytes()]).await?;
    let Some(row) = rows.first() else { return Ok(Span { oldest: 1, newest: 0, bytes: 0 }) };
    Ok(Span { oldest: count(row, 0)?, newest: count(row, 1)?, bytes: count(row, 2)? })
}

/// Returns the first position to keep and the number of bytes before it, or `None` if there is nothing to trim.
async fn first_kept(
    link: &mut Link,
    shared: &SharedState,
    log: &str,
    keep: Keep,
) -> Result<Option<(u64, u64)>, StatementFailure> {
    let most = i64::MAX / 2;
    let after = keep.after.map_or(0, |after| i64::try_from(after).unwrap_or(most));
    let rows = link.rows(CLOCK, &[]).await?;
    let shown = rows.first().map_or(Ok(0), |row| count(row, 0))?;
    let shown = std::time::Duration::from_micros(shown);
    let since = shared.since(keep.age.unwrap_or(std::time::Duration::MAX), shown);
    let since = i64::try_from(since.as_millis()).unwrap_or(most);
    let bytes = keep.bytes.map_or(most, |bytes| i64::try_from(bytes).unwrap_or(most).min(most));
    let rows = link.rows(FIRST_KEPT, &[&log.as_bytes(), &after, &since, &bytes]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let oldest = count(row, 0)?;
    let kept = match column::<Option<i64>>(row, 3)? {
        Some(position) => (position.cast_unsigned(), count(row, 4)?),
        None => (count(row, 1)? + 1, count(row, 2)?),
    };
    Ok((kept.0 > oldest).then_some(kept))
}

/// Deletes some trimmed records. Returns true if there were any, or `None` if the database is not available. A later sweep then
/// deletes them.
async fn sweep(server: &Server, kept: &mut Option<Link>, log: &str) -> Option<bool> {
    let swept = ask(server, kept, async |link| link.execute(SWEEP, &[&log.as_bytes()]).await).await;
    Some(swept.ok()? > 0)
}

async fn get(link: &mut Link, table: &str, key: &[u8]) -> Result<Option<Row>, StatementFailure> {
    let rows = link.rows(GET, &[&table.as_bytes(), &key]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    let value: &[u8] = column(row, 0)?;
    let (key, value) = (bytes::Bytes::copy_from_slice(key), bytes::Bytes::copy_from_slice(value));
    Ok(Some(Row { key, value, version: count(row, 1)? }))
}

async fn scan(link: &mut Link, table: &str, scan: &Scan) -> Result<Rows, StatementFailure> {
    let (table, prefix) = (table.as_bytes(), scan.prefix.as_slice());
    let after = scan.after.as_deref().unwrap_or(&[]);
    let rows_max = bounded(scan.rows_max, limits::ROWS_MAX);
    let bytes_max = bounded(limits::SCAN_BYTES, usize::MAX);
    let rows = match behind(prefix) {
        Some(end) => {
            link.rows(SCAN_TO, &[&table, &prefix, &after, &rows_max, &bytes_max, &end]).await?
        }
        None => link.rows(SCAN, &[&table, &prefix, &after, &rows_max, &bytes_max]).await?,
    };
    let mut found = Rows { rows: Vec::new(), more: false };
    for row in &rows {
        let Some(value) = column::<Option<&[u8]>>(row, 2)? else {
            found.more = true;
            break;
        };
        found.rows.push(Row {
            key: bytes::Bytes::copy_from_slice(column(row, 0)?),
            value: bytes::Bytes::copy_from_slice(value),
            version: count(row, 1)?,
        });
    }
    Ok(found)
}

/// Returns the first key after all keys with a prefix, if there is one.
fn behind(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if let Some(more) = last.checked_add(1) {
            end.push(more);
            return Some(end);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::behind;

    #[test]
    fn prefixes_end_before_the_next_key_without_them() {
        for (prefix, end) in [
            (&b"a"[..], Some(&b"b"[..])),
            (b"a/", Some(b"a0")),
            (b"a\xff", Some(b"b")),
            (b"\xff\xff", None),
            (b"", None),
        ] {
            assert_eq!(behind(prefix).as_deref(), end, "{prefix:?}");
        }
    }
}
