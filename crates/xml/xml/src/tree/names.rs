//! The names of a document: each combination of prefix, local part and namespace, once.
//!
//! Names outlive their document when its memory is reused, because the messages of a thread mostly use the same names.

use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::chars::same;
use crate::intern::{Interner, NONE, hash};
use crate::scope::NO_NAMESPACE;
use crate::tree::NameId;
use crate::{Namespace, QName, XML_NAMESPACE};

/// Initial size of the hash table, enough for an ordinary message.
const ROOM_PLACES: usize = 64;

/// Maximum number of names, prefixes or namespaces in a table that the next document reuses. After a larger one, it starts with an empty
/// table.
const KEPT_MAX: usize = 256;

/// Maximum total length of names, prefixes and namespaces in a table that the next document reuses.
const KEPT_BYTES_MAX: usize = 32 << 10;

#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Unique id. A table keeps its id as long as its names keep their numbers.
    id: u64,
    names: Vec<Name>,
    /// Hash table of names, at most half full. The hash has a secret seed, so that an attacker cannot choose names that collide.
    table: Vec<u32>,
    seed: u64,
    /// The prefixes of namespace declarations.
    prefixes: Interner,
    uris: Interner,
    /// Total bytes of all names, prefixes and namespaces.
    bytes: usize,
}

#[derive(Debug, Clone)]
struct Name {
    /// The prefix followed by the local part.
    text: Box<str>,
    prefix_len: u32,
    uri: u32,
}

impl Name {
    #[inline]
    fn parts(&self) -> (&str, &str) {
        match self.prefix_len {
            0 => ("", &self.text),
            len => self.text.split_at_checked(len as usize).unwrap_or(("", &self.text)),
        }
    }
}

impl Clone for Names {
    /// The copy gets an id of its own, because names added to one are not in the other.
    fn clone(&self) -> Names {
        Names {
            id: fresh_id(),
            names: self.names.clone(),
            table: self.table.clone(),
            seed: self.seed,
            prefixes: self.prefixes.clone(),
            uris: self.uris.clone(),
            bytes: self.bytes,
        }
    }
}

fn fresh_id() -> u64 {
    static LAST: AtomicU64 = AtomicU64::new(0);
    LAST.fetch_add(1, Ordering::Relaxed) + 1
}

impl Names {
    pub(crate) fn new() -> Names {
        let mut names = Names {
            id: fresh_id(),
            names: Vec::with_capacity(ROOM_PLACES / 2),
            table: vec![NONE; ROOM_PLACES],
            seed: RandomState::new().hash_one(1u8),
            prefixes: Interner::new(),
            uris: Interner::new(),
            bytes: 0,
        };
        for uri in ["", XML_NAMESPACE] {
            names.uris.number(uri);
        }
        names.number("", "", NO_NAMESPACE);
        names
    }

    /// Returns whether another document may reuse the table: it is not larger than that of ordinary documents.
    pub(crate) fn are_few(&self) -> bool {
        let most = self.names.len().max(self.prefixes.len()).max(self.uris.len());
        most <= KEPT_MAX && self.bytes <= KEPT_BYTES_MAX
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn prefix(&self, number: u32) -> &str {
        self.prefixes.get(number)
    }

    pub(crate) fn uri(&self, number: u32) -> &str {
        self.uris.get(number)
    }

    #[inline]
    pub(crate) fn prefix_number(&mut self, text: &str) -> Option<u32> {
        match self.prefixes.find(text) {
            Some(number) => Some(number),
            None => {
                self.bytes += text.len();
                self.prefixes.number(text)
            }
        }
    }

    pub(crate) fn uri_number(&mut self, text: &str) -> Option<u32> {
        match text {
            "" => Some(NO_NAMESPACE),
            text => match self.uris.find(text) {
                Some(number) => Some(number),
                None => {
                    self.bytes += text.len();
                    self.uris.number(text)
                }
            },
        }
    }

    #[inline]
    pub(crate) fn get(&self, id: NameId) -> QName<'_> {
        let Some(name) = self.names.get(id.0 as usize) else {
            let namespace = Namespace { id: NO_NAMESPACE, uri: "" };
            return QName { prefix: "", local: "", namespace };
        };
        let (prefix, local) = name.parts();
        QName { prefix, local, namespace: Namespace { id: name.uri, uri: self.uris.get(name.uri) } }
    }

    /// Returns the number of a name, given the number of its namespace. Adds the name if it is new. Returns `None` if there are too many
    /// names, or if the prefix is too long.
    #[inline]
    pub(crate) fn number(&mut self, prefix: &str, local: &str, uri: u32) -> Option<NameId> {
        let mut place = self.place(prefix.as_bytes(), local.as_bytes(), uri);
        loop {
            let number = self.table.get(place).copied().unwrap_or(NONE);
            let Some(known) = self.names.get(number as usize) else { break };
            if known.uri == uri {
                let (known_prefix, known_local) = known.parts();
                if same(known_local.as_bytes(), local.as_bytes())
                    && same(known_prefix.as_bytes(), prefix.as_bytes())
                {
                    return Some(NameId(number));
                }
            }
            place = (place + 1) & (self.table.len() - 1);
        }
        self.add(prefix, local, uri)
    }

    #[cold]
    fn add(&mut self, prefix: &str, local: &str, uri: u32) -> Option<NameId> {
        // Harmless: the caller refuses a name without a number.
        let number = u32::try_from(self.names.len()).ok().filter(|number| *number != NONE)?;
        let prefix_len = u32::try_from(prefix.len()).ok()?;
        let text: Box<str> = match prefix {
            "" => local.into(),
            prefix => format!("{prefix}{local}").into(),
        };
        self.bytes += text.len();
        self.names.push(Name { text, prefix_len, uri });
        if self.names.len() * 2 > self.table.len() {
            self.grow()
        } else {
            self.enter(number)
        }
        Some(NameId(number))
    }

    fn grow(&mut self) {
        let len = self.table.len() * 2;
        self.table.clear();
        self.table.resize(len, NONE);
        for number in 0..u32::try_from(self.names.len()).unwrap_or(0) {
            self.enter(number);
        }
    }

    fn enter(&mut self, number: u32) {
        let Some(name) = self.names.get(number as usize) else { return };
        let (prefix, local) = name.parts();
        let mut place = self.place(prefix.as_bytes(), local.as_bytes(), name.uri);
        while self.table.get(place).is_some_and(|taken| *taken != NONE) {
            place = (place + 1) & (self.table.len() - 1);
        }
        if let Some(free) = self.table.get_mut(place) {
            *free = number;
        }
    }

    #[inline]
    fn place(&self, prefix: &[u8], local: &[u8], uri: u32) -> usize {
        let mut hashed = hash(local, self.seed ^ u64::from(uri) << 32);
        if !prefix.is_empty() {
            hashed = hash(prefix, hashed);
        }
        usize::try_from(hashed & (self.table.len() as u64).wrapping_sub(1)).unwrap_or(0)
    }
}
