//! Converts texts of simple types to JSON values.

use xsd::datatype::{NameScope, Steps};

use super::{Done, Reader, mismatch};
use crate::typed::model::{Scalar, ScalarKind};
use json::push_string;

use crate::typed::scalar::push_number;

/// Resolves a prefix to its namespace.
pub(in crate::typed) type Resolve<'r> = dyn Fn(&str) -> Option<&'r str> + 'r;

/// Context of the texts of one message.
pub(in crate::typed) struct Prefixes<'d, 'r> {
    pub(in crate::typed) resolve: &'d Resolve<'r>,
    pub(in crate::typed) steps: &'d Steps,
}

impl NameScope for Prefixes<'_, '_> {
    fn resolve(&self, prefix: &str) -> Option<&str> {
        (self.resolve)(prefix).or_else(|| prefix.is_empty().then_some(""))
    }

    fn pattern_budget(&self) -> Option<&Steps> {
        Some(self.steps)
    }
}

impl Reader<'_> {
    /// Appends the value of a text.
    pub(super) fn scalar(&mut self, scalar: &Scalar, text: &str, resolve: &Resolve<'_>) -> Done {
        let names = Prefixes { resolve, steps: &self.steps };
        if let Err(violation) = scalar.simple.check(text, &names) {
            return mismatch(violation.message);
        }
        push_value(&mut self.out, scalar, text, &names);
        Ok(())
    }
}

/// Appends the value of a valid text.
pub(in crate::typed) fn push_value(
    out: &mut String,
    scalar: &Scalar,
    text: &str,
    names: &Prefixes<'_, '_>,
) {
    match &scalar.kind {
        ScalarKind::Boolean => {
            let is_true = matches!(text.trim(), "true" | "1");
            out.push_str(if is_true { "true" } else { "false" });
        }
        ScalarKind::Number { .. } => push_number(out, text.trim()),
        ScalarKind::Float => match text.trim() {
            special @ ("INF" | "-INF" | "NaN") => push_string(out, special),
            number => push_number(out, number),
        },
        ScalarKind::Text | ScalarKind::Free => {
            push_string(out, &scalar.simple.white().normalize(text));
        }
        ScalarKind::Name => {
            let (prefix, local) = text.trim().split_once(':').unwrap_or(("", text.trim()));
            match (names.resolve)(prefix) {
                Some("") => push_string(out, local),
                Some(uri) => push_string(out, &format!("{{{uri}}}{local}")),
                // A name whose prefix is not declared stays as written.
                None => push_string(out, text.trim()),
            }
        }
        ScalarKind::List(item) => {
            out.push('[');
            for (at, word) in text.split_ascii_whitespace().enumerate() {
                if at > 0 {
                    out.push(',');
                }
                push_value(out, item, word, names);
            }
            out.push(']');
        }
        ScalarKind::Union(members) => {
            let takes = |one: &&Scalar| one.simple.check(text, names).is_ok();
            match members.iter().find(takes) {
                Some(member) => push_value(out, member, text, names),
                None => push_string(out, text),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use xsd::Map;

    use crate::typed::read::ReadMessage;
    use crate::typed::{PortChoice, api};

    const TYPES: &str = include_str!("../../../../../../tests/soap_rest/types.wsdl");

    #[test]
    fn the_names_in_a_list_have_their_namespaces() {
        let mut documents = Map::default();
        documents.insert("a.wsdl", TYPES.replace("itemType=\"xs:int\"", "itemType=\"xs:QName\""));
        let read = crate::read("a.wsdl", &documents, &crate::Limits::default()).unwrap();
        let api = api(&read, PortChoice::default()).unwrap();
        let order = api.operations().iter().find(|operation| operation.name() == "Order").unwrap();
        let message = r#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body>
            <Order xmlns="urn:types"><number>1</number><sizes xmlns:p="urn:p">p:a xml:b c</sizes><kind xmlns:p="urn:o">p:a</kind></Order>
            </s:Body></s:Envelope>"#;
        let read = api.reply(order, message.as_bytes(), 1 << 20);
        let expected = concat!(
            r#"{"number":1,"sizes":["{urn:p}a","{http://www.w3.org/XML/1998/namespace}b","{urn:types}c"],"#,
            r#""kind":"{urn:o}a"}"#
        );
        assert_eq!(read, Ok(ReadMessage::Value(expected.to_owned())));
    }
}
