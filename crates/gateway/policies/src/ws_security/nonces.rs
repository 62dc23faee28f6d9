//! Remembers accepted tokens until they are too old to be accepted again.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The maximum number of remembered nonces. Only tokens with a correct password are remembered, so attackers cannot fill the list.
const NONCES_MAX: usize = 200_000;

/// Digests of tokens with the second until which each is remembered, for all workers, since a replay may arrive at any of them. The lock is
/// held for one map operation.
#[derive(Debug, Default)]
pub struct Nonces(Mutex<NonceTable>);

#[derive(Debug, Default)]
struct NonceTable {
    until: HashMap<[u8; 32], u64>,
    /// The second in which expired entries were last removed.
    cleaned: u64,
}

/// The list is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Full;

impl Nonces {
    /// Remembers a token for `life` seconds. Returns false if it is already known.
    pub(super) fn note(&self, token: [u8; 32], now: u64, life: u64) -> Result<bool, Full> {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.until.get(&token).is_some_and(|until| *until > now) {
            return Ok(false);
        }
        // Scanning all entries once per second is cheap.
        if seen.until.len() >= NONCES_MAX && seen.cleaned != now {
            seen.cleaned = now;
            seen.until.retain(|_, until| *until > now);
        }
        if seen.until.len() >= NONCES_MAX {
            return Err(Full);
        }
        seen.until.insert(token, now.saturating_add(life));
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(number: usize) -> [u8; 32] {
        let mut token = [0; 32];
        token[..8].copy_from_slice(&number.to_be_bytes());
        token
    }

    #[test]
    fn a_token_is_new_once_and_old_ones_make_room() {
        let nonces = Nonces::default();
        assert_eq!(nonces.note(token(0), 100, 10), Ok(true));
        assert_eq!(nonces.note(token(0), 109, 10), Ok(false));
        assert_eq!(nonces.note(token(0), 110, 10), Ok(true));
        for number in 1..NONCES_MAX {
            assert_eq!(nonces.note(token(number), 110, 10), Ok(true));
        }
        assert_eq!(nonces.note(token(NONCES_MAX), 111, 10), Err(Full));
        assert_eq!(nonces.note(token(NONCES_MAX), 120, 10), Ok(true));
    }
}
