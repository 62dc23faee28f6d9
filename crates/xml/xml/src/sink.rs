//! The events of a parser in document order. Their text is borrowed from the input wherever possible.

use std::fmt;

use crate::position_tracker::Tracker;
use crate::scope::{NO_NAMESPACE, Spaces};
use crate::tag_cache::TagSlot;
use crate::window::Window;
use crate::{Error, Namespace, Position, QName};

/// Receives the events of one document. Returning an error ends the parse.
pub trait Sink {
    type Error: From<Error>;

    /// A start tag, or an empty-element tag, which is followed by its [`Sink::end`].
    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Self::Error>;

    /// An event given only by its position in a UTF-8 source. A sink that does not support this returns `None` and then receives the full
    /// event.
    #[doc(hidden)]
    #[inline(always)]
    fn quick(&mut self, _event: ShortEvent, _offset: u64) -> Option<Result<(), Self::Error>> {
        None
    }

    /// Returns where to record facts about the content of the innermost open element, if the sink needs no events for it.
    #[doc(hidden)]
    #[inline(always)]
    fn passed(&mut self) -> Option<&mut Passed> {
        None
    }

    /// Character data, with references replaced and line ends normalised. One run of text may arrive in several pieces, none of them empty.
    /// `cdata`: the piece is from a CDATA section.
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

/// A short form of an event, for a sink that has the source.
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub enum ShortEvent {
    /// A start tag without attributes, equal to the last tag in this slot of the tag cache.
    Start(usize),
    /// Plain text of this many source bytes.
    Text(usize),
    /// An end tag.
    End,
}

/// What is known about the part of a document that a sink skips: the content of an element.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Passed {
    /// Number of open elements in it, including the element itself.
    pub(crate) open: usize,
    /// Whether it contains anything.
    pub(crate) is_any: bool,
    /// Whether it contains a name without a prefix.
    pub(crate) is_bare: bool,
}

/// A start tag.
#[derive(Debug, Clone, Copy)]
pub struct Start<'a> {
    pub name: QName<'a>,
    /// Attributes in the order written, without namespace declarations. Defaults from the internal subset follow.
    pub attributes: Attributes<'a>,
    /// The namespaces in scope, including those declared here.
    pub scope: Scope<'a>,
    /// Whether the tag is an empty-element tag such as `<a/>`.
    pub empty: bool,
    /// The slot of the tag in the tag cache.
    pub(crate) place: TagSlot,
}

impl Start<'_> {
    #[doc(hidden)]
    #[inline]
    pub fn slot(&self) -> TagSlot {
        self.place
    }
}

/// An attribute with its normalised value (XML 1.0, 3.3.3).
#[derive(Debug, Clone, Copy)]
pub struct Attribute<'a> {
    pub name: QName<'a>,
    pub value: &'a str,
    /// Whether the attribute is a default from the internal subset and not in the tag.
    pub defaulted: bool,
    /// Whether the internal subset declares the attribute as an ID.
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
    /// Returns the length of the name after the colon.
    #[inline]
    pub(crate) fn local_len(&self) -> usize {
        let before = if self.prefix_len == 0 { 0 } else { self.prefix_len + 1 };
        self.name.to - self.name.from - before
    }
}

/// A piece of text, either in the window or in the rewritten values.
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

    /// Returns the attributes in the order written.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = Attribute<'a>> + use<'a> {
        Iter { rest: *self }
    }

    /// Returns the attribute with this name, or `None`.
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

/// Iterates over the remaining attributes.
struct Iter<'a> {
    rest: Attributes<'a>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = Attribute<'a>;

    // Inlined into the caller's loop: passing an attribute through memory costs as much as reading it did.
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
    /// Returns the namespace of a prefix. The empty prefix has the default namespace, or id 0 without one. Returns `None` if the prefix is
    /// not declared.
    #[inline]
    pub fn lookup(&self, prefix: &str) -> Option<Namespace<'a>> {
        self.spaces.resolve(prefix).map(|id| self.spaces.namespace(id))
    }

    /// Returns the declarations of this element: prefix and namespace. Both are empty where the default namespace is undeclared.
    pub fn declared(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.spaces.since(self.from)
    }

    /// Returns whether this element has declarations.
    #[inline]
    pub fn declares(&self) -> bool {
        self.spaces.len() > self.from
    }

    /// Returns the number of declarations in scope from enclosing elements, which is the index of this element's first declaration.
    #[inline]
    pub fn outer_len(&self) -> usize {
        self.from
    }

    /// Returns the declarations with indices in `from..to`, except those that are hidden or undeclare the default namespace. See
    /// [`Scope::outer_len`].
    pub fn counting(
        &self,
        from: usize,
        to: usize,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.spaces.counting(from, to)
    }

    /// Returns every prefix in scope with its namespace, including `xml`.
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

/// Position of an event, and the namespaces in scope there. Lines are counted only on request.
#[derive(Clone, Copy)]
pub struct Here<'a> {
    pub(crate) tracker: &'a Tracker,
    pub(crate) window: &'a Window<'a>,
    pub(crate) at: usize,
    pub(crate) spaces: &'a Spaces,
}

impl<'a> Here<'a> {
    /// Returns the namespace of a prefix, as [`Scope::lookup`] does. At the end of an element, its declarations are still in scope.
    #[inline]
    pub fn lookup(&self, prefix: &str) -> Option<Namespace<'a>> {
        self.spaces.resolve(prefix).map(|id| self.spaces.namespace(id))
    }

    /// Returns line and column of the event's first character. Within an entity, they are those of the reference to it.
    pub fn position(&self) -> Position {
        let (window, at) = self.window.place(self.at);
        self.tracker.position(window, at)
    }

    /// Returns the number of document bytes before the event.
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
