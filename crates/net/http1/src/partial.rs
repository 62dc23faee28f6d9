//! A head that arrives in pieces.

/// A partial head of at most this many bytes is parsed whenever it grows. That is cheap, and input that is not HTTP is detected at once.
const SHORT: usize = 256;

/// Decides when a partial head is worth parsing again. Parsing it after every byte would take time quadratic in its length. Parsing it when
/// it has doubled, and when it may have ended, parses at most about twice its length in total.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial {
    /// The length at the last parse.
    parsed: usize,
    /// The end of the part that was searched for the end of the head.
    searched: usize,
}

impl Partial {
    /// Records that `len` bytes were parsed and are not a complete head yet.
    pub fn parsed(&mut self, len: usize) {
        *self = Partial { parsed: len, searched: len };
    }

    /// Records that no partial head is left.
    pub fn clear(&mut self) {
        *self = Partial::default();
    }

    /// Returns true if a partial head waits for more bytes.
    pub fn is_begun(&self) -> bool {
        self.parsed > 0
    }

    /// Returns true if another parse may have a new result: an empty line has arrived, as at the end of a head, or the length has doubled
    /// or reached the maximum. While the head is short, every new byte counts.
    pub fn is_worth_parsing(&mut self, bytes: &[u8], head_bytes_max: usize) -> bool {
        // The end may have begun in the part searched before: with a line end and the CR after it.
        let from = self.searched.saturating_sub(2);
        let new = bytes.get(from..).unwrap_or_default();
        let ended = memchr::memchr_iter(b'\n', new)
            .any(|at| matches!(new.get(at + 1..), Some([b'\n', ..] | [b'\r', b'\n', ..])));
        self.searched = bytes.len();
        bytes.len() <= SHORT
            || ended
            || bytes.len() >= head_bytes_max
            || bytes.len() >= self.parsed.saturating_mul(2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of parses, and the total of parsed bytes, for a text that arrives byte by byte.
    fn parsed(text: &[u8]) -> (usize, usize) {
        let (mut partial, mut times, mut bytes) = (Partial::default(), 0, 0);
        for len in 1..=text.len() {
            if partial.is_worth_parsing(&text[..len], usize::MAX) {
                partial.parsed(len);
                (times, bytes) = (times + 1, bytes + len);
            }
        }
        (times, bytes)
    }

    #[test]
    fn the_cost_of_a_head_that_arrives_byte_by_byte_is_linear() {
        let head = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000));
        let (times, bytes) = parsed(head.as_bytes());
        assert!(times < SHORT + 20 && bytes < 3 * head.len(), "{times} times, {bytes} bytes");
    }

    #[test]
    fn the_end_of_a_head_is_found_wherever_it_is_cut() {
        for end in ["\r\n\r\n", "\n\n", "\n\r\n"] {
            let head = format!("GET / HTTP/1.1\r\nHost: {}{end}", "a".repeat(2 * SHORT));
            for cut in head.len() - 4..head.len() {
                let mut partial = Partial::default();
                partial.parsed(cut);
                assert!(partial.is_worth_parsing(head.as_bytes(), usize::MAX), "{cut}");
            }
        }
    }

    #[test]
    fn a_head_that_reaches_the_maximum_is_parsed() {
        let mut partial = Partial::default();
        partial.parsed(900);
        assert!(!partial.is_worth_parsing(&[b'a'; 999], 1000));
        assert!(partial.is_worth_parsing(&[b'a'; 1000], 1000));
    }
}
