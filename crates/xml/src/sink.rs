//! Events of a parser in document order, borrowed from the input where no reference had to be replaced.

use std::fmt;

use crate::machine::Window;
use crate::position_tracker::Tracker;
use crate::scope::{NO_NAMESPACE, Spaces};
use crate::tag_cache::TagSlot;
use crate::{Error, Namespace, Position, QName};

/// Receives the events of one document. Its error ends the parse.
pub trait Sink {
    type Error: From<Error>;

    /// A start tag, or an empty-element tag, which is followed by its [`Sink::end`].
    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Self::Error>;

    /// An event told by its place in a source that is UTF-8. A sink that does not want it returns None and gets the event
    /// itself.
    #[doc(hidden)]
    #[inline(always)]
    fn quick(&mut self, _event: ShortEvent, _offset: u64) -> Option<Result<(), Self::Error>> {
        None
    }

    /// Where to note what is inside the innermost open element, if the sink needs no events of that.
    #[doc(hidden)]
    #[inline(always)]
    fn passed(&mut self) -> Option<&mut Passed> {
        None
    }

    /// Character data, references replaced, line ends normalised. One run of text may come in several pieces; no piece is
    /// empty. `cdata` says that the piece came from a CDATA section.
    fn text(&mut self, text: &str, cdata: bool, here: Here<'_>) -> Result<(), Self::Error>;

    /// An end tag.
    fn end(&mut self, name: QName<'_>, here: Here<'_>) -> Result<(), Self::Error>;

    fn comment(&mut self, _text: &str, _here: Here<'_>) -> Result<(), Self::Error> {
        Ok(())
    }

    fn instruction(
        &mut self,
        _target: &str,
        _data: &str,
        _here: Here<'_>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }

    /// An unparsed entity of the internal subset (`NDATA`), for `unparsed-entity-uri()` and ENTITY types.
    fn unparsed_entity(
        &mut self,
        _name: &str,
        _system: &str,
        _public: Option<&str>,
    ) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// An event for a sink that knows the source.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum ShortEvent {
    /// A start tag of a name alone that is the same as the last one with this place among those met.
    Start(usize),
    /// Text of so many bytes of the source, as it is meant.
    Text(usize),
    /// An end tag.
    End,
}

/// The part of a document that a sink leaves out: what is inside an element.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    /// Elements that are open there, that one included.
    pub(crate) open: usize,
    /// There is something.
    pub(crate) is_any: bool,
    /// A name there has no prefix.
    pub(crate) is_bare: bool,
}

/// A start tag.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    pub name: QName<'a>,
    /// Attributes in the order written, without namespace declarations; defaults of an internal subset follow.
    pub attributes: Attributes<'a>,
    /// The namespaces in scope, including those declared here.
    pub scope: Scope<'a>,
    /// The tag was `<a/>`.
    pub empty: bool,
    /// The place of the tag among those met.
    pub(crate) place: TagSlot,
}

impl Start<'_> {
    #[doc(hidden)]
    #[inline]
    pub fn slot(&self) -> TagSlot {
        self.place
    }
}

/// One attribute, its value normalised (XML 1.0, 3.3.3).
#[derive(Debug, Clone, Copy)]
pub struct Attribute<'a> {
    pub name: QName<'a>,
    pub value: &'a str,
    /// The attribute was not in the tag: it is a default of the internal subset.
    pub defaulted: bool,
    /// The internal subset declares the attribute as an ID.
    pub id: bool,
}

/// The attributes of a start tag.
#[derive(Clone, Copy)]
pub struct Attributes<'a> {
    pub(crate) raw: &'a [RawAttribute],
    /// The window that holds the tag.
    pub(crate) window: &'a str,
    /// Values that could not be borrowed.
    pub(crate) written: &'a str,
    pub(crate) spaces: &'a Spaces,
}

/// An attribute by the offsets of its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawAttribute {
    pub(crate) name: Piece,
    /// Length of the prefix; 0 if there is none.
    pub(crate) prefix_len: usize,
    pub(crate) value: Piece,
    pub(crate) namespace: u32,
    pub(crate) defaulted: bool,
    pub(crate) id: bool,
}

impl RawAttribute {
    /// Length of the name behind the colon.
    #[inline]
    pub(crate) fn local_len(&self) -> usize {
        let before = if self.prefix_len == 0 { 0 } else { self.prefix_len + 1 };
        self.name.to - self.name.from - before
    }
}

/// A piece of text, in the window or among the rewritten values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) written: bool,
}

impl Piece {
    #[inline]
    pub(crate) fn of<'a>(self, window: &'a str, written: &'a str) -> &'a str {
        let text = if self.written { written } else { window };
        text.get(self.from..self.to).unwrap_or_default()
    }
}

impl<'a> Attributes<'a> {
    /// Returns whether any attribute has a namespace.
    #[inline]
    pub fn has_qualified(&self) -> bool {
        self.raw.iter().any(|raw| raw.namespace != NO_NAMESPACE)
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.raw.len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.raw.is_empty()
    }

    /// The attributes in the order written.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        Iter { rest: *self }
    }

    /// Returns the attribute of that name, if there is one.
    pub fn get(&self, uri: &str, local: &str) -> Option<Attribute<'a>> {
        self.iter().find(|a| a.name.local == local && a.name.namespace.uri == uri)
    }

    #[inline(always)]
    fn attribute(&self, raw: &RawAttribute) -> Attribute<'a> {
        let name = raw.name.of(self.window, self.written);
        Attribute {
            name: qname(name, raw.prefix_len, self.spaces.namespace(raw.namespace)),
            value: raw.value.of(self.window, self.written),
            defaulted: raw.defaulted,
            id: raw.id,
        }
    }
}

/// The attributes that are still to come.
struct Iter<'a> {
    rest: Attributes<'a>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Attribute<'a>;

    // Inlined into the caller's loop: an attribute passed in memory costs as much as reading it did.
    #[inline(always)]
    fn next(&mut self) -> Option<Attribute<'a>> {
        let (first, rest) = self.rest.raw.split_first()?;
        self.rest.raw = rest;
        Some(self.rest.attribute(first))
    }
}

/// Splits a name at its colon.
#[inline]
pub(crate) fn qname<'a>(name: &'a str, prefix_len: usize, namespace: Namespace<'a>) -> QName<'a> {
    match prefix_len {
        0 => QName { prefix: "", local: name, namespace },
        len => QName {
            prefix: name.get(..len).unwrap_or_default(),
            local: name.get(len + 1..).unwrap_or_default(),
            namespace,
        },
    }
}

impl fmt::Debug for Attributes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The namespaces in scope at an element.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    pub(crate) spaces: &'a Spaces,
    /// Index of this element's first declaration.
    pub(crate) from: usize,
}

impl<'a> Scope<'a> {
    /// Returns the namespace of a prefix; for the empty one the default namespace, or id 0. None if the prefix is not declared.
    #[inline]
    pub fn lookup(&self, prefix: &str) -> Option<Namespace<'a>> {
        self.spaces.resolve(prefix).map(|id| self.spaces.namespace(id))
    }

    /// The declarations of this element: prefix and namespace, both empty where the default is undeclared.
    pub fn declared(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.spaces.since(self.from)
    }

    /// Returns whether this element has declarations.
    #[inline]
    pub fn declares(&self) -> bool {
        self.spaces.len() > self.from
    }

    /// Returns the number of declarations in scope from enclosing elements: the index where those of this element begin.
    #[inline]
    pub fn outer_len(&self) -> usize {
        self.from
    }

    /// Declarations between two such indices, except those that are hidden or undeclare the default.
    pub fn counting(
        &self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.spaces.counting(from, to)
    }

    /// Every prefix in scope with its namespace, including `xml`.
    pub fn all(&self) -> impl Iterator<Item = (&'a str, Namespace<'a>)> + use<'a> {
        self.spaces.all()
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map()
            .entries(self.all().map(|(prefix, namespace)| (prefix, namespace.uri)))
            .finish()
    }
}

/// Position of an event. Lines are counted only when asked for.
#[derive(Clone, Copy)]
pub struct Here<'a> {
    pub(crate) tracker: &'a Tracker,
    pub(crate) window: &'a Window<'a>,
    pub(crate) at: usize,
}

impl Here<'_> {
    /// Line and column of the event's first character; within an entity, of the reference to it.
    pub fn position(&self) -> Position {
        let (window, at) = self.window.place(self.at);
        self.tracker.position(window, at)
    }

    /// Bytes of the document before the event.
    pub fn offset(&self) -> u64 {
        let (window, at) = self.window.place(self.at);
        self.tracker.offset(window, at)
    }
}

impl fmt::Debug for Here<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.position(), f)
    }
}
