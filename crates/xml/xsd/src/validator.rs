//! Streaming validation of a document (Part 1, "validation rules": cvc-*).
//!
//! Owns the validation of one document: open elements, complaints, and IDs and keys. It builds no tree: its memory grows with the depth,
//! with the length of one text, and with IDs and keys. The input is the events of a parser or the nodes of a tree; the output is a list of
//! [`Invalid`]. It never changes a document.

mod about;
mod attributes;
mod element;
mod identifier_table;
mod identifiers;
mod open;
mod run;
mod scope;
mod seen_attributes;
mod walk;

use std::sync::Arc;

use xml::{Here, Position, QName, Sink, Start};

use crate::arena::Id;
use crate::datatype::Breach;
use crate::model::Type;
use crate::schema::Schema;
use run::{Run, RunMark};
pub use scope::Hints;
use scope::{Event, Node};

/// An error in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid {
    /// The violated rule of XML Schema, such as `cvc-complex-type.2.4.a`, or `limit`.
    pub code: &'static str,
    /// The element or attribute in question, as written.
    pub node: String,
    pub at: Position,
    pub message: String,
    /// Structured details.
    pub about: ErrorDetails,
}

/// Structured details of an error, for callers with their own wording. Names are `{namespace}local`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ErrorDetails {
    /// Name of the element or attribute.
    pub name: String,
    /// For an attribute, its element.
    pub element: Option<String>,
    /// Names that are allowed here or still required, in the order of the content model. For a text that differs from a fixed value, that
    /// value.
    pub expected: Vec<String>,
    /// Whether the error is about child elements, not about text.
    pub children: bool,
    /// The invalid text; for a list, its first invalid item.
    pub value: Option<String>,
    /// The type of the text, or the type that `xsi:type` names.
    pub type_name: Option<TypeName>,
    /// Variety of the text's type: `atomic`, `list` or `union`. Empty if the error is not about a text and its type.
    pub variety: &'static str,
    /// The rule of the type that the text violates.
    pub breach: Option<Breach>,
}

/// The required simple type of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeName {
    /// A type of XML Schema itself, by its local name.
    BuiltIn(String),
    /// A global type of a schema document.
    Global(String),
    /// A type without a name.
    Local,
}

/// The requirement for the root element.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Root {
    /// A global element of the schema.
    #[default]
    Declared,
    /// Anything. Declared elements are validated.
    Lax,
    /// The global element with this name.
    Element { uri: String, local: String },
    /// Any name, with content of this global type.
    Type { uri: String, local: String },
}

/// Limits on the validation of one document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// Maximum number of complaints, after which validation ends.
    pub invalid_max: usize,
    /// Maximum length of the text of one element of simple type.
    pub text_bytes_max: usize,
    /// Maximum memory for IDs, and for IDREFs whose ID has not occurred yet.
    pub identifier_bytes_max: usize,
    /// Maximum number of key sequences of identity constraints.
    pub identity_entries_max: usize,
    /// Maximum number of steps for identity constraints of nested elements, beyond those of a single one.
    pub identity_steps_max: u64,
}

/// Validates one document after another and reuses its memory.
#[derive(Debug)]
pub struct Validator {
    schema: Arc<Schema>,
    run: Run,
}

/// A snapshot of a validator at some point of a document ([`Validator::mark`]).
#[derive(Debug)]
pub struct ValidatorMark(RunMark);

/// The condition under which a text in a valid document may be replaced by another one so that the document stays valid
/// ([`Validator::text_rule`]).
#[derive(Debug, Clone, Copy)]
pub struct TextRule {
    /// The required type, or `None` if any text is allowed.
    of: Option<Id<Type>>,
    bytes_max: usize,
}

impl TextRule {
    /// Allows any text.
    pub const ANY: TextRule = TextRule { of: None, bytes_max: usize::MAX };

    /// Returns whether the fast path accepts a text. `schema` must be that of the validator.
    pub fn accepts(&self, schema: &Schema, text: &str) -> bool {
        let Some(of) = self.of else { return true };
        let text_of = schema.type_table(of).and_then(|table| table.text.as_ref());
        text.len() <= self.bytes_max && text_of.is_some_and(|of| of.simple.is_plainly(text))
    }
}

/// The reason why a validating parse ended early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ParseStop {
    /// The document is not well-formed, or exceeds a limit of the parser.
    Xml(xml::Error),
    /// The maximum number of complaints is reached.
    Enough,
}

impl From<xml::Error> for ParseStop {
    fn from(error: xml::Error) -> ParseStop {
        ParseStop::Xml(error)
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
            // More complaints than this are hardly ever read.
            invalid_max: 20,
            // The same as the parser's limit on an attribute.
            text_bytes_max: 10 << 20,
            // Enough for some 150,000 IDs.
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

    /// Sets the root requirement for the next documents.
    pub fn set_root(&mut self, root: Root) {
        self.run.root = root;
    }

    /// Sets whether `xsi:type` may name an unknown type on an undeclared element that does not have to be declared. Such types belong to
    /// another schema, as in the header and body of an envelope. The element is then validated as if it had no `xsi:type`.
    pub fn set_foreign_types(&mut self, allowed: bool) {
        self.run.foreign_types = allowed;
    }

    /// Discards the state of the previous document. Must be called before each document that is fed through the [`Sink`].
    pub fn reset(&mut self) {
        self.run.reset();
    }

    /// Parses and validates a document. Validation errors are in [`Validator::invalid`]; the returned error is that of the parser.
    pub fn validate(&mut self, bytes: &[u8], options: &xml::Options) -> Result<(), xml::Error> {
        self.reset();
        match xml::parse(bytes, options, self) {
            Ok(()) | Err(ParseStop::Enough) => Ok(()),
            Err(ParseStop::Xml(error)) => Err(error),
        }
    }

    /// Returns a snapshot of the current state, for a document with the same prefix. Returns `None` if there is more state than the open
    /// elements, or if there are complaints.
    pub fn mark(&self) -> Option<ValidatorMark> {
        self.run.marked().map(ValidatorMark)
    }

    /// Restores a snapshot before a document. It must be from a validator with the same schema, root and bounds.
    pub fn resume(&mut self, mark: &ValidatorMark) {
        self.run.resume(&mark.0);
    }

    /// Returns the condition for replacing the last text, or `None` if validity depends on more than the text.
    pub fn text_rule(&self) -> Option<TextRule> {
        self.run.text_rule(&self.schema)
    }

    /// Validates an element of a tree, with its subtree.
    pub fn validate_tree(&mut self, document: &xml::Document, element: xml::NodeId) {
        self.reset();
        // Harmless: the error only ends the walk early.
        drop(walk::walk(&self.schema, &mut self.run, document, element));
    }

    /// Returns the errors of the document, in the order found.
    pub fn invalid(&self) -> &[Invalid] {
        &self.run.invalid
    }

    pub fn is_valid(&self) -> bool {
        self.run.invalid.is_empty()
    }
}

impl Sink for Validator {
    type Error = ParseStop;

    #[inline]
    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), ParseStop> {
        self.run.start(&self.schema, &Event { start, here })
    }

    #[inline(always)]
    fn text(&mut self, text: &str, _cdata: bool, here: Here<'_>) -> Result<(), ParseStop> {
        self.run.text(&self.schema, text, &here)
    }

    #[inline(always)]
    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), ParseStop> {
        self.run.end(&self.schema, name, &here)
    }

    fn unparsed_entity(
        &mut self,
        name: &str,
        _system: &str,
        _public: Option<&str>,
    ) -> Result<(), ParseStop> {
        self.run.entities.insert(name.into());
        Ok(())
    }
}

/// The position of an event and the namespaces in scope there, looked up on demand.
pub(crate) trait LazyPosition {
    fn position(&self) -> Position;

    /// Returns the namespace of a prefix, or `None` if it is not declared. Without a default namespace, the empty prefix has none (`""`).
    fn resolve(&self, prefix: &str) -> Option<&str>;

    /// Returns whether the document declares this unparsed entity. For a stream this is false, because its entities have been reported
    /// already.
    fn entity(&self, _name: &str) -> bool {
        false
    }
}

impl LazyPosition for Here<'_> {
    fn position(&self) -> Position {
        Here::position(self)
    }

    fn resolve(&self, prefix: &str) -> Option<&str> {
        match self.lookup(prefix) {
            Some(namespace) => Some(namespace.uri),
            None => prefix.is_empty().then_some(""),
        }
    }
}

impl LazyPosition for Node<'_> {
    fn position(&self) -> Position {
        self.document.position(self.node)
    }

    fn resolve(&self, prefix: &str) -> Option<&str> {
        self.bindings.lookup(prefix)
    }

    fn entity(&self, name: &str) -> bool {
        self.document.unparsed_entity(name).is_some()
    }
}
