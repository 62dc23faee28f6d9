//! Statements in SQLite files, on threads other than the workers.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::clock::{self, Instant};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use crate::address::SqliteMode;
use crate::connections::{Command, Commands, ConnectionPermit, Query, TransactionEnd};
use crate::{Answer, Argument, Bounds, Failure, Statement};

/// A database file, and the idle connections to it.
pub(crate) struct Pool(Arc<Inner>);

struct Inner {
    path: PathBuf,
    mode: SqliteMode,
    idle: Mutex<Vec<Connection>>,
}

/// A flag that is set when the caller has stopped waiting.
#[derive(Clone, Default)]
struct Stop(Arc<AtomicBool>);

/// Number of SQLite instructions between two checks of the clock; takes some ten microseconds.
const INSTRUCTIONS: i32 = 1000;

/// Maximum number of prepared statements per connection.
const PREPARED_MAX: usize = 100;

/// Maximum duration of one wait for a lock of another connection. Such a wait cannot be interrupted, so longer waits are split.
const LOCK_WAIT: Duration = Duration::from_millis(100);

impl Pool {
    pub(crate) fn new(path: PathBuf, mode: SqliteMode) -> Pool {
        Pool(Arc::new(Inner { path, mode, idle: Mutex::default() }))
    }

    pub(crate) async fn run(
        &self,
        place: ConnectionPermit,
        statement: &Statement,
        arguments: Vec<Argument>,
        bounds: Bounds,
    ) -> Result<Answer, Failure> {
        let stop = Stop::default();
        let stopped = stop.clone();
        let (pool, statement) = (self.0.clone(), statement.clone());
        let work = move || {
            let answer = pool.run(&statement, &arguments, bounds, &stopped);
            drop(place);
            answer
        };
        // If the caller stops waiting, the statement is stopped.
        let _stop = StopOnDrop(stop);
        let ran = kit::task::run_blocking(work).await;
        ran.unwrap_or_else(|| Err(Failure::Unavailable("its thread has failed".to_owned())))
    }

    /// Gives a transaction a thread and a connection until its commands end.
    pub(crate) fn transact(&self, place: ConnectionPermit, commands: Commands) -> StopOnDrop {
        let stop = Stop::default();
        let (pool, stopped) = (self.0.clone(), stop.clone());
        kit::spawn(async move {
            let work = move || {
                pool.transact(commands, &stopped);
                drop(place);
            };
            // Harmless: a caller whose thread has failed gets no answer, which is a failure.
            let _ = kit::task::run_blocking(work).await;
        });
        StopOnDrop(stop)
    }
}

/// Stops the statements of a caller when dropped.
pub(crate) struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.0.store(true, Ordering::Relaxed);
    }
}

impl Inner {
    fn run(
        &self,
        statement: &Statement,
        arguments: &[Argument],
        bounds: Bounds,
        stop: &Stop,
    ) -> Result<Answer, Failure> {
        let mut connection = self.connection()?;
        let answer = watched(&mut connection, statement, arguments, bounds, stop);
        self.keep(connection);
        answer
    }

    /// Runs the statements of a transaction, until one fails or no more come.
    fn transact(&self, mut commands: Commands, stop: &Stop) {
        let mut open = None;
        // The caller drops its end of the channel at its deadline.
        while let Some(command) = commands.received.blocking_recv() {
            match command {
                Command::Run(query) => {
                    let outcome = self.within(&mut open, &query, stop);
                    let has_failed = outcome.is_err();
                    if has_failed {
                        self.roll_back(open.take());
                    }
                    query.tell(outcome);
                    if has_failed {
                        return;
                    }
                }
                Command::End(TransactionEnd::Commit, told) => {
                    // Harmless: the caller may have stopped waiting.
                    let _ = told.send(self.commit(open.take(), commands.deadline, stop));
                    return;
                }
                Command::End(TransactionEnd::Rollback, told) => {
                    self.roll_back(open.take());
                    // Harmless: the caller may have stopped waiting.
                    let _ = told.send(Ok(()));
                    return;
                }
            }
        }
        self.roll_back(open);
    }

    /// Runs a statement of a transaction. The first statement begins the transaction.
    fn within(
        &self,
        open: &mut Option<Connection>,
        query: &Query,
        stop: &Stop,
    ) -> Result<Answer, Failure> {
        let Query { statement, arguments, bounds, .. } = query;
        if open.is_none() {
            let connection = open.insert(self.connection()?);
            // The transaction takes the write lock when it begins, so that no other transaction can block a later statement.
            let begin = match self.mode {
                SqliteMode::ReadOnly => "begin",
                SqliteMode::ReadWrite | SqliteMode::Create => "begin immediate",
            };
            watched(connection, &Statement(begin.into()), &[], *bounds, stop)?;
        }
        match open {
            Some(connection) => watched(connection, statement, arguments, *bounds, stop),
            None => Err(Failure::Unavailable("there is no connection".to_owned())),
        }
    }

    fn commit(
        &self,
        open: Option<Connection>,
        deadline: Instant,
        stop: &Stop,
    ) -> Result<(), Failure> {
        let Some(mut connection) = open else { return Ok(()) };
        let bounds = Bounds { deadline, rows_max: 1, bytes_max: 1024 };
        let commit = Statement("commit".into());
        match watched(&mut connection, &commit, &[], bounds, stop) {
            Ok(_) => {
                self.keep(connection);
                Ok(())
            }
            Err(failure) => {
                self.roll_back(Some(connection));
                Err(failure)
            }
        }
    }

    fn roll_back(&self, open: Option<Connection>) {
        let Some(connection) = open else { return };
        // Harmless: a connection that is still in a transaction is closed, which rolls it back.
        let _ = connection.execute_batch("rollback");
        self.keep(connection);
    }

    /// Returns an idle connection, or a new one.
    fn connection(&self) -> Result<Connection, Failure> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        match idle {
            Some(connection) => Ok(connection),
            None => self.open(),
        }
    }

    /// Puts a connection back, unless a transaction is open on it.
    fn keep(&self, connection: Connection) {
        if connection.is_autocommit() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
    }

    fn open(&self) -> Result<Connection, Failure> {
        let flags = match self.mode {
            SqliteMode::ReadOnly => OpenFlags::SQLITE_OPEN_READ_ONLY,
            SqliteMode::ReadWrite => OpenFlags::SQLITE_OPEN_READ_WRITE,
            SqliteMode::Create => OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE,
        };
        let opened =
            Connection::open_with_flags(&self.path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
        let away = |error: rusqlite::Error| {
            Failure::Unavailable(format!("`{}` cannot be opened: {error}", self.path.display()))
        };
        let connection = opened.map_err(away)?;
        connection.busy_timeout(LOCK_WAIT).map_err(away)?;
        connection.set_prepared_statement_cache_capacity(PREPARED_MAX);
        Ok(connection)
    }
}

/// Runs a statement for as long as its bounds allow and the caller waits.
fn watched(
    connection: &mut Connection,
    statement: &Statement,
    arguments: &[Argument],
    bounds: Bounds,
    stop: &Stop,
) -> Result<Answer, Failure> {
    let (stopped, deadline) = (stop.clone(), bounds.deadline);
    let over = move || stopped.0.load(Ordering::Relaxed) || clock::now() >= deadline;
    let failed = |error: rusqlite::Error| failure(&error, &statement.0);
    connection.progress_handler(INSTRUCTIONS, Some(over.clone())).map_err(failed)?;
    let answer = answer(connection, statement, arguments, bounds, &over);
    connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
    answer
}

/// Runs a statement to its end. Repeats it while another connection holds the lock.
fn answer(
    connection: &Connection,
    statement: &Statement,
    arguments: &[Argument],
    bounds: Bounds,
    over: &dyn Fn() -> bool,
) -> Result<Answer, Failure> {
    loop {
        if over() {
            return Err(Failure::Late);
        }
        match attempt(connection, statement, arguments, bounds) {
            Err(Attempt::Locked) => {}
            Err(Attempt::Failed(failure)) => return Err(failure),
            Ok(answer) => return Ok(answer),
        }
    }
}

enum Attempt {
    /// Another connection is writing. The statement had no effect.
    Locked,
    Failed(Failure),
}

fn attempt(
    connection: &Connection,
    statement: &Statement,
    arguments: &[Argument],
    bounds: Bounds,
) -> Result<Answer, Attempt> {
    let tried = |error: rusqlite::Error| match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Attempt::Locked,
        Some(_) | None => Attempt::Failed(failure(&error, &statement.0)),
    };
    let mut prepared = connection.prepare_cached(&statement.0).map_err(tried)?;
    for place in 1..=prepared.parameter_count() {
        // To SQLite, `$2` is a name and not the second parameter.
        let name = prepared.parameter_name(place).and_then(|name| name.strip_prefix('$'));
        // Harmless: a placeholder without a number is refused.
        let number = name.and_then(|name| name.parse::<usize>().ok());
        let argument = number.and_then(|number| arguments.get(number.checked_sub(1)?));
        let argument = argument.ok_or_else(|| {
            let what = "a placeholder is not written as `$1`, or there is no argument for it";
            Attempt::Failed(Failure::Refused(what.to_owned()))
        })?;
        prepared.raw_bind_parameter(place, argument.sqlite()).map_err(tried)?;
    }
    if prepared.column_count() == 0 {
        let affected = prepared.raw_execute().map_err(tried)?;
        let count = u64::try_from(affected).unwrap_or(u64::MAX);
        return Ok(Answer::Affected { count, key: None });
    }
    let names: Vec<String> = prepared.columns().map(|column| quoted(column.name())).collect();
    one_each(&names).map_err(|why| Attempt::Failed(Failure::Refused(why)))?;
    let kinds: Vec<DeclaredTypes> =
        prepared.columns().map(|column| DeclaredTypes::of(&column)).collect();
    let mut rows = prepared.raw_query();
    let mut out = "[".to_owned();
    let mut count = 0;
    while let Some(row) = rows.next().map_err(tried)? {
        count += 1;
        out.push_str(if count == 1 { "{" } else { ",{" });
        // Harmless: both lists have one item per column.
        for (column, (name, kind)) in names.iter().zip(&kinds).enumerate() {
            out.push_str(if column == 0 { "" } else { "," });
            out.push_str(name);
            out.push(':');
            let value = row.get_ref(column).map_err(tried)?;
            // Checked before the value is written, because a single value may exceed the limit by far.
            bounds.check(count, out.len() + length(&value)).map_err(Attempt::Failed)?;
            push(value, *kind, &mut out).map_err(Attempt::Failed)?;
        }
        out.push('}');
        bounds.check(count, out.len()).map_err(Attempt::Failed)?;
    }
    out.push(']');
    Ok(Answer::Rows(out))
}

impl Bounds {
    /// Refuses a result that exceeds a limit.
    pub(crate) fn check(&self, rows: usize, bytes: usize) -> Result<(), Failure> {
        if rows > self.rows_max {
            return Err(Failure::TooLarge(format!("the answer has over {} rows", self.rows_max)));
        }
        if bytes > self.bytes_max {
            Err(Failure::TooLarge(format!("the rows have over {} bytes", self.bytes_max)))
        } else {
            Ok(())
        }
    }
}

/// Refuses duplicate column names, because one would hide the other in a JSON object.
pub(crate) fn one_each(names: &[String]) -> Result<(), String> {
    let before = |at: usize| names.get(..at).unwrap_or_default();
    let is_again = |(at, name): &(usize, &String)| before(*at).contains(name);
    match names.iter().enumerate().find(is_again) {
        None => Ok(()),
        Some((_, name)) => Err(format!(
            "two columns of the result have the name {name}; give one of them another with `as`"
        )),
    }
}

pub(crate) fn quoted(name: &str) -> String {
    let mut text = String::new();
    json::push_string(&mut text, name);
    text
}

/// Types that SQLite knows only from the declaration of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DeclaredTypes {
    Boolean,
    Json,
    Other,
}

impl DeclaredTypes {
    fn of(column: &rusqlite::Column<'_>) -> DeclaredTypes {
        match column.decl_type() {
            Some(kind) if kind.to_ascii_lowercase().starts_with("bool") => DeclaredTypes::Boolean,
            Some(kind) if kind.to_ascii_lowercase().starts_with("json") => DeclaredTypes::Json,
            Some(_) | None => DeclaredTypes::Other,
        }
    }
}

/// Returns the size of a text or blob, or 0 for any other value.
fn length(value: &ValueRef<'_>) -> usize {
    match value {
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => bytes.len(),
        ValueRef::Null | ValueRef::Integer(_) | ValueRef::Real(_) => 0,
    }
}

fn push(value: ValueRef<'_>, kind: DeclaredTypes, out: &mut String) -> Result<(), Failure> {
    match (value, kind) {
        (ValueRef::Null, _) => out.push_str("null"),
        (ValueRef::Integer(0), DeclaredTypes::Boolean) => out.push_str("false"),
        (ValueRef::Integer(1), DeclaredTypes::Boolean) => out.push_str("true"),
        (ValueRef::Integer(number), _) => out.push_str(&number.to_string()),
        (ValueRef::Real(number), _) if number.is_finite() => out.push_str(&number.to_string()),
        (ValueRef::Real(number), _) => json::push_string(out, &number.to_string()),
        (ValueRef::Blob(bytes), _) => json::push_string(out, &STANDARD.encode(bytes)),
        (ValueRef::Text(bytes), kind) => {
            let text = std::str::from_utf8(bytes)
                .map_err(|_| Failure::Refused("a text of a row is not in UTF-8".to_owned()))?;
            if kind == DeclaredTypes::Json && json::Tape::read(text, &JSON).is_ok() {
                out.push_str(text)
            } else {
                json::push_string(out, text)
            }
        }
    }
    Ok(())
}

/// Limits on JSON in a column, the same as for messages.
const JSON: json::Limits = json::Limits { depth_max: 500, entries_max: 1_000_000 };

fn failure(error: &rusqlite::Error, statement: &str) -> Failure {
    if let rusqlite::Error::SqlInputError { msg, offset, .. } = error {
        return Failure::Refused(match usize::try_from(*offset) {
            Ok(offset) => {
                format!("SQLite: {msg}, at {} of the statement", place(statement, offset))
            }
            Err(_) => format!("SQLite: {msg}"),
        });
    }
    match error.sqlite_error_code() {
        Some(ErrorCode::OperationInterrupted) => Failure::Late,
        Some(ErrorCode::CannotOpen | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure) => {
            Failure::Unavailable(error.to_string())
        }
        Some(_) | None => Failure::Refused(format!("SQLite: {error}")),
    }
}

/// Returns line and column, counted from 1, of an offset in bytes.
pub(crate) fn place(statement: &str, offset: usize) -> String {
    let before = statement.get(..offset).unwrap_or(statement);
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("{line}:{column}")
}

/// Returns SQLite's message for a syntax error, which does not depend on the tables.
pub fn syntax_of_sqlite(statement: &str) -> Option<String> {
    let connection = Connection::open_in_memory().ok()?;
    let Err(error) = connection.prepare(statement) else { return None };
    if let rusqlite::Error::MultipleStatement = error {
        return Some("there are several statements".to_owned());
    }
    let rusqlite::Error::SqlInputError { msg, .. } = &error else { return None };
    let is_of_syntax = ["syntax error", "incomplete input", "unrecognized token"];
    let is_known = is_of_syntax.iter().any(|words| msg.contains(words));
    is_known.then(|| failure(&error, statement).to_string())
}
