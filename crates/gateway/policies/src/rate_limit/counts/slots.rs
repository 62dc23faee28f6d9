//! One shard of the counts: an open-addressing hash table in one allocation, which grows as needed.
//!
//! A slot whose counts have expired is free. If all slots for a key are in use and the table has its maximum size, the one with the
//! smallest debt is replaced. This way, invented keys displace each other, and keys near their limit stay.

use super::WINDOWS_MAX;
use crate::rate_limit::window::on_clock;

/// The number of consecutive slots that are probed for a key. With a half-full table, this fails once in many thousands of keys.
const PROBES: usize = 16;

/// The number of words of a slot before those of the windows: only the key. Therefore a slot of a local limit with one window takes a
/// quarter of a cache line, and never spans two.
const HEADER_WORDS: usize = 1;
/// The same number for shared counts, which need a second word, see [`Slots::write`].
const SHARED_HEADER_WORDS: usize = 2;

/// The maximum number of words for all windows of a key. A sliding window has two.
pub(crate) const NUMBERS_MAX: usize = 2 * WINDOWS_MAX;

/// The contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotEntry {
    pub(crate) key: u64,
    pub(crate) numbers: [u64; NUMBERS_MAX],
    /// The index of the plan whose windows these are.
    pub(crate) tier: u32,
    /// The number of requests not reported to other nodes yet.
    pub(crate) unreported: u32,
    /// Whether a request was refused since the last report. Such a key is reported, too, since requests at other nodes may have made its
    /// wait longer.
    pub(crate) refused: bool,
}

/// The slots of a shard.
pub(super) struct Slots {
    /// The words of all slots: for each, the header and the windows. The number of slots is a power of two.
    numbers: Vec<u64>,
    /// The number of words for all windows of a key.
    window_numbers: usize,
    /// Whether slots have the second header word, for shared counts.
    is_shared: bool,
    /// Whether windows are clock-aligned, so that times are those of the wall clock.
    on_clock: bool,
    slots_max: usize,
}

impl SlotEntry {
    pub(super) fn new(key: u64, tier: u32) -> SlotEntry {
        SlotEntry { key, numbers: [0; NUMBERS_MAX], tier, unreported: 0, refused: false }
    }
}

impl Slots {
    /// Creates a shard without slots. It grows to about `slots_max`.
    pub(super) fn new(
        slots_max: usize,
        window_numbers: usize,
        is_shared: bool,
        on_clock: bool,
    ) -> Slots {
        let slots_max = slots_max.next_power_of_two().max(PROBES);
        let window_numbers = window_numbers.clamp(1, NUMBERS_MAX);
        Slots { numbers: Vec::new(), window_numbers, is_shared, on_clock, slots_max }
    }

    /// Returns when the entry expires because its counts have no effect any more.
    fn ends_at(&self, entry: &SlotEntry) -> u64 {
        let last = entry.numbers.iter().copied().max().unwrap_or(0);
        if self.on_clock { on_clock::ends_at(last) } else { last }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len() / self.stride()
    }

    fn stride(&self) -> usize {
        (if self.is_shared { SHARED_HEADER_WORDS } else { HEADER_WORDS }) + self.window_numbers
    }

    /// Returns the slots that are probed for a key.
    fn probes(&self, key: u64) -> impl Iterator<Item = usize> + use<> {
        let last = self.len().wrapping_sub(1);
        // The lower half of a key determines its shard. If there are no slots, there are no probes.
        let first = (key >> 32) as usize;
        let count = if self.numbers.is_empty() { 0 } else { PROBES };
        (0..count).map(move |step| first.wrapping_add(step) & last)
    }

    /// Returns the slot of a key.
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        self.probes(key).find(|at| self.numbers.get(at * self.stride()) == Some(&key))
    }

    pub(super) fn read(&self, at: usize) -> SlotEntry {
        let from = at * self.stride();
        // Harmless: the rest belongs to other slots.
        let mut numbers = self.numbers.iter().skip(from).take(self.stride()).copied();
        let key = numbers.next().unwrap_or(0);
        let rest = if self.is_shared { numbers.next().unwrap_or(0) } else { 0 };
        let mut of_windows = [0; NUMBERS_MAX];
        // Harmless: a slot has at most `NUMBERS_MAX` words for windows.
        of_windows.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
        let [.., a, b, c, d] = (rest >> 33).to_be_bytes();
        let [.., e, f, g, h] = rest.to_be_bytes();
        SlotEntry {
            key,
            numbers: of_windows,
            tier: u32::from_be_bytes([a, b, c, d]),
            unreported: u32::from_be_bytes([e, f, g, h]),
            refused: rest >> 32 & 1 == 1,
        }
    }

    pub(super) fn write(&mut self, at: usize, entry: &SlotEntry) {
        let (from, stride) = (at * self.stride(), self.stride());
        let rest = u64::from(entry.tier) << 33
            | u64::from(entry.refused) << 32
            | u64::from(entry.unreported);
        // Harmless: the rest belongs to other slots.
        let mut slot = self.numbers.iter_mut().skip(from).take(stride);
        let before = std::iter::once(entry.key).chain(self.is_shared.then_some(rest));
        for number in before.chain(entry.numbers) {
            let Some(place) = slot.next() else { return };
            *place = number;
        }
    }

    /// Inserts a new key.
    pub(super) fn insert(&mut self, entry: &SlotEntry, now: u64) {
        while !self.insert_where_free(entry, now) {
            if self.len() >= self.slots_max {
                return self.replace_least(entry);
            }
            self.grow(now);
        }
    }

    fn insert_where_free(&mut self, entry: &SlotEntry, now: u64) -> bool {
        let free = self.probes(entry.key).find(|at| self.ends_at(&self.read(*at)) <= now);
        free.inspect(|at| self.write(*at, entry)).is_some()
    }

    fn replace_least(&mut self, entry: &SlotEntry) {
        let least = self.probes(entry.key).min_by_key(|at| self.ends_at(&self.read(*at)));
        if let Some(at) = least {
            self.write(at, entry);
        }
    }

    /// Doubles the number of slots. Expired entries are dropped.
    fn grow(&mut self, now: u64) {
        let slots = (self.len() * 2).max(PROBES);
        let mut grown = Slots { numbers: vec![0; slots * self.stride()], ..*self };
        for at in 0..self.len() {
            let entry = self.read(at);
            if self.ends_at(&entry) > now && !grown.insert_where_free(&entry, now) {
                grown.replace_least(&entry);
            }
        }
        *self = grown;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut slots = Slots::new(100, 4, true, false);
        let numbers = [5, u64::MAX, 7, 9, 0, 0, 0, 0];
        let entry =
            SlotEntry { key: u64::MAX, numbers, tier: 70_000, unreported: u32::MAX, refused: true };
        slots.insert(&entry, 0);
        let other = SlotEntry { key: 1 << 40, refused: false, ..entry };
        slots.insert(&other, 0);
        for entry in [entry, other] {
            let at = slots.find(entry.key).unwrap();
            assert_eq!(slots.read(at), entry);
        }
        assert_eq!(slots.find(3), None);

        let mut local = Slots::new(100, 4, false, false);
        local.insert(&entry, 0);
        let at = local.find(entry.key).unwrap();
        assert_eq!(local.read(at), SlotEntry { numbers, ..SlotEntry::new(entry.key, 0) });
    }

    #[test]
    fn keys_with_the_same_probes_grow_the_table_and_then_replace_the_smallest_debt() {
        let mut slots = Slots::new(64, 1, false, false);
        let entry = |number: u64, until| SlotEntry {
            numbers: [until, 0, 0, 0, 0, 0, 0, 0],
            // All keys start probing at the same slot, whatever the size of the table.
            ..SlotEntry::new(number, 0)
        };
        for number in 1..=40 {
            slots.insert(&entry(number, 100 - number), 10);
        }
        assert_eq!(slots.len(), 64);
        let there: Vec<u64> = (1..=40).filter(|number| slots.find(*number).is_some()).collect();
        assert_eq!(there.len(), PROBES);
        assert!(there.contains(&1) && there.contains(&15) && there.contains(&40), "{there:?}");
    }
}
