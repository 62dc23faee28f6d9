//! The store of replies, shared by all workers. It has a few shards. The lock of a shard is held for look-ups and for changes of its
//! entries, but never while a body is copied. With a store per worker, each reply would be stored several times.
//!
//! It also knows the replies in progress, and gives each request without a stored reply its role.
//!
//! Eviction follows the clock algorithm: an entry that was used since it was last checked is kept until the next check.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};
use kit::memory::Held;
use message::Headers;

use super::entry::CachedReply;
use super::flight::{Flight, Follower};

/// The stored replies.
pub struct Store {
    hasher: RandomState,
    shards: Box<[Mutex<Shard>]>,
    bytes_max: usize,
    entries_max: usize,
}

/// The role of a request without a stored reply.
pub(super) enum FlightRole {
    /// Forward it, and let others wait.
    Lead(Leader),
    /// Wait.
    Follow(Follower),
    /// Forward it, and let no others wait.
    Alone,
}

/// The request that is forwarded. The wait ends when this is dropped.
pub(super) struct Leader {
    store: Arc<Store>,
    key: Box<[u8]>,
    flight: Arc<Flight>,
}

#[derive(Default)]
struct Shard {
    slots: HashMap<Arc<[u8]>, Slot>,
    /// The slots' numbers and keys; the next one to check for eviction is first. Entries of removed slots stay until they are
    /// checked or make up half of the queue, so that removing a slot has a constant cost.
    queue: VecDeque<(u64, Arc<[u8]>)>,
    /// The number of the next slot.
    next: u64,
    bytes: usize,
    /// Excludes the bytes of this shard from the process's memory limit, since they have their own limit.
    held: Held,
    /// Replies in progress that other requests may wait for. There are at most as many as open exchanges.
    flights: HashMap<Box<[u8]>, Arc<Flight>>,
    /// Hashes of keys whose replies were recently not stored, with the time until which they are remembered. The index is derived from the
    /// hash.
    alone: Vec<Option<(u64, Instant)>>,
}

struct Slot {
    number: u64,
    /// The variants, the newest last.
    variants: Vec<Arc<CachedReply>>,
    used: bool,
}

/// With this many shards, two workers rarely need the same one.
const SHARDS_MAX: usize = 16;

/// The maximum number of variants of one URL. A reply that varies by a unique header must not evict all others.
const VARIANTS_MAX: usize = 16;

/// The number of keys that a shard remembers because their replies were not stored. Requests for them do not wait.
const ALONE_MAX: usize = 1024;

/// How long such a key is remembered. Within this time, requests wait in vain for its reply at most once.
const ALONE_FOR: Duration = Duration::from_secs(60);

/// The queue is cleaned up only when it has more than twice as many entries as there are slots, plus this number.
const QUEUE_SPARE: usize = 64;

impl Store {
    /// Creates a store with these limits on its total size. Each shard has room for several entries of the maximum size.
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
        self.shard_of(self.hasher.hash_one(key))
    }

    fn shard_of(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        let shards = u64::try_from(self.shards.len()).unwrap_or(1);
        let at = usize::try_from(hash % shards).unwrap_or(0);
        self.shards.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the variant that a request selects: the newest one that matches (RFC 9111, 4).
    pub(super) fn find(&self, key: &[u8], request: &Headers) -> Option<Arc<CachedReply>> {
        let mut shard = self.shard(key)?;
        let slot = shard.slots.get_mut(key)?;
        slot.used = true;
        slot.variants.iter().rev().find(|entry| entry.fits(request)).cloned()
    }

    pub(super) fn remove(&self, key: &[u8]) {
        if let Some(mut shard) = self.shard(key) {
            shard.remove(key);
            shard.note_bytes();
        }
    }

    /// Decides whether a request without a stored reply is forwarded, or waits for an equal request. Others wait for a forwarded request
    /// only if `leads` is true, and at most for `longest`.
    pub(super) fn board(
        self: &Arc<Store>,
        key: &[u8],
        leads: bool,
        longest: Duration,
    ) -> FlightRole {
        let hash = self.hasher.hash_one(key);
        let Some(mut shard) = self.shard_of(hash) else { return FlightRole::Alone };
        if let Some(flight) = shard.flights.get(key).filter(|flight| !flight.is_stuck()) {
            return flight.follow().map_or(FlightRole::Alone, FlightRole::Follow);
        }
        if !leads {
            return FlightRole::Alone;
        }
        let place = shard.alone.get(alone_place(hash)).and_then(|place| *place);
        if place.is_some_and(|(alone, until)| alone == hash && clock::now() < until) {
            return FlightRole::Alone;
        }
        let flight = Arc::new(Flight::new(longest));
        shard.flights.insert(key.into(), flight.clone());
        FlightRole::Lead(Leader { store: self.clone(), key: key.into(), flight })
    }

    /// Removes a flight whose reply was stored or will not be stored.
    fn land(&self, key: &[u8], flight: &Arc<Flight>) {
        let Some(mut shard) = self.shard(key) else { return };
        if shard.flights.get(key).is_some_and(|known| Arc::ptr_eq(known, flight)) {
            shard.flights.remove(key);
        }
    }

    /// Remembers this key for a while, so that no request waits for its reply.
    fn leave_alone(&self, key: &[u8]) {
        let hash = self.hasher.hash_one(key);
        let until = clock::now().checked_add(ALONE_FOR);
        let Some(mut shard) = self.shard_of(hash) else { return };
        if shard.alone.is_empty() {
            shard.alone.resize(ALONE_MAX, None);
        }
        if let Some(place) = shard.alone.get_mut(alone_place(hash)) {
            *place = until.map(|until| (hash, until));
        }
    }

    pub(super) fn insert(&self, key: &[u8], entry: Arc<CachedReply>) {
        let Some(mut shard) = self.shard(key) else { return };
        shard.insert(key, entry);
        while (shard.bytes > self.bytes_max || shard.count() > self.entries_max) && shard.evict() {}
        shard.note_bytes();
    }
}

impl Leader {
    /// Records that a piece of the reply has passed.
    pub(super) fn moved(&self) {
        self.flight.advance();
    }

    /// Ends the wait, because the reply is not stored. For a while, no equal request waits.
    pub(super) fn release(self) {
        self.store.leave_alone(&self.key);
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.store.land(&self.key, &self.flight);
        self.flight.land();
    }
}

/// Returns the index in [`Shard::alone`]. It uses the upper bits of the hash, since the lower bits select the shard.
fn alone_place(hash: u64) -> usize {
    (hash >> 32) as usize % ALONE_MAX
}

impl Shard {
    fn note_bytes(&mut self) {
        self.held.set(self.bytes);
    }

    fn count(&self) -> usize {
        // The number of variants is limited, so counting keys is enough.
        self.slots.len()
    }

    fn insert(&mut self, key: &[u8], entry: Arc<CachedReply>) {
        self.bytes += entry.bytes();
        let Some(slot) = self.slots.get_mut(key) else {
            let key: Arc<[u8]> = key.into();
            self.bytes += 2 * key.len();
            self.queue.push_back((self.next, key.clone()));
            let slot = Slot { number: self.next, variants: vec![entry], used: false };
            self.slots.insert(key, slot);
            self.next += 1;
            return self.tidy();
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
    }

    /// Removes the queue's entries of removed slots once there are more of them than of others.
    fn tidy(&mut self) {
        if self.queue.len() > 2 * self.slots.len() + QUEUE_SPARE {
            let slots = &self.slots;
            self.queue
                .retain(|(number, key)| slots.get(key).is_some_and(|slot| slot.number == *number));
        }
    }

    /// Removes the next slot that was not used since it was last checked. Returns false if no slot is left.
    fn evict(&mut self) -> bool {
        while let Some((number, key)) = self.queue.pop_front() {
            match self.slots.get_mut(&key).filter(|slot| slot.number == number) {
                Some(slot) if slot.used => {
                    slot.used = false;
                    self.queue.push_back((number, key));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(shard: &mut Shard, name: &str) {
        let key: Arc<[u8]> = name.as_bytes().into();
        shard.queue.push_back((shard.next, key.clone()));
        shard.slots.insert(key, Slot { number: shard.next, variants: Vec::new(), used: false });
        shard.next += 1;
        shard.tidy();
    }

    #[test]
    fn a_removed_and_reinserted_key_is_evicted_by_its_new_place() {
        let mut shard = Shard::default();
        ["a", "b", "c"].iter().for_each(|name| slot(&mut shard, name));
        shard.remove(b"a");
        slot(&mut shard, "a");
        shard.slots.get_mut(&b"b"[..]).unwrap().used = true;
        let mut order = Vec::new();
        while !shard.slots.is_empty() {
            let before: Vec<_> = shard.slots.keys().cloned().collect();
            assert!(shard.evict());
            order.extend(before.into_iter().filter(|key| !shard.slots.contains_key(key)));
        }
        let order: Vec<&[u8]> = order.iter().map(|key| &**key).collect();
        assert_eq!(order, [b"c", b"a", b"b"]);
        assert!(!shard.evict());
    }

    #[test]
    fn queue_entries_of_removed_slots_do_not_accumulate() {
        let mut shard = Shard::default();
        for _ in 0..10_000 {
            slot(&mut shard, "a");
            shard.remove(b"a");
        }
        assert!(shard.queue.len() <= QUEUE_SPARE + 2, "{}", shard.queue.len());
    }
}
