//! Writes a document with changes at some of its nodes. The cost is linear in the bytes read and written, however many changes there are.
//! The tree itself is not changed.

use std::collections::{BTreeMap, btree_map};

use kit::turns;
use xml::{Document, Kind, NodeId, QName, escape_attribute, escape_text};

/// Returns true if a default namespace is in scope in an element.
pub fn has_default_namespace(document: &Document, element: NodeId) -> bool {
    document.lookup_prefix(element, "").is_some()
}

/// Changes by node. All texts are markup, except for values of attributes.
#[derive(Debug, Default)]
pub struct Edits {
    nodes: BTreeMap<u32, Change>,
}

/// The changes at one node.
#[derive(Debug, Default)]
pub struct Change {
    pub before: String,
    /// Replaces the node. An empty text removes it.
    pub instead: Option<String>,
    /// Replaces the content of the element.
    pub content: Option<String>,
    /// Inserted before the first child of the element.
    pub first: String,
    /// Inserted after the last child of the element.
    pub last: String,
    pub after: String,
}

impl Edits {
    /// Returns the changes at a node, so that the caller can add to them.
    pub fn at(&mut self, node: NodeId) -> &mut Change {
        self.nodes.entry(node.0).or_default()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns the document with the changes applied.
    pub fn write(&self, document: &Document) -> String {
        // Reserves room for new contents, which may be most of the text, and for an envelope around them.
        let contents = self.nodes.values().filter_map(|change| change.content.as_ref());
        let mut out = String::with_capacity(contents.map(String::len).sum::<usize>() + 512);
        let changes = Changes::new(&self.nodes);
        Writer { document, changes, out: &mut out, open: Vec::new() }.write();
        out
    }
}

struct Writer<'d, 'o> {
    document: &'d Document,
    changes: Changes<'d>,
    out: &'o mut String,
    open: Vec<Open<'d>>,
}

/// The changes in node order, for a writer that visits the nodes in the same order.
struct Changes<'d> {
    next: Option<(u32, &'d Change)>,
    rest: btree_map::Iter<'d, u32, Change>,
}

/// An element whose end tag has not been written yet.
struct Open<'d> {
    end: u32,
    name: QName<'d>,
    change: Option<&'d Change>,
}

impl<'d> Changes<'d> {
    fn new(nodes: &'d BTreeMap<u32, Change>) -> Changes<'d> {
        let mut changes = Changes { next: None, rest: nodes.iter() };
        changes.advance();
        changes
    }

    fn advance(&mut self) {
        self.next = self.rest.next().map(|(node, change)| (*node, change));
    }

    /// Returns the change at a node. Skips changes at earlier nodes, which lie inside content that was replaced.
    fn at(&mut self, node: NodeId) -> Option<&'d Change> {
        while let Some((next, change)) = self.next
            && next <= node.0
        {
            self.advance();
            if next == node.0 {
                return Some(change);
            }
        }
        None
    }

    /// Returns true if there is a change before the node `end`.
    fn is_before(&self, end: u32) -> bool {
        self.next.is_some_and(|(next, _)| next < end)
    }
}

impl<'d> Writer<'d, '_> {
    fn write(&mut self) {
        let mut at = 0;
        while at < self.document.len() {
            turns::count_part();
            self.close_up_to(at);
            at = self.node(NodeId(at));
        }
        self.close_up_to(u32::MAX);
    }

    /// Writes the markup that begins at a node, and returns the id of the next node to write.
    fn node(&mut self, node: NodeId) -> u32 {
        let kind = self.document.kind(node);
        if matches!(kind, Kind::Attribute | Kind::Document) {
            // Attributes are written with their element.
            return node.0 + 1;
        }
        let change = self.changes.at(node);
        if let Some(change) = change {
            self.out.push_str(&change.before);
            if let Some(instead) = &change.instead {
                self.out.push_str(instead);
                self.out.push_str(&change.after);
                return self.document.end(node).0;
            }
        }
        match kind {
            Kind::Element => return self.element(node, change),
            Kind::Text => escape_text(self.document.value(node), self.out),
            Kind::Comment => {
                self.out.push_str("<!--");
                self.out.push_str(self.document.value(node));
                self.out.push_str("-->");
            }
            Kind::Instruction => {
                self.out.push_str("<?");
                self.out.push_str(self.document.name(node).local);
                self.out.push(' ');
                self.out.push_str(self.document.value(node));
                self.out.push_str("?>");
            }
            Kind::Attribute | Kind::Document => {}
        }
        if let Some(change) = change {
            self.out.push_str(&change.after);
        }
        node.0 + 1
    }

    fn element(&mut self, node: NodeId, change: Option<&'d Change>) -> u32 {
        let end = self.document.end(node).0;
        let changed = change.is_some() || self.changes.is_before(end);
        if let (false, Some(markup)) = (changed, self.document.markup(node)) {
            self.out.push_str(markup);
            return end;
        }
        let name = self.document.name(node);
        self.out.push('<');
        self.name(name);
        self.namespaces(node);
        self.attributes(node);
        let added = change.is_some_and(|change| {
            change.content.is_some() || !change.first.is_empty() || !change.last.is_empty()
        });
        if self.document.first_child(node).is_none() && !added {
            self.out.push_str("/>");
            // Harmless: without a change there is nothing to insert.
            self.out.push_str(change.map(|change| &*change.after).unwrap_or_default());
            return end;
        }
        self.out.push('>');
        self.open.push(Open { end, name, change });
        let Some(change) = change else { return node.0 + 1 };
        self.out.push_str(&change.first);
        match &change.content {
            Some(content) => {
                self.out.push_str(content);
                end
            }
            None => node.0 + 1,
        }
    }

    fn namespaces(&mut self, node: NodeId) {
        for (prefix, uri) in self.document.declared(node) {
            self.out.push_str(if prefix.is_empty() { " xmlns" } else { " xmlns:" });
            self.out.push_str(prefix);
            self.out.push_str("=\"");
            escape_attribute(uri, self.out);
            self.out.push('"');
        }
    }

    fn attributes(&mut self, node: NodeId) {
        for attribute in self.document.attributes(node) {
            let change = self.changes.at(attribute);
            let instead = change.and_then(|change| change.instead.as_deref());
            if instead == Some("") {
                continue;
            }
            self.out.push(' ');
            self.name(self.document.name(attribute));
            self.out.push_str("=\"");
            escape_attribute(instead.unwrap_or(self.document.value(attribute)), self.out);
            self.out.push('"');
        }
    }

    fn close_up_to(&mut self, at: u32) {
        while let Some(open) = self.open.pop_if(|open| open.end <= at) {
            if let Some(change) = open.change {
                self.out.push_str(&change.last);
            }
            self.out.push_str("</");
            self.name(open.name);
            self.out.push('>');
            if let Some(change) = open.change {
                self.out.push_str(&change.after);
            }
        }
    }

    fn name(&mut self, name: QName<'_>) {
        if !name.prefix.is_empty() {
            self.out.push_str(name.prefix);
            self.out.push(':');
        }
        self.out.push_str(name.local);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"<!--c--><a xmlns="urn:a" xmlns:p="urn:p"><p:b c="1&lt;" p:d="2">x &amp; y</p:b><e/><?t d?></a>"#;

    fn document() -> Document {
        Document::parse(TEXT.as_bytes(), &xml::Options::default()).unwrap()
    }

    fn find(document: &Document, local: &str) -> NodeId {
        (0..document.len()).map(NodeId).find(|id| document.name(*id).local == local).unwrap()
    }

    #[test]
    fn without_changes_the_document_stays_the_same() {
        assert_eq!(Edits::default().write(&document()), TEXT);
    }

    #[test]
    fn each_change_is_written_at_its_place() {
        let document = document();
        type Case = (&'static str, fn(&mut Change), &'static str);
        let cases: [Case; 8] = [
            ("b", |c| c.before.push_str("<n/>"), r#"<a xmlns="urn:a" xmlns:p="urn:p"><n/><p:b"#),
            ("b", |c| c.after.push_str("<n/>"), "</p:b><n/><e/>"),
            ("b", |c| c.instead = Some("<n/>".into()), r#"xmlns:p="urn:p"><n/><e/>"#),
            ("b", |c| c.content = Some("<n/>".into()), r#"p:d="2"><n/></p:b>"#),
            ("e", |c| c.last.push_str("<n/>"), "<e><n/></e>"),
            ("b", |c| c.first.push_str("<n/>"), r#"p:d="2"><n/>x &amp; y</p:b>"#),
            ("c", |c| c.instead = Some("\"".into()), r#"<p:b c="&quot;" p:d="2">"#),
            ("d", |c| c.instead = Some(String::new()), r#"<p:b c="1&lt;">"#),
        ];
        for (at, change, expected) in cases {
            let mut edits = Edits::default();
            change(edits.at(find(&document, at)));
            let written = edits.write(&document);
            assert!(written.contains(expected), "{written}");
            assert!(Document::parse(written.as_bytes(), &xml::Options::default()).is_ok());
        }
    }
}
