//! The effect of a batch, computed in memory from the fetched rows.
//!
//! Meanwhile the writer holds the lock that the writers of all nodes share, so the fetched rows cannot change.

use std::collections::{BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::call::{Outcome, Write};
use crate::watch::Subject;
use crate::{Change, CounterValue, Error, Expect, Guard, Lease, LeaseAnswer};

/// The rows that a batch affects: as fetched, and as they will be written.
#[derive(Debug, Default)]
pub(super) struct State {
    /// The database's clock in microseconds since the Unix epoch.
    pub(super) clock: u64,
    /// The number of the last change.
    pub(super) version: u64,
    pub(super) logs: HashMap<String, Log>,
    /// Rows by table and key.
    pub(super) rows: HashMap<(Arc<str>, Vec<u8>), RowState>,
    pub(super) leases: HashMap<String, HeldLease>,
    pub(super) counters: HashMap<String, Window>,
    pub(super) records: Vec<NewRecord>,
    pub(super) changed_subjects: BTreeSet<Subject>,
    /// False while there is nothing to write.
    pub(super) changed: bool,
}

#[derive(Debug, Clone)]
pub(super) struct Log {
    pub(super) id: u64,
    pub(super) oldest: u64,
    pub(super) newest: u64,
    pub(super) before: u64,
    pub(super) total: u64,
    /// The time of the newest record, in milliseconds.
    pub(super) time: u64,
    pub(super) changed: bool,
}

#[derive(Debug, Clone, Default)]
pub(super) struct RowState {
    pub(super) version: Option<u64>,
    /// The change to write, if there is one: the new value, or an inner `None` to delete the row.
    pub(super) written: Option<Option<Bytes>>,
}

#[derive(Debug)]
pub(super) struct HeldLease {
    pub(super) owner: Option<Arc<str>>,
    pub(super) token: u64,
    pub(super) until: u64,
    pub(super) changed: bool,
}

#[derive(Debug)]
pub(super) struct Window {
    pub(super) total: u64,
    pub(super) until: u64,
    pub(super) changed: bool,
}

#[derive(Debug)]
pub(super) struct NewRecord {
    pub(super) log: u64,
    pub(super) position: u64,
    pub(super) time: u64,
    pub(super) before: u64,
    pub(super) bytes: Bytes,
}

impl State {
    /// Runs one write.
    pub(super) fn run(&mut self, write: &Write) -> Result<Outcome, Error> {
        match write {
            Write::Append { log, records, guard, .. } => {
                self.check(guard.as_ref())?;
                Ok(Outcome::Positions(self.append(log, records)))
            }
            Write::Trim { log, oldest, before, .. } => {
                self.trim(log, *oldest, *before);
                Ok(Outcome::Nothing)
            }
            Write::Change { changes, guard, .. } => {
                self.check(guard.as_ref())?;
                self.change(changes).map(Outcome::Versions)
            }
            Write::Acquire { lease, owner, ttl, until, .. } => {
                let token = match self.acquire(lease, owner, *ttl) {
                    Ok(token) => token,
                    Err(held) => return Ok(Outcome::Acquired(held)),
                };
                let (name, owner, until) = (lease.clone(), owner.clone(), *until);
                Ok(Outcome::Acquired(LeaseAnswer::Acquired(Lease { name, owner, token, until })))
            }
            Write::Renew { lease, ttl, .. } => {
                self.check(Some(&lease.guard()))?;
                let until = self.clock.saturating_add(micros(*ttl));
                self.hold(lease, |held| held.until = until);
                Ok(Outcome::Renewed(lease.clone()))
            }
            Write::Release { lease, .. } => {
                self.hold(lease, |held| held.owner = None);
                Ok(Outcome::Nothing)
            }
            Write::Add { counter, by, limit, window, .. } => {
                Ok(Outcome::Counted(self.add(counter, *by, *limit, *window)))
            }
        }
    }

    /// Checks that no other owner has been given the lease of a guard.
    fn check(&self, guard: Option<&Guard>) -> Result<(), Error> {
        let Some(guard) = guard else { return Ok(()) };
        match self.leases.get(guard.lease.as_ref()) {
            Some(held) if held.token == guard.token && held.owner.is_some() => Ok(()),
            _ => Err(Error::Fenced),
        }
    }

    fn append(&mut self, name: &str, records: &[Bytes]) -> RangeInclusive<u64> {
        self.version += 1;
        // The version is unique, so it serves as the id of a new log.
        let id = self.version;
        let new = || Log { id, oldest: 1, newest: 0, before: 0, total: 0, time: 0, changed: true };
        let log = self.logs.entry(name.to_owned()).or_insert_with(new);
        log.changed = true;
        log.time = log.time.max(self.clock / 1000);
        let first = log.newest.saturating_add(1);
        for bytes in records {
            log.newest += 1;
            self.records.push(NewRecord {
                log: log.id,
                position: log.newest,
                time: log.time,
                before: log.total,
                bytes: bytes.clone(),
            });
            log.total += bytes.len() as u64;
        }
        let last = log.newest;
        self.changed_subjects.insert(Subject::Log(name.to_owned()));
        self.changed = true;
        first..=last
    }

    fn trim(&mut self, name: &str, oldest: u64, before: u64) {
        if let Some(log) = self.logs.get_mut(name)
            && oldest > log.oldest
            && oldest <= log.newest.saturating_add(1)
        {
            (log.oldest, log.before, log.changed) = (oldest, before, true);
            self.changed = true;
        }
    }

    /// Makes all changes or none. Each change sees those before it.
    fn change(&mut self, changes: &[Change]) -> Result<Vec<u64>, Error> {
        let mut undo = Vec::new();
        let mut versions = Vec::new();
        for (index, change) in changes.iter().enumerate() {
            let name = (change.table.clone(), change.key.clone());
            let row = self.rows.entry(name.clone()).or_default();
            let version = row.version;
            let expected = match change.expect {
                Expect::Anything => true,
                Expect::Nothing => version.is_none(),
                Expect::Version(expected) => version == Some(expected),
            };
            if !expected {
                self.rows.extend(undo.into_iter().rev());
                return Err(Error::Conflict { index, version });
            }
            self.version += 1;
            versions.push(self.version);
            let written = Some(change.value.clone());
            let version = change.value.is_some().then_some(self.version);
            undo.push((name, std::mem::replace(row, RowState { version, written })));
        }
        let tables = changes.iter().map(|change| Subject::Table(change.table.as_ref().to_owned()));
        self.changed_subjects.extend(tables);
        self.changed = true;
        Ok(versions)
    }

    /// Grants a lease and returns its token. If somebody holds the lease, returns the answer for the caller as the error.
    fn acquire(&mut self, name: &str, owner: &Arc<str>, ttl: Duration) -> Result<u64, LeaseAnswer> {
        let new = || HeldLease { owner: None, token: 0, until: 0, changed: false };
        let held = self.leases.entry(name.to_owned()).or_insert_with(new);
        if let Some(owner) = held.owner.clone().filter(|_| held.until > self.clock) {
            let left = Duration::from_micros(held.until - self.clock);
            return Err(LeaseAnswer::HeldByOther { owner, left });
        }
        let until = self.clock.saturating_add(micros(ttl));
        let token = held.token.saturating_add(1);
        *held = HeldLease { owner: Some(owner.clone()), token, until, changed: true };
        self.changed = true;
        Ok(token)
    }

    /// Changes a lease if its owner still holds it with this token.
    fn hold(&mut self, lease: &Lease, change: impl FnOnce(&mut HeldLease)) {
        if let Some(held) = self.leases.get_mut(lease.name.as_ref())
            && held.token == lease.token
            && held.owner.is_some()
        {
            change(held);
            held.changed = true;
            self.changed = true;
        }
    }

    fn add(&mut self, name: &str, by: u64, limit: u64, window: Duration) -> CounterValue {
        let now = self.clock;
        // If a window ends later than a new one would, it was started before the clock was set back, or was longer then.
        let last = now.saturating_add(micros(window));
        let open = self.counters.get(name).filter(|open| open.until > now && open.until <= last);
        let (total, until) = open.map_or((0, last), |open| (open.total, open.until));
        let remaining = Duration::from_micros(until.saturating_sub(now));
        let sum = total.saturating_add(by);
        let granted = sum <= limit;
        if !granted || by == 0 {
            return CounterValue { total, granted, remaining };
        }
        self.counters.insert(name.to_owned(), Window { total: sum, until, changed: true });
        self.changed = true;
        CounterValue { total: sum, granted, remaining }
    }
}

/// Converts a duration to microseconds, the unit of the database. A duration that is too long for it becomes one that in effect never ends.
fn micros(duration: Duration) -> u64 {
    kit::clock::micros(duration).min(i64::MAX.cast_unsigned() / 2)
}
