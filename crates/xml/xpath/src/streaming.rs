//! Streaming evaluation: expressions and patterns that need only what a parser reports at a node's start.
//!
//! Decides whether an expression or pattern can be evaluated without a tree, and evaluates it. The result is the same as that of an
//! evaluation on a tree.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "a few kinds of expressions can be evaluated on a stream, and all others need a tree"
)]

use std::borrow::Cow;

use xml::{Attribute, Attributes, QName};

use crate::syntax::{Axis, Comparison, Core, Op, Path, PatternStart, Predicate, Start, Step, Test};
use crate::{Alternative, Expr, NodeKind};

/// A node as a parser reports it, before its content.
#[derive(Debug, Clone, Copy)]
pub struct StreamNode<'a> {
    /// Any kind except namespace.
    pub kind: NodeKind,
    /// For an instruction, the target is the local part; empty for kinds without names.
    pub name: QName<'a>,
    /// The string-value of kinds without content.
    pub value: Option<&'a str>,
    /// The attributes of an element at its start.
    pub attributes: Option<Attributes<'a>>,
}

/// What is known of a node besides its kind and name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NodeFacts {
    /// Whether the string-value is known.
    pub value: bool,
    /// Whether the attributes are known, or the node has none.
    pub attributes: bool,
}

/// The ancestors of a reported node.
pub trait Ancestors {
    /// Returns the node this many levels above the parent: an element without its attributes, or the root.
    fn above(&self, levels: usize) -> Option<StreamNode<'_>>;
}

/// An expression whose string-value needs no tree.
#[derive(Debug, Clone)]
pub struct StreamString(Op);

/// An expression whose boolean value needs no tree.
#[derive(Debug, Clone)]
pub struct StreamTest(Op);

/// A step that needs no tree.
#[derive(Debug, Clone)]
pub struct StreamStep {
    attribute: bool,
    test: Test,
    predicates: Box<[Op]>,
}

/// A selection of nodes below the context node, which are found as the parser reports them.
#[derive(Debug, Clone, Default)]
pub struct Selection {
    /// Whether the expression is `.` alone.
    pub itself: bool,
    /// Whether the path starts at the root of the document, whatever the context node is.
    pub from_root: bool,
    /// Attribute steps; an attribute is selected if any of them accepts it.
    pub attributes: Vec<StreamStep>,
    /// Steps down through children, each with alternatives. Empty if no children are selected.
    pub below: Vec<Vec<StreamStep>>,
}

/// Where a downward path starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DownStart {
    /// The root of the document.
    Root,
    /// The nodes of the variable with this number.
    Variable(u32),
}

/// What a pattern needs to know to match a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// Only the node itself, as reported.
    Itself,
    /// The ancestors too.
    Around,
}

const ELEMENT: NodeFacts = NodeFacts { value: false, attributes: true };
const LEAF: NodeFacts = NodeFacts { value: true, attributes: true };
const AROUND: NodeFacts = NodeFacts { value: false, attributes: false };

impl Expr {
    /// Returns the expression in the form that yields its string value on a stream, or `None` if it needs a tree.
    pub fn stream_string(&self, known: NodeFacts) -> Option<StreamString> {
        has_stream_string(self.op(), known).then(|| StreamString(self.op().clone()))
    }

    /// Returns the expression in the form that yields its boolean value on a stream, or `None` if it needs a tree.
    pub fn stream_test(&self, known: NodeFacts) -> Option<StreamTest> {
        has_stream_test(self.op(), known).then(|| StreamTest(self.op().clone()))
    }

    /// Returns the selection, or `None` if the nodes cannot be found one by one as they are reported.
    pub fn selection(&self) -> Option<Selection> {
        match self.op() {
            Op::Path(path) => Selection::of(path),
            Op::Union(all, _) => Selection::joined(all),
            _ => None,
        }
    }

    /// Returns the starts of the paths in the expression, each with the number of levels of nodes below it that the expression uses.
    /// Returns `None` if it may use deeper nodes, even only for the string-value of a node on the path.
    pub fn levels(&self) -> Option<Vec<(DownStart, usize)>> {
        match self.op() {
            Op::Path(path) => Some(vec![path_levels(path)?]),
            Op::Union(all, _) => {
                let one = |op: &Op| match op {
                    Op::Path(path) => path_levels(path),
                    _ => None,
                };
                all.iter().map(one).collect()
            }
            _ => None,
        }
    }
}

fn path_levels(path: &Path) -> Option<(DownStart, usize)> {
    let start = match &path.start {
        Start::Root => DownStart::Root,
        Start::Op(Op::Variable { number, .. }, predicates) if predicates.is_empty() => {
            DownStart::Variable(*number)
        }
        Start::Focus | Start::Op(..) => return None,
    };
    let (last, before) = path.steps.split_last()?;
    let is_attribute = last.axis == Axis::Attribute;
    let below = if is_attribute { before } else { &*path.steps };
    let is_down = |step: &Step| {
        step.axis == Axis::Child && step.predicates.iter().all(|one| is_shallow(one, ELEMENT))
    };
    let is_told = below.iter().all(is_down)
        && (!is_attribute || last.predicates.iter().all(|one| is_shallow(one, LEAF)));
    is_told.then_some((start, below.len()))
}

/// Returns whether a predicate depends on nothing inside a node.
fn is_shallow(predicate: &Predicate, known: NodeFacts) -> bool {
    match predicate {
        Predicate::Position(_) | Predicate::Last => true,
        Predicate::Test(op) => has_stream_test(op, known),
        Predicate::Positional(_) => false,
    }
}

impl StreamString {
    /// Appends the string value.
    pub fn write(&self, told: &StreamNode<'_>, out: &mut String) {
        out.push_str(&string_value(&self.0, told));
    }
}

impl StreamTest {
    /// Returns whether the expression is true.
    pub fn holds(&self, told: &StreamNode<'_>) -> bool {
        holds(&self.0, told)
    }
}

impl StreamStep {
    fn of(step: &Step, known: NodeFacts) -> Option<StreamStep> {
        let test = |predicate: &Predicate| match predicate {
            Predicate::Test(op) if has_stream_test(op, known) => Some(op.clone()),
            Predicate::Test(_)
            | Predicate::Position(_)
            | Predicate::Last
            | Predicate::Positional(_) => None,
        };
        let attribute = match step.axis {
            Axis::Attribute => true,
            Axis::Child => false,
            _ => return None,
        };
        let predicates = step.predicates.iter().map(test).collect::<Option<_>>()?;
        Some(StreamStep { attribute, test: step.test.clone(), predicates })
    }

    fn any(attribute: bool) -> StreamStep {
        StreamStep { attribute, test: Test::Node, predicates: Box::default() }
    }

    /// Returns whether the step accepts every node of its axis.
    pub fn is_any(&self) -> bool {
        self.test == Test::Node && self.predicates.is_empty()
    }

    /// Returns whether the step accepts a node.
    pub fn accepts(&self, told: &StreamNode<'_>) -> bool {
        let here = match told.kind {
            NodeKind::Attribute => self.attribute,
            NodeKind::Namespace | NodeKind::Root => false,
            NodeKind::Element | NodeKind::Text | NodeKind::Comment | NodeKind::Instruction => {
                !self.attribute
            }
        };
        here && fits(&self.test, told) && self.predicates.iter().all(|op| holds(op, told))
    }
}

impl Selection {
    /// Selects the children, preceded by the attributes if requested.
    pub fn content(attributes: bool) -> Selection {
        let list = |asked: bool| asked.then(|| StreamStep::any(true)).into_iter().collect();
        Selection {
            attributes: list(attributes),
            below: vec![vec![StreamStep::any(false)]],
            ..Selection::default()
        }
    }

    fn of(path: &Path) -> Option<Selection> {
        let from_root = match path.start {
            Start::Root => true,
            Start::Focus => false,
            Start::Op(..) => return None,
        };
        if let ([step], false) = (&*path.steps, from_root)
            && step.axis == Axis::Attribute
        {
            return Some(Selection {
                attributes: vec![StreamStep::of(step, LEAF)?],
                ..Selection::default()
            });
        }
        let down = |step: &Step| StreamStep::of(step, ELEMENT).filter(|asked| !asked.attribute);
        let below = path.steps.iter().map(|step| Some(vec![down(step)?]));
        let below: Vec<Vec<StreamStep>> = below.collect::<Option<_>>()?;
        match (below.is_empty(), from_root) {
            (true, true) => None,
            (itself, from_root) => {
                Some(Selection { itself, from_root, below, ..Selection::default() })
            }
        }
    }

    /// Joins paths of one step each. Each node can then be tested independently of the nodes before it.
    fn joined(all: &[Op]) -> Option<Selection> {
        let mut joined = Selection::default();
        let mut children = Vec::new();
        for op in all {
            let Op::Path(path) = op else { return None };
            let one = Selection::of(path)?;
            if one.itself || one.from_root || one.below.len() > 1 {
                return None;
            }
            joined.attributes.extend(one.attributes);
            // Harmless: a path without a child step adds none.
            children.extend(one.below.into_iter().flatten());
        }
        if !children.is_empty() {
            joined.below.push(children);
        }
        Some(joined)
    }
}

impl Alternative {
    /// Returns what the alternative needs to know of a node, or `None` if it needs a tree.
    pub fn needs(&self) -> Option<Needs> {
        if let PatternStart::Id(_) | PatternStart::Key { .. } = self.start {
            return None;
        }
        for (place, step) in self.steps.iter().enumerate() {
            let known = match (place, step.step.axis) {
                (0, Axis::Attribute) => LEAF,
                (0, _) => ELEMENT,
                (_, _) => AROUND,
            };
            StreamStep::of(&step.step, known)?;
        }
        Some(if self.steps.is_empty() || self.only_step().is_some() {
            Needs::Itself
        } else {
            Needs::Around
        })
    }

    /// Returns the step, if there is only one and it may match anywhere. A root before it does not matter, because the root is above every
    /// node.
    #[inline]
    fn only_step(&self) -> Option<&Step> {
        match (&*self.steps, &self.start) {
            ([only], PatternStart::Root) => only.anywhere.then_some(&only.step),
            ([only], PatternStart::Anywhere) => Some(&only.step),
            _ => None,
        }
    }

    /// Returns whether a reported node matches. Only for alternatives that need no tree.
    pub fn fits(&self, told: &StreamNode<'_>, around: &dyn Ancestors) -> bool {
        if let Some(only) = self.only_step() {
            return is_step(only, told);
        }
        let at = |level: usize| match level.checked_sub(1) {
            None => Some(*told),
            Some(levels) => around.above(levels),
        };
        let (mut step, mut level, mut slides) = (0, 0, false);
        // As in the evaluation on a tree, each run of steps is matched at the lowest position where it fits.
        while let Some(node) = at(level) {
            match self.lay(step, level, node, &at) {
                StepsMatch::Fits => return true,
                StepsMatch::Not if !slides => return false,
                StepsMatch::Not => level += 1,
                StepsMatch::Above { step: next, level: below } => {
                    (step, level, slides) = (next, below + 1, true);
                }
            }
        }
        false
    }

    /// Matches a run of steps against nodes from a level upwards.
    fn lay<'t>(
        &self,
        first: usize,
        level: usize,
        node: StreamNode<'t>,
        at: &dyn Fn(usize) -> Option<StreamNode<'t>>,
    ) -> StepsMatch {
        let (mut level, mut node) = (level, Some(node));
        for (place, step) in self.steps.iter().enumerate().skip(first) {
            if !node.is_some_and(|node| is_step(&step.step, &node)) {
                return StepsMatch::Not;
            }
            if step.anywhere {
                return StepsMatch::Above { step: place + 1, level };
            }
            level += 1;
            node = at(level);
        }
        let starts = match self.start {
            PatternStart::Anywhere => true,
            PatternStart::Root => node.is_some_and(|node| node.kind == NodeKind::Root),
            PatternStart::Id(_) | PatternStart::Key { .. } => false,
        };
        if starts { StepsMatch::Fits } else { StepsMatch::Not }
    }
}

/// The result of matching a run of steps.
enum StepsMatch {
    Fits,
    Not,
    /// The steps from this one on have to match somewhere above the level.
    Above {
        step: usize,
        level: usize,
    },
}

fn is_step(step: &Step, told: &StreamNode<'_>) -> bool {
    let here = match told.kind {
        NodeKind::Attribute => step.axis == Axis::Attribute,
        NodeKind::Namespace | NodeKind::Root => false,
        NodeKind::Element | NodeKind::Text | NodeKind::Comment | NodeKind::Instruction => {
            step.axis == Axis::Child
        }
    };
    let passes = |predicate: &Predicate| match predicate {
        Predicate::Test(op) => holds(op, told),
        Predicate::Position(_) | Predicate::Last | Predicate::Positional(_) => false,
    };
    here && fits(&step.test, told) && step.predicates.iter().all(passes)
}

fn fits(test: &Test, told: &StreamNode<'_>) -> bool {
    match test {
        Test::Node => true,
        Test::Text => told.kind == NodeKind::Text,
        Test::Comment => told.kind == NodeKind::Comment,
        Test::Instruction(None) => told.kind == NodeKind::Instruction,
        Test::Instruction(Some(target)) => {
            told.kind == NodeKind::Instruction && told.name.local == &**target
        }
        Test::Name(test) => {
            matches!(told.kind, NodeKind::Element | NodeKind::Attribute) && test.accepts(told.name)
        }
    }
}

/// Returns whether the expression is the context node, `.`.
fn is_focus(op: &Op) -> bool {
    matches!(op, Op::Path(path) if matches!(path.start, Start::Focus) && path.steps.is_empty())
}

/// Returns the step of `@x`.
fn attribute_step(op: &Op) -> Option<&Step> {
    let Op::Path(path) = op else { return None };
    match (&path.start, &*path.steps) {
        (Start::Focus, [step]) if step.axis == Axis::Attribute => Some(step),
        _ => None,
    }
}

/// Returns whether the expression is `@x` with a test that needs no tree.
fn is_stream_attribute(op: &Op) -> bool {
    attribute_step(op).is_some_and(|step| StreamStep::of(step, LEAF).is_some())
}

/// Returns the step of `self::x`.
fn own_step(op: &Op) -> Option<&Step> {
    let Op::Path(path) = op else { return None };
    match (&path.start, &*path.steps) {
        (Start::Focus, [step]) if step.axis == Axis::SelfNode && step.predicates.is_empty() => {
            Some(step)
        }
        _ => None,
    }
}

fn attributes_at<'t>(step: &Step, told: &StreamNode<'t>) -> impl Iterator<Item = Attribute<'t>> {
    let all = told.attributes.into_iter().flat_map(|attributes| attributes.iter());
    all.filter(move |attribute| is_step(step, &StreamNode::attribute(attribute)))
}

impl<'a> StreamNode<'a> {
    /// Makes a reported node from an attribute.
    pub fn attribute(attribute: &Attribute<'a>) -> StreamNode<'a> {
        StreamNode {
            kind: NodeKind::Attribute,
            name: attribute.name,
            value: Some(attribute.value),
            attributes: None,
        }
    }
}

/// Returns whether the string value of an expression needs no tree.
fn has_stream_string(op: &Op, known: NodeFacts) -> bool {
    match op {
        Op::Text(_) => true,
        Op::Path(_) if is_focus(op) => known.value,
        Op::Path(_) => known.attributes && is_stream_attribute(op),
        Op::Core {
            function: Core::LocalName | Core::Name | Core::NamespaceUri, arguments, ..
        } => arguments.iter().all(is_focus),
        Op::Core { function: Core::String, arguments, .. } => {
            arguments.iter().all(|op| has_stream_string(op, known))
        }
        _ => false,
    }
}

fn string_value<'t>(op: &'t Op, told: &StreamNode<'t>) -> Cow<'t, str> {
    match op {
        Op::Text(text) => Cow::Borrowed(text),
        Op::Path(_) if is_focus(op) => Cow::Borrowed(told.value.unwrap_or("")),
        Op::Path(_) => {
            let first = attribute_step(op).and_then(|step| attributes_at(step, told).next());
            Cow::Borrowed(first.map_or("", |attribute| attribute.value))
        }
        Op::Core { function: Core::LocalName, .. } => Cow::Borrowed(told.name.local),
        Op::Core { function: Core::NamespaceUri, .. } => Cow::Borrowed(told.name.namespace.uri),
        Op::Core { function: Core::Name, .. } if told.name.prefix.is_empty() => {
            Cow::Borrowed(told.name.local)
        }
        Op::Core { function: Core::Name, .. } => {
            Cow::Owned(format!("{}:{}", told.name.prefix, told.name.local))
        }
        Op::Core { function: Core::String, arguments, .. } => {
            arguments.first().map_or(Cow::Borrowed(""), |only| string_value(only, told))
        }
        _ => Cow::Borrowed(""),
    }
}

/// Returns whether the boolean value of an expression needs no tree.
fn has_stream_test(op: &Op, known: NodeFacts) -> bool {
    let tests = |op: &Op| has_stream_test(op, known);
    let strings = |op: &Op| has_stream_string(op, known);
    match op {
        Op::Boolean(_) => true,
        Op::Any(all) | Op::All(all) => all.iter().all(tests),
        Op::Compare(Comparison::Equal | Comparison::NotEqual, sides) => {
            // At most one side may be a node-set, because `equal` does not compare two of them.
            let sets = sides.iter().filter(|op| matches!(op, Op::Path(_))).count();
            sets < 2 && sides.iter().all(strings)
        }
        Op::Core { function: Core::Not | Core::Boolean, arguments, .. } => {
            arguments.iter().all(tests)
        }
        Op::Core { function: Core::True | Core::False, .. } => true,
        Op::Core { function: Core::StartsWith | Core::Contains, arguments, .. } => {
            arguments.iter().all(strings)
        }
        Op::Path(_) if own_step(op).is_some() => true,
        Op::Path(_) => known.attributes && is_stream_attribute(op),
        Op::Text(_) | Op::Core { .. } => has_stream_string(op, known),
        _ => false,
    }
}

fn holds(op: &Op, told: &StreamNode<'_>) -> bool {
    match op {
        Op::Boolean(value) => *value,
        Op::Any(all) => all.iter().any(|op| holds(op, told)),
        Op::All(all) => all.iter().all(|op| holds(op, told)),
        Op::Compare(comparison, sides) => equal(sides, told, *comparison == Comparison::Equal),
        Op::Core { function: Core::Not, arguments, .. } => {
            !arguments.iter().any(|op| holds(op, told))
        }
        Op::Core { function: Core::Boolean, arguments, .. } => {
            arguments.iter().any(|op| holds(op, told))
        }
        Op::Core { function: Core::True, .. } => true,
        Op::Core { function: Core::False, .. } => false,
        Op::Core { function: Core::StartsWith, arguments, .. } => match &**arguments {
            [text, start] => string_value(text, told).starts_with(&*string_value(start, told)),
            _ => false,
        },
        Op::Core { function: Core::Contains, arguments, .. } => match &**arguments {
            [text, part] => string_value(text, told).contains(&*string_value(part, told)),
            _ => false,
        },
        Op::Path(_) => match (own_step(op), attribute_step(op)) {
            (Some(step), _) => fits_itself(&step.test, told),
            (None, Some(step)) => attributes_at(step, told).next().is_some(),
            (None, None) => false,
        },
        op => !string_value(op, told).is_empty(),
    }
}

/// Tests `self::x`. `self::*` matches only elements: the principal node kind of the self axis is element, even for an attribute.
fn fits_itself(test: &Test, told: &StreamNode<'_>) -> bool {
    let named = matches!(test, Test::Name(_));
    (!named || told.kind == NodeKind::Element) && fits(test, told)
}

/// Evaluates `=` or `!=` for two strings, or for a string and a set of attributes.
fn equal(sides: &[Op; 2], told: &StreamNode<'_>, wanted: bool) -> bool {
    let (set, other) = match sides {
        [set @ Op::Path(_), other] | [other, set] => (set, other),
    };
    let other = string_value(other, told);
    match attribute_step(set) {
        Some(step) => attributes_at(step, told).any(|a| (a.value == other) == wanted),
        None => (string_value(set, told) == other) == wanted,
    }
}
