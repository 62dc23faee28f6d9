//! Pool of memory for streaming runs, per thread: a message's transformation allocates little beside its result.

use std::cell::Cell;

use super::around::Lineage;
use super::events::Frame;

/// Larger memory is freed between runs.
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Frames of the document and the open elements whose content is processed, inner ones last.
    pub(super) frames: Vec<Frame>,
    pub(super) lineage: Lineage,
    /// A text of the source that is not complete yet.
    pub(super) text: String,
    /// Buffers for computed text and names.
    pub(super) said: String,
    pub(super) name: String,
}

impl Memory {
    /// Takes empty memory, from the pool if there is some.
    pub(super) fn take() -> Box<Memory> {
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Takes over the state of another run.
    pub(super) fn copy_from(&mut self, other: &Memory) {
        self.frames.clone_from(&other.frames);
        self.lineage.copy_from(&other.lineage);
        self.text.clone_from(&other.text);
    }

    /// Returns the memory to the pool.
    pub(super) fn give(mut self: Box<Self>) {
        let bytes = self.frames.capacity() * size_of::<Frame>()
            + self.lineage.capacity()
            + self.text.capacity()
            + self.said.capacity()
            + self.name.capacity();
        if bytes > KEPT_BYTES_MAX {
            return;
        }
        self.frames.clear();
        self.lineage.clear();
        self.text.clear();
        // The thread may be ending; the memory is simply freed then.
        let _gone = SPARE.try_with(|spare| spare.set(Some(self)));
    }
}
