//! Caches a worker's verdicts on texts such as tokens, keys and passwords. The number of entries and their bytes are limited. Workers do
//! not share a cache, so it does not need a lock.

use std::collections::HashMap;
use std::hash::{BuildHasher, BuildHasherDefault, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;

use crate::hash::HashedKey;

/// The number of bytes at the end of a text that are hashed. A token ends in its signature, which a client cannot choose. A token with the
/// same end has the same hash, but the whole text is compared, so it does not get the other's verdict.
const HASHED_BYTES: usize = 48;

/// The maximum number of used entries that the search for a slot skips. A longer search would delay the request.
const SPARED_MAX: usize = 256;

/// Verdicts by text, in slots that are replaced by the CLOCK algorithm: an entry that was not used since the hand last passed it is
/// evicted. A slot keeps the allocation of its text for the next one, so that entries that come and go do not need new pages.
pub(crate) struct VerdictCache<V> {
    /// The index of the slot of a text, by its hash.
    places: HashMap<u64, usize, BuildHasherDefault<HashedKey>>,
    slots: Vec<Slot<V>>,
    /// The index of the next slot to examine.
    hand: usize,
    bytes: usize,
    entries_max: usize,
    bytes_max: usize,
    seed: SeedableRandomState,
}

/// Returns a unique number for a policy in this process, so that a policy never uses the verdicts of another.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The seed of the hash function, which is fast but not cryptographic. Texts with the same hash replace each other, so an attacker who knew
/// the seeds could only evict entries.
static SEED: LazyLock<SharedSeed> = LazyLock::new(|| SharedSeed::from_u64(random()));

fn random() -> u64 {
    RandomState::new().hash_one(0u8)
}

struct Slot<V> {
    hash: u64,
    owner: u64,
    text: Vec<u8>,
    value: Option<V>,
    /// Whether the entry was used since the hand last passed it.
    wanted: bool,
    /// The number of bytes of the entry, as counted in `VerdictCache::bytes`.
    bytes: usize,
}

impl<V> VerdictCache<V> {
    /// Creates a cache with these maximum numbers of entries and bytes.
    pub(crate) fn new(entries_max: usize, bytes_max: usize) -> VerdictCache<V> {
        let (places, slots) = (HashMap::default(), Vec::new());
        let seed = SeedableRandomState::with_seed(random(), &SEED);
        VerdictCache { places, slots, hand: 0, bytes: 0, entries_max, bytes_max, seed }
    }

    /// Returns the verdict of `owner` on the text.
    pub(crate) fn get(&mut self, owner: u64, text: &[u8]) -> Option<&V> {
        if self.places.is_empty() {
            return None;
        }
        let place = self.places.get(&self.hash(owner, text))?;
        let slot = self.slots.get_mut(*place).filter(|slot| slot.is_of(owner, text))?;
        slot.wanted = true;
        slot.value.as_ref()
    }

    /// Stores a verdict, whose value has about `value_bytes` bytes.
    pub(crate) fn put(&mut self, owner: u64, text: &[u8], value: V, value_bytes: usize) {
        let hash = self.hash(owner, text);
        if let Some(place) = self.places.get(&hash).copied() {
            self.vacate(place);
        }
        let bytes = text.len().saturating_add(value_bytes);
        let Some(place) = self.room(bytes) else { return };
        let Some(slot) = self.slots.get_mut(place) else { return };
        slot.put(text);
        (slot.hash, slot.owner, slot.bytes) = (hash, owner, bytes);
        (slot.value, slot.wanted) = (Some(value), false);
        self.bytes += bytes;
        self.places.insert(hash, place);
    }

    /// Removes a text.
    pub(crate) fn remove(&mut self, owner: u64, text: &[u8]) {
        let place = self.places.get(&self.hash(owner, text)).copied();
        let known = |place: &usize| self.slots.get(*place).is_some_and(|s| s.is_of(owner, text));
        if let Some(place) = place.filter(known) {
            self.vacate(place);
        }
    }

    /// Returns a free slot for this many bytes, or `None` if they exceed the limit of the cache.
    fn room(&mut self, bytes: usize) -> Option<usize> {
        let before = self.bytes_max.checked_sub(bytes)?;
        let mut free = None;
        while self.bytes > before {
            let next = self.vacate_next();
            if let Some(beside) = free.replace(next) {
                self.vacate(beside);
            }
        }
        if free.is_none() && self.slots.len() < self.entries_max {
            // Reserved once, so that growing never moves entries. Memory that is not used yet does not occupy pages.
            self.slots.reserve_exact(self.entries_max - self.slots.len());
            self.slots.push(Slot::free());
            return Some(self.slots.len() - 1);
        }
        Some(free.unwrap_or_else(|| self.vacate_next()))
    }

    /// Frees the next slot in turn.
    fn vacate_next(&mut self) -> usize {
        let mut place = self.hand;
        for _ in 0..SPARED_MAX {
            place = self.hand;
            self.hand = if place + 1 < self.slots.len() { place + 1 } else { 0 };
            let spared = self.slots.get_mut(place).map(|slot| std::mem::take(&mut slot.wanted));
            if spared != Some(true) {
                break;
            }
        }
        self.forget(place);
        place
    }

    /// Frees a slot, and the memory that it keeps for its next text.
    fn vacate(&mut self, place: usize) {
        self.forget(place);
        self.slots.get_mut(place).into_iter().for_each(|slot| slot.text = Vec::new());
    }

    /// Removes the entry of a slot. The slot keeps its memory.
    fn forget(&mut self, place: usize) {
        let Some(slot) = self.slots.get_mut(place) else { return };
        slot.wanted = false;
        if slot.value.take().is_some() {
            self.bytes = self.bytes.saturating_sub(slot.bytes);
            self.places.remove(&slot.hash);
        }
    }

    fn hash(&self, owner: u64, text: &[u8]) -> u64 {
        let from = text.len().saturating_sub(HASHED_BYTES);
        self.seed.hash_one((owner, text.len(), text.get(from..)))
    }
}

impl<V> Slot<V> {
    fn free() -> Slot<V> {
        Slot { hash: 0, owner: 0, text: Vec::new(), value: None, wanted: false, bytes: 0 }
    }

    fn is_of(&self, owner: u64, text: &[u8]) -> bool {
        self.owner == owner && self.text == text && self.value.is_some()
    }

    /// Copies a text. Reuses the memory of the previous text, unless that is more than a quarter too large.
    fn put(&mut self, text: &[u8]) {
        self.text.clear();
        if self.text.capacity() > text.len() + text.len() / 4 {
            self.text = Vec::new();
        }
        self.text.reserve_exact(text.len());
        self.text.extend_from_slice(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(number: usize) -> Vec<u8> {
        format!("{number:060}").into_bytes()
    }

    /// Checks that the bytes of the slots add up to those of the cache.
    fn check<V>(memory: &VerdictCache<V>) {
        let held = || memory.slots.iter().filter(|slot| slot.value.is_some());
        assert_eq!(held().count(), memory.places.len());
        assert_eq!(held().map(|slot| slot.bytes).sum::<usize>(), memory.bytes);
        assert!(memory.slots.len() <= memory.entries_max && memory.bytes <= memory.bytes_max);
        for (place, slot) in memory.slots.iter().enumerate() {
            match slot.value {
                Some(_) => assert_eq!(memory.places.get(&slot.hash), Some(&place)),
                None => assert_eq!(slot.text.capacity(), 0),
            }
            assert!(slot.text.capacity() <= slot.text.len() + slot.text.len() / 4);
        }
    }

    #[test]
    fn entries_that_fit_are_never_evicted() {
        let mut memory = VerdictCache::new(1000, usize::MAX);
        for round in 0..5 {
            for number in 0..1000 {
                let known = memory.get(1, &text(number)).copied();
                assert_eq!(known, (round > 0).then_some(number), "round {round}");
                if known.is_none() {
                    memory.put(1, &text(number), number, 0);
                }
            }
        }
        check(&memory);
    }

    #[test]
    fn used_entries_stay_while_others_are_evicted() {
        let mut memory = VerdictCache::new(1000, usize::MAX);
        for number in 0..100 {
            memory.put(1, &text(number), number, 0);
        }
        for number in 100..10_000 {
            assert_eq!(memory.get(1, &text(number % 100)), Some(&(number % 100)), "{number}");
            memory.put(1, &text(number), number, 0);
        }
        assert_eq!(memory.get(1, &text(8_000)), None);
        check(&memory);
    }

    #[test]
    fn a_new_entry_is_stored_even_if_all_others_are_in_use() {
        let mut memory = VerdictCache::new(2 * SPARED_MAX, usize::MAX);
        for number in 0..2 * SPARED_MAX {
            memory.put(1, &text(number), number, 0);
            assert_eq!(memory.get(1, &text(number)), Some(&number));
        }
        memory.put(1, b"new", 7, 0);
        assert_eq!(memory.get(1, b"new"), Some(&7));
        assert_eq!(memory.get(1, &text(SPARED_MAX - 1)), None);
        assert_eq!(memory.get(1, &text(SPARED_MAX)), Some(&SPARED_MAX));
        check(&memory);
    }

    #[test]
    fn it_never_holds_more_than_its_bounds() {
        let mut memory = VerdictCache::new(200, 20_000);
        for number in 0..10_000 {
            memory.put(1, &text(number), number, 40);
            check(&memory);
        }
        assert_eq!(memory.get(1, &text(9_999)), Some(&9_999));
        assert_eq!(memory.get(1, &text(0)), None);
        memory.put(1, &text(1), 1, 1_000_000);
        assert_eq!(memory.get(1, &text(1)), None, "larger than the whole cache");
        // Large entries evict many, and small entries take their places.
        for number in 0..500 {
            let large = [text(number), vec![b'x'; number * 37 % 5_000]].concat();
            memory.put(1, &large, number, 0);
            assert_eq!(memory.get(1, &large), Some(&number));
            memory.put(1, &text(number), number, 0);
            check(&memory);
        }
    }

    #[test]
    fn the_owner_and_every_byte_of_a_text_are_compared() {
        let mut memory = VerdictCache::new(10, usize::MAX);
        let (mut a, mut b) = (vec![b'a'; 200], vec![b'a'; 200]);
        (a[0], b[0]) = (b'x', b'y');
        memory.put(1, &a, 1, 0);
        assert_eq!(memory.get(1, &b), None, "the same end and another beginning");
        assert_eq!(memory.get(2, &a), None);
        assert_eq!(memory.get(1, &a), Some(&1));
        memory.remove(1, &b);
        assert_eq!(memory.get(1, &a), Some(&1));
        memory.put(1, &a, 2, 0);
        assert_eq!(memory.get(1, &a), Some(&2));
        memory.remove(1, &a);
        assert_eq!(memory.get(1, &a), None);
        check(&memory);
    }
}
