//! The places of the grammar where each byte is allowed. A table is faster than comparisons: every request has a path, a host and
//! names of header lines.

/// A path, where it needs no further check.
pub(crate) const IN_PATHS: u8 = 1;
/// A DNS-like name, its dots included.
pub(crate) const IN_HOSTS: u8 = 2;
/// A token (RFC 9110, 5.6.2).
pub(crate) const IN_TOKENS: u8 = 4;
/// A token without capitals.
pub(crate) const IN_LOWER_CASE_TOKENS: u8 = 8;

/// The kinds that this byte is of.
pub(crate) fn of(byte: u8) -> u8 {
    KINDS.get(usize::from(byte)).copied().unwrap_or(0)
}

/// The kinds that all of these bytes are of. No early exit: names are short, and nearly all of them are good.
pub(crate) fn of_all(bytes: &[u8]) -> u8 {
    bytes.iter().fold(u8::MAX, |all, byte| all & of(*byte))
}

#[allow(clippy::indexing_slicing, reason = "what is out of bounds in a constant does not compile")]
static KINDS: [u8; 256] = {
    let (mut kinds, mut byte) = ([0; 256], 0u8);
    loop {
        let in_path = matches!(byte, b'!'..=b'~') && !matches!(byte, b'#' | b'%' | b'?' | b'\\');
        let in_host = byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
        let in_lower = matches!(byte,
            b'0'..=b'9' | b'a'..=b'z' | b'!' | b'#' | b'$' | b'%' | b'&' | b'\'' | b'*' | b'+' | b'-'
            | b'.' | b'^' | b'_' | b'`' | b'|' | b'~');
        let in_token = in_lower || byte.is_ascii_uppercase();
        kinds[byte as usize] = in_path as u8 * IN_PATHS
            + in_host as u8 * IN_HOSTS
            + in_token as u8 * IN_TOKENS
            + in_lower as u8 * IN_LOWER_CASE_TOKENS;
        if byte == u8::MAX {
            break kinds;
        }
        byte += 1;
    }
};
