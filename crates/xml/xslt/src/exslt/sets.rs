//! `set:*` (<http://exslt.org/sets>): operations on node-sets. Node-sets are in document order, so nodes are found by binary search.

use std::collections::HashSet;

use xpath::{Call, ErrorKind, Node, Value};

use super::arguments::nodes;
use super::{Code, Function, FunctionInputs};

const fn row(local: &'static str, least: usize, code: Code) -> Function {
    Function { uri: "http://exslt.org/sets", local, least, most: least, code }
}

pub(super) const FUNCTIONS: &[Function] = &[
    row("difference", 2, difference),
    row("intersection", 2, intersection),
    row("distinct", 1, distinct),
    row("has-same-node", 2, has_same_node),
    row("leading", 2, leading),
    row("trailing", 2, trailing),
];

type Outcome = Result<Value, ErrorKind>;

fn difference(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    chosen(arguments, call, |second, node| second.binary_search(node).is_err())
}

fn intersection(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    chosen(arguments, call, |second, node| second.binary_search(node).is_ok())
}

/// Returns the nodes of the first set that pass a test against the second.
fn chosen(
    arguments: &[Value],
    call: &mut Call<'_>,
    test: impl Fn(&[Node], &Node) -> bool,
) -> Outcome {
    let (first, second) = (nodes(arguments, 0)?, nodes(arguments, 1)?);
    call.budget.charge(first.len() as u64)?;
    Ok(Value::Nodes(first.iter().copied().filter(|node| test(second, node)).collect()))
}

/// Returns the first node for each distinct string-value.
fn distinct(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let mut seen = HashSet::new();
    let mut kept = Vec::new();
    for &node in nodes(arguments, 0)? {
        let text = call.documents.string_value(node);
        call.budget.charge(1 + text.len() as u64 / 8)?;
        if seen.insert(text) {
            kept.push(node);
        }
    }
    Ok(Value::Nodes(kept.into()))
}

fn has_same_node(arguments: &[Value], call: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    let (first, second) = (nodes(arguments, 0)?, nodes(arguments, 1)?);
    call.budget.charge(first.len() as u64)?;
    Ok(Value::Boolean(first.iter().any(|node| second.binary_search(node).is_ok())))
}

/// Returns the nodes of the first set before the first node of the second, or none if that node is not in the first set.
fn leading(arguments: &[Value], _: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    split(arguments, |first, at| first.get(..at))
}

/// Returns the nodes of the first set after the first node of the second, or none if that node is not in the first set.
fn trailing(arguments: &[Value], _: &mut Call<'_>, _: &mut FunctionInputs) -> Outcome {
    split(arguments, |first, at| first.get(at + 1..))
}

/// Returns a part of the first set, split at the first node of the second. If the second set is empty, returns the whole first set.
fn split(arguments: &[Value], part: impl Fn(&[Node], usize) -> Option<&[Node]>) -> Outcome {
    let (first, second) = (nodes(arguments, 0)?, nodes(arguments, 1)?);
    let kept = match second.first() {
        None => first,
        Some(mark) => match first.binary_search(mark) {
            Ok(at) => part(first, at).unwrap_or(&[]),
            Err(_) => &[],
        },
    };
    Ok(Value::Nodes(kept.into()))
}
