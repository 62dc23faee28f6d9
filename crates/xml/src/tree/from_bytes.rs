//! The sink that builds a tree.

use crate::tree::names::Names;
use crate::tree::positions::Positions;
use crate::tree::{BuildError, Builder, Document, NameId};
use crate::{Error, ErrorKind, Here, Options, QName, Sink, Start};

struct TreeSink {
    builder: Builder,
    /// Line and column of each node, where the source's lines alone do not tell.
    places: Option<Vec<(u32, u32)>>,
}

pub(crate) fn parse(bytes: &[u8], options: &Options) -> Result<Document, Error> {
    let lines = Positions::of(bytes);
    let places = lines.is_none().then(|| vec![(1, 1)]);
    let mut builder = Builder::new();
    builder.reserve(bytes.len());
    let mut sink = TreeSink { builder, places };
    crate::parse(bytes, options, &mut sink)?;
    let positions = lines.or(sink.places.map(Positions::Nodes)).unwrap_or(Positions::None);
    sink.builder.set_positions(positions);
    Ok(sink.builder.finish())
}

impl TreeSink {
    fn done<T>(&mut self, built: Result<T, BuildError>, here: Here<'_>) -> Result<T, Error> {
        if let Some(places) = &mut self.places {
            let at = here.position();
            places.resize(self.builder.len() as usize, (at.line, at.column));
        }
        built.map_err(|_| Error {
            kind: ErrorKind::Limit { name: "nodes of a tree", max: u64::from(u32::MAX) },
            at: here.position(),
        })
    }

    fn element(&mut self, start: &Start<'_>) -> Result<(), BuildError> {
        let QName { prefix, local, namespace } = start.name;
        let element = self.builder.start(prefix, local, namespace.uri)?;
        for (prefix, uri) in start.scope.declared() {
            self.builder.declare(prefix, uri)?;
        }
        for attribute in start.attributes.iter() {
            let name = number(self.builder.names(), attribute.name)?;
            self.builder.new_attribute(element.0, name, attribute.value)?;
            if attribute.id {
                self.builder.add_id(attribute.value, element);
            }
        }
        Ok(())
    }
}

fn number(names: &mut Names, name: QName<'_>) -> Result<NameId, BuildError> {
    names.number(name.prefix, name.local, name.namespace.uri).ok_or(BuildError::TooLarge)
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
