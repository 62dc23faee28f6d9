//! SipHash-1-3 with a 128-bit key (Aumasson and Bernstein, 2012): what clients send becomes a number that they cannot aim.
//!
//! The standard library has it without a way to give it a key, and nodes that count together need the same key.

/// The secret half of a hash.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key(u64, u64);

impl Key {
    /// A key nobody else has.
    pub(crate) fn random() -> Key {
        Key(fastrand::u64(..), fastrand::u64(..))
    }

    /// The same key for whoever knows the same text.
    pub(crate) fn of(text: &str) -> Key {
        let half = |number| {
            let mut hash = Key(number, 0x7469_6465_6761_7465).start();
            hash.write(text.as_bytes());
            hash.finish()
        };
        Key(half(1), half(2))
    }

    pub(crate) fn start(self) -> Hash {
        Hash {
            v: [
                self.0 ^ 0x736f_6d65_7073_6575,
                self.1 ^ 0x646f_7261_6e64_6f6d,
                self.0 ^ 0x6c79_6765_6e65_7261,
                self.1 ^ 0x7465_6462_7974_6573,
            ],
            length: 0,
        }
    }
}

/// A hash that takes its input in pieces. Each piece is closed by its length, so that `ab` `c` and `a` `bc` differ.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hash {
    v: [u64; 4],
    length: u64,
}

impl Hash {
    pub(crate) fn write(&mut self, bytes: &[u8]) {
        let (words, rest) = bytes.as_chunks::<8>();
        words.iter().for_each(|word| self.word(u64::from_le_bytes(*word)));
        let last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        self.word(last | length << 56);
        self.length = self.length.wrapping_add(length);
    }

    pub(crate) fn finish(mut self) -> u64 {
        self.word(self.length << 56);
        let [a, b, c, d] = self.v;
        self.v = [a, b, c ^ 0xff, d];
        (0..3).for_each(|_| self.round());
        self.v.iter().fold(0, |all, v| all ^ v)
    }

    fn word(&mut self, word: u64) {
        let [a, b, c, d] = self.v;
        self.v = [a, b, c, d ^ word];
        self.round();
        let [a, b, c, d] = self.v;
        self.v = [a ^ word, b, c, d];
    }

    fn round(&mut self) {
        let [mut a, mut b, mut c, mut d] = self.v;
        a = a.wrapping_add(b);
        b = b.rotate_left(13) ^ a;
        a = a.rotate_left(32);
        c = c.wrapping_add(d);
        d = d.rotate_left(16) ^ c;
        a = a.wrapping_add(d);
        d = d.rotate_left(21) ^ a;
        c = c.wrapping_add(b);
        b = b.rotate_left(17) ^ c;
        c = c.rotate_left(32);
        self.v = [a, b, c, d];
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
    fn pieces_keys_and_every_byte_count() {
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
