//! Positions of the nodes of a parsed document.

use std::sync::OnceLock;

use crate::Position;
use crate::decode::{Encoding, Sniffed, sniff};
use crate::tree::NodeId;

#[derive(Debug)]
pub(crate) enum Positions {
    /// The tree was built, not parsed. The memory is spare, for a source.
    None(Vec<u8>),
    /// The source is UTF-8: its lines are counted on demand.
    Source(Source),
    /// Line and column of each node.
    Nodes(Vec<(u32, u32)>),
}

/// A copy of the source. The copy costs less than counting lines that mostly nobody asks for.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    pub(crate) bytes: Vec<u8>,
    /// Its markup may be copied: the tree is the whole of it, and no document type gives it another meaning.
    pub(crate) copies: bool,
    /// Offsets at which its lines begin.
    lines: OnceLock<Vec<u32>>,
}

/// The byte order mark of UTF-8, which is not a character of the document.
const MARK: &[u8] = b"\xEF\xBB\xBF";

impl Positions {
    /// Copies the source for positions. False if positions cannot be computed from it.
    pub(crate) fn take_down(&mut self, source: &[u8]) -> bool {
        if u32::try_from(source.len()).is_err() || !is_utf8(source) {
            return false;
        }
        let mut bytes = self.take_memory();
        bytes.extend_from_slice(source);
        *self = Positions::Source(Source { bytes, copies: false, lines: OnceLock::new() });
        true
    }

    /// Takes the memory for a source.
    pub(crate) fn take_memory(&mut self) -> Vec<u8> {
        match self {
            Positions::None(bytes) => std::mem::take(bytes),
            Positions::Source(source) => std::mem::take(&mut source.bytes),
            Positions::Nodes(_) => Vec::new(),
        }
    }

    pub(crate) fn get(&self, node: NodeId, offset: u32) -> Position {
        let (line, column) = match self {
            Positions::None(_) => return Position::default(),
            Positions::Source(source) => source.place(offset),
            Positions::Nodes(nodes) => nodes.get(node.0 as usize).copied().unwrap_or_default(),
        };
        Position { line, column, offset: u64::from(offset) }
    }
}

/// Returns whether the source is UTF-8. All ASCII is, except UTF-16 in ASCII bytes, which has a zero or a mark in front.
fn is_utf8(source: &[u8]) -> bool {
    let zero = source.iter().take(4).any(|byte| *byte == 0);
    match source.is_ascii() && !zero {
        true => true,
        false => matches!(sniff(source, true), Sniffed::Found(Encoding::Utf8, _)),
    }
}

impl Source {
    /// The same for a tree that has not all of it.
    pub(crate) fn without_copies(&self) -> Source {
        Source { copies: false, ..self.clone() }
    }

    fn place(&self, offset: u32) -> (u32, u32) {
        let lines = self.lines.get_or_init(|| self.count());
        let line = lines.partition_point(|start| *start <= offset).max(1);
        let start = lines.get(line - 1).copied().unwrap_or(0);
        let before = self.bytes.get(start as usize..offset as usize).unwrap_or_default();
        let characters = before.iter().filter(|byte| **byte & 0xC0 != 0x80).count();
        let number = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        (number(line), number(characters + 1))
    }

    /// Returns the offsets of the lines. A line ends with a line feed, a carriage return, or both.
    fn count(&self) -> Vec<u32> {
        let first = if self.bytes.starts_with(MARK) { MARK.len() } else { 0 };
        let ends = memchr::memchr2_iter(b'\n', b'\r', &self.bytes);
        let alone = ends.filter(|at| {
            self.bytes.get(*at) == Some(&b'\n') || self.bytes.get(at + 1) != Some(&b'\n')
        });
        let starts = std::iter::once(first).chain(alone.map(|at| at + 1));
        starts.map(|at| u32::try_from(at).unwrap_or(u32::MAX)).collect()
    }
}
