//! Detection of duplicate names in an object. Two readers could use different values of such a member (RFC 8259, 4).

use std::borrow::Cow;
use std::collections::HashSet;

use crate::{Kind, TapeEntry, unescaped};

/// Objects with at most this many members have their names compared pairwise. A hash table would cost more.
const COMPARED_MAX: u32 = 8;

/// A duplicate name in an object, by tape entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DuplicateName {
    pub object: u32,
    /// The second occurrence of the name.
    pub name: u32,
}

/// Returns the first object in which two members have the same name, or `None`.
pub fn duplicate_name(text: &str, tape: &[TapeEntry]) -> Option<DuplicateName> {
    let objects = tape.iter().zip(0..).filter(|(entry, _)| entry.kind == Kind::Object);
    let mut several = objects.filter(|(entry, _)| entry.count > 1);
    several.find_map(|(entry, object)| {
        let name = second(text, tape, object, entry.count)?;
        Some(DuplicateName { object, name })
    })
}

/// Returns the second occurrence of a duplicate name.
fn second(text: &str, tape: &[TapeEntry], object: u32, count: u32) -> Option<u32> {
    if count > COMPARED_MAX {
        let mut known = HashSet::with_capacity(count as usize);
        return names(tape, object, count).find(|name| !known.insert(string(text, tape, *name)));
    }
    // Only names with equal marks are compared.
    let mut marks = 0_u64;
    let mut all = names(tape, object, count).zip(0..);
    let found = all.find(|(name, before)| {
        let name = string(text, tape, *name);
        let first = name.bytes().next().map_or(0, usize::from);
        let mark = 1_u64 << ((first + 7 * name.len()) % 64);
        let may_be_known = marks & mark != 0;
        marks |= mark;
        may_be_known && names(tape, object, *before).any(|other| string(text, tape, other) == name)
    });
    found.map(|(name, _)| name)
}

/// Returns the entries of the first `count` names of an object.
fn names(tape: &[TapeEntry], object: u32, count: u32) -> impl Iterator<Item = u32> {
    let mut at = object + 1;
    (0..count).map(move |_| {
        let name = at;
        at = tape.get(at as usize + 1).map_or(at, |value| value.next);
        name
    })
}

fn string<'t>(text: &'t str, tape: &[TapeEntry], at: u32) -> Cow<'t, str> {
    let Some(entry) = tape.get(at as usize) else { return Cow::Borrowed("") };
    let inner = text.get(entry.from as usize..entry.to as usize).unwrap_or_default();
    if entry.kind == Kind::Escaped { Cow::Owned(unescaped(inner)) } else { Cow::Borrowed(inner) }
}
