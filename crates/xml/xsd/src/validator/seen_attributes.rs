//! The attributes that an element has, of those that its type declares.

/// The attributes of a type that an element has, by index: a word of bits for the first 64, and a list for the others.
#[derive(Debug, Default)]
pub(super) struct SeenAttributes {
    low: u64,
    high: Vec<u64>,
}

impl SeenAttributes {
    /// Clears the set for a type with this many attributes.
    #[inline]
    pub(super) fn clear(&mut self, len: usize) {
        self.low = 0;
        if len > 64 {
            self.high.clear();
            self.high.resize(len / 64, 0);
        }
    }

    #[inline]
    pub(super) fn add(&mut self, at: usize) {
        if at < 64 {
            self.low |= 1 << at;
        } else if let Some(word) = self.high.get_mut(at / 64 - 1) {
            *word |= 1 << (at % 64);
        }
    }

    /// Returns whether all of these attributes below 64 are present.
    #[inline]
    pub(super) fn has_all(&self, low: u64) -> bool {
        self.low & low == low
    }

    #[inline]
    pub(super) fn has(&self, at: usize) -> bool {
        let word =
            if at < 64 { self.low } else { self.high.get(at / 64 - 1).copied().unwrap_or(0) };
        word >> (at % 64) & 1 == 1
    }
}
