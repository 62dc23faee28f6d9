//! The internal subset of a document type declaration, and the order in which its declarations are processed.
//!
//! Owns entities and attribute lists. Nothing is loaded from outside. After a reference to a parameter entity that is not read, later
//! declarations are checked but not used, as XML 1.0 (5.1) requires.

mod attlist;
mod declarations;
mod declare;
mod model;
mod reader;

pub(crate) use attlist::collapse;
pub(crate) use declarations::{AttributeKind, Definition, Dtd, Entity, Meaning};

use crate::chars::skip_space;
use crate::machine::{Machine, Phase};
use crate::stop::{Scan, Stop, bad, over};
use crate::window::Window;
use crate::{ErrorKind, Sink};
use reader::Reader;

impl Machine {
    /// Returns the meaning of a general entity. Returns `None` if it may be declared in a part that was not read; the reference is then
    /// skipped.
    pub(crate) fn entity(&self, at: usize, name: &str) -> Scan<Option<Meaning>> {
        let dtd = self.dtd.as_deref();
        match dtd.and_then(|dtd| dtd.general.get(name)) {
            Some(entity) if entity.open => {
                Err(bad(at, format!("the entity `{name}` refers to itself")))
            }
            Some(entity) if entity.within && self.standalone => Err(bad(
                at,
                format!(
                    "`{name}` is declared in a parameter entity, and the document says it stands alone"
                ),
            )),
            Some(entity) => Ok(Some(entity.meaning.clone())),
            None if dtd.is_some_and(|dtd| dtd.incomplete) && !self.standalone => Ok(None),
            None => Err(bad(at, format!("the entity `{name}` is not declared"))),
        }
    }

    /// Reads `<!DOCTYPE name ... [` or `<!DOCTYPE name ... >`.
    pub(crate) fn doctype(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        if self.options.doctype == crate::Doctype::Refuse {
            return Err(Stop::Bad(Box::new((at, ErrorKind::DoctypeRefused))));
        }
        if self.dtd.is_some() {
            return Err(bad(at, "a document has one document type declaration"));
        }
        let mut reader =
            Reader::new(self, window, at + "<!DOCTYPE".len(), "a document type declaration");
        reader.need_space()?;
        reader.qualified_name()?;
        let spaced = reader.space()?;
        let external = match reader.peek()? {
            b'S' | b'P' if spaced => {
                reader.external_id(false)?;
                reader.space()?;
                true
            }
            _ => false,
        };
        let phase = match reader.peek()? {
            b'[' => Phase::Subset,
            b'>' => Phase::Prolog,
            _ => return Err(reader.unexpected("`[` or `>`")),
        };
        let to = reader.at + 1;
        self.token(at)?;
        self.phase = phase;
        self.dtd = Some(Box::new(Dtd { incomplete: external, ..Dtd::default() }));
        Ok(to)
    }

    /// Reads one item between the brackets and returns its end. The closing bracket ends the declaration.
    pub(crate) fn subset(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        match window.byte(at) {
            None => Err(Stop::More("the internal subset")),
            Some(b']') => {
                let end = skip_space(window.text.as_bytes(), at + 1);
                match window.byte(end) {
                    None => Err(Stop::More("a document type declaration")),
                    Some(b'>') => {
                        self.phase = Phase::Prolog;
                        Ok(end + 1)
                    }
                    Some(_) => Err(bad(end, "`>` is due after the internal subset")),
                }
            }
            Some(_) => self.subset_item(window, at),
        }
    }

    fn subset_item(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        const WHAT: &str = "a declaration";
        match window.byte(at) {
            Some(b'%') => return self.parameter_reference(window, at),
            Some(b'<') => {}
            _ => {
                return Err(bad(
                    at,
                    format!("{} is not allowed between declarations", window.found(at)),
                ));
            }
        }
        self.token(at)?;
        if window.starts(at, "<?", WHAT)? {
            return self.scan_instruction(window, at).map(|(.., to)| to);
        }
        if window.starts(at, "<!--", WHAT)? {
            return self.scan_comment(window, at).map(|(_, to)| to);
        }
        if window.origin.is_some() && window.starts(at, "<![", WHAT)? {
            return self.conditional(window, at);
        }
        self.count_declaration(at)?;
        type Declare = fn(&mut Machine, &Window<'_>, usize) -> Scan<usize>;
        let declarations: [(&str, Declare); 4] = [
            ("<!ELEMENT", Machine::declare_element),
            ("<!ATTLIST", Machine::declare_attributes),
            ("<!ENTITY", Machine::declare_entity),
            ("<!NOTATION", Machine::declare_notation),
        ];
        for (word, declare) in declarations {
            if window.starts(at, word, WHAT)? {
                return declare(self, window, at + word.len());
            }
        }
        Err(bad(
            at,
            "ELEMENT, ATTLIST, ENTITY, NOTATION, a comment or a processing instruction is due",
        ))
    }

    fn count_declaration(&mut self, at: usize) -> Scan<()> {
        let max = self.options.limits.declarations_max;
        let Some(dtd) = &mut self.dtd else { return Ok(()) };
        dtd.declarations += 1;
        if dtd.declarations > max { Err(over(at, "declarations_max", max)) } else { Ok(()) }
    }

    /// Reads `%name;` between declarations: the text of the entity is read as declarations.
    fn parameter_reference(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        const WHAT: &str = "a reference to a parameter entity";
        let name_to = self.name_end(window, at + 1, WHAT)?;
        let name = window.get(at + 1, name_to);
        if window.byte(name_to) != Some(b';') {
            return Err(bad(name_to, "a reference has to end with `;`"));
        }
        self.token(at)?;
        let standalone = self.standalone;
        let depth_max = self.options.limits.entity_depth_max;
        let Some(dtd) = &mut self.dtd else { return Ok(name_to + 1) };
        dtd.incomplete = true;
        let Some(entity) = dtd.parameters.get_mut(name) else {
            if standalone {
                return Err(bad(at, format!("the parameter entity `{name}` is not declared")));
            }
            dtd.skipping = true;
            return Ok(name_to + 1);
        };
        if entity.open {
            return Err(bad(at, format!("the parameter entity `{name}` refers to itself")));
        }
        let Meaning::Text(text) = entity.meaning.clone() else {
            dtd.skipping |= !standalone;
            return Ok(name_to + 1);
        };
        entity.open = true;
        dtd.depth += 1;
        if dtd.depth > depth_max {
            return Err(over(at, "entity_depth_max", depth_max));
        }
        self.expand(at, text.len())?;
        let origin = window.origin.or(Some((window.text, at)));
        let inner = Window { text: &text, last: true, origin };
        self.items(&inner, 0).map_err(|stop| within(stop, at, name))?;
        if let Some(dtd) = &mut self.dtd {
            dtd.depth -= 1;
            if let Some(entity) = dtd.parameters.get_mut(name) {
                entity.open = false;
            }
        }
        Ok(name_to + 1)
    }

    /// Reads all declarations of a parameter entity.
    fn items(&mut self, window: &Window<'_>, from: usize) -> Scan<()> {
        let mut at = skip_space(window.text.as_bytes(), from);
        while window.byte(at).is_some() {
            at = skip_space(window.text.as_bytes(), self.subset_item(window, at)?);
        }
        Ok(())
    }

    /// Reads `<![INCLUDE[ ... ]]>` or `<![IGNORE[ ... ]]>`, which are allowed only in parameter entities.
    fn conditional(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        let mut reader = Reader::new(self, window, at + 3, "a conditional section");
        reader.space()?;
        let include = reader.keyword("INCLUDE")?;
        if !include && !reader.keyword("IGNORE")? {
            return Err(reader.unexpected("INCLUDE or IGNORE"));
        }
        reader.space()?;
        reader.expect(b'[')?;
        let from = reader.at;
        let end = section_end(window, from)?;
        if include {
            let inner = Window { text: window.get(from, end), ..*window };
            let depth_max = self.options.limits.entity_depth_max;
            let depth = self.dtd.as_mut().map_or(0, |dtd| {
                dtd.depth += 1;
                dtd.depth
            });
            if depth > depth_max {
                return Err(over(at, "entity_depth_max", depth_max));
            }
            self.items(&inner, 0)?;
            if let Some(dtd) = &mut self.dtd {
                dtd.depth -= 1;
            }
        }
        Ok(end + 3)
    }

    /// Passes the unparsed entities to the sink, after the declaration has been read.
    pub(crate) fn tell_unparsed<S: Sink>(&self, sink: &mut S) -> Result<(), S::Error> {
        let Some(dtd) = &self.dtd else { return Ok(()) };
        let mut all: Vec<_> = dtd.general.iter().collect();
        all.sort_unstable_by_key(|(name, _)| *name);
        for (name, entity) in all {
            if let Meaning::Unparsed(system, public) = &entity.meaning {
                sink.unparsed_entity(name, system, public.as_deref())?;
            }
        }
        Ok(())
    }

    /// Adds the bytes of an expanded entity to the budget.
    pub(crate) fn expand(&mut self, at: usize, bytes: usize) -> Scan<()> {
        self.expanded += bytes as u64;
        let max = self.options.limits.expansion_bytes_max;
        if self.expanded > max { Err(over(at, "expansion_bytes_max", max)) } else { Ok(()) }
    }
}

/// Converts an error inside an entity to one at the reference to it.
#[cold]
pub(crate) fn within(stop: Stop, at: usize, name: &str) -> Stop {
    match stop {
        Stop::More(what) => bad(at, format!("the entity `{name}` ends within {what}")),
        Stop::Bad(inner) => match inner.1 {
            kind @ (ErrorKind::Syntax(_)
            | ErrorKind::MismatchedEnd { .. }
            | ErrorKind::Unfinished(_)) => bad(at, format!("in the entity `{name}`: {kind}")),
            kind @ (ErrorKind::Encoding(_)
            | ErrorKind::DoctypeRefused
            | ErrorKind::Limit { .. }) => Stop::Bad(Box::new((at, kind))),
        },
    }
}

/// Returns the position of the `]]>` that ends a conditional section. Sections may be nested.
fn section_end(window: &Window<'_>, from: usize) -> Scan<usize> {
    let bytes = window.text.as_bytes();
    let (mut at, mut depth) = (from, 0u32);
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let found = memchr::memchr2(b'<', b']', rest).ok_or(Stop::More("a conditional section"))?;
        at += found;
        let rest = bytes.get(at..).unwrap_or_default();
        if rest.starts_with(b"]]>") {
            if depth == 0 {
                return Ok(at);
            }
            depth -= 1;
            at += 3;
        } else if rest.starts_with(b"<![") {
            depth += 1;
            at += 3;
        } else {
            at += 1;
        }
    }
    Err(Stop::More("a conditional section"))
}
