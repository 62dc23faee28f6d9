//! A bounded queue of lines with one writer and one reader, without locks.
//!
//! The ring consists of words. Each line follows a word with its length in bytes. The writer owns `head`, the reader owns
//! `tail`, and each only reads the other's. The words are atomics, so that no unsafe code is needed; a relaxed store is as fast
//! as an ordinary one.

use crate::count::CachePadded;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

const WORD: usize = size_of::<u64>();

/// The outcome of pushing a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PushOutcome {
    Kept,
    /// Stored. With this line the ring became half full, so the reader should be woken.
    HalfFull,
    /// Dropped, because there was no room.
    Full,
}

#[derive(Debug)]
pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    /// Words written so far. Only the writer writes it.
    head: CachePadded<AtomicU64>,
    /// Words read so far. Only the reader writes it.
    tail: CachePadded<AtomicU64>,
}

impl Ring {
    /// A ring for this many bytes, rounded up to a power of two words.
    pub(super) fn new(bytes: usize) -> Ring {
        let words = (bytes / WORD).next_power_of_two();
        Ring {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            head: CachePadded::default(),
            tail: CachePadded::default(),
        }
    }

    /// Appends a line. Only the one writer may call it.
    pub(super) fn push(&self, line: &[u8]) -> PushOutcome {
        let size = self.words.len() as u64;
        let head = self.head.0.load(Relaxed);
        // The reader may have advanced meanwhile. Then there is more space than computed here.
        let used = head - self.tail.0.load(Acquire);
        let needed = 1 + line.len().div_ceil(WORD) as u64;
        if used + needed > size {
            return PushOutcome::Full;
        }
        self.put(head, line.len() as u64);
        let (whole, rest) = line.as_chunks::<WORD>();
        // Harmless: there is a place for each word.
        for (at, chunk) in (head + 1..).zip(whole) {
            self.put(at, u64::from_le_bytes(*chunk));
        }
        let mut last = [0; WORD];
        // Harmless: the rest is shorter than a word.
        last.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
        if !rest.is_empty() {
            self.put(head + needed - 1, u64::from_le_bytes(last));
        }
        self.head.0.store(head + needed, Release);
        if used < size / 2 && used + needed >= size / 2 {
            PushOutcome::HalfFull
        } else {
            PushOutcome::Kept
        }
    }

    /// Moves all available lines to `lines` and returns their number. Only the one reader may call it.
    pub(super) fn take(&self, lines: &mut Vec<u8>) -> u64 {
        let mut tail = self.tail.0.load(Relaxed);
        let head = self.head.0.load(Acquire);
        let mut count = 0;
        while tail < head {
            let mut left = usize::try_from(self.word(tail)).unwrap_or(0);
            tail += 1;
            while left > 0 {
                let taken = left.min(WORD);
                // Harmless: the last word is filled up.
                lines.extend(self.word(tail).to_le_bytes().iter().take(taken));
                left -= taken;
                tail += 1;
            }
            count += 1;
        }
        self.tail.0.store(tail, Release);
        count
    }

    fn put(&self, at: u64, word: u64) {
        if let Some(place) = self.words.get(self.place(at)) {
            place.store(word, Relaxed);
        }
    }

    fn word(&self, at: u64) -> u64 {
        self.words.get(self.place(at)).map_or(0, |place| place.load(Relaxed))
    }

    #[allow(clippy::cast_possible_truncation, reason = "masked to the size, which is a usize")]
    fn place(&self, at: u64) -> usize {
        (at & (self.words.len() as u64 - 1)) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_out_as_they_went_in_until_the_ring_is_full() {
        let ring = Ring::new(64);
        let mut out = Vec::new();
        for round in 0..20 {
            let line = format!("line {round}\n");
            assert_eq!(ring.push(line.as_bytes()), PushOutcome::Kept);
            assert_eq!(ring.push(b"a\n"), PushOutcome::HalfFull);
            assert_eq!(ring.push(b"123456789012345678901234567890\n"), PushOutcome::Full);
            assert_eq!(ring.push(b"x\n"), PushOutcome::Kept);
            out.clear();
            assert_eq!(ring.take(&mut out), 3);
            assert_eq!(out, format!("{line}a\nx\n").into_bytes());
        }
        assert_eq!(ring.take(&mut out), 0);
    }

    #[test]
    fn a_concurrent_reader_gets_all_lines_unchanged() {
        let ring = Ring::new(1 << 10);
        let lines = 20_000;
        let mut out = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..lines {
                    while ring.push(format!("{n} {}\n", "x".repeat(n % 40)).as_bytes())
                        == PushOutcome::Full
                    {
                        std::thread::yield_now();
                    }
                }
            });
            let mut taken = 0;
            while taken < lines as u64 {
                taken += ring.take(&mut out);
                std::thread::yield_now();
            }
        });
        let text = String::from_utf8(out).unwrap();
        for (n, line) in text.lines().enumerate() {
            assert_eq!(line, format!("{n} {}", "x".repeat(n % 40)));
        }
        assert_eq!(text.lines().count(), lines);
    }
}
