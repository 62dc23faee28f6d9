//! Attribute value templates (XSLT 1.0, 7.6.2), and bodies that produce only text.

use super::element::{Child, Element};
use super::{Compiler, Locals};
use crate::error::Error;
use crate::program::{Avt, Part};

impl<'m> Compiler<'m> {
    /// Compiles an attribute value template.
    pub(super) fn avt(&self, e: Element<'m>, locals: &Locals, text: &str) -> Result<Avt, Error> {
        let mut parts = Vec::new();
        let mut constant = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            let Some((before, behind)) = rest.split_at_checked(at) else { break };
            constant.push_str(before);
            if let Some(after) = behind.strip_prefix("{{") {
                constant.push('{');
                rest = after;
            } else if let Some(after) = behind.strip_prefix("}}") {
                constant.push('}');
                rest = after;
            } else if let Some(after) = behind.strip_prefix('{') {
                let Some(end) = expression_end(after) else {
                    return Err(self.wrong(e, format!("`{text}`: a brace is not closed")));
                };
                let (inner, after) = after.split_at_checked(end).unwrap_or((after, ""));
                if !constant.is_empty() {
                    parts.push(Part::Text(std::mem::take(&mut constant).into()));
                }
                parts.push(Part::Value(self.expr(e, locals, inner)?));
                rest = after.strip_prefix('}').unwrap_or(after);
            } else {
                // A lone closing brace is an error. In forwards-compatible mode it is literal, as in other processors.
                if !e.forwards() {
                    return Err(
                        self.wrong(e, format!("`{text}`: a closing brace without an opening one"))
                    );
                }
                constant.push('}');
                rest = behind.strip_prefix('}').unwrap_or(behind);
            }
        }
        constant.push_str(rest);
        if parts.is_empty() {
            return Ok(Avt::Constant(constant.into()));
        }
        if !constant.is_empty() {
            parts.push(Part::Text(constant.into()));
        }
        Ok(Avt::Parts(parts.into()))
    }

    /// Compiles the template in an attribute. Returns `None` if the attribute is absent.
    pub(super) fn avt_of(
        &self,
        e: Element<'m>,
        locals: &Locals,
        local: &str,
    ) -> Result<Option<Avt>, Error> {
        e.attribute(local).map(|text| self.avt(e, locals, text)).transpose()
    }

    /// Compiles the body to a template, if it consists only of text, `xsl:text` and `xsl:value-of`. Otherwise returns `None`.
    pub(super) fn text_body(&self, e: Element<'m>, locals: &Locals) -> Result<Option<Avt>, Error> {
        let mut parts = Vec::new();
        for child in e.children() {
            match child {
                Child::Text(text) => push_text(&mut parts, text),
                Child::Element(inner) => match inner.xsl() {
                    Some("text") => {
                        self.check_attributes(inner)?;
                        for child in inner.children() {
                            match child {
                                Child::Text(text) => push_text(&mut parts, text),
                                Child::Element(_) => return Ok(None),
                            }
                        }
                    }
                    Some("value-of") => {
                        self.check_attributes(inner)?;
                        let select = self.required(inner, "select")?;
                        parts.push(Part::Value(self.expr(inner, locals, select)?));
                    }
                    _ => return Ok(None),
                },
            }
        }
        Ok(Some(match parts.as_mut_slice() {
            [] => Avt::Constant("".into()),
            [Part::Text(text)] => Avt::Constant(std::mem::take(text)),
            _ => Avt::Parts(parts.into()),
        }))
    }
}

fn push_text(parts: &mut Vec<Part>, text: &str) {
    match parts.last_mut() {
        Some(Part::Text(before)) => *before = format!("{before}{text}").into(),
        _ if text.is_empty() => {}
        _ => parts.push(Part::Text(text.into())),
    }
}

/// Returns the end of an expression: the next closing brace outside of literals.
fn expression_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, byte) in text.bytes().enumerate() {
        match (quote, byte) {
            (None, b'}') => return Some(at),
            (None, b'"' | b'\'') => quote = Some(byte),
            (Some(open), _) if open == byte => quote = None,
            // Harmless: no other byte affects the search.
            _ => {}
        }
    }
    None
}
