//! Sun's canonical form, which the suite uses for the expected documents.
//!
//! Owns only this form: attributes sorted, no comments, references for white space, and never a document type declaration.

use xml::{Document, Kind, NodeId};

/// The document in canonical form.
pub(crate) fn write(document: &Document) -> String {
    let mut out = String::new();
    for child in document.children(Document::ROOT) {
        write_node(document, child, &mut out);
    }
    out
}

/// Returns the expected document without its document type declaration. Trees do not keep the notations that it declares.
pub(crate) fn without_doctype(expected: &[u8]) -> &[u8] {
    let end = expected.windows(2).position(|pair| pair == b"]>");
    match end {
        Some(end) if expected.starts_with(b"<!DOCTYPE") => {
            let rest = expected.get(end + 2..).unwrap_or_default();
            rest.strip_prefix(b"\n").unwrap_or(rest)
        }
        _ => expected,
    }
}

fn write_node(document: &Document, node: NodeId, out: &mut String) {
    match document.kind(node) {
        Kind::Element => write_element(document, node, out),
        Kind::Text => escape(document.value(node), out),
        Kind::Instruction => {
            out.push_str("<?");
            out.push_str(document.name(node).local);
            out.push(' ');
            out.push_str(document.value(node));
            out.push_str("?>");
        }
        Kind::Comment | Kind::Document | Kind::Attribute => {}
    }
}

fn write_element(document: &Document, element: NodeId, out: &mut String) {
    let name = written(document, element);
    let attributes = document.attributes(element);
    let mut all: Vec<(String, &str)> =
        attributes.map(|a| (written(document, a), document.value(a))).collect();
    all.extend(document.declared(element).map(|(prefix, uri)| match prefix {
        "" => ("xmlns".to_owned(), uri),
        prefix => (format!("xmlns:{prefix}"), uri),
    }));
    all.sort();
    out.push('<');
    out.push_str(&name);
    for (name, value) in all {
        out.push(' ');
        out.push_str(&name);
        out.push_str("=\"");
        escape(value, out);
        out.push('"');
    }
    out.push('>');
    for child in document.children(element) {
        write_node(document, child, out);
    }
    out.push_str("</");
    out.push_str(&name);
    out.push('>');
}

fn written(document: &Document, node: NodeId) -> String {
    let name = document.name(node);
    match name.prefix {
        "" => name.local.to_owned(),
        prefix => format!("{prefix}:{}", name.local),
    }
}

fn escape(text: &str, out: &mut String) {
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\t' => out.push_str("&#9;"),
            '\n' => out.push_str("&#10;"),
            '\r' => out.push_str("&#13;"),
            c => out.push(c),
        }
    }
}
