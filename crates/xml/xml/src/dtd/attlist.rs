//! Attribute lists: types that change how a value is normalised, and defaults.

use crate::chars::value_end;
use crate::dtd::reader::Reader;
use crate::dtd::{AttributeKind, Definition};
use crate::machine::Machine;
use crate::stop::{Scan, Stop, over};
use crate::window::Window;

const WHAT: &str = "an attribute list declaration";

/// Attribute types by keyword. A keyword comes before any keyword that is its prefix.
const KINDS: [(&str, AttributeKind); 8] = [
    ("CDATA", AttributeKind::Cdata),
    ("IDREFS", AttributeKind::Tokens),
    ("IDREF", AttributeKind::Tokens),
    ("ID", AttributeKind::Id),
    ("ENTITY", AttributeKind::Tokens),
    ("ENTITIES", AttributeKind::Tokens),
    ("NMTOKENS", AttributeKind::Tokens),
    ("NMTOKEN", AttributeKind::Tokens),
];

impl Machine {
    /// Reads `<!ATTLIST element ...>`, starting after the keyword.
    pub(crate) fn declare_attributes(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        let mut reader = Reader::new(self, window, at, WHAT);
        reader.need_space()?;
        let (element, _) = reader.qualified_name()?;
        let mut at = reader.at;
        let mut definitions: Vec<Definition> = Vec::new();
        loop {
            let mut reader = Reader::new(self, window, at, WHAT);
            let spaced = reader.space()?;
            if reader.eat(b'>')? {
                at = reader.at;
                break;
            }
            if !spaced {
                return Err(reader.unexpected("white space or `>`"));
            }
            let (name, prefix_len) = reader.qualified_name()?;
            reader.need_space()?;
            let kind = kind(&mut reader)?;
            reader.need_space()?;
            let literal = has_default(&mut reader)?;
            at = reader.at;
            let default = if literal {
                let (value, to) = self.default_value(window, at, kind)?;
                at = to;
                Some(value)
            } else {
                None
            };
            definitions.push(Definition { name: name.into(), prefix_len, kind, default });
            let max = self.options.limits.declarations_max;
            if definitions.len() > max as usize {
                return Err(over(at, "declarations_max", max));
            }
        }
        self.add_definitions(at, element, definitions)?;
        Ok(at)
    }

    /// Reads the value that begins with the quote at `at`. Returns it normalised, with the offset after it.
    fn default_value(
        &mut self,
        window: &Window<'_>,
        at: usize,
        kind: AttributeKind,
    ) -> Scan<(Box<str>, usize)> {
        let quote = window.byte(at).ok_or(Stop::More(WHAT))?;
        self.written.clear();
        let end = value_end(window.text.as_bytes(), at + 1, quote);
        let (_, to) = self.write_value(window, at + 1, end, quote)?;
        let value = match kind {
            AttributeKind::Cdata => self.written.as_str().into(),
            AttributeKind::Id | AttributeKind::Tokens => collapse(&self.written).into(),
        };
        Ok((value, to))
    }

    /// Adds definitions to the list of an element. The first definition of an attribute takes precedence.
    fn add_definitions(
        &mut self,
        at: usize,
        element: &str,
        definitions: Vec<Definition>,
    ) -> Scan<()> {
        // A tag cannot have more attributes than this, and searching more definitions would take quadratic time.
        let max = self.options.limits.attributes_max;
        let Some(dtd) = self.dtd.as_mut().filter(|dtd| !dtd.skipping) else { return Ok(()) };
        let list = dtd.attributes.entry(element.into()).or_default();
        for definition in definitions {
            if list.iter().all(|known| known.name != definition.name) {
                list.push(definition);
            }
            if list.len() > max as usize {
                return Err(over(at, "attributes_max", max));
            }
        }
        Ok(())
    }
}

fn kind(reader: &mut Reader<'_, '_>) -> Scan<AttributeKind> {
    if reader.peek()? == b'(' {
        enumeration(reader, false)?;
        return Ok(AttributeKind::Tokens);
    }
    if reader.keyword("NOTATION")? {
        reader.need_space()?;
        enumeration(reader, true)?;
        return Ok(AttributeKind::Tokens);
    }
    for (word, kind) in KINDS {
        if reader.keyword(word)? {
            return Ok(kind);
        }
    }
    Err(reader.unexpected("an attribute's type"))
}

/// Reads `(a | b)`, with names or name tokens.
fn enumeration(reader: &mut Reader<'_, '_>, names: bool) -> Scan<()> {
    reader.expect(b'(')?;
    loop {
        reader.space()?;
        if names {
            reader.name()?;
        } else {
            reader.token()?;
        }
        reader.space()?;
        if !reader.eat(b'|')? {
            return reader.expect(b')');
        }
    }
}

/// Reads `#REQUIRED`, `#IMPLIED`, or up to the quote of a default value. Returns whether a value follows.
fn has_default(reader: &mut Reader<'_, '_>) -> Scan<bool> {
    if reader.keyword("#REQUIRED")? || reader.keyword("#IMPLIED")? {
        return Ok(false);
    }
    if reader.keyword("#FIXED")? {
        reader.need_space()?;
    }
    match reader.peek()? {
        b'"' | b'\'' => Ok(true),
        _ => Err(reader.unexpected("#REQUIRED, #IMPLIED, #FIXED or a quoted value")),
    }
}

/// Removes blanks at both ends and collapses other runs of blanks to one.
pub(crate) fn collapse(text: &str) -> String {
    let words: Vec<&str> = text.split(' ').filter(|word| !word.is_empty()).collect();
    words.join(" ")
}
