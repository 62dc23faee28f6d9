//! SipHash-1-3 with a 128-bit key: maps input of clients to numbers that nobody can predict without the key.
//!
//! The standard library's version does not accept a key, and nodes that share counts need the same key.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;

/// The secret key of a hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key(u64, u64);

impl Key {
    /// Generates a random key.
    pub(crate) fn random() -> Key {
        Key(fastrand::u64(..), fastrand::u64(..))
    }

    /// Derives a key from a text. Everyone who knows the text gets the same key.
    pub(crate) fn of(text: &str) -> Key {
        let half = |number| {
            let mut hash = Key(number, 0x7469_6465_6761_7465).start();
            hash.write(text.as_bytes());
            hash.finish()
        };
        Key(half(1), half(2))
    }

    pub(crate) fn start(self) -> Hash {
        Hash(SipHasher13::new_with_keys(self.0, self.1))
    }
}

/// A hash that gets its input in pieces. Each piece is followed by its length, so that `ab` `c` and `a` `bc` differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash(SipHasher13);

impl Hash {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
        self.0.write(&bytes.len().to_le_bytes());
    }

    pub(crate) fn finish(self) -> u64 {
        self.0.finish()
    }
}

/// The hasher of maps whose keys are numbers: hashes already, such as those of [`struct@Hash`], or ids that clients do not choose.
#[derive(Debug, Default)]
pub(crate) struct HashedKey(u64);

impl Hasher for HashedKey {
    fn write(&mut self, _: &[u8]) {
        debug_assert!(false, "keys are numbers");
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = self.0.wrapping_add(number);
    }

    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(key: Key, pieces: &[&[u8]]) -> u64 {
        let mut hash = key.start();
        pieces.iter().for_each(|piece| hash.write(piece));
        hash.finish()
    }

    #[test]
    fn the_hash_depends_on_every_byte_on_the_pieces_and_on_the_key() {
        let key = Key::of("a");
        let mut seen = std::collections::HashSet::new();
        let long = [7; 40];
        for length in 0..40 {
            assert!(seen.insert(hash(key, &[&long[..length]])), "{length}");
            assert!(seen.insert(hash(Key::of("b"), &[&long[..length]])), "{length}");
        }
        assert_ne!(hash(key, &[b"ab", b"c"]), hash(key, &[b"a", b"bc"]));
        assert_ne!(hash(Key::random(), &[b"a"]), hash(Key::random(), &[b"a"]));
        assert_eq!(hash(Key::of("a"), &[b"x"]), hash(key, &[b"x"]));
    }
}
