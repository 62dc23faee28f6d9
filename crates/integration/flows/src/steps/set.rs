//! `set`: variables and their types.

use expression::{Expression, FailureKind, Number, Value};
use fault::{Fault, Kind};

use crate::levels::{ActionNeeds, Levels, deepest};
use crate::state::{Run, State, Variable};
use crate::step::{Action, Step, StepRun, ended};
use crate::steps::payload;
use crate::view::Format;

/// Variables by their numbers, each with the expression of its value and the type that the value is converted to.
pub struct Set(pub Vec<(u32, Expression, Option<Type>)>);

/// The type that a value is converted to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Type {
    Text,
    Number,
    Boolean,
    Xml,
    Json,
}

impl Action for Set {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds {
            slots: self.0.iter().flat_map(|(_, value, _)| value.slots()).collect(),
            levels: deepest(self.0.iter().map(|(_, value, kind)| match kind {
                None | Some(Type::Xml) => levels.copied(value),
                Some(Type::Text | Type::Number | Type::Boolean | Type::Json) => levels.read(value),
            })),
            ..ActionNeeds::default()
        }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        ended(set(self, run, state))
    }
}

fn set(made: &Set, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    for (number, expression, kind) in &made.0 {
        let value = run.value(state, expression)?;
        let sender = run.asked.get();
        let value = typed(value, *kind, run).map_err(|fault| run.blamed(fault))?;
        state.set(*number, Variable::Value(value));
        state.note_sender(*number, sender);
    }
    Ok(())
}

/// Converts a value to a type.
fn typed(value: Value, kind: Option<Type>, run: &Run<'_>) -> Result<Value, Fault> {
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

/// Converts a value to a boolean. Unlike in expressions, the texts `false` and `0` are false.
fn truth(value: &Value) -> bool {
    let is_no = matches!(value, Value::Text(text) if matches!(&**text, "false" | "0"));
    !is_no && value.boolean()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_mean_no_are_false() {
        for (value, expected) in [
            (Value::text_of("false"), false),
            (Value::text_of("0"), false),
            (Value::text_of(""), false),
            (Value::text_of("False"), true),
            (Value::text_of("00"), true),
            (Value::text_of("no"), true),
            (Value::Boolean(false), false),
            (Value::Boolean(true), true),
            (Value::Number(Number::of(0.0)), false),
            (Value::Number(Number::of(2.0)), true),
            (Value::Nothing, false),
        ] {
            assert_eq!(truth(&value), expected, "{value:?}");
        }
    }
}
