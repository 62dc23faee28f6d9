//! `throttle`: limits the rate of messages.

use policy::RequestLimit;

use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, waits};

/// The limit, which is that of the policy `rate_limit`.
pub struct Throttle(pub Box<dyn RequestLimit>);

impl Action for Throttle {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { levels: Some(0), ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, _state: &'a mut State) -> StepRun<'a> {
        waits(move || run.limited(&*self.0))
    }
}
