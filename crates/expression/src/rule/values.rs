//! Values of a message as values of CEL, and back.

use std::collections::HashMap;
use std::sync::Arc;

use cel::objects::{Key, Map};
use json::Kind;

use crate::expression::made_json;
use crate::tape::{JsonNode, JsonText};
use crate::{Budget, FailureKind, Number, Value};

/// Objects and arrays inside one another; the library recurses by it.
const DEPTH_MAX: usize = 128;

/// The values given to an expression.
pub(super) struct GivenValues<'b> {
    budget: &'b mut Budget,
    /// The number of values.
    pub(super) values: u64,
    /// Bytes of the longest text.
    pub(super) longest: u64,
}

impl GivenValues<'_> {
    pub(super) fn new(budget: &mut Budget) -> GivenValues<'_> {
        GivenValues { budget, values: 0, longest: 0 }
    }

    pub(super) fn value(&mut self, value: &Value) -> Result<cel::Value, FailureKind> {
        match value {
            Value::Null => Ok(cel::Value::Null),
            Value::Boolean(yes) => Ok(cel::Value::Bool(*yes)),
            Value::Number(number) => Ok(numeric(number.text())),
            Value::Json(json) => match (json.singular, json.first()) {
                (true, Some(node)) => self.json(&json.text, node, 0),
                (true, None) => self.string(""),
                (false, _) => {
                    let items = json.nodes.iter().map(|node| self.json(&json.text, *node, 1));
                    Ok(cel::Value::List(Arc::new(items.collect::<Result<_, _>>()?)))
                }
            },
            Value::Bytes(bytes) if std::str::from_utf8(bytes).is_err() => {
                self.count(bytes.len())?;
                Ok(cel::Value::Bytes(Arc::new(bytes.to_vec())))
            }
            Value::Nothing | Value::Text(_) | Value::Bytes(_) | Value::Nodes(_) => {
                self.string(&value.text()?)
            }
        }
    }

    fn count(&mut self, bytes: usize) -> Result<(), FailureKind> {
        self.values += 1;
        self.longest = self.longest.max(bytes as u64);
        self.budget.text(bytes)
    }

    fn string(&mut self, text: &str) -> Result<cel::Value, FailureKind> {
        self.count(text.len())?;
        Ok(cel::Value::String(Arc::new(text.to_owned())))
    }

    fn json(
        &mut self,
        text: &JsonText,
        node: JsonNode,
        depth: usize,
    ) -> Result<cel::Value, FailureKind> {
        if depth > DEPTH_MAX {
            return Err(FailureKind::Limit {
                name: "depth of values in CEL",
                max: DEPTH_MAX as u64,
            });
        }
        match text.kind(node) {
            Kind::Plain | Kind::Escaped => return self.string(&text.string(node)),
            Kind::Object | Kind::Array => {}
            Kind::Null | Kind::False | Kind::True | Kind::Number => {
                self.count(0)?;
                return Ok(match text.kind(node) {
                    Kind::Number => numeric(text.raw(node)),
                    Kind::True => cel::Value::Bool(true),
                    Kind::False => cel::Value::Bool(false),
                    Kind::Null | Kind::Plain | Kind::Escaped | Kind::Object | Kind::Array => {
                        cel::Value::Null
                    }
                });
            }
        }
        self.count(0)?;
        if text.kind(node) == Kind::Array {
            let items = text.children(node).map(|(_, item)| self.json(text, item, depth + 1));
            return Ok(cel::Value::List(Arc::new(items.collect::<Result<_, _>>()?)));
        }
        let mut all = HashMap::new();
        for (name, value) in text.children(node) {
            let name = name.map(|name| text.string(name).into_owned()).unwrap_or_default();
            self.count(name.len())?;
            all.insert(Key::String(Arc::new(name)), self.json(text, value, depth + 1)?);
        }
        Ok(cel::Value::Map(Map { map: Arc::new(all) }))
    }
}

/// A whole number where one of 64 bits holds it, else a double.
fn numeric(text: &str) -> cel::Value {
    match (text.parse::<i64>(), text.parse::<u64>()) {
        (Ok(number), _) => cel::Value::Int(number),
        (Err(_), Ok(number)) => cel::Value::UInt(number),
        (Err(_), Err(_)) => cel::Value::Float(crate::number::value(text)),
    }
}

/// The value of an expression. Lists and maps are written as JSON, members in the order of their names.
pub(super) fn taken(value: &cel::Value, budget: &mut Budget) -> Result<Value, FailureKind> {
    let number =
        |text: String| Number::parse(&text).map_or_else(|| Value::text_of(text), Value::Number);
    #[allow(clippy::wildcard_enum_match_arm, reason = "what is of no use here is one case")]
    Ok(match value {
        cel::Value::Null => Value::Null,
        cel::Value::Bool(yes) => Value::Boolean(*yes),
        cel::Value::Int(whole) => number(whole.to_string()),
        cel::Value::UInt(whole) => number(whole.to_string()),
        cel::Value::Float(double) => Value::Number(Number::of(*double)),
        cel::Value::String(text) => {
            budget.text(text.len())?;
            Value::text_of(text.as_str())
        }
        cel::Value::Bytes(bytes) => Value::Bytes(bytes.as_slice().into()),
        cel::Value::List(_) | cel::Value::Map(_) => {
            let mut out = String::new();
            write(value, &mut out, budget, 0)?;
            Value::Json(made_json(out, budget)?)
        }
        other => {
            let what = format!("the expression gives {}, which no step can use", other.type_of());
            return Err(FailureKind::Type(what.into()));
        }
    })
}

fn write(
    value: &cel::Value,
    out: &mut String,
    budget: &mut Budget,
    depth: usize,
) -> Result<(), FailureKind> {
    if depth > DEPTH_MAX {
        return Err(FailureKind::Limit { name: "depth of values in CEL", max: DEPTH_MAX as u64 });
    }
    budget.output(2)?;
    #[allow(clippy::wildcard_enum_match_arm, reason = "scalars are written as elsewhere")]
    match value {
        cel::Value::List(items) => {
            out.push('[');
            for (place, item) in items.iter().enumerate() {
                out.push_str(if place == 0 { "" } else { "," });
                write(item, out, budget, depth + 1)?;
            }
            out.push(']');
        }
        cel::Value::Map(map) => {
            let mut members: Vec<_> = map.map.iter().map(|(k, v)| (k.to_string(), v)).collect();
            members.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
            out.push('{');
            for (place, (name, value)) in members.iter().enumerate() {
                budget.output(name.len() + 3)?;
                out.push_str(if place == 0 { "" } else { "," });
                json::push_string(out, name);
                out.push(':');
                write(value, out, budget, depth + 1)?;
            }
            out.push('}');
        }
        scalar => taken(scalar, budget)?.write_json(out, budget)?,
    }
    Ok(())
}
