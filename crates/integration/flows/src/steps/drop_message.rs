//! `drop`: the flow ends without a body.

use message::Headers;
use policy::Decision;

use crate::levels::{ActionNeeds, Levels};
use crate::message::Payload;
use crate::state::{Run, State};
use crate::step::{Action, Step, StepRun, StepsEnd};

/// Ends the flow with 202.
pub struct DropMessage;

impl Action for DropMessage {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { levels: Some(0), uses_message: Some(false), ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, _run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        drop_message(state);
        Decision::Ready(Ok(StepsEnd::Answered))
    }
}

/// 202 without a body.
pub(crate) fn drop_message(state: &mut State) {
    state.message.lines = Headers::new();
    state.message.status = Some(202);
    state.message.payload = Payload::empty();
}
