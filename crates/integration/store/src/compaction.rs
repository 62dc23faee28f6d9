//! Compaction: replaces several segments of which little is kept with one that has only the kept records.
//!
//! The new segment is written to a temporary file and made durable. Its head states the last segment number that it replaces. Then it is
//! renamed to the name of the first old segment, and the other old ones are removed. A start ignores and removes old segments that are
//! already replaced. So each record is found once, at whatever point the machine stops.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::disk::DiskFile;
use crate::engine::{Engine, Log, salt};
use crate::frame::{HEAD, Head, OWN};
use crate::index::{IndexEntry, Slot, WINDOW};
use crate::segment::{self, BEGIN_BYTES, Begin, Segment, Walker};
use crate::segment_use::SegmentUse;

/// The size of one read, and of one write.
const CHUNK: usize = 1 << 20;
/// The number of neighbouring segments that are merged into one even if most of their data is kept.
const MERGE_MIN: usize = 8;

/// A segment that is being built from others.
struct SegmentBuilder {
    segment: Segment,
    bytes: Vec<u8>,
    /// The number of bytes that were written to the file.
    at: u64,
    logs: HashMap<u32, MovedRecords>,
    held: HashMap<u32, (u64, u64)>,
}

/// The positions of a log's records in the new segment.
struct MovedRecords {
    log: Arc<Log>,
    oldest: u64,
    /// For the position of each current index entry in the old segments: the bytes of the log's records before it.
    known: HashMap<u64, u64>,
    /// The bytes of the log's records before the next one.
    before: u64,
    entries: Vec<IndexEntry>,
}

impl Engine {
    /// Rewrites one run of neighbouring segments, if less than half of it is kept or if it has many segments. With `all`, rewrites every
    /// segment that is neither open nor damaged.
    pub(crate) fn compact(&mut self, all: bool) -> io::Result<()> {
        self.sweep();
        let runs = self.runs(all);
        // Harmless: the next call rewrites the others.
        for run in runs.into_iter().take(if all { usize::MAX } else { 1 }) {
            self.rewrite(&run)?;
        }
        Ok(())
    }

    /// Returns the runs of neighbouring segments that are worth rewriting, each as a list of segment numbers.
    fn runs(&self, all: bool) -> Vec<Vec<u64>> {
        let oldest = self.oldest();
        let open = self.held.last_key_value().map(|(number, _)| *number);
        let mut runs = Vec::new();
        let (mut run, mut run_kept, mut run_size) = (Vec::new(), 0, 0);
        for (number, held) in &self.held {
            let (live, size) = (held.kept_bytes(&oldest), held.segment.durable());
            let fits = !held.damaged
                && Some(*number) != open
                && run_kept + live <= self.tuning.segment_bytes;
            if !fits {
                runs.push((std::mem::take(&mut run), run_kept, run_size));
                (run_kept, run_size) = (0, 0);
            }
            if !held.damaged && Some(*number) != open {
                run.push(*number);
                run_kept += live;
                run_size += size;
            }
        }
        runs.push((run, run_kept, run_size));
        let worth = runs.into_iter().filter(|(run, kept, size)| {
            !run.is_empty() && (all || *kept * 2 < *size || run.len() >= MERGE_MIN)
        });
        worth.map(|(run, ..)| run).collect()
    }

    fn rewrite(&mut self, run: &[u64]) -> io::Result<()> {
        let segments: Vec<_> = run
            .iter()
            // Harmless: `held` has all segments of a run.
            .filter_map(|number| self.held.get(number))
            .map(|held| held.segment.clone())
            .collect();
        let (Some(first), Some(last)) = (segments.first(), segments.last()) else { return Ok(()) };
        let begin = Begin {
            salt: salt(),
            number: first.begin.number,
            covers: last.begin.covers,
            compacted: true,
            previous: first.begin.previous,
        };
        let slots: Vec<Slot> = segments.iter().map(|segment| segment.slot).collect();
        let disk = self.shared.disk.clone();
        let temporary = segment::new_name(begin.number);
        self.slot += 1;
        let file = disk.open(&temporary)?;
        let made = self.make(begin, self.slot, file, &segments, &slots);
        let made = made.and_then(|made| {
            disk.rename(&temporary, &segment::name(begin.number))?;
            disk.sync()?;
            Ok(made)
        });
        let made = match made {
            Ok(made) => made,
            Err(error) => {
                // The segment may already have its final name. Then the next start finds it.
                drop(disk.remove(&temporary));
                return Err(error);
            }
        };
        self.replace(made, run, &slots);
        Ok(())
    }

    fn make(
        &self,
        begin: Begin,
        slot: Slot,
        file: Arc<dyn DiskFile>,
        segments: &[Arc<Segment>],
        slots: &[Slot],
    ) -> io::Result<SegmentBuilder> {
        file.set_size(0)?;
        let moved = |log: &Arc<Log>| {
            let index = log.index();
            let entries = index.entries_in(slots).into_iter();
            let known = entries.map(|entry| (entry.position, entry.before)).collect();
            let oldest = index.span().oldest;
            MovedRecords { log: log.clone(), oldest, known, before: 0, entries: Vec::new() }
        };
        let logs = self.logs.values().map(|w| (w.log.id, moved(&w.log))).collect();
        let segment = Segment { slot, begin, file, durable: AtomicU64::new(0) };
        let mut builder =
            SegmentBuilder { segment, bytes: begin.frame(), at: 0, logs, held: HashMap::new() };
        for segment in segments {
            let mut walker = Walker::new(segment, BEGIN_BYTES, segment.durable(), CHUNK);
            while !walker.is_at_end() {
                let damaged = || io::Error::from(io::ErrorKind::InvalidData);
                let head = walker.head()?.ok_or_else(damaged)?;
                let payload = walker.payload(&head)?.ok_or_else(damaged)?;
                builder.add(&head, payload)?;
                walker.skip(&head);
            }
        }
        builder.flush()?;
        builder.segment.file.sync()?;
        builder.segment.durable.store(builder.at, Ordering::Release);
        Ok(builder)
    }

    /// Replaces old segments with the new one.
    fn replace(&mut self, made: SegmentBuilder, run: &[u64], slots: &[Slot]) {
        let segment = Arc::new(made.segment);
        self.shared.put_segment(segment.clone());
        for moved in made.logs.into_values() {
            moved.log.index().replace(slots, moved.entries);
        }
        for number in run {
            if let Some(held) = self.held.remove(number) {
                self.shared.drop_segment(held.segment.slot);
            }
            if *number != segment.begin.number {
                // The next start removes files that could not be removed.
                drop(self.shared.disk.remove(&segment::name(*number)));
            }
        }
        let mut held = SegmentUse::new(segment.clone());
        held.logs = made.held;
        self.held.insert(segment.begin.number, held);
    }
}

impl SegmentBuilder {
    fn add(&mut self, head: &Head, payload: &[u8]) -> io::Result<()> {
        let offset = self.at + self.bytes.len() as u64;
        if head.log != OWN {
            let Some(moved) = self.logs.get_mut(&head.log) else { return Ok(()) };
            let before = moved.known.get(&head.position).copied().unwrap_or(moved.before);
            moved.before = before + payload.len() as u64;
            if head.position < moved.oldest {
                return Ok(());
            }
            let slot = self.segment.slot;
            let covered = moved
                .entries
                .last()
                .is_some_and(|last| offset < last.offset.saturating_add(WINDOW));
            if !covered {
                let Head { position, time, .. } = *head;
                moved.entries.push(IndexEntry { position, time, before, slot, offset });
            }
            let held = self.held.entry(head.log).or_default();
            *held = (head.position, held.1 + (HEAD + payload.len()) as u64);
        }
        head.write(payload, self.segment.begin.salt, &mut self.bytes);
        if self.bytes.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.segment.file.write_at(self.at, &self.bytes)?;
        self.at += self.bytes.len() as u64;
        self.bytes.clear();
        Ok(())
    }
}
