//! Character classes of an expression: characters that are in exactly the same sets of the expression form one class.

use super::set::{CharSet, LAST};
use super::{CLASS_WORK_MAX, RegexError};

/// A partition of all characters.
#[derive(Debug)]
pub(crate) struct Classes {
    ascii: [u16; 128],
    /// The start of each interval, in order, with its class.
    starts: Vec<(u32, u16)>,
    count: u16,
    /// One bit for each set and class: whether the set contains the class.
    held: Vec<u64>,
}

impl Classes {
    pub(crate) fn build(sets: &[CharSet]) -> Result<Classes, RegexError> {
        let mut starts: Vec<u32> = vec![0];
        for &(first, last) in sets.iter().flat_map(CharSet::ranges) {
            starts.push(first);
            if last < LAST {
                starts.push(last + 1);
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let too_many = || RegexError {
            offset: 0,
            message: "the expression distinguishes too many sets of characters".to_owned(),
        };
        if sets.len().saturating_mul(starts.len()) > CLASS_WORK_MAX {
            return Err(too_many());
        }
        let mut class = vec![0u16; starts.len()];
        let mut count = 1u16;
        for set in sets {
            count = split(set, &starts, &mut class, count).ok_or_else(too_many)?;
        }
        // Harmless: there is one class for each start.
        let starts: Vec<(u32, u16)> = starts.into_iter().zip(class).collect();
        let mut classes = Classes { ascii: [0; 128], starts, count, held: Vec::new() };
        // Harmless: only ASCII characters have a slot.
        for (slot, c) in classes.ascii.iter_mut().zip('\0'..) {
            *slot = search(&classes.starts, c);
        }
        classes.hold(sets);
        Ok(classes)
    }

    pub(crate) fn count(&self) -> usize {
        usize::from(self.count)
    }

    pub(crate) fn of(&self, c: char) -> u16 {
        match self.ascii.get(c as usize) {
            Some(&class) => class,
            None => search(&self.starts, c),
        }
    }

    pub(crate) fn holds(&self, set: u32, class: u16) -> bool {
        let bit = set as usize * self.count() + usize::from(class);
        self.held.get(bit / 64).is_some_and(|word| word >> (bit % 64) & 1 == 1)
    }

    fn hold(&mut self, sets: &[CharSet]) {
        self.held = vec![0; (sets.len() * self.count()).div_ceil(64)];
        for (at, set) in sets.iter().enumerate() {
            for &(start, class) in &self.starts {
                // An interval that begins with a surrogate contains no characters.
                if char::from_u32(start).is_some_and(|c| set.contains(c)) {
                    let bit = at * self.count() + usize::from(class);
                    if let Some(word) = self.held.get_mut(bit / 64) {
                        *word |= 1 << (bit % 64);
                    }
                }
            }
        }
    }
}

/// Splits each class into its parts inside and outside the set. Returns the new number of classes.
fn split(set: &CharSet, starts: &[u32], class: &mut [u16], count: u16) -> Option<u16> {
    let mut renamed: Vec<Option<u16>> = vec![None; usize::from(count) * 2];
    let mut ranges = set.ranges().iter().peekable();
    let mut fresh = 0u16;
    // Harmless: there is one class for each start.
    for (&start, class) in starts.iter().zip(class.iter_mut()) {
        while ranges.peek().is_some_and(|&&(_, last)| last < start) {
            ranges.next();
        }
        let inside = ranges.peek().is_some_and(|&&(first, _)| first <= start);
        let name = renamed.get_mut(usize::from(*class) * 2 + usize::from(inside))?;
        *class = match *name {
            Some(known) => known,
            None => {
                *name = Some(fresh);
                fresh = fresh.checked_add(1)?;
                fresh - 1
            }
        };
    }
    debug_assert!(fresh >= count, "splitting never joins classes");
    Some(fresh)
}

fn search(starts: &[(u32, u16)], c: char) -> u16 {
    let after = starts.partition_point(|&(start, _)| start <= u32::from(c));
    after.checked_sub(1).and_then(|at| starts.get(at)).map_or(0, |&(_, class)| class)
}
