//! Evaluation of paths: from a start node along the steps to nodes in document order.

use std::ops::ControlFlow;

use super::walk::{Matcher, Walk};
use crate::syntax::{Axis, Path, Predicate, Start, Step};
use crate::{Budget, Error, Evaluation, Focus, Node};

/// A callback that receives nodes one by one, and returns whether it needs more.
pub(super) type Taker<'t> = &'t mut dyn FnMut(&mut Budget, Node) -> Result<Flow, Error>;

pub(super) type Flow = ControlFlow<()>;

impl Evaluation<'_> {
    /// Returns all nodes of a path.
    pub(super) fn path_nodes(&mut self, path: &Path) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        self.path_each(path, &mut |budget, node| {
            nodes.push(node);
            budget.nodes(nodes.len()).map_err(|kind| kind.at(path.offset))?;
            Ok(Flow::Continue(()))
        })?;
        Ok(nodes)
    }

    /// Returns all nodes of a path that starts at this node instead of its own start.
    pub(crate) fn path_nodes_from(&mut self, path: &Path, start: Node) -> Result<Vec<Node>, Error> {
        let mut nodes = Vec::new();
        self.walk_from(path, start, &mut |budget, node| {
            nodes.push(node);
            budget.nodes(nodes.len()).map_err(|kind| kind.at(path.offset))?;
            Ok(Flow::Continue(()))
        })?;
        Ok(nodes)
    }

    /// Passes the distinct nodes of a path to the callback in document order, until it needs no more.
    pub(super) fn path_each(&mut self, path: &Path, take: Taker<'_>) -> Result<(), Error> {
        let one = match &path.start {
            Start::Root => self.focus.node.root(),
            Start::Focus => self.focus.node,
            Start::Op(op, predicates) => {
                let mut start = self.nodes(op)?;
                for predicate in predicates {
                    start = self.keep(predicate, start)?;
                }
                match &*start {
                    [one] => *one,
                    _ => return self.walk_set(&path.steps, start, take),
                }
            }
        };
        self.walk_from(path, one, take)
    }

    fn walk_from(&mut self, path: &Path, one: Node, take: Taker<'_>) -> Result<(), Error> {
        if path.ordered {
            // The result is not needed: the callback has already stopped the walk.
            self.walk(&path.steps, one, take).map(|_| ())
        } else {
            self.walk_set(&path.steps, vec![one], take)
        }
    }

    /// Walks the steps depth first. For paths that the compiler marks as ordered, this gives document order.
    fn walk(&mut self, steps: &[Step], node: Node, take: Taker<'_>) -> Result<Flow, Error> {
        let Some((step, rest)) = steps.split_first() else { return take(self.budget, node) };
        if !step.plain {
            for found in self.step_from(step, node)? {
                if self.walk(rest, found, take)?.is_break() {
                    return Ok(Flow::Break(()));
                }
            }
            return Ok(Flow::Continue(()));
        }
        let documents = self.documents;
        let mut matcher = Matcher::new(step.axis, &step.test);
        let mut walk = Walk::new(documents, step.axis, node);
        while let Some(found) = walk.seek(&mut matcher) {
            self.charge(walk.spent())?;
            if !self.passes(&step.predicates, found)? {
                continue;
            }
            let flow = if rest.is_empty() {
                take(self.budget, found)?
            } else {
                self.walk(rest, found, take)?
            };
            if flow.is_break() {
                return Ok(flow);
            }
        }
        self.charge(walk.spent())?;
        Ok(Flow::Continue(()))
    }

    /// Applies the steps one by one, each to the whole node-set of the previous one.
    fn walk_set(&mut self, steps: &[Step], start: Vec<Node>, take: Taker<'_>) -> Result<(), Error> {
        let mut set = start;
        for step in steps {
            if set.is_empty() {
                break;
            }
            set = self.step_set(step, &set)?;
        }
        for node in set {
            if take(self.budget, node)?.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Returns the nodes that a step selects from one node, in document order. Predicates may use positions.
    pub(crate) fn step_from(&mut self, step: &Step, node: Node) -> Result<Vec<Node>, Error> {
        let lead = step
            .predicates
            .iter()
            .take_while(|predicate| matches!(predicate, Predicate::Test(_)))
            .count();
        let (lead, rest) =
            step.predicates.split_at_checked(lead).unwrap_or((&step.predicates, &[]));
        let (mut found, rest) = match rest.split_first() {
            Some((Predicate::Position(wanted), rest)) => {
                let walk = Walk::new(self.documents, step.axis, node);
                (self.nth(walk, step, lead, *wanted)?.into_iter().collect(), rest)
            }
            Some((Predicate::Last, rest)) if step.axis == Axis::Child => {
                let walk = Walk::children_back(self.documents, node);
                (self.nth(walk, step, lead, 1)?.into_iter().collect(), rest)
            }
            _ => (self.all(step, lead, node)?, rest),
        };
        for predicate in rest {
            found = self.keep(predicate, found)?;
        }
        if step.axis.is_reverse() {
            found.reverse();
        }
        Ok(found)
    }

    /// Returns the node at a position among those that pass the tests.
    fn nth(
        &mut self,
        mut walk: Walk<'_>,
        step: &Step,
        lead: &[Predicate],
        wanted: u32,
    ) -> Result<Option<Node>, Error> {
        let mut matcher = Matcher::new(step.axis, &step.test);
        let mut position = 0;
        while let Some(found) = walk.seek(&mut matcher) {
            self.charge(walk.spent())?;
            if self.passes(lead, found)? {
                position += 1;
                if position == wanted {
                    return Ok(Some(found));
                }
            }
        }
        self.charge(walk.spent())?;
        Ok(None)
    }

    fn all(&mut self, step: &Step, lead: &[Predicate], node: Node) -> Result<Vec<Node>, Error> {
        let mut matcher = Matcher::new(step.axis, &step.test);
        let mut all = Vec::new();
        let mut walk = Walk::new(self.documents, step.axis, node);
        while let Some(found) = walk.seek(&mut matcher) {
            self.charge(walk.spent())?;
            if self.passes(lead, found)? {
                all.push(found);
                self.budget.nodes(all.len()).map_err(|kind| kind.at(0))?;
            }
        }
        self.charge(walk.spent())?;
        Ok(all)
    }

    /// Returns whether a node satisfies predicates that use no position.
    #[inline]
    pub(super) fn passes(&mut self, predicates: &[Predicate], node: Node) -> Result<bool, Error> {
        if predicates.is_empty() {
            return Ok(true);
        }
        let before = self.focus;
        let mut passed = true;
        for predicate in predicates {
            if let Predicate::Test(op) = predicate {
                self.focus = Focus { node, position: 1, size: 1, current: before.current };
                passed = self.boolean(op)?;
                if !passed {
                    break;
                }
            }
        }
        self.focus = before;
        Ok(passed)
    }

    /// Returns the nodes of a list that satisfy a predicate.
    pub(super) fn keep(
        &mut self,
        predicate: &Predicate,
        nodes: Vec<Node>,
    ) -> Result<Vec<Node>, Error> {
        let (op, place) = match predicate {
            Predicate::Position(wanted) => {
                let place = usize::try_from(*wanted).unwrap_or(usize::MAX).saturating_sub(1);
                return Ok(nodes.get(place).copied().into_iter().collect());
            }
            Predicate::Last => return Ok(nodes.last().copied().into_iter().collect()),
            Predicate::Test(op) => (op, false),
            Predicate::Positional(op) => (op, true),
        };
        let before = self.focus;
        let size = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        let mut kept = Vec::new();
        for (position, node) in (1..).zip(nodes) {
            self.charge(1)?;
            self.focus = Focus { node, position, size, current: before.current };
            let passed = if place { self.passes_place(op, position)? } else { self.boolean(op)? };
            if passed {
                kept.push(node);
            }
        }
        self.focus = before;
        Ok(kept)
    }

    /// Tests a predicate: a number is compared with the position, anything else is converted to a boolean.
    fn passes_place(&mut self, op: &crate::syntax::Op, position: u32) -> Result<bool, Error> {
        use crate::eval::Val;
        Ok(match self.value(op)? {
            Val::Number(value) => value == f64::from(position),
            value @ (Val::Nodes(_)
            | Val::Shared(_)
            | Val::Boolean(_)
            | Val::Text(_)
            | Val::Tree(_)) => value.to_boolean(),
        })
    }
}
