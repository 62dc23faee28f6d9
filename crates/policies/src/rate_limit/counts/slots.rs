//! One shard of the counts: slots in one piece of memory, found by probing, made more as they are needed.
//!
//! A slot whose debts are paid says nothing and is free. Where all slots that a key may have are taken and there may be no
//! more, the one goes that owes least: made-up keys come and go, whoever is near its limit stays.

use super::WINDOWS_MAX;
use crate::rate_limit::window::on_clock;

/// Slots a key may have, one behind the other. With the table half full that is enough but once in many thousands.
const PROBES: usize = 16;

/// Numbers before the windows' own: whose the slot is; where other nodes are told, what only they need, in one more. So a slot
/// of a local limit with one window is a quarter of a cache line, and never in two.
const NUMBERS: usize = 1;
const NUMBERS_TOLD: usize = 2;

/// Numbers of all windows of a key: a sliding window has two.
pub(crate) const NUMBERS_MAX: usize = 2 * WINDOWS_MAX;

/// The contents of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotEntry {
    pub(crate) key: u64,
    pub(crate) numbers: [u64; NUMBERS_MAX],
    /// The plan whose windows these are, as the policy numbers them.
    pub(crate) tier: u32,
    /// Requests that other nodes do not know of yet.
    pub(crate) untold: u32,
    /// A request was refused: others' requests may have made the wait longer.
    pub(crate) refused: bool,
}

/// The slots of a shard.
pub(super) struct Slots {
    /// Those before the windows' own and one for each window; a power of two times.
    numbers: Vec<u64>,
    /// Of all windows of a key.
    window_numbers: usize,
    told: bool,
    /// Windows are on the clock, and so are times.
    on_clock: bool,
    slots_max: usize,
}

impl SlotEntry {
    pub(super) fn new(key: u64, tier: u32) -> SlotEntry {
        SlotEntry { key, numbers: [0; NUMBERS_MAX], tier, untold: 0, refused: false }
    }
}

impl Slots {
    /// None yet; so many or a little more at the most. Without `told`, what other nodes are told is not kept.
    pub(super) fn new(
        slots_max: usize,
        window_numbers: usize,
        told: bool,
        on_clock: bool,
    ) -> Slots {
        let slots_max = slots_max.next_power_of_two().max(PROBES);
        let window_numbers = window_numbers.clamp(1, NUMBERS_MAX);
        Slots { numbers: Vec::new(), window_numbers, told, on_clock, slots_max }
    }

    /// When nothing is owed any more, and the entry says nothing.
    fn ends_at(&self, entry: &SlotEntry) -> u64 {
        let last = entry.numbers.iter().copied().max().unwrap_or(0);
        if self.on_clock { on_clock::ends_at(last) } else { last }
    }

    pub(super) fn len(&self) -> usize {
        self.numbers.len() / self.stride()
    }

    fn stride(&self) -> usize {
        (if self.told { NUMBERS_TOLD } else { NUMBERS }) + self.window_numbers
    }

    /// The slots that a key may have.
    fn probes(&self, key: u64) -> impl Iterator<Item = usize> + use<> {
        let last = self.len().wrapping_sub(1);
        // The lower half of a key tells its shard. Where there are no slots, there are no probes.
        let first = (key >> 32) as usize;
        let count = if self.numbers.is_empty() { 0 } else { PROBES };
        (0..count).map(move |step| first.wrapping_add(step) & last)
    }

    /// The slot of a key.
    pub(super) fn find(&self, key: u64) -> Option<usize> {
        self.probes(key).find(|at| self.numbers.get(at * self.stride()) == Some(&key))
    }

    pub(super) fn read(&self, at: usize) -> SlotEntry {
        let from = at * self.stride();
        // Harmless: the rest is of other slots.
        let mut numbers = self.numbers.iter().skip(from).take(self.stride()).copied();
        let key = numbers.next().unwrap_or(0);
        let rest = if self.told { numbers.next().unwrap_or(0) } else { 0 };
        let mut of_windows = [0; NUMBERS_MAX];
        // Harmless: a slot has at most that many numbers of windows.
        of_windows.iter_mut().zip(numbers).for_each(|(place, number)| *place = number);
        let [.., a, b, c, d] = (rest >> 33).to_be_bytes();
        let [.., e, f, g, h] = rest.to_be_bytes();
        SlotEntry {
            key,
            numbers: of_windows,
            tier: u32::from_be_bytes([a, b, c, d]),
            untold: u32::from_be_bytes([e, f, g, h]),
            refused: rest >> 32 & 1 == 1,
        }
    }

    pub(super) fn write(&mut self, at: usize, entry: &SlotEntry) {
        let (from, stride) = (at * self.stride(), self.stride());
        let rest =
            u64::from(entry.tier) << 33 | u64::from(entry.refused) << 32 | u64::from(entry.untold);
        // Harmless: the rest is of other slots.
        let mut slot = self.numbers.iter_mut().skip(from).take(stride);
        let before = std::iter::once(entry.key).chain(self.told.then_some(rest));
        for number in before.chain(entry.numbers) {
            let Some(place) = slot.next() else { return };
            *place = number;
        }
    }

    /// Takes in a key that is not there.
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

    /// Twice as many slots, with whoever still owes.
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
            SlotEntry { key: u64::MAX, numbers, tier: 70_000, untold: u32::MAX, refused: true };
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
    fn keys_of_one_place_make_room_and_then_replace_the_least() {
        let mut slots = Slots::new(64, 1, false, false);
        let entry = |number: u64, until| SlotEntry {
            numbers: [until, 0, 0, 0, 0, 0, 0, 0],
            // All of one place, whatever the number of slots.
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
