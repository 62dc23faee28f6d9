//! What a run keeps, used again by the next run of the same thread: a message's transformation allocates little but its
//! result.

use std::cell::Cell;

use super::around::Lineage;
use super::events::Frame;

/// More memory than this is given back between runs.
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Of the document and the open elements whose content is looked at, inner ones last.
    pub(super) frames: Vec<Frame>,
    pub(super) lineage: Lineage,
    /// A text of the source whose end has not come.
    pub(super) text: String,
    /// Text and names that are put together.
    pub(super) said: String,
    pub(super) name: String,
}

impl Memory {
    /// Empty, used before where there is such.
    pub(super) fn take() -> Box<Memory> {
        SPARE.try_with(Cell::take).ok().flatten().unwrap_or_default()
    }

    /// Becomes what another one is in the middle of a run.
    pub(super) fn copy_from(&mut self, other: &Memory) {
        self.frames.clone_from(&other.frames);
        self.lineage.copy_from(&other.lineage);
        self.text.clone_from(&other.text);
    }

    /// Keeps it for the next run.
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
        // The thread may be ending; then the memory is simply freed.
        let _gone = SPARE.try_with(|spare| spare.set(Some(self)));
    }
}
