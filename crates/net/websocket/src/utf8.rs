//! Validates UTF-8 that arrives in pieces.

use crate::frame::{Mask, is_ascii};

/// The validation of one text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Utf8 {
    /// The first `len` bytes are the beginning of an incomplete character.
    begun: [u8; 4],
    len: u8,
}

impl Utf8 {
    /// Validates the next bytes of the text. Returns false if the text cannot be UTF-8, whatever follows.
    pub(crate) fn pass(&mut self, mut bytes: &[u8]) -> bool {
        while self.len > 0 {
            let Some((next, rest)) = bytes.split_first() else { return true };
            if let Some(place) = self.begun.get_mut(usize::from(self.len)) {
                *place = *next;
            }
            (self.len, bytes) = (self.len + 1, rest);
            match std::str::from_utf8(self.begun()) {
                Ok(_) => self.len = 0,
                Err(error) if error.error_len().is_some() => return false,
                Err(_) => {}
            }
        }
        if is_ascii(bytes, Mask::default(), 0) {
            return true;
        }
        let Err(error) = std::str::from_utf8(bytes) else { return true };
        let rest = bytes.get(error.valid_up_to()..).unwrap_or_default();
        if error.error_len().is_some() {
            return false;
        }
        // Harmless: an incomplete character has at most three bytes.
        self.begun.iter_mut().zip(rest).for_each(|(place, byte)| *place = *byte);
        self.len = u8::try_from(rest.len()).unwrap_or(0);
        true
    }

    /// Returns true if the text may end here.
    pub(crate) fn is_whole(&self) -> bool {
        self.len == 0
    }

    fn begun(&self) -> &[u8] {
        self.begun.get(..usize::from(self.len)).unwrap_or_default()
    }
}
