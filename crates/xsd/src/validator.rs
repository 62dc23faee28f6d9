//! Validation of a document as it is read (Part 1, "validation rules": cvc-*).
//!
//! Owns the run over one document: what is open, what has been said, and the identities met. It builds no tree: its memory
//! grows with depth, with the length of one text, and with identities. What is said enters as the events of a parser or
//! the nodes of a tree; what is wrong leaves as [`Invalid`]. It never changes a document.

mod about;
mod attributes;
mod element;
mod identifiers;
mod open;
mod run;
mod scope;

use std::sync::Arc;

use xml::{Here, Position, QName, Sink, Start};

use crate::arena::Id;
use crate::datatype::Breach;
use crate::model::Type;
use crate::schema::Schema;
use run::{Marked, Run};
pub use scope::Hints;
use scope::{Event, Node};

/// One thing wrong with a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The rule of XML Schema that is broken, as `cvc-complex-type.2.4.a`, or `limit`.
    pub code: &'static str,
    /// The element or attribute it is about, as it is written.
    pub node: String,
    pub at: Position,
    pub message: String,
    /// The same in pieces.
    pub about: About,
}

/// What a complaint is about, for whoever words it for his own readers. Names are `{namespace}local`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// The name of the element or attribute.
    pub name: String,
    /// The element an attribute belongs to.
    pub element: Option<String>,
    /// What could stand here, or has to come still, in the order of the content model.
    pub expected: Vec<String>,
    /// It is about elements within, not about text.
    pub children: bool,
    /// The text that is not valid: a list's first item that is not.
    pub value: Option<String>,
    /// The type it was to have: a global one's name, without a namespace for types of XML Schema itself.
    pub type_name: Option<TypeName>,
    /// What that is made of: `atomic`, `list` or `union`.
    pub variety: &'static str,
    /// What it breaks of that type.
    pub breach: Option<Breach>,
}

/// The simple type that a text was to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeName {
    /// One of XML Schema itself, by its local name.
    BuiltIn(String),
    /// A global one of a schema document.
    Global(String),
    /// One without a name.
    Local,
}

/// What the first element has to be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Root {
    /// Some global element of the schema.
    #[default]
    Declared,
    /// Anything; what is declared is checked.
    Lax,
    /// The global element of this name.
    Element { uri: String, local: String },
    /// Any name, with the content of this global type.
    Type { uri: String, local: String },
}

/// Budgets of one document's validation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// The run ends after this many complaints.
    pub invalid_max: usize,
    /// Bytes of the text of one element of simple type.
    pub text_bytes_max: usize,
    /// Bytes that IDs, and IDREFs whose ID has not come yet, take in memory.
    pub identifier_bytes_max: usize,
    /// Key sequences of identity constraints.
    pub identity_entries_max: usize,
    /// What identity constraints of elements within one another may cost beyond those of one.
    pub identity_steps_max: u64,
}

/// Validates documents, one after another. What it allocated for one serves the next.
#[derive(Debug)]
pub struct Validator {
    schema: Arc<Schema>,
    run: Run,
}

/// What a validator knew at a place of a document ([`Validator::mark`]).
#[derive(Debug)]
pub struct Mark(Marked);

/// What a text has to be for a document to be valid with it that is valid with the text it was asked about
/// ([`Validator::text_rule`]).
#[derive(Debug, Clone, Copy)]
pub struct TextRule {
    /// Its type; none where any text will do.
    of: Option<Id<Type>>,
    bytes_max: usize,
}

impl TextRule {
    /// Any text.
    pub const ANY: TextRule = TextRule { of: None, bytes_max: usize::MAX };

    /// Whether a text is that, as a short look tells; `schema` is the validator's.
    pub fn accepts(&self, schema: &Schema, text: &str) -> bool {
        let Some(of) = self.of else { return true };
        let text_of = schema.type_table(of).and_then(|table| table.text.as_ref());
        text.len() <= self.bytes_max && text_of.is_some_and(|of| of.simple.is_plainly(text))
    }
}

/// Why a validating parse ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stop {
    /// The document is not well-formed, or over a budget of the parser.
    Xml(xml::Error),
    /// As many complaints as were asked for.
    Enough,
}

impl From<xml::Error> for Stop {
    fn from(error: xml::Error) -> Stop {
        Stop::Xml(error)
    }
}

impl std::fmt::Display for Invalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}: <{}>: {}", self.at, self.code, self.node, self.message)
    }
}

impl Default for Bounds {
    fn default() -> Bounds {
        Bounds {
            // A person reads no more.
            invalid_max: 20,
            // As long as the longest attribute the parser takes.
            text_bytes_max: 10 << 20,
            // Some 150,000 IDs.
            identifier_bytes_max: 12 << 20,
            identity_entries_max: 1 << 20,
            identity_steps_max: crate::identity::STEPS_MAX,
        }
    }
}

impl Validator {
    pub fn new(schema: Arc<Schema>, root: Root, bounds: Bounds) -> Validator {
        Validator { schema, run: Run::new(root, bounds) }
    }

    /// Another root from the next document on.
    pub fn set_root(&mut self, root: Root) {
        self.run.root = root;
    }

    /// Whether an `xsi:type` may name a type that the schema does not know, on an element that it does not declare and
    /// that need not be: the types are another schema's, as in the header and body of an envelope. Such an element is
    /// judged as if it named none.
    pub fn set_foreign_types(&mut self, allowed: bool) {
        self.run.foreign_types = allowed;
    }

    /// Forgets the document before. To be called before each document that is fed through the [`Sink`].
    pub fn reset(&mut self) {
        self.run.reset();
    }

    /// Parses and validates a document. What is invalid is in [`Validator::invalid`]; the error is the parser's.
    pub fn validate(&mut self, bytes: &[u8], options: &xml::Options) -> Result<(), xml::Error> {
        self.reset();
        match xml::parse(bytes, options, self) {
            Ok(()) | Err(Stop::Enough) => Ok(()),
            Err(Stop::Xml(error)) => Err(error),
        }
    }

    /// What it knows now, for a document that begins like this one; none where that is more than the open elements, or
    /// there are complaints.
    pub fn mark(&self) -> Option<Mark> {
        self.run.marked().map(Mark)
    }

    /// Goes from before a document to a mark that a validator of the same schema, root and bounds has made.
    pub fn resume(&mut self, mark: &Mark) {
        self.run.resume(&mark.0);
    }

    /// What another text would have to be in the place of the one just told; none where that depends on more than the text.
    pub fn text_rule(&self) -> Option<TextRule> {
        self.run.text_rule(&self.schema)
    }

    /// Validates an element of a tree with all that is in it.
    pub fn validate_tree(&mut self, document: &xml::Document, element: xml::NodeId) {
        self.reset();
        // The error only ends the walk early.
        let _enough = scope::walk(&self.schema, &mut self.run, document, element);
    }

    /// What is wrong with the document, in the order it was found.
    pub fn invalid(&self) -> &[Invalid] {
        &self.run.invalid
    }

    pub fn is_valid(&self) -> bool {
        self.run.invalid.is_empty()
    }
}

impl Sink for Validator {
    type Error = Stop;

    #[inline]
    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Stop> {
        self.run.start(&self.schema, &Event { start, here })
    }

    #[inline(always)]
    fn text(&mut self, text: &str, _cdata: bool, here: Here<'_>) -> Result<(), Stop> {
        self.run.text(&self.schema, text, &here)
    }

    #[inline(always)]
    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), Stop> {
        self.run.end(&self.schema, name, &here)
    }

    fn unparsed_entity(
        &mut self,
        name: &str,
        _system: &str,
        _public: Option<&str>,
    ) -> Result<(), Stop> {
        self.run.entities.insert(name.into());
        Ok(())
    }
}

/// Where something is, computed when asked.
pub(crate) trait Spot {
    fn position(&self) -> Position;

    /// Whether the document declares this unparsed entity; a stream has told the run so beforehand.
    fn entity(&self, _name: &str) -> bool {
        false
    }
}

impl Spot for Here<'_> {
    fn position(&self) -> Position {
        Here::position(self)
    }
}

impl Spot for Node<'_> {
    fn position(&self) -> Position {
        self.document.position(self.node)
    }

    fn entity(&self, name: &str) -> bool {
        self.document.unparsed_entity(name).is_some()
    }
}
