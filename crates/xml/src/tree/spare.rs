//! Memory of trees that are gone, for the next ones of the same thread: a message's tree costs no allocation of its own, and
//! its names mostly have their numbers already.

use std::cell::RefCell;

use crate::tree::names::Names;
use crate::tree::{Declaration, Node};

/// Larger ones are given back: one huge message must not stay for ever.
const KEPT_BYTES_MAX: usize = 512 << 10;

/// A transformation holds a source and a fragment or two at a time.
const KEPT_MAX: usize = 3;

thread_local! {
    static SPARE: RefCell<Vec<Arena>> = const { RefCell::new(Vec::new()) };
}

/// What a tree is made of.
pub(crate) struct Arena {
    pub(crate) nodes: Vec<Node>,
    pub(crate) text: String,
    pub(crate) names: Names,
    pub(crate) declarations: Vec<Declaration>,
    /// A copy of what is read.
    pub(crate) source: Vec<u8>,
}

impl Arena {
    /// One without nodes, used before where there is such.
    pub(crate) fn take() -> Arena {
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        spare.unwrap_or_else(|| Arena {
            nodes: Vec::new(),
            text: String::new(),
            names: Names::new(),
            declarations: Vec::new(),
            source: Vec::new(),
        })
    }

    /// Keeps it for the next tree.
    pub(crate) fn give(mut self) {
        let bytes = self.nodes.capacity() * size_of::<Node>()
            + self.text.capacity()
            + self.declarations.capacity() * size_of::<Declaration>()
            + self.source.capacity();
        if bytes > KEPT_BYTES_MAX || !self.names.are_few() {
            return;
        }
        self.nodes.clear();
        self.text.clear();
        self.declarations.clear();
        self.source.clear();
        // The thread may be ending; then the memory is simply freed.
        let _gone = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT_MAX {
                spare.push(self);
            }
        });
    }
}
