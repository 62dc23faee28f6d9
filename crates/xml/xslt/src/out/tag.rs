//! A start tag under construction: attributes may still follow.

/// A name, and for attributes a value, as consecutive ranges of one text.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct TagPiece {
    start: u32,
    prefix_end: u32,
    local_end: u32,
    uri_end: u32,
    value_end: u32,
}

/// Names and values in one string, so that a tag needs no allocation.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    text: String,
}

impl Pieces {
    #[inline]
    pub(crate) fn push(&mut self, prefix: &str, local: &str, uri: &str, value: &str) -> TagPiece {
        let start = self.end();
        self.text.push_str(prefix);
        let prefix_end = self.end();
        self.text.push_str(local);
        let local_end = self.end();
        self.text.push_str(uri);
        let uri_end = self.end();
        if !value.is_empty() {
            self.text.push_str(value);
        }
        TagPiece { start, prefix_end, local_end, uri_end, value_end: self.end() }
    }

    fn end(&self) -> u32 {
        // The text of a tag is bounded by the output limit of the run, far below 4 GiB.
        u32::try_from(self.text.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    pub(crate) fn prefix(&self, piece: TagPiece) -> &str {
        self.slice(piece.start, piece.prefix_end)
    }

    #[inline]
    pub(crate) fn local(&self, piece: TagPiece) -> &str {
        self.slice(piece.prefix_end, piece.local_end)
    }

    #[inline]
    pub(crate) fn uri(&self, piece: TagPiece) -> &str {
        self.slice(piece.local_end, piece.uri_end)
    }

    #[inline]
    pub(crate) fn value(&self, piece: TagPiece) -> &str {
        self.slice(piece.uri_end, piece.value_end)
    }

    #[inline]
    fn slice(&self, start: u32, end: u32) -> &str {
        self.text.get(start as usize..end as usize).unwrap_or_default()
    }
}

/// A start tag.
#[derive(Debug, Default)]
pub(crate) struct Tag {
    pub(crate) pieces: Pieces,
    pub(crate) name: TagPiece,
    /// The attributes in the order added. A later attribute replaces an earlier one with the same name.
    pub(crate) attributes: Vec<TagPiece>,
    /// Whether some attribute has a prefix or a namespace.
    pub(crate) qualified: bool,
}

impl Tag {
    /// Begins a new tag.
    pub(crate) fn begin(&mut self, prefix: &str, local: &str, uri: &str) {
        self.pieces.text.clear();
        self.attributes.clear();
        self.qualified = false;
        self.name = self.pieces.push(prefix, local, uri, "");
    }

    /// Adds an attribute, or replaces the one with the same name.
    pub(crate) fn attribute(&mut self, prefix: &str, local: &str, uri: &str, value: &str) {
        let same = |p: &TagPiece| self.pieces.local(*p) == local && self.pieces.uri(*p) == uri;
        let at = self.attributes.iter().position(same);
        let piece = self.pieces.push(prefix, local, uri, value);
        self.qualified |= !prefix.is_empty() || !uri.is_empty();
        match at.and_then(|at| self.attributes.get_mut(at)) {
            Some(earlier) => *earlier = piece,
            None => self.attributes.push(piece),
        }
    }

    /// Sorts the attributes by namespace and name (Canonical XML 1.0, 2.2).
    pub(crate) fn order(&mut self) {
        let pieces = &self.pieces;
        if self.attributes.len() > 1 {
            let name = |piece: &TagPiece| (pieces.uri(*piece), pieces.local(*piece));
            self.attributes.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
        }
    }

    pub(crate) fn copy_from(&mut self, other: &Tag) {
        self.pieces.text.clone_from(&other.pieces.text);
        self.name = other.name;
        self.attributes.clone_from(&other.attributes);
        self.qualified = other.qualified;
    }

    /// Returns the memory held, in bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.pieces.text.capacity() + self.attributes.capacity() * size_of::<TagPiece>()
    }
}
