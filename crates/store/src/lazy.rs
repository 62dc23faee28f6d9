//! A store that is opened after it was handed out.
//!
//! A configuration is compiled before it is served, and many are compiled that never are. So whoever needs the store gets it
//! unopened, and whoever serves opens it. Until then it is away.

use std::fmt;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use bytes::Bytes;

use crate::nodes::{LEASE, Nodes};
use crate::watch::{Subject, Watches};
use crate::{
    Answer, Change, CounterValue, Counters, Database, Embedded, Error, Guard, Keep, Lease,
    LeaseAnswer, Leases, Logs, MeasuredValues, Memory, Postgres, ReadQuery, Records,
    RecoveryReport, Row, Rows, Scan, Span, Store, Tables, Watch,
};

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
    place: StoreLocation,
    opened: OnceLock<OpenedStore>,
    /// One caller at a time opens it.
    opening: Mutex<()>,
    /// The watches while the store is not open. They never wake anybody.
    unopened: Watches,
    nodes: Arc<Nodes>,
}

enum OpenedStore {
    Embedded(Embedded),
    Postgres(Postgres),
    Memory(Memory),
}

impl fmt::Debug for OpenedStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenedStore::Embedded(store) => store.fmt(f),
            OpenedStore::Postgres(store) => store.fmt(f),
            OpenedStore::Memory(store) => store.fmt(f),
        }
    }
}

impl OpenedStore {
    fn store(&self) -> &dyn Store {
        match self {
            OpenedStore::Embedded(store) => store,
            OpenedStore::Postgres(store) => store,
            OpenedStore::Memory(store) => store,
        }
    }
}

impl LazyStore {
    /// A store in a folder. Nothing is opened or made yet.
    pub fn new(path: &Path) -> LazyStore {
        LazyStore::at(StoreLocation::Folder(path.to_owned()))
    }

    /// A store in a place, which several processes share if it is a database. Nothing is opened or made yet.
    pub fn at(place: StoreLocation) -> LazyStore {
        let nodes = match &place {
            StoreLocation::Folder(_) => Nodes::alone(),
            StoreLocation::Database(_) => Nodes::shared(&own_name(), LEASE),
        };
        LazyStore {
            place,
            opened: OnceLock::new(),
            opening: Mutex::new(()),
            unopened: Watches::default(),
            nodes: Arc::new(nodes),
        }
    }

    pub fn place(&self) -> &StoreLocation {
        &self.place
    }

    /// This process among those that share the store.
    pub fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    /// Opens it, which may take as long as reading what is in it. None if it is open already.
    pub fn open(&self) -> Result<Option<RecoveryReport>, Error> {
        // Harmless: the lock is held to the end.
        let _turn = self.opening.lock().unwrap_or_else(PoisonError::into_inner);
        if self.opened.get().is_some() {
            return Ok(None);
        }
        let (store, recovered) = match &self.place {
            StoreLocation::Folder(path) => {
                let (store, recovered) = Embedded::open(path)?;
                (OpenedStore::Embedded(store), recovered)
            }
            StoreLocation::Database(database) => {
                (OpenedStore::Postgres(Postgres::open(database)?), RecoveryReport::default())
            }
        };
        self.opened.get_or_init(|| store);
        Ok(Some(recovered))
    }

    /// Puts a store in memory in its place, for what is only tried.
    pub fn open_in_memory(&self) {
        self.opened.get_or_init(|| OpenedStore::Memory(Memory::new()));
    }

    /// True if that was done.
    pub fn is_in_memory(&self) -> bool {
        matches!(self.opened.get(), Some(OpenedStore::Memory(_)))
    }

    /// Its counts, once it is open.
    pub fn measured(&self) -> Option<MeasuredValues> {
        match self.opened.get()? {
            OpenedStore::Embedded(store) => Some(store.measured()),
            OpenedStore::Postgres(store) => Some(store.measured()),
            OpenedStore::Memory(_) => None,
        }
    }

    /// Why its database is away, while it is.
    pub fn away(&self) -> Option<Error> {
        match self.opened.get()? {
            OpenedStore::Postgres(store) => store.away(),
            OpenedStore::Embedded(_) | OpenedStore::Memory(_) => None,
        }
    }

    fn ask<T: Send + 'static>(&self, call: impl FnOnce(&dyn Store) -> Answer<T>) -> Answer<T> {
        match self.opened.get() {
            Some(opened) => call(opened.store()),
            None => {
                let unopened = Error::Away("it is not open yet".to_owned());
                Box::pin(std::future::ready(Err(unopened)))
            }
        }
    }
}

/// The name of this process for operators: its machine and its number.
fn own_name() -> String {
    // Harmless: without a host only the number is shown.
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    format!("{}:{}", host.trim(), std::process::id())
}

impl Logs for LazyStore {
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        self.ask(|store| store.append(log, records, guard))
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        self.ask(|store| store.read(log, read))
    }

    fn span(&self, log: &str) -> Answer<Span> {
        self.ask(|store| store.span(log))
    }

    fn trim(&self, log: &str, keep: Keep) -> Answer<Span> {
        self.ask(|store| store.trim(log, keep))
    }

    fn follow(&self, log: &str) -> Watch {
        match self.opened.get() {
            Some(opened) => opened.store().follow(log),
            None => self.unopened.watch(Subject::Log(log.to_owned())),
        }
    }
}

impl Tables for LazyStore {
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>> {
        self.ask(|store| store.get(table, key))
    }

    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows> {
        self.ask(|store| store.scan(table, scan))
    }

    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>> {
        self.ask(|store| store.change(changes, guard))
    }

    fn watch(&self, table: &str) -> Watch {
        match self.opened.get() {
            Some(opened) => opened.store().watch(table),
            None => self.unopened.watch(Subject::Table(table.to_owned())),
        }
    }
}

impl Leases for LazyStore {
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer> {
        self.ask(|store| store.acquire(lease, owner, ttl))
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease> {
        self.ask(|store| store.renew(lease, ttl))
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        self.ask(|store| store.release(lease))
    }
}

impl Counters for LazyStore {
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue> {
        self.ask(|store| store.add(counter, by, limit, window))
    }
}
