//! The embedded store: one process, one folder, one thread that writes.
//!
//! Writes wait in a bounded queue. The thread takes all waiting writes as one batch, so that one sync serves many callers.
//! Readers use the index, and read segments and tables on threads other than the workers. The number of concurrent readers is limited.

use std::ops::RangeInclusive;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use kit::clock;
use tokio::sync::{Semaphore, oneshot};

use crate::command::{Command, Done};
use crate::disk::{Disk, Folder};
use crate::engine::{Engine, SharedView, Tuning};
use crate::error::of_disk;
use crate::measures::MeasuredValues;
use crate::queue::{NextWork, Queue, closed};
use crate::recovery::{self, RecoveryReport};
use crate::reserve::{self, Reserve};
use crate::watch::{Subject, Watches};
use crate::{
    Answer, Change, CounterValue, Counters, Error, Guard, Keep, Lease, LeaseAnswer, Leases, Logs,
    ReadQuery, Records, Row, Rows, Scan, Span, Tables, Watch, limits, reader,
};

/// The maximum number of concurrent readers. More readers would not make a disk faster.
const READERS_MAX: usize = 32;
/// The interval at which counters are written. A crash loses at most the counts of one interval.
const COUNTERS_PACE: Duration = Duration::from_secs(1);

/// A store in a folder. Clones are the same store; it is closed when the last one is dropped.
#[derive(Debug, Clone)]
pub struct Embedded {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    shared: Arc<SharedView>,
    queue: Arc<Queue>,
    readers: Arc<Semaphore>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.queue.close();
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has nothing more to write.
        drop(thread.map(JoinHandle::join));
    }
}

impl Embedded {
    /// Opens the store in a folder, and creates it if it does not exist. Only one process at a time can open it.
    pub fn open(path: &Path) -> Result<(Embedded, RecoveryReport), Error> {
        Embedded::open_for(path, Arc::default())
    }

    /// Opens the store with watches that exist already.
    pub(crate) fn open_for(
        path: &Path,
        watches: Arc<Watches>,
    ) -> Result<(Embedded, RecoveryReport), Error> {
        Embedded::open_with(Arc::new(open_folder(path)?), Tuning::default(), watches)
    }

    /// Opens the store on a disk.
    pub fn open_on(
        disk: Arc<dyn Disk>,
        tuning: Tuning,
    ) -> Result<(Embedded, RecoveryReport), Error> {
        Embedded::open_with(disk, tuning, Arc::default())
    }

    fn open_with(
        disk: Arc<dyn Disk>,
        tuning: Tuning,
        watches: Arc<Watches>,
    ) -> Result<(Embedded, RecoveryReport), Error> {
        reserve::release(&*disk).map_err(|error| of_disk(&error))?;
        let (engine, recovered) = recovery::open(disk, tuning, watches)?;
        let shared = engine.shared.clone();
        let queue = Arc::new(Queue::default());
        let commands = queue.clone();
        let thread = std::thread::Builder::new().name("store".to_owned());
        let thread = thread.spawn(move || write(engine, &commands));
        let thread = thread.map_err(|error| Error::Unavailable(error.to_string()))?;
        let readers = Arc::new(Semaphore::new(READERS_MAX));
        let inner = Inner { shared, queue, readers, thread: Mutex::new(Some(thread)) };
        Ok((Embedded { inner: Arc::new(inner) }, recovered))
    }

    /// Returns true if there are no readers and no other clones, so that dropping this one closes the store.
    pub(crate) fn is_idle(&self) -> bool {
        // The engine's thread has the other reference.
        Arc::strong_count(&self.inner) == 1 && Arc::strong_count(&self.inner.shared) == 2
    }

    /// Returns the statistics of the store.
    pub fn measured(&self) -> MeasuredValues {
        self.inner.shared.measures.measured()
    }

    /// Sends a command to the thread, unless the check of its content failed.
    fn command<T: Send + 'static>(
        &self,
        checked: Result<(), Error>,
        command: impl FnOnce(Done<T>) -> Command,
    ) -> Answer<T> {
        let (done, answer) = oneshot::channel();
        let pushed = checked.and_then(|()| self.inner.queue.push(command(done)));
        Box::pin(async move {
            pushed?;
            // Dropped without an answer: the thread has ended, and the outcome is unknown.
            answer.await.unwrap_or_else(|_| Err(closed()))
        })
    }

    /// Reads on another thread, since reading may block.
    fn read_beside<T: Send + 'static>(
        &self,
        name: &str,
        work: impl FnOnce(&SharedView) -> Result<T, Error> + Send + 'static,
    ) -> Answer<T> {
        let (inner, checked) = (self.inner.clone(), limits::name(name));
        Box::pin(async move {
            checked?;
            let Ok(_place) = inner.readers.acquire().await else { return Err(closed()) };
            let shared = inner.shared.clone();
            let read = kit::task::run_blocking(move || work(&shared)).await;
            read.unwrap_or_else(|| Err(Error::Corrupt("reading stopped half-way".to_owned())))
        })
    }
}

/// Locks a folder for this process.
pub(crate) fn open_folder(path: &Path) -> Result<Folder, Error> {
    Folder::open(path).map_err(|error| {
        if error.kind() == std::io::ErrorKind::WouldBlock {
            Error::Unavailable(format!("another process has opened {}", path.display()))
        } else {
            Error::Unavailable(format!("{}: {error}", path.display()))
        }
    })
}

/// The main function of the thread: takes and runs waiting commands until the queue is closed.
fn write(mut engine: Engine, queue: &Queue) {
    let mut kept = clock::now();
    let mut reserve = Reserve::default();
    reserve.reserve(&*engine.shared.disk);
    loop {
        // Harmless: commands that are not taken stay in the queue.
        let (mut batch, ends) = match queue.take(COUNTERS_PACE) {
            NextWork::Batch(batch) => (batch, false),
            NextWork::Nothing => (Vec::new(), false),
            NextWork::Closed => (Vec::new(), true),
        };
        // If no command waits, there is time for cleaning up. A failure is retried later.
        if batch.is_empty() && !ends {
            batch.push(Command::Compact { all: false, done: oneshot::channel().0 });
            reserve.reserve(&*engine.shared.disk);
        }
        let due = ends || kept.elapsed() >= COUNTERS_PACE;
        if due && engine.shared.counters.is_dirty() {
            batch.push(Command::KeepCounters);
            kept = clock::now();
        }
        // After a panic the engine's state in memory may be wrong. The next start reads it from the disk.
        if catch_unwind(AssertUnwindSafe(|| engine.run(batch))).is_err() {
            return queue.abandon();
        }
        if ends {
            engine.note_newest();
            return;
        }
    }
}

impl Logs for Embedded {
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        let (log, guard) = (log.to_owned(), guard.cloned());
        self.command(limits::append(&log, &records), |done| Command::Append {
            log,
            records,
            guard,
            done,
        })
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        // Followers of a log often read at its end. Finding nothing there needs no other thread.
        let newest = self.inner.span(log).newest;
        if read.after >= newest {
            let nothing = limits::name(log).map(|()| Records { records: Vec::new(), newest });
            return Box::pin(std::future::ready(nothing));
        }
        let name = log.to_owned();
        self.read_beside(log, move |shared| reader::read(shared, &name, read))
    }

    fn span(&self, log: &str) -> Answer<Span> {
        let span = self.inner.span(log);
        Box::pin(std::future::ready(limits::name(log).map(|()| span)))
    }

    fn trim(&self, log: &str, keep: Keep) -> Answer<Span> {
        let (store, name) = (self.clone(), log.to_owned());
        let planned = self.read_beside(log, move |shared| reader::kept(shared, &name, keep));
        let log = log.to_owned();
        Box::pin(async move {
            if let Some((oldest, before)) = planned.await? {
                let name = log.clone();
                let trim = |done| Command::Trim { log: name, oldest, before, done };
                store.command(Ok(()), trim).await?;
            }
            Ok(store.inner.span(&log))
        })
    }

    fn follow(&self, log: &str) -> Watch {
        self.inner.shared.watches.watch(Subject::Log(log.to_owned()))
    }
}

impl Inner {
    fn span(&self, log: &str) -> Span {
        let empty = Span { oldest: 1, newest: 0, bytes: 0 };
        self.shared.log(log).map_or(empty, |log| log.index().span())
    }
}

impl Tables for Embedded {
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>> {
        let (name, key) = (table.to_owned(), key.to_owned());
        self.read_beside(table, move |shared| shared.tables.get(&name, &key))
    }

    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows> {
        let name = table.to_owned();
        self.read_beside(table, move |shared| shared.tables.scan(&name, &scan))
    }

    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>> {
        let guard = guard.cloned();
        self.command(limits::changes(&changes), |done| Command::Change { changes, guard, done })
    }

    fn watch(&self, table: &str) -> Watch {
        self.inner.shared.watches.watch(Subject::Table(table.to_owned()))
    }
}

impl Leases for Embedded {
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer> {
        let until = clock::now() + ttl;
        let checked = limits::name(lease).and_then(|()| limits::name(owner));
        let (lease, owner) = (lease.into(), owner.into());
        self.command(checked, |done| Command::Acquire { lease, owner, ttl, until, done })
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease> {
        let lease = Lease { until: clock::now() + ttl, ..lease.clone() };
        self.command(Ok(()), |done| Command::Renew { lease, ttl, done })
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        let lease = lease.clone();
        self.command(Ok(()), |done| Command::Release { lease, done })
    }
}

impl Counters for Embedded {
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue> {
        let checked = limits::name(counter);
        let added = checked.map(|()| self.inner.shared.counters.add(counter, by, limit, window));
        Box::pin(std::future::ready(added))
    }
}
