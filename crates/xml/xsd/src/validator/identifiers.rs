//! IDs and IDREFs in a document (cvc-id), and the limit on their memory.

use std::sync::Arc;

use xml::QName;

use super::identifier_table::{IdrefOwner, Reference};
use super::run::{Run, expanded, written};
use super::{ErrorDetails, LazyPosition, ParseStop};
use crate::datatype::{Identifier, NameScope, SimpleType};

/// IDs and IDREFs of one text.
pub(super) struct FoundIdentifiers {
    all: Vec<(Identifier, String)>,
    /// Whether there are more, which exceed the memory limit.
    cut: bool,
}

/// Memory for an ID in addition to its text: its row in a half-full table, and the allocator's overhead.
const ID_BYTES: usize = 64;
/// Memory for an IDREF in addition to its text, in a list that may be half full.
const REFERENCE_BYTES: usize = 112;

impl Run {
    /// Returns the IDs and IDREFs in a valid text, as far as the memory limit allows.
    pub(super) fn met(
        &self,
        simple: &SimpleType,
        lexical: &str,
        names: &dyn NameScope,
    ) -> FoundIdentifiers {
        let room = self.bounds.identifier_bytes_max.saturating_sub(self.identifiers.bytes);
        let mut met = FoundIdentifiers { all: Vec::new(), cut: false };
        let mut bytes: usize = 0;
        simple.identifiers(lexical, names, &mut |kind, id| {
            if kind == Identifier::IdRef && self.identifiers.ids.contains_key(id) {
                return;
            }
            if bytes > room {
                met.cut = true;
                return;
            }
            bytes = bytes.saturating_add(ID_BYTES + id.len());
            met.all.push((kind, id.to_owned()));
        });
        met
    }

    /// Records the IDs and IDREFs of the innermost element (cvc-id), or of an attribute with its own.
    pub(super) fn identify(
        &mut self,
        spot: &dyn LazyPosition,
        name: QName<'_>,
        element: Option<QName<'_>>,
        met: FoundIdentifiers,
    ) -> Result<(), ParseStop> {
        for (kind, id) in met.all {
            match kind {
                Identifier::Id => self.id(spot, name, element, id)?,
                Identifier::IdRef => self.reference(spot, name, element, id)?,
            }
        }
        if met.cut { self.keep(usize::MAX, spot, name).map(drop) } else { Ok(()) }
    }

    fn id(
        &mut self,
        spot: &dyn LazyPosition,
        name: QName<'_>,
        element: Option<QName<'_>>,
        text: String,
    ) -> Result<(), ParseStop> {
        let owner = self.elements;
        match self.identifiers.ids.get(&*text) {
            Some(&other) if other == owner => Ok(()),
            Some(_) => {
                let message = format!("another element has the ID {text:?}");
                self.about.element = element.map(expanded);
                self.about.value = Some(text);
                self.complain(spot, name, "cvc-id.2", message)
            }
            None => {
                if self.keep(ID_BYTES + text.len(), spot, name)? {
                    self.identifiers.ids.insert(text.into(), owner);
                }
                Ok(())
            }
        }
    }

    fn reference(
        &mut self,
        spot: &dyn LazyPosition,
        name: QName<'_>,
        element: Option<QName<'_>>,
        text: String,
    ) -> Result<(), ParseStop> {
        if self.identifiers.ids.contains_key(&*text) {
            return Ok(());
        }
        let place = IdrefOwner {
            node: written(name),
            name: expanded(name),
            element: element.map(expanded),
        };
        let mut bytes = REFERENCE_BYTES + text.len();
        let before = self.identifiers.references.last().map(|before| &before.place);
        let place = match before.filter(|before| ***before == place) {
            Some(before) => Arc::clone(before),
            None => {
                bytes += place.bytes();
                Arc::new(place)
            }
        };
        if self.keep(bytes, spot, name)? {
            let reference = Reference { text: text.into(), at: spot.position(), place };
            self.identifiers.references.push(reference);
        }
        Ok(())
    }

    /// Returns whether the memory limit allows this many more bytes. The first failure is reported; later ones are not.
    fn keep(
        &mut self,
        bytes: usize,
        spot: &dyn LazyPosition,
        name: QName<'_>,
    ) -> Result<bool, ParseStop> {
        let max = self.bounds.identifier_bytes_max;
        self.identifiers.bytes = self.identifiers.bytes.saturating_add(bytes);
        if self.identifiers.bytes <= max {
            return Ok(true);
        }
        self.identifiers.bytes = usize::MAX;
        if !std::mem::replace(&mut self.identifiers.over, true) {
            let message = format!("IDs and IDREFs take over {max} bytes of memory");
            self.complain(spot, name, "limit.identifier_bytes_max", message)?;
        }
        Ok(false)
    }

    /// Checks, at the end, that every IDREF has its ID. If some were not stored, this cannot be determined and is skipped.
    pub(super) fn finish(&mut self) -> Result<(), ParseStop> {
        let references = std::mem::take(&mut self.identifiers.references);
        if self.identifiers.over {
            return Ok(());
        }
        for Reference { text, at, place } in references {
            if !self.identifiers.ids.contains_key(&text) {
                let message = format!("no element has the ID {text:?}");
                let (name, element) = (place.name.clone(), place.element.clone());
                self.about = ErrorDetails { name, element, ..ErrorDetails::default() };
                self.complain_at(at, place.node.clone(), "cvc-id.1", message)?;
            }
        }
        Ok(())
    }
}
