//! Strings told apart by number.
//!
//! Owns the text of the strings it is given. A handful is compared one by one; more are found by a hash with a secret of
//! this process, so that nobody can choose names that collide.

use std::hash::{BuildHasher, RandomState};

use crate::chars::same;

/// Up to here looking through all of them is quicker than a hash.
const FEW: usize = 8;

/// Room for the names of an ordinary message.
const ROOM_BYTES: usize = 256;

/// No number.
pub(crate) const NONE: u32 = u32::MAX;

/// Strings in the order they were first met.
#[derive(Debug, Clone)]
pub(crate) struct Interner {
    text: String,
    spans: Vec<(u32, u32)>,
    /// Numbers by hash, with as many free places as taken ones; empty while there are few.
    table: Vec<u32>,
    seed: u64,
}

impl Interner {
    pub(crate) fn new() -> Interner {
        let seed = RandomState::new().hash_one(0u8);
        let (text, spans) = (String::with_capacity(ROOM_BYTES), Vec::with_capacity(2 * FEW));
        Interner { text, spans, table: Vec::new(), seed }
    }

    pub(crate) fn len(&self) -> usize {
        self.spans.len()
    }

    #[inline]
    pub(crate) fn get(&self, number: u32) -> &str {
        match self.spans.get(number as usize) {
            Some((from, to)) => self.text.get(*from as usize..*to as usize).unwrap_or_default(),
            None => "",
        }
    }

    #[inline]
    pub(crate) fn find(&self, wanted: &str) -> Option<u32> {
        match self.table.is_empty() {
            true => self.find_among_few(wanted),
            false => self.find_by_hash(wanted),
        }
    }

    #[inline]
    fn find_among_few(&self, wanted: &str) -> Option<u32> {
        let text = self.text.as_bytes();
        // What was met last is asked for most.
        let found = self.spans.iter().rposition(|(from, to)| {
            (to - from) as usize == wanted.len()
                && text
                    .get(*from as usize..*to as usize)
                    .is_some_and(|known| same(known, wanted.as_bytes()))
        });
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

    /// The number of a string, a new one if it was not met before. None: there are too many, or too long ones.
    pub(crate) fn number(&mut self, wanted: &str) -> Option<u32> {
        match self.find(wanted) {
            Some(number) => Some(number),
            None => self.add(wanted),
        }
    }

    fn add(&mut self, text: &str) -> Option<u32> {
        let number = u32::try_from(self.spans.len()).ok().filter(|number| *number != NONE)?;
        let from = u32::try_from(self.text.len()).ok()?;
        let to = u32::try_from(self.text.len() + text.len()).ok()?;
        self.text.push_str(text);
        self.spans.push((from, to));
        match self.spans.len() {
            len if len <= FEW => {}
            len if len * 2 > self.table.len() => self.grow(),
            _ => self.enter(number),
        }
        Some(number)
    }

    fn grow(&mut self) {
        let places = (self.spans.len() * 4).next_power_of_two();
        self.table.clear();
        self.table.resize(places, NONE);
        for number in 0..u32::try_from(self.spans.len()).unwrap_or(0) {
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

    /// Forgets all but the first `len` strings; keeps the memory.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.spans.truncate(len);
        let end = self.spans.last().map_or(0, |(_, to)| *to as usize);
        self.text.truncate(end);
        match len <= FEW {
            true => self.table.clear(),
            false => self.grow(),
        }
    }
}

/// A hash with a secret: each word is folded into what came before by a wide multiplication.
pub(crate) fn hash(bytes: &[u8], seed: u64) -> u64 {
    let mut state = seed ^ (bytes.len() as u64);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = fold(state ^ u64::from_le_bytes(*word));
    }
    let mut last = [0u8; 8];
    for (to, from) in last.iter_mut().zip(rest) {
        *to = *from;
    }
    fold(fold(state ^ u64::from_le_bytes(last)) ^ seed.rotate_left(32))
}

/// A wide multiplication, its halves together: every bit of the value reaches the low ones.
#[inline]
pub(crate) fn fold(value: u64) -> u64 {
    let wide = u128::from(value) * 0x9E37_79B9_7F4A_7C15_u128;
    #[allow(clippy::cast_possible_truncation, reason = "the two halves of a product are wanted")]
    {
        (wide as u64) ^ ((wide >> 64) as u64)
    }
}
