//! The kept records of each segment. The engine uses them to decide which segments to remove or rewrite.

use std::collections::HashMap;
use std::sync::Arc;

use crate::frame::HEAD;
use crate::segment::Segment;

/// A segment as the engine sees it: the data of each log in it.
#[derive(Debug)]
pub(crate) struct SegmentUse {
    pub(crate) segment: Arc<Segment>,
    /// For each log, by its id: its last position in the segment, and the bytes of its frames.
    pub(crate) logs: HashMap<u32, (u64, u64)>,
    /// True if some of the segment cannot be read. Such a segment is kept for an operator to inspect.
    pub(crate) damaged: bool,
}

impl SegmentUse {
    pub(crate) fn new(segment: Arc<Segment>) -> SegmentUse {
        SegmentUse { segment, logs: HashMap::new(), damaged: false }
    }

    /// Counts a record of this size.
    pub(crate) fn count(&mut self, log: u32, position: u64, bytes: u64) {
        let held = self.logs.entry(log).or_default();
        *held = (position, held.1 + bytes + HEAD as u64);
    }

    /// Returns the bytes of all logs that keep at least one record of this segment. `oldest` has the oldest position that each log keeps,
    /// by its id.
    pub(crate) fn kept_bytes(&self, oldest: &HashMap<u32, u64>) -> u64 {
        let logs = self.logs.iter();
        let kept =
            logs.filter(|(id, (last, _))| oldest.get(*id).is_some_and(|oldest| last >= oldest));
        kept.map(|(_, (_, bytes))| bytes).sum()
    }
}
