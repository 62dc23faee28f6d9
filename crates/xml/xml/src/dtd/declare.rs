//! Declarations of entities and notations.

use crate::chars::skip_ncname;
use crate::dtd::reader::Reader;
use crate::dtd::{Entity, Meaning};
use crate::machine::Machine;
use crate::misc::line_ends;
use crate::stop::{Scan, Stop, bad};
use crate::text::Reference;
use crate::window::Window;

impl Machine {
    /// Reads `<!ENTITY name ...>` or `<!ENTITY % name ...>`, starting after the keyword.
    pub(crate) fn declare_entity(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        let mut reader = Reader::new(self, window, at, "an entity declaration");
        reader.need_space()?;
        let parameter = reader.eat(b'%')?;
        if parameter {
            reader.need_space()?;
        }
        let name = reader.name()?;
        reader.need_space()?;
        let meaning = match reader.peek()? {
            b'"' | b'\'' => {
                let (literal, from) = reader.quoted()?;
                Meaning::Text(self.entity_text(window, from, from + literal.len())?.into())
            }
            _ => external(&mut reader, parameter)?,
        };
        let to = reader.close()?;
        if let (false, Meaning::Text(text)) = (parameter, &meaning) {
            check_predefined(at, name, text)?;
        } else if matches!(name, "lt" | "amp" | "gt" | "apos" | "quot") && !parameter {
            return Err(bad(at, format!("`{name}` has to be an internal entity")));
        }
        if let Some(dtd) = self.dtd.as_mut().filter(|dtd| !dtd.skipping) {
            let entity = Entity { meaning, within: window.origin.is_some(), open: false };
            let entities = if parameter { &mut dtd.parameters } else { &mut dtd.general };
            // The first declaration takes precedence.
            entities.entry(name.into()).or_insert(entity);
        }
        Ok(to)
    }

    /// Returns the replacement text of a literal: character references are replaced, other references are kept.
    fn entity_text(&self, window: &Window<'_>, from: usize, to: usize) -> Scan<String> {
        let literal = Window { text: window.get(0, to), last: true, origin: window.origin };
        let bytes = literal.text.as_bytes();
        let mut text = String::new();
        let mut at = from;
        while let Some(rest) = bytes.get(at..) {
            let end = at + memchr::memchr2(b'&', b'%', rest).unwrap_or(rest.len());
            text.push_str(&line_ends(literal.get(at, end)));
            let Some(found) = bytes.get(end) else { break };
            if *found == b'%' {
                let name_to = skip_ncname(literal.text, end + 1);
                return Err(match literal.byte(name_to) {
                    Some(b';') if name_to > end + 1 => bad(
                        end,
                        "a parameter entity is not allowed within a declaration of the internal subset",
                    ),
                    _ => bad(end, "`%` is not allowed in an entity's value: write `&#37;`"),
                });
            }
            let (reference, next) =
                self.scan_reference(&literal, end).map_err(|stop| match stop {
                    Stop::More(_) => bad(end, "a reference has to end with `;`"),
                    other => other,
                })?;
            match reference {
                Reference::Character(c) => text.push(c),
                Reference::Entity(_) => text.push_str(literal.get(end, next)),
            }
            at = next;
        }
        Ok(text)
    }

    /// Reads `<!NOTATION name ...>`, starting after the keyword.
    pub(crate) fn declare_notation(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        let mut reader = Reader::new(self, window, at, "a notation declaration");
        reader.need_space()?;
        reader.name()?;
        reader.need_space()?;
        reader.external_id(true)?;
        reader.close()
    }
}

/// Reads an external identifier, and for a general entity also the notation of an unparsed entity.
fn external(reader: &mut Reader<'_, '_>, parameter: bool) -> Scan<Meaning> {
    let id = reader.external_id(false)?;
    let spaced = reader.space()?;
    if reader.peek()? != b'N' {
        return Ok(Meaning::External);
    }
    if parameter || !spaced || !reader.keyword("NDATA")? {
        return Err(reader.unexpected("`>`"));
    }
    reader.need_space()?;
    reader.name()?;
    Ok(Meaning::Unparsed(id.system.unwrap_or("").into(), id.public.map(Box::from)))
}

/// Checks that a declaration of a predefined entity gives it the standard meaning (XML 1.0, 4.6).
fn check_predefined(at: usize, name: &str, text: &str) -> Scan<()> {
    let Some(meaning) = crate::text::predefined(name) else { return Ok(()) };
    let code = meaning.bytes().next().unwrap_or(0);
    let digits = text.strip_prefix("&#").and_then(|rest| rest.strip_suffix(';'));
    let referred = digits.and_then(|digits| match digits.strip_prefix('x') {
        // Harmless: any other number is reported as an error below.
        Some(digits) => u8::from_str_radix(digits, 16).ok().filter(|_| !digits.contains('+')),
        None => kit::digits::whole(digits),
    });
    // A bare `<` or `&` would not be well-formed where the entity is referenced.
    let alone = text == meaning && !matches!(name, "lt" | "amp");
    if alone || referred == Some(code) {
        Ok(())
    } else {
        Err(bad(at, format!("`{name}` can be declared only as what it is")))
    }
}
