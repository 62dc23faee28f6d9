//! The embedded store without its thread: runs batches of commands, whose effects are durable when `run` returns.
//!
//! Owns the data on the disk and its index. One caller at a time runs batches; any number may read. A batch is at most one
//! transaction of tables, followed by one write and one sync of the open segment.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::RangeInclusive;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use bytes::Bytes;
use kit::clock::{self, Instant};

use crate::clock_history::ClockHistory;
use crate::command::{Command, Done};
use crate::counters::CounterMap;
use crate::disk::Disk;
use crate::error::of_disk;
use crate::frame::Head;
use crate::index::{LogIndex, RecordLocation, Slot};
use crate::measures::Measures;
use crate::segment::{self, Begin, Segment};
use crate::segment_use::SegmentUse;
use crate::tables::{TablesFile, TransactionWork};
use crate::watch::{Subject, Watches};
use crate::{Error, Guard, Lease, LeaseAnswer};

/// A log as readers see it.
#[derive(Debug)]
pub(crate) struct Log {
    pub(crate) id: u32,
    index: Mutex<LogIndex>,
}

impl Log {
    pub(crate) fn new(id: u32, oldest: u64) -> Log {
        Log { id, index: Mutex::new(LogIndex::new(oldest)) }
    }

    pub(crate) fn index(&self) -> MutexGuard<'_, LogIndex> {
        self.index.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The engine's state as readers see it.
#[derive(Debug)]
pub(crate) struct SharedView {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) tables: TablesFile,
    pub(crate) logs: RwLock<HashMap<Box<str>, Arc<Log>>>,
    pub(crate) segments: RwLock<HashMap<Slot, Arc<Segment>>>,
    pub(crate) counters: CounterMap,
    pub(crate) watches: Arc<Watches>,
    pub(crate) measures: Measures,
    pub(crate) clock_history: Mutex<ClockHistory>,
}

impl SharedView {
    /// Returns the lowest time of records that are not older than an age. Without an age, no record is too old.
    pub(crate) fn since(&self, age: Option<Duration>) -> Duration {
        let mut history = self.clock_history.lock().unwrap_or_else(PoisonError::into_inner);
        history.since(age.unwrap_or(Duration::MAX), clock::now(), clock::wall())
    }

    pub(crate) fn log(&self, name: &str) -> Option<Arc<Log>> {
        self.logs.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    pub(crate) fn segment(&self, slot: Slot) -> Option<Arc<Segment>> {
        self.segments.read().unwrap_or_else(PoisonError::into_inner).get(&slot).cloned()
    }

    pub(crate) fn put_segment(&self, segment: Arc<Segment>) {
        let mut segments = self.segments.write().unwrap_or_else(PoisonError::into_inner);
        segments.insert(segment.slot, segment);
    }

    pub(crate) fn drop_segment(&self, slot: Slot) {
        self.segments.write().unwrap_or_else(PoisonError::into_inner).remove(&slot);
    }
}

/// The tuning parameters of the engine.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// The size at which the open segment is followed by a new one.
    pub segment_bytes: u64,
}

impl Default for Tuning {
    fn default() -> Tuning {
        // Retention frees space by whole segments, so they must not be large.
        Tuning { segment_bytes: 64 << 20 }
    }
}

/// A log as the engine sees it.
#[derive(Debug)]
pub(crate) struct LogState {
    pub(crate) log: Arc<Log>,
    /// The position of the next record.
    pub(crate) next: u64,
}

/// A lease as the engine sees it.
#[derive(Debug)]
struct LeaseState {
    owner: Option<Arc<str>>,
    token: u64,
    until: Instant,
}

/// The part of the store that writes.
#[derive(Debug)]
pub(crate) struct Engine {
    pub(crate) shared: Arc<SharedView>,
    pub(crate) tuning: Tuning,
    pub(crate) logs: HashMap<Box<str>, LogState>,
    leases: HashMap<Box<str>, LeaseState>,
    /// All segments in order, by number. The last is the open one.
    pub(crate) held: BTreeMap<u64, SegmentUse>,
    /// True if the open segment must not be written to any more.
    pub(crate) broken: bool,
    /// The highest slot given to a segment.
    pub(crate) slot: Slot,
    /// The number of the last batch of records.
    pub(crate) batch: u64,
    /// The last version given to a row.
    pub(crate) version: u64,
    /// The number of the last transaction of tables.
    pub(crate) commits: u64,
    /// The logs whose newest durable position is not in the tables yet.
    unnoted: BTreeSet<Box<str>>,
    /// The highest number given to a segment.
    pub(crate) number: u64,
    /// The highest id given to a log.
    pub(crate) id: u32,
}

/// A batch: the transaction of its commands on the tables, its appends, and the receivers of the answers.
#[derive(Default)]
struct Batch {
    work: TransactionWork,
    changes: Vec<TableChanges>,
    acquired: Vec<(LeaseAnswer, Done<LeaseAnswer>)>,
    trims: Vec<(Arc<Log>, u64, u64, Done<()>)>,
    appends: Vec<Append>,
}

/// The tables that a list of changes affects, and the receiver of its answer.
type TableChanges = (Vec<Arc<str>>, Done<Vec<u64>>);

struct Append {
    log: String,
    records: Vec<Bytes>,
    done: Done<RangeInclusive<u64>>,
}

/// A record that was written but is not durable yet.
struct Fresh {
    log: Arc<Log>,
    place: RecordLocation,
}

impl Engine {
    pub(crate) fn new(
        shared: Arc<SharedView>,
        tuning: Tuning,
        leases: Vec<(String, u64)>,
        logs: HashMap<Box<str>, LogState>,
    ) -> Engine {
        let until = clock::now();
        let free = |(name, token): (String, u64)| {
            (name.into_boxed_str(), LeaseState { owner: None, token, until })
        };
        Engine {
            shared,
            tuning,
            logs,
            leases: leases.into_iter().map(free).collect(),
            held: BTreeMap::new(),
            broken: true,
            slot: 0,
            batch: 0,
            version: 0,
            commits: 0,
            unnoted: BTreeSet::new(),
            number: 0,
            id: 0,
        }
    }

    /// Runs commands as if one after the other, and answers each command when its effects are durable. Renewals and releases of leases are
    /// only in memory.
    pub(crate) fn run(&mut self, commands: Vec<Command>) {
        let mut batch = Batch::default();
        let mut sweep = false;
        for command in commands {
            match command {
                Command::Append { log, records, guard, done } => {
                    if let Some(done) = self.guarded(guard.as_ref(), done) {
                        batch.appends.push(Append { log, records, done });
                    }
                }
                Command::Trim { log, oldest, before, done } => {
                    sweep = true;
                    self.trim(&mut batch, &log, oldest, before, done);
                }
                Command::Change { changes, guard, done } => {
                    if let Some(done) = self.guarded(guard.as_ref(), done) {
                        let mut tables: Vec<Arc<str>> = Vec::new();
                        for change in &changes {
                            if !tables.contains(&change.table) {
                                tables.push(change.table.clone());
                            }
                        }
                        batch.changes.push((tables, done));
                        batch.work.changes.push(changes);
                    }
                }
                Command::Acquire { lease, owner, ttl, until, done } => {
                    match self.acquire(&mut batch.work, &lease, &owner, ttl, until) {
                        held @ LeaseAnswer::HeldByOther { .. } => answer(done, Ok(held)),
                        yours @ LeaseAnswer::Acquired(_) => batch.acquired.push((yours, done)),
                    }
                }
                Command::Renew { lease, ttl, done } => {
                    let renewed = self.renew(lease, ttl);
                    answer(done, renewed);
                }
                Command::Release { lease, done } => {
                    self.release(&lease);
                    answer(done, Ok(()));
                }
                Command::KeepCounters => batch.work.counters = self.shared.counters.dirty(),
                Command::Compact { all, done } => {
                    let compacted = self.compact(all).map_err(|error| of_disk(&error));
                    answer(done, compacted);
                }
            }
        }
        self.name_logs(&mut batch);
        let kept = self.keep_tables(&mut batch);
        self.append(batch.appends, &kept);
        if sweep {
            self.sweep();
        }
    }

    /// Returns the receiver of a write's answer if the write has no guard or its guard holds. Otherwise, answers with [`Error::Fenced`].
    fn guarded<T>(&self, guard: Option<&Guard>, done: Done<T>) -> Option<Done<T>> {
        let Some(guard) = guard else { return Some(done) };
        let owned = self.leases.get(guard.lease.as_ref());
        if owned.is_some_and(|owned| owned.token == guard.token && owned.owner.is_some()) {
            return Some(done);
        }
        answer(done, Err(Error::Fenced));
        None
    }

    fn acquire(
        &mut self,
        work: &mut TransactionWork,
        name: &Arc<str>,
        owner: &Arc<str>,
        ttl: Duration,
        until: Instant,
    ) -> LeaseAnswer {
        let now = clock::now();
        let free = || LeaseState { owner: None, token: 0, until: now };
        let owned = self.leases.entry(name.as_ref().into()).or_insert_with(free);
        if let Some(owner) = owned.owner.as_ref().filter(|_| owned.until > now) {
            return LeaseAnswer::HeldByOther { owner: owner.clone(), left: owned.until - now };
        }
        let token = owned.token + 1;
        *owned = LeaseState { owner: Some(owner.clone()), token, until: now + ttl };
        work.leases.push((name.clone(), token));
        LeaseAnswer::Acquired(Lease { name: name.clone(), owner: owner.clone(), token, until })
    }

    fn renew(&mut self, lease: Lease, ttl: Duration) -> Result<Lease, Error> {
        let owned = self.leases.get_mut(lease.name.as_ref());
        let owned = owned.filter(|owned| owned.token == lease.token && owned.owner.is_some());
        owned.ok_or(Error::Fenced)?.until = clock::now() + ttl;
        Ok(lease)
    }

    /// Releases a lease. This is not stored, since all leases are free after a restart.
    fn release(&mut self, lease: &Lease) {
        if let Some(owned) = self.leases.get_mut(lease.name.as_ref())
            && owned.token == lease.token
        {
            owned.owner = None;
        }
    }

    fn trim(&self, batch: &mut Batch, name: &str, oldest: u64, before: u64, done: Done<()>) {
        let Some(written) = self.logs.get(name) else { return answer(done, Ok(())) };
        let log = written.log.clone();
        if oldest <= log.index().span().oldest {
            return answer(done, Ok(()));
        }
        batch.work.logs.push((name.to_owned(), log.id, oldest.min(written.next)));
        batch.trims.push((log, oldest, before, done));
    }

    /// Assigns ids to new logs.
    fn name_logs(&mut self, batch: &mut Batch) {
        for append in &batch.appends {
            if self.logs.contains_key(append.log.as_str()) {
                continue;
            }
            self.id += 1;
            let log = Arc::new(Log::new(self.id, 1));
            self.logs.insert(append.log.as_str().into(), LogState { log, next: 1 });
            batch.work.logs.push((append.log.clone(), self.id, 1));
        }
    }

    /// Commits the transaction of a batch, and answers its commands.
    fn keep_tables(&mut self, batch: &mut Batch) -> Result<(), Error> {
        if batch.work.is_empty() {
            return Ok(());
        }
        self.commits += 1;
        batch.work.newest = self.newest_unnoted();
        batch.work.commit = self.commits;
        batch.work.version = self.version;
        let started = clock::now();
        let result = self.shared.tables.commit(&mut batch.work);
        self.shared.measures.committed(started.elapsed());
        self.version = batch.work.version;
        if result.is_ok() {
            self.unnoted.clear();
        }
        match &result {
            Ok(_) => self.apply_committed(batch),
            Err(error) => self.revert_failed(batch, error),
        }
        let changes = std::mem::take(&mut batch.changes);
        match result {
            Ok(changed) => {
                // Harmless: the tables returned a result for each list of changes.
                for ((tables, done), versions) in changes.into_iter().zip(changed) {
                    if versions.is_ok() {
                        tables.iter().for_each(|table| {
                            self.shared.watches.wake(&Subject::Table(table.as_ref().to_owned()));
                        });
                    }
                    answer(done, versions);
                }
                Ok(())
            }
            Err(error) => {
                changes.into_iter().for_each(|(_, done)| answer(done, Err(error.clone())));
                Err(error)
            }
        }
    }

    /// The newest durable positions that are not in the tables yet.
    fn newest_unnoted(&self) -> Vec<(Box<str>, u64)> {
        let newest = |name: &str| {
            let written = self.logs.get(name)?;
            Some((name.into(), written.log.index().span().newest))
        };
        // Harmless: `logs` has all logs in `unnoted`.
        self.unnoted.iter().filter_map(|name| newest(name)).collect()
    }

    /// Writes the newest positions to the tables before the store closes. If that fails, the next start finds older ones there.
    pub(crate) fn note_newest(&mut self) {
        let newest = self.newest_unnoted();
        if newest.is_empty() {
            return;
        }
        self.commits += 1;
        let (commit, version) = (self.commits, self.version);
        let mut work = TransactionWork { newest, commit, version, ..TransactionWork::default() };
        if self.shared.tables.commit(&mut work).is_ok() {
            self.unnoted.clear();
        }
    }

    /// Applies the effects of a committed transaction to the state in memory.
    fn apply_committed(&self, batch: &mut Batch) {
        for (name, _, _) in &batch.work.logs {
            if let Some(written) = self.logs.get(name.as_str()) {
                let mut logs = self.shared.logs.write().unwrap_or_else(PoisonError::into_inner);
                logs.entry(name.as_str().into()).or_insert_with(|| written.log.clone());
            }
        }
        for (log, oldest, before, done) in batch.trims.drain(..) {
            log.index().trim(oldest, before);
            answer(done, Ok(()));
        }
        batch.acquired.drain(..).for_each(|(acquired, done)| answer(done, Ok(acquired)));
    }

    /// Reverts the effects of a failed transaction on the state in memory.
    fn revert_failed(&mut self, batch: &mut Batch, error: &Error) {
        let known = self.shared.logs.read().unwrap_or_else(PoisonError::into_inner);
        self.logs.retain(|name, _| known.contains_key(name.as_ref()));
        drop(known);
        self.shared.counters.mark(&batch.work.counters);
        for (name, token) in &batch.work.leases {
            if let Some(owned) = self.leases.get_mut(name.as_ref())
                && owned.token == *token
            {
                owned.owner = None;
            }
        }
        batch.trims.drain(..).for_each(|(.., done)| answer(done, Err(error.clone())));
        batch.acquired.drain(..).for_each(|(_, done)| answer(done, Err(error.clone())));
    }

    /// Writes all appends of a batch at once, and answers them when they are durable.
    fn append(&mut self, appends: Vec<Append>, named: &Result<(), Error>) {
        let time = clock::millis(clock::wall());
        let (mut ready, mut unnamed) = (Vec::new(), Vec::new());
        for append in appends {
            if self.logs.contains_key(append.log.as_str()) {
                ready.push(append)
            } else {
                unnamed.push(append)
            }
        }
        let lost = named.as_ref().err().cloned().unwrap_or(Error::Busy);
        unnamed.into_iter().for_each(|append| answer(append.done, Err(lost.clone())));
        if ready.is_empty() {
            return;
        }
        if let Err(error) = self.rotate() {
            ready.into_iter().for_each(|append| answer(append.done, Err(error.clone())));
            return;
        }
        let Some(mut open) = self.held.last_entry() else { return };
        let segment = open.get().segment.clone();
        self.batch += 1;
        let mut bytes = Vec::new();
        segment::mark(self.batch, time, segment.begin.salt, &mut bytes);
        let mut fresh = Vec::new();
        let mut answers = Vec::new();
        for append in ready {
            let Some(written) = self.logs.get_mut(append.log.as_str()) else { continue };
            let positions =
                lay_out(written, &append.records, time, &segment, &mut bytes, &mut fresh);
            answers.push((append, positions));
        }
        match write(&self.shared, &segment, &bytes) {
            Ok(()) => {
                for Fresh { log, place } in &fresh {
                    open.get_mut().count(log.id, place.position, place.len);
                    log.index().add(*place);
                }
                self.shared.measures.appended(fresh.len() as u64, bytes.len() as u64);
                for (append, positions) in answers {
                    if !self.unnoted.contains(append.log.as_str()) {
                        self.unnoted.insert(append.log.as_str().into());
                    }
                    self.shared.watches.wake(&Subject::Log(append.log));
                    answer(append.done, Ok(positions));
                }
            }
            Err(error) => {
                self.broken = true;
                answers.into_iter().for_each(|(a, _)| answer(a.done, Err(error.clone())));
            }
        }
    }

    /// Starts a new segment if the open one cannot be written to, or is large enough.
    fn rotate(&mut self) -> Result<(), Error> {
        let open =
            self.held.last_key_value().map(|(number, held)| (*number, held.segment.durable()));
        if open.is_some_and(|(_, bytes)| bytes < self.tuning.segment_bytes) && !self.broken {
            return Ok(());
        }
        let previous = open.unwrap_or((0, 0));
        if let Some(held) = self.held.get(&previous.0).filter(|_| self.broken) {
            // The head of the new segment states where this one ends, so truncating it is optional.
            drop(held.segment.file.set_size(previous.1));
        }
        let number = self.number + 1;
        let begin = Begin { salt: salt(), number, covers: number, compacted: false, previous };
        self.slot += 1;
        let segment = Segment::create(&*self.shared.disk, self.slot, begin);
        let segment = Arc::new(segment.map_err(|error| of_disk(&error))?);
        self.shared.put_segment(segment.clone());
        self.held.insert(number, SegmentUse::new(segment));
        self.number = number;
        self.broken = false;
        Ok(())
    }

    /// Removes segments without kept records. The positions kept by their logs are durable already.
    ///
    /// The head of a segment states how many bytes of the previous segment count. So a segment is kept as long as the previous one, unless
    /// that one was compacted.
    pub(crate) fn sweep(&mut self) {
        let oldest = self.oldest();
        let numbers: Vec<u64> = self.held.keys().copied().collect();
        let Some((_, sealed)) = numbers.split_last() else { return };
        for number in sealed {
            let Some(held) = self.held.get(number) else { continue };
            let previous = self.held.get(&held.segment.begin.previous.0);
            let vouches = previous.is_some_and(|held| !held.segment.begin.compacted);
            if held.damaged || vouches || held.kept_bytes(&oldest) > 0 {
                continue;
            }
            // A file that cannot be removed now is removed later.
            if self.shared.disk.remove(&segment::name(*number)).is_ok()
                && let Some(held) = self.held.remove(number)
            {
                self.shared.drop_segment(held.segment.slot);
            }
        }
    }

    /// Returns the oldest position that each log keeps, by the log's id.
    pub(crate) fn oldest(&self) -> HashMap<u32, u64> {
        let logs = self.logs.values().map(|written| &written.log);
        logs.map(|log| (log.id, log.index().span().oldest)).collect()
    }
}

/// Writes the frames of an append to a buffer, and assigns positions to its records.
fn lay_out(
    written: &mut LogState,
    records: &[Bytes],
    time: u64,
    segment: &Segment,
    bytes: &mut Vec<u8>,
    fresh: &mut Vec<Fresh>,
) -> RangeInclusive<u64> {
    let time = time.max(written.log.index().newest_time());
    let first = written.next;
    for (index, record) in records.iter().enumerate() {
        let more = u16::try_from(records.len() - index - 1).unwrap_or(u16::MAX);
        let place = RecordLocation {
            position: written.next,
            time,
            len: record.len() as u64,
            slot: segment.slot,
            offset: segment.durable() + bytes.len() as u64,
        };
        Head::new(written.log.id, written.next, time, more).write(
            record,
            segment.begin.salt,
            bytes,
        );
        fresh.push(Fresh { log: written.log.clone(), place });
        written.next += 1;
    }
    first..=written.next - 1
}

/// Writes a batch after the durable data, and makes it durable. If the disk is full, truncates the segment to its former size.
fn write(shared: &SharedView, segment: &Segment, bytes: &[u8]) -> Result<(), Error> {
    let at = segment.durable();
    let started = clock::now();
    let written = segment.file.write_at(at, bytes).map_err(|error| of_disk(&error));
    let written = written.and_then(|()| {
        let synced = segment.file.sync().map_err(|error| Error::OutcomeUnknown(error.to_string()));
        shared.measures.synced(started.elapsed());
        synced
    });
    match written {
        Ok(()) => {
            segment.durable.store(at + bytes.len() as u64, Ordering::Release);
            Ok(())
        }
        // The batch is certain not to reappear only if the truncation is durable.
        Err(Error::Full(why)) => {
            match segment.file.set_size(at).and_then(|()| segment.file.sync()) {
                Ok(()) => Err(Error::Full(why)),
                Err(_) => Err(Error::OutcomeUnknown(why)),
            }
        }
        Err(error) => Err(error),
    }
}

/// Returns a random number that nobody outside the process can predict.
pub(crate) fn salt() -> u32 {
    use std::hash::{BuildHasher, Hasher};
    let random = std::hash::RandomState::new().build_hasher().finish();
    u32::try_from(random & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

/// Sends an answer, whether or not the caller still waits for it.
fn answer<T>(done: Done<T>, result: Result<T, Error>) {
    drop(done.send(result));
}
