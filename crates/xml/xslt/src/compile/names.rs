//! The names in a stylesheet: resolves QNames, and assigns the numbers that the program uses.

use std::collections::HashMap;

use xpath::Name;

use super::element::Element;
use super::load::Declaration;
use super::{Compiler, FUNCTIONS, XSLT};
use crate::error::Error;
use crate::program::{Global, SourceName, Template, UserFunction};

/// Mode of templates and instructions without a mode.
pub(super) const NO_MODE: u32 = 0;

/// Returns the prefix and local part of a QName, or `None` if the text is not a QName.
pub(crate) fn split_qname(text: &str) -> Option<(&str, &str)> {
    let (prefix, local) = match text.split_once(':') {
        Some(("", _)) => return None,
        Some((prefix, local)) => (prefix, local),
        None => ("", text),
    };
    (is_ncname(local) && (prefix.is_empty() || is_ncname(prefix))).then_some((prefix, local))
}

/// Returns whether a text is a name without colons (Namespaces in XML, 3).
pub(crate) fn is_ncname(text: &str) -> bool {
    let start = |c: char| {
        c.is_ascii_alphabetic()
            || c == '_'
            || matches!(c, '\u{c0}'..='\u{d6}' | '\u{d8}'..='\u{f6}' | '\u{f8}'..='\u{2ff}'
                | '\u{370}'..='\u{37d}' | '\u{37f}'..='\u{1fff}' | '\u{200c}'..='\u{200d}'
                | '\u{2070}'..='\u{218f}' | '\u{2c00}'..='\u{2fef}' | '\u{3001}'..='\u{d7ff}'
                | '\u{f900}'..='\u{fdcf}' | '\u{fdf0}'..='\u{fffd}' | '\u{10000}'..='\u{effff}')
    };
    let part = |c: char| {
        start(c)
            || c.is_ascii_digit()
            || matches!(c, '-' | '.' | '\u{b7}' | '\u{300}'..='\u{36f}' | '\u{203f}'..='\u{2040}')
    };
    let mut chars = text.chars();
    chars.next().is_some_and(start) && chars.all(part)
}

/// Returns the number of a name. A new name gets the next number.
fn number(names: &mut HashMap<Name, u32>, name: Name) -> u32 {
    let next = u32::try_from(names.len()).unwrap_or(u32::MAX);
    *names.entry(name).or_insert(next)
}

impl<'m> Compiler<'m> {
    /// Resolves a QName without default namespace, as for variables, modes, keys and templates.
    pub(super) fn qname(&self, element: Element<'_>, text: &str) -> Result<Name, Error> {
        let named = self.named(element, text, false)?;
        Ok(Name { uri: named.uri, local: named.local })
    }

    /// Resolves a QName and keeps its prefix. If `default`, the default namespace applies to names without a prefix.
    pub(super) fn named(
        &self,
        element: Element<'_>,
        text: &str,
        default: bool,
    ) -> Result<SourceName, Error> {
        let text = text.trim();
        let Some((prefix, local)) = split_qname(text) else {
            return Err(self.wrong(element, format!("`{text}` is not a name")));
        };
        let uri = match (prefix, default) {
            ("", false) => "",
            ("", true) => element.lookup("").unwrap_or(""),
            (prefix, _) => element.lookup(prefix).ok_or_else(|| {
                self.wrong(element, format!("the prefix `{prefix}` is not declared"))
            })?,
        };
        Ok(SourceName { prefix: prefix.into(), local: local.into(), uri: uri.into() })
    }

    /// Returns a required attribute.
    pub(super) fn required(&self, element: Element<'m>, local: &str) -> Result<&'m str, Error> {
        element.attribute(local).ok_or_else(|| {
            self.wrong(element, format!("{} needs the attribute {local}", element.shown()))
        })
    }

    pub(super) fn required_name(&self, element: Element<'m>) -> Result<Name, Error> {
        let text = self.required(element, "name")?;
        self.qname(element, text)
    }

    /// Parses `yes` or `no`. Returns `None` if the attribute is absent.
    pub(super) fn yes_no(&self, element: Element<'_>, local: &str) -> Result<Option<bool>, Error> {
        match element.attribute(local).map(str::trim) {
            None => Ok(None),
            Some("yes") => Ok(Some(true)),
            Some("no") => Ok(Some(false)),
            Some(_) if element.forwards() => Ok(None),
            Some(other) => {
                Err(self.wrong(element, format!("{local} must be `yes` or `no`, not `{other}`")))
            }
        }
    }

    pub(super) fn mode(&mut self, element: Element<'_>) -> Result<u32, Error> {
        let name = match element.attribute("mode").map(str::trim) {
            Some("#default") if element.forwards() => return Ok(NO_MODE),
            Some(text) => self.qname(element, text)?,
            None => return Ok(NO_MODE),
        };
        Ok(self.mode_number(name))
    }

    /// Returns the modes of a template, or an empty list for all modes. Lists and `#all` are from a later version (XSLT 2.0, 6.5).
    pub(super) fn modes_of(&mut self, element: Element<'_>) -> Result<Vec<u32>, Error> {
        let text = element.attribute("mode").filter(|_| element.forwards());
        let Some(text) = text else { return Ok(vec![self.mode(element)?]) };
        if text.trim_ascii() == "#all" {
            return Ok(Vec::new());
        }
        let mut modes = Vec::new();
        for word in text.split_ascii_whitespace() {
            let mode = match word {
                "#all" => return Err(self.wrong(element, "mode has `#all` beside other modes")),
                "#default" => NO_MODE,
                word => {
                    let name = self.qname(element, word)?;
                    self.mode_number(name)
                }
            };
            if modes.contains(&mode) {
                return Err(self.wrong(element, format!("mode has `{word}` twice")));
            }
            modes.push(mode);
        }
        if modes.is_empty() { Err(self.wrong(element, "mode is empty")) } else { Ok(modes) }
    }

    pub(super) fn mode_number(&mut self, name: Name) -> u32 {
        // Number 0 is the mode without a name.
        number(&mut self.modes, name) + 1
    }

    pub(super) fn modes_len(&self) -> usize {
        self.modes.len() + 1
    }

    pub(super) fn param_number(&mut self, name: Name) -> u32 {
        number(&mut self.params, name)
    }

    pub(super) fn set_number(&mut self, name: Name) -> u32 {
        let found = number(&mut self.sets, name);
        if self.set_parts.len() <= found as usize {
            self.set_parts.push(Vec::new());
        }
        found
    }

    /// Assigns numbers to everything that may be referred to before it is declared.
    pub(super) fn number_names(&mut self, declarations: &[Declaration]) -> Result<(), Error> {
        for declaration in declarations.iter().filter(|d| !d.simplified) {
            let element = self.element(declaration);
            let name = element.name();
            match (name.namespace.uri, name.local) {
                (XSLT, "variable" | "param") => self.number_global(declaration, element)?,
                (XSLT, "template") => self.number_template(declaration, element)?,
                (XSLT, "key") => {
                    let name = self.required_name(element)?;
                    number(&mut self.program.key_names, name);
                    self.program.keys.resize_with(self.program.key_names.len(), Vec::new);
                }
                (XSLT, "attribute-set") => {
                    let name = self.required_name(element)?;
                    let set = self.set_number(name);
                    if let Some(parts) = self.set_parts.get_mut(set as usize) {
                        parts.push(*declaration);
                    }
                }
                (XSLT, "namespace-alias") => self.alias(declaration, element)?,
                (FUNCTIONS, "function") => self.number_function(element)?,
                // Harmless: other declarations define no names of this kind.
                _ => {}
            }
        }
        Ok(())
    }

    fn number_global(&mut self, declaration: &Declaration, e: Element<'m>) -> Result<(), Error> {
        let name = self.required_name(e)?;
        if let Some(other) = self.chosen.get(&name)
            && other.precedence == declaration.precedence
        {
            return Err(self.wrong(e, format!("there are two global variables `{}`", name.local)));
        }
        // Declarations come in ascending precedence, so the last one wins.
        self.chosen.insert(name.clone(), *declaration);
        if !self.globals.contains_key(&name) {
            number(&mut self.globals, name.clone());
            self.program.globals.push(Global {
                name,
                is_param: e.xsl() == Some("param"),
                entry: crate::program::CodeBlock::default(),
                needs: Vec::new(),
                place: e.place(),
            });
        }
        Ok(())
    }

    fn number_template(&mut self, declaration: &Declaration, e: Element<'m>) -> Result<(), Error> {
        let Some(text) = e.attribute("name") else { return Ok(()) };
        let name = self.qname(e, text)?;
        let precedence = declaration.precedence;
        match self.templates.get(&name) {
            Some((_, other)) if *other == precedence => {
                Err(self.wrong(e, format!("there are two templates `{}`", name.local)))
            }
            Some(_) => {
                if let Some(entry) = self.templates.get_mut(&name) {
                    entry.1 = precedence;
                }
                Ok(())
            }
            None => {
                let number = u32::try_from(self.program.templates.len()).unwrap_or(u32::MAX);
                self.program.templates.push(Template::default());
                self.templates.insert(name, (number, precedence));
                Ok(())
            }
        }
    }

    fn number_function(&mut self, e: Element<'m>) -> Result<(), Error> {
        let name = self.required_name(e)?;
        if name.uri.is_empty() {
            return Err(self.wrong(e, "a function's name needs a prefix"));
        }
        if !self.functions.contains_key(&name) {
            number(&mut self.functions, name.clone());
            let entry = Default::default();
            self.program.functions.push(UserFunction { name, entry, params: Vec::new() });
        }
        Ok(())
    }
}
