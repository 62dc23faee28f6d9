//! Texts of elements and attributes, validated before they are written.

use std::borrow::Cow;

use xsd::datatype::{Builtin, EmptyScope, NameScope, SharedBudget};

use super::messages::missing;
use super::{Open, Writer};
use crate::typed::mismatch::{Done, Mismatch, Mistakes};
use crate::typed::model::{Attribute, Element, Scalar, ScalarKind, ValueConstraint};
use crate::typed::scalar::{decimal, expected, push_text};
use ::json::Kind;

impl<'a> Writer<'a> {
    /// Writes the text of an element whose start tag is still open.
    pub(super) fn text_of(&mut self, element: &Element, scalar: &Scalar, at: usize) -> Done {
        let text = self.lexical(scalar, element.given.as_ref(), at)?;
        if let ScalarKind::Name = scalar.kind {
            let (declaration, name) = self.name(&text, "q")?;
            self.out.push_str(&declaration);
            self.out.push('>');
            self.out.push_str(&name);
        } else {
            self.out.push('>');
            self.escaped(&text, false)?;
        }
        self.out.push_str(&element.close);
        Ok(())
    }

    /// Returns the declaration and the text of a qualified name.
    fn name(&self, text: &str, prefix: &str) -> Done<(String, String)> {
        let (uri, local) = match split_name(text) {
            // Without a prefix, the name would be in the default namespace, which the root declares.
            None if self.has_default && !text.contains(':') => {
                return Err(Mismatch::new("expected a name as `{namespace}local`"));
            }
            None => return Ok((String::new(), text.into())),
            // The namespace of `xml` always has that prefix.
            Some((xml::XML_NAMESPACE, local)) => {
                return Ok((String::new(), format!("xml:{local}")));
            }
            Some((xml::XMLNS_NAMESPACE, _)) => {
                return Err(Mismatch::new("expected a namespace that may be declared"));
            }
            Some(parts) => parts,
        };
        let mut declaration = format!(" xmlns:{prefix}=\"");
        if !push_text(&mut declaration, uri, true) {
            return Err(Mismatch::new("expected a namespace of characters that XML can hold"));
        }
        declaration.push('"');
        Ok((declaration, format!("{prefix}:{local}")))
    }

    /// Returns the valid text of a value.
    fn lexical(
        &self,
        scalar: &Scalar,
        given: Option<&ValueConstraint>,
        at: usize,
    ) -> Done<Cow<'a, str>> {
        let text = self.text_for(scalar, at)?;
        let checked = match (&scalar.kind, split_name(&text)) {
            (ScalarKind::Name, Some((uri, local))) => {
                scalar.simple.check(&format!("q:{local}"), &self.sharing(&Prefix { uri }))
            }
            _ => scalar.simple.check(&text, &self.sharing(&EmptyScope)),
        };
        if let Err(violation) = checked {
            return Err(Mismatch::new(format!(
                "expected {}: {}",
                expected(scalar),
                violation.message
            )));
        }
        match given {
            Some(given) if given.fixed && !self.is_same(scalar, &text, &given.text) => {
                Err(Mismatch::new(format!("expected the fixed value {:?}", given.text)))
            }
            Some(_) | None => Ok(text),
        }
    }

    fn is_same(&self, scalar: &Scalar, text: &str, fixed: &str) -> bool {
        // Harmless: an invalid value is not equal to the fixed one.
        let value = |text| scalar.simple.validate(text, &self.sharing(&EmptyScope)).ok();
        text == fixed || value(text).is_some_and(|found| value(fixed) == Some(found))
    }

    /// Resolves names for a text of this message.
    fn sharing<'b>(&'b self, names: &'b dyn NameScope) -> SharedBudget<'b> {
        SharedBudget { names, steps: &self.steps }
    }

    /// Returns the text of a value, which must be of the right kind.
    fn text_for(&self, scalar: &Scalar, at: usize) -> Done<Cow<'a, str>> {
        let is_string = matches!(self.entry(at).kind, Kind::Plain | Kind::Escaped);
        match (&scalar.kind, self.entry(at).kind) {
            (ScalarKind::Boolean, Kind::True | Kind::False) => Ok(self.raw(at).into()),
            (ScalarKind::Number { whole }, Kind::Number) => {
                let text = decimal(self.raw(at), *whole);
                text.ok_or_else(|| Mismatch::new("expected a number with fewer digits"))
            }
            (ScalarKind::Float, Kind::Number) => Ok(self.raw(at).into()),
            (ScalarKind::Float, _) if matches!(self.raw(at), "INF" | "-INF" | "NaN") => {
                Ok(self.raw(at).into())
            }
            (ScalarKind::Text | ScalarKind::Name, _) if is_string => Ok(self.string(at)),
            (ScalarKind::List(item), Kind::Array) => {
                let mut text = String::new();
                let (mut value, end) = (at + 1, self.entry(at).next as usize);
                while value < end {
                    if !text.is_empty() {
                        text.push(' ');
                    }
                    let word = self.lexical(item, None, value)?;
                    // Blanks divide the items of a list, so that the item would be read as several, or as none.
                    if word.is_empty() || word.contains(is_blank) {
                        return Err(Mismatch::new("expected a list of items without blanks"));
                    }
                    text.push_str(&word);
                    value = self.entry(value).next as usize;
                }
                Ok(text.into())
            }
            (ScalarKind::Union(members), Kind::Array) => {
                let lists = members.iter().filter(|one| matches!(one.kind, ScalarKind::List(_)));
                let mut texts = lists.map(|list| self.lexical(list, None, at));
                texts.find(Result::is_ok).unwrap_or_else(|| self.wrong(expected(scalar), at))
            }
            (ScalarKind::Union(_) | ScalarKind::Free, Kind::True | Kind::False | Kind::Number) => {
                Ok(self.raw(at).into())
            }
            (ScalarKind::Union(_) | ScalarKind::Free, _) if is_string => Ok(self.string(at)),
            _ => self.wrong(expected(scalar), at),
        }
    }

    pub(super) fn attributes(&mut self, open: &Open<'a>) -> Done {
        let mut mistakes = Mistakes::default();
        for (index, attribute) in open.of.attributes.iter().enumerate() {
            let written = match self.slot(open.base + index) {
                0 if attribute.required => Err(missing(&attribute.key)),
                0 => Ok(()),
                value => self
                    .attribute(attribute, value)
                    .map_err(|mismatch| mismatch.within(&attribute.key)),
            };
            if !mistakes.note(written) {
                return mistakes.done();
            }
        }
        if open.of.any_attribute {
            mistakes.note(self.others(open));
        }
        mistakes.done()
    }

    fn attribute(&mut self, attribute: &Attribute, value: usize) -> Done {
        let text = self.lexical(&attribute.scalar, attribute.given.as_ref(), value)?;
        let text = match attribute.scalar.kind {
            ScalarKind::Name => {
                let (declaration, name) = self.name(&text, &format!("q{value}"))?;
                self.out.push_str(&declaration);
                name.into()
            }
            ScalarKind::Boolean
            | ScalarKind::Number { .. }
            | ScalarKind::Float
            | ScalarKind::Text
            | ScalarKind::List(_)
            | ScalarKind::Union(_)
            | ScalarKind::Free => text,
        };
        self.out.push_str(&attribute.open);
        self.escaped(&text, true)?;
        self.out.push('"');
        Ok(())
    }

    /// Writes attributes that only a wildcard accepts.
    fn others(&mut self, open: &Open<'a>) -> Done {
        let end = self.entry(open.at).next as usize;
        let mut key = open.at + 1;
        while key < end {
            let (name, value) = (self.string(key), key + 1);
            if name.starts_with('@') && self.place(open, &name, 0).is_none() {
                self.other(&name, value).map_err(|mismatch| mismatch.within(&name))?;
            }
            key = self.entry(value).next as usize;
        }
        Ok(())
    }

    fn other(&mut self, key: &str, value: usize) -> Done {
        self.unsure = true;
        let name = key.strip_prefix('@').unwrap_or(key);
        let (uri, local) = split_name(name).unwrap_or(("", name));
        // Validation would ignore the blanks, but they would be written as part of the name.
        if local.contains(is_blank)
            || Builtin::NcName.simple().check(local, &EmptyScope).is_err()
            || local == "xmlns"
        {
            return Err(Mismatch::new("expected an XML name after `@`"));
        }
        if !matches!(self.entry(value).kind, Kind::Plain | Kind::Escaped) {
            return self.wrong("a string", value);
        }
        match uri {
            "" => self.out.push_str(&format!(" {local}=\"")),
            xml::XML_NAMESPACE => self.out.push_str(&format!(" xml:{local}=\"")),
            uri => {
                let (declaration, name) =
                    self.name(&format!("{{{uri}}}{local}"), &format!("o{value}"))?;
                self.out.push_str(&declaration);
                self.out.push_str(&format!(" {name}=\""));
            }
        }
        self.escaped(&self.string(value), true)?;
        self.out.push('"');
        Ok(())
    }
}

/// Returns whether a character is white space in XML.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// Splits `{uri}local`.
fn split_name(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('{')?.split_once('}').filter(|(uri, _)| !uri.is_empty())
}

/// A single prefix, `q`.
struct Prefix<'a> {
    uri: &'a str,
}

impl NameScope for Prefix<'_> {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        match prefix {
            "q" => Some(self.uri),
            other => EmptyScope.resolve(other).map(|_| ""),
        }
    }
}

#[cfg(test)]
mod tests {
    use xsd::Map;

    use crate::typed::{PortChoice, RequestRefusal, api};

    const TYPES: &str = include_str!("../../../../../../tests/soap_rest/types.wsdl");

    #[test]
    fn items_of_a_list_have_no_blanks() {
        let mut documents = Map::default();
        documents.insert("a.wsdl", TYPES.replace("itemType=\"xs:int\"", "itemType=\"xs:string\""));
        let read = crate::read("a.wsdl", &documents, &crate::Limits::default()).unwrap();
        let api = api(&read, PortChoice::default()).unwrap();
        let order = api.operations().iter().find(|operation| operation.name() == "Order").unwrap();
        for (sizes, written) in [
            (r#"["a","b\u00a0c"]"#, Some("sizes>a b\u{a0}c</")),
            (r#"["a b"]"#, None),
            (r#"["a","b\n"]"#, None),
            (r#"["a",""]"#, None),
        ] {
            let request = format!(r#"{{"number":1,"sizes":{sizes}}}"#);
            match (api.request(order, request.as_bytes(), 1 << 20), written) {
                (Ok(text), Some(written)) => assert!(text.contains(written), "{text}"),
                (Err(RequestRefusal::Mismatch(why)), None) => {
                    assert!(why.to_string().contains("without blanks"), "{why}");
                }
                (found, _) => panic!("{sizes}: {found:?}"),
            }
        }
    }
}
