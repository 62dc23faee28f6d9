//! The store of replies for all workers: a few shards, each with a lock of its own that is held to look up or to link,
//! never to copy a body. A store per worker would keep each reply as often as there are workers.
//!
//! An entry that was not asked for since the hand last passed goes first (the clock algorithm).

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use kit::clock::{self, Instant};
use kit::memory::Held;
use message::Headers;

use super::entry::CachedReply;
use super::flight::{Flight, FlightRole, Leader};

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
    /// The slots' numbers and keys, the next to be looked at in front. Those of slots that are gone stay until they are
    /// looked at or make up half of it, so that taking one out costs the same however many there are.
    queue: VecDeque<(u64, Arc<[u8]>)>,
    /// The next slot's number.
    next: u64,
    bytes: usize,
    /// These bytes, which have a bound of their own.
    held: Held,
    /// Replies that are asked for just now and others may wait for. No more than exchanges under way.
    flights: HashMap<Box<[u8]>, Arc<Flight>>,
    /// Hashes of keys whose replies were not kept lately, each in the place that its hash gives it.
    alone: Vec<Option<(u64, Instant)>>,
}

struct Slot {
    number: u64,
    /// The latest last.
    variants: Vec<Arc<CachedReply>>,
    used: bool,
}

/// Workers rarely meet in one of so many.
const SHARDS_MAX: usize = 16;

/// Variants of one URL. A reply that varies by what is different in every request should not push out all others.
const VARIANTS_MAX: usize = 16;

/// Keys a shard remembers whose replies were not kept, and for how long. Nobody waits for those; a minute is what one wait in
/// vain costs once.
const ALONE_MAX: usize = 1024;
const ALONE_FOR: Duration = Duration::from_secs(60);

/// Places of slots that are gone are not worth a walk below so many.
const QUEUE_SPARE: usize = 64;

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
        self.shard_of(self.hasher.hash_one(key))
    }

    fn shard_of(&self, hash: u64) -> Option<MutexGuard<'_, Shard>> {
        let shards = u64::try_from(self.shards.len()).unwrap_or(1);
        let at = usize::try_from(hash % shards).unwrap_or(0);
        self.shards.get(at).map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The variant that a request asks for: the latest of those that fit (RFC 9111, 4).
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

    /// Decides if a request that found nothing asks, or waits at most so long for one that does. One that does not lead lets
    /// nobody wait.
    pub(super) fn board(
        self: &Arc<Store>,
        key: &[u8],
        leads: bool,
        longest: Duration,
    ) -> FlightRole {
        let hash = self.hasher.hash_one(key);
        let Some(mut shard) = self.shard_of(hash) else { return FlightRole::Alone };
        if let Some(flight) = shard.flights.get(key).filter(|flight| !flight.is_stuck()) {
            return flight.follow();
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

    /// The reply is there, or does not come.
    pub(super) fn land(&self, key: &[u8], flight: &Arc<Flight>) {
        let Some(mut shard) = self.shard(key) else { return };
        if shard.flights.get(key).is_some_and(|known| Arc::ptr_eq(known, flight)) {
            shard.flights.remove(key);
        }
    }

    /// For a while nobody waits for a reply to this.
    pub(super) fn leave_alone(&self, key: &[u8]) {
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

/// The lower bits tell the shard.
fn alone_place(hash: u64) -> usize {
    (hash >> 32) as usize % ALONE_MAX
}

impl Shard {
    fn note_bytes(&mut self) {
        self.held.set(self.bytes);
    }

    fn count(&self) -> usize {
        // Variants are bounded, so that keys stand for entries.
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

    /// Forgets the places of slots that are gone once there are more of them than of others.
    fn tidy(&mut self) {
        if self.queue.len() > 2 * self.slots.len() + QUEUE_SPARE {
            let slots = &self.slots;
            self.queue
                .retain(|(number, key)| slots.get(key).is_some_and(|slot| slot.number == *number));
        }
    }

    /// False if there is nothing left to give up.
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
    fn what_was_taken_out_and_came_back_is_given_up_in_its_new_turn() {
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
    fn places_of_what_is_gone_do_not_pile_up() {
        let mut shard = Shard::default();
        for _ in 0..10_000 {
            slot(&mut shard, "a");
            shard.remove(b"a");
        }
        assert!(shard.queue.len() <= QUEUE_SPARE + 2, "{}", shard.queue.len());
    }
}
