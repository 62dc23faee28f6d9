//! References to entities. The text of an entity is read as content, or becomes part of an attribute value. Defaults and types of declared
//! attributes are applied here too.
//!
//! Recursion follows the nesting of entities, which is bounded by a limit and by [`DEPTH_MAX`].

use crate::Sink;
use crate::chars::is_space;
use crate::dtd::{AttributeKind, Meaning, collapse, within};
use crate::machine::{ContentEnd, Machine, Phase};
use crate::scope::NO_NAMESPACE;
use crate::sink::{Piece, RawAttribute};
use crate::stop::{Halt, Run, Scan, bad, over};
use crate::tag::NameSpan;
use crate::text::{Reference, predefined};
use crate::window::Window;

/// Maximum nesting of general entities, even if the configured limit is larger, to protect the thread's stack.
const DEPTH_MAX: u32 = 64;

impl Machine {
    /// Enters an entity, one level deeper.
    fn deeper(&mut self, at: usize, name: &str) -> Scan<()> {
        let max = self.options.limits.entity_depth_max.min(DEPTH_MAX);
        self.entity_depth += 1;
        if self.entity_depth > max {
            return Err(over(at, "entity_depth_max", max));
        }
        if let Some(dtd) = &mut self.dtd {
            dtd.set_open(name, true);
        }
        Ok(())
    }

    fn shallower(&mut self, name: &str) {
        self.entity_depth -= 1;
        if let Some(dtd) = &mut self.dtd {
            dtd.set_open(name, false);
        }
    }

    /// Handles a reference, in content, to an entity that the document declares.
    pub(crate) fn include<S: Sink>(
        &mut self,
        window: &Window<'_>,
        at: usize,
        name: &str,
        sink: &mut S,
    ) -> Run<(), S::Error> {
        let text = match self.entity(at, name)? {
            // The entity is external, or may be declared in a part that was not read. A non-validating processor may skip it.
            None | Some(Meaning::External) => return Ok(()),
            Some(Meaning::Unparsed(..)) => {
                return Err(
                    bad(at, format!("`{name}` is not parsed: it cannot be in content")).into()
                );
            }
            Some(Meaning::Text(text)) => text,
        };
        self.expand(at, text.len())?;
        self.deeper(at, name)?;
        let floor = std::mem::replace(&mut self.floor, self.open.len());
        let origin = window.origin.or(Some((window.text, at)));
        let inner = Window { text: &text, last: true, origin };
        let left = self.content(&inner, 0, sink).map_err(|halt| match halt {
            Halt::Stop(stop) => Halt::Stop(within(stop, at, name)),
            sink => sink,
        })?;
        let what = match left {
            _ if self.phase == Phase::Cdata => Some("a CDATA section"),
            _ if self.open.len() > self.floor => Some("an element that is not closed"),
            ContentEnd::Within(_, what) => Some(what),
            ContentEnd::Used(_) | ContentEnd::Next(_) => None,
        };
        if let Some(what) = what {
            return Err(bad(at, format!("the entity `{name}` ends within {what}")).into());
        }
        self.floor = floor;
        self.shallower(name);
        Ok(())
    }

    /// Handles a reference in an attribute's value.
    pub(crate) fn write_reference(&mut self, at: usize, reference: Reference<'_>) -> Scan<()> {
        self.token(at)?;
        match reference {
            Reference::Character(c) => self.written.push(c),
            Reference::Entity(name) => match predefined(name) {
                Some(text) => self.written.push_str(text),
                None => self.write_entity(at, name)?,
            },
        }
        Ok(())
    }

    fn write_entity(&mut self, at: usize, name: &str) -> Scan<()> {
        let text = match self.entity(at, name)? {
            None => return Ok(()),
            Some(Meaning::Text(text)) => text,
            Some(Meaning::External | Meaning::Unparsed(..)) => {
                return Err(bad(
                    at,
                    format!("`{name}` is external: it cannot be in an attribute's value"),
                ));
            }
        };
        self.expand(at, text.len())?;
        self.deeper(at, name)?;
        let inner = Window { text: &text, last: true, origin: Some(("", 0)) };
        self.write_entity_text(&inner).map_err(|stop| within(stop, at, name))?;
        self.shallower(name);
        Ok(())
    }

    fn write_entity_text(&mut self, window: &Window<'_>) -> Scan<()> {
        let bytes = window.text.as_bytes();
        let mut at = 0;
        while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
            let odd = |byte: &u8| *byte == b'<' || *byte == b'&' || is_space(*byte);
            let end = at + rest.iter().position(odd).unwrap_or(rest.len());
            self.written.push_str(window.get(at, end));
            at = end + 1;
            match bytes.get(end) {
                None => break,
                Some(b'<') => return Err(bad(end, "`<` is not allowed in an attribute's value")),
                Some(b'&') => {
                    let (reference, to) = self.scan_reference(window, end)?;
                    self.write_reference(end, reference)?;
                    at = to;
                }
                Some(_) => self.written.push(' '),
            }
        }
        Ok(())
    }

    /// Applies the types and defaults of an element's attribute list, after its tag was read.
    #[cold]
    pub(crate) fn apply_definitions(
        &mut self,
        window: &Window<'_>,
        at: usize,
        name: NameSpan,
        spaces_len: usize,
    ) -> Scan<()> {
        let element = window.get(name.from, name.to);
        let Some(dtd) = self.dtd.take() else { return Ok(()) };
        let mut applied = Ok(());
        for definition in dtd.attributes_of(element).unwrap_or(&[]) {
            let (text, written) = (window.text, &self.written);
            let known = self
                .attributes
                .iter()
                .position(|raw| raw.name.of(text, written) == &*definition.name);
            match (
                known.and_then(|known| self.attributes.get(known).copied().map(|raw| (known, raw))),
                &definition.default,
            ) {
                (Some((place, raw)), _) => {
                    let raw = self.by_kind(window, raw, definition.kind);
                    if let Some(kept) = self.attributes.get_mut(place) {
                        *kept = raw;
                    }
                }
                (None, Some(value)) => {
                    applied = self.add_default(window, at, definition, value, spaces_len);
                }
                (None, None) => {}
            }
            if applied.is_err() {
                break;
            }
        }
        self.dtd = Some(dtd);
        applied
    }

    fn by_kind(
        &mut self,
        window: &Window<'_>,
        raw: RawAttribute,
        kind: AttributeKind,
    ) -> RawAttribute {
        if kind == AttributeKind::Cdata {
            return raw;
        }
        let value = raw.value.of(window.text, &self.written);
        let collapsed = collapse(value);
        let value = if collapsed.len() == value.len() { raw.value } else { self.write(&collapsed) };
        RawAttribute { value, id: kind == AttributeKind::Id, ..raw }
    }

    fn add_default(
        &mut self,
        window: &Window<'_>,
        at: usize,
        definition: &crate::dtd::Definition,
        value: &str,
        spaces_len: usize,
    ) -> Scan<()> {
        let max = self.options.limits.attributes_max;
        if self.attributes.len() + (self.spaces.len() - spaces_len) >= max as usize {
            return Err(over(at, "attributes_max", max));
        }
        self.expand(at, value.len())?;
        if self.options.namespaces {
            let prefix = match &*definition.name {
                "xmlns" => Some(""),
                name => name.strip_prefix("xmlns:"),
            };
            if let Some(prefix) = prefix {
                let value = self.write(value);
                return if self.spaces.declares(spaces_len, prefix) {
                    Ok(())
                } else {
                    self.declare(window, at, prefix, value, spaces_len)
                };
            }
        }
        let name = self.write(&definition.name);
        let value = self.write(value);
        self.attributes.push(RawAttribute {
            name,
            prefix_len: definition.prefix_len,
            value,
            namespace: NO_NAMESPACE,
            defaulted: true,
            id: definition.kind == AttributeKind::Id,
        });
        Ok(())
    }

    fn write(&mut self, text: &str) -> Piece {
        let from = self.written.len();
        self.written.push_str(text);
        Piece { from, to: self.written.len(), written: true }
    }
}
