//! A store whose logs are in another system.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Answer, Change, CounterValue, Counters, Error, Guard, Keep, LazyStore, Lease, LeaseAnswer,
    Leases, Logs, ReadQuery, Records, Row, Rows, Scan, Span, Tables, Watch,
};

/// A store whose logs are in another system than its tables, leases and counters.
///
/// An append with a guard is refused, since the other system cannot learn in time that a lease was lost.
#[derive(Clone)]
pub struct SplitStore {
    pub logs: Arc<dyn Logs + Send + Sync>,
    /// Keeps the tables, leases and counters. If it is in memory for the test of a configuration, it keeps the logs too.
    pub rest: Arc<LazyStore>,
}

impl SplitStore {
    fn logs(&self) -> &dyn Logs {
        if self.rest.is_in_memory() { &*self.rest } else { &*self.logs }
    }
}

impl fmt::Debug for SplitStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SplitStore").field("rest", &self.rest).finish_non_exhaustive()
    }
}

impl Logs for SplitStore {
    fn append(
        &self,
        log: &str,
        records: Vec<Bytes>,
        guard: Option<&Guard>,
    ) -> Answer<RangeInclusive<u64>> {
        if guard.is_some() {
            let refused = Error::Unavailable(format!("the log {log} does not support leases"));
            return Box::pin(std::future::ready(Err(refused)));
        }
        self.logs().append(log, records, None)
    }

    fn read(&self, log: &str, read: ReadQuery) -> Answer<Records> {
        self.logs().read(log, read)
    }

    fn span(&self, log: &str) -> Answer<Span> {
        self.logs().span(log)
    }

    fn trim(&self, log: &str, keep: Keep) -> Answer<Span> {
        self.logs().trim(log, keep)
    }

    fn follow(&self, log: &str) -> Watch {
        self.logs().follow(log)
    }
}

impl Tables for SplitStore {
    fn get(&self, table: &str, key: &[u8]) -> Answer<Option<Row>> {
        self.rest.get(table, key)
    }

    fn scan(&self, table: &str, scan: Scan) -> Answer<Rows> {
        self.rest.scan(table, scan)
    }

    fn change(&self, changes: Vec<Change>, guard: Option<&Guard>) -> Answer<Vec<u64>> {
        self.rest.change(changes, guard)
    }

    fn watch(&self, table: &str) -> Watch {
        self.rest.watch(table)
    }
}

impl Leases for SplitStore {
    fn acquire(&self, lease: &str, owner: &str, ttl: Duration) -> Answer<LeaseAnswer> {
        self.rest.acquire(lease, owner, ttl)
    }

    fn renew(&self, lease: &Lease, ttl: Duration) -> Answer<Lease> {
        self.rest.renew(lease, ttl)
    }

    fn release(&self, lease: &Lease) -> Answer<()> {
        self.rest.release(lease)
    }
}

impl Counters for SplitStore {
    fn add(&self, counter: &str, by: u64, limit: u64, window: Duration) -> Answer<CounterValue> {
        self.rest.add(counter, by, limit, window)
    }
}
