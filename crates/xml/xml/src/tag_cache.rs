//! Cache of start tags: a message with many elements uses few names, and most of its start tags have no attributes.
//!
//! A start tag without attributes whose bytes occurred before in the same scope is not parsed again: its name is known to be well-formed
//! and its namespace is known. Only short tags are cached.

use std::fmt;

use crate::chars::cut_after;
use crate::intern::fold;

/// Number of slots in the cache, which form pairs.
const PLACES: usize = 64;

/// Maximum length of a cached tag, from the first character of its name to its `>`.
const TAG_BYTES_MAX: usize = 16;

/// Masks that clear the bytes after a tag of each length. Index 0 is for tags that are too long; its mask clears nothing.
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

/// The bytes of a tag after `<` or `</` up to its `>`, as one number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TagBytes {
    /// Zero for a tag that is too long for the cache. Documents contain no zero bytes, so it equals no text.
    bytes: u128,
    len: usize,
}

impl TagBytes {
    pub(crate) const LONG: TagBytes = TagBytes { bytes: 0, len: 0 };

    /// Returns the tag that consists of a name and `>`, whatever follows the name in the text.
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

    /// Returns the tag at `from` if it is short. The characters before its `>` are not checked.
    #[inline(always)]
    fn at(bytes: &[u8], from: usize) -> Option<TagBytes> {
        let chunk: &[u8; TAG_BYTES_MAX] = bytes.get(from..)?.first_chunk()?;
        let (halves, _) = chunk.as_chunks::<8>();
        let [low, high] = halves else { return None };
        let (low, high) = (u64::from_le_bytes(*low), u64::from_le_bytes(*high));
        if let Some((low, name_len)) = cut_after(low, b'>') {
            return Some(TagBytes { bytes: u128::from(low), len: name_len + 1 });
        }
        let (high, name_len) = cut_after(high, b'>')?;
        Some(TagBytes { bytes: u128::from(low) | u128::from(high) << 64, len: name_len + 9 })
    }

    /// Returns whether this tag is at `from`.
    #[inline(always)]
    pub(crate) fn stands_at(&self, bytes: &[u8], from: usize) -> bool {
        let mask = MASKS.get(self.len).copied().unwrap_or(0);
        word(bytes, from).is_some_and(|word| word & mask == self.bytes)
    }

    /// Returns whether the same `len` bytes are at both offsets. Returns false if `len` is too large for the cache.
    #[inline(always)]
    pub(crate) fn same(bytes: &[u8], a: usize, b: usize, len: usize) -> bool {
        match (word(bytes, a), word(bytes, b), MASKS.get(len)) {
            (Some(a), Some(b), Some(mask)) => (a ^ b) & mask == 0,
            _ => false,
        }
    }

    /// Returns the length of the name.
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

/// A tag in the cache.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CachedTag {
    pub(crate) tag: TagBytes,
    pub(crate) prefix_len: usize,
    pub(crate) namespace: u32,
    /// The scope in which its prefix has that namespace; see [`Machine::scope`](crate::machine::Machine).
    scope: u64,
}

/// The slot of a tag in the cache, for a sink that stores something for each slot.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum TagSlot {
    /// The tag is not in the cache.
    Nowhere,
    /// The tag is new in this slot. Whatever the sink has stored for the slot is about another tag.
    New(usize),
    /// The tag is the same as in the last event with this slot.
    Known(usize),
}

impl TagSlot {
    /// Number of slots.
    pub const COUNT: usize = PLACES;
}

impl fmt::Debug for TagSlot {
    /// The slot depends on earlier documents and says nothing about this one, so it is not shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("_")
    }
}

/// The cached tags.
#[derive(Debug)]
pub(crate) struct TagCache {
    places: [CachedTag; PLACES],
}

impl TagCache {
    pub(crate) fn new() -> TagCache {
        let none = CachedTag { tag: TagBytes::LONG, prefix_len: 0, namespace: 0, scope: 0 };
        TagCache { places: [none; PLACES] }
    }

    /// Returns the tag at `from` and its slot, if it is cached for this scope.
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

    /// Stores a tag and returns its slot.
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
        // A tag of the same scope keeps the first slot, and the new tag gets the other slot of the pair.
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

/// Returns the first slot for a tag. The other slot of the pair is the second choice.
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
