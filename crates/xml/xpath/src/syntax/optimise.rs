//! Static analysis and optimisation of steps and predicates.

use super::functions::Type;
use super::{Axis, Comparison, Core, Op, Path, Predicate, Start, Step, Test};

/// Maximum number of steps of a path that is walked depth first. Each step is a nested call.
const ORDERED_STEPS_MAX: usize = 16;

/// Returns the step that `//` stands for, `descendant-or-self::node()`.
pub(super) fn anywhere() -> Step {
    step(Axis::DescendantOrSelf, Test::Node, Vec::new())
}

pub(super) fn step(axis: Axis, test: Test, predicates: Vec<Predicate>) -> Step {
    let plain = predicates.iter().all(|predicate| matches!(predicate, Predicate::Test(_)));
    Step { axis, test, predicates: predicates.into(), plain }
}

/// Builds a path. Merges its steps, and determines whether a depth-first walk finds its nodes in document order.
pub(super) fn path(start: Start, steps: Vec<Step>, offset: u32) -> Op {
    let steps = merge(steps);
    let ordered = match &start {
        Start::Root | Start::Focus => steps.len() <= ORDERED_STEPS_MAX && is_ordered(&steps),
        // A variable or function may return any number of nodes.
        Start::Op(..) => false,
    };
    Op::Path(Box::new(Path { start, steps: steps.into(), ordered, offset }))
}

/// Merges steps. `//x` becomes one step over descendants, unless a predicate uses position or size: `//x[1]` selects the first child `x` of
/// each node, and not the first descendant. `./x` becomes `x`.
fn merge(steps: Vec<Step>) -> Vec<Step> {
    let mut merged: Vec<Step> = Vec::with_capacity(steps.len());
    for mut step in steps {
        if is_bare(&step, Axis::SelfNode) {
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

/// The order in which a depth-first walk finds the nodes of a step.
#[derive(Clone, Copy)]
enum Order {
    /// One node at most.
    One,
    /// In document order, and none is an ancestor of another.
    Flat,
    /// In document order, possibly nested.
    Nested,
}

/// Returns whether a depth-first walk of these steps from one node finds distinct nodes in document order.
fn is_ordered(steps: &[Step]) -> bool {
    let mut order = Order::One;
    for step in steps {
        let next = match (step.axis, order) {
            (Axis::SelfNode, order) => Some(order),
            (Axis::Parent, Order::One) => Some(Order::One),
            (Axis::Attribute | Axis::Namespace, _) => Some(Order::Flat),
            (Axis::Child, Order::One | Order::Flat) => Some(Order::Flat),
            (Axis::Descendant | Axis::DescendantOrSelf, Order::One | Order::Flat) => {
                Some(Order::Nested)
            }
            (Axis::FollowingSibling, Order::One) => Some(Order::Flat),
            (Axis::Following, Order::One) => Some(Order::Nested),
            _ => None,
        };
        match next {
            Some(next) => order = next,
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

/// Classifies a predicate by whether it depends on position or size.
pub(super) fn predicate(op: Op) -> Predicate {
    if let Some(number) = fixed_position(&op) {
        let whole = (1.0..=f64::from(u32::MAX)).contains(&number) && number.fract() == 0.0;
        if !whole {
            return Predicate::Test(Op::Boolean(false));
        }
        #[allow(clippy::cast_possible_truncation, reason = "checked above: an integer within u32")]
        #[allow(clippy::cast_sign_loss, reason = "checked above: at least 1")]
        let number = number as u32;
        return Predicate::Position(number);
    }
    if is_last(&op) {
        return Predicate::Last;
    }
    match type_of(&op) {
        Some(Type::Boolean | Type::Text | Type::Nodes) if !uses_position(&op) => {
            Predicate::Test(op)
        }
        _ => Predicate::Positional(op),
    }
}

/// Returns the 3 of a predicate `[3]` or `[position() = 3]`.
fn fixed_position(op: &Op) -> Option<f64> {
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

/// Returns both sides of a comparison with `=`.
fn sides_equal(op: &Op) -> Option<&[Op; 2]> {
    if let Op::Compare(Comparison::Equal, sides) = op { Some(sides) } else { None }
}

/// Returns whether an expression uses position or size.
fn uses_position(op: &Op) -> bool {
    match op {
        Op::Number(_) | Op::Text(_) | Op::Boolean(_) | Op::Pattern(_) => false,
        Op::Variable { .. } | Op::Unknown { .. } | Op::Current => false,
        Op::Any(all) | Op::All(all) | Op::Union(all, _) => all.iter().any(uses_position),
        Op::Compare(_, sides) => sides.iter().any(uses_position),
        Op::Arithmetic(first, rest) => {
            uses_position(first) || rest.iter().any(|(_, op)| uses_position(op))
        }
        Op::Negate(op) => uses_position(op),
        // Predicates within a path have a context of their own.
        Op::Path(path) => match &path.start {
            Start::Root | Start::Focus => false,
            Start::Op(op, _) => uses_position(op),
        },
        Op::Core { function: Core::Position | Core::Last, .. } => true,
        Op::Core { arguments, .. } => arguments.iter().any(uses_position),
        // The caller's functions receive the whole context.
        Op::Host { .. } => true,
        Op::If(parts) => parts.iter().any(uses_position),
    }
}
