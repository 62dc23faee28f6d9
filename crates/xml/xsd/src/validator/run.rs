//! The state of validating one document, and code common to all rules.

use std::collections::HashSet;

use xml::QName;

use super::identifier_table::Identifiers;
use super::scope::{Names, Tag};
use super::seen_attributes::SeenAttributes;
use super::{Bounds, ErrorDetails, Invalid, LazyPosition, ParseStop, Root};
use crate::arena::Id;
use crate::datatype::{Steps, StepsLeft, Violation};
use crate::identity::{IdentityLimits, Tables};
use crate::model::{Element, Type};
use crate::names::{NsId, Sym};
use crate::schema::{Manner, Schema};

/// An element that is open.
#[derive(Debug, Clone, Copy)]
pub(super) struct Frame {
    pub(super) type_id: Id<Type>,
    pub(super) element: Option<Id<Element>>,
    pub(super) state: u32,
    /// Index of the first word of its automaton.
    pub(super) words: u32,
    /// Start of its text.
    pub(super) text: u32,
    pub(super) manner: Manner,
    pub(super) nil: bool,
    /// Whether a child was not allowed, so that later children cannot be validated.
    pub(super) lost: bool,
    pub(super) children: bool,
    /// Whether its text has been reported as too long.
    pub(super) overlong: bool,
}

/// State of one run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) root: Root,
    pub(super) bounds: Bounds,
    /// Whether `xsi:type` may name types of other schemas.
    pub(super) foreign_types: bool,
    pub(super) frames: Vec<Frame>,
    /// Depth within an element that is skipped.
    pub(super) skipped: u32,
    pub(super) words: Vec<u64>,
    pub(super) text: String,
    /// The schema's number of each namespace in the document, indexed by the parser's number.
    pub(super) spaces: Vec<NsId>,
    pub(super) seen: SeenAttributes,
    pub(super) invalid: Vec<Invalid>,
    pub(super) entities: HashSet<Box<str>>,
    pub(super) tables: Tables,
    pub(super) violations: Vec<Violation>,
    /// Details of the next complaint, as far as they are known.
    pub(super) about: ErrorDetails,
    pub(super) identifiers: Identifiers,
    pub(super) elements: u64,
    /// Remaining steps of patterns in this document.
    pub(super) steps: Steps,
}

/// A copy of the state between two nodes of a document. Only made if the state is simple.
#[derive(Debug)]
pub(super) struct RunMark {
    frames: Box<[Frame]>,
    words: Box<[u64]>,
    text: Box<str>,
    spaces: Box<[NsId]>,
    skipped: u32,
    elements: u64,
    steps: StepsLeft,
    identity_steps: u64,
}

/// A namespace that has not been looked up yet.
pub(super) const UNSEEN: NsId = NsId(u32::MAX - 1);

impl Run {
    pub(super) fn new(root: Root, bounds: Bounds) -> Run {
        let tables = tables(&bounds);
        Run {
            root,
            bounds,
            foreign_types: false,
            frames: Vec::new(),
            skipped: 0,
            words: Vec::new(),
            text: String::new(),
            spaces: Vec::new(),
            seen: SeenAttributes::default(),
            invalid: Vec::new(),
            entities: HashSet::new(),
            tables,
            violations: Vec::new(),
            about: ErrorDetails::default(),
            identifiers: Identifiers::default(),
            elements: 0,
            steps: Steps::default(),
        }
    }

    pub(super) fn reset(&mut self) {
        self.frames.clear();
        self.skipped = 0;
        self.words.clear();
        self.text.clear();
        self.spaces.clear();
        self.invalid.clear();
        self.entities.clear();
        self.violations.clear();
        self.identifiers.clear();
        self.elements = 0;
        self.steps.refill();
        if self.tables.idle() {
            self.tables.set_steps(self.bounds.identity_steps_max)
        } else {
            self.tables = tables(&self.bounds)
        }
    }

    /// Returns a copy of the state, or `None` if there is more state than the open elements.
    pub(super) fn marked(&self) -> Option<RunMark> {
        let simple = self.invalid.is_empty()
            && self.entities.is_empty()
            && self.violations.is_empty()
            && self.identifiers.is_empty()
            && self.tables.idle();
        simple.then(|| RunMark {
            frames: self.frames.as_slice().into(),
            words: self.words.as_slice().into(),
            text: self.text.as_str().into(),
            spaces: self.spaces.as_slice().into(),
            skipped: self.skipped,
            elements: self.elements,
            steps: self.steps.left(),
            identity_steps: self.tables.steps(),
        })
    }

    /// Restores a copied state at the start of a document.
    pub(super) fn resume(&mut self, marked: &RunMark) {
        self.frames.extend_from_slice(&marked.frames);
        self.words.extend_from_slice(&marked.words);
        self.text.push_str(&marked.text);
        self.spaces.extend_from_slice(&marked.spaces);
        self.skipped = marked.skipped;
        self.elements = marked.elements;
        self.steps.set(marked.steps);
        self.tables.set_steps(marked.identity_steps);
    }

    /// Returns the context of texts in a start tag.
    pub(super) fn names<'a, T: Tag>(&'a self, schema: &'a Schema, tag: &'a T) -> Names<'a> {
        Names { schema, entities: &self.entities, spot: tag, steps: &self.steps }
    }

    /// Returns the schema's number of a namespace in the document.
    #[inline]
    pub(super) fn space(&mut self, schema: &Schema, name: QName<'_>) -> NsId {
        let at = name.namespace.id as usize;
        match self.spaces.get(at) {
            Some(&known) if known != UNSEEN => known,
            Some(_) | None => self.new_space(schema, at, name.namespace.uri),
        }
    }

    #[cold]
    fn new_space(&mut self, schema: &Schema, at: usize, uri: &str) -> NsId {
        let found = schema.components.names.find_namespace(uri);
        // Namespaces beyond this limit are looked up each time.
        if at < SPACES_MAX {
            if self.spaces.len() <= at {
                self.spaces.resize(at + 1, UNSEEN);
            }
            if let Some(place) = self.spaces.get_mut(at) {
                *place = found;
            }
        }
        found
    }

    #[inline]
    pub(super) fn sym(&mut self, schema: &Schema, name: QName<'_>) -> (NsId, Sym) {
        let namespace = self.space(schema, name);
        (namespace, schema.components.names.find(namespace, name.local))
    }

    /// Adds a complaint. Returns an error if the maximum is reached.
    #[cold]
    pub(super) fn complain(
        &mut self,
        spot: &dyn LazyPosition,
        name: QName<'_>,
        code: &'static str,
        message: String,
    ) -> Result<(), ParseStop> {
        self.about.name = expanded(name);
        self.complain_at(spot.position(), written(name), code, message)
    }

    #[cold]
    pub(super) fn complain_at(
        &mut self,
        at: xml::Position,
        node: String,
        code: &'static str,
        message: String,
    ) -> Result<(), ParseStop> {
        let about = std::mem::take(&mut self.about);
        if self.invalid.len() < self.bounds.invalid_max.max(1) {
            self.invalid.push(Invalid { code, node, at, message, about });
        }
        if self.invalid.len() < self.bounds.invalid_max { Ok(()) } else { Err(ParseStop::Enough) }
    }

    /// Reports the violations of identity constraints.
    #[inline]
    pub(super) fn violated(
        &mut self,
        spot: &dyn LazyPosition,
        name: QName<'_>,
    ) -> Result<(), ParseStop> {
        if self.violations.is_empty() {
            return Ok(());
        }
        for violation in std::mem::take(&mut self.violations) {
            self.complain(spot, name, violation.code, violation.message)?;
        }
        Ok(())
    }
}

fn tables(bounds: &Bounds) -> Tables {
    Tables::new(IdentityLimits {
        identity_entries_max: bounds.identity_entries_max,
        identity_steps_max: bounds.identity_steps_max,
    })
}

/// Maximum size of the cache, above the number of namespaces in real documents.
const SPACES_MAX: usize = 4096;

/// Returns a name with its namespace.
pub(super) fn expanded(name: QName<'_>) -> String {
    match name.namespace.uri {
        "" => name.local.to_owned(),
        uri => format!("{{{uri}}}{}", name.local),
    }
}

/// Returns a name as written.
pub(super) fn written(name: QName<'_>) -> String {
    match name.prefix {
        "" => name.local.to_owned(),
        prefix => format!("{prefix}:{}", name.local),
    }
}
