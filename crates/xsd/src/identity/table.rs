//! Tables of key sequences, and how those of several elements become one.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, Hash, Hasher, RandomState};
use std::sync::Arc;

use super::Constraint;
use crate::datatype::Value;

/// The key sequences met, with how many nodes have them.
pub(super) type Table = HashMap<Sequence, u32, BuildHasherDefault<Hashed>>;

/// A key sequence, hashed once for all the tables it is looked up in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Sequence {
    hash: u64,
    values: Arc<[Value]>,
}

/// Gives a hash that is known.
#[derive(Debug, Default)]
pub(super) struct Hashed(u64);

impl Sequence {
    pub(super) fn new(values: Vec<Value>, hasher: &RandomState) -> Sequence {
        Sequence { hash: hasher.hash_one(&*values), values: values.into() }
    }

    /// As a person reads it.
    pub(super) fn show(&self) -> String {
        let values: Vec<String> = self.values.iter().map(Value::to_string).collect();
        format!("({})", values.join(", "))
    }
}

impl Hash for Sequence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Hasher for Hashed {
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

/// An element's own sequences win over those from inside. Gives how many became one.
pub(super) fn merge_own(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
) -> usize {
    merge_by(into, constraint, table, Extend::extend)
}

/// Joins what several elements hand outwards: what more than one of them has is nobody's. Gives how many became one.
pub(super) fn merge(
    into: &mut Vec<(Arc<Constraint>, Table)>,
    constraint: Arc<Constraint>,
    table: Table,
) -> usize {
    merge_by(into, constraint, table, |known, mut table| {
        // The smaller goes into the larger, so that a table is not gone through once for each element around it.
        if known.len() < table.len() {
            std::mem::swap(known, &mut table);
        }
        for (sequence, count) in table {
            let sum = known.entry(sequence).or_insert(0);
            *sum = sum.saturating_add(count);
        }
    })
}

/// Adds a table to the one of its constraint, if there is one, by `join`. Gives how many sequences became one.
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
