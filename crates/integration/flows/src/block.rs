//! The steps of a flow, and the steps of its `catch`.

use std::time::Duration;

use fault::Fault;
use kit::clock::{self, Instant};

use crate::levels::Needs;
use crate::run_steps::run_steps;
use crate::state::{Run, State};
use crate::step::{Step, Steps, StepsEnd};

/// A list of steps, and the steps of its `catch`, which run after a fault that no inner step caught.
pub struct Block {
    steps: Steps,
    catch: Option<Steps>,
    /// True if the steps of `catch` use the message as it was at the time of the fault.
    keeps: bool,
    needs: Needs,
    /// The timeout of its flow, if one is configured. It starts anew for the steps of `catch`.
    timeout: Option<Duration>,
}

impl Block {
    pub fn new(steps: Steps, catch: Option<Steps>, timeout: Option<Duration>) -> Block {
        let keeps = catch.as_deref().is_some_and(use_message);
        let all = steps.iter().chain(catch.iter().flat_map(|steps| steps.iter()));
        let needs = Needs::NOTHING.with(all.map(Step::needs));
        Block { steps, catch, keeps, needs, timeout }
    }

    pub(crate) fn needs(&self) -> Needs {
        self.needs
    }

    /// The timeout of its flow, if one is configured.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Returns the list of steps, and that of `catch` if there is one.
    pub(crate) fn lists(&self) -> impl Iterator<Item = &Steps> {
        [&self.steps].into_iter().chain(&self.catch)
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Returns the labels of its steps and of the steps inside them, in the order of the configuration.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let mut all = Vec::new();
        let steps = self.lists().flat_map(|steps| steps.iter());
        steps.for_each(|step| step.labels(&mut all));
        all
    }

    pub(crate) fn has_catch(&self) -> bool {
        self.catch.is_some()
    }

    /// Runs the steps. If they fail, runs the steps of `catch` and returns their result. Each list has `timeout`, but not beyond the
    /// deadline of the run. Steps that wait longer fail.
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
            Ok(()) => run_steps(&self.steps, run, state).await,
            Err(fault) => Err(fault),
        };
        state.keeps = outer;
        if let (Err(fault), Some(catch)) = (&ended, &self.catch) {
            state.deadline = deadline(timeout, whole);
            let outer = state.caught.replace(fault.clone().into());
            run.failed.take();
            ended = run_steps(catch, run, state).await;
            state.caught = outer;
        }
        state.deadline = whole;
        ended
    }
}

/// Returns the deadline of a timeout that starts now, or that of the whole run if it is earlier.
fn deadline(timeout: Option<Duration>, whole: Instant) -> Instant {
    let own = timeout.and_then(|timeout| clock::now().checked_add(timeout));
    own.map_or(whole, |own| own.min(whole))
}

/// Returns true if the steps use the message that they start with. If no step decides this, the message is their result, which counts as
/// use.
fn use_message(steps: &[Step]) -> bool {
    steps.iter().find_map(Step::uses_message).unwrap_or(true)
}
