//! `switch`: the steps of the first case that fits.

use expression::Expression;
use policy::Decision;
use regex::Regex;

use crate::levels::{ActionNeeds, Levels};
use crate::run_steps::run_steps;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, Steps};

/// Cases of a value.
pub struct Switch {
    pub on: Expression,
    pub cases: Vec<(Test, Steps)>,
    pub default: Steps,
}

/// The test of a case.
pub enum Test {
    Equals(Box<str>),
    Matches(Regex),
}

impl Action for Switch {
    fn needs(&self, levels: &Levels<'_>) -> ActionNeeds {
        let levels = levels.read(&self.on);
        ActionNeeds { slots: self.on.slots(), levels, ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        self.cases.iter().map(|(_, steps)| steps).chain([&self.default]).collect()
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        let text = match run.text(state, &self.on) {
            Ok(text) => text,
            Err(fault) => return Decision::Ready(Err(fault)),
        };
        let case = self.cases.iter().find(|(test, _)| test.fits(&text));
        let steps = case.map_or(&self.default, |(_, steps)| steps);
        Decision::Waits(run_steps(steps, run, state))
    }
}

impl Test {
    fn fits(&self, text: &str) -> bool {
        match self {
            Test::Equals(equal) => **equal == *text,
            Test::Matches(regex) => regex.is_match(text),
        }
    }
}
