//! Search of sixteen bytes at once for the first one that is wanted.

/// Number of bytes.
pub(crate) const LANES: usize = 16;

/// Returns how many of the sixteen bytes at `at` stand before the first one wanted, and None if none is; the outer None means that
/// there are fewer bytes. Written so that the compiler emits vector instructions: the question has to be simple.
#[inline(always)]
pub(crate) fn first(
    bytes: &[u8],
    at: usize,
    is_wanted: impl Fn(u8) -> bool,
) -> Option<Option<usize>> {
    let chunk: &[u8; LANES] = bytes.get(at..)?.first_chunk()?;
    let mut marks = [0u8; LANES];
    // Harmless: both have as many lanes.
    for (mark, byte) in marks.iter_mut().zip(chunk) {
        *mark = if is_wanted(*byte) { 0xFF } else { 0 };
    }
    Some(match u128::from_le_bytes(marks) {
        0 => None,
        marks => Some((marks.trailing_zeros() / 8) as usize),
    })
}

#[cfg(test)]
mod tests {
    use super::{LANES, first};

    #[test]
    fn the_first_of_two_bytes_is_found_at_each_place() {
        for at in 0..LANES {
            for (byte, other) in [(b'<', b'&'), (0x80, 0xFF)] {
                let wanted = |b: u8| (b == byte) | (b == other);
                let mut text = [b'a'; LANES + 1];
                text[0] = byte;
                assert_eq!(first(&text, 1, wanted), Some(None));
                text[LANES] = other;
                text[at + 1] = byte;
                assert_eq!(first(&text, 1, wanted), Some(Some(at)));
            }
        }
        assert_eq!(first(&[0; LANES], 1, |_| true), None);
    }
}
