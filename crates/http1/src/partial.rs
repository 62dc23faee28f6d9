//! A head that comes in pieces.

/// A beginning up to this many bytes is parsed whenever it grows: it costs next to nothing, and what is no HTTP is told so at once.
const SHORT: usize = 256;

/// When the beginning of a head is worth parsing again. A head that comes byte by byte, parsed with every byte, costs the square
/// of its length; parsed when it has doubled and when it may have ended, it costs no more than twice its length.
#[derive(Clone, Copy, Debug, Default)]
pub struct Partial {
    /// How long it was when it was parsed last.
    parsed: usize,
    /// How far its end was looked for.
    searched: usize,
}

impl Partial {
    /// What is there was parsed and is not whole yet.
    pub fn parsed(&mut self, len: usize) {
        *self = Partial { parsed: len, searched: len };
    }

    /// Nothing is there that was parsed.
    pub fn clear(&mut self) {
        *self = Partial::default();
    }

    /// Whether a beginning waits for more.
    pub fn is_begun(&self) -> bool {
        self.parsed > 0
    }

    /// Whether more has come that may say more: a line without content, as a head ends, or as much again as there was, or all
    /// that a head may have. While it is short, each byte may.
    pub fn is_worth_parsing(&mut self, bytes: &[u8], head_bytes_max: usize) -> bool {
        // The end may have begun in what was searched before: a line end, and the CR behind it.
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

    /// How often, and how many bytes in all, a text that comes byte by byte is parsed until its end.
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
    fn a_head_byte_by_byte_costs_what_its_length_is() {
        let head = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(10_000));
        let (times, bytes) = parsed(head.as_bytes());
        assert!(times < SHORT + 20 && bytes < 3 * head.len(), "{times} times, {bytes} bytes");
    }

    #[test]
    fn its_end_is_seen_wherever_it_is_cut() {
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
    fn one_that_is_too_large_is_parsed() {
        let mut partial = Partial::default();
        partial.parsed(900);
        assert!(!partial.is_worth_parsing(&[b'a'; 999], 1000));
        assert!(partial.is_worth_parsing(&[b'a'; 1000], 1000));
    }
}
