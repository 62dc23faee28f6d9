//! Element declarations. Content models are checked for their syntax and not stored, because this parser does not validate.

use crate::dtd::reader::Reader;
use crate::machine::Machine;
use crate::stop::{Scan, over};
use crate::window::Window;

impl Machine {
    /// Reads `<!ELEMENT name content>`, starting after the keyword.
    pub(crate) fn declare_element(&mut self, window: &Window<'_>, at: usize) -> Scan<usize> {
        let depth_max = self.options.limits.depth_max;
        let mut reader = Reader::new(self, window, at, "an element declaration");
        reader.need_space()?;
        reader.qualified_name()?;
        reader.need_space()?;
        if !reader.keyword("EMPTY")? && !reader.keyword("ANY")? {
            reader.expect(b'(')?;
            reader.space()?;
            if reader.eat(b'#')? { mixed(&mut reader)? } else { children(&mut reader, depth_max)? }
        }
        reader.close()
    }
}

/// Reads `#PCDATA` alone, or followed by names separated by bars, with a star at the end.
fn mixed(reader: &mut Reader<'_, '_>) -> Scan<()> {
    if !reader.keyword("PCDATA")? {
        return Err(reader.unexpected("#PCDATA"));
    }
    let mut names = false;
    loop {
        reader.space()?;
        if reader.eat(b'|')? {
            names = true;
            reader.space()?;
            reader.qualified_name()?;
        } else {
            break;
        }
    }
    reader.expect(b')')?;
    if !reader.eat(b'*')? && names {
        return Err(reader.unexpected("`*` after a choice with #PCDATA"));
    }
    Ok(())
}

/// What a group of a content model requires next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Due {
    Particle,
    Separator,
}

/// Reads a content model after its first bracket. Groups are on an explicit stack, each with the separator that it uses.
fn children(reader: &mut Reader<'_, '_>, depth_max: u32) -> Scan<()> {
    let mut groups: Vec<Option<u8>> = vec![None];
    let mut due = Due::Particle;
    while let Some(separator) = groups.last_mut() {
        reader.space()?;
        match (due, reader.peek()?) {
            (Due::Particle, b'(') => {
                reader.at += 1;
                groups.push(None);
                if groups.len() > depth_max as usize {
                    return Err(over(reader.at, "depth_max", depth_max));
                }
            }
            (Due::Particle, _) => {
                reader.qualified_name()?;
                occurrence(reader)?;
                due = Due::Separator;
            }
            (Due::Separator, b')') => {
                reader.at += 1;
                occurrence(reader)?;
                groups.pop();
            }
            (Due::Separator, byte @ (b'|' | b',')) if separator.is_none_or(|used| used == byte) => {
                reader.at += 1;
                *separator = Some(byte);
                due = Due::Particle;
            }
            (Due::Separator, _) => {
                return Err(reader.unexpected("`)`, or the separator of this group,"));
            }
        }
    }
    Ok(())
}

fn occurrence(reader: &mut Reader<'_, '_>) -> Scan<()> {
    if matches!(reader.peek()?, b'?' | b'*' | b'+') {
        reader.at += 1;
    }
    Ok(())
}
