//! Builds a tree from calls in document order.

use std::collections::HashMap;
use std::fmt;

use crate::scope::NO_NAMESPACE;
use crate::tree::arena_pool::Arena;
use crate::tree::names::Names;
use crate::tree::positions::{Positions, Source};
use crate::tree::{Declaration, Document, Kind, NameId, Node, NodeId};

/// Maximum number of source bytes for which nodes are reserved in advance.
const RESERVED_BYTES_MAX: usize = 256 << 10;

/// Number of source bytes per node in typical messages with small elements.
const NODE_EACH_BYTES: usize = 10;

/// Minimum number of nodes to allocate, enough for a small message.
const NODES_MIN: usize = 32;

/// Reason why a call is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// An attribute or a declaration without an open element, or after its first child.
    Late,
    /// No element is open.
    NotOpen,
    /// The tree would exceed its limits on nodes or text, or there is not enough memory (`kit::memory`).
    TooLarge,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            BuildError::Late => "an attribute has to follow its element's start, before any child",
            BuildError::NotOpen => "no element is open",
            BuildError::TooLarge => "the tree is larger than it may be",
        })
    }
}

impl std::error::Error for BuildError {}

/// Builds a document from calls in document order. Several elements and texts may be at the top level, as in XSLT fragments.
#[derive(Debug)]
pub struct Builder {
    /// The document so far. Open elements have no end yet.
    document: Document,
    /// The innermost open element, or the document.
    open: u32,
    /// The last child of the open node so far; 0 if there is none.
    last: u32,
    /// Whether that child is a text.
    after_text: bool,
    depth: u32,
    nodes_max: u32,
    /// Number of nodes that fit before memory has to grow.
    room: usize,
    text_bytes_max: u32,
    offset: u32,
}

impl Default for Builder {
    fn default() -> Builder {
        Builder::new()
    }
}

impl Builder {
    pub fn new() -> Builder {
        Builder::with_limits(u32::MAX - 1, u32::MAX)
    }

    /// Creates a builder with a limit on nodes, and on bytes of text and values.
    pub fn with_limits(nodes_max: u32, text_bytes_max: u32) -> Builder {
        let Arena { mut nodes, text, names, declarations } = Arena::take();
        nodes.push(Node {
            kind: Kind::Document,
            declares: false,
            hides_bare_names: false,
            name: NameId(0),
            parent: 0,
            end: 0,
            previous: 0,
            value_start: 0,
            value_end: 0,
            offset: 0,
        });
        let document = Document {
            nodes,
            text,
            names,
            declarations,
            ids: HashMap::new(),
            unparsed: HashMap::new(),
            positions: Positions::None,
        };
        let mut builder = Builder {
            document,
            open: 0,
            last: 0,
            after_text: false,
            depth: 0,
            nodes_max,
            room: 0,
            text_bytes_max,
            offset: 0,
        };
        builder.set_room();
        builder
    }

    fn set_room(&mut self) {
        self.room = self.document.nodes.capacity().min(self.nodes_max as usize);
    }

    /// Returns the number of nodes so far.
    pub fn len(&self) -> u32 {
        self.document.len()
    }

    /// Returns whether nothing has been added.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }

    /// Returns the number of open elements.
    pub fn depth(&self) -> usize {
        self.depth as usize
    }

    /// Begins an element.
    pub fn start(&mut self, prefix: &str, local: &str, uri: &str) -> Result<NodeId, BuildError> {
        let uri = self.names().uri_number(uri).ok_or(BuildError::TooLarge)?;
        self.start_in(prefix, local, uri)
    }

    /// Like `start`, with the number of the namespace.
    pub(crate) fn start_in(
        &mut self,
        prefix: &str,
        local: &str,
        uri: u32,
    ) -> Result<NodeId, BuildError> {
        let name = self.names().number(prefix, local, uri).ok_or(BuildError::TooLarge)?;
        self.start_named(name)
    }

    /// Like `start`, with the number of the name.
    #[inline(always)]
    pub(crate) fn start_named(&mut self, name: NameId) -> Result<NodeId, BuildError> {
        // Elements have no value.
        let id = self.child(Kind::Element, name, 0, 0)?;
        self.open = id.0;
        self.last = 0;
        self.depth += 1;
        Ok(id)
    }

    /// Declares a namespace on the element just begun. Replaces an earlier declaration of the prefix there.
    pub fn declare(&mut self, prefix: &str, uri: &str) -> Result<(), BuildError> {
        let uri = self.names().uri_number(uri).ok_or(BuildError::TooLarge)?;
        self.declare_in(prefix, uri)
    }

    /// Like `declare`, with the number of the namespace.
    pub(crate) fn declare_in(&mut self, prefix: &str, uri: u32) -> Result<(), BuildError> {
        let element = self.begun().ok_or(BuildError::Late)?;
        let prefix = self.names().prefix_number(prefix).ok_or(BuildError::TooLarge)?;
        if let Some(node) = self.document.nodes.get_mut(element as usize) {
            node.declares = true;
        }
        let declarations = &mut self.document.declarations;
        let own = declarations.iter_mut().rev().take_while(|d| d.element == element);
        match own.into_iter().find(|d| d.prefix == prefix) {
            Some(known) => known.uri = uri,
            None => declarations.push(Declaration { element, prefix, uri }),
        }
        Ok(())
    }

    /// Adds an attribute to the element just begun, or replaces the value of its attribute with that name.
    pub fn attribute(
        &mut self,
        prefix: &str,
        local: &str,
        uri: &str,
        value: &str,
    ) -> Result<NodeId, BuildError> {
        let element = self.begun().ok_or(BuildError::Late)?;
        let number = self.names().uri_number(uri).ok_or(BuildError::TooLarge)?;
        let name = self.names().number(prefix, local, number).ok_or(BuildError::TooLarge)?;
        let document = &self.document;
        let same = document.attributes(NodeId(element)).find(|attribute| {
            let known = document.name(*attribute);
            known.local == local && known.namespace.uri == uri
        });
        match same {
            None => self.new_attribute(element, name, value, ""),
            Some(known) => {
                let (value_start, value_end) = self.own_text(value, "")?;
                if let Some(node) = self.document.nodes.get_mut(known.0 as usize) {
                    *node = Node { name, value_start, value_end, ..*node };
                }
                Ok(known)
            }
        }
    }

    /// Adds an attribute whose name the element does not have yet. The value may be a slice of the source.
    pub(crate) fn new_attribute(
        &mut self,
        element: u32,
        name: NameId,
        value: &str,
        source: &str,
    ) -> Result<NodeId, BuildError> {
        let id = self.next_id()?;
        let previous = if id - 1 == element { id } else { id - 1 };
        let (start, end) = self.value(value, source)?;
        self.push(Kind::Attribute, name, start, end, previous, id + 1);
        Ok(NodeId(id))
    }

    /// Returns the element just begun, if it has no children yet.
    #[inline]
    pub(crate) fn begun(&self) -> Option<u32> {
        (self.open != 0 && self.last == 0).then_some(self.open)
    }

    /// Records that the content of the open element has no nodes and contains a name in the default namespace.
    #[inline]
    pub(crate) fn hides_bare_name(&mut self) {
        if let Some(node) = self.document.nodes.get_mut(self.open as usize) {
            node.hides_bare_names = true;
        }
    }

    /// Returns the number of namespace declarations so far.
    pub(crate) fn declarations_len(&self) -> usize {
        self.document.declarations.len()
    }

    pub(crate) fn names(&mut self) -> &mut Names {
        &mut self.document.names
    }

    /// Adds text. Adjacent texts become one node; empty text adds none.
    pub fn text(&mut self, text: &str) -> Result<(), BuildError> {
        if text.is_empty() { Ok(()) } else { self.text_in(text, "") }
    }

    /// Adds text that is not empty and may be a slice of the source.
    #[inline(always)]
    pub(crate) fn text_in(&mut self, text: &str, source: &str) -> Result<(), BuildError> {
        if self.after_text {
            return self.more_text(text, source);
        }
        let (start, end) = self.value(text, source)?;
        self.child(Kind::Text, NameId(0), start, end)?;
        self.after_text = true;
        Ok(())
    }

    /// Adds text that is in the source at the offset set last.
    #[inline(always)]
    pub(crate) fn text_of_source(&mut self, len: usize, source: &str) -> Result<(), BuildError> {
        let from = self.offset;
        #[allow(clippy::cast_possible_truncation, reason = "the length of a source fits 32 bits")]
        let to = from.saturating_add(len as u32);
        if self.after_text {
            let text = source.get(from as usize..to as usize).unwrap_or_default();
            return self.more_text(text, source);
        }
        self.child(Kind::Text, NameId(0), from, to)?;
        self.after_text = true;
        Ok(())
    }

    /// Appends to the last text.
    #[inline(never)]
    fn more_text(&mut self, text: &str, source: &str) -> Result<(), BuildError> {
        let Some(Node { value_start, value_end, .. }) = self.document.nodes.last().copied() else {
            return Ok(());
        };
        let (from, to) = (value_start as usize, value_end as usize);
        let ends_own = to == source.len() + self.document.text.len();
        let (start, end) = match range_in(source, text) {
            // The text continues the previous one in the source.
            Some((at, end)) if at == value_end => (value_start, end),
            _ if from >= source.len() && ends_own => (value_start, self.own_text(text, source)?.1),
            _ => {
                let before = source.get(from..to).unwrap_or_default();
                (self.own_text(before, source)?.0, self.own_text(text, source)?.1)
            }
        };
        if let Some(node) = self.document.nodes.last_mut() {
            (node.value_start, node.value_end) = (start, end);
        }
        Ok(())
    }

    pub fn comment(&mut self, text: &str) -> Result<NodeId, BuildError> {
        self.comment_in(text, "")
    }

    /// Like `comment`; the text may be a slice of the source.
    pub(crate) fn comment_in(&mut self, text: &str, source: &str) -> Result<NodeId, BuildError> {
        let (start, end) = self.value(text, source)?;
        self.child(Kind::Comment, NameId(0), start, end)
    }

    pub fn instruction(&mut self, target: &str, data: &str) -> Result<NodeId, BuildError> {
        self.instruction_in(target, data, "")
    }

    /// Like `instruction`; the data may be a slice of the source.
    pub(crate) fn instruction_in(
        &mut self,
        target: &str,
        data: &str,
        source: &str,
    ) -> Result<NodeId, BuildError> {
        let name = self.names().number("", target, NO_NAMESPACE).ok_or(BuildError::TooLarge)?;
        let (start, end) = self.value(data, source)?;
        self.child(Kind::Instruction, name, start, end)
    }

    /// Ends the innermost open element, whose end tag begins at this source offset.
    #[inline(always)]
    pub(crate) fn end_at(&mut self, offset: u64) {
        if let Some(node) = self.document.nodes.get_mut(self.open as usize) {
            node.value_start = u32::try_from(offset).unwrap_or(u32::MAX);
        }
        self.close();
    }

    /// Ends the innermost open element.
    pub fn end(&mut self) -> Result<(), BuildError> {
        match self.open {
            0 => Err(BuildError::NotOpen),
            _ => {
                self.close();
                Ok(())
            }
        }
    }

    #[inline(always)]
    fn close(&mut self) {
        let end = self.len();
        if let Some(node) = self.document.nodes.get_mut(self.open as usize) {
            node.end = end;
            self.last = self.open;
            self.after_text = false;
            self.open = node.parent;
            self.depth = self.depth.saturating_sub(1);
        }
    }

    /// Returns the document. Elements still open are ended.
    pub fn finish(mut self) -> Document {
        self.close_all();
        self.document
    }

    fn close_all(&mut self) {
        while self.open != 0 {
            self.close();
        }
        self.close();
    }

    /// Sets the source offset of the nodes that follow.
    #[inline]
    pub(crate) fn at(&mut self, offset: u64) {
        self.offset = u32::try_from(offset).unwrap_or(u32::MAX);
    }

    pub(crate) fn add_id(&mut self, value: &str, element: NodeId) {
        self.document.ids.entry(value.into()).or_insert(element);
    }

    pub(crate) fn add_unparsed(&mut self, name: &str, system: &str) {
        self.document.unparsed.entry(name.into()).or_insert_with(|| system.into());
    }

    /// Reserves memory for the typical tree of a source of this size, so that the arena is not moved while it grows.
    pub(crate) fn reserve(&mut self, source_bytes: usize) {
        let bytes = source_bytes.min(RESERVED_BYTES_MAX);
        self.document.nodes.reserve(bytes / NODE_EACH_BYTES + 8);
        self.document.declarations.reserve(8);
        self.set_room();
    }

    /// Ends a document whose values may refer to the source, which becomes the beginning of the document's text. Returns whether the markup
    /// of elements can be copied from it.
    pub(crate) fn end_with_source(&mut self, source: &str) -> bool {
        self.close_all();
        self.document.text.insert_str(0, source);
        self.document.positions = Positions::Source(Source::new(source.len()));
        self.document.allow_copies();
        self.document.has_copies()
    }

    /// Ends a document with a list of the lines and columns of its nodes.
    pub(crate) fn end_with_places(&mut self, places: Vec<(u32, u32)>) {
        self.close_all();
        self.document.positions = Positions::Nodes(places);
    }

    /// Returns the document, which must have been ended.
    pub(crate) fn into_document(self) -> Document {
        self.document
    }

    /// Adds a child to the open node. Its end is the next node unless set otherwise later.
    #[inline(always)]
    fn child(
        &mut self,
        kind: Kind,
        name: NameId,
        value_start: u32,
        value_end: u32,
    ) -> Result<NodeId, BuildError> {
        let id = self.next_id()?;
        let previous = if self.last == 0 { id } else { self.last };
        self.last = id;
        self.after_text = false;
        self.push(kind, name, value_start, value_end, previous, id + 1);
        Ok(NodeId(id))
    }

    #[inline]
    fn next_id(&mut self) -> Result<u32, BuildError> {
        let len = self.document.nodes.len();
        if len >= self.room {
            self.grow()?;
        }
        #[allow(clippy::cast_possible_truncation, reason = "it is below `nodes_max`, a `u32`")]
        Ok(len as u32)
    }

    /// Makes room for more nodes, within the limit and the available memory. Nodes are the largest part of a tree, up to ten times the size
    /// of its source.
    #[cold]
    fn grow(&mut self) -> Result<(), BuildError> {
        let nodes = &mut self.document.nodes;
        let more = nodes.len().max(NODES_MIN);
        let is_full = nodes.len() >= self.nodes_max as usize;
        // Growing moves the nodes, so both copies exist for a moment.
        if is_full || !kit::memory::has_room((nodes.len() + more) * size_of::<Node>()) {
            return Err(BuildError::TooLarge);
        }
        nodes.reserve(more);
        self.set_room();
        Ok(())
    }

    /// Adds a node as a child of the open node.
    #[inline(always)]
    fn push(
        &mut self,
        kind: Kind,
        name: NameId,
        value_start: u32,
        value_end: u32,
        previous: u32,
        end: u32,
    ) {
        self.document.nodes.push(Node {
            kind,
            declares: false,
            hides_bare_names: false,
            name,
            parent: self.open,
            end,
            previous,
            value_start,
            value_end,
            offset: self.offset,
        });
    }

    /// Returns the range of a value: in the source, if it is a slice of it, or in the document's own texts, which follow the source.
    #[inline]
    fn value(&mut self, text: &str, source: &str) -> Result<(u32, u32), BuildError> {
        match range_in(source, text) {
            Some(range) => Ok(range),
            None => self.own_text(text, source),
        }
    }

    /// Appends to the document's own texts.
    fn own_text(&mut self, text: &str, source: &str) -> Result<(u32, u32), BuildError> {
        let own = &mut self.document.text;
        // Harmless: a size that does not fit is an error.
        let end = u32::try_from(own.len() + text.len()).ok();
        let end = end.filter(|end| *end <= self.text_bytes_max).ok_or(BuildError::TooLarge)?;
        let base = len_of(source)?;
        let from = base.checked_add(len_of(own)?).ok_or(BuildError::TooLarge)?;
        if own.capacity() - own.len() < text.len() && !kit::memory::has_room(own.len() + text.len())
        {
            return Err(BuildError::TooLarge);
        }
        own.push_str(text);
        Ok((from, base.checked_add(end).ok_or(BuildError::TooLarge)?))
    }
}

/// Returns the range of a text that is a slice of the source. The parser borrows from the source whatever it does not have to change. A
/// source has at most 2^32 - 1 bytes.
#[inline]
fn range_in(source: &str, text: &str) -> Option<(u32, u32)> {
    let from = text.as_ptr().addr().wrapping_sub(source.as_ptr().addr());
    #[allow(clippy::cast_possible_truncation, reason = "both are within the source")]
    (from < source.len()).then(|| (from as u32, (from + text.len()) as u32))
}

#[inline]
fn len_of(text: &str) -> Result<u32, BuildError> {
    u32::try_from(text.len()).map_err(|_| BuildError::TooLarge)
}
