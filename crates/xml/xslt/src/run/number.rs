//! `xsl:number` (XSLT 1.0, 7.7).

use xml::NodeId;
use xpath::{Evaluation, Focus, Node, NodeKind, Pattern};

use super::{Machine, Reach};
use crate::error::Error;
use crate::numbering::{self, Grouping};
use crate::program::{Level, Numbering};

impl Machine<'_> {
    pub(super) fn number(&mut self, n: &Numbering, reach: &mut Reach<'_>) -> Result<(), Error> {
        let numbers = match &n.value {
            Some(value) => {
                let number = value.number(&mut self.evaluation(reach));
                vec![number.map_err(|error| self.fault(error))?]
            }
            None => self.place_numbers(n, reach)?,
        };
        let format = self.avt(&n.format, reach)?;
        let separator = self.avt_or_empty(n.grouping_separator.as_ref(), reach)?;
        let size = self.avt_or_empty(n.grouping_size.as_ref(), reach)?;
        // Grouping requires both attributes.
        let grouping = match (size.trim().parse::<usize>(), separator.is_empty()) {
            (Ok(size), false) => Some(Grouping { separator, size }),
            _ => None,
        };
        // An empty list of numbers produces no output.
        if !numbers.is_empty() {
            let text = numbering::format(&numbers, &format, grouping.as_ref());
            self.top()?.text(&text, false);
        }
        Ok(())
    }

    fn place_numbers(&mut self, n: &Numbering, reach: &mut Reach<'_>) -> Result<Vec<f64>, Error> {
        let node = self.now.focus.node;
        match n.level {
            Level::Any => self.any(n, node, reach),
            Level::Single => {
                let mut at = Some(node);
                while let Some(ancestor) = at {
                    if self.counts(n, ancestor, node, reach)? {
                        // The number counts even if no ancestor matches `from`, as in other processors.
                        return Ok(vec![self.count_siblings(n, ancestor, node, reach)?]);
                    }
                    if self.is_from(n, ancestor, reach)? {
                        break;
                    }
                    at = reach.documents.get().parent(ancestor);
                }
                Ok(Vec::new())
            }
            Level::Multiple => {
                let mut numbers = Vec::new();
                let mut at = Some(node);
                while let Some(ancestor) = at {
                    if ancestor != node && self.is_from(n, ancestor, reach)? {
                        break;
                    }
                    if self.counts(n, ancestor, node, reach)? {
                        numbers.push(self.count_siblings(n, ancestor, node, reach)?);
                    }
                    at = reach.documents.get().parent(ancestor);
                }
                numbers.reverse();
                Ok(numbers)
            }
        }
    }

    fn count_siblings(
        &mut self,
        n: &Numbering,
        node: Node,
        origin: Node,
        reach: &mut Reach<'_>,
    ) -> Result<f64, Error> {
        let mut count = 1.0;
        let mut at = node;
        while let Some(sibling) = reach.documents.get().of(at).previous_sibling(at.id) {
            at = at.with(sibling);
            if self.counts(n, at, origin, reach)? {
                count += 1.0;
            }
        }
        Ok(count)
    }

    /// Counts the matching nodes from this one backwards in document order, to the nearest one that matches `from`.
    fn any(&mut self, n: &Numbering, node: Node, reach: &mut Reach<'_>) -> Result<Vec<f64>, Error> {
        let mut count = 0.0;
        for id in (0..=node.id.0).rev().map(NodeId) {
            let at = if id == node.id { node } else { node.with(id) };
            let kind = reach.documents.get().kind(at);
            let looked_at = at == node || kind != NodeKind::Attribute;
            if !looked_at {
                continue;
            }
            if at != node && self.is_from(n, at, reach)? {
                break;
            }
            if self.counts(n, at, node, reach)? {
                count += 1.0;
            }
            if at == node && self.is_from(n, at, reach)? {
                break;
            }
        }
        Ok(if count > 0.0 { vec![count] } else { Vec::new() })
    }

    /// Returns whether a node matches `count`, or without `count`, whether it has the kind and name of the numbered node.
    fn counts(
        &mut self,
        n: &Numbering,
        node: Node,
        origin: Node,
        reach: &mut Reach<'_>,
    ) -> Result<bool, Error> {
        match &n.count {
            Some(pattern) => self.matches(pattern, node, reach),
            None => {
                if let Err(kind) = reach.budget.charge(1) {
                    return Err(self.fault_kind(kind));
                }
                let documents = reach.documents.get();
                let (a, b) = (documents.name(node), documents.name(origin));
                Ok(documents.kind(node) == documents.kind(origin)
                    && a.local == b.local
                    && a.namespace.uri == b.namespace.uri)
            }
        }
    }

    fn is_from(&mut self, n: &Numbering, node: Node, reach: &mut Reach<'_>) -> Result<bool, Error> {
        match &n.from {
            Some(pattern) => self.matches(pattern, node, reach),
            None => Ok(false),
        }
    }

    /// Returns whether a node, which need not be the context node, matches a pattern.
    pub(super) fn matches(
        &mut self,
        pattern: &Pattern,
        node: Node,
        reach: &mut Reach<'_>,
    ) -> Result<bool, Error> {
        // In a pattern, current() is the node being matched.
        let focus = Focus::of(node);
        let (documents, budget) = (reach.documents.get(), &mut *reach.budget);
        let mut evaluation = Evaluation { documents, focus, host: self, budget };
        pattern.matches(&mut evaluation).map_err(|error| self.fault(error))
    }
}
