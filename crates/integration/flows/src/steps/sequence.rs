//! `sequence`: the steps of another flow.

use std::sync::Arc;

use policy::Decision;

use crate::block::Block;
use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State};
use crate::step::{Action, Shape, Step, StepRun, Steps};

/// The steps of another flow, with its `catch` and its own timeout.
pub struct Sequence(pub Arc<Block>);

impl Action for Sequence {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        ActionNeeds { levels: Some(0), ..ActionNeeds::default() }
    }

    fn inner(&self) -> Vec<&Steps> {
        self.0.lists().collect()
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        Decision::Waits(Box::pin(self.0.run(self.0.timeout(), run, state)))
    }

    fn shape(&self) -> Shape<'_> {
        Shape::Sequence
    }
}
