//! Per-thread pool of the machine's stacks and lists, so that a transformation allocates little besides its result.

use std::cell::RefCell;

use xpath::{Node, Value};

use super::State;
use super::dispatch::Lists;
use super::frames::Frame;
use crate::out::Composer;

/// Maximum amount of memory kept between runs.
const KEPT_BYTES_MAX: usize = 256 << 10;

thread_local! {
    static SPARE: RefCell<Option<Box<Memory>>> = const { RefCell::new(None) };
}

#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) locals: Vec<Value>,
    pub(super) params: Vec<(u32, Value)>,
    pub(super) frames: Vec<Frame>,
    pub(super) globals: Vec<State>,
    pub(super) lists: Lists,
    pub(super) text: String,
    /// Nodes of all loops, the innermost loop last.
    pub(super) nodes: Vec<Node>,
    /// An empty list, kept for its capacity.
    pub(super) out: Vec<Composer>,
}

impl Memory {
    /// Takes empty memory, from the pool if possible.
    pub(super) fn take() -> Box<Memory> {
        // Harmless: a thread that is ending has no pool, so new memory is allocated.
        SPARE.try_with(|spare| spare.borrow_mut().take()).ok().flatten().unwrap_or_default()
    }

    /// Returns the memory to the pool.
    pub(super) fn give(mut self: Box<Self>) {
        self.frames.clear();
        self.nodes.clear();
        self.locals.clear();
        self.params.clear();
        self.globals.clear();
        let bytes = self.locals.capacity() * size_of::<Value>()
            + self.params.capacity() * size_of::<(u32, Value)>()
            + self.frames.capacity() * size_of::<Frame>()
            + self.nodes.capacity() * size_of::<Node>()
            + self.globals.capacity() * size_of::<State>()
            + self.lists.capacity()
            + self.text.capacity();
        if bytes <= KEPT_BYTES_MAX {
            // Harmless: if the thread is ending, the memory is simply freed.
            let _ = SPARE.try_with(|spare| *spare.borrow_mut() = Some(self));
        }
    }
}
