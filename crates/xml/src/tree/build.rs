//! Making a tree from calls in document order.

use std::collections::HashMap;
use std::fmt;

use crate::intern::NONE;
use crate::tree::names::Names;
use crate::tree::positions::Positions;
use crate::tree::{Declaration, Document, Kind, NameId, Node, NodeId};

/// Sources beyond this make room as they come.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// Messages of services have a node for about so many bytes.
const NODE_EACH_BYTES: usize = 16;

/// Why a call cannot be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BuildError {
    /// An attribute or a declaration where no element is open, or after its first child.
    Late,
    /// Nothing is open that could end.
    NotOpen,
    /// The tree would have more nodes or more text than it may.
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

/// Makes a document from calls in document order. Several elements and texts may stand at the top, as XSLT's fragments
/// have them.
#[derive(Debug)]
pub struct Builder {
    document: Document,
    /// The document node and the elements that are not ended, each with its last child so far.
    open: Vec<(u32, u32)>,
    nodes_max: u32,
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

    /// Nodes, and bytes of text and values, that the tree may have at most.
    pub fn with_limits(nodes_max: u32, text_bytes_max: u32) -> Builder {
        let root = Node {
            kind: Kind::Document,
            name: NameId(0),
            parent: 0,
            end: 1,
            previous: 0,
            value_start: 0,
            value_end: 0,
            offset: 0,
        };
        let document = Document {
            nodes: vec![root],
            text: String::new(),
            names: Names::new(),
            declarations: Vec::new(),
            ids: HashMap::new(),
            unparsed: HashMap::new(),
            positions: Positions::None,
        };
        Builder { document, open: vec![(0, NONE)], nodes_max, text_bytes_max, offset: 0 }
    }

    /// How many nodes there are so far.
    pub fn len(&self) -> u32 {
        self.document.len()
    }

    /// Nothing was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 1
    }

    /// How many elements are open.
    pub fn depth(&self) -> usize {
        self.open.len().saturating_sub(1)
    }

    /// What was built so far; open elements have no end yet.
    pub fn so_far(&self) -> &Document {
        &self.document
    }

    /// Begins an element.
    pub fn start(&mut self, prefix: &str, local: &str, uri: &str) -> Result<NodeId, BuildError> {
        let name = self.document.names.number(prefix, local, uri).ok_or(BuildError::TooLarge)?;
        let id = self.child(Kind::Element, name, "")?;
        self.open.push((id.0, NONE));
        Ok(id)
    }

    /// Declares a namespace on the element just begun. A prefix it has already gets the new one.
    pub fn declare(&mut self, prefix: &str, uri: &str) -> Result<(), BuildError> {
        let element = self.begun().ok_or(BuildError::Late)?;
        let names = &mut self.document.names;
        let prefix = names.string_number(prefix).ok_or(BuildError::TooLarge)?;
        let uri = names.uri_number(uri).ok_or(BuildError::TooLarge)?;
        let declarations = &mut self.document.declarations;
        let own = declarations.iter_mut().rev().take_while(|d| d.element == element);
        match own.into_iter().find(|d| d.prefix == prefix) {
            Some(known) => known.uri = uri,
            None => declarations.push(Declaration { element, prefix, uri }),
        }
        Ok(())
    }

    /// Adds an attribute to the element just begun, or gives the one of that name another value.
    pub fn attribute(
        &mut self,
        prefix: &str,
        local: &str,
        uri: &str,
        value: &str,
    ) -> Result<NodeId, BuildError> {
        let element = self.begun().ok_or(BuildError::Late)?;
        let name = self.document.names.number(prefix, local, uri).ok_or(BuildError::TooLarge)?;
        let document = &self.document;
        let same = document.attributes(NodeId(element)).find(|attribute| {
            let known = document.name(*attribute);
            known.local == local && known.namespace.uri == uri
        });
        match same {
            None => self.new_attribute(element, name, value),
            Some(known) => {
                let (value_start, value_end) = self.add_text(value)?;
                if let Some(node) = self.document.nodes.get_mut(known.0 as usize) {
                    *node = Node { name, value_start, value_end, ..*node };
                }
                Ok(known)
            }
        }
    }

    /// An attribute whose name the element has not.
    pub(crate) fn new_attribute(
        &mut self,
        element: u32,
        name: NameId,
        value: &str,
    ) -> Result<NodeId, BuildError> {
        let id = self.next_id()?;
        let previous = if id - 1 == element { id } else { id - 1 };
        self.add(Kind::Attribute, name, element, previous, value)
    }

    /// The element just begun: none of its children has come.
    pub(crate) fn begun(&self) -> Option<u32> {
        match self.open.last() {
            Some((element, NONE)) if *element != 0 => Some(*element),
            _ => None,
        }
    }

    pub(crate) fn names(&mut self) -> &mut Names {
        &mut self.document.names
    }

    /// Adds text; neighbours become one node, and empty text none.
    pub fn text(&mut self, text: &str) -> Result<(), BuildError> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some((_, last)) = self.open.last()
            && self.document.nodes.len() == *last as usize + 1
            && self.document.nodes.last().is_some_and(|node| node.kind == Kind::Text)
        {
            let (_, end) = self.add_text(text)?;
            if let Some(node) = self.document.nodes.last_mut() {
                node.value_end = end;
            }
            return Ok(());
        }
        self.child(Kind::Text, NameId(0), text).map(drop)
    }

    pub fn comment(&mut self, text: &str) -> Result<NodeId, BuildError> {
        self.child(Kind::Comment, NameId(0), text)
    }

    pub fn instruction(&mut self, target: &str, data: &str) -> Result<NodeId, BuildError> {
        let name = self.document.names.number("", target, "").ok_or(BuildError::TooLarge)?;
        self.child(Kind::Instruction, name, data)
    }

    /// Ends the element begun last.
    pub fn end(&mut self) -> Result<(), BuildError> {
        match self.open.len() {
            0 | 1 => Err(BuildError::NotOpen),
            _ => {
                self.close();
                Ok(())
            }
        }
    }

    fn close(&mut self) {
        let end = self.len();
        if let Some((id, _)) = self.open.pop()
            && let Some(node) = self.document.nodes.get_mut(id as usize)
        {
            node.end = end;
        }
    }

    /// The document; elements that are open end here.
    pub fn finish(mut self) -> Document {
        while !self.open.is_empty() {
            self.close();
        }
        self.document
    }

    /// Following nodes begin at this byte of a source.
    pub(crate) fn at(&mut self, offset: u64) {
        self.offset = u32::try_from(offset).unwrap_or(u32::MAX);
    }

    pub(crate) fn add_id(&mut self, value: &str, element: NodeId) {
        self.document.ids.entry(value.into()).or_insert(element);
    }

    pub(crate) fn add_unparsed(&mut self, name: &str, system: &str) {
        self.document.unparsed.entry(name.into()).or_insert_with(|| system.into());
    }

    /// Makes room for what a source of that many bytes usually becomes, so that the tree does not move while it grows.
    pub(crate) fn reserve(&mut self, source_bytes: usize) {
        let bytes = source_bytes.min(RESERVED_BYTES_MAX);
        self.document.nodes.reserve(bytes / NODE_EACH_BYTES + 8);
        self.document.text.reserve(bytes / 2);
        self.document.declarations.reserve(8);
        self.open.reserve(16);
    }

    pub(crate) fn set_positions(&mut self, positions: Positions) {
        self.document.positions = positions;
    }

    fn child(&mut self, kind: Kind, name: NameId, value: &str) -> Result<NodeId, BuildError> {
        let id = self.next_id()?;
        let (parent, previous) = match self.open.last_mut() {
            Some((parent, last)) => (*parent, std::mem::replace(last, id)),
            None => (0, NONE),
        };
        let previous = if previous == NONE { id } else { previous };
        self.add(kind, name, parent, previous, value)
    }

    fn next_id(&self) -> Result<u32, BuildError> {
        let id = u32::try_from(self.document.nodes.len()).ok().filter(|id| *id < self.nodes_max);
        id.ok_or(BuildError::TooLarge)
    }

    fn add(
        &mut self,
        kind: Kind,
        name: NameId,
        parent: u32,
        previous: u32,
        value: &str,
    ) -> Result<NodeId, BuildError> {
        let id = self.next_id()?;
        let (value_start, value_end) = self.add_text(value)?;
        let offset = self.offset;
        let node =
            Node { kind, name, parent, end: id + 1, previous, value_start, value_end, offset };
        self.document.nodes.push(node);
        Ok(NodeId(id))
    }

    fn add_text(&mut self, text: &str) -> Result<(u32, u32), BuildError> {
        let from = u32::try_from(self.document.text.len()).map_err(|_| BuildError::TooLarge)?;
        let end = u32::try_from(self.document.text.len() + text.len()).ok();
        let end = end.filter(|end| *end <= self.text_bytes_max).ok_or(BuildError::TooLarge)?;
        self.document.text.push_str(text);
        Ok((from, end))
    }
}
