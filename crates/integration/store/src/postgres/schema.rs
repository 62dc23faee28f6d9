//! The tables in the database, and their versions.
//!
//! Everything is in the schema `tidegate`. Two nodes may start at once: the one that has the lock creates the tables, and the
//! other one finds them.

use sql::postgres::Session;

use super::statement_failure::{StatementFailure, failed};

#[cfg(test)]
mod tests;

/// The steps from each version to the next. A released step is never changed.
///
/// Names and keys are bytes, since texts of a database cannot have NUL and depend on its encoding. Unsigned numbers that
/// may be large are stored as signed ones with the same bits.
///
/// Each log counts the bytes of all records that it ever had. `before` of a record is the sum for the records before it, and
/// `before` of a log the sum for those before its oldest. So the size of a log is a difference, and a limit in bytes is found by
/// an index.
const STEPS: &[&str] = &["
    create table tidegate.head (one boolean primary key default true check (one), version bigint not null);
    insert into tidegate.head (version) values (0);
    create table tidegate.logs (
        name bytea primary key, id bigint not null, oldest bigint not null, newest bigint not null,
        before bigint not null, total bigint not null, time bigint not null
    ) with (fillfactor = 50);
    create table tidegate.records (
        log bigint not null, position bigint not null, time bigint not null, before bigint not null,
        bytes bytea not null, primary key (log, position)
    );
    create table tidegate.rows (
        name bytea not null, key bytea not null, version bigint not null, value bytea not null,
        primary key (name, key)
    );
    create table tidegate.leases (
        name bytea primary key, owner bytea, token bigint not null, until bigint not null
    ) with (fillfactor = 50);
    create table tidegate.counters (
        name bytea primary key, total bigint not null, until bigint not null
    ) with (fillfactor = 50);
    create table tidegate.nodes (
        node text primary key, batch bigint not null, seen timestamptz not null
    ) with (fillfactor = 50);
"];

/// The key of the advisory lock for migrations: `tidegate` in ASCII.
const LOCK: i64 = 0x7469_6465_6761_7465;

/// Brings the tables to the version of this program.
pub(super) async fn migrate(session: &Session) -> Result<(), StatementFailure> {
    migrate_by(session, STEPS).await
}

async fn migrate_by(session: &Session, steps: &[&str]) -> Result<(), StatementFailure> {
    let run = async |text: &str| session.client.batch_execute(text).await.map_err(|e| failed(&e));
    if version(session).await? == Some(newest(steps)) {
        return Ok(());
    }
    // The transaction begins only after the lock is taken. An earlier one might not see tables that were created while it waited. If a
    // step fails, the lock is released when the connection ends.
    run(&format!("select pg_advisory_lock({LOCK})")).await?;
    run("begin").await?;
    // On an error the connection is closed, which rolls back everything.
    migrate_locked(session, steps).await?;
    run(&format!("commit; select pg_advisory_unlock({LOCK})")).await
}

async fn migrate_locked(session: &Session, steps: &[&str]) -> Result<(), StatementFailure> {
    let run = async |text: &str| session.client.batch_execute(text).await.map_err(|e| failed(&e));
    let found = version(session).await?;
    if found.is_none() {
        // An existing schema is used as it is. The user then needs no right to create one.
        let made = "do $$ begin if to_regnamespace('tidegate') is null then create schema tidegate; end if; end $$;
            create table tidegate.schema (version int not null);
            insert into tidegate.schema values (0)";
        run(made).await?;
    }
    let found = found.unwrap_or(0);
    let done = usize::try_from(found).unwrap_or(usize::MAX);
    if done > steps.len() {
        let known = steps.len();
        return Err(StatementFailure::Newer(format!(
            "the tables in the database have version {found}, and this program knows up to {known}: run the version of Tidegate that made them"
        )));
    }
    for step in steps.iter().skip(done) {
        run(step).await?;
    }
    run(&format!("update tidegate.schema set version = {}", newest(steps))).await
}

/// Returns the version that these steps lead to.
fn newest(steps: &[&str]) -> i32 {
    i32::try_from(steps.len()).unwrap_or(i32::MAX)
}

/// Returns the version of the tables, or `None` if there are none.
async fn version(session: &Session) -> Result<Option<i32>, StatementFailure> {
    let there = session.client.query_one("select to_regclass('tidegate.schema') is not null", &[]);
    let there = there.await.map_err(|error| failed(&error))?;
    if !there.try_get::<_, bool>(0).map_err(|error| failed(&error))? {
        return Ok(None);
    }
    let found = session.client.query_one("select version from tidegate.schema", &[]).await;
    let found = found.and_then(|row| row.try_get(0)).map_err(|error| failed(&error))?;
    Ok(Some(found))
}
