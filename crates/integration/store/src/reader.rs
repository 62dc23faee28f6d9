//! Reads logs: finds the windows in the index, and reads the records in the segments.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;

use crate::engine::{Log, SharedView};
use crate::error::of_disk;
use crate::frame::{HEAD, Head};
use crate::index::{IndexEntry, WINDOW};
use crate::segment::{Segment, Walker};
use crate::{Error, Keep, ReadQuery, Record, Records, limits};

/// The maximum number of windows for one query of the index: 8 MiB of segments.
const WINDOWS_MAX: usize = 256;

/// A batch of records that is being filled.
struct BatchBuilder {
    read: ReadQuery,
    newest: u64,
    bytes: BytesMut,
    records: Vec<(u64, u64, usize)>,
}

impl BatchBuilder {
    fn add(&mut self, head: &Head, payload: &[u8]) -> ControlFlow<()> {
        if head.position <= self.read.after {
            return ControlFlow::Continue(());
        }
        let room = self.read.bytes_max.saturating_sub(self.bytes.len());
        let fits = payload.len() <= room || self.records.is_empty();
        if !fits || self.records.len() >= self.read.records_max || head.position > self.newest {
            return ControlFlow::Break(());
        }
        self.bytes.extend_from_slice(payload);
        self.records.push((head.position, head.time, self.bytes.len()));
        self.read.after = head.position;
        ControlFlow::Continue(())
    }

    fn finish(self) -> Records {
        let bytes = self.bytes.freeze();
        let mut from = 0;
        let records = self.records.into_iter().map(|(position, time, to)| {
            let bytes = bytes.slice(std::mem::replace(&mut from, to)..to);
            Record { position, time: Duration::from_millis(time), bytes }
        });
        Records { records: records.collect(), newest: self.newest }
    }
}

/// Reads records after a position.
pub(crate) fn read(shared: &SharedView, name: &str, read: ReadQuery) -> Result<Records, Error> {
    let read = ReadQuery {
        records_max: read.records_max.min(limits::READ_RECORDS_MAX),
        bytes_max: read.bytes_max.min(limits::READ_BYTES_MAX),
        ..read
    };
    let mut filling = BatchBuilder { read, newest: 0, bytes: BytesMut::new(), records: Vec::new() };
    let Some(log) = shared.log(name) else { return Ok(filling.finish()) };
    loop {
        let windows = plan(shared, &log, &mut filling)?;
        for (segment, entry) in &windows {
            let walked = walk(shared, &log, segment, entry, &mut |head, payload| {
                filling.add(head, payload)
            })?;
            if walked.is_break() {
                return Ok(filling.finish());
            }
        }
        // If nothing in the windows could be read, the search continues after them.
        match windows.last() {
            Some((_, last)) if filling.records.is_empty() && windows.len() > 1 => {
                filling.read.after = filling.read.after.max(last.position);
            }
            _ => return Ok(filling.finish()),
        }
    }
}

fn plan(
    shared: &SharedView,
    log: &Log,
    filling: &mut BatchBuilder,
) -> Result<Vec<(Arc<Segment>, IndexEntry)>, Error> {
    let index = log.index();
    filling.newest = index.span().newest;
    let entries = index.plan(filling.read.after, filling.read.bytes_max as u64, WINDOWS_MAX)?;
    filling.read.after = filling.read.after.max(index.span().oldest.saturating_sub(1));
    // Under the lock of the index, entries and segments are consistent.
    let found = entries.into_iter().map(|entry| match shared.segment(entry.slot) {
        Some(segment) => Ok((segment, entry)),
        None => Err(Error::Corrupt("the segment of some records is missing".to_owned())),
    });
    found.collect()
}

/// Calls a function for the records of a log in one window, until it returns [`ControlFlow::Break`].
fn walk(
    shared: &SharedView,
    log: &Log,
    segment: &Segment,
    entry: &IndexEntry,
    each: &mut dyn FnMut(&Head, &[u8]) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let window = usize::try_from(WINDOW).unwrap_or(usize::MAX) + HEAD;
    let mut walker = Walker::new(segment, entry.offset, segment.durable(), window);
    let end = entry.offset.saturating_add(WINDOW);
    while walker.offset() < end && !walker.is_at_end() {
        let head = walker.head().map_err(|error| of_disk(&error))?;
        let payload = match &head {
            Some(head) if head.log == log.id => {
                walker.payload(head).map_err(|error| of_disk(&error))?
            }
            Some(_) => Some([].as_slice()),
            None => None,
        };
        let (Some(head), Some(payload)) = (head, payload) else {
            shared.measures.damaged(1);
            if walker.resync(0, end).map_err(|error| of_disk(&error))? { continue } else { break }
        };
        if head.log == log.id && each(&head, payload).is_break() {
            return Ok(ControlFlow::Break(()));
        }
        walker.skip(&head);
    }
    Ok(ControlFlow::Continue(()))
}

/// Returns the oldest position to keep, and the bytes of the records before it. Returns `None` if all records are kept.
pub(crate) fn kept(
    shared: &SharedView,
    name: &str,
    keep: Keep,
) -> Result<Option<(u64, u64)>, Error> {
    let Some(log) = shared.log(name) else { return Ok(None) };
    let planned = {
        let index = log.index();
        let kept = index.kept(keep, shared.since(keep.age));
        kept.and_then(|(kept, entry)| {
            let entry = entry?;
            Some((kept, entry, shared.segment(entry.slot)?))
        })
    };
    let Some((kept, entry, segment)) = planned else { return Ok(None) };
    let mut found = None;
    let mut before = entry.before;
    let looked = walk(shared, &log, &segment, &entry, &mut |head, payload| {
        if kept.keeps(head.position, head.time, before) {
            found = Some((head.position, before));
            return ControlFlow::Break(());
        }
        before += payload.len() as u64;
        ControlFlow::Continue(())
    });
    looked.map(|_| ())?;
    Ok(Some(found.unwrap_or_else(|| log.index().entry_after(entry.position))))
}
