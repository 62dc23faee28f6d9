//! Static analysis and optimisation of steps and predicates.

use super::functions::Type;
use super::{Axis, Comparison, Core, Op, Path, Predicate, Start, Step, Test};

/// Maximum number of steps of a path that is walked depth first. Each step is a nested call.
const ORDERED_STEPS_MAX: usize = 16;

/// The step that `//` abbreviates.
pub(super) fn anywhere() -> Step {
    step(Axis::DescendantOrSelf, Test::Node, Vec::new())
}

pub(super) fn step(axis: Axis, test: Test, predicates: Vec<Predicate>) -> Step {
    let plain = predicates.iter().all(|predicate| matches!(predicate, Predicate::Test(_)));
    Step { axis, test, predicates: predicates.into(), plain }
}

/// Makes a path of these steps.
pub(super) fn path(start: Start, steps: Vec<Step>, offset: u32) -> Op {
    let steps = merge(steps);
    let ordered = match &start {
        Start::Root | Start::Focus => steps.len() <= ORDERED_STEPS_MAX && is_ordered(&steps),
        // A variable or function may return any number of nodes.
        Start::Op(..) => false,
    };
    Op::Path(Box::new(Path { start, steps: steps.into(), ordered, offset }))
}

/// Merges steps. `//x` selects the children of all nodes, which is the same as one step over descendants unless a predicate uses positions.
/// `./x` is the same as `x`.
fn merge(steps: Vec<Step>) -> Vec<Step> {
    let mut merged: Vec<Step> = Vec::with_capacity(steps.len());
    for mut step in steps {
        if is_bare(&step, Axis::Itself) {
            continue;
        }
        if let Some(wide) = step.axis.widened().filter(|_| step.plain)
            && merged.last().is_some_and(|last| is_bare(last, Axis::DescendantOrSelf))
        {
            merged.pop();
            step.axis = wide;
        }
        merged.push(step);
    }
    merged
}

fn is_bare(step: &Step, axis: Axis) -> bool {
    step.axis == axis && step.test == Test::Node && step.predicates.is_empty()
}

/// How the nodes of a step lie in the document, in the order in which a depth-first walk finds them.
#[derive(Clone, Copy)]
enum Lie {
    One,
    /// In document order, and none is an ancestor of another.
    Flat,
    /// In document order, possibly nested.
    Nested,
}

fn is_ordered(steps: &[Step]) -> bool {
    let mut lie = Lie::One;
    for step in steps {
        let next = match (step.axis, lie) {
            (Axis::Itself, lie) => Some(lie),
            (Axis::Parent, Lie::One) => Some(Lie::One),
            (Axis::Attribute | Axis::Namespace, _) => Some(Lie::Flat),
            (Axis::Child, Lie::One | Lie::Flat) => Some(Lie::Flat),
            (Axis::Descendant | Axis::DescendantOrSelf, Lie::One | Lie::Flat) => Some(Lie::Nested),
            (Axis::FollowingSibling, Lie::One) => Some(Lie::Flat),
            (Axis::Following, Lie::One) => Some(Lie::Nested),
            _ => None,
        };
        match next {
            Some(next) => lie = next,
            None => return false,
        }
    }
    true
}

/// Returns the type of an expression's value, or `None` if it is not known statically.
pub(super) fn type_of(op: &Op) -> Option<Type> {
    match op {
        Op::Number(_) | Op::Arithmetic(..) | Op::Negate(_) => Some(Type::Number),
        Op::Text(_) | Op::Pattern(_) => Some(Type::Text),
        Op::Boolean(_) | Op::Any(_) | Op::All(_) | Op::Compare(..) => Some(Type::Boolean),
        Op::Union(..) | Op::Path(_) | Op::Current => Some(Type::Nodes),
        Op::Core { function, .. } => Some(function.result()),
        Op::If(parts) => {
            let [_, then, other] = &**parts;
            let (then, other) = (type_of(then), type_of(other));
            then.filter(|_| then == other)
        }
        Op::Variable { .. } | Op::Host { .. } | Op::Unknown { .. } => None,
    }
}

/// Classifies a predicate.
pub(super) fn predicate(op: Op) -> Predicate {
    if let Some(number) = asked_position(&op) {
        let whole = (1.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
        return match whole {
            // The cast does not truncate: the number is an integer in range.
            #[allow(
                clippy::cast_possible_truncation,
                reason = "whole and within u32, by the line above"
            )]
            #[allow(clippy::cast_sign_loss, reason = "from 1 on")]
            true => Predicate::Position(number as u32),
            false => Predicate::Test(Op::Boolean(false)),
        };
    }
    if is_last(&op) {
        return Predicate::Last;
    }
    match type_of(&op) {
        Some(Type::Boolean | Type::Text | Type::Nodes) if !counts(&op) => Predicate::Test(op),
        _ => Predicate::Place(op),
    }
}

/// Returns the number in `[3]` and in `[position() = 3]`.
fn asked_position(op: &Op) -> Option<f64> {
    if let Op::Number(value) = op {
        return Some(*value);
    }
    match sides_equal(op)? {
        [Op::Core { function: Core::Position, .. }, Op::Number(value)]
        | [Op::Number(value), Op::Core { function: Core::Position, .. }] => Some(*value),
        _ => None,
    }
}

/// Returns whether a predicate is `[last()]` or `[position() = last()]`.
fn is_last(op: &Op) -> bool {
    matches!(op, Op::Core { function: Core::Last, .. })
        || matches!(
            sides_equal(op),
            Some(
                [Op::Core { function: Core::Position, .. }, Op::Core { function: Core::Last, .. }]
                    | [
                        Op::Core { function: Core::Last, .. },
                        Op::Core { function: Core::Position, .. }
                    ]
            )
        )
}

/// Returns both sides of an `=`.
fn sides_equal(op: &Op) -> Option<&[Op; 2]> {
    if let Op::Compare(Comparison::Equal, sides) = op { Some(sides) } else { None }
}

/// Returns whether an expression uses position or size.
fn counts(op: &Op) -> bool {
    match op {
        Op::Number(_) | Op::Text(_) | Op::Boolean(_) | Op::Pattern(_) => false,
        Op::Variable { .. } | Op::Unknown { .. } | Op::Current => false,
        Op::Any(all) | Op::All(all) | Op::Union(all, _) => all.iter().any(counts),
        Op::Compare(_, sides) => sides.iter().any(counts),
        Op::Arithmetic(first, rest) => counts(first) || rest.iter().any(|(_, op)| counts(op)),
        Op::Negate(op) => counts(op),
        // Predicates within a path have a context of their own.
        Op::Path(path) => match &path.start {
            Start::Root | Start::Focus => false,
            Start::Op(op, _) => counts(op),
        },
        Op::Core { function: Core::Position | Core::Last, .. } => true,
        Op::Core { arguments, .. } => arguments.iter().any(counts),
        // The caller's functions receive the whole context.
        Op::Host { .. } => true,
        Op::If(parts) => parts.iter().any(counts),
    }
}
