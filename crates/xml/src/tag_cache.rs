//! Cache of start tags: a message of many elements has few names, and most of its start tags are a name alone.
//!
//! A start tag without attributes whose bytes were met before in the same scope needs no second look: its name is well-formed
//! and its namespace is known. Only short tags are kept; all others are read as if they were new.

use std::fmt;

use crate::chars::cut_behind;
use crate::intern::fold;

/// Number of tags that are kept, in pairs.
const PLACES: usize = 64;

/// Length of the longest tag that is kept, from the first character of its name to its `>`.
const TAG_BYTES_MAX: usize = 16;

/// Sets the bytes behind a tag of each length to zero. The first stands for tags that are too long: nothing is behind them.
const MASKS: [u128; TAG_BYTES_MAX + 1] = masks();

const fn masks() -> [u128; TAG_BYTES_MAX + 1] {
    let mut masks = [u128::MAX; TAG_BYTES_MAX + 1];
    let mut len = 1;
    while len < TAG_BYTES_MAX {
        #[allow(clippy::indexing_slicing, reason = "it is within bounds, and runs when compiled")]
        {
            masks[len] = (1 << (8 * len)) - 1;
        }
        len += 1;
    }
    masks
}

/// The bytes of a tag behind `<` or `</` up to its `>`, as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagBytes {
    /// Zero for one that is too long to be kept. A document has no zero bytes, so that no text is equal to it.
    bytes: u128,
    len: usize,
}

impl TagBytes {
    pub(crate) const LONG: TagBytes = TagBytes { bytes: 0, len: 0 };

    /// The tag of a name that stands in front of anything.
    #[inline]
    pub(crate) fn of_name(bytes: &[u8], from: usize, name_len: usize) -> TagBytes {
        let mask = MASKS.get(name_len).filter(|_| name_len > 0 && name_len < TAG_BYTES_MAX);
        match (word(bytes, from), mask) {
            (Some(word), Some(mask)) => {
                let bytes = word & mask | u128::from(b'>') << (8 * name_len);
                TagBytes { bytes, len: name_len + 1 }
            }
            _ => TagBytes::LONG,
        }
    }

    /// The tag at `from`, if it is short; what is in front of its `>` is not looked at.
    #[inline(always)]
    fn at(bytes: &[u8], from: usize) -> Option<TagBytes> {
        let chunk: &[u8; TAG_BYTES_MAX] = bytes.get(from..)?.first_chunk()?;
        let (halves, _) = chunk.as_chunks::<8>();
        let [low, high] = halves else { return None };
        let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
        if let Some((low, name_len)) = cut_behind(low, b'>') {
            return Some(TagBytes { bytes: u128::from(low), len: name_len + 1 });
        }
        let (high, name_len) = cut_behind(high, b'>')?;
        Some(TagBytes { bytes: u128::from(low) | u128::from(high) << 64, len: name_len + 9 })
    }

    /// Returns whether this tag stands at `from`.
    #[inline(always)]
    pub(crate) fn stands_at(&self, bytes: &[u8], from: usize) -> bool {
        let mask = MASKS.get(self.len).copied().unwrap_or(0);
        word(bytes, from).is_some_and(|word| word & mask == self.bytes)
    }

    /// Returns whether the same so many bytes of a tag stand at both places. False also for what is long.
    #[inline(always)]
    pub(crate) fn same(bytes: &[u8], a: usize, b: usize, len: usize) -> bool {
        match (word(bytes, a), word(bytes, b), MASKS.get(len)) {
            (Some(a), Some(b), Some(mask)) => (a ^ b) & mask == 0,
            _ => false,
        }
    }

    /// Length of the name.
    #[inline(always)]
    pub(crate) fn name_len(&self) -> usize {
        self.len.saturating_sub(1)
    }
}

#[inline(always)]
fn word(bytes: &[u8], from: usize) -> Option<u128> {
    let chunk = bytes.get(from..)?.first_chunk::<TAG_BYTES_MAX>()?;
    Some(u128::from_le_bytes(*chunk))
}

/// A tag that was met.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedTag {
    pub(crate) tag: TagBytes,
    pub(crate) prefix_len: usize,
    pub(crate) namespace: u32,
    /// The scope in which its prefix has that namespace; see [`Machine::scope`](crate::machine::Machine).
    scope: u64,
}

/// The place of a tag among those met, for a sink that keeps something for each.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TagSlot {
    /// It has none.
    Nowhere,
    /// It is new there: whatever a sink has for the place is about another tag.
    New(usize),
    /// It is the same as in the last event that had this place.
    Known(usize),
}

impl TagSlot {
    /// Number of places.
    pub const COUNT: usize = PLACES;
}

impl fmt::Debug for TagSlot {
    /// It depends on what was met before, and says nothing of the document.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// The tags that were met.
#[derive(Debug)]
pub(crate) struct TagCache {
    places: [CachedTag; PLACES],
}

impl TagCache {
    pub(crate) fn new() -> TagCache {
        let none = CachedTag { tag: TagBytes::LONG, prefix_len: 0, namespace: 0, scope: 0 };
        TagCache { places: [none; PLACES] }
    }

    /// Returns the tag at `from` and its place, if it was met in this scope.
    #[inline(always)]
    pub(crate) fn find(&self, bytes: &[u8], from: usize, scope: u64) -> Option<(CachedTag, usize)> {
        let tag = TagBytes::at(bytes, from)?;
        let first = first_place(tag);
        let found = |place: usize| {
            let met = self.places.get(place)?;
            (met.tag.bytes == tag.bytes && met.scope == scope).then_some((*met, place))
        };
        found(first).or_else(|| found(first ^ 1))
    }

    /// Keeps a tag that was read, and returns its place.
    pub(crate) fn keep(
        &mut self,
        tag: TagBytes,
        prefix_len: usize,
        namespace: u32,
        scope: u64,
    ) -> TagSlot {
        if tag == TagBytes::LONG {
            return TagSlot::Nowhere;
        }
        let first = first_place(tag);
        // The tag that was there moves over, unless it is the same one in another scope.
        let place = match self.places.get(first) {
            Some(met) if met.scope == scope => first ^ 1,
            Some(_) | None => first,
        };
        if let Some(met) = self.places.get_mut(place) {
            *met = CachedTag { tag, prefix_len, namespace, scope };
        }
        TagSlot::New(place)
    }
}

/// Returns the place of a tag; the one beside it is the second choice.
#[inline(always)]
fn first_place(tag: TagBytes) -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "the two halves of a number are wanted")]
    let mixed = fold((tag.bytes >> 64) as u64 ^ tag.bytes as u64);
    usize::try_from(mixed % PLACES as u64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_is_met_again_in_its_scope_only() {
        let mut met = TagCache::new();
        let text = b"<a:bcd><a:bcd><a:bce>                ";
        assert!(met.find(text, 1, 7).is_none());
        let tag = TagBytes::of_name(text, 1, 5);
        let TagSlot::New(place) = met.keep(tag, 1, 4, 7) else { panic!() };
        let (found, at) = met.find(text, 8, 7).unwrap();
        assert_eq!((found.tag, found.prefix_len, found.namespace, at), (tag, 1, 4, place));
        assert!(met.find(text, 8, 8).is_none() && met.find(text, 15, 7).is_none());
        assert!(tag.stands_at(text, 1) && tag.stands_at(text, 8) && !tag.stands_at(text, 15));
    }

    #[test]
    fn tags_of_each_length_are_told_from_longer_and_shorter_ones() {
        let name = "abcdefghijklmnopqrst";
        for len in 1..name.len() {
            let short = name.get(..len).unwrap();
            let text = format!("{short}>{name}>{name}");
            let tag = TagBytes::of_name(text.as_bytes(), 0, len);
            assert_eq!(tag == TagBytes::LONG, len >= TAG_BYTES_MAX, "{len}");
            assert_eq!(tag.stands_at(text.as_bytes(), 0), len < TAG_BYTES_MAX, "{len}");
            assert!(!tag.stands_at(text.as_bytes(), len + 1), "{len}");
            let mut met = TagCache::new();
            met.keep(tag, 0, 0, 1);
            assert_eq!(met.find(text.as_bytes(), 0, 1).is_some(), len < TAG_BYTES_MAX, "{len}");
            assert!(met.find(text.as_bytes(), len + 1, 1).is_none(), "{len}");
        }
        assert!(TagBytes::of_name(b"a>", 0, 1) == TagBytes::LONG, "too near to the end");
    }
}
