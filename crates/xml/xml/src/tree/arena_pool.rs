//! Per-thread pool of arenas, so that the tree of a message needs no allocation, and most of its names are already interned.

use std::cell::RefCell;
use std::mem;

use crate::tree::names::Names;
use crate::tree::{Declaration, Document, Node};

/// Larger arenas are freed, so that one huge message does not hold memory permanently. The tree of a message with small elements takes
/// about five times the bytes of the message.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// Maximum number of arenas kept. A transformation uses a source and one or two fragments at a time.
const KEPT_MAX: usize = 3;

thread_local! {
    static SPARE: RefCell<Vec<Arena>> = const { RefCell::new(Vec::new()) };
}

/// The memory of a tree.
pub(crate) struct Arena {
    pub(crate) nodes: Vec<Node>,
    pub(crate) text: String,
    pub(crate) names: Names,
    pub(crate) declarations: Vec<Declaration>,
}

impl Arena {
    /// Returns an arena without nodes, from the pool if possible.
    pub(crate) fn take() -> Arena {
        // Harmless: a thread that is ending has no spare arena, so a new one is allocated.
        let spare = SPARE.try_with(|spare| spare.borrow_mut().pop()).ok().flatten();
        spare.unwrap_or_else(|| Arena {
            nodes: Vec::new(),
            text: String::new(),
            names: Names::new(),
            declarations: Vec::new(),
        })
    }

    /// Returns the memory of a document to the pool.
    pub(crate) fn give(document: &mut Document) {
        let Document { nodes, text, names, declarations, .. } = document;
        let bytes = nodes.capacity() * size_of::<Node>()
            + text.capacity()
            + declarations.capacity() * size_of::<Declaration>();
        if bytes > KEPT_BYTES_MAX || !names.are_few() {
            return;
        }
        nodes.clear();
        text.clear();
        declarations.clear();
        // Harmless: if the thread is ending, the memory is simply freed.
        let _ = SPARE.try_with(|spare| {
            let mut spare = spare.borrow_mut();
            if spare.len() < KEPT_MAX {
                spare.push(Arena {
                    nodes: mem::take(nodes),
                    text: mem::take(text),
                    names: mem::take(names),
                    declarations: mem::take(declarations),
                });
            }
        });
    }
}
