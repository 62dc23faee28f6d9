//! `filter`: runs one of two lists of steps.

use expression::Expression;
use fault::Fault;
use policy::Decision;
use regex::Regex;

use crate::levels::{ActionNeeds, Levels};
use crate::run_steps::run_steps;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, Steps};

/// The steps for a condition that holds, and those for one that does not.
pub struct Alternatives {
    pub when: Condition,
    pub then: Steps,
    pub otherwise: Steps,
}

/// A condition.
pub struct Condition {
    pub value: Expression,
    /// The pattern to find in the text of the value. If absent, the value is converted to a boolean.
    pub matches: Option<Regex>,
}

impl Action for Alternatives {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        let value = &self.when.value;
        let levels = match self.when.matches {
            // A set of nodes is true unless it is empty. The contents do not matter.
            None => value.levels().or_else(|| levels.read(value)),
            Some(_) => levels.read(value),
        };
        ActionNeeds { slots: value.slots(), levels, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        vec![&self.then, &self.otherwise]
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        match holds(&self.when, run, state) {
            Ok(true) => Decision::Waits(run_steps(&self.then, run, state)),
            Ok(false) => Decision::Waits(run_steps(&self.otherwise, run, state)),
            Err(fault) => Decision::Ready(Err(fault)),
        }
    }
}

fn holds(condition: &Condition, run: &Run<'_>, state: &State) -> Result<bool, Fault> {
    match &condition.matches {
        None => run.boolean(state, &condition.value),
        Some(regex) => Ok(regex.is_match(&run.text(state, &condition.value)?)),
    }
}
