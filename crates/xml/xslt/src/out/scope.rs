//! Namespaces in scope in the open elements of a result.

/// Declarations, inner ones last. Their text is in one string, so that a declaration needs no allocation.
#[derive(Debug, Default)]
pub(super) struct Scope {
    text: String,
    bindings: Vec<Binding>,
}

/// A prefix followed by its namespace.
#[derive(Debug, Clone, Copy)]
struct Binding {
    from: u32,
    uri: u32,
    to: u32,
}

impl Scope {
    /// Returns the number of declarations, for a later `truncate`.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.bindings.len()
    }

    #[inline]
    pub(super) fn truncate(&mut self, len: usize) {
        let gone = self.bindings.get(len..).unwrap_or_default();
        // The declarations may have been reordered.
        if let Some(from) = gone.iter().map(|binding| binding.from).min() {
            // Harmless: the declarations of an element end with it.
            self.text.truncate(from as usize);
            // Harmless: the declarations of an element end with it.
            self.bindings.truncate(len);
        }
    }

    /// Sorts the declarations from `from` on by prefix. All prefixes must differ.
    pub(super) fn order(&mut self, from: usize) {
        let text = self.text.as_bytes();
        if let Some(own) = self.bindings.get_mut(from..).filter(|own| own.len() > 1) {
            own.sort_unstable_by_key(|b| text.get(b.from as usize..b.uri as usize));
        }
    }

    pub(super) fn copy_from(&mut self, other: &Scope) {
        self.text.clone_from(&other.text);
        self.bindings.clone_from(&other.bindings);
    }

    /// Returns the memory held, in bytes.
    pub(super) fn capacity(&self) -> usize {
        self.text.capacity() + self.bindings.capacity() * size_of::<Binding>()
    }

    pub(super) fn declare(&mut self, prefix: &str, uri: &str) {
        let from = self.end();
        self.text.push_str(prefix);
        let behind_prefix = self.end();
        self.text.push_str(uri);
        self.bindings.push(Binding { from, uri: behind_prefix, to: self.end() });
    }

    fn end(&self) -> u32 {
        // The text is bounded by the output limit of the run, far below 4 GiB.
        u32::try_from(self.text.len()).unwrap_or(u32::MAX)
    }

    /// Returns the namespace of a prefix, or `None` if it is not declared.
    #[inline]
    pub(super) fn find(&self, prefix: &str) -> Option<&str> {
        let found = self.bindings.iter().rev().find(|binding| self.has(binding, prefix));
        found.map(|binding| self.slice(binding.uri, binding.to))
    }

    /// Returns whether a prefix is declared and has this namespace.
    #[inline]
    pub(super) fn means(&self, prefix: &str, uri: &str) -> bool {
        self.find(prefix) == Some(uri)
    }

    /// Returns whether the declarations from `from` on have a prefix.
    pub(super) fn declares(&self, from: usize, prefix: &str) -> bool {
        let own = self.bindings.get(from..).unwrap_or_default();
        own.iter().any(|binding| self.has(binding, prefix))
    }

    #[inline]
    fn has(&self, binding: &Binding, prefix: &str) -> bool {
        (binding.uri - binding.from) as usize == prefix.len()
            && self.text.as_bytes().get(binding.from as usize..binding.uri as usize)
                == Some(prefix.as_bytes())
    }

    /// Iterates over the declarations from `from` on, in order.
    #[inline]
    pub(super) fn since(&self, from: usize) -> impl DoubleEndedIterator<Item = (&str, &str)> {
        let own = self.bindings.get(from..).unwrap_or_default();
        own.iter().map(|b| (self.slice(b.from, b.uri), self.slice(b.uri, b.to)))
    }

    #[inline]
    fn slice(&self, from: u32, to: u32) -> &str {
        self.text.get(from as usize..to as usize).unwrap_or_default()
    }
}
