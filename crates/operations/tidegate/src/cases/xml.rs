//! Compares XML by meaning: names, namespaces, attributes and texts. Prefixes, comments, processing instructions and white space
//! between elements are ignored.

use std::collections::BTreeMap;

use xml::{Document, Kind, NodeId, Options};

use super::difference::Difference;

/// The namespace of `xsi:type`, whose value is a qualified name.
const INSTANCES: &str = "http://www.w3.org/2001/XMLSchema-instance";

/// An element with its document.
#[derive(Clone, Copy)]
struct Element<'d> {
    document: &'d Document,
    id: NodeId,
}

/// A child of an element.
enum Child {
    Element(NodeId),
    Text(String),
}

/// The first difference of two documents.
pub(super) fn difference(expected: &str, came: &[u8]) -> Option<Difference> {
    let unreadable = |what: String| {
        Some(Difference::new(
            "body",
            expected,
            // Harmless: the text is only shown.
            &format!("(not XML: {what}) {}", String::from_utf8_lossy(came)),
        ))
    };
    let one = match Document::parse(expected.as_bytes(), &Options::default()) {
        Ok(document) => document,
        // `check` reports this.
        Err(error) => return unreadable(format!("what is expected: {error}")),
    };
    let other = match Document::parse(came, &Options::default()) {
        Ok(document) => document,
        Err(error) => return unreadable(error.to_string()),
    };
    let root = one.root_element()?;
    let here = format!("/{}", one.name(root).local);
    let expected = Element { document: &one, id: root };
    elements(expected, Element { document: &other, id: other.root_element()? }, &here)
}

/// The parser limits the depth of documents, and so the recursion here.
fn elements(one: Element<'_>, other: Element<'_>, here: &str) -> Option<Difference> {
    let (expected, came) = (name(one.document, one.id), name(other.document, other.id));
    if expected != came {
        return Some(Difference::new(&format!("xml at {here}"), &expected, &came));
    }
    attributes(one, other, here).or_else(|| children(one, other, here))
}

fn attributes(one: Element<'_>, other: Element<'_>, here: &str) -> Option<Difference> {
    let (expected, came) = (attributes_of(one), attributes_of(other));
    let none = "(no such attribute)";
    let missing = expected.iter().find_map(|(name, value)| {
        let found = came.get(name);
        let differs = found.is_none_or(|found| found != value);
        let found = found.map_or(none, String::as_str);
        differs.then(|| Difference::new(&format!("xml at {here}/@{name}"), value, found))
    });
    missing.or_else(|| {
        let (name, value) = came.iter().find(|(name, _)| !expected.contains_key(*name))?;
        Some(Difference::new(&format!("xml at {here}/@{name}"), none, value))
    })
}

fn children(one: Element<'_>, other: Element<'_>, here: &str) -> Option<Difference> {
    let (expected, came) = (children_of(one), children_of(other));
    let mut passed: BTreeMap<String, usize> = BTreeMap::new();
    for at in 0..expected.len().max(came.len()) {
        match (expected.get(at), came.get(at)) {
            (Some(Child::Element(a)), Some(Child::Element(b))) => {
                let number = passed.entry(name(one.document, *a)).or_insert(0);
                *number += 1;
                let here = format!("{here}/{}[{number}]", one.document.name(*a).local);
                let (a, b) = (Element { id: *a, ..one }, Element { id: *b, ..other });
                let found = elements(a, b, &here);
                if found.is_some() {
                    return found;
                }
            }
            (Some(Child::Text(a)), Some(Child::Text(b))) if a == b => {}
            (a, b) => {
                let at = format!("xml in {here}");
                let (a, b) = (described(a, one.document), described(b, other.document));
                return Some(Difference::new(&at, &a, &b));
            }
        }
    }
    None
}

/// The namespace and the local part.
fn name(document: &Document, id: NodeId) -> String {
    let name = document.name(id);
    match name.namespace.uri {
        "" => name.local.to_owned(),
        uri => format!("{{{uri}}}{}", name.local),
    }
}

fn attributes_of(Element { document, id }: Element<'_>) -> BTreeMap<String, String> {
    let attributes = document.attributes(id).map(|attribute| {
        let named = document.name(attribute);
        let value = document.value(attribute);
        let value = if named.namespace.uri == INSTANCES && named.local == "type" {
            resolved(document, id, value)
        } else {
            value.to_owned()
        };
        (name(document, attribute), value)
    });
    attributes.collect()
}

/// Resolves a qualified name in a value to its namespace.
fn resolved(document: &Document, scope: NodeId, value: &str) -> String {
    let (prefix, local) = value.trim().split_once(':').unwrap_or(("", value.trim()));
    match document.lookup_prefix(scope, prefix) {
        Some(uri) => format!("{{{uri}}}{local}"),
        None => value.to_owned(),
    }
}

/// Child elements and texts. Adjacent texts are joined, and white space between elements is left out.
fn children_of(Element { document, id }: Element<'_>) -> Vec<Child> {
    let mut children: Vec<Child> = Vec::new();
    for child in document.children(id) {
        match document.kind(child) {
            Kind::Element => children.push(Child::Element(child)),
            Kind::Text => match children.last_mut() {
                Some(Child::Text(text)) => text.push_str(document.value(child)),
                _ => children.push(Child::Text(document.value(child).to_owned())),
            },
            Kind::Document | Kind::Attribute | Kind::Comment | Kind::Instruction => {}
        }
    }
    if children.iter().any(|child| matches!(child, Child::Element(_))) {
        children.retain(|child| match child {
            Child::Text(text) => !text.trim_ascii().is_empty(),
            Child::Element(_) => true,
        });
    }
    children
}

fn described(child: Option<&Child>, document: &Document) -> String {
    match child {
        None => "(nothing more)".to_owned(),
        Some(Child::Element(id)) => format!("<{}>", name(document, *id)),
        Some(Child::Text(text)) => format!("{text:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_compared_by_meaning() {
        for (expected, came, at) in [
            ("<a/>", "<a></a>", None),
            (
                "<a xmlns='u'>\n  <b x='1' y='2'>t</b>\n</a>",
                "<p:a xmlns:p='u'><!-- c --><p:b y='2' x='1'><![CDATA[t]]></p:b></p:a>",
                None,
            ),
            (
                "<a xmlns:i='http://www.w3.org/2001/XMLSchema-instance' xmlns:p='u' i:type='p:t'/>",
                "<a xmlns:j='http://www.w3.org/2001/XMLSchema-instance' xmlns:q='u' j:type='q:t'/>",
                None,
            ),
            ("<a>t</a>", "<a> t</a>", Some("xml in /a")),
            ("<a> </a>", "<a/>", Some("xml in /a")),
            ("<a><b/></a>", "<a><b/><c/></a>", Some("xml in /a")),
            ("<a><b/><b>1</b></a>", "<a><b/><b>2</b></a>", Some("xml in /a/b[2]")),
            ("<a><b c='1'/></a>", "<a><b c='2'/></a>", Some("xml at /a/b[1]/@c")),
            ("<a/>", "<a c='2'/>", Some("xml at /a/@c")),
            ("<a xmlns='u'/>", "<a/>", Some("xml at /a")),
            ("<a/>", "no", Some("body")),
        ] {
            let found = difference(expected, came.as_bytes()).map(|found| found.at);
            assert_eq!(found.as_deref(), at, "{expected} {came}");
        }
    }
}
