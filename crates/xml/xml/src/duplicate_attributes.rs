//! Detection of duplicate attributes in a tag.

use crate::intern::hash;
use crate::machine::Machine;
use crate::sink::{Piece, RawAttribute};
use crate::stop::{Scan, bad};
use crate::window::Window;

/// From this number of attributes on, they are compared by hash.
const MANY: usize = 12;

impl Machine {
    pub(crate) fn check_twice(&mut self, window: &Window<'_>, at: usize) -> Scan<()> {
        let twice = match self.attributes.len() {
            0..MANY => self.twice_among_few(window),
            _ => self.twice_by_hash(window),
        };
        match twice {
            None => Ok(()),
            Some(raw) => {
                let place = if raw.name.written { at } else { raw.name.from };
                let name = raw.name.of(window.text, &self.written);
                Err(bad(place, format!("the attribute `{name}` comes twice in one tag")))
            }
        }
    }

    fn twice_among_few(&self, window: &Window<'_>) -> Option<RawAttribute> {
        let mut rest = self.attributes.as_slice();
        while let Some((last, before)) = rest.split_last() {
            let equal = |raw: &RawAttribute| {
                raw.namespace == last.namespace
                    && raw.local_len() == last.local_len()
                    && self.local(window, raw) == self.local(window, last)
            };
            if before.iter().any(equal) {
                return Some(*last);
            }
            rest = before;
        }
        None
    }

    /// Finds a duplicate with a hash table of at least twice the number of attributes.
    fn twice_by_hash(&mut self, window: &Window<'_>) -> Option<RawAttribute> {
        let len = (self.attributes.len() * 2).next_power_of_two();
        let mut places = std::mem::take(&mut self.places);
        places.clear();
        places.resize(len, u32::MAX);
        let mut twice = None;
        for (index, raw) in self.attributes.iter().enumerate() {
            let local = self.local(window, raw);
            let hashed = hash(local.as_bytes(), self.seed ^ u64::from(raw.namespace));
            let mut place = usize::try_from(hashed & (len as u64 - 1)).unwrap_or(0);
            loop {
                let taken =
                    places.get(place).and_then(|taken| self.attributes.get(*taken as usize));
                match taken {
                    None => break,
                    Some(other)
                        if other.namespace == raw.namespace
                            && self.local(window, other) == local =>
                    {
                        twice = twice.or(Some(*raw));
                        break;
                    }
                    Some(_) => place = (place + 1) & (len - 1),
                }
            }
            if let (Some(free), Ok(index)) = (places.get_mut(place), u32::try_from(index)) {
                *free = index;
            }
        }
        self.places = places;
        twice
    }

    #[inline]
    fn local<'a>(&'a self, window: &Window<'a>, raw: &RawAttribute) -> &'a str {
        let name = Piece { from: raw.name.to - raw.local_len(), ..raw.name };
        name.of(window.text, &self.written)
    }
}
