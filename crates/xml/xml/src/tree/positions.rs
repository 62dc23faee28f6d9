//! Positions of the nodes of a parsed document.

use std::sync::OnceLock;

use crate::Position;
use crate::decode::{Encoding, EncodingGuess, sniff};
use crate::tree::NodeId;

#[derive(Debug)]
pub(crate) enum Positions {
    /// The tree was built, not parsed.
    None,
    /// The source is UTF-8, so lines are counted on demand.
    Source(Source),
    /// The source is in another encoding: line and column of each node.
    Nodes(Vec<(u32, u32)>),
}

/// The source, which is the beginning of the document's text. Values refer to it, and its lines are counted on demand.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) len: usize,
    /// Whether markup may be copied from it: the tree is complete, and no document type changes the meaning of markup.
    pub(crate) copies: bool,
    /// Offsets at which lines begin.
    lines: OnceLock<Vec<u32>>,
}

/// The byte order mark of UTF-8, which is not part of the document's characters.
const MARK: &[u8] = b"\xEF\xBB\xBF";

impl Positions {
    /// Returns the position of a node. `text` is the text of its document.
    pub(crate) fn get(&self, node: NodeId, offset: u32, text: &str) -> Position {
        let (line, column) = match self {
            Positions::None => return Position::default(),
            Positions::Source(source) => source.place(offset, text),
            // Harmless: a node that was not parsed has no position.
            Positions::Nodes(nodes) => nodes.get(node.0 as usize).copied().unwrap_or_default(),
        };
        Position { line, column, offset: u64::from(offset) }
    }
}

/// Returns the text of a source from which positions can be computed: UTF-8, with offsets that fit 32 bits.
pub(crate) fn plain(source: &[u8]) -> Option<&str> {
    let fits = u32::try_from(source.len()).is_ok() && is_utf8(source);
    // Harmless: positions in a source that is not UTF-8 are recorded during the parse.
    fits.then(|| std::str::from_utf8(source).ok())?
}

/// Returns whether the source is UTF-8. ASCII is, unless it is UTF-16 with only ASCII bytes, which has a zero byte near the start.
fn is_utf8(source: &[u8]) -> bool {
    // Harmless: UTF-16 is recognisable from its first four bytes.
    let zero = source.iter().take(4).any(|byte| *byte == 0);
    if source.is_ascii() && !zero {
        true
    } else {
        matches!(sniff(source, true), EncodingGuess::Found(Encoding::Utf8, _))
    }
}

impl Source {
    pub(crate) fn new(len: usize) -> Source {
        Source { len, copies: false, lines: OnceLock::new() }
    }

    /// Returns the same positions for a tree from which nodes were removed.
    pub(crate) fn without_copies(&self) -> Source {
        Source { copies: false, ..self.clone() }
    }

    fn place(&self, offset: u32, text: &str) -> (u32, u32) {
        let bytes = text.as_bytes().get(..self.len).unwrap_or_default();
        let lines = self.lines.get_or_init(|| lines(bytes));
        let line = lines.partition_point(|start| *start <= offset).max(1);
        let start = lines.get(line - 1).copied().unwrap_or(0);
        let before = bytes.get(start as usize..offset as usize).unwrap_or_default();
        let characters = before.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        (number(line), number(characters + 1))
    }
}

/// Returns the offsets at which lines begin. A line ends with a line feed, a carriage return, or both.
fn lines(bytes: &[u8]) -> Vec<u32> {
    let first = if bytes.starts_with(MARK) { MARK.len() } else { 0 };
    let ends = memchr::memchr2_iter(b'\n', b'\r', bytes);
    let alone =
        ends.filter(|at| bytes.get(*at) == Some(&b'\n') || bytes.get(at + 1) != Some(&b'\n'));
    let starts = std::iter::once(first).chain(alone.map(|at| at + 1));
    starts.map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect()
}
