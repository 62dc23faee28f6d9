//! Applies queries to the values of a message.

use crate::jsonpath::Query;
use crate::tape::JsonText;
use crate::value::made_json;
use crate::{Budget, FailureKind, Scope, Slot, Value};

/// Returns the value that a query is applied to. For a form, that is the object of its fields.
pub(crate) fn query_input(slot: Slot, scope: &dyn Scope) -> Result<Value, FailureKind> {
    let value = scope.value(slot)?;
    match &value {
        Value::Text(_) | Value::Bytes(_) => Ok(scope.fields(slot)?.unwrap_or(value)),
        Value::Nothing
        | Value::Null
        | Value::Boolean(_)
        | Value::Number(_)
        | Value::Nodes(_)
        | Value::Json(_) => Ok(value),
    }
}

/// Applies a query to a value. Returns [`Value::Nothing`] if the value is not JSON.
pub(crate) fn apply_query(
    query: &Query,
    value: Value,
    budget: &mut Budget,
) -> Result<Value, FailureKind> {
    let Value::Json(json) = value else { return Ok(Value::Nothing) };
    if json.singular {
        let Some(root) = json.first() else { return Ok(Value::Nothing) };
        return Ok(Value::Json(query.value(&json.text, root, budget)?));
    }
    // If the value comes from a query that can select several values, this query is applied to an array of them.
    let mut text = String::new();
    Value::Json(json).write_json(&mut text, budget)?;
    let array = made_json(text, budget)?;
    Ok(Value::Json(query.value(&array.text, JsonText::ROOT, budget)?))
}
