//! Memory a thread lends out for the length of one poll.
//!
//! No connection holds a buffer while it waits: bytes are read into the thread's scratch buffer inside a poll, outgoing
//! bytes are built in another, and only what is left over is kept per connection. A lent buffer comes back when its
//! guard drops; asking again meanwhile gives a fresh one, so nesting is harmless.

use std::cell::Cell;
use std::ops::{Deref, DerefMut, Range};

use bytes::Bytes;

/// What one read takes at the most, and the size at which building output stops for a write.
/// A 100 KiB body with its head fits: measured, one read and one write beat two of half the size.
pub const SCRATCH_BYTES: usize = 128 * 1024;

/// From here on bytes are not copied: they leave with the buffer they were read into, and are written from where they are.
pub const LARGE_BYTES: usize = 32 * 1024;

/// A scratch buffer that grew past this is given back to the allocator instead of being kept.
const KEPT_BYTES_MAX: usize = 4 * SCRATCH_BYTES;

thread_local! {
    /// Two buffers, one to read into and one to build into. An empty one is lent out, or was never made.
    static KEPT: [Cell<Vec<u8>>; 2] = const { [Cell::new(Vec::new()), Cell::new(Vec::new())] };
}

/// An empty buffer of at least [`SCRATCH_BYTES`] capacity, lent by the thread.
pub struct Scratch(Vec<u8>);

/// Lends a buffer. It is empty.
pub fn lend() -> Scratch {
    let kept = KEPT.with(|[first, second]| match first.take() {
        taken if taken.capacity() > 0 => taken,
        _ => second.take(),
    });
    match kept.capacity() {
        0 => Scratch(Vec::with_capacity(SCRATCH_BYTES)),
        _ => Scratch(kept),
    }
}

impl Scratch {
    /// A part of it that outlives the loan. A large one takes the memory with it, and the buffer is empty then.
    pub fn part(&mut self, part: Range<usize>) -> Bytes {
        match part.len() >= LARGE_BYTES && part.end <= self.0.len() {
            true => Bytes::from(std::mem::take(&mut self.0)).slice(part),
            false => Bytes::copy_from_slice(self.0.get(part).unwrap_or_default()),
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
        KEPT.with(|[first, second]| {
            // Whichever place is empty; a third buffer is freed.
            let displaced = first.replace(buffer);
            if displaced.capacity() > 0 {
                drop(second.replace(displaced));
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
    }
}
