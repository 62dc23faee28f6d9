//! Applies a step to a whole node-set. Avoids visiting nodes twice where the axes of several nodes overlap.

use std::borrow::Cow;

use super::walk::{Matcher, Walk};
use crate::syntax::{Axis, Step};
use crate::value::sort;
use crate::{DocumentSet, Error, Evaluation, Node};

impl Evaluation<'_> {
    /// Applies one step to a node-set in document order; the result is in document order.
    pub(super) fn step_set(&mut self, step: &Step, from: &[Node]) -> Result<Vec<Node>, Error> {
        let mut found = Vec::new();
        if step.plain {
            if matches!(step.axis, Axis::Ancestor | Axis::AncestorOrSelf) {
                self.up_set(step, from, &mut found)?;
            } else {
                for &node in distinct(self.documents, step.axis, from).iter() {
                    self.step_into(step, node, &mut found)?;
                }
            }
        } else {
            for &node in from {
                found.extend(self.step_from(step, node)?);
                self.budget.nodes(found.len()).map_err(|kind| kind.at(0))?;
            }
        }
        sort(&mut found);
        Ok(found)
    }

    fn step_into(&mut self, step: &Step, node: Node, found: &mut Vec<Node>) -> Result<(), Error> {
        let mut matcher = Matcher::new(step.axis, &step.test);
        let mut walk = Walk::new(self.documents, step.axis, node);
        while let Some(next) = walk.seek(&mut matcher) {
            self.charge(walk.spent())?;
            if self.passes(&step.predicates, next)? {
                found.push(next);
                self.budget.nodes(found.len()).map_err(|kind| kind.at(0))?;
            }
        }
        self.charge(walk.spent())
    }

    /// Climbs from each node until it reaches an ancestor of the previous node.
    fn up_set(&mut self, step: &Step, from: &[Node], found: &mut Vec<Node>) -> Result<(), Error> {
        let documents = self.documents;
        let mut before: Option<Node> = None;
        for &node in from {
            let mut matcher = Matcher::new(step.axis, &step.test);
            for next in Walk::new(documents, step.axis, node) {
                self.charge(1)?;
                if before.is_some_and(|before| is_above(documents, next, before)) {
                    break;
                }
                if matcher.accepts(documents.of(next), next)
                    && self.passes(&step.predicates, next)?
                {
                    found.push(next);
                }
            }
            self.budget.nodes(found.len()).map_err(|kind| kind.at(0))?;
            before = Some(node);
        }
        Ok(())
    }
}

/// Returns whether a node is an ancestor of another.
fn is_above(documents: &DocumentSet, above: Node, node: Node) -> bool {
    if above.doc != node.doc || above.is_namespace() {
        return false;
    }
    if node.is_namespace() {
        above.id <= node.id && node.id < documents.of(above).end(above.id)
    } else {
        above.id < node.id && node.id < documents.of(above).end(above.id)
    }
}

/// Drops the nodes of a set whose axes are covered by those of other nodes.
fn distinct<'n>(documents: &DocumentSet, axis: Axis, from: &'n [Node]) -> Cow<'n, [Node]> {
    let kept: Vec<Node> = match axis {
        // A node inside another's subtree adds nothing.
        Axis::Descendant | Axis::DescendantOrSelf => {
            let mut last: Option<Node> = None;
            from.iter()
                .copied()
                .filter(|&node| {
                    let new = is_attribute(documents, node)
                        || !last.is_some_and(|last| is_above(documents, last, node));
                    if new && !is_attribute(documents, node) {
                        last = Some(node);
                    }
                    new
                })
                .collect()
        }
        // The siblings after the first of several nodes include those after the others.
        Axis::FollowingSibling => {
            let mut parent = None;
            from.iter()
                .copied()
                .filter(|&node| {
                    let above = documents.parent(node).filter(|_| !is_attribute(documents, node));
                    let new = above.is_none() || above != parent;
                    parent = above;
                    new
                })
                .collect()
        }
        Axis::PrecedingSibling => {
            let mut parent = None;
            let mut kept: Vec<Node> = from
                .iter()
                .rev()
                .copied()
                .filter(|&node| {
                    let above = documents.parent(node).filter(|_| !is_attribute(documents, node));
                    let new = above.is_none() || above != parent;
                    parent = above;
                    new
                })
                .collect();
            kept.reverse();
            kept
        }
        // In each document, the node that ends first covers everything that follows the others, and the last node everything that precedes
        // them.
        Axis::Following => from
            .chunk_by(|a, b| a.doc == b.doc)
            // Harmless: each chunk has at least one node.
            .filter_map(|of_one| {
                of_one.iter().copied().min_by_key(|&node| following_from(documents, node))
            })
            .collect(),
        Axis::Preceding => from
            .chunk_by(|a, b| a.doc == b.doc)
            // Harmless: each chunk has at least one node.
            .filter_map(|of_one| of_one.last().copied())
            .collect(),
        Axis::Attribute | Axis::Child | Axis::Namespace | Axis::Parent | Axis::SelfNode => {
            return from.into();
        }
        // `up_set` visits no ancestor twice.
        Axis::Ancestor | Axis::AncestorOrSelf => return from.into(),
    };
    kept.into()
}

fn is_attribute(documents: &DocumentSet, node: Node) -> bool {
    matches!(documents.kind(node), crate::NodeKind::Attribute | crate::NodeKind::Namespace)
}

/// Returns the first id that can follow a node.
fn following_from(documents: &DocumentSet, node: Node) -> u32 {
    if node.is_namespace() { node.id.0 + 1 } else { documents.of(node).end(node.id).0 }
}
