//! Buffers that a thread lends for the duration of one poll.
//!
//! No connection holds a buffer while it waits. Within a poll, bytes are read into the thread's scratch buffer, and output is built in
//! another; only unprocessed bytes are kept per connection. A lent buffer is returned when its guard is dropped. If all buffers are lent, a
//! new one is allocated, so nesting is harmless.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};

use bytes::Bytes;

/// The maximum size of one read, and the size at which output is written. A body of 100 KiB with its head fits: in measurements, one read
/// and one write were faster than two of half the size.
pub const SCRATCH_BYTES: usize = 128 * 1024;

/// Pieces of at least this size are not copied: they keep the buffer that they were read into, and are written from there.
pub const LARGE_BYTES: usize = 32 * 1024;

/// A scratch buffer with more capacity than this is freed instead of kept.
const KEPT_BYTES_MAX: usize = 4 * SCRATCH_BYTES;

thread_local! {
    /// One buffer for input, one for output, and one for a step in between. A buffer without capacity is lent, or was never allocated.
    static KEPT: [Cell<Vec<u8>>; 3] = const { [const { Cell::new(Vec::new()) }; 3] };
}

/// A buffer with a capacity of at least [`SCRATCH_BYTES`], lent by the thread.
pub struct Scratch(Vec<u8>);

/// Lends an empty buffer.
pub fn lend() -> Scratch {
    let kept = KEPT.with(|kept| kept.iter().map(Cell::take).find(|kept| kept.capacity() > 0));
    Scratch(kept.unwrap_or_else(|| Vec::with_capacity(SCRATCH_BYTES)))
}

impl Scratch {
    /// Returns a part of the buffer that outlives the loan. A large part takes the memory of the buffer, and leaves it empty.
    pub fn part(&mut self, part: Range<usize>) -> Bytes {
        if part.len() >= LARGE_BYTES && part.end <= self.0.len() {
            Bytes::from(std::mem::take(&mut self.0)).slice(part)
        } else {
            Bytes::copy_from_slice(self.0.get(part).unwrap_or(&[]))
        }
    }
}

impl Deref for Scratch {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.0
    }
}

impl DerefMut for Scratch {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut buffer = std::mem::take(&mut self.0);
        if buffer.capacity() < SCRATCH_BYTES || buffer.capacity() > KEPT_BYTES_MAX {
            return;
        }
        buffer.clear();
        KEPT.with(|kept| {
            // The buffer goes to an empty slot. A fourth buffer is freed.
            for place in kept {
                buffer = place.replace(buffer);
                if buffer.capacity() == 0 {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_a_copy_or_the_buffer_itself() {
        let mut buffer = lend();
        buffer.extend_from_slice(b"head");
        assert_eq!(buffer.part(1..3), b"ea"[..]);
        assert_eq!(buffer.part(3..9), b""[..]);
        assert_eq!(&buffer[..], b"head");
        buffer.resize(4 + LARGE_BYTES, b'x');
        let at = buffer.as_ptr();
        let part = buffer.part(4..4 + LARGE_BYTES);
        assert_eq!((part.len(), part.as_ptr()), (LARGE_BYTES, at.wrapping_add(4)));
        assert!(buffer.is_empty());
        drop(buffer);
        assert!(lend().capacity() >= SCRATCH_BYTES);
    }

    #[test]
    fn nested_loans_are_distinct_and_come_back_empty() {
        let mut a = lend();
        a.extend_from_slice(b"a");
        let mut b = lend();
        b.extend_from_slice(b"b");
        assert_eq!((&a[..], &b[..]), (&b"a"[..], &b"b"[..]));
        drop((a, b));
        assert!(lend().is_empty());
        let places = |count| {
            let lent: Vec<Scratch> = std::iter::repeat_with(lend).take(count).collect();
            lent.iter().map(|lent| lent.as_ptr()).collect::<std::collections::BTreeSet<_>>()
        };
        assert_eq!(places(3), places(3), "three are kept");
        assert_eq!(places(4).len(), 4);
    }
}
