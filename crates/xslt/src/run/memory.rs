//! The machine's stacks and lists, used again by the next run of the same thread: a message's transformation allocates little
//! but its result.

use std::cell::RefCell;

use xpath::{Node, Value};

use super::State;
use super::dispatch::Lists;
use super::frames::Frame;
use crate::out::Composer;

/// More memory than this is given back between runs.
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
    /// Nodes of all loops, the innermost one's last.
    pub(super) nodes: Vec<Node>,
    /// No results: a place for them.
    pub(super) out: Vec<Composer>,
}

impl Memory {
    /// Empty, used before where there is such.
    pub(super) fn take() -> Box<Memory> {
        SPARE.try_with(|spare| spare.borrow_mut().take()).ok().flatten().unwrap_or_default()
    }

    /// Keeps it for the next run.
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
            // The thread may be ending; then the memory is simply freed.
            let _gone = SPARE.try_with(|spare| *spare.borrow_mut() = Some(self));
        }
    }
}
