//! The names of a document: each prefix, local part and namespace once, and each of their combinations once.

use crate::intern::{Interner, NONE, fold, hash};
use crate::scope::NO_NAMESPACE;
use crate::tree::NameId;
use crate::{Namespace, QName, XML_NAMESPACE};

#[derive(Debug, Clone)]
pub(crate) struct Names {
    /// Prefixes and local parts.
    strings: Interner,
    uris: Interner,
    names: Vec<Name>,
    /// Names by hash, half of the places free.
    table: Vec<u32>,
    seed: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Name {
    prefix: u32,
    local: u32,
    uri: u32,
}

impl Names {
    pub(crate) fn new() -> Names {
        let mut names = Names {
            strings: Interner::new(),
            uris: Interner::new(),
            names: Vec::new(),
            table: vec![NONE; 32],
            seed: hash(b"names", 0),
        };
        for uri in ["", XML_NAMESPACE] {
            names.uris.number(uri);
        }
        names.number("", "", "");
        names
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }

    pub(crate) fn string(&self, number: u32) -> &str {
        self.strings.get(number)
    }

    pub(crate) fn uri(&self, number: u32) -> &str {
        self.uris.get(number)
    }

    pub(crate) fn string_number(&mut self, text: &str) -> Option<u32> {
        self.strings.number(text)
    }

    pub(crate) fn uri_number(&mut self, text: &str) -> Option<u32> {
        match text {
            "" => Some(NO_NAMESPACE),
            text => self.uris.number(text),
        }
    }

    pub(crate) fn get(&self, id: NameId) -> QName<'_> {
        let name = self.names.get(id.0 as usize);
        let Name { prefix, local, uri } =
            name.copied().unwrap_or(Name { prefix: 0, local: 0, uri: 0 });
        QName {
            prefix: self.strings.get(prefix),
            local: self.strings.get(local),
            namespace: Namespace { id: uri, uri: self.uris.get(uri) },
        }
    }

    /// The number of a name. None: there are too many.
    pub(crate) fn number(&mut self, prefix: &str, local: &str, uri: &str) -> Option<NameId> {
        let name = Name {
            prefix: self.strings.number(prefix)?,
            local: self.strings.number(local)?,
            uri: self.uri_number(uri)?,
        };
        let mut place = self.place(name);
        loop {
            match self.table.get(place).copied().unwrap_or(NONE) {
                NONE => break,
                number if self.names.get(number as usize) == Some(&name) => {
                    return Some(NameId(number));
                }
                _ => place = (place + 1) & (self.table.len() - 1),
            }
        }
        let number = u32::try_from(self.names.len()).ok()?;
        self.names.push(name);
        match self.names.len() * 2 > self.table.len() {
            true => self.grow(),
            false => self.enter(number, name),
        }
        Some(NameId(number))
    }

    fn grow(&mut self) {
        let len = self.table.len() * 2;
        self.table.clear();
        self.table.resize(len, NONE);
        for (number, name) in self.names.clone().into_iter().enumerate() {
            self.enter(u32::try_from(number).unwrap_or(NONE), name);
        }
    }

    fn enter(&mut self, number: u32, name: Name) {
        let mut place = self.place(name);
        while self.table.get(place).is_some_and(|taken| *taken != NONE) {
            place = (place + 1) & (self.table.len() - 1);
        }
        if let Some(free) = self.table.get_mut(place) {
            *free = number;
        }
    }

    /// Numbers are given out in the order of the document, so they cannot be chosen to collide as texts could.
    fn place(&self, name: Name) -> usize {
        let mixed = (u64::from(name.local) << 32 | u64::from(name.prefix))
            ^ (u64::from(name.uri) << 17)
            ^ self.seed;
        let hashed = fold(mixed);
        usize::try_from(hashed & (self.table.len() as u64 - 1)).unwrap_or(0)
    }
}
