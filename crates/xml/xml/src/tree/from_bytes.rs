//! The sink that builds a tree.

use crate::intern::fold;
use crate::parser::parse_known;
use crate::sink::ShortEvent;
use crate::tag_cache::TagSlot;
use crate::tree::positions::plain;
use crate::tree::{BuildError, Builder, Document, NameId, NodeId};
use crate::{
    Error, ErrorKind, Here, Namespace, Options, Position, QName, Sink, Start, XML_NAMESPACE,
};

/// Maximum number of namespaces in ordinary documents.
const SPACES: usize = 16;

/// The namespace used for an undeclared prefix.
const NOTHING: Namespace<'_> = Namespace { id: 0, uri: "" };

/// Placeholder for a number that has not been looked up.
const UNKNOWN: u32 = u32::MAX;

/// Number of slots of the cache of recent names, which form pairs.
const RECENT: usize = 32;

/// Maximum length of a name in that cache, as written.
const RECENT_BYTES: usize = 16;

pub(crate) struct TreeSink<'s> {
    pub(crate) builder: Builder,
    /// The source, if values may be slices of it; otherwise empty.
    source: &'s str,
    /// The tree's numbers of the first namespaces of the parser.
    spaces: [u32; SPACES],
    /// The names of the tags in the parser's tag cache, by slot.
    met: [NameId; TagSlot::COUNT],
    /// Cache of recent names by their bytes, for attributes and for elements with attributes.
    recent: [[RecentName; 2]; RECENT / 2],
    /// Line and column of each node, if they cannot be computed from the lines of the source.
    places: Option<Vec<(u32, u32)>>,
}

/// A short name in the cache.
#[derive(Clone, Copy)]
struct RecentName {
    /// The bytes of the name as written; 0 if the slot is empty.
    key: u128,
    uri: u32,
    name: NameId,
}

pub(crate) fn parse(bytes: &[u8], options: &Options) -> Result<Document, Error> {
    let source = plain(bytes);
    let mut sink = TreeSink::new(source);
    // The tree contains a copy of the source.
    if !kit::memory::has_room(bytes.len()) {
        return Err(too_large(Position::default()));
    }
    sink.builder.reserve(bytes.len());
    parse_known(bytes, source, options, &mut sink)?;
    Ok(sink.finish(source))
}

/// Returns the bytes of a name in the source as one number, or `None` if the name is longer or not a slice of the source.
#[inline]
fn key(source: &str, name: QName<'_>) -> Option<u128> {
    let (first, len) = match name.prefix.len() {
        0 => (name.local, name.local.len()),
        prefix => (name.prefix, prefix + 1 + name.local.len()),
    };
    let unused = RECENT_BYTES.checked_sub(len)?;
    let at = first.as_ptr().addr().wrapping_sub(source.as_ptr().addr());
    let word = source.as_bytes().get(at..)?.first_chunk::<RECENT_BYTES>()?;
    // The bytes after the name are shifted out.
    u128::from_le_bytes(*word).checked_shl(8 * u32::try_from(unused).ok()?)
}

/// Returns the index of the pair of slots for a name.
#[inline]
fn pair(key: u128) -> usize {
    #[allow(clippy::cast_possible_truncation, reason = "the two halves of a key are wanted")]
    let mixed = fold((key >> 64) as u64 ^ key as u64);
    usize::try_from(mixed % (RECENT / 2) as u64).unwrap_or(0)
}

impl<'s> TreeSink<'s> {
    /// Creates a sink. `source`: the source, if values may be slices of it. Inlined, because the sink is too large to be moved cheaply.
    #[inline(always)]
    pub(crate) fn new(source: Option<&'s str>) -> TreeSink<'s> {
        TreeSink {
            builder: Builder::new(),
            source: source.unwrap_or(""),
            spaces: [UNKNOWN; SPACES],
            met: [NameId(0); TagSlot::COUNT],
            recent: [[RecentName { key: 0, uri: 0, name: NameId(0) }; 2]; RECENT / 2],
            places: source.is_none().then(|| vec![(1, 1)]),
        }
    }

    /// Returns the document after parsing. The document is large, so it is moved as rarely as possible.
    fn finish(mut self, source: Option<&str>) -> Document {
        match source {
            Some(source) => _ = self.builder.end_with_source(source),
            // Harmless: without recorded positions the document has none.
            None => self.builder.end_with_places(self.places.take().unwrap_or_default()),
        }
        self.builder.into_document()
    }
}

impl TreeSink<'_> {
    #[inline]
    fn done<T>(&mut self, built: Result<T, BuildError>, here: Here<'_>) -> Result<T, Error> {
        if self.places.is_some() {
            self.locate(here);
        }
        match built {
            Ok(built) => Ok(built),
            Err(_) => Err(too_large(here.position())),
        }
    }

    fn locate(&mut self, here: Here<'_>) {
        if let Some(places) = &mut self.places {
            let at = here.position();
            places.resize(self.builder.len() as usize, (at.line, at.column));
        }
    }

    #[inline]
    fn element(&mut self, start: &Start<'_>) -> Result<(), BuildError> {
        let name = self.element_name(start)?;
        let element = self.builder.start_named(name)?;
        if start.scope.declares() {
            self.declarations(start)?;
        }
        if start.attributes.is_empty() { Ok(()) } else { self.attributes(start, element) }
    }

    #[inline]
    fn element_name(&mut self, start: &Start<'_>) -> Result<NameId, BuildError> {
        match start.place {
            TagSlot::New(place) => {
                // From now on the name is found by the slot of its tag.
                let uri = self.space(start.name.namespace)?;
                let name = self.number(start.name, uri)?;
                if let Some(met) = self.met.get_mut(place) {
                    *met = name;
                }
                Ok(name)
            }
            TagSlot::Known(_) | TagSlot::Nowhere => self.name(start.name),
        }
    }

    fn declarations(&mut self, start: &Start<'_>) -> Result<(), BuildError> {
        for (prefix, _) in start.scope.declared() {
            let declared = start.scope.lookup(prefix).unwrap_or(NOTHING);
            let uri = self.space(declared)?;
            self.builder.declare_in(prefix, uri)?;
        }
        Ok(())
    }

    fn attributes(&mut self, start: &Start<'_>, element: NodeId) -> Result<(), BuildError> {
        for attribute in start.attributes.iter() {
            let QName { local, namespace, .. } = attribute.name;
            let name = self.name(attribute.name)?;
            self.builder.new_attribute(element.0, name, attribute.value, self.source)?;
            if attribute.id {
                self.builder.add_id(attribute.value, element);
            } else if local == "id" && namespace.uri == XML_NAMESPACE {
                // `xml:id` is an ID with or without a document type (xml:id, 4).
                let words: Vec<&str> = attribute.value.split_ascii_whitespace().collect();
                self.builder.add_id(&words.join(" "), element);
            }
        }
        Ok(())
    }

    /// Returns the tree's number of a name.
    #[inline(never)]
    fn name(&mut self, name: QName<'_>) -> Result<NameId, BuildError> {
        let uri = self.space(name.namespace)?;
        let Some(key) = key(self.source, name) else { return self.number(name, uri) };
        if let Some([first, second]) = self.recent.get(pair(key)) {
            if first.key == key && first.uri == uri {
                return Ok(first.name);
            }
            if second.key == key && second.uri == uri {
                return Ok(second.name);
            }
        }
        let number = self.number(name, uri)?;
        if let Some([first, second]) = self.recent.get_mut(pair(key)) {
            *second = *first;
            *first = RecentName { key, uri, name: number };
        }
        Ok(number)
    }

    #[inline(never)]
    fn number(&mut self, name: QName<'_>, uri: u32) -> Result<NameId, BuildError> {
        let number = self.builder.names().number(name.prefix, name.local, uri);
        number.ok_or(BuildError::TooLarge)
    }

    /// Returns the tree's number of a namespace. Most namespaces are looked up only once.
    #[inline]
    fn space(&mut self, namespace: Namespace<'_>) -> Result<u32, BuildError> {
        let known = self.spaces.get_mut(namespace.id as usize);
        if let Some(known) = known.as_deref().filter(|known| **known != UNKNOWN) {
            return Ok(*known);
        }
        let number = self.builder.names().uri_number(namespace.uri);
        let number = number.ok_or(BuildError::TooLarge)?;
        if let Some(known) = known {
            *known = number;
        }
        Ok(number)
    }
}

#[cold]
fn too_large(at: Position) -> Error {
    let kind = ErrorKind::Limit { name: "nodes of a tree", max: u64::from(u32::MAX) };
    Error { kind, at }
}

impl Sink for TreeSink<'_> {
    type Error = Error;

    #[inline]
    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.element(start);
        self.done(built, here)
    }

    #[inline(always)]
    fn quick(&mut self, event: ShortEvent, offset: u64) -> Option<Result<(), Error>> {
        if self.source.is_empty() {
            return None;
        }
        self.builder.at(offset);
        let built = match event {
            ShortEvent::Start(place) => {
                let name = self.met.get(place).copied().unwrap_or(NameId(0));
                self.builder.start_named(name).map(drop)
            }
            ShortEvent::Text(len) => self.builder.text_of_source(len, self.source),
            ShortEvent::End => {
                self.builder.end_at(offset);
                Ok(())
            }
        };
        Some(built.map_err(|_| too_large(Position { offset, ..Position::default() })))
    }

    #[inline]
    fn text(&mut self, text: &str, _cdata: bool, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.builder.text_in(text, self.source);
        self.done(built, here)
    }

    #[inline]
    fn end(&mut self, _name: QName<'_>, here: Here<'_>) -> Result<(), Error> {
        self.builder.end_at(here.offset());
        self.done(Ok(()), here)
    }

    fn comment(&mut self, text: &str, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.builder.comment_in(text, self.source);
        self.done(built, here).map(drop)
    }

    fn instruction(&mut self, target: &str, data: &str, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.builder.instruction_in(target, data, self.source);
        self.done(built, here).map(drop)
    }

    fn unparsed_entity(
        &mut self,
        name: &str,
        system: &str,
        _public: Option<&str>,
    ) -> Result<(), Error> {
        self.builder.add_unparsed(name, system);
        Ok(())
    }
}
