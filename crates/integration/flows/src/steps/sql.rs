//! `sql`: a statement in a database, whose rows become a variable or the message.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use expression::{Expression, JsonNodes, Value};
use fault::{Fault, Kind};
use kit::clock;
use sql::{Answer, Argument, Bounds, Database, Failure, Statement};

use crate::levels::{ActionNeeds, Levels, deepest};
use crate::state::{Run, State, Variable};
use crate::step::{Action, Step, StepRun, waits};
use crate::steps::payload;
use crate::timeout::{flow_timeout, within};
use crate::view::Format;

/// A statement with its arguments.
pub struct Sql {
    pub database: Arc<Database>,
    /// The database's name.
    pub name: Box<str>,
    pub statement: Statement,
    pub arguments: Vec<Expression>,
    /// The number of the variable that takes the answer.
    pub into: Option<u32>,
    pub timeout: Duration,
    pub rows_max: usize,
}

impl Action for Sql {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds {
            slots: self.arguments.iter().flat_map(Expression::slots).collect(),
            levels: deepest(self.arguments.iter().map(|argument| levels.read(argument))),
            ..ActionNeeds::default()
        }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        waits(move || sql(self, run, state))
    }
}

/// Runs the statement, and stores its answer in the variable or the message.
async fn sql(step: &Sql, run: &Run<'_>, state: &mut State) -> Result<(), Fault> {
    let arguments = step.arguments.iter().map(|expression| {
        let value = run.value(state, expression)?;
        argument(&value, run)
    });
    let arguments = arguments.collect::<Result<Vec<_>, Fault>>()?;
    let left = state.left();
    let limit = step.timeout.min(left);
    let began = clock::now();
    let bounds =
        Bounds { deadline: began + limit, rows_max: step.rows_max, bytes_max: run.body_bytes_max };
    let open = state.transactions.iter().find(|open| open.0.is_in(&step.database));
    let asked = async {
        match open {
            Some(open) => open.0.run(&step.statement, arguments, bounds).await,
            None => step.database.run(&step.statement, arguments, bounds).await,
        }
    };
    let answer = within(limit, pin!(asked)).await.unwrap_or(Err(Failure::Late));
    run.waited.set(clock::now().duration_since(began));
    let answer = answer.map_err(|failure| {
        if failure == Failure::Late && limit == left {
            flow_timeout()
        } else {
            fault(&step.name, &failure)
        }
    })?;
    match (answer, step.into) {
        (Answer::Rows(text), Some(number)) => {
            let rows = payload::read(&text, Format::Json)?;
            state.set(number, Variable::Value(rows));
        }
        (Answer::Rows(text), None) => {
            run.bound(text.len())?;
            state.message.replace(text.into(), payload::JSON.as_bytes());
        }
        (Answer::Affected { count, key }, Some(number)) => {
            let key = key.map(|key| format!(",\"key\":{key}")).unwrap_or_default();
            let told = payload::read(&format!("{{\"affected\":{count}{key}}}"), Format::Json)?;
            state.set(number, Variable::Value(told));
        }
        (Answer::Affected { .. }, None) => {}
    }
    Ok(())
}

/// The fault of a failure in the database of this name.
pub(super) fn fault(database: &str, failure: &Failure) -> Fault {
    let kind = match failure {
        Failure::Unavailable(_) => Kind::DatabaseAway,
        Failure::Busy(_) => Kind::DatabaseBusy,
        Failure::Late => Kind::DatabaseTimeout,
        Failure::Refused(_) | Failure::TooLarge(_) => Kind::StatementFailed,
    };
    Fault::new(kind, format!("database {database}: {failure}"))
}

/// A value as an argument. It is never a part of the statement's text.
fn argument(value: &Value, run: &Run<'_>) -> Result<Argument, Fault> {
    let failed = |kind: expression::FailureKind| Fault::new(Kind::FlowFailed, kind.to_string());
    Ok(match value {
        value if value.is_missing() => Argument::Null,
        Value::Nothing | Value::Null => Argument::Null,
        Value::Boolean(yes) => Argument::Boolean(*yes),
        Value::Number(number) => Argument::Number(number.text().into()),
        Value::Bytes(bytes) => Argument::Bytes(Bytes::copy_from_slice(bytes)),
        Value::Text(_) | Value::Nodes(_) => Argument::Text(value.text().map_err(failed)?.into()),
        Value::Json(nodes) => Argument::Json(json(nodes, value, run)?),
    })
}

fn json(nodes: &JsonNodes, value: &Value, run: &Run<'_>) -> Result<Box<str>, Fault> {
    if let (true, Some(first)) = (nodes.singular, nodes.first()) {
        return Ok(nodes.text.raw(first).into());
    }
    let mut text = String::new();
    let written = value.write_json(&mut text, &mut run.budget());
    written.map_err(|kind| Fault::new(Kind::FlowFailed, kind.to_string()))?;
    Ok(text.into())
}
