//! The sink that builds a tree.

use crate::tree::positions::Positions;
use crate::tree::{BuildError, Builder, Document};
use crate::{Error, ErrorKind, Here, Namespace, Options, QName, Sink, Start, XML_NAMESPACE};

/// Number of namespaces that ordinary documents have at most.
const SPACES: usize = 16;

/// The namespace of an undeclared prefix.
const NOTHING: Namespace<'_> = Namespace { id: 0, uri: "" };

/// Stands for a number not looked up yet.
const UNKNOWN: u32 = u32::MAX;

struct TreeSink {
    builder: Builder,
    /// The tree's numbers of the parser's first namespaces.
    spaces: [u32; SPACES],
    /// Line and column of each node, if they cannot be computed from the source's lines.
    places: Option<Vec<(u32, u32)>>,
}

pub(crate) fn parse(bytes: &[u8], options: &Options) -> Result<Document, Error> {
    let mut builder = Builder::new();
    let places = (!builder.locate(bytes)).then(|| vec![(1, 1)]);
    builder.reserve(bytes.len());
    let mut sink = TreeSink { builder, spaces: [UNKNOWN; SPACES], places };
    crate::parse(bytes, options, &mut sink)?;
    let places = sink.places;
    let mut document = sink.builder.finish();
    match places {
        Some(places) => document.positions = Positions::Nodes(places),
        None => document.allow_copies(),
    }
    Ok(document)
}

impl TreeSink {
    #[inline]
    fn done<T>(&mut self, built: Result<T, BuildError>, here: Here<'_>) -> Result<T, Error> {
        if self.places.is_some() {
            self.locate(here);
        }
        match built {
            Ok(built) => Ok(built),
            Err(_) => Err(too_large(here)),
        }
    }

    fn locate(&mut self, here: Here<'_>) {
        if let Some(places) = &mut self.places {
            let at = here.position();
            places.resize(self.builder.len() as usize, (at.line, at.column));
        }
    }

    fn element(&mut self, start: &Start<'_>) -> Result<(), BuildError> {
        let QName { prefix, local, namespace } = start.name;
        let uri = self.space(namespace)?;
        let element = self.builder.start_in(prefix, local, uri)?;
        for (prefix, _) in start.scope.declared() {
            let declared = start.scope.lookup(prefix).unwrap_or(NOTHING);
            let uri = self.space(declared)?;
            self.builder.declare_in(prefix, uri)?;
        }
        for attribute in start.attributes.iter() {
            let QName { prefix, local, namespace } = attribute.name;
            let uri = self.space(namespace)?;
            let name = self.builder.names().number(prefix, local, uri);
            let name = name.ok_or(BuildError::TooLarge)?;
            self.builder.new_attribute(element.0, name, attribute.value)?;
            if attribute.id {
                self.builder.add_id(attribute.value, element);
            } else if local == "id" && namespace.uri == XML_NAMESPACE {
                // `xml:id` is an ID whatever a document type says, or without one (xml:id, 4).
                let words: Vec<&str> = attribute.value.split_ascii_whitespace().collect();
                self.builder.add_id(&words.join(" "), element);
            }
        }
        Ok(())
    }

    /// Returns the tree's number of a namespace; most are looked up once.
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
fn too_large(here: Here<'_>) -> Error {
    let kind = ErrorKind::Limit { name: "nodes of a tree", max: u64::from(u32::MAX) };
    Error { kind, at: here.position() }
}

impl Sink for TreeSink {
    type Error = Error;

    fn start(&mut self, start: &Start<'_>, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.element(start);
        self.done(built, here)
    }

    fn text(&mut self, text: &str, _cdata: bool, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.builder.text(text);
        self.done(built, here)
    }

    fn end(&mut self, _name: QName<'_>, here: Here<'_>) -> Result<(), Error> {
        self.builder.end_at(here.offset());
        let built = self.builder.end();
        self.done(built, here)
    }

    fn comment(&mut self, text: &str, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.builder.comment(text);
        self.done(built, here).map(drop)
    }

    fn instruction(&mut self, target: &str, data: &str, here: Here<'_>) -> Result<(), Error> {
        self.builder.at(here.offset());
        let built = self.builder.instruction(target, data);
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
