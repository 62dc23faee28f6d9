//! The rows of nodes: which nodes exist, and which one owns each partition.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use crate::nodes::PARTITIONS;
use crate::{Answer, Change, Expect, Row, Rows, Scan, Store};

/// The table of the rows. The key of a node names its slot, and the key of a partition its number.
pub(crate) const TABLE: &str = "nodes";

/// The maximum number of nodes of a store. Each node needs the lease of one of these slots.
pub(crate) const SLOTS: u8 = 64;

/// A node: its slot and the token of its lease. A later owner of the slot has another token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Holder {
    pub(crate) slot: u8,
    pub(crate) token: u64,
}

/// A row as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NodeRow {
    pub(crate) token: u64,
    pub(crate) name: String,
    pub(crate) version: u64,
}

/// All rows at one time.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Roll {
    pub(crate) nodes: BTreeMap<u8, NodeRow>,
    /// The owner of each partition, with the version of its row.
    pub(crate) partitions: BTreeMap<usize, (Holder, u64)>,
}

/// Returns the name of the lease of a slot.
pub(crate) fn lease(slot: u8) -> String {
    format!("node/{slot:02}")
}

pub(crate) fn scan(store: &dyn Store) -> Answer<Rows> {
    let rows_max = usize::from(SLOTS) + PARTITIONS;
    store.scan(TABLE, Scan { rows_max, ..Scan::default() })
}

impl Roll {
    pub(crate) fn of(rows: &[Row]) -> Roll {
        let mut roll = Roll::default();
        for row in rows {
            let (Ok(key), Ok(value)) =
                (std::str::from_utf8(&row.key), std::str::from_utf8(&row.value))
            else {
                continue;
            };
            let mut words = value.splitn(3, ' ');
            // Harmless: an invalid number is skipped with its row.
            let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
            // A row in an unknown form is skipped, so its slot or partition counts as free.
            let (Some(slot), Some(token)) = (number(), number()) else { continue };
            let Ok(slot) = u8::try_from(slot) else { continue };
            let version = row.version;
            match key.split_once('/') {
                Some(("node", _)) => {
                    let name = words.next().unwrap_or("").to_owned();
                    roll.nodes.insert(slot, NodeRow { token, name, version });
                }
                Some(("partition", number)) => {
                    // Harmless: any other number is not a partition.
                    if let Ok(partition @ ..PARTITIONS) = number.parse::<usize>() {
                        roll.partitions.insert(partition, (Holder { slot, token }, version));
                    }
                }
                Some(_) | None => {}
            }
        }
        roll
    }

    /// Returns true if a node exists.
    pub(crate) fn has(&self, holder: Holder) -> bool {
        self.nodes.get(&holder.slot).is_some_and(|entry| entry.token == holder.token)
    }

    /// Returns the partitions of a node.
    pub(crate) fn of_holder(&self, holder: Holder) -> impl Iterator<Item = usize> {
        let all = self.partitions.iter();
        all.filter(move |(_, (of, _))| *of == holder).map(|(partition, _)| *partition)
    }

    /// Returns the number of partitions for a node. All nodes get the same number. The first nodes get one more each until none is left.
    pub(crate) fn quota(&self, slot: u8) -> usize {
        let count = self.nodes.len().max(1);
        PARTITIONS / count + usize::from(self.rank(slot) < PARTITIONS % count)
    }

    /// Returns the rank of a node among all nodes, starting at 0.
    pub(crate) fn rank(&self, slot: u8) -> usize {
        self.nodes.keys().position(|known| *known == slot).unwrap_or(self.nodes.len())
    }

    /// Returns the changes that free the partitions of a slot.
    pub(crate) fn freed(&self, slot: u8) -> Vec<Change> {
        let all = self.partitions.iter();
        let stale = all.filter(|(_, (of, _))| of.slot == slot);
        stale.map(|(partition, (_, version))| free(*partition, *version)).collect()
    }
}

/// Returns the change that frees a partition, if its row still has this version.
pub(crate) fn free(partition: usize, version: u64) -> Change {
    change(format!("partition/{partition:02}"), None, Expect::Version(version))
}

/// Returns the change that takes a partition, if its row still has the version `known`, or if it still has no row.
pub(crate) fn claim(partition: usize, holder: Holder, known: Option<u64>) -> Change {
    let value = format!("{} {}", holder.slot, holder.token);
    let expect = known.map_or(Expect::Nothing, Expect::Version);
    change(format!("partition/{partition:02}"), Some(value), expect)
}

/// Returns the change that writes the row of a node.
pub(crate) fn enter(holder: Holder, name: &str) -> Change {
    let value = format!("{} {} {name}", holder.slot, holder.token);
    change(format!("node/{:02}", holder.slot), Some(value), Expect::Anything)
}

/// Returns the change that removes the row of a node, if it still has this version.
pub(crate) fn remove(slot: u8, version: u64) -> Change {
    change(format!("node/{slot:02}"), None, Expect::Version(version))
}

fn change(key: String, value: Option<String>, expect: Expect) -> Change {
    Change {
        table: Arc::from(TABLE),
        key: key.into_bytes(),
        value: value.map(|value| Bytes::from(value.into_bytes())),
        expect,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nodes of two versions share the rows, so what a release has written stays as it is.
    #[test]
    fn the_rows_of_each_release_are_read_and_written_alike() {
        let holder = Holder { slot: 3, token: 7 };
        // 0.1.0
        for (change, key, value) in [
            (enter(holder, "a name"), "node/03", "3 7 a name"),
            (claim(5, holder, None), "partition/05", "3 7"),
        ] {
            assert_eq!(change.key, key.as_bytes());
            assert_eq!(change.value.as_deref(), Some(value.as_bytes()));
        }
        let row = |key: &str, value: &str, version| {
            let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
            Row { key: bytes(key), value: bytes(value), version }
        };
        let roll = Roll::of(&[
            row("node/03", "3 7 a name", 1),
            row("partition/05", "3 7", 2),
            // Rows in other forms do not count: their slots and partitions are free.
            row("node/04", "x 7 b", 3),
            row("partition/99", "3 7", 4),
            row("partition/06", "3", 5),
        ]);
        let node = NodeRow { token: 7, name: "a name".to_owned(), version: 1 };
        assert_eq!(roll.nodes, BTreeMap::from([(3, node)]));
        assert_eq!(roll.partitions, BTreeMap::from([(5, (holder, 2))]));
        assert_eq!(lease(3), "node/03");
    }
}
