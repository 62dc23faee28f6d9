//! A document as an arena: nodes are in document order, so that ids compare by position, and a subtree is a range of ids.
//!
//! An element is followed by its attributes, then by its children. Names are interned. All text is in one string that begins with the
//! source, so that a value that occurs literally in the source is not stored twice.

mod arena_pool;
mod build;
mod from_bytes;
mod levels;
mod markup;
mod names;
mod positions;
mod without;

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

pub use build::{BuildError, Builder};

use crate::{Error, Options, Position, QName, XML_NAMESPACE};
use arena_pool::Arena;
use names::Names;
use positions::Positions;

/// Up to this number, namespaces in scope are compared one by one; beyond it, a hash set is used.
const FEW: usize = 16;

/// A node of one document. Ids grow in document order: document, element, its attributes, its children.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub u32);

/// A name in one document: prefix, local part and namespace together. Numbers are dense from 0, which is the empty name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NameId(pub u32);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    Document,
    Element,
    Attribute,
    Text,
    Comment,
    /// A processing instruction; the local part of its name is the target.
    Instruction,
}

/// A node in the arena.
#[derive(Debug, Clone, Copy)]
struct Node {
    kind: Kind,
    /// Whether the node is an element with namespace declarations.
    declares: bool,
    /// Whether the node is an element whose content has no nodes and contains names in the default namespace.
    hides_bare_names: bool,
    /// The name of an element, attribute or instruction; the empty name for other nodes.
    name: NameId,
    /// The parent. The document is its own parent.
    parent: u32,
    /// One past the last node of the subtree.
    end: u32,
    /// The preceding sibling, or the node itself if there is none. For an attribute, the preceding attribute.
    previous: u32,
    /// Range of the node's text in the document's string. For an element, `value_start` is the source offset of its end tag, or of its
    /// empty-element tag.
    value_start: u32,
    value_end: u32,
    /// Number of source bytes before the node, saturated at 32 bits.
    offset: u32,
}

/// One document, immutable once built.
#[derive(Debug)]
pub struct Document {
    nodes: Vec<Node>,
    /// The source, if it is UTF-8, followed by the values that do not occur literally in it.
    text: String,
    names: Names,
    /// Namespace declarations, sorted by element.
    declarations: Vec<Declaration>,
    /// Attributes of type ID, by the internal subset or as `xml:id`: their values, and the elements that have them.
    ids: HashMap<Box<str>, NodeId>,
    unparsed: HashMap<Box<str>, Box<str>>,
    positions: Positions,
}

#[derive(Debug, Clone, Copy)]
struct Declaration {
    element: u32,
    /// The numbers of prefix and URI in `Names`.
    prefix: u32,
    uri: u32,
}

impl Drop for Document {
    fn drop(&mut self) {
        Arena::give(self);
    }
}

impl Document {
    /// The id of the document node.
    pub const ROOT: NodeId = NodeId(0);

    /// Parses a document into a tree.
    pub fn parse(bytes: &[u8], options: &Options) -> Result<Document, Error> {
        from_bytes::parse(bytes, options)
    }

    /// Parses a document into a tree of its first levels, for callers that look no deeper. The root element is level 1. An element of the
    /// last level has its attributes and its [`Document::markup`], but its content has no nodes.
    ///
    /// The tree is complete if markup cannot be copied, if elements with nodes have more than `declarations_max` namespace declarations, or
    /// if shortcuts are off ([`crate::shortcuts()`]).
    pub fn parse_levels(
        bytes: &[u8],
        options: &Options,
        levels: usize,
        declarations_max: usize,
    ) -> Result<Document, Error> {
        if crate::shortcuts() {
            levels::parse(bytes, options, levels, declarations_max)
        } else {
            from_bytes::parse(bytes, options)
        }
    }

    /// Returns whether the content of an element without nodes for it contains something in the default namespace: an element without a
    /// prefix, or an unprefixed type name.
    pub fn hides_bare_names(&self, element: NodeId) -> bool {
        self.node(element).is_some_and(|node| node.hides_bare_names)
    }

    /// Returns the number of nodes. All ids are smaller. A document has at least [`Document::ROOT`].
    #[allow(clippy::len_without_is_empty, reason = "a document is never empty")]
    pub fn len(&self) -> u32 {
        u32::try_from(self.nodes.len()).unwrap_or(u32::MAX)
    }

    #[inline]
    fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.0 as usize)
    }

    /// Returns the kind of a node. An id that does not exist in this document counts as an empty text.
    #[inline]
    pub fn kind(&self, id: NodeId) -> Kind {
        self.node(id).map_or(Kind::Text, |node| node.kind)
    }

    /// Returns the name of an element, an attribute or an instruction; empty for others.
    pub fn name(&self, id: NodeId) -> QName<'_> {
        self.name_of(self.name_id(id))
    }

    #[inline]
    pub fn name_id(&self, id: NodeId) -> NameId {
        self.node(id).map_or(NameId(0), |node| node.name)
    }

    #[inline]
    pub fn name_of(&self, name: NameId) -> QName<'_> {
        self.names.get(name)
    }

    /// Returns the id of the name table. Documents with equal ids share their names: a [`NameId`] means the same in all of them, so facts
    /// about a name can be cached.
    pub fn names_id(&self) -> u64 {
        self.names.id()
    }

    /// Returns the number of names. Every [`NameId`] is smaller.
    pub fn names_len(&self) -> usize {
        self.names.len()
    }

    /// Returns the content of a text, an attribute, a comment, or an instruction's data; empty for others.
    #[inline]
    pub fn value(&self, id: NodeId) -> &str {
        let value =
            self.node(id).and_then(|n| self.text.get(n.value_start as usize..n.value_end as usize));
        value.unwrap_or("")
    }

    /// Returns the string-value as defined by XPath 1.0: for documents and elements, the concatenated text of all descendants.
    pub fn string_value(&self, id: NodeId) -> Cow<'_, str> {
        match self.kind(id) {
            Kind::Document | Kind::Element => {
                let mut texts = self.descendants(id).filter(|n| self.kind(*n) == Kind::Text);
                let Some(first) = texts.next() else { return Cow::Borrowed("") };
                let Some(second) = texts.next() else { return Cow::Borrowed(self.value(first)) };
                let mut all = format!("{}{}", self.value(first), self.value(second));
                all.extend(texts.map(|text| self.value(text)));
                Cow::Owned(all)
            }
            Kind::Attribute | Kind::Text | Kind::Comment | Kind::Instruction => {
                Cow::Borrowed(self.value(id))
            }
        }
    }

    /// Returns the parent. For an attribute this is its element.
    #[inline]
    pub fn parent(&self, id: NodeId) -> Option<NodeId> {
        match id {
            Document::ROOT => None,
            _ => self.node(id).map(|node| NodeId(node.parent)),
        }
    }

    /// Returns the id after the last node of the subtree.
    #[inline]
    pub fn end(&self, id: NodeId) -> NodeId {
        self.node(id).map_or(id, |node| NodeId(node.end))
    }

    /// Returns the id after the attributes of an element.
    #[inline]
    fn attributes_end(&self, id: NodeId) -> u32 {
        let mut at = id.0 + 1;
        if self.kind(id) == Kind::Element {
            while self.node(NodeId(at)).is_some_and(|node| node.kind == Kind::Attribute) {
                at += 1;
            }
        }
        at
    }

    #[inline]
    pub fn first_child(&self, id: NodeId) -> Option<NodeId> {
        let first = self.attributes_end(id);
        (first < self.end(id).0).then_some(NodeId(first))
    }

    pub fn last_child(&self, id: NodeId) -> Option<NodeId> {
        let first = self.first_child(id)?;
        let mut at = NodeId(self.end(id).0 - 1);
        // The last node of the subtree is inside the last child.
        while at > first && self.parent(at) != Some(id) {
            at = self.parent(at)?;
        }
        Some(at)
    }

    #[inline]
    pub fn next_sibling(&self, id: NodeId) -> Option<NodeId> {
        let node =
            self.node(id).filter(|node| node.kind != Kind::Attribute && id != Document::ROOT)?;
        (node.end < self.end(NodeId(node.parent)).0).then_some(NodeId(node.end))
    }

    #[inline]
    pub fn previous_sibling(&self, id: NodeId) -> Option<NodeId> {
        let node = self.node(id).filter(|node| node.kind != Kind::Attribute)?;
        (node.previous != id.0).then_some(NodeId(node.previous))
    }

    #[inline]
    pub fn children(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let (mut at, end) = (self.attributes_end(id), self.end(id).0);
        std::iter::from_fn(move || {
            let child = (at < end).then_some(NodeId(at))?;
            at = self.end(child).0;
            Some(child)
        })
    }

    /// Returns an element's attributes in the order written, without namespace declarations.
    pub fn attributes(&self, id: NodeId) -> impl Iterator<Item = NodeId> + use<> {
        (id.0 + 1..self.attributes_end(id)).map(NodeId)
    }

    /// Returns the value of an attribute, or `None` if the element does not have it.
    pub fn attribute(&self, id: NodeId, uri: &str, local: &str) -> Option<&str> {
        let found = self.attributes(id).find(|attribute| {
            let name = self.name(*attribute);
            name.local == local && name.namespace.uri == uri
        });
        found.map(|attribute| self.value(attribute))
    }

    /// Returns all descendants except attributes, in document order.
    pub fn descendants(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        let below = (self.attributes_end(id)..self.end(id).0).map(NodeId);
        below.filter(|node| self.kind(*node) != Kind::Attribute)
    }

    pub fn root_element(&self) -> Option<NodeId> {
        self.children(Document::ROOT).find(|child| self.kind(*child) == Kind::Element)
    }

    /// Returns the namespace declarations of an element: prefix and URI.
    #[inline]
    pub fn declared(&self, id: NodeId) -> impl Iterator<Item = (&str, &str)> {
        self.declarations_of(id)
            .iter()
            .map(|d| (self.names.prefix(d.prefix), self.names.uri(d.uri)))
    }

    fn declarations_of(&self, id: NodeId) -> &[Declaration] {
        // Harmless: each range is one of the declarations.
        self.declarations.get(self.declared_range(id)).unwrap_or_default()
    }

    /// Returns the range of an element's declarations.
    fn declared_range(&self, id: NodeId) -> Range<usize> {
        if !self.node(id).is_some_and(|node| node.declares) {
            return 0..0;
        }
        let from = self.declarations.partition_point(|d| d.element < id.0);
        let rest = self.declarations.get(from..).unwrap_or_default();
        from..from + rest.partition_point(|d| d.element == id.0)
    }

    /// Returns every prefix in scope with its URI, nearest element first and `xml` last. An undeclared default namespace is left out.
    pub fn namespaces(&self, id: NodeId) -> Vec<(&str, &str)> {
        let mut all = Vec::new();
        self.each_namespace(id, |_, prefix, uri| all.push((prefix, uri)));
        all.push(("xml", XML_NAMESPACE));
        all
    }

    /// Returns the ranks of the namespaces in scope of an element, in the order of [`Document::namespaces`], which is that of the ranks. A
    /// rank stands for the same declaration at each element.
    pub fn namespace_ranks(&self, id: NodeId) -> Vec<u32> {
        let mut ranks = Vec::new();
        self.each_namespace(id, |rank, _, _| ranks.push(rank));
        ranks.push(u32::try_from(self.declarations.len()).unwrap_or(u32::MAX));
        ranks
    }

    /// Visits the rank, prefix and URI of each namespace in scope of an element, except `xml`.
    fn each_namespace<'d>(&'d self, id: NodeId, mut visit: impl FnMut(u32, &'d str, &'d str)) {
        let mut seen: Vec<u32> = Vec::new();
        // Used when there are many: a sender may declare as many namespaces as the limits allow.
        let mut many: HashSet<u32> = HashSet::new();
        for element in self.with_ancestors(id) {
            let range = self.declared_range(element);
            let base = self.declarations.len().saturating_sub(range.end);
            // Harmless: each range is one of the declarations.
            let own = self.declarations.get(range).unwrap_or_default();
            for (at, Declaration { prefix, uri, .. }) in own.iter().enumerate() {
                let is_new = if seen.len() < FEW {
                    !seen.contains(prefix)
                } else {
                    if many.is_empty() {
                        many.extend(&seen);
                    }
                    many.insert(*prefix)
                };
                if is_new {
                    seen.push(*prefix);
                }
                let (name, uri) = (self.names.prefix(*prefix), self.names.uri(*uri));
                if is_new && !uri.is_empty() && name != "xml" {
                    visit(u32::try_from(base + at).unwrap_or(u32::MAX), name, uri);
                }
            }
        }
    }

    /// Returns the prefix and the URI of the namespace with a rank.
    pub fn namespace_at(&self, rank: u32) -> Option<(&str, &str)> {
        let (rank, len) = (rank as usize, self.declarations.len());
        if rank == len {
            return Some(("xml", XML_NAMESPACE));
        }
        // Later elements come first, and the declarations of an element stay in their order.
        let element = self.declarations.get(len.checked_sub(rank + 1)?)?.element;
        let range = self.declared_range(NodeId(element));
        let at = range.start + rank.checked_sub(len.checked_sub(range.end)?)?;
        let Declaration { prefix, uri, .. } = self.declarations.get(at)?;
        Some((self.names.prefix(*prefix), self.names.uri(*uri)))
    }

    /// Returns the number of namespace declarations of an element and its ancestors, including hidden ones.
    pub fn declarations_above(&self, id: NodeId) -> usize {
        self.with_ancestors(id).map(|element| self.declarations_of(element).len()).sum()
    }

    fn with_ancestors(&self, id: NodeId) -> impl Iterator<Item = NodeId> {
        std::iter::successors(Some(id), |node| self.parent(*node))
    }

    /// Returns the namespace of a prefix at a node, or `None` if the prefix is not declared. The empty prefix has the default namespace.
    pub fn lookup_prefix(&self, id: NodeId, prefix: &str) -> Option<&str> {
        if prefix == "xml" {
            return Some(XML_NAMESPACE);
        }
        let declared = |element| self.declared(element).find(|(known, _)| *known == prefix);
        let found = self.with_ancestors(id).find_map(declared);
        found.map(|(_, uri)| uri).filter(|uri| !uri.is_empty())
    }

    /// Returns the element that has an attribute of type ID with this value.
    pub fn element_by_id(&self, id: &str) -> Option<NodeId> {
        self.ids.get(id).copied()
    }

    /// Returns the system identifier of an unparsed entity.
    pub fn unparsed_entity(&self, name: &str) -> Option<&str> {
        self.unparsed.get(name).map(|system| &**system)
    }

    /// Returns the position of a node in the source, or the default position if the tree was not parsed.
    pub fn position(&self, id: NodeId) -> Position {
        let offset = self.node(id).map_or(0, |node| node.offset);
        self.positions.get(id, offset, &self.text)
    }
}
