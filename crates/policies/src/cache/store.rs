//! Where replies are kept, for all workers: a few shards, each with a lock of its own that is held to look up or to link,
//! never to copy a body. A store per worker would keep each reply as often as there are workers.
//!
//! What was not asked for since the hand last passed goes first (the clock algorithm).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use message::Headers;

use super::entry::Entry;

/// Kept replies.
pub struct Store {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    bytes_max: usize,
    entries_max: usize,
}

#[derive(Default)]
struct Shard {
    slots: HashMap<Arc<[u8]>, Slot>,
    /// Every key once, the next to be looked at in front.
    queue: VecDeque<Arc<[u8]>>,
    bytes: usize,
}

struct Slot {
    variants: Vec<Arc<Entry>>,
    used: bool,
}

/// Workers rarely meet in one of so many.
const SHARDS_MAX: usize = 16;

/// Variants of one URL. A reply that varies by what is different in every request should not push out all others.
const VARIANTS_MAX: usize = 16;

impl Store {
    /// A store for so many bytes and entries in all. A shard has room for a few of the largest.
    pub fn new(bytes_max: usize, entry_bytes_max: usize, entries_max: usize) -> Store {
        let shards = (bytes_max / entry_bytes_max.max(1) / 4).clamp(1, SHARDS_MAX);
        Store {
            hasher: RandomState::new(),
            bytes_max: bytes_max / shards,
            entries_max: entries_max.div_ceil(shards),
            shards: (0..shards).map(|_| Mutex::default()).collect(),
        }
    }

    fn shard(&self, key: &[u8]) -> Option<MutexGuard<'_, Shard>> {
        let shards = u64::try_from(self.shards.len()).unwrap_or(1);
        let at = usize::try_from(self.hasher.hash_one(key) % shards).unwrap_or_default();
        self.shards.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The variant that a request asks for.
    pub(super) fn find(&self, key: &[u8], request: &Headers) -> Option<Arc<Entry>> {
        let mut shard = self.shard(key)?;
        let slot = shard.slots.get_mut(key)?;
        slot.used = true;
        slot.variants.iter().find(|entry| entry.fits(request)).cloned()
    }

    pub(super) fn remove(&self, key: &[u8]) {
        if let Some(mut shard) = self.shard(key) {
            shard.remove(key);
        }
    }

    pub(super) fn insert(&self, key: &[u8], entry: Arc<Entry>) {
        let Some(mut shard) = self.shard(key) else { return };
        shard.insert(key, entry);
        while shard.bytes > self.bytes_max || shard.count() > self.entries_max {
            if !shard.evict() {
                return;
            }
        }
    }
}

impl Shard {
    fn count(&self) -> usize {
        // Variants are bounded, so that keys stand for entries.
        self.slots.len()
    }

    fn insert(&mut self, key: &[u8], entry: Arc<Entry>) {
        self.bytes += entry.bytes();
        let Some(slot) = self.slots.get_mut(key) else {
            let key: Arc<[u8]> = key.into();
            self.bytes += 2 * key.len();
            self.queue.push_back(key.clone());
            self.slots.insert(key, Slot { variants: vec![entry], used: false });
            return;
        };
        let mut gone = 0;
        slot.variants.retain(|known| {
            let replaced = entry.replaces(known);
            gone += if replaced { known.bytes() } else { 0 };
            !replaced
        });
        if slot.variants.len() >= VARIANTS_MAX {
            gone += slot.variants.remove(0).bytes();
        }
        slot.variants.push(entry);
        self.bytes = self.bytes.saturating_sub(gone);
    }

    fn remove(&mut self, key: &[u8]) {
        let Some((key, slot)) = self.slots.remove_entry(key) else { return };
        let bytes: usize = slot.variants.iter().map(|entry| entry.bytes()).sum();
        self.bytes = self.bytes.saturating_sub(bytes + 2 * key.len());
        self.queue.retain(|known| *known != key);
    }

    /// False if there is nothing left to give up.
    fn evict(&mut self) -> bool {
        while let Some(key) = self.queue.pop_front() {
            match self.slots.get_mut(&key) {
                Some(slot) if slot.used => {
                    slot.used = false;
                    self.queue.push_back(key);
                }
                Some(_) => {
                    self.remove(&key);
                    return true;
                }
                None => {}
            }
        }
        false
    }
}
