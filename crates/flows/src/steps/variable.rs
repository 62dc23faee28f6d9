//! `set`: variables and their types.

use expression::{FailureKind, Number, Value};
use fault::{Fault, Kind};

use crate::content::Format;
use crate::state::Run;
use crate::steps::payload;

/// The type that a value is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Text,
    Number,
    Boolean,
    Xml,
    Json,
}

/// A value of a type.
pub(crate) fn typed(value: Value, kind: Option<Type>, run: &Run<'_>) -> Result<Value, Fault> {
    let failed = |failure: FailureKind| Fault::new(Kind::FlowFailed, failure.to_string());
    let Some(kind) = kind else { return Ok(value) };
    Ok(match (kind, value) {
        (Type::Xml, Value::Nodes(nodes)) => Value::Nodes(nodes),
        (Type::Json, Value::Json(json)) => Value::Json(json),
        (Type::Xml | Type::Json, Value::Nothing) => Value::Nothing,
        (Type::Text, value) => Value::text_of(value.text().map_err(failed)?.as_ref()),
        (Type::Boolean, value) => Value::Boolean(truth(&value)),
        (Type::Number, value) => {
            let text = value.text().map_err(failed)?;
            let number = Number::parse(text.trim()).unwrap_or_else(|| Number::of(value.number()));
            Value::Number(number)
        }
        (Type::Xml, value) => payload::read(&value.text().map_err(failed)?, Format::Xml)?,
        (Type::Json, value @ Value::Text(_)) => {
            payload::read(&value.text().map_err(failed)?, Format::Json)?
        }
        (Type::Json, value) => {
            let mut text = String::new();
            value.write_json(&mut text, &mut run.budget()).map_err(failed)?;
            payload::read(&text, Format::Json)?
        }
    })
}

/// The texts `true` and `false` are themselves; for any other value its truth counts.
fn truth(value: &Value) -> bool {
    let is_no = matches!(value, Value::Text(text) if matches!(&**text, "false" | "0"));
    !is_no && value.boolean()
}
