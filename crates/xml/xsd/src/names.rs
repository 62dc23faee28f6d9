//! Interned names.
//!
//! Owns the table of the names in a schema. Names in instance documents are looked up but never added, so hostile names cost only a
//! look-up.

/// A namespace in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NsId(pub(crate) u32);

/// A name (namespace and local part) in the schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Sym(pub(crate) u32);

pub(crate) const XSD_NAMESPACE: &str = "http://www.w3.org/2001/XMLSchema";
pub(crate) const XSI_NAMESPACE: &str = "http://www.w3.org/2001/XMLSchema-instance";

impl NsId {
    /// No namespace.
    pub(crate) const ABSENT: NsId = NsId(0);
    pub(crate) const XML: NsId = NsId(1);
    pub(crate) const XSD: NsId = NsId(2);
    pub(crate) const XSI: NsId = NsId(3);
    /// A namespace that is not in the schema.
    pub(crate) const UNKNOWN: NsId = NsId(u32::MAX);
}

impl Sym {
    /// A name that is not in the schema.
    pub(crate) const UNKNOWN: Sym = Sym(u32::MAX);
}

#[derive(Debug, Clone)]
struct NameEntry {
    key: Key,
    local: Box<str>,
}

/// A key of fixed size for a name. For local names of up to 16 bytes it is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Key {
    namespace: NsId,
    len: usize,
    first: u64,
    last: u64,
}

/// Number of bytes stored in a [`Key`].
const KEY_BYTES: usize = 16;

/// Name table: open addressing with linear probing, at most half full.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    namespaces: Vec<Box<str>>,
    entries: Vec<NameEntry>,
    slots: Vec<u32>,
}

const FREE: u32 = u32::MAX;

impl Names {
    pub(crate) fn new() -> Names {
        let fixed = ["", xml::XML_NAMESPACE, XSD_NAMESPACE, XSI_NAMESPACE];
        Names {
            namespaces: fixed.iter().map(|&uri| uri.into()).collect(),
            entries: Vec::new(),
            slots: vec![FREE; 64],
        }
    }

    pub(crate) fn namespace(&mut self, uri: &str) -> NsId {
        let found = self.find_namespace(uri);
        if found != NsId::UNKNOWN {
            return found;
        }
        self.namespaces.push(uri.into());
        NsId(u32::try_from(self.namespaces.len() - 1).unwrap_or(u32::MAX))
    }

    pub(crate) fn find_namespace(&self, uri: &str) -> NsId {
        let at = self.namespaces.iter().position(|known| **known == *uri);
        // Harmless: there are fewer namespaces than a `u32` can count.
        at.and_then(|at| u32::try_from(at).ok()).map_or(NsId::UNKNOWN, NsId)
    }

    pub(crate) fn intern(&mut self, namespace: NsId, local: &str) -> Sym {
        let found = self.find(namespace, local);
        if found != Sym::UNKNOWN {
            return found;
        }
        let sym = u32::try_from(self.entries.len()).unwrap_or(FREE);
        self.entries
            .push(NameEntry { key: Key::new(namespace, local.as_bytes()), local: local.into() });
        if self.entries.len() * 2 > self.slots.len() {
            let larger = self.slots.len() * 2;
            self.slots = vec![FREE; larger];
            for index in 0..self.entries.len() {
                self.place(index);
            }
        } else {
            self.place(self.entries.len() - 1);
        }
        Sym(sym)
    }

    fn place(&mut self, index: usize) {
        let Some(entry) = self.entries.get(index) else { return };
        let mut slot = self.slot(entry.key.hash());
        while self.slots.get(slot).is_some_and(|&taken| taken != FREE) {
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        if let Some(free) = self.slots.get_mut(slot) {
            *free = u32::try_from(index).unwrap_or(FREE);
        }
    }

    #[inline]
    fn slot(&self, hash: u64) -> usize {
        usize::try_from(hash >> 32).unwrap_or(0) & (self.slots.len() - 1)
    }

    /// Returns the number of a name, or [`Sym::UNKNOWN`].
    #[inline]
    pub(crate) fn find(&self, namespace: NsId, local: &str) -> Sym {
        let key = Key::new(namespace, local.as_bytes());
        let mut slot = self.slot(key.hash());
        // The table is never full, so a free slot ends the search.
        while let Some(&index) = self.slots.get(slot) {
            let Some(entry) = self.entries.get(index as usize) else { break };
            if entry.key == key && (local.len() <= KEY_BYTES || *entry.local == *local) {
                return Sym(index);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        Sym::UNKNOWN
    }

    pub(crate) fn namespace_of(&self, sym: Sym) -> NsId {
        self.entry(sym).map_or(NsId::UNKNOWN, |entry| entry.key.namespace)
    }

    pub(crate) fn local(&self, sym: Sym) -> &str {
        self.entry(sym).map_or("", |entry| &entry.local)
    }

    pub(crate) fn uri(&self, namespace: NsId) -> &str {
        // Harmless: an unknown namespace has no URI.
        usize::try_from(namespace.0)
            .ok()
            .and_then(|at| self.namespaces.get(at))
            .map_or("", |uri| &**uri)
    }

    /// Returns `{uri}local`, for messages.
    pub(crate) fn text(&self, sym: Sym) -> String {
        match self.uri(self.namespace_of(sym)) {
            "" => self.local(sym).to_owned(),
            uri => format!("{{{uri}}}{}", self.local(sym)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn entry(&self, sym: Sym) -> Option<&NameEntry> {
        // Harmless: an unknown name has no entry.
        usize::try_from(sym.0).ok().and_then(|at| self.entries.get(at))
    }
}

impl Key {
    #[inline]
    fn new(namespace: NsId, local: &[u8]) -> Key {
        let (first, last) = match (local.first_chunk::<8>(), local.last_chunk::<8>()) {
            (Some(first), Some(last)) => (u64::from_le_bytes(*first), u64::from_le_bytes(*last)),
            _ => (short_word(local), 0),
        };
        Key { namespace, len: local.len(), first, last }
    }

    #[inline]
    fn hash(self) -> u64 {
        let mixed = self.first.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ self.last.rotate_left(29);
        let salt = (u64::from(self.namespace.0) << 8) ^ self.len as u64;
        let product = (mixed ^ salt.rotate_left(48)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        product ^ (product >> 32)
    }
}

/// Packs fewer than eight bytes into a number; different strings of equal length give different numbers.
#[inline]
fn short_word(bytes: &[u8]) -> u64 {
    match (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        (Some(first), Some(last)) => {
            u64::from(u32::from_le_bytes(*first)) << 32 | u64::from(u32::from_le_bytes(*last))
        }
        _ => bytes.iter().fold(0, |sum, &byte| (sum << 8) | u64::from(byte)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interned_names_are_found_and_others_are_not() {
        let mut names = Names::new();
        let uri = names.namespace("http://tempuri.org/");
        let syms: Vec<Sym> =
            (0..500).map(|n| names.intern(uri, &format!("name{n}longer"))).collect();
        for (n, &sym) in syms.iter().enumerate() {
            assert_eq!(names.find(uri, &format!("name{n}longer")), sym);
            assert_eq!(names.find(NsId::ABSENT, &format!("name{n}longer")), Sym::UNKNOWN);
        }
        assert_eq!(names.find(uri, ""), Sym::UNKNOWN);
        let [one, other] = ["beginning-1-of-the-end", "beginning-2-of-the-end"];
        let long = names.intern(uri, one);
        assert_eq!(names.find(uri, other), Sym::UNKNOWN);
        assert_ne!(names.intern(uri, other), long);
        for short in ["a", "ab", "ba", "aba", "abab", "ababa", "babab", "abababa"] {
            assert_eq!(names.find(uri, short), Sym::UNKNOWN, "{short}");
            names.intern(uri, short);
        }
        assert_eq!(names.text(syms[3]), "{http://tempuri.org/}name3longer");
    }
}
