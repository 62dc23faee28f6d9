//! Namespaces in scope: the bindings of prefixes, and the outer bindings that they hide.
//!
//! Owns the numbers of namespace names and prefixes within one parse.

use crate::intern::{Interner, NONE};
use crate::{Namespace, XML_NAMESPACE};

/// The number that means "no namespace".
pub(crate) const NO_NAMESPACE: u32 = 0;

/// All declarations in scope.
#[derive(Debug, Clone)]
pub(crate) struct Spaces {
    uris: Interner,
    prefixes: Interner,
    bindings: Vec<Binding>,
    /// For each prefix, the index of its binding in effect.
    top: Vec<u32>,
}

/// One namespace declaration.
#[derive(Debug, Clone, Copy)]
struct Binding {
    prefix: u32,
    uri: u32,
    /// The index of the outer binding of the same prefix.
    hidden: u32,
}

/// Result of a declaration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DeclareOutcome {
    New,
    /// The same element has already declared the prefix.
    Twice,
    /// There are more namespaces or prefixes than numbers.
    TooMany,
}

impl Spaces {
    pub(crate) fn new() -> Spaces {
        let mut spaces = Spaces {
            uris: Interner::new(),
            prefixes: Interner::new(),
            bindings: Vec::new(),
            top: Vec::new(),
        };
        for uri in ["", XML_NAMESPACE] {
            spaces.uris.number(uri);
        }
        for prefix in ["", "xml"] {
            spaces.prefixes.number(prefix);
        }
        spaces.top.push(NONE);
        spaces.top.push(0);
        spaces.bindings.push(Binding { prefix: 1, uri: 1, hidden: NONE });
        spaces
    }

    pub(crate) fn clear(&mut self) {
        // Harmless: the entries that stay are predefined in every document.
        self.uris.truncate(2);
        // Harmless: the entries that stay are predefined in every document.
        self.prefixes.truncate(2);
        // Harmless: the entries that stay are predefined in every document.
        self.bindings.truncate(1);
        // A parse that ended early may have left other declarations of the default namespace and of `xml` in effect.
        self.top.clear();
        self.top.extend([NONE, 0]);
    }

    /// Restores the bindings of another scope, with the same numbers.
    pub(crate) fn restore(&mut self, other: &Spaces) {
        self.uris.restore(&other.uris);
        self.prefixes.restore(&other.prefixes);
        self.bindings.clone_from(&other.bindings);
        self.top.clone_from(&other.top);
    }

    /// Returns whether there are more declarations than ordinary documents have.
    pub(crate) fn is_large(&self) -> bool {
        self.names_len() > 256 || self.bindings.capacity() > 4096
    }

    /// Returns the number of distinct namespace names or of distinct prefixes so far, whichever is larger.
    pub(crate) fn names_len(&self) -> usize {
        self.uris.len().max(self.prefixes.len())
    }

    pub(crate) fn len(&self) -> usize {
        self.bindings.len()
    }

    /// Adds a declaration. Those from index `from` on belong to the same element.
    #[must_use]
    pub(crate) fn declare(&mut self, from: usize, prefix: &str, uri: &str) -> DeclareOutcome {
        let (Some(prefix), Some(uri)) = (self.prefixes.number(prefix), self.uris.number(uri))
        else {
            return DeclareOutcome::TooMany;
        };
        let Ok(number) = u32::try_from(self.bindings.len()) else { return DeclareOutcome::TooMany };
        if self.top.len() <= prefix as usize {
            self.top.resize(prefix as usize + 1, NONE);
        }
        let Some(top) = self.top.get_mut(prefix as usize) else { return DeclareOutcome::TooMany };
        if *top != NONE && *top as usize >= from {
            return DeclareOutcome::Twice;
        }
        self.bindings.push(Binding { prefix, uri, hidden: *top });
        *top = number;
        DeclareOutcome::New
    }

    /// Adds a declaration by the numbers of its prefix and namespace.
    #[inline]
    pub(crate) fn declare_known(&mut self, prefix: u32, uri: u32) {
        let number = u32::try_from(self.bindings.len()).unwrap_or(NONE);
        let Some(top) = self.top.get_mut(prefix as usize) else { return };
        self.bindings.push(Binding { prefix, uri, hidden: *top });
        *top = number;
    }

    /// Returns the numbers of the last declaration's prefix and namespace.
    pub(crate) fn last(&self) -> Option<(u32, u32)> {
        self.bindings.last().map(|binding| (binding.prefix, binding.uri))
    }

    /// Returns whether a declaration from index `from` on has the prefix.
    pub(crate) fn declares(&self, from: usize, prefix: &str) -> bool {
        let wanted = self.prefixes.find(prefix);
        self.bindings.get(from..).unwrap_or_default().iter().any(|b| Some(b.prefix) == wanted)
    }

    /// Removes all declarations but the first `len`.
    #[inline]
    pub(crate) fn truncate(&mut self, len: usize) {
        while self.bindings.len() > len {
            let Some(binding) = self.bindings.pop() else { return };
            if let Some(top) = self.top.get_mut(binding.prefix as usize) {
                *top = binding.hidden;
            }
        }
    }

    /// Returns the number of a prefix's namespace, or `None` if the prefix is not declared. The empty prefix without a declaration has no
    /// namespace.
    #[inline]
    pub(crate) fn resolve(&self, prefix: &str) -> Option<u32> {
        if prefix.is_empty() {
            return Some(self.default_namespace());
        }
        let number = self.prefixes.find(prefix)?;
        let top = self.top.get(number as usize)?;
        self.bindings.get(*top as usize).map(|binding| binding.uri)
    }

    /// Returns the number of the default namespace.
    #[inline]
    pub(crate) fn default_namespace(&self) -> u32 {
        let top = self.top.first().copied().unwrap_or(NONE);
        self.bindings.get(top as usize).map_or(NO_NAMESPACE, |binding| binding.uri)
    }

    #[inline]
    pub(crate) fn namespace(&self, id: u32) -> Namespace<'_> {
        match id {
            NO_NAMESPACE => Namespace { id, uri: "" },
            id => Namespace { id, uri: self.uris.get(id) },
        }
    }

    /// Returns the declarations from index `from` on, in the order written.
    pub(crate) fn since(&self, from: usize) -> impl Iterator<Item = (&str, &str)> {
        let bindings = self.bindings.get(from..).unwrap_or_default();
        bindings.iter().map(|b| (self.prefixes.get(b.prefix), self.uris.get(b.uri)))
    }

    /// Returns the declarations between `from` and `to` that are in effect, in the order written.
    pub(crate) fn counting(&self, from: usize, to: usize) -> impl Iterator<Item = (&str, &str)> {
        let bindings = self.bindings.get(from..to).unwrap_or_default();
        let counting = bindings.iter().zip(from..).filter(|(b, at)| self.counts(b, *at));
        counting.map(|(b, _)| (self.prefixes.get(b.prefix), self.uris.get(b.uri)))
    }

    /// Returns all declarations in effect, in the order declared.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&str, Namespace<'_>)> {
        let counting = self.bindings.iter().zip(0..).filter(|(b, at)| self.counts(b, *at));
        counting.map(|(b, _)| (self.prefixes.get(b.prefix), self.namespace(b.uri)))
    }

    /// Returns whether a declaration is in effect: no inner one hides it, and it is not an undeclaration.
    #[inline]
    fn counts(&self, binding: &Binding, at: usize) -> bool {
        let top = self.top.get(binding.prefix as usize);
        binding.uri != NO_NAMESPACE && top.is_some_and(|top| *top as usize == at)
    }
}
