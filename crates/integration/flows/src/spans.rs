//! A span for each step of a flow, if the exchange is sampled. Otherwise none of this runs.

use fault::Fault;
use kit::clock;
use policy::OpenSpan;

use crate::state::{Run, State};
use crate::step::{Step, StepsEnd, run_all};
use crate::trace;

/// True if the steps of a run have spans.
pub(crate) fn is_wanted(run: &Run<'_>) -> bool {
    run.ex.trace.as_ref().is_some_and(|trace| trace.has_steps())
}

/// Runs steps one by one, with a span around each.
pub(crate) async fn run(
    steps: &[Step],
    run: &Run<'_>,
    state: &mut State,
) -> Result<StepsEnd, Fault> {
    for step in steps {
        let trace = run.ex.trace.as_ref();
        let parent = state.span;
        let span =
            trace.and_then(|trace| OpenSpan::begin(trace, step.name(), clock::now(), parent));
        if let Some(span) = &span {
            state.span = Some(span.id());
        }
        let one = std::slice::from_ref(step);
        let ended = match &run.recording {
            None => run_all(one, run, state).await,
            Some(recording) => Box::pin(trace::run(recording, one, run, state)).await,
        };
        state.span = parent;
        if let Some(mut span) = span {
            span.add("tidegate.flow.step", &**step.label());
            let failed = ended.as_ref().err();
            failed.into_iter().for_each(|fault| span.add("error.type", fault.kind.label()));
            span.end(failed.map(|fault| &*fault.cause));
        }
        if ended? == StepsEnd::Answered {
            return Ok(StepsEnd::Answered);
        }
    }
    Ok(StepsEnd::Through)
}
