//! `xsl:copy` and `xsl:copy-of` (XSLT 1.0, 7.5 and 11.3).

use xml::{Kind, NodeId};
use xpath::{Node, NodeKind, Value};

use super::{Machine, Reach};
use crate::error::Error;
use crate::out::Composer;
use crate::program::Pc;

impl Machine<'_> {
    /// Copies the focus without what is in it; `behind` is where a node without content goes on.
    pub(super) fn copy(&mut self, behind: Pc, reach: &mut Reach<'_>) -> Result<(), Error> {
        let node = self.now.focus.node;
        let world = reach.world.get();
        match world.kind(node) {
            NodeKind::Root => Ok(()),
            NodeKind::Element => {
                start(self.top()?, node, reach);
                Ok(())
            }
            NodeKind::Attribute
            | NodeKind::Text
            | NodeKind::Comment
            | NodeKind::Instruction
            | NodeKind::Namespace => {
                self.now.pc = behind;
                self.copy_node(node, reach)
            }
        }
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
                let text = value.to_text(reach.world.get());
                self.top()?.text(&text, false);
                Ok(())
            }
        }
    }

    /// Copies a node with all that is in it.
    pub(super) fn copy_node(&mut self, node: Node, reach: &mut Reach<'_>) -> Result<(), Error> {
        let world = reach.world.get();
        let document = world.of(node);
        let charged = match world.kind(node) {
            NodeKind::Root | NodeKind::Element => {
                u64::from(document.end(node.id).0.saturating_sub(node.id.0))
            }
            NodeKind::Attribute
            | NodeKind::Text
            | NodeKind::Comment
            | NodeKind::Instruction
            | NodeKind::Namespace => 0,
        };
        if let Err(kind) = reach.budget.charge(charged) {
            return Err(self.fault_kind(kind));
        }
        let out = self.top()?;
        if let Some((prefix, uri)) = world.namespace(node) {
            out.namespace(prefix, uri);
            return Ok(());
        }
        // Elements that are open, by where they end.
        let mut open: Vec<NodeId> = Vec::new();
        let end = document.end(node.id).max(NodeId(node.id.0 + 1));
        for id in (node.id.0..end.0).map(NodeId) {
            while open.last().is_some_and(|end| *end <= id) {
                out.end();
                open.pop();
            }
            let name = document.name(id);
            match document.kind(id) {
                Kind::Document => {}
                Kind::Element if open.is_empty() => {
                    start(out, node.with(id), reach);
                    open.push(document.end(id));
                }
                Kind::Element => {
                    out.start(name.prefix, name.local, name.namespace.uri);
                    out.copied_from(node.with(id));
                    for (prefix, uri) in document.declared(id) {
                        out.namespace(prefix, uri);
                    }
                    open.push(document.end(id));
                }
                Kind::Attribute => {
                    out.attribute(name.prefix, name.local, name.namespace.uri, document.value(id));
                }
                Kind::Text => out.text(document.value(id), false),
                Kind::Comment => out.comment(document.value(id)),
                Kind::Instruction => out.instruction(name.local, document.value(id)),
            }
        }
        for _ in open {
            out.end();
        }
        Ok(())
    }
}

/// Starts a copy of an element, with its namespaces.
fn start(out: &mut Composer, node: Node, reach: &Reach<'_>) {
    let world = reach.world.get();
    let document = world.of(node);
    let name = document.name(node.id);
    // Inside a copy of its parent only what it declares itself is new.
    let parent = document.parent(node.id).map(|id| node.with(id));
    let known = parent.is_some() && out.origin() == parent;
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
