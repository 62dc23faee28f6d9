//! A store in memory, for tests and rehearsals. It implements the contract without durability, and fails on demand.
//!
//! It uses the same clocks as all other code, so its leases and windows follow a paused clock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::{Bound, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use kit::clock::{self, Instant};

use crate::clock_history::ClockHistory;
use crate::watch::{Subject, Watches};
use crate::{
    Answer, Change, CounterValue, Counters, Error, Expect, Guard, Keep, Lease, LeaseAnswer, Leases,
    Logs, ReadQuery, Record, Records, Row, Rows, Scan, Span, Tables, Watch, limits,
};

/// A store in memory. Clones are the same store, as several nodes see it.
#[derive(Debug, Clone, Default)]
pub struct Memory {
    inner: Arc<Inner>,
}

/// Failures on demand. By default there are none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Faults {
    /// Every call returns [`Error::Unavailable`] and has no effect.
    pub away: bool,
    /// Every append and every change that writes bytes returns [`Error::Full`].
    pub full: bool,
    /// The delay of each answer. Written data can be read only after the answer.
    pub delay: Duration,
}

#[derive(Debug, Default)]
struct Inner {
    content: Mutex<Content>,
    faults: Mutex<Faults>,
    watches: Watches,
}

#[derive(Debug, Default)]
struct Content {
    logs: HashMap<String, LogContent>,
    tables: HashMap<Arc<str>, TableContent>,
    leases: HashMap<String, HeldLease>,
    counters: HashMap<String, Window>,
    version: u64,
    clock_history: ClockHistory,
}

/// The value and the version of each key.
type TableContent = BTreeMap<Vec<u8>, (Bytes, u64)>;

#[derive(Debug, Default)]
struct LogContent {
    records: VecDeque<Record>,
    newest: u64,
    bytes: u64,
}

#[derive(Debug)]
struct HeldLease {
    owner: Option<Arc<str>>,
    token: u64,
    until: Instant,
}

#[derive(Debug)]
struct Window {
    total: u64,
    until: Instant,
}

impl Memory {
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Sets the faults from now on.
    pub fn set_faults(&self, faults: Faults) {
        *self.inner.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }

    /// Returns the result of an operation after the configured delay.
    fn answer<T: Send + 'static>(
        &self,
        writes: bool,
        operation: impl FnOnce(&mut Content, &Watches) -> Result<T, Error> + Send + 'static,
    ) -> Answer<T> {
        let inner = self.inner.clone();
        let faults = *inner.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.delay.is_zero() {
            let result = inner.run(faults, writes, operation);
            return Box::pin(std::future::ready(result));
        }
        Box::pin(async move {
            tokio::time::sleep(faults.delay).await;
            inner.run(faults, writes, operation)
        })
    }
}

impl Inner {
    fn content(&self) -> MutexGuard<'_, Content> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run<T>(
        &self,
        faults: Faults,
        writes: bool,
        operation: impl FnOnce(&mut Content, &Watches) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if faults.away {
            return Err(Error::Unavailable("a fault was set for this store".to_owned()));
        }
        if faults.full && writes {
            return Err(Error::Full("a fault was set for this store".to_owned()));
        }
        operation(&mut self.content(), &self.watches)
    }
}

impl Logs for Memory {
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        let (log, guard) = (log.to_owned(), guard.cloned());
        self.answer(true, move |content, watches| {
            limits::append(&log, &records)?;
            content.check(guard.as_ref())?;
            let positions = content.logs.entry(log.clone()).or_default().append(records);
            watches.wake(&Subject::Log(log));
            Ok(positions)
        })
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        let log = log.to_owned();
        self.answer(false, move |content, _| {
            limits::name(&log)?;
            let empty = LogContent::default();
            content.logs.get(&log).unwrap_or(&empty).read(read)
        })
    }

    fn span(&self, log: &str) -> Answer<Span> {
        self.trim(log, Keep::default())
    }

    fn trim(&self, log: &str, keep: Keep) -> Answer<Span> {
        let log = log.to_owned();
        self.answer(false, move |content, _| {
            limits::name(&log)?;
            Ok(match content.logs.get_mut(&log) {
                Some(log) => {
                    let age = keep.age.unwrap_or(Duration::MAX);
                    log.trim(keep, content.clock_history.since(age, clock::now(), clock::wall()))
                }
                None => LogContent::default().span(),
            })
        })
    }

    fn follow(&self, log: &str) -> Watch {
        self.inner.watches.watch(Subject::Log(log.to_owned()))
    }
}

impl LogContent {
    fn append(&mut self, records: Vec<Bytes>) -> RangeInclusive<u64> {
        let now = Duration::from_millis(clock::millis(clock::wall()));
        let time = self.records.back().map_or(now, |last| last.time.max(now));
        let first = self.newest + 1;
        for bytes in records {
            self.newest += 1;
            self.bytes += bytes.len() as u64;
            self.records.push_back(Record { position: self.newest, time, bytes });
        }
        first..=self.newest
    }

    fn read(&self, read: ReadQuery) -> Result<Records, Error> {
        let oldest = self.span().oldest;
        if read.after != 0 && read.after.saturating_add(1) < oldest {
            return Err(Error::Trimmed { oldest });
        }
        let mut room = read.bytes_max.min(limits::READ_BYTES_MAX);
        let from = self.records.partition_point(|record| record.position <= read.after);
        let rest = self.records.iter().skip(from);
        // Harmless: the next read continues after the last record returned here.
        let fitting = rest.take(read.records_max.min(limits::READ_RECORDS_MAX)).enumerate();
        // Harmless: the next read continues after the last record returned here.
        let records = fitting.map_while(|(index, record)| {
            let fits = record.bytes.len() <= room || index == 0;
            room = room.saturating_sub(record.bytes.len());
            fits.then(|| record.clone())
        });
        Ok(Records { records: records.collect(), newest: self.newest })
    }

    fn span(&self) -> Span {
        let oldest = self.records.front().map_or(self.newest + 1, |first| first.position);
        Span { oldest, newest: self.newest, bytes: self.bytes }
    }

    fn trim(&mut self, keep: Keep, since: Duration) -> Span {
        let after = keep.after.unwrap_or(0);
        let bytes = keep.bytes.unwrap_or(u64::MAX);
        while let Some(first) = self.records.front() {
            if first.position > after && first.time >= since && self.bytes <= bytes {
                break;
            }
            self.bytes -= first.bytes.len() as u64;
            self.records.pop_front();
        }
        self.span()
    }
}

impl Tables for Memory {
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>> {
        let (table, key) = (table.to_owned(), key.to_owned());
        self.answer(false, move |content, _| {
            limits::name(&table)?;
            let row = content.tables.get(table.as_str()).and_then(|rows| rows.get_key_value(&key));
            Ok(row.map(|(key, (value, version))| row_of(key, value, *version)))
        })
    }

    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows> {
        let table = table.to_owned();
        self.answer(false, move |content, _| {
            limits::name(&table)?;
            let from = scan.prefix.as_slice().max(scan.after.as_deref().unwrap_or(&[]));
            let rows = content.tables.get(table.as_str()).into_iter();
            let rows = rows
                .flat_map(|rows| rows.range::<[u8], _>((Bound::Included(from), Bound::Unbounded)));
            let mut rows = rows
                .filter(|(key, _)| scan.after.as_ref().is_none_or(|after| *key > after))
                .take_while(|(key, _)| key.starts_with(&scan.prefix));
            let mut found = Rows { rows: Vec::new(), more: false };
            let mut bytes = 0;
            while found.rows.len() < scan.rows_max.min(limits::ROWS_MAX)
                && bytes < limits::SCAN_BYTES
            {
                let Some((key, (value, version))) = rows.next() else { return Ok(found) };
                bytes += key.len() + value.len();
                found.rows.push(row_of(key, value, *version));
            }
            found.more = rows.next().is_some();
            Ok(found)
        })
    }

    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>> {
        let guard = guard.cloned();
        let writes = changes.iter().any(|change| change.value.is_some());
        self.answer(writes, move |content, watches| {
            limits::changes(&changes)?;
            content.check(guard.as_ref())?;
            let versions = content.change(&changes)?;
            for change in changes {
                watches.wake(&Subject::Table(change.table.as_ref().to_owned()));
            }
            Ok(versions)
        })
    }

    fn watch(&self, table: &str) -> Watch {
        self.inner.watches.watch(Subject::Table(table.to_owned()))
    }
}

impl Content {
    /// Checks that no other owner has been given the lease of a guard.
    fn check(&self, guard: Option<&Guard>) -> Result<(), Error> {
        let Some(guard) = guard else { return Ok(()) };
        match self.leases.get(guard.lease.as_ref()) {
            Some(held) if held.token == guard.token && held.owner.is_some() => Ok(()),
            _ => Err(Error::Fenced),
        }
    }

    /// Makes all changes or none. Each change sees those before it.
    fn change(&mut self, changes: &[Change]) -> Result<Vec<u64>, Error> {
        let mut undo = Vec::new();
        let mut versions = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            let rows = self.tables.entry(change.table.clone()).or_default();
            let version = rows.get(&change.key).map(|(_, version)| *version);
            let expected = match change.expect {
                Expect::Anything => true,
                Expect::Nothing => version.is_none(),
                Expect::Version(expected) => version == Some(expected),
            };
            if !expected {
                self.undo(undo);
                return Err(Error::Conflict { index, version });
            }
            self.version += 1;
            versions.push(self.version);
            let was = match &change.value {
                Some(value) => rows.insert(change.key.clone(), (value.clone(), self.version)),
                None => rows.remove(&change.key),
            };
            undo.push((change, was));
        }
        Ok(versions)
    }

    fn undo(&mut self, undo: Vec<(&Change, Option<(Bytes, u64)>)>) {
        for (change, was) in undo.into_iter().rev() {
            let rows = self.tables.entry(change.table.clone()).or_default();
            match was {
                Some(row) => rows.insert(change.key.clone(), row),
                None => rows.remove(&change.key),
            };
        }
    }
}

fn row_of(key: &[u8], value: &Bytes, version: u64) -> Row {
    Row { key: Bytes::copy_from_slice(key), value: value.clone(), version }
}

impl Leases for Memory {
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer> {
        let (name, owner) = (lease.to_owned(), Arc::<str>::from(owner));
        let until = clock::now() + ttl;
        self.answer(false, move |content, _| {
            limits::name(&name)?;
            limits::name(&owner)?;
            let now = clock::now();
            let held = content.leases.entry(name.clone()).or_insert(HeldLease {
                owner: None,
                token: 0,
                until: now,
            });
            if let Some(owner) = held.owner.as_ref().filter(|_| held.until > now) {
                return Ok(LeaseAnswer::HeldByOther {
                    owner: owner.clone(),
                    left: held.until - now,
                });
            }
            *held =
                HeldLease { owner: Some(owner.clone()), token: held.token + 1, until: now + ttl };
            Ok(LeaseAnswer::Acquired(Lease { name: name.into(), owner, token: held.token, until }))
        })
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease> {
        let lease = Lease { until: clock::now() + ttl, ..lease.clone() };
        self.answer(false, move |content, _| {
            content.check(Some(&lease.guard()))?;
            if let Some(held) = content.leases.get_mut(lease.name.as_ref()) {
                held.until = clock::now() + ttl;
            }
            Ok(lease)
        })
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        let guard = lease.guard();
        self.answer(false, move |content, _| {
            if let Some(held) = content.leases.get_mut(guard.lease.as_ref())
                && held.token == guard.token
            {
                held.owner = None;
            }
            Ok(())
        })
    }
}

impl Counters for Memory {
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue> {
        let counter = counter.to_owned();
        self.answer(false, move |content, _| {
            limits::name(&counter)?;
            let now = clock::now();
            let counts = &mut content.counters;
            if counts.get(&counter).is_some_and(|window| window.until <= now) {
                counts.remove(&counter);
            }
            if by == 0 && !counts.contains_key(&counter) {
                return Ok(CounterValue { total: 0, granted: true, remaining: window });
            }
            let open = counts.entry(counter).or_insert(Window { total: 0, until: now + window });
            let sum = open.total.saturating_add(by);
            let granted = sum <= limit;
            if granted {
                open.total = sum;
            }
            Ok(CounterValue { total: open.total, granted, remaining: open.until - now })
        })
    }
}
