//! The steps of a flow, and those of its `catch`.

use std::time::Duration;

use fault::Fault;
use kit::clock::{self, Instant};

use crate::levels::Needs;
use crate::state::{Run, State};
use crate::step::{self, Step, Steps, StepsEnd};

/// Steps, and those of `catch`, for a fault that no inner step caught.
pub struct Block {
    steps: Steps,
    catch: Option<Steps>,
    /// The steps of `catch` use the message at the time of the fault.
    keeps: bool,
    needs: Needs,
    /// The timeout of its steps, and of those of `catch`, if its flow has one.
    timeout: Option<Duration>,
}

impl Block {
    pub fn new(steps: Steps, catch: Option<Steps>, timeout: Option<Duration>) -> Block {
        let keeps = catch.as_deref().is_some_and(use_message);
        let all = steps.iter().chain(catch.iter().flat_map(|steps| steps.iter()));
        let needs = Needs::NOTHING.with(all);
        Block { steps, catch, keeps, needs, timeout }
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// The timeout of its flow, if one is configured.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Its steps, and those for a fault.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Steps> {
        [&self.steps].into_iter().chain(&self.catch)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The labels of its steps and of those inside them, in the order written.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let mut all = Vec::new();
        let steps = self.lists().flat_map(|steps| steps.iter());
        steps.for_each(|step| step.labels(&mut all));
        all
    }

    pub(crate) fn has_catch(&self) -> bool {
        self.catch.is_some()
    }

    /// Runs the steps. A fault that no inner step caught goes to `catch`, whose end is the block's. Each has the time of `timeout`, within
    /// the deadline of the run; steps that wait longer fail.
    pub(crate) async fn run(
        &self,
        timeout: Option<Duration>,
        run: &Run<'_>,
        state: &mut State,
    ) -> Result<StepsEnd, Fault> {
        let whole = state.deadline;
        let outer = state.keeps;
        state.keeps |= self.keeps;
        state.deadline = deadline(timeout, whole);
        let mut ended = match run.keep_request(state).await {
            Ok(()) => step::run(&self.steps, run, state).await,
            Err(fault) => Err(fault),
        };
        state.keeps = outer;
        if let (Err(fault), Some(catch)) = (&ended, &self.catch) {
            state.deadline = deadline(timeout, whole);
            let outer = state.caught.replace(fault.clone().into());
            run.failed.take();
            ended = step::run(catch, run, state).await;
            state.caught = outer;
        }
        state.deadline = whole;
        ended
    }
}

/// The deadline of a timeout that starts now, within that of the whole run.
fn deadline(timeout: Option<Duration>, whole: Instant) -> Instant {
    let own = timeout.and_then(|timeout| clock::now().checked_add(timeout));
    own.map_or(whole, |own| own.min(whole))
}

/// True if steps use the message that they start with, or end with it.
fn use_message(steps: &[Step]) -> bool {
    steps.iter().find_map(Step::uses_message).unwrap_or(true)
}
