//! The documents that an evaluation can reach, and handles for their nodes.

use std::borrow::Cow;
use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use xml::{Document, Kind, NodeId, QName};

use crate::number::libxml_number_text;
use crate::{ErrorKind, number_text};

/// A document of a [`DocumentSet`]. Ids grow in the order documents were added, which is their document order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DocId(pub u32);

/// A node of a document in a [`DocumentSet`], or a namespace node of one of its elements. The order of handles is document order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// The document of the node.
    pub doc: DocId,
    /// The node; for a namespace node, its element.
    pub id: NodeId,
    /// 0 for other nodes; for a namespace node, one more than its rank in `xml::Document::namespace_ranks`.
    namespace: u32,
}

/// The seven node kinds of XPath's data model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NodeKind {
    /// The root of a document or of a result tree fragment.
    Root,
    /// An element.
    Element,
    /// An attribute, never a namespace declaration.
    Attribute,
    /// Text.
    Text,
    /// A comment.
    Comment,
    /// A processing instruction.
    Instruction,
    /// A namespace in scope of an element.
    Namespace,
}

/// The documents that an evaluation can reach. Documents may be added during an evaluation. They are removed only by
/// [`DocumentSet::truncate`] or when the set is dropped.
#[derive(Debug)]
pub struct DocumentSet {
    first: Arc<Document>,
    /// Pages of 8, 16, 32.. documents. Entries do not move, so references to a document stay valid when others are added. Most sets have
    /// only the first document, and no pages.
    pages: OnceCell<Box<[OnceCell<Page>; PAGES]>>,
    len: Cell<u32>,
    /// Number of documents added so far, with those that were dropped.
    added: Cell<u64>,
    libxml_numbers: Cell<bool>,
}

type Page = Box<[OnceCell<Added>]>;

/// A document with its serial number.
type Added = (Arc<Document>, u64);

/// Room for 8 * (2^24 - 1) documents, more than memory can hold.
const PAGES: usize = 24;
const PAGE_FIRST: u32 = 8;

impl Node {
    /// Makes the handle of a node that is not a namespace node.
    #[inline]
    pub fn new(doc: DocId, id: NodeId) -> Node {
        Node { doc, id, namespace: 0 }
    }

    /// Makes the handle of a namespace node by its rank in `xml::Document::namespace_ranks`.
    pub(crate) fn namespace(doc: DocId, element: NodeId, rank: u32) -> Node {
        Node { doc, id: element, namespace: rank.saturating_add(1) }
    }

    /// Returns the rank of a namespace node.
    pub(crate) fn rank(self) -> Option<u32> {
        self.namespace.checked_sub(1)
    }

    /// Returns whether this is a namespace node.
    #[inline]
    pub fn is_namespace(self) -> bool {
        self.namespace != 0
    }

    /// Returns the handle of another node of the same document.
    #[inline]
    pub fn with(self, id: NodeId) -> Node {
        Node { doc: self.doc, id, namespace: 0 }
    }

    /// Returns the root of the node's document.
    #[inline]
    pub fn root(self) -> Node {
        self.with(Document::ROOT)
    }
}

impl DocumentSet {
    /// Creates a set with one document.
    pub fn new(first: Arc<Document>) -> DocumentSet {
        DocumentSet {
            first,
            pages: OnceCell::new(),
            len: Cell::new(1),
            added: Cell::new(1),
            libxml_numbers: Cell::new(false),
        }
    }

    /// Makes `string()` format numbers as libxml2 does from now on: with 15 digits, and with exponents for large and small numbers.
    pub fn write_numbers_as_libxml(&self) {
        self.libxml_numbers.set(true);
    }

    /// Writes a number as `string()` does.
    pub(crate) fn number_text(&self, value: f64) -> Cow<'static, str> {
        if self.libxml_numbers.get() { libxml_number_text(value) } else { number_text(value) }
    }

    /// Returns the root of the first document.
    pub fn root(&self) -> Node {
        Node::new(DocId(0), Document::ROOT)
    }

    /// Returns the number of documents.
    pub fn len(&self) -> u32 {
        self.len.get()
    }

    /// Returns false, because a set always has its first document.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Adds a document, last in document order.
    pub fn add(&self, document: Arc<Document>) -> Result<DocId, ErrorKind> {
        let id = DocId(self.len.get());
        let full = ErrorKind::Limit { name: "documents", max: u64::from(id.0) };
        let (page, place) = place(id);
        let pages = self.pages.get_or_init(|| Box::new([const { OnceCell::new() }; PAGES]));
        let Some(cell) = pages.get(page) else { return Err(full) };
        let cells = cell.get_or_init(|| {
            let size = PAGE_FIRST << page;
            (0..size).map(|_| OnceCell::new()).collect()
        });
        let Some(free) = cells.get(place) else { return Err(full) };
        let serial = self.added.get();
        if free.set((document, serial)).is_err() {
            return Err(full);
        }
        self.added.set(serial.saturating_add(1));
        self.len.set(id.0.saturating_add(1));
        Ok(id)
    }

    /// Drops the documents added after the first `len`. Handles of their nodes become invalid.
    pub fn truncate(&mut self, len: u32) {
        for id in len.max(1)..self.len.get() {
            let (page, place) = place(DocId(id));
            let cell = self
                .pages
                .get_mut()
                .and_then(|pages| pages.get_mut(page))
                .and_then(OnceCell::get_mut)
                .and_then(|cells| cells.get_mut(place));
            if let Some(cell) = cell {
                cell.take();
            }
        }
        self.len.set(self.len.get().min(len.max(1)));
    }

    /// Returns a document. An id from another set returns some document of this one.
    #[inline]
    pub fn document(&self, id: DocId) -> &Document {
        self.shared(id)
    }

    /// Returns a document that may be kept after the set is dropped.
    #[inline]
    pub fn shared(&self, id: DocId) -> &Arc<Document> {
        if id.0 == 0 {
            return &self.first;
        }
        let found = self.added(id);
        debug_assert!(found.is_some(), "a document id of another set");
        found.map_or(&self.first, |(document, _)| document)
    }

    /// Returns the serial number of a document. Unlike its id, it is never given to another one.
    pub fn serial(&self, id: DocId) -> u64 {
        if id.0 == 0 { 0 } else { self.added(id).map_or(0, |(_, serial)| *serial) }
    }

    /// Returns a document other than the first.
    #[inline]
    fn added(&self, id: DocId) -> Option<&Added> {
        let (page, place) = place(id);
        let pages = self.pages.get()?;
        pages.get(page)?.get()?.get(place)?.get()
    }

    /// Returns the document of a node.
    #[inline]
    pub fn of(&self, node: Node) -> &Document {
        self.document(node.doc)
    }

    /// Returns the kind of a node.
    #[inline]
    pub fn kind(&self, node: Node) -> NodeKind {
        if node.is_namespace() {
            return NodeKind::Namespace;
        }
        match self.of(node).kind(node.id) {
            Kind::Document => NodeKind::Root,
            Kind::Element => NodeKind::Element,
            Kind::Attribute => NodeKind::Attribute,
            Kind::Text => NodeKind::Text,
            Kind::Comment => NodeKind::Comment,
            Kind::Instruction => NodeKind::Instruction,
        }
    }

    /// Returns the name of a node. For a namespace node, that is the prefix, in no namespace. The name is empty for nodes without one.
    pub fn name(&self, node: Node) -> QName<'_> {
        match self.namespace(node) {
            Some((prefix, _)) => {
                QName { prefix: "", local: prefix, namespace: xml::Namespace { id: 0, uri: "" } }
            }
            None => self.of(node).name(node.id),
        }
    }

    /// Returns a node's string-value.
    pub fn string_value(&self, node: Node) -> Cow<'_, str> {
        match self.namespace(node) {
            Some((_, uri)) => Cow::Borrowed(uri),
            None => self.of(node).string_value(node.id),
        }
    }

    /// Returns the number of nodes below a node, including attributes.
    #[inline]
    pub fn nodes_below(&self, node: Node) -> u64 {
        if node.is_namespace() {
            0
        } else {
            u64::from(self.of(node).end(node.id).0.saturating_sub(node.id.0 + 1))
        }
    }

    /// Returns the parent. For an attribute or namespace node, that is its element.
    #[inline]
    pub fn parent(&self, node: Node) -> Option<Node> {
        if node.is_namespace() {
            Some(node.with(node.id))
        } else {
            self.of(node).parent(node.id).map(|id| node.with(id))
        }
    }

    /// Returns prefix and URI of a namespace node.
    #[inline]
    pub fn namespace(&self, node: Node) -> Option<(&str, &str)> {
        self.of(node).namespace_at(node.rank()?)
    }
}

/// Returns the page of a document other than the first, and its index on the page.
#[inline]
fn place(id: DocId) -> (usize, usize) {
    // After adding the size of the first page, the highest bit of an id determines the page.
    let counted = id.0.saturating_sub(1).saturating_add(PAGE_FIRST);
    let page = counted.ilog2() - PAGE_FIRST.ilog2();
    (page as usize, (counted - (PAGE_FIRST << page)) as usize)
}
