//! Names as small numbers.
//!
//! Owns the table of the names a schema mentions. A document's names are looked up in it and never added to it, so that
//! hostile names cost a look and nothing else.

/// A namespace that a schema mentions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct NsId(pub(crate) u32);

/// A name (namespace and local part) that a schema mentions.
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
    /// A namespace no schema mentions.
    pub(crate) const UNKNOWN: NsId = NsId(u32::MAX);
}

impl Sym {
    /// A name no schema mentions.
    pub(crate) const UNKNOWN: Sym = Sym(u32::MAX);
}

#[derive(Debug, Clone)]
struct Entry {
    namespace: NsId,
    hash: u64,
    local: Box<str>,
}

/// Names to numbers and back: open addressing with linear probing, at most half full.
#[derive(Debug, Clone)]
pub(crate) struct Names {
    namespaces: Vec<Box<str>>,
    entries: Vec<Entry>,
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
        at.and_then(|at| u32::try_from(at).ok()).map_or(NsId::UNKNOWN, NsId)
    }

    pub(crate) fn intern(&mut self, namespace: NsId, local: &str) -> Sym {
        let found = self.find(namespace, local);
        if found != Sym::UNKNOWN {
            return found;
        }
        let sym = u32::try_from(self.entries.len()).unwrap_or(FREE);
        let hash = hash(namespace, local.as_bytes());
        self.entries.push(Entry { namespace, hash, local: local.into() });
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
        let mut slot = self.slot(entry.hash);
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

    /// The number of a name, or [`Sym::UNKNOWN`].
    #[inline]
    pub(crate) fn find(&self, namespace: NsId, local: &str) -> Sym {
        let hash = hash(namespace, local.as_bytes());
        let mut slot = self.slot(hash);
        // The table is never full, so that a free slot ends the search.
        while let Some(&index) = self.slots.get(slot) {
            let Some(entry) = usize::try_from(index).ok().and_then(|at| self.entries.get(at))
            else {
                break;
            };
            if entry.hash == hash
                && entry.namespace == namespace
                && same(entry.local.as_bytes(), local.as_bytes())
            {
                return Sym(index);
            }
            slot = (slot + 1) & (self.slots.len() - 1);
        }
        Sym::UNKNOWN
    }

    pub(crate) fn namespace_of(&self, sym: Sym) -> NsId {
        self.entry(sym).map_or(NsId::UNKNOWN, |entry| entry.namespace)
    }

    pub(crate) fn local(&self, sym: Sym) -> &str {
        self.entry(sym).map_or("", |entry| &entry.local)
    }

    pub(crate) fn uri(&self, namespace: NsId) -> &str {
        usize::try_from(namespace.0)
            .ok()
            .and_then(|at| self.namespaces.get(at))
            .map_or("", |uri| &**uri)
    }

    /// `{uri}local`, as messages have it.
    pub(crate) fn text(&self, sym: Sym) -> String {
        match self.uri(self.namespace_of(sym)) {
            "" => self.local(sym).to_owned(),
            uri => format!("{{{uri}}}{}", self.local(sym)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    fn entry(&self, sym: Sym) -> Option<&Entry> {
        usize::try_from(sym.0).ok().and_then(|at| self.entries.get(at))
    }
}

/// Equality without a call: libc's `memcmp` was 40 % of a prototype's time, names being so short.
#[inline]
fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let (left, right) = (a.chunks_exact(8), b.chunks_exact(8));
    let tail = left.remainder().iter().zip(right.remainder()).all(|(x, y)| x == y);
    tail && left.zip(right).all(|(x, y)| word(x) == word(y))
}

#[inline]
fn word(bytes: &[u8]) -> u64 {
    bytes.first_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

/// First and last bytes, length and namespace: names differ there.
#[inline]
fn hash(namespace: NsId, local: &[u8]) -> u64 {
    let length = local.len();
    let mixed = if length >= 8 {
        let first = word(local);
        let last = local.last_chunk::<8>().map_or(0, |chunk| u64::from_le_bytes(*chunk));
        first.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ last.rotate_left(29)
    } else {
        local.iter().fold(0, |sum, &byte| (sum << 8) | u64::from(byte))
    };
    let salt = (u64::from(namespace.0) << 8) ^ length as u64;
    let product = (mixed ^ salt.rotate_left(48)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    product ^ (product >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found_again_and_others_are_not() {
        let mut names = Names::new();
        let uri = names.namespace("http://tempuri.org/");
        let syms: Vec<Sym> =
            (0..500).map(|n| names.intern(uri, &format!("name{n}longer"))).collect();
        for (n, &sym) in syms.iter().enumerate() {
            assert_eq!(names.find(uri, &format!("name{n}longer")), sym);
            assert_eq!(names.find(NsId::ABSENT, &format!("name{n}longer")), Sym::UNKNOWN);
        }
        assert_eq!(names.find(uri, ""), Sym::UNKNOWN);
        assert_eq!(names.text(syms[3]), "{http://tempuri.org/}name3longer");
    }
}
