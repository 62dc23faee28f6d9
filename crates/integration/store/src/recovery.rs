//! Opens existing data, in whatever state the last process left it.
//!
//! A batch that was being written when the machine stopped is truncated, since it was not acknowledged. Damaged data that
//! was durable stays in place and is reported; records before and after it are readable.

use std::collections::HashMap;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, RwLock};

use kit::clock;

use crate::Error;
use crate::clock_history::ClockHistory;
use crate::counters::CounterMap;
use crate::disk::Disk;
use crate::engine::{Engine, Log, LogState, SharedView, Tuning};
use crate::error::of_disk;
use crate::frame::{HEAD, Head};
use crate::index::RecordLocation;
use crate::measures::Measures;
use crate::segment::{self, BEGIN_BYTES, Segment};
use crate::segment_use::SegmentUse;
use crate::tables::TablesFile;
use crate::watch::Watches;

/// The findings when a store is opened.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecoveryReport {
    /// The number of segments.
    pub segments: usize,
    /// The size of all segments.
    pub bytes: u64,
    /// The number of logs.
    pub logs: usize,
    /// The number of records that these logs keep.
    pub records: u64,
    /// The truncated bytes of a batch that was being written when the machine stopped.
    pub torn_bytes: u64,
    /// Durable data that cannot be read: the file and the range.
    pub damage: Vec<(String, Range<u64>)>,
    /// Positions of durable records that are missing without damage: the file was truncated, or replaced with an older one.
    pub missing: Vec<(String, RangeInclusive<u64>)>,
}

/// Opens a store on a disk.
pub(crate) fn open(
    disk: Arc<dyn Disk>,
    tuning: Tuning,
    watches: Arc<Watches>,
) -> Result<(Engine, RecoveryReport), Error> {
    let (tables, kept) = TablesFile::open(disk.clone())?;
    let mut logs = HashMap::new();
    for (name, id, oldest) in kept.logs {
        let written = LogState { log: Arc::new(Log::new(id, oldest)), next: oldest };
        logs.insert(name.into_boxed_str(), written);
    }
    let readers = logs.iter().map(|(name, written)| (name.clone(), written.log.clone())).collect();
    let shared = Arc::new(SharedView {
        disk,
        tables,
        logs: RwLock::new(readers),
        segments: RwLock::default(),
        counters: CounterMap::new(kept.counters),
        watches,
        measures: Measures::default(),
        clock_history: Mutex::new(ClockHistory::new(clock::now(), clock::wall())),
    });
    let id = logs.values().map(|written| written.log.id).max().unwrap_or(0);
    let mut engine = Engine::new(shared, tuning, kept.leases, logs);
    (engine.version, engine.commits, engine.id) = (kept.version, kept.commits, id);
    let mut recovered = RecoveryReport::default();
    let is_known = read_segments(&mut engine, &mut recovered).map_err(|error| of_disk(&error))?;
    if !is_known {
        // With these tables, the next new log would get the number of the missing one, and so its records.
        let why = "tables: a log with records is missing: the file was removed, emptied, or replaced with an older one";
        return Err(Error::Corrupt(why.to_owned()));
    }
    skip_missing_positions(&mut engine, &kept.newest, &mut recovered);
    engine.shared.measures.damaged(recovered.damage.len() + recovered.missing.len());
    recovered.logs = engine.logs.len();
    engine.sweep();
    Ok((engine, recovered))
}

/// Continues logs after the positions that are in the tables but in no segment. Readers may have had those records, so their positions
/// are not reused.
fn skip_missing_positions(
    engine: &mut Engine,
    noted: &HashMap<String, u64>,
    recovered: &mut RecoveryReport,
) {
    for (name, noted) in noted {
        let Some(written) = engine.logs.get_mut(name.as_str()) else { continue };
        let newest = written.log.index().span().newest;
        if newest < *noted {
            // The damage explains the missing records.
            if recovered.damage.is_empty() {
                recovered.missing.push((name.clone(), newest + 1..=*noted));
            }
            written.next = written.next.max(*noted + 1);
        }
    }
    recovered.missing.sort_unstable_by(|one, other| one.0.cmp(&other.0));
}

/// Reads all segments. Returns false if there are records of a log that is not in the tables. Since the tables are always written first,
/// they then do not belong to these segments.
fn read_segments(engine: &mut Engine, recovered: &mut RecoveryReport) -> std::io::Result<bool> {
    let found = find_segments(engine, recovered)?;
    let successors: HashMap<u64, u64> =
        found.iter().map(|segment| segment.begin.previous).collect();
    let last = found.last().map(|segment| segment.begin.number);
    let names = engine.logs.values().map(|written| (written.log.id, written.log.clone())).collect();
    let mut is_known = true;
    for segment in found {
        let is_last = last == Some(segment.begin.number) && engine.number == segment.begin.number;
        let known = if segment.begin.compacted {
            Some(segment.durable())
        } else {
            successors.get(&segment.begin.number).copied()
        };
        is_known &= read_segment(engine, Arc::new(segment), known, is_last, &names, recovered)?;
    }
    if !is_known {
        return Ok(false);
    }
    // Readers may have had the lost records, so the positions of those are not reused.
    let lost_bytes: u64 = recovered.damage.iter().map(|(_, range)| range.end - range.start).sum();
    let lost_max = lost_bytes / HEAD as u64;
    for written in engine.logs.values_mut() {
        written.next = written.log.index().span().newest + 1 + lost_max;
    }
    Ok(true)
}

/// Opens all segments in order, without replaced ones.
fn find_segments(
    engine: &mut Engine,
    recovered: &mut RecoveryReport,
) -> std::io::Result<Vec<Segment>> {
    let disk = engine.shared.disk.clone();
    let names = disk.list()?;
    for name in names.iter().filter(|name| name.ends_with(".new")) {
        disk.remove(name)?;
    }
    // Harmless: the other files are not segments.
    let mut numbers: Vec<u64> = names.iter().filter_map(|name| segment::number(name)).collect();
    numbers.sort_unstable();
    let last = numbers.last().copied();
    let mut found: Vec<Segment> = Vec::new();
    for number in numbers {
        let name = segment::name(number);
        let covered = found.iter().any(|s| s.begin.compacted && s.begin.covers >= number);
        let file = disk.open(&name)?;
        let size = file.size()?;
        engine.slot += 1;
        match Segment::open(file, engine.slot)?.filter(|segment| segment.begin.number == number) {
            _ if covered => disk.remove(&name)?,
            Some(segment) => {
                engine.number = engine.number.max(segment.begin.covers);
                found.push(segment);
            }
            // The segment's head was not durable yet, so it has no records.
            None if last == Some(number) && size <= BEGIN_BYTES => disk.remove(&name)?,
            None => {
                engine.number = engine.number.max(number);
                recovered.damage.push((name, 0..size));
            }
        }
    }
    Ok(found)
}

/// Reads a segment. `known` is the number of its bytes that count, or `None` if its end has to be found. Returns false if the segment has
/// records of a log that is not in `logs`.
fn read_segment(
    engine: &mut Engine,
    segment: Arc<Segment>,
    known: Option<u64>,
    is_last: bool,
    logs: &HashMap<u32, Arc<Log>>,
    recovered: &mut RecoveryReport,
) -> std::io::Result<bool> {
    let name = segment::name(segment.begin.number);
    let size = segment.file.size()?;
    let mut held = SegmentUse::new(segment.clone());
    let mut records = 0;
    let mut is_known = true;
    let mut each = |offset: u64, head: &Head, payload: &[u8]| {
        let Some(log) = logs.get(&head.log) else {
            is_known = false;
            return;
        };
        let place = RecordLocation {
            position: head.position,
            time: head.time,
            len: payload.len() as u64,
            slot: segment.slot,
            offset,
        };
        if log.index().add(place) {
            held.count(head.log, head.position, place.len);
            records += 1;
        }
    };
    let scanned = segment::scan(&segment, known, engine.batch, &mut each)?;
    if !is_known {
        return Ok(false);
    }
    engine.batch = scanned.batch;
    let end = match known {
        Some(known) => known.min(size),
        None => scanned.end,
    };
    segment.durable.store(end, Ordering::Release);
    let lost = known.filter(|known| *known > size).map(|known| size..known);
    let damage = scanned.damage.into_iter().chain(lost);
    let before = recovered.damage.len();
    recovered.damage.extend(damage.map(|range| (name.clone(), range)));
    held.damaged = recovered.damage.len() > before;
    recovered.segments += 1;
    recovered.records += records;
    recovered.bytes += end;
    if is_last && known.is_none() {
        recovered.torn_bytes += size - end;
        if size > end {
            segment.file.set_size(end)?;
        }
        // The last batch may be only in the page cache, where its pages are marked as clean even if their sync failed. The same applies to
        // the head and the name of the segment.
        let from = if scanned.batch_at == BEGIN_BYTES { 0 } else { scanned.batch_at };
        write_again(&segment, from..end)?;
        engine.shared.disk.sync()?;
        engine.broken = false;
    }
    engine.shared.put_segment(segment.clone());
    engine.held.insert(segment.begin.number, held);
    Ok(true)
}

/// Makes data durable that may exist only in the page cache.
fn write_again(segment: &Segment, range: Range<u64>) -> std::io::Result<()> {
    let len = range.end.saturating_sub(range.start);
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    segment.file.read_at(range.start, &mut bytes)?;
    segment.file.write_at(range.start, &bytes)?;
    segment.file.sync()
}
