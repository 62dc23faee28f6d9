//! Per-thread pool of memory for streaming runs, so that a transformation allocates little besides its result.

use std::cell::Cell;

use xml::TagSlot;

use super::around::Lineage;
use super::frame::Frame;

/// Maximum amount of memory kept between runs.
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: Cell<Option<Box<Memory>>> = const { Cell::new(None) };
}

/// A start tag that was seen before: the index of its name among the names that have rules in a mode.
#[derive(Debug, Clone, Copy, Default)]
struct MetTag {
    mode: u32,
    place: Option<u32>,
}

// A slot has a bit in a mask.
const _: () = assert!(TagSlot::COUNT <= u64::BITS as usize);

/// Tags seen before, by slot.
#[derive(Debug)]
pub(super) struct MetTags {
    tags: [MetTag; TagSlot::COUNT],
    /// Bit set of the slots whose tags are known.
    known: u64,
}

impl Default for MetTags {
    fn default() -> MetTags {
        MetTags { tags: [MetTag::default(); TagSlot::COUNT], known: 0 }
    }
}

impl MetTags {
    /// Forgets all tags.
    fn clear(&mut self) {
        self.known = 0;
    }

    /// If a new tag takes over a slot, forgets the tag that had it.
    #[inline]
    pub(super) fn note(&mut self, slot: TagSlot) {
        if let TagSlot::New(at) = slot {
            self.known &= !bit(at);
        }
    }

    /// Returns the index of a tag's name in a mode. Calls `find` to look it up if it is not known.
    #[inline]
    pub(super) fn place(
        &mut self,
        slot: TagSlot,
        mode: u32,
        find: impl FnOnce() -> Option<usize>,
    ) -> Option<usize> {
        let (TagSlot::New(at) | TagSlot::Known(at)) = slot else { return find() };
        let Some(met) = self.tags.get_mut(at) else { return find() };
        if self.known & bit(at) == 0 || met.mode != mode {
            // Harmless: there are fewer names than a `u32` can count.
            let place = find().and_then(|place| u32::try_from(place).ok());
            *met = MetTag { mode, place };
            self.known |= bit(at);
        }
        met.place.map(|place| place as usize)
    }
}

#[inline]
fn bit(at: usize) -> u64 {
    1 << (at & 63)
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    /// Frames of the document and the open elements whose content is processed, inner ones last.
    pub(super) frames: Vec<Frame>,
    pub(super) lineage: Lineage,
    /// A text of the source that is not complete yet.
    pub(super) text: String,
    /// Buffers for computed text and for computed names.
    pub(super) said: String,
    pub(super) name: String,
    pub(super) met: MetTags,
}

impl Memory {
    /// Takes empty memory, from the pool if possible.
    pub(super) fn take() -> Box<Memory> {
        // Harmless: a thread that is ending has no pool, so new memory is allocated.
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
        self.met.clear();
        // Harmless: if the thread is ending, the memory is simply freed.
        let _ = SPARE.try_with(|spare| spare.set(Some(self)));
    }
}
