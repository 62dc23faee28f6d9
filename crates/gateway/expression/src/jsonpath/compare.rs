//! Comparisons of values (RFC 9535, 2.3.5.2.2).

use std::borrow::Cow;
use std::cmp::Ordering;

use json::Kind;

use crate::jsonpath::operand::{Operand, operand};
use crate::number;
use crate::tape::{JsonNode, JsonText};
use crate::{Budget, FailureKind};

/// Returns true if two values are equal. Two missing values are equal.
pub(super) fn equal(
    text: &JsonText,
    budget: &mut Budget,
    left: &Operand<'_>,
    right: &Operand<'_>,
) -> Result<bool, FailureKind> {
    Ok(match (left, right) {
        (Operand::Nothing, Operand::Nothing) | (Operand::Null, Operand::Null) => true,
        (Operand::Boolean(a), Operand::Boolean(b)) => a == b,
        (Operand::Number(a), Operand::Number(b)) => {
            budget.text(a.len() + b.len())?;
            number::compare(a, b) == Ordering::Equal
        }
        (Operand::Text(a), Operand::Text(b)) => {
            budget.text(a.len().min(b.len()))?;
            a == b
        }
        (Operand::Node(a), Operand::Node(b)) => deep(text, budget, *a, *b)?,
        _ => false,
    })
}

/// Returns true if one value is less than the other. Only numbers and strings are ordered.
pub(super) fn less(
    budget: &mut Budget,
    left: &Operand<'_>,
    right: &Operand<'_>,
) -> Result<bool, FailureKind> {
    Ok(match (left, right) {
        (Operand::Number(a), Operand::Number(b)) => {
            budget.text(a.len() + b.len())?;
            number::compare(a, b) == Ordering::Less
        }
        // The byte order of UTF-8 is the order of scalar values.
        (Operand::Text(a), Operand::Text(b)) => {
            budget.text(a.len().min(b.len()))?;
            a < b
        }
        _ => false,
    })
}

/// Returns true if two objects or arrays are equal. Uses a list of pairs instead of recursion.
fn deep(
    text: &JsonText,
    budget: &mut Budget,
    a: JsonNode,
    b: JsonNode,
) -> Result<bool, FailureKind> {
    let mut pairs = vec![(a, b)];
    while let Some((a, b)) = pairs.pop() {
        budget.charge(1 + u64::from(text.count(a)))?;
        match (text.kind(a), text.kind(b)) {
            _ if a == b => {}
            (Kind::Array, Kind::Array) if text.count(a) == text.count(b) => {
                // Harmless: both arrays have the same number of items, so `zip` drops none.
                let items = text.children(a).zip(text.children(b));
                pairs.extend(items.map(|((_, a), (_, b))| (a, b)));
            }
            (Kind::Object, Kind::Object) => {
                budget.charge(u64::from(text.count(b)))?;
                let (a, b) = (members(text, a), members(text, b));
                let same = a.len() == b.len() && a.iter().zip(&b).all(|((a, _), (b, _))| a == b);
                if !same {
                    return Ok(false);
                }
                // Harmless: both objects have the same names, so `zip` drops no member.
                pairs.extend(a.iter().zip(&b).map(|((_, a), (_, b))| (*a, *b)));
            }
            (Kind::Array | Kind::Object, _) | (_, Kind::Array | Kind::Object) => return Ok(false),
            _ => {
                if !equal(text, budget, &operand(text, a), &operand(text, b))? {
                    return Ok(false);
                }
            }
        }
    }
    Ok(true)
}

/// Returns the members of an object, sorted by name.
fn members<'t>(text: &'t JsonText, object: JsonNode) -> Vec<(Cow<'t, str>, JsonNode)> {
    let children = text.children(object);
    let mut members: Vec<_> =
        // Harmless: each member of an object has a name.
        children.filter_map(|(name, value)| Some((text.string(name?), value))).collect();
    members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    members
}
