//! Classifies bytes by where the grammar allows them. Every request has a path, a host and header names to check, and a table is faster
//! than comparisons.

/// Allowed in a path without further checks.
pub(crate) const IN_PATHS: u8 = 1;
/// Allowed in a DNS-like name, including dots.
pub(crate) const IN_HOSTS: u8 = 2;
/// Allowed in a token (RFC 9110, 5.6.2).
pub(crate) const IN_TOKENS: u8 = 4;
/// Allowed in a token without upper-case letters.
pub(crate) const IN_LOWER_CASE_TOKENS: u8 = 8;

/// Returns the kinds of this byte.
pub(crate) fn of(byte: u8) -> u8 {
    KINDS.get(usize::from(byte)).copied().unwrap_or(0)
}

/// Returns the kinds that all of these bytes have in common. There is no early exit: names are short, and nearly all of them are valid.
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
