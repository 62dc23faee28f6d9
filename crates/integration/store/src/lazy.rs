//! A store that is opened later, and that may move to another process.
//!
//! A configuration is compiled before it is served, and many are never served. So the parts of a plan get the store
//! unopened, and the process opens it before it serves the plan. Until then the store counts as not available.
//!
//! One process at a time has an embedded store. During an upgrade the store moves to the next process: the old process closes it, and then
//! makes its calls through a link to the new one ([`crate::link`]). Meanwhile calls wait, up to [`HANDOVER_MAX`].

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{Semaphore, watch};

use crate::handover::{HANDOVER_MAX, moving, wait_for};
use crate::link::{LinkedStore, StoreOwner, StoreServer};
use crate::nodes::{LEASE, Nodes};
use crate::watch::{Subject, Tap, Watches};
use crate::{
    Answer, Change, CounterValue, Counters, Database, Embedded, Error, Guard, Keep, Lease,
    LeaseAnswer, Leases, Logs, MeasuredValues, Memory, Postgres, ReadQuery, Records,
    RecoveryReport, Row, Rows, Scan, Span, Store, Tables, Watch,
};

/// The maximum number of calls that wait while the store moves, as in the queue of an open store.
const WAITING_MAX: usize = 16_384;
/// The maximum time for work in progress to end before the store moves. The next process repeats what takes longer.
const WORK_MAX: Duration = Duration::from_secs(10);
/// The maximum time for readers to end.
const READERS_MAX: Duration = Duration::from_secs(3);
/// The pause between attempts to open a store that is taken back.
const AWAY: Duration = Duration::from_millis(500);

/// The location of a store. It is shown without secrets.
#[derive(Debug, Clone, PartialEq)]
pub enum StoreLocation {
    Folder(PathBuf),
    Database(Box<Database>),
}

impl fmt::Display for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StoreLocation::Folder(path) => path.display().fmt(f),
            StoreLocation::Database(database) => database.address.fmt(f),
        }
    }
}

/// A store that is opened later.
#[derive(Debug)]
pub struct LazyStore {
    shared: Arc<SharedStore>,
}

/// A reference that does not keep the store open.
#[derive(Debug)]
struct WeakStore(Weak<SharedStore>);

#[derive(Debug)]
struct SharedStore {
    place: StoreLocation,
    state: watch::Sender<StoreState>,
    /// Held by a caller that opens the store, gives it away or takes it back.
    opening: Mutex<()>,
    /// The watches of a store in a folder, whichever process has the store.
    watches: Arc<Watches>,
    nodes: Arc<Nodes>,
    /// Permits for calls that wait while the store moves.
    waiting: Arc<Semaphore>,
    /// Serves the store to processes that had it before.
    server: Mutex<Option<StoreServer>>,
    /// True if `server` was running when the store moved to the next process.
    has_served: AtomicBool,
}

#[derive(Debug)]
enum StoreState {
    Unopened,
    Open(OpenedStore),
    /// The store is moving to another process, or back. Calls wait.
    GoingOver,
}

enum OpenedStore {
    Embedded(Embedded),
    /// Another process has it.
    Linked(LinkedStore),
    Postgres(Postgres),
    Memory(Memory),
}

impl fmt::Debug for OpenedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenedStore::Embedded(store) => store.fmt(f),
            OpenedStore::Linked(store) => store.fmt(f),
            OpenedStore::Postgres(store) => store.fmt(f),
            OpenedStore::Memory(store) => store.fmt(f),
        }
    }
}

impl OpenedStore {
    fn store(&self) -> &dyn Store {
        match self {
            OpenedStore::Embedded(store) => store,
            OpenedStore::Linked(store) => store,
            OpenedStore::Postgres(store) => store,
            OpenedStore::Memory(store) => store,
        }
    }
}

impl LazyStore {
    /// Returns a store in a folder. Nothing is opened or created yet.
    pub fn new(path: &Path) -> LazyStore {
        LazyStore::at(StoreLocation::Folder(path.to_owned()))
    }

    /// Returns a store at a location. Several processes share it if it is a database. Nothing is opened or created yet.
    pub fn at(place: StoreLocation) -> LazyStore {
        let nodes = match &place {
            StoreLocation::Folder(_) => Nodes::single(),
            StoreLocation::Database(_) => Nodes::shared(&own_name(), LEASE),
        };
        let shared = SharedStore {
            place,
            state: watch::Sender::new(StoreState::Unopened),
            opening: Mutex::new(()),
            watches: Arc::default(),
            nodes: Arc::new(nodes),
            waiting: Arc::new(Semaphore::new(WAITING_MAX)),
            server: Mutex::new(None),
            has_served: AtomicBool::new(false),
        };
        LazyStore { shared: Arc::new(shared) }
    }

    pub fn place(&self) -> &StoreLocation {
        &self.shared.place
    }

    /// Returns the state of this process as one of the nodes that share the store.
    pub fn nodes(&self) -> &Arc<Nodes> {
        &self.shared.nodes
    }

    /// Opens the store. This may take as long as reading all its data. Returns `None` if it is open already.
    pub fn open(&self) -> Result<Option<RecoveryReport>, Error> {
        // Harmless: the lock is held to the end.
        let _turn = self.shared.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*self.shared.state.borrow(), StoreState::Unopened) {
            return Ok(None);
        }
        let (store, recovered) = match &self.shared.place {
            StoreLocation::Folder(path) => self.open_folder(path)?,
            StoreLocation::Database(database) => {
                (OpenedStore::Postgres(Postgres::open(database)?), RecoveryReport::default())
            }
        };
        self.set(StoreState::Open(store));
        Ok(Some(recovered))
    }

    fn open_folder(&self, path: &Path) -> Result<(OpenedStore, RecoveryReport), Error> {
        let (store, recovered) = Embedded::open_for(path, self.shared.watches.clone())?;
        Ok((OpenedStore::Embedded(store), recovered))
    }

    fn set(&self, state: StoreState) -> StoreState {
        self.shared.state.send_replace(state)
    }

    /// Uses a store in memory instead, for configurations that are only tested.
    pub fn open_in_memory(&self) {
        if matches!(*self.shared.state.borrow(), StoreState::Unopened) {
            self.set(StoreState::Open(OpenedStore::Memory(Memory::new())));
        }
    }

    /// Returns true if the store is in memory instead.
    pub fn is_in_memory(&self) -> bool {
        matches!(*self.shared.state.borrow(), StoreState::Open(OpenedStore::Memory(_)))
    }

    /// Returns the statistics of the store, once it is open and if this process has it.
    pub fn measured(&self) -> Option<MeasuredValues> {
        let StoreState::Open(opened) = &*self.shared.state.borrow() else { return None };
        match opened {
            OpenedStore::Embedded(store) => Some(store.measured()),
            OpenedStore::Postgres(store) => Some(store.measured()),
            OpenedStore::Linked(_) | OpenedStore::Memory(_) => None,
        }
    }

    /// Returns why the database is not available, or `None` if it is.
    pub fn away(&self) -> Option<Error> {
        let StoreState::Open(opened) = &*self.shared.state.borrow() else { return None };
        match opened {
            OpenedStore::Postgres(store) => store.away(),
            OpenedStore::Embedded(_) | OpenedStore::Linked(_) | OpenedStore::Memory(_) => None,
        }
    }

    /// Makes a call: immediately, or once the store has moved to another process.
    fn ask<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Store) -> Answer<T> + Send + 'static,
    ) -> Answer<T> {
        match &*self.shared.state.borrow() {
            StoreState::Open(opened) => return call(opened.store()),
            StoreState::Unopened => {
                return refused(Error::Unavailable("it is not open yet".to_owned()));
            }
            StoreState::GoingOver => {}
        }
        let Ok(place) = self.shared.waiting.clone().try_acquire_owned() else {
            return refused(Error::Busy);
        };
        let (shared, mut states) = (self.shared.clone(), self.shared.state.subscribe());
        Box::pin(async move {
            let _place = place;
            let waited = tokio::time::timeout(HANDOVER_MAX, settled(&mut states)).await;
            let answer = match &*shared.state.borrow() {
                StoreState::Open(opened) if waited.is_ok() => call(opened.store()),
                StoreState::Open(_) | StoreState::Unopened | StoreState::GoingOver => {
                    refused(moving())
                }
            };
            answer.await
        })
    }
}

/// Waits until the store is not moving.
async fn settled(states: &mut watch::Receiver<StoreState>) {
    let is_settled = |state: &StoreState| !matches!(state, StoreState::GoingOver);
    // Harmless: if the store is dropped, the wait ends.
    let _ = states.wait_for(is_settled).await;
}

fn refused<T: Send + 'static>(error: Error) -> Answer<T> {
    Box::pin(std::future::ready(Err(error)))
}

impl LazyStore {
    /// Closes the store so that another process can open it. From then on, calls go to that process. Before closing, waits until work in
    /// progress has ended or `is_over` returns true, for at most `patience` and `WORK_MAX`. On an error the store stays here. Does
    /// nothing if the store is a database. This blocks.
    pub fn hand_over(&self, patience: Duration, is_over: &dyn Fn() -> bool) -> Result<(), Error> {
        let StoreLocation::Folder(path) = &self.shared.place else { return Ok(()) };
        // Harmless: the lock is held to the end.
        let _turn = self.shared.opening.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes = &self.shared.nodes;
        nodes.set_company(true);
        nodes.give_up();
        if !wait_for(WORK_MAX.min(patience), || nodes.is_idle() || is_over()) {
            tracing::warn!("store: the next process repeats work that has not ended");
            nodes.lose();
        }
        let given = self.close_for_next(path);
        if given.is_err() {
            nodes.take_back();
            nodes.set_company(self.server().is_some());
        }
        given
    }

    fn close_for_next(&self, path: &Path) -> Result<(), Error> {
        let embedded = match self.set(StoreState::GoingOver) {
            StoreState::Open(OpenedStore::Embedded(embedded)) => embedded,
            other @ (StoreState::Open(_) | StoreState::Unopened | StoreState::GoingOver) => {
                self.set(other);
                return Err(Error::Unavailable("this process does not have the store".to_owned()));
            }
        };
        if !wait_for(READERS_MAX, || embedded.is_idle()) {
            self.set(StoreState::Open(OpenedStore::Embedded(embedded)));
            return Err(Error::Unavailable("readers did not end in time".to_owned()));
        }
        // Writes that wait for a sync are completed, and the lock of the folder is released.
        drop(embedded);
        let server = self.server().take();
        self.shared.has_served.store(server.is_some(), Ordering::Release);
        if let Some(server) = server {
            server.stop(path);
        }
        let link = LinkedStore::start(path, self.shared.watches.clone(), self.weak());
        match link {
            Ok(link) => {
                self.set(StoreState::Open(OpenedStore::Linked(link)));
                Ok(())
            }
            Err(error) => {
                self.reopen(path, &|| false);
                Err(error)
            }
        }
    }

    /// Takes the store back from a process that has ended, and makes waiting calls here. Retries until the store is open or `is_over`
    /// returns true. This blocks.
    pub fn take_back(&self, is_over: &dyn Fn() -> bool) -> Option<RecoveryReport> {
        let StoreLocation::Folder(path) = &self.shared.place else { return None };
        // Harmless: the lock is held to the end.
        let _turn = self.shared.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*self.shared.state.borrow(), StoreState::Open(OpenedStore::Linked(_))) {
            return None;
        }
        if let StoreState::Open(OpenedStore::Linked(link)) = self.set(StoreState::GoingOver) {
            link.close();
        }
        let recovered = self.reopen(path, is_over);
        self.shared.nodes.take_back();
        recovered
    }

    fn reopen(&self, path: &Path, is_over: &dyn Fn() -> bool) -> Option<RecoveryReport> {
        loop {
            match self.open_folder(path) {
                Ok((store, recovered)) => {
                    self.set(StoreState::Open(store));
                    self.shared.watches.wake_all();
                    self.serve_again();
                    return Some(recovered);
                }
                Err(error) if is_over() => {
                    tracing::error!("store: it could not be taken back: {error}");
                    self.set(StoreState::Unopened);
                    return None;
                }
                Err(error) => tracing::error!("store: it cannot be taken back yet: {error}"),
            }
            std::thread::sleep(AWAY);
        }
    }

    /// Serves the store, which this process took over, to the processes that had it before. Until the last of them has disconnected,
    /// [`Nodes::has_company`] is true.
    pub fn serve(&self) -> std::io::Result<()> {
        let StoreLocation::Folder(path) = &self.shared.place else { return Ok(()) };
        let server = StoreServer::start(path, self.weak())?;
        *self.server() = Some(server);
        Ok(())
    }

    /// Serves the store again, if it was served when it was given away.
    fn serve_again(&self) {
        let serves = self.shared.has_served.swap(false, Ordering::AcqRel);
        self.shared.nodes.set_company(serves);
        if serves && let Err(error) = self.serve() {
            tracing::error!("store: processes before this one cannot use it any more: {error}");
        }
    }

    /// Notes that a process that had the store before still uses it. This is called before anything reads the store.
    pub fn expect_company(&self) {
        self.shared.nodes.set_company(true);
    }

    fn server(&self) -> std::sync::MutexGuard<'_, Option<StoreServer>> {
        self.shared.server.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn weak(&self) -> Arc<dyn StoreOwner> {
        Arc::new(WeakStore(Arc::downgrade(&self.shared)))
    }
}

impl StoreOwner for WeakStore {
    fn store(&self) -> Option<Box<dyn Store>> {
        self.0.upgrade().map(|shared| Box::new(LazyStore { shared }) as _)
    }

    fn tap(&self) -> Option<Tap> {
        self.0.upgrade().map(|shared| shared.watches.tap())
    }

    fn set_company(&self, has_company: bool) {
        if let Some(shared) = self.0.upgrade() {
            shared.nodes.set_company(has_company);
        }
    }
}

/// Returns the name of this process for operators: its host and its process id.
fn own_name() -> String {
    // Harmless: without the host, only the process id is shown.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

impl SharedStore {
    /// Watches a log or table. Databases and stores in memory have their own watches. Those of a store in a folder are kept here, so that
    /// they stay valid when the store moves.
    fn watch(&self, subject: Subject) -> Watch {
        match (&*self.state.borrow(), subject) {
            (
                StoreState::Open(store @ (OpenedStore::Postgres(_) | OpenedStore::Memory(_))),
                subject,
            ) => match subject {
                Subject::Log(log) => store.store().follow(&log),
                Subject::Table(table) => store.store().watch(&table),
            },
            (_, subject) => self.watches.watch(subject),
        }
    }
}

impl Logs for LazyStore {
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        let (log, guard) = (log.to_owned(), guard.cloned());
        self.ask(move |store| store.append(&log, records, guard.as_ref()))
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        let log = log.to_owned();
        self.ask(move |store| store.read(&log, read))
    }

    fn span(&self, log: &str) -> Answer<Span> {
        let log = log.to_owned();
        self.ask(move |store| store.span(&log))
    }

    fn trim(&self, log: &str, keep: Keep) -> Answer<Span> {
        let log = log.to_owned();
        self.ask(move |store| store.trim(&log, keep))
    }

    fn follow(&self, log: &str) -> Watch {
        self.shared.watch(Subject::Log(log.to_owned()))
    }
}

impl Tables for LazyStore {
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>> {
        let (table, key) = (table.to_owned(), key.to_owned());
        self.ask(move |store| store.get(&table, &key))
    }

    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows> {
        let table = table.to_owned();
        self.ask(move |store| store.scan(&table, scan))
    }

    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>> {
        let guard = guard.cloned();
        self.ask(move |store| store.change(changes, guard.as_ref()))
    }

    fn watch(&self, table: &str) -> Watch {
        self.shared.watch(Subject::Table(table.to_owned()))
    }
}

impl Leases for LazyStore {
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer> {
        let (lease, owner) = (lease.to_owned(), owner.to_owned());
        self.ask(move |store| store.acquire(&lease, &owner, ttl))
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease> {
        let lease = lease.clone();
        self.ask(move |store| store.renew(&lease, ttl))
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        let lease = lease.clone();
        self.ask(move |store| store.release(&lease))
    }
}

impl Counters for LazyStore {
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue> {
        let counter = counter.to_owned();
        self.ask(move |store| store.add(&counter, by, limit, window))
    }
}
