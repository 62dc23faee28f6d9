//! Evaluates expressions and templates within the budget of a run, and makes faults of their failures.

use std::cell::Cell;

use expression::{Budget, Expression, Failure, FailureKind, Scope, Template, Value};
use fault::{Fault, Kind};

use crate::sender::Sender;
use crate::state::{Run, State};
use crate::values::Values;

impl Run<'_> {
    /// Evaluates with a budget for one step's output, taken from the run's budget of work.
    pub(crate) fn spend<T>(
        &self,
        state: &State,
        work: impl FnOnce(&dyn Scope, &mut Budget) -> Result<T, Failure>,
    ) -> Result<T, Fault> {
        self.asked.set(None);
        let values = Values { run: self, state, unread: Cell::new(None) };
        let done = work(&values, &mut self.budget());
        done.map_err(|failure| {
            let is_of_value = !matches!(failure.kind, FailureKind::Limit { .. });
            let fault = fault(&failure, state, values.unread.get());
            if is_of_value { self.blamed(fault) } else { fault }
        })
    }

    pub(crate) fn value(&self, state: &State, expression: &Expression) -> Result<Value, Fault> {
        self.spend(state, |scope, budget| expression.value(scope, budget))
    }

    pub(crate) fn text(&self, state: &State, expression: &Expression) -> Result<String, Fault> {
        self.spend(state, |scope, budget| expression.text(scope, budget))
    }

    pub(crate) fn boolean(&self, state: &State, expression: &Expression) -> Result<bool, Fault> {
        self.spend(state, |scope, budget| expression.boolean(scope, budget))
    }

    pub(crate) fn fill(&self, state: &State, template: &Template) -> Result<String, Fault> {
        self.spend(state, |scope, budget| template.fill(scope, budget))
    }
}

/// Returns the fault for a failed expression or template. `unread` is the sender of the unreadable body, if that is not the message's.
fn fault(failure: &Failure, state: &State, unread: Option<Sender>) -> Fault {
    let cause = failure.to_string();
    match &failure.kind {
        FailureKind::MemoryFull => message::no_room(),
        FailureKind::Missing => {
            Fault::with_detail(Kind::Missing, cause, "A required value is missing.")
        }
        FailureKind::Forbidden { .. } | FailureKind::Segment(_) => {
            Fault::new(Kind::Template, cause)
        }
        FailureKind::Malformed(what) => {
            let of_message = || state.message.content().map(|content| content.maker);
            unread.or_else(of_message).unwrap_or(Sender::Flow).malformed(what)
        }
        // Bytes in place of text are their sender's fault.
        FailureKind::NotText => {
            let message = state.message.content().filter(|content| content.is_binary());
            match unread.or(message.map(|content| content.maker)) {
                Some(maker) => maker.malformed(&cause),
                None => Fault::new(Kind::FlowFailed, cause),
            }
        }
        // Too much output is the step's fault, since a step can produce it from any message.
        FailureKind::Limit { name, .. } if *name != "output_bytes_max" => {
            let of_message = || state.message.content().map(|content| content.maker);
            unread.or_else(of_message).unwrap_or(Sender::Flow).costly(&cause)
        }
        FailureKind::Limit { .. }
        | FailureKind::NotJson
        | FailureKind::Type(_)
        | FailureKind::Computation(_)
        | FailureKind::Scope(_)
        | _ => Fault::new(Kind::FlowFailed, cause),
    }
}
