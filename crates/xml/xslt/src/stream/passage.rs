//! How far the current text of the source is, and the value that is being written.

use super::Leaf;

/// State of the current text node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Passage {
    None,
    /// The text is ignored.
    Ignored,
    /// The text is written as it arrives.
    Written {
        raw: bool,
    },
    /// Only white space so far. It is kept, and dropped if nothing else follows.
    Blank,
    /// The text is collected for its template, which has these acts.
    Kept(u32),
}

impl Passage {
    /// Returns the state for a template's action on a text.
    pub(super) fn of(leaf: Option<Leaf>) -> Passage {
        match leaf {
            Some(Leaf::Copy) => Passage::Written { raw: false },
            Some(Leaf::Acts(from)) => Passage::Kept(from),
            Some(Leaf::Nothing) | None => Passage::Ignored,
        }
    }
}

/// State of a value being written.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Value {
    /// Whether the node has been found.
    pub(super) found: bool,
    /// Whether some of its text has been written.
    pub(super) begun: bool,
}

impl Value {
    /// Returns true for the first of the nodes.
    pub(super) fn take(&mut self) -> bool {
        !std::mem::replace(&mut self.found, true)
    }
}
