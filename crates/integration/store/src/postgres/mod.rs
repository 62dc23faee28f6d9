//! The store in a PostgreSQL database, which several nodes share.
//!
//! One thread communicates with the database. A writer takes all waiting writes as one batch and one transaction, a few readers run
//! queries, and a listener receives the notifications of other nodes. Writers of all nodes take turns by a lock in the database. So
//! positions have no gaps, and the rows fetched for a batch do not change. Times are those of the database; the clocks of nodes have
//! no influence.
//!
//! If the answer to a commit is lost or late, the writer asks over a new connection whether the commit happened. If that has no answer
//! either, the outcome is [`Error::OutcomeUnknown`]. A commit is never repeated before its outcome is known.

mod call;
mod connection;
mod listener;
mod readers;
mod schema;
mod state;
mod statement_failure;
mod statements;
mod writer;

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use kit::clock;
use sql::Address;
use sql::postgres::Server;
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::oneshot;
use tokio_postgres::config::TargetSessionAttrs;

use crate::call_queue::Queue;
use crate::clock_history::ClockHistory;
use crate::command::Done;
use crate::measures::{MeasuredValues, Measures};
use crate::queue::closed;
use crate::watch::{Subject, Watches};
use crate::{
    Answer, Change, CounterValue, Counters, Error, Guard, Keep, Lease, LeaseAnswer, Leases, Logs,
    ReadQuery, Records, Row, Rows, Scan, Span, Tables, Watch, limits,
};
use call::{ReadCommand, Write};
use connection::ANSWER_MAX;
use statement_failure::unanswered;
use writer::Writer;

/// The number of connections for reads. With several, one slow answer does not delay all others.
const READERS: usize = 3;
/// A server that takes longer to accept a connection counts as not available, unless the URL sets another time.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long the program waits at its start for the first attempt to connect.
const START_MAX: Duration = Duration::from_secs(15);

/// A database: its address, and the TLS settings if its address requires TLS.
#[derive(Debug, Clone, PartialEq)]
pub struct Database {
    pub address: Address,
    pub tls: Option<tls::Client>,
}

/// A store in a database. Clones are the same store, and so are others that were opened with the same database on any node. It is
/// closed when the last clone is dropped.
#[derive(Debug, Clone)]
pub struct Postgres {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<SharedState>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// State that callers and the thread share.
#[derive(Debug)]
struct SharedState {
    shown: String,
    writes: Queue<Write>,
    reads: Queue<ReadCommand>,
    watches: Watches,
    measures: Measures,
    /// Why the database is not available, or `None` if it is.
    away: Mutex<Option<String>>,
    /// The process id of the writer's connection on the server.
    process: AtomicI32,
    /// The history of the server's clock, which sets the times of records.
    clock_history: Mutex<ClockHistory>,
}

/// The outcome of the first attempt to connect.
enum Start {
    Ready,
    Away,
    Refused(String),
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.writes.close();
        self.shared.reads.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has nothing more to write.
        drop(thread.map(JoinHandle::join));
    }
}

impl Postgres {
    /// Opens the store in a database, and creates its tables if they do not exist. A database that cannot be reached is not an
    /// error: the store is not available until it can be.
    pub fn open(database: &Database) -> Result<Postgres, Error> {
        let Address::Postgres { config, .. } = &database.address else {
            return Err(Error::Unavailable(format!("{} is not PostgreSQL", database.address)));
        };
        let mut config = config.as_ref().clone();
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_MAX);
        }
        let shared = Arc::new(SharedState::new(database.address.to_string()));
        let (start, started) = sync_channel(1);
        let (of_thread, tls) = (shared.clone(), database.tls.clone());
        let thread = std::thread::Builder::new().name("store".to_owned());
        let thread = thread.spawn(move || {
            let mut runtime = Builder::new_current_thread();
            match runtime.enable_all().build_local(LocalOptions::default()) {
                Ok(runtime) => {
                    let server = Arc::new(Server::new(config, tls));
                    runtime.block_on(work(&of_thread, &server, start));
                    runtime.shutdown_background();
                }
                Err(error) => tracing::error!("store: its thread cannot start: {error}"),
            }
        });
        let thread = thread.map_err(|error| Error::Unavailable(error.to_string()))?;
        let inner = Inner { shared, thread: Mutex::new(Some(thread)) };
        let store = Postgres { inner: Arc::new(inner) };
        match started.recv_timeout(START_MAX) {
            Ok(Start::Refused(why)) => Err(Error::Unavailable(why)),
            Ok(Start::Ready | Start::Away) | Err(_) => Ok(store),
        }
    }

    /// Returns the statistics of the store.
    pub fn measured(&self) -> MeasuredValues {
        self.inner.shared.measures.measured()
    }

    /// Returns why the database is not available, or `None` if it is.
    pub fn away(&self) -> Option<Error> {
        self.inner.shared.away()
    }

    fn write<T: Send + 'static>(
        &self,
        checked: Result<(), Error>,
        write: impl FnOnce(Done<T>) -> Write,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let shared = &self.inner.shared;
        let pushed = checked.and_then(|()| shared.present()).and_then(|()| {
            let write = write(done);
            let bytes = write.bytes();
            shared.writes.push(write, bytes)
        });
        Box::pin(async move {
            pushed?;
            answer.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    fn look<T: Send + 'static>(
        &self,
        name: &str,
        look: impl FnOnce(Done<T>) -> ReadCommand,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let shared = &self.inner.shared;
        let checked = limits::name(name).and_then(|()| shared.present());
        let pushed = checked.and_then(|()| shared.reads.push(look(done), 0));
        Box::pin(async move {
            pushed?;
            let late = || Err(unanswered().error());
            // A few connections serve all reads, and the database may have stopped answering.
            let answered = tokio::time::timeout(ANSWER_MAX, answer).await;
            answered.map_or_else(|_| late(), |answer| answer.unwrap_or_else(|_| Err(closed())))
        })
    }
}

/// The main function of the thread: runs until the queue of writes is closed and its writes are done. Reads that are not answered by then
/// are dropped.
async fn work(
    shared: &Arc<SharedState>,
    server: &Arc<Server>,
    start: std::sync::mpsc::SyncSender<Start>,
) {
    for _ in 0..READERS {
        kit::spawn(readers::run(shared.clone(), server.clone()));
    }
    let writer = kit::spawn(Writer::new(shared.clone(), server.clone(), start).run());
    let listener = kit::spawn(listener::run(shared.clone(), server.clone()));
    if writer.await.is_err() {
        tracing::error!("store: its writer has failed; restart the gateway");
        shared.set_away(Some("its writer has failed".to_owned()));
        shared.writes.close();
    }
    listener.abort();
}

impl SharedState {
    /// Returns the lowest time of records that are not older than an age. `shown` is the current time of the server's clock.
    fn since(&self, age: Duration, shown: Duration) -> Duration {
        let mut history = self.clock_history.lock().unwrap_or_else(PoisonError::into_inner);
        history.since(age, clock::now(), shown)
    }

    fn new(shown: String) -> SharedState {
        SharedState {
            shown,
            writes: Queue::new(),
            reads: Queue::new(),
            watches: Watches::default(),
            measures: Measures::default(),
            away: Mutex::new(None),
            process: AtomicI32::new(0),
            clock_history: Mutex::default(),
        }
    }

    fn away(&self) -> Option<Error> {
        let away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        away.clone().map(Error::Unavailable)
    }

    /// Fails at once while the database is not available, so that callers do not wait for an attempt to connect.
    fn present(&self) -> Result<(), Error> {
        self.away().map_or(Ok(()), Err)
    }

    /// Sets why the database is not available. Logs when it becomes unavailable, and when it is available again.
    fn set_away(&self, why: Option<String>) {
        let mut away = self.away.lock().unwrap_or_else(PoisonError::into_inner);
        match (&*away, &why) {
            (None, Some(why)) => {
                tracing::error!(database = self.shown, why, "store: not available")
            }
            (Some(_), None) => tracing::info!(database = self.shown, "store: available again"),
            (None, None) | (Some(_), Some(_)) => {}
        }
        *away = why;
    }

    fn set_process(&self, process: i32) {
        self.process.store(process, Ordering::Relaxed);
    }

    /// Returns true if a process id of the server is that of the writer's connection.
    fn is_own(&self, process: i32) -> bool {
        self.process.load(Ordering::Relaxed) == process
    }

    /// Counts a batch that was committed.
    fn measure(&self, batch: &[Write], took: Duration) {
        let mut appended = (0, 0);
        for write in batch {
            if let Write::Append { records, .. } = write {
                appended.0 += records.len() as u64;
                appended.1 += write.bytes() as u64;
            }
        }
        self.measures.appended(appended.0, appended.1);
        self.measures.committed(took);
    }
}

/// Encodes a notification: the number of the change, the kind of the subject, and its name in hexadecimal digits, since texts
/// of a database cannot have NUL and depend on its encoding.
fn encode_notification(version: u64, subject: &Subject) -> String {
    let (kind, name) = match subject {
        Subject::Log(name) => ('l', name),
        Subject::Table(name) => ('t', name),
    };
    let mut text = format!("{version}{kind}");
    kit::hex::push(&mut text, name.as_bytes());
    text
}

/// Decodes a notification. Returns `None` if the gateway did not send it.
fn decode_notification(text: &str) -> Option<(u64, Subject)> {
    let at = text.find(|letter: char| !letter.is_ascii_digit())?;
    let (version, rest) = text.split_at_checked(at)?;
    let (kind, digits) = rest.split_at_checked(1)?;
    // Harmless: the gateway sends only notifications with names in UTF-8.
    let name = String::from_utf8(kit::hex::decoded(digits.as_bytes())?).ok()?;
    let subject = match kind {
        "l" => Subject::Log(name),
        "t" => Subject::Table(name),
        _ => return None,
    };
    Some((version.parse().ok()?, subject))
}

impl Logs for Postgres {
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        let (log, guard) = (log.to_owned(), guard.cloned());
        let checked = limits::append(&log, &records);
        self.write(checked, |done| Write::Append { log, records, guard, done })
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        self.look(log, |done| ReadCommand::Read { log: log.to_owned(), read, done })
    }

    fn span(&self, log: &str) -> Answer<Span> {
        self.look(log, |done| ReadCommand::Span { log: log.to_owned(), done })
    }

    fn trim(&self, log: &str, keep: Keep) -> Answer<Span> {
        let planned =
            self.look(log, |done| ReadCommand::Beyond { log: log.to_owned(), keep, done });
        let (store, log) = (self.clone(), log.to_owned());
        Box::pin(async move {
            if let Some((oldest, before)) = planned.await? {
                let name = log.clone();
                let trim = |done| Write::Trim { log: name, oldest, before, done };
                store.write(Ok(()), trim).await?;
                let sweep = ReadCommand::Sweep { log: log.clone() };
                // Harmless: if the queue is full, the sweep after the next trim removes these rows too.
                let _ = store.inner.shared.reads.push(sweep, 0);
            }
            store.span(&log).await
        })
    }

    fn follow(&self, log: &str) -> Watch {
        self.inner.shared.watches.watch(Subject::Log(log.to_owned()))
    }
}

impl Tables for Postgres {
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>> {
        self.look(table, |done| ReadCommand::Get {
            table: table.to_owned(),
            key: key.to_vec(),
            done,
        })
    }

    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows> {
        self.look(table, |done| ReadCommand::Scan { table: table.to_owned(), scan, done })
    }

    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>> {
        let guard = guard.cloned();
        self.write(limits::changes(&changes), |done| Write::Change { changes, guard, done })
    }

    fn watch(&self, table: &str) -> Watch {
        self.inner.shared.watches.watch(Subject::Table(table.to_owned()))
    }
}

impl Leases for Postgres {
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer> {
        let until = clock::now() + ttl;
        let checked = limits::name(lease).and_then(|()| limits::name(owner));
        let (lease, owner) = (lease.into(), owner.into());
        self.write(checked, |done| Write::Acquire { lease, owner, ttl, until, done })
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease> {
        let lease = Lease { until: clock::now() + ttl, ..lease.clone() };
        self.write(Ok(()), |done| Write::Renew { lease, ttl, done })
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        let lease = lease.clone();
        self.write(Ok(()), |done| Write::Release { lease, done })
    }
}

impl Counters for Postgres {
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue> {
        let counter = counter.to_owned();
        let checked = limits::name(&counter);
        self.write(checked, |done| Write::Add { counter, by, limit, window, done })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notification_can_name_any_log_and_table() {
        for name in ["orders/new", "", "with \0 and ü"] {
            for subject in [Subject::Log(name.to_owned()), Subject::Table(name.to_owned())] {
                assert_eq!(
                    decode_notification(&encode_notification(17, &subject)),
                    Some((17, subject))
                );
            }
        }
        for text in ["", "7", "7l6", "7lzz", "7x61", "7lff", "7ü", "l61", "99999999999999999999l61"]
        {
            assert_eq!(decode_notification(text), None, "{text}");
        }
    }
}
