//! Searches sixteen bytes at once for the first byte of interest.

/// Number of bytes examined at once.
pub(crate) const LANES: usize = 16;

/// Returns the index of the first wanted byte among the sixteen bytes at `at`. The inner `None` means that none is wanted, the outer `None`
/// that fewer than sixteen bytes remain. Written so that the compiler emits vector instructions, which requires a simple predicate.
#[inline(always)]
pub(crate) fn first(
    bytes: &[u8],
    at: usize,
    is_wanted: impl Fn(u8) -> bool,
) -> Option<Option<usize>> {
    let chunk: &[u8; LANES] = bytes.get(at..)?.first_chunk()?;
    let mut marks = [0u8; LANES];
    // Harmless: both arrays have `LANES` items.
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
