//! Serialises a tree: unchanged, indented, or canonical (Canonical XML 1.0, Exclusive XML Canonicalization 1.0).
//!
//! Owns escaping and the choice of namespace declarations. Walks the arena in order with an explicit stack instead of recursion. Writes no
//! XML declaration and no encoding other than UTF-8.

mod escape;
mod spaces;

pub use escape::{escape_attribute, escape_text};

use std::borrow::Cow;

use kit::turns;

use crate::{Document, Kind, NodeId, QName, XML_NAMESPACE};
use spaces::WrittenNamespaces;

/// The form of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form<'a> {
    /// Unchanged: parsing the output gives the same tree.
    Plain,
    /// Each element on a line of its own, indented by this many blanks per level, unless there is text beside it. White-space-only text is
    /// dropped there, unless `xml:space` preserves it.
    Pretty { indent: u8 },
    /// Like `Plain`, but of the namespaces in scope at the node, the output declares only those of the `kept` prefixes and those that names
    /// use. The empty prefix stands for the default namespace.
    Moved { kept: &'a [&'a str] },
    /// Canonical XML 1.0.
    Canonical { comments: bool },
    /// Exclusive XML Canonicalization 1.0. Prefixes in `inclusive` are treated as in Canonical XML. The empty prefix stands for the default
    /// namespace (`#default`).
    Exclusive { comments: bool, inclusive: &'a [&'a str] },
}

impl Form<'_> {
    fn is_canonical(&self) -> bool {
        match self {
            Form::Plain | Form::Pretty { .. } | Form::Moved { .. } => false,
            Form::Canonical { .. } | Form::Exclusive { .. } => true,
        }
    }

    fn has_comments(&self) -> bool {
        match self {
            Form::Plain | Form::Pretty { .. } | Form::Moved { .. } => true,
            Form::Canonical { comments } | Form::Exclusive { comments, .. } => *comments,
        }
    }
}

impl Document {
    /// Appends a node and its subtree.
    pub fn write(&self, node: NodeId, form: &Form<'_>, out: &mut String) {
        let mut writer = Writer {
            document: self,
            form: *form,
            out,
            open: Vec::new(),
            rendered: WrittenNamespaces::new(),
            apex: node,
        };
        writer.write(node);
    }

    /// Serialises a node and its subtree.
    pub fn to_text(&self, node: NodeId, form: &Form<'_>) -> String {
        let mut out = String::new();
        self.write(node, form, &mut out);
        out
    }
}

/// The prefix to write, the name, and the value.
type Attribute<'d> = (Cow<'d, str>, QName<'d>, &'d str);

struct Writer<'d, 'o> {
    document: &'d Document,
    form: Form<'d>,
    out: &'o mut String,
    open: Vec<OpenElement<'d>>,
    rendered: WrittenNamespaces,
    apex: NodeId,
}

/// An element whose end tag has not been written.
struct OpenElement<'d> {
    end: NodeId,
    name: QName<'d>,
    /// Number of namespace declarations written before those of the element.
    rendered_len: usize,
    /// Whether its children are on lines of their own.
    lines: bool,
}

impl<'d> Writer<'d, '_> {
    fn write(&mut self, node: NodeId) {
        let (mut at, end) = (node, self.document.end(node));
        while at < end {
            turns::count_part();
            self.close_up_to(at);
            match self.document.kind(at) {
                Kind::Document => {}
                Kind::Element => self.start(at),
                Kind::Attribute if at != node => {}
                Kind::Attribute => escape_attribute(self.document.value(at), self.out),
                Kind::Text => self.text(at),
                Kind::Comment | Kind::Instruction => self.beside(at),
            }
            at = NodeId(at.0 + 1);
        }
        self.close_up_to(end);
    }

    fn close_up_to(&mut self, at: NodeId) {
        while let Some(open) = self.open.pop_if(|open| open.end <= at) {
            if open.lines {
                self.line(self.open.len());
            }
            self.out.push_str("</");
            self.name(open.name);
            self.out.push('>');
            // Harmless: the declarations of the element end with it.
            self.rendered.truncate(open.rendered_len);
            self.top_level_break();
        }
    }

    fn start(&mut self, element: NodeId) {
        self.break_before();
        let name = self.document.name(element);
        let rendered_len = self.rendered.len();
        self.out.push('<');
        self.name(name);
        self.attributes(element, rendered_len);
        let first = self.document.first_child(element);
        if first.is_none() && !self.form.is_canonical() {
            self.out.push_str("/>");
            // Harmless: the declarations of the element end with it.
            self.rendered.truncate(rendered_len);
            self.top_level_break();
            return;
        }
        self.out.push('>');
        let lines = self.has_lines(element);
        self.open.push(OpenElement { end: self.document.end(element), name, rendered_len, lines });
    }

    /// Writes namespace declarations and then attributes, in the order that the form requires.
    fn attributes(&mut self, element: NodeId, rendered_len: usize) {
        let document = self.document;
        let prefixes = self.rendered.declare(document, element, self.apex, &self.form);
        let mut declarations: Vec<(&str, &str)> = self.rendered.since(rendered_len).collect();
        // Harmless: there is one prefix for each attribute.
        let attributes = document.attributes(element).zip(prefixes);
        let mut attributes: Vec<Attribute<'d>> = attributes
            .map(|(node, prefix)| (prefix, document.name(node), document.value(node)))
            .collect();
        if self.form.is_canonical() {
            if matches!(self.form, Form::Canonical { .. }) && element == self.apex {
                inherit_xml(document, element, &mut attributes);
            }
            declarations.sort_unstable();
            attributes.sort_by_key(|(_, name, _)| (name.namespace.uri, name.local));
        }
        for (prefix, uri) in declarations {
            let (name, colon) = if prefix.is_empty() { ("xmlns", "") } else { ("xmlns:", prefix) };
            write_attribute(self.out, &[name, colon], uri);
        }
        for (prefix, name, value) in attributes {
            let colon = if prefix.is_empty() { "" } else { ":" };
            write_attribute(self.out, &[&*prefix, colon, name.local], value);
        }
    }

    fn name(&mut self, name: QName<'_>) {
        if !name.prefix.is_empty() {
            self.out.push_str(name.prefix);
            self.out.push(':');
        }
        self.out.push_str(name.local);
    }

    fn text(&mut self, node: NodeId) {
        let text = self.document.value(node);
        let dropped = self.open.last().is_some_and(|open| open.lines);
        if !dropped {
            escape_text(text, self.out);
        }
    }

    /// Writes a comment or a processing instruction.
    fn beside(&mut self, node: NodeId) {
        let is_comment = self.document.kind(node) == Kind::Comment;
        if is_comment && !self.form.has_comments() {
            return;
        }
        self.break_before();
        let value = self.document.value(node);
        if is_comment {
            self.out.push_str("<!--");
            self.out.push_str(value);
            self.out.push_str("-->");
        } else {
            self.out.push_str("<?");
            self.out.push_str(self.document.name(node).local);
            if !value.is_empty() {
                self.out.push(' ');
                self.out.push_str(value);
            }
            self.out.push_str("?>");
        }
        self.top_level_break();
    }

    /// Starts a new line before a child, if the form requires one.
    fn break_before(&mut self) {
        if self.open.last().is_some_and(|open| open.lines) {
            self.line(self.open.len());
        }
        // Canonical XML separates the nodes at the top level of a document by line feeds.
        let at_top = self.open.is_empty() && self.document.kind(self.apex) == Kind::Document;
        if at_top && self.form.is_canonical() && !self.out.is_empty() && !self.out.ends_with('\n') {
            self.out.push('\n');
        }
    }

    /// Ends the line after a node at the top level of the output, in the form `Pretty`.
    fn top_level_break(&mut self) {
        if matches!(self.form, Form::Pretty { .. }) && self.open.is_empty() {
            self.out.push('\n');
        }
    }

    fn line(&mut self, depth: usize) {
        self.out.push('\n');
        if let Form::Pretty { indent } = self.form {
            self.out.extend(std::iter::repeat_n(' ', depth * usize::from(indent)));
        }
    }

    /// Returns whether the children of an element are on lines of their own: all of its text is white space that may be dropped.
    fn has_lines(&self, element: NodeId) -> bool {
        let inherited = self.open.last().is_none_or(|open| open.lines);
        if !matches!(self.form, Form::Pretty { .. }) || !inherited {
            return false;
        }
        let kept = self.document.attribute(element, XML_NAMESPACE, "space") == Some("preserve");
        let mut children = self.document.children(element);
        let mut nodes = false;
        let blank = children.all(|child| match self.document.kind(child) {
            Kind::Text => self.document.value(child).bytes().all(crate::chars::is_space),
            Kind::Document
            | Kind::Element
            | Kind::Attribute
            | Kind::Comment
            | Kind::Instruction => {
                nodes = true;
                true
            }
        });
        blank && nodes && !kept
    }
}

fn write_attribute(out: &mut String, name: &[&str], value: &str) {
    out.push(' ');
    out.extend(name.iter().copied());
    out.push_str("=\"");
    escape_attribute(value, out);
    out.push('"');
}

/// Gives the top element of a subtree the `xml:` attributes of the elements around it (Canonical XML 1.0, 2.4).
fn inherit_xml<'d>(document: &'d Document, element: NodeId, attributes: &mut Vec<Attribute<'d>>) {
    let mut above = document.parent(element);
    while let Some(node) = above {
        for attribute in document.attributes(node) {
            let name = document.name(attribute);
            let is_known = attributes.iter().any(|(_, other, _)| {
                other.local == name.local && other.namespace.uri == name.namespace.uri
            });
            if name.namespace.uri == XML_NAMESPACE && !is_known {
                attributes.push((Cow::Borrowed("xml"), name, document.value(attribute)));
            }
        }
        above = document.parent(node);
    }
}
