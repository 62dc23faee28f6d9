//! Elements, attributes and instructions with computed names (XSLT 1.0, 7.1.2 and 7.1.3).

use super::{Machine, Reach, dynamic};
use crate::compile::{is_ncname, split_qname};
use crate::error::Error;
use crate::program::{Avt, ComputedName};

impl<'s> Machine<'s> {
    pub(super) fn start_made(
        &mut self,
        made: &ComputedName,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        let mut text = std::mem::take(&mut self.memory.text);
        let name = self.made_name(made, true, reach, &mut text)?;
        self.top()?.start(name.prefix, name.local, name.uri);
        self.memory.text = text;
        Ok(())
    }

    pub(super) fn end_attribute(
        &mut self,
        made: &ComputedName,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        let value = self.kept_text()?;
        let mut text = std::mem::take(&mut self.memory.text);
        let name = self.made_name(made, false, reach, &mut text)?;
        self.top()?.attribute(name.prefix, name.local, name.uri, &value);
        self.memory.text = text;
        Ok(())
    }

    pub(super) fn end_instruction(
        &mut self,
        name: &Avt,
        reach: &mut Reach<'_>,
    ) -> Result<(), Error> {
        let text = self.kept_text()?;
        let target = self.avt(name, reach)?;
        self.top()?.instruction(instruction_target(&target)?, &text);
        Ok(())
    }

    /// Computes a name, which borrows from `text` and from the program.
    fn made_name<'t>(
        &mut self,
        made: &ComputedName,
        element: bool,
        reach: &mut Reach<'_>,
        text: &'t mut String,
    ) -> Result<MadeName<'t>, Error>
    where
        's: 't,
    {
        text.clear();
        self.write_avt(&made.name, reach, text)?;
        let end = text.len();
        if let Some(namespace) = &made.namespace {
            self.write_avt(namespace, reach, text)?;
        }
        let (name, uri) = text.split_at_checked(end).unwrap_or((text, ""));
        let uri = made.namespace.is_some().then_some(uri);
        let scope = self.given.program.scopes.get(made.scope as usize);
        made_name(name, uri, element, scope.map_or(&[][..], Vec::as_slice))
    }
}

/// Returns a computed name with its namespace: the given one, or that of the prefix in the stylesheet.
pub(crate) fn made_name<'t>(
    name: &'t str,
    uri: Option<&'t str>,
    element: bool,
    scope: &'t [(Box<str>, Box<str>)],
) -> Result<MadeName<'t>, Error> {
    let name = name.trim();
    let Some((prefix, local)) = split_qname(name) else {
        return Err(dynamic(format!("`{name}` is not a name")));
    };
    if let Some(uri) = uri {
        let prefix = match (uri, prefix) {
            // Nothing may be bound to it (Namespaces in XML 1.0, 3).
            (xml::XMLNS_NAMESPACE, _) => {
                return Err(dynamic(format!("`{name}` cannot be in the namespace of xmlns")));
            }
            // This namespace and this prefix belong to each other.
            (xml::XML_NAMESPACE, _) => "xml",
            ("", _) | (_, "xml" | "xmlns") => "",
            (_, prefix) => prefix,
        };
        return Ok(MadeName { prefix, local, uri });
    }
    if !element && name == "xmlns" {
        return Err(dynamic("an attribute cannot be named xmlns"));
    }
    if prefix == "xml" {
        return Ok(MadeName { prefix, local, uri: xml::XML_NAMESPACE });
    }
    let found = scope.iter().find(|(known, _)| **known == *prefix);
    match (found, prefix) {
        (_, "") if !element => Ok(MadeName { prefix, local, uri: "" }),
        (Some((_, uri)), _) => Ok(MadeName { prefix, local, uri }),
        (None, "") => Ok(MadeName { prefix, local, uri: "" }),
        (None, _) => Err(dynamic(format!("the prefix `{prefix}` is not declared"))),
    }
}

/// Checks the computed target of an instruction.
pub(crate) fn instruction_target(made: &str) -> Result<&str, Error> {
    let target = made.trim();
    if is_ncname(target) && !target.eq_ignore_ascii_case("xml") {
        Ok(target)
    } else {
        Err(dynamic(format!("`{target}` cannot name a processing instruction")))
    }
}

/// A computed name.
pub(crate) struct MadeName<'t> {
    pub(crate) prefix: &'t str,
    pub(crate) local: &'t str,
    pub(crate) uri: &'t str,
}
