//! Tables of key sequences, and merging the tables of several elements.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

use super::Constraint;
use crate::datatype::Value;

/// Key sequences with the number of nodes that have them.
pub(super) type Table = HashMap<Sequence, u32, BuildHasherDefault<PrecomputedHash>>;

/// A key sequence, hashed once for all tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sequence {
    hash: u64,
    values: Arc<[Value]>,
}

/// Hasher that returns the precomputed hash.
#[derive(Debug, Default)]
pub(super) struct PrecomputedHash(u64);

impl Sequence {
    pub(super) fn new(values: Vec<Value>, hasher: &RandomState) -> Sequence {
        Sequence { hash: hasher.hash_one(&*values), values: values.into() }
    }

    /// Returns a readable form for messages.
    pub(super) fn show(&self) -> String {
        // Texts come in quotes.
        let quoted = |value: &Value| {
            if matches!(value, Value::Text { .. }) {
                value.to_string()
            } else {
                format!("'{value}'")
            }
        };
        let values: Vec<String> = self.values.iter().map(quoted).collect();
        format!("[{}]", values.join(", "))
    }
}

impl Hash for Sequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hasher for PrecomputedHash {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = bytes.iter().fold(self.0, |hash, byte| hash.rotate_left(8) ^ u64::from(*byte));
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Merges an element's own sequences, which take precedence over inherited ones. Returns the number of merged sequences.
pub(super) fn merge_own(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
) -> usize {
    merge_by(into, constraint, table, Extend::extend)
}

/// Merges the tables that several elements pass outwards. A sequence that occurs in several of them gets a count above 1, and references do
/// not find it. Returns the number of merged sequences.
pub(super) fn merge(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
) -> usize {
    merge_by(into, constraint, table, |known, mut table| {
        // The smaller table is merged into the larger one, so that a table is not traversed once for each enclosing element.
        if known.len() < table.len() {
            std::mem::swap(known, &mut table);
        }
        for (sequence, count) in table {
            let sum = known.entry(sequence).or_insert(0);
            *sum = sum.saturating_add(count);
        }
    })
}

/// Merges a table into that of its constraint, if there is one, with `join`. Returns the number of merged sequences.
fn merge_by(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
    join: impl FnOnce(&mut Table, Table),
) -> usize {
    match into.iter_mut().find(|(known, _)| Arc::ptr_eq(known, &constraint)) {
        None => {
            into.push((constraint, table));
            0
        }
        Some((_, known)) => {
            let before = known.len() + table.len();
            join(known, table);
            before - known.len()
        }
    }
}
