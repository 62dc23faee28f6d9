//! `xsl:copy` and `xsl:copy-of` (XSLT 1.0, 7.5 and 11.3).

use xml::{Document, Kind, NodeId};
use xpath::{Node, NodeKind, Value};

use super::{Machine, Reach};
use crate::error::Error;
use crate::out::Composer;
use crate::program::Pc;

impl Machine<'_> {
    /// Copies the context node without its content. If the node cannot have content, execution continues at `after`.
    #[inline]
    pub(super) fn copy(&mut self, after: Pc, reach: &mut Reach<'_>) -> Result<(), Error> {
        let node = self.now.focus.node;
        let kind = reach.documents.get().kind(node);
        match kind {
            NodeKind::Root => Ok(()),
            NodeKind::Element => self.copy_start(node, reach),
            NodeKind::Attribute
            | NodeKind::Text
            | NodeKind::Comment
            | NodeKind::Instruction
            | NodeKind::Namespace => {
                self.now.pc = after;
                self.copy_leaf(node, kind, reach)
            }
        }
    }

    /// Starts a copy of an element.
    #[inline]
    pub(super) fn copy_start(&mut self, element: Node, reach: &Reach<'_>) -> Result<(), Error> {
        let lean = self.given.lean;
        let out = self.top()?;
        let known = lean || is_within_copy(out, element, reach) || is_outermost(element, reach);
        start(out, element, known, reach);
        Ok(())
    }

    /// Copies a node that cannot have content. Does nothing for a root or an element.
    #[inline]
    pub(super) fn copy_leaf(
        &mut self,
        node: Node,
        kind: NodeKind,
        reach: &Reach<'_>,
    ) -> Result<(), Error> {
        let documents = reach.documents.get();
        let document = documents.of(node);
        let out = self.top()?;
        match kind {
            NodeKind::Text => out.text(document.value(node.id), false),
            NodeKind::Attribute => {
                let name = document.name(node.id);
                let value = document.value(node.id);
                out.attribute(name.prefix, name.local, name.namespace.uri, value);
            }
            NodeKind::Comment => out.comment(document.value(node.id)),
            NodeKind::Instruction => {
                out.instruction(document.name(node.id).local, document.value(node.id));
            }
            NodeKind::Namespace => {
                if let Some((prefix, uri)) = documents.namespace(node) {
                    out.namespace(prefix, uri);
                }
            }
            NodeKind::Root | NodeKind::Element => {}
        }
        Ok(())
    }

    pub(super) fn copy_of(&mut self, value: &Value, reach: &mut Reach<'_>) -> Result<(), Error> {
        match value.as_nodes() {
            Some(nodes) => {
                for node in nodes {
                    self.copy_node(*node, reach)?;
                    self.check_spent()?;
                }
                Ok(())
            }
            None => {
                let text = value.to_text(reach.documents.get());
                self.top()?.text(&text, false);
                Ok(())
            }
        }
    }

    /// Copies a node and its subtree.
    pub(super) fn copy_node(&mut self, node: Node, reach: &mut Reach<'_>) -> Result<(), Error> {
        let documents = reach.documents.get();
        let kind = documents.kind(node);
        if !matches!(kind, NodeKind::Root | NodeKind::Element) {
            return self.copy_leaf(node, kind, reach);
        }
        let document = documents.of(node);
        let end = document.end(node.id);
        if let Err(kind) = reach.budget.charge(u64::from(end.0.saturating_sub(node.id.0))) {
            return Err(self.fault_kind(kind));
        }
        // The open elements whose end is still to be written.
        let mut open: Vec<NodeId> = Vec::new();
        let lean = self.given.lean;
        for id in (node.id.0..end.0).map(NodeId) {
            let out = self.top()?;
            while open.last().is_some_and(|end| *end <= id) {
                out.end();
                open.pop();
            }
            match document.kind(id) {
                Kind::Document => {}
                Kind::Element if open.is_empty() => {
                    let copied = node.with(id);
                    let known =
                        is_outermost(copied, reach) || !lean && is_within_copy(out, copied, reach);
                    start(out, copied, known, reach);
                    open.push(document.end(id));
                }
                Kind::Element => {
                    let name = document.name(id);
                    out.start(name.prefix, name.local, name.namespace.uri);
                    out.copied_from(node.with(id));
                    for (prefix, uri) in document.declared(id) {
                        out.namespace(prefix, uri);
                    }
                    open.push(document.end(id));
                }
                Kind::Attribute => self.copy_leaf(node.with(id), NodeKind::Attribute, reach)?,
                Kind::Text => self.copy_leaf(node.with(id), NodeKind::Text, reach)?,
                Kind::Comment => self.copy_leaf(node.with(id), NodeKind::Comment, reach)?,
                Kind::Instruction => self.copy_leaf(node.with(id), NodeKind::Instruction, reach)?,
            }
        }
        let out = self.top()?;
        for _ in open {
            out.end();
        }
        Ok(())
    }
}

/// Returns true if the node is copied into a copy of its parent, so that the parent's namespaces are in scope.
#[inline]
fn is_within_copy(out: &Composer, node: Node, reach: &Reach<'_>) -> bool {
    let parent = reach.documents.get().of(node).parent(node.id);
    parent.is_some_and(|parent| out.origin() == Some(node.with(parent)))
}

/// Returns true if no ancestor of the element can declare namespaces.
#[inline]
fn is_outermost(node: Node, reach: &Reach<'_>) -> bool {
    reach.documents.get().of(node).parent(node.id) == Some(Document::ROOT)
}

/// Starts a copy of an element with its namespaces. If `known`, only its own declarations are new.
fn start(out: &mut Composer, node: Node, known: bool, reach: &Reach<'_>) {
    let documents = reach.documents.get();
    let document = documents.of(node);
    let name = document.name(node.id);
    out.start(name.prefix, name.local, name.namespace.uri);
    out.copied_from(node);
    if known {
        for (prefix, uri) in document.declared(node.id) {
            out.namespace(prefix, uri);
        }
    } else {
        for (prefix, uri) in document.namespaces(node.id) {
            out.namespace(prefix, uri);
        }
    }
}
