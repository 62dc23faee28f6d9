//! String interning: equal strings get the same number.
//!
//! Owns the text of its strings, and keeps their memory after they are removed, because the next document usually has the same strings in
//! the same order. A few strings are compared one by one. More are found by a hash with a secret seed, so that an attacker cannot choose
//! names that collide.

use std::hash::{BuildHasher, RandomState};

use crate::chars::same;

/// Up to this number of strings, a linear search is faster than a hash.
const FEW: usize = 8;

/// The memory of strings longer than this is not kept.
const KEPT_BYTES_MAX: usize = 1024;

/// The number that means "none".
pub(crate) const NONE: u32 = u32::MAX;

/// Strings in the order of their first occurrence.
#[derive(Debug, Clone, Default)]
pub(crate) struct Interner {
    /// The first `len` texts have numbers. The others are kept only for their memory.
    texts: Vec<String>,
    len: usize,
    /// The first `distinct` texts all differ, whether they have numbers or not.
    distinct: usize,
    /// Whether some strings are so long that their memory must not be kept.
    long: bool,
    /// Hash table of numbers, at most half full. Empty while there are few strings.
    table: Vec<u32>,
    seed: u64,
}

impl Interner {
    pub(crate) fn new() -> Interner {
        let seed = RandomState::new().hash_one(0u8);
        Interner { seed, ..Interner::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &str {
        self.texts.get(number as usize).map_or("", String::as_str)
    }

    #[inline]
    pub(crate) fn find(&self, wanted: &str) -> Option<u32> {
        if self.table.is_empty() { self.find_among_few(wanted) } else { self.find_by_hash(wanted) }
    }

    #[inline]
    fn find_among_few(&self, wanted: &str) -> Option<u32> {
        let texts = self.texts.get(..self.len).unwrap_or_default();
        // Searches backwards, because the most recent string is the most likely one.
        let found = texts.iter().rposition(|known| same(known.as_bytes(), wanted.as_bytes()));
        // Harmless: there are fewer strings than a `u32` can count.
        found.and_then(|at| u32::try_from(at).ok())
    }

    fn find_by_hash(&self, wanted: &str) -> Option<u32> {
        let mut place = self.place(wanted.as_bytes());
        loop {
            match self.table.get(place) {
                None | Some(&NONE) => return None,
                Some(number) if same(self.get(*number).as_bytes(), wanted.as_bytes()) => {
                    return Some(*number);
                }
                Some(_) => place = (place + 1) & (self.table.len() - 1),
            }
        }
    }

    /// Returns the number of a string, and adds the string if it is new. Returns `None` if there are too many strings.
    #[inline]
    pub(crate) fn number(&mut self, wanted: &str) -> Option<u32> {
        let next = self.texts.get(self.len).filter(|_| self.len < self.distinct);
        if next.is_some_and(|next| same(next.as_bytes(), wanted.as_bytes())) {
            return self.take_next();
        }
        match self.find(wanted) {
            Some(number) => Some(number),
            None => self.add(wanted),
        }
    }

    fn add(&mut self, text: &str) -> Option<u32> {
        match self.texts.get_mut(self.len) {
            Some(kept) => {
                kept.clear();
                kept.push_str(text);
            }
            None => self.texts.push(text.to_owned()),
        }
        self.distinct = self.len + 1;
        self.long |= text.len() > KEPT_BYTES_MAX;
        self.take_next()
    }

    /// Gives a number to the next kept string.
    #[inline]
    fn take_next(&mut self) -> Option<u32> {
        // Harmless: the caller refuses a string without a number.
        let number = u32::try_from(self.len).ok().filter(|number| *number != NONE)?;
        self.len += 1;
        match self.len {
            len if len <= FEW => {}
            len if len * 2 > self.table.len() => self.grow(),
            _ => self.enter(number),
        }
        Some(number)
    }

    fn grow(&mut self) {
        let places = (self.len * 4).next_power_of_two();
        self.table.clear();
        self.table.resize(places, NONE);
        for number in 0..u32::try_from(self.len).unwrap_or(0) {
            self.enter(number);
        }
    }

    fn enter(&mut self, number: u32) {
        let mut place = self.place(self.get(number).as_bytes());
        while self.table.get(place).is_some_and(|taken| *taken != NONE) {
            place = (place + 1) & (self.table.len() - 1);
        }
        if let Some(free) = self.table.get_mut(place) {
            *free = number;
        }
    }

    fn place(&self, bytes: &[u8]) -> usize {
        let mask = self.table.len().wrapping_sub(1);
        usize::try_from(hash(bytes, self.seed) & mask as u64).unwrap_or(0)
    }

    /// Restores the strings of another interner. Usually their texts are still kept here, without numbers.
    pub(crate) fn restore(&mut self, other: &Interner) {
        let wanted = other.texts.get(..other.len).unwrap_or_default();
        let here = self.texts.get(..other.len).filter(|_| other.len <= self.distinct.min(FEW));
        if here == Some(wanted) {
            self.len = other.len;
            self.table.clear();
            return;
        }
        // Harmless: the strings are replaced by those of the other interner.
        self.truncate(0);
        for text in wanted {
            // Harmless: the other interner has the same strings, so there are not too many, and each gets a number.
            let _ = self.number(text);
        }
    }

    /// Removes all but the first `len` strings.
    pub(crate) fn truncate(&mut self, len: usize) {
        if self.long {
            // Harmless: the memory of long strings is freed between documents.
            self.texts.truncate(len);
            self.distinct = self.distinct.min(len);
            self.long = false;
        }
        self.len = len;
        if len <= FEW { self.table.clear() } else { self.grow() }
    }
}

/// A keyed hash: each word is folded into the state by a wide multiplication.
pub(crate) fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut state = seed ^ (bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word));
    }
    fold(fold(state ^ short(rest)) ^ seed.rotate_left(32))
}

/// Converts fewer than eight bytes to a number. Different strings of equal length give different numbers.
#[inline]
fn short(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>(), bytes) {
        (Some(first), Some(last), _) => {
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << 32
        }
        (_, _, [a, b, c]) => u64::from(*a) | u64::from(*b) << 8 | u64::from(*c) << 16,
        (_, _, [a, b]) => u64::from(*a) | u64::from(*b) << 8,
        (_, _, [a]) => u64::from(*a),
        _ => 0,
    }
}

/// Multiplies, and combines the halves of the product so that every bit of the value affects the low bits.
#[inline]
pub(crate) fn fold(value: u64) -> u64 {
    let wide = u128::from(value) * 0x9E37_79B9_7F4A_7C15_u128;
    #[allow(clippy::cast_possible_truncation, reason = "the two halves of a product are wanted")]
    {
        (wide as u64) ^ ((wide >> 64) as u64)
    }
}
