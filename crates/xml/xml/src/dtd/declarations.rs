//! What a document type declaration declares.

use std::collections::HashMap;
use std::sync::Arc;

/// Declarations of a document type declaration.
#[derive(Debug, Default)]
pub(crate) struct Dtd {
    pub(super) general: HashMap<Box<str>, Entity>,
    pub(super) parameters: HashMap<Box<str>, Entity>,
    pub(super) attributes: HashMap<Box<str>, Vec<Definition>>,
    /// There is an external subset or a reference to a parameter entity, so entities may be declared where the parser does not look.
    pub(super) incomplete: bool,
    /// Later declarations are checked but not used.
    pub(super) skipping: bool,
    pub(crate) declarations: u32,
    /// Nesting depth of the parameter entities being read.
    pub(super) depth: u32,
}

/// An entity, general or parameter.
#[derive(Debug, Clone)]
pub(crate) struct Entity {
    pub(crate) meaning: Meaning,
    /// Whether the declaration is inside a parameter entity.
    pub(super) within: bool,
    /// Whether the entity is being read. A reference to it is then a recursion, which is an error.
    pub(super) open: bool,
}

/// Replacement of a reference to an entity.
#[derive(Debug, Clone)]
pub(crate) enum Meaning {
    /// A text, read as part of the document.
    Text(Arc<str>),
    /// An external entity, which is not loaded.
    External,
    /// An unparsed entity: system and public identifier.
    Unparsed(Box<str>, Option<Box<str>>),
}

/// An attribute that a list declares.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) name: Box<str>,
    pub(crate) prefix_len: usize,
    pub(crate) kind: AttributeKind,
    /// The normalised default value.
    pub(crate) default: Option<Box<str>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttributeKind {
    Cdata,
    Id,
    /// White space is collapsed, as for all types but CDATA.
    Tokens,
}

impl Dtd {
    pub(crate) fn attributes_of(&self, element: &str) -> Option<&[Definition]> {
        self.attributes.get(element).map(Vec::as_slice)
    }

    /// Marks a general entity as being read, or no longer.
    pub(crate) fn set_open(&mut self, name: &str, open: bool) {
        if let Some(entity) = self.general.get_mut(name) {
            entity.open = open;
        }
    }
}
