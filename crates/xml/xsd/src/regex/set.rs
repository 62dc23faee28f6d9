//! Sets of characters as sorted ranges, and operations on them for character classes.

/// A set of characters: sorted ranges with gaps of at least one character.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CharSet {
    ranges: Vec<(u32, u32)>,
}

/// The last code point.
pub(crate) const LAST: u32 = 0x10_FFFF;

impl CharSet {
    pub(crate) fn from_ranges(mut ranges: Vec<(u32, u32)>) -> CharSet {
        ranges.sort_unstable();
        let mut merged: Vec<(u32, u32)> = Vec::with_capacity(ranges.len());
        for (first, last) in ranges {
            match merged.last_mut() {
                Some(before) if first <= before.1.saturating_add(1) => {
                    before.1 = before.1.max(last)
                }
                Some(_) | None => merged.push((first, last)),
            }
        }
        CharSet { ranges: merged }
    }

    pub(crate) fn one(c: char) -> CharSet {
        CharSet { ranges: vec![(u32::from(c), u32::from(c))] }
    }

    pub(crate) fn ranges(&self) -> &[(u32, u32)] {
        &self.ranges
    }

    pub(crate) fn contains(&self, c: char) -> bool {
        let code = u32::from(c);
        let after = self.ranges.partition_point(|&(first, _)| first <= code);
        after
            .checked_sub(1)
            .and_then(|at| self.ranges.get(at))
            .is_some_and(|&(_, last)| code <= last)
    }

    pub(crate) fn union(sets: &[&CharSet]) -> CharSet {
        CharSet::from_ranges(sets.iter().flat_map(|set| set.ranges.iter().copied()).collect())
    }

    pub(crate) fn complement(&self) -> CharSet {
        let mut ranges = Vec::with_capacity(self.ranges.len() + 1);
        let mut next = 0;
        for &(first, last) in &self.ranges {
            if first > next {
                ranges.push((next, first - 1));
            }
            next = last + 1;
        }
        if next <= LAST {
            ranges.push((next, LAST));
        }
        CharSet { ranges }
    }

    pub(crate) fn minus(&self, other: &CharSet) -> CharSet {
        CharSet::union(&[&self.complement(), other]).complement()
    }
}
