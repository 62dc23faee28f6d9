//! Runs steps, with spans and a trace if they were requested.

use fault::Fault;
use kit::LocalBoxFuture;

use crate::state::{Run, State};
use crate::step::{Step, StepsEnd, run_all};
use crate::{spans, trace};

/// Runs steps until one answers or fails. Boxed, since steps may hold steps.
pub(crate) fn run_steps<'a>(
    steps: &'a [Step],
    run: &'a Run<'a>,
    state: &'a mut State,
) -> LocalBoxFuture<'a, Result<StepsEnd, Fault>> {
    match &run.recording {
        _ if spans::is_wanted(run) => Box::pin(spans::run(steps, run, state)),
        None => run_all(steps, run, state),
        Some(recording) => Box::pin(trace::run(recording, steps, run, state)),
    }
}
