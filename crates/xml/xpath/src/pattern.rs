//! Match patterns of XSLT 1.0 (5.2). Matching begins at the node and continues with its ancestors.

use crate::syntax::{Alternative, Axis, PatternStart, Predicate, Test, compile_pattern};
use crate::{Error, Evaluation, Node, NodeKind, Statics};

/// A compiled pattern: one alternative or several joined by `|`.
#[derive(Debug, Clone)]
pub struct Pattern {
    /// Each alternative counts as a template rule of its own (XSLT 1.0, 5.5).
    pub alternatives: Box<[Alternative]>,
}

impl Pattern {
    /// Compiles a pattern.
    pub fn compile(text: &str, statics: &dyn Statics) -> Result<Pattern, Error> {
        Ok(Pattern { alternatives: compile_pattern(text, statics)? })
    }

    /// Returns whether the focus node of the evaluation matches.
    pub fn matches(&self, evaluation: &mut Evaluation<'_>) -> Result<bool, Error> {
        for alternative in &self.alternatives {
            if alternative.matches(evaluation)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Alternative {
    /// Returns whether the focus node of the evaluation matches.
    pub fn matches(&self, evaluation: &mut Evaluation<'_>) -> Result<bool, Error> {
        evaluation.nested(|evaluation| self.found(evaluation))
    }

    /// Matches the steps from the last to the first, in runs of steps joined by `/`. Each run is matched at the lowest ancestor where it
    /// fits. This leaves the most ancestors for the runs before it, so no backtracking is needed.
    fn found(&self, evaluation: &mut Evaluation<'_>) -> Result<bool, Error> {
        let node = evaluation.focus.node;
        if self.steps.is_empty() {
            return self.starts_at(evaluation, node);
        }
        let mut run = match self.run(evaluation, 0, node)? {
            Run::Fits => return Ok(true),
            Run::Not => return Ok(false),
            Run::Above { step, node } => Some((step, node)),
        };
        while let Some((step, node)) = run {
            let mut above = evaluation.documents.parent(node);
            run = None;
            while let Some(candidate) = above {
                evaluation.charge(1)?;
                if step >= self.steps.len() {
                    if self.starts_at(evaluation, candidate)? {
                        return Ok(true);
                    }
                } else {
                    match self.run(evaluation, step, candidate)? {
                        Run::Fits => return Ok(true),
                        Run::Not => {}
                        Run::Above { step, node } => {
                            run = Some((step, node));
                            break;
                        }
                    }
                }
                above = evaluation.documents.parent(candidate);
            }
        }
        Ok(false)
    }

    /// Matches one run against a node and its ancestors. `first` is the index in `steps` of the run's last step.
    fn run(&self, evaluation: &mut Evaluation<'_>, first: usize, node: Node) -> Result<Run, Error> {
        let mut node = node;
        for (place, step) in self.steps.iter().enumerate().skip(first) {
            evaluation.charge(1)?;
            if !matches_step(evaluation, &step.step, node)? {
                return Ok(Run::Not);
            }
            if step.anywhere {
                return Ok(Run::Above { step: place + 1, node });
            }
            match (place + 1 == self.steps.len(), &self.start, evaluation.documents.parent(node)) {
                (true, PatternStart::Anywhere, _) => return Ok(Run::Fits),
                (_, _, None) => return Ok(Run::Not),
                (true, _, Some(parent)) => {
                    return Ok(if self.starts_at(evaluation, parent)? {
                        Run::Fits
                    } else {
                        Run::Not
                    });
                }
                (false, _, Some(parent)) => node = parent,
            }
        }
        Ok(Run::Not)
    }

    fn starts_at(&self, evaluation: &mut Evaluation<'_>, node: Node) -> Result<bool, Error> {
        match &self.start {
            PatternStart::Anywhere => Ok(true),
            PatternStart::Root => Ok(evaluation.documents.kind(node) == NodeKind::Root),
            PatternStart::Id(text) => Ok(evaluation.elements_by_id(node, text).contains(&node)),
            PatternStart::Key { number, value } => {
                Ok(evaluation.key(*number, value, node.doc)?.binary_search(&node).is_ok())
            }
        }
    }
}

/// The result of matching a run of steps.
enum Run {
    /// The run fits, and so does the whole pattern.
    Fits,
    /// The run does not fit.
    Not,
    /// The run fits at `node`. The steps from index `step` on must match an ancestor of it.
    Above { step: usize, node: Node },
}

fn matches_step(
    evaluation: &mut Evaluation<'_>,
    step: &crate::syntax::Step,
    node: Node,
) -> Result<bool, Error> {
    let kind = evaluation.documents.kind(node);
    let here = if step.axis == Axis::Attribute {
        kind == NodeKind::Attribute
    } else {
        !matches!(kind, NodeKind::Attribute | NodeKind::Namespace | NodeKind::Root)
    };
    if !here || !fits(evaluation, &step.test, node, kind) {
        return Ok(false);
    }
    let before = evaluation.focus;
    evaluation.focus.node = node;
    let passed = passes(evaluation, step, node);
    evaluation.focus = before;
    passed
}

fn fits(evaluation: &Evaluation<'_>, test: &Test, node: Node, kind: NodeKind) -> bool {
    match test {
        Test::Node => true,
        Test::Text => kind == NodeKind::Text,
        Test::Comment => kind == NodeKind::Comment,
        Test::Instruction(None) => kind == NodeKind::Instruction,
        Test::Instruction(Some(target)) => {
            kind == NodeKind::Instruction && evaluation.documents.name(node).local == &**target
        }
        Test::Name(test) => {
            matches!(kind, NodeKind::Element | NodeKind::Attribute)
                && test.accepts(evaluation.documents.name(node))
        }
    }
}

/// Returns whether a node passes the predicates of a step. Positions are counted among all nodes that the step selects from the parent.
fn passes(
    evaluation: &mut Evaluation<'_>,
    step: &crate::syntax::Step,
    node: Node,
) -> Result<bool, Error> {
    if step.plain {
        for predicate in &step.predicates {
            if let Predicate::Test(op) = predicate
                && !evaluation.boolean(op)?
            {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let Some(parent) = evaluation.documents.parent(node) else { return Ok(false) };
    if let ([Predicate::Position(wanted)], Axis::Child) = (&*step.predicates, step.axis) {
        return is_at(evaluation, &step.test, node, *wanted);
    }
    Ok(evaluation.step_from(step, parent)?.contains(&node))
}

/// Returns whether a node is at this position among the siblings that pass the test.
fn is_at(
    evaluation: &mut Evaluation<'_>,
    test: &Test,
    node: Node,
    wanted: u32,
) -> Result<bool, Error> {
    let document = evaluation.documents.of(node);
    let mut position = 1;
    let mut before = document.previous_sibling(node.id);
    while let Some(id) = before {
        evaluation.charge(1)?;
        let sibling = node.with(id);
        if fits(evaluation, test, sibling, evaluation.documents.kind(sibling)) {
            position += 1;
            if position > wanted {
                return Ok(false);
            }
        }
        before = document.previous_sibling(id);
    }
    Ok(position == wanted)
}
