//! Where nodes of a parsed document are.

use crate::Position;
use crate::tree::NodeId;

#[derive(Debug)]
pub(crate) enum Positions {
    /// The tree was built.
    None,
    /// The source is ASCII with line feeds: where its lines begin is enough.
    Lines(Vec<u32>),
    /// Line and column of each node.
    Nodes(Vec<(u32, u32)>),
}

impl Positions {
    /// By the lines of the source, if that is enough.
    pub(crate) fn of(source: &[u8]) -> Option<Positions> {
        let fits = u32::try_from(source.len()).is_ok();
        if !fits || !source.is_ascii() || memchr::memchr2(b'\r', 0, source).is_some() {
            return None;
        }
        let starts =
            memchr::memchr_iter(b'\n', source).map(|at| u32::try_from(at + 1).unwrap_or(u32::MAX));
        Some(Positions::Lines(std::iter::once(0).chain(starts).collect()))
    }

    pub(crate) fn get(&self, node: NodeId, offset: u32) -> Position {
        match self {
            Positions::None => Position::default(),
            Positions::Lines(starts) => {
                let line = starts.partition_point(|start| *start <= offset);
                let start = line.checked_sub(1).and_then(|at| starts.get(at)).copied().unwrap_or(0);
                let line = u32::try_from(line).unwrap_or(u32::MAX);
                Position { line, column: offset - start + 1, offset: u64::from(offset) }
            }
            Positions::Nodes(nodes) => {
                let (line, column) = nodes.get(node.0 as usize).copied().unwrap_or_default();
                Position { line, column, offset: u64::from(offset) }
            }
        }
    }
}
