//! What a worker remembers of texts it has judged before: tokens, keys, passwords. Bounded in number and in bytes; nothing is
//! shared between workers, so nothing is locked.

use std::collections::{HashMap, hash_map};
use std::hash::{BuildHasher, BuildHasherDefault, Hasher, RandomState};

/// How many bytes at the end of a text are hashed. A token ends in its signature, which nobody can choose; whoever sends
/// another token with the same end meets a comparison of the whole and replaces nothing but rubbish.
const HASHED_BYTES: usize = 48;

/// Verdicts by text. What is asked for stays, what is not makes way: when the young half is full it becomes the old half, and
/// what was in the old one is forgotten, a little with each newcomer: thousands of verdicts at once would make requests wait.
pub(crate) struct Memory<V> {
    young: Half<V>,
    old: Half<V>,
    leaving: hash_map::IntoIter<u64, Entry<V>>,
    /// Bounds of a half.
    entries_max: usize,
    bytes_max: usize,
    seed: RandomState,
}

struct Half<V> {
    entries: HashMap<u64, Entry<V>, BuildHasherDefault<Already>>,
    bytes: usize,
}

struct Entry<V> {
    owner: u64,
    text: Box<[u8]>,
    /// The memory it accounts for.
    bytes: usize,
    value: V,
}

impl<V> Default for Half<V> {
    fn default() -> Self {
        Half { entries: HashMap::default(), bytes: 0 }
    }
}

impl<V> Memory<V> {
    /// At most twice as many entries and bytes.
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> Memory<V> {
        let (young, old) = (Half::default(), Half::default());
        let leaving = HashMap::new().into_iter();
        Memory { young, old, leaving, entries_max, bytes_max, seed: RandomState::new() }
    }

    /// What is known of the text, to whoever `owner` is.
    pub(crate) fn get(&mut self, owner: u64, text: &[u8]) -> Option<&V> {
        if self.young.entries.is_empty() && self.old.entries.is_empty() {
            return None;
        }
        let at = self.hash(owner, text);
        if !self.young.has(at, owner, text) {
            if !self.old.has(at, owner, text) {
                return None;
            }
            let entry = self.old.remove(at)?;
            self.keep(at, entry);
        }
        self.young.entries.get(&at).map(|entry| &entry.value)
    }

    /// Remembers a verdict, whose value has about that many bytes.
    pub(crate) fn put(&mut self, owner: u64, text: &[u8], value: V, value_bytes: usize) {
        let at = self.hash(owner, text);
        self.old.remove(at);
        let bytes = text.len().saturating_add(value_bytes);
        self.keep(at, Entry { owner, text: text.into(), bytes, value });
    }

    /// Forgets a text.
    pub(crate) fn remove(&mut self, owner: u64, text: &[u8]) {
        let at = self.hash(owner, text);
        for half in [&mut self.young, &mut self.old] {
            if half.has(at, owner, text) {
                half.remove(at);
            }
        }
    }

    fn keep(&mut self, at: u64, entry: Entry<V>) {
        let full = self.young.entries.len() >= self.entries_max
            || self.young.bytes.saturating_add(entry.bytes) > self.bytes_max;
        if full {
            let next = Half::with_room(self.young.entries.len());
            let old = std::mem::replace(&mut self.old, std::mem::replace(&mut self.young, next));
            self.leaving = old.entries.into_iter();
        }
        self.forget(entry.bytes);
        self.young.remove(at);
        self.young.bytes += entry.bytes;
        self.young.entries.insert(at, entry);
    }

    /// Twice as much as comes in, so that those who leave and the young are never more than a half.
    fn forget(&mut self, bytes: usize) {
        let mut left = 0;
        for _ in 0..self.entries_max {
            let Some((_, entry)) = self.leaving.next() else { return };
            let before = left;
            left += entry.bytes;
            if before > 0 && left >= bytes.saturating_mul(2) {
                return;
            }
        }
    }

    fn hash(&self, owner: u64, text: &[u8]) -> u64 {
        let from = text.len().saturating_sub(HASHED_BYTES);
        self.seed.hash_one((owner, text.len(), text.get(from..)))
    }
}

impl<V> Half<V> {
    fn with_room(entries: usize) -> Half<V> {
        let entries = HashMap::with_capacity_and_hasher(entries, BuildHasherDefault::default());
        Half { entries, bytes: 0 }
    }

    fn has(&self, at: u64, owner: u64, text: &[u8]) -> bool {
        let entry = self.entries.get(&at);
        entry.is_some_and(|entry| entry.owner == owner && *entry.text == *text)
    }

    fn remove(&mut self, at: u64) -> Option<Entry<V>> {
        let entry = self.entries.remove(&at)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes);
        Some(entry)
    }
}

/// The keys are hashes already.
#[derive(Default)]
struct Already(u64);

impl Hasher for Already {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize) -> Vec<u8> {
        format!("{number:060}").into_bytes()
    }

    #[test]
    fn as_many_as_fit_into_a_half_are_never_forgotten() {
        let mut memory = Memory::new(1000, usize::MAX);
        for round in 0..5 {
            for number in 0..1000 {
                let known = memory.get(1, &text(number)).copied();
                assert_eq!(known, (round > 0).then_some(number), "round {round}");
                if known.is_none() {
                    memory.put(1, &text(number), number, 0);
                }
            }
        }
    }

    #[test]
    fn it_never_holds_more_than_its_bounds() {
        let mut memory = Memory::new(100, 10_000);
        for number in 0..10_000 {
            memory.put(1, &text(number), number, 40);
            assert!(memory.young.entries.len() + memory.old.entries.len() <= 200);
            assert!(memory.young.bytes + memory.old.bytes <= 20_000);
            // Whoever leaves is gone by the time the next may.
            assert!(memory.young.entries.len() + memory.leaving.len() <= 100);
        }
        assert_eq!(memory.get(1, &text(9_999)), Some(&9_999));
        assert_eq!(memory.get(1, &text(0)), None);
        memory.put(1, &text(1), 1, 1_000_000);
        memory.put(1, &text(2), 2, 0);
        assert!(memory.young.bytes <= 10_000);
    }

    #[test]
    fn owner_and_every_byte_count() {
        let mut memory = Memory::new(10, usize::MAX);
        let (mut a, mut b) = (vec![b'a'; 200], vec![b'a'; 200]);
        (a[0], b[0]) = (b'x', b'y');
        memory.put(1, &a, 1, 0);
        assert_eq!(memory.get(1, &b), None, "the same end and another beginning");
        assert_eq!(memory.get(2, &a), None);
        assert_eq!(memory.get(1, &a), Some(&1));
        memory.remove(1, &b);
        assert_eq!(memory.get(1, &a), Some(&1));
        memory.remove(1, &a);
        assert_eq!(memory.get(1, &a), None);
    }
}
