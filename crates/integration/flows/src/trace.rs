//! Records the steps of a run for a trace. None of this runs without a requested trace.

use fault::Fault;
use telemetry::trace::{STEPS_MAX, TracedMessage, TracedStep, body};

use crate::message::{Message, Payload};
use crate::recording::Recording;
use crate::state::{Run, State};
use crate::step::{Step, StepsEnd, run_all};

/// Maximum size of a body that is read into memory only for a trace. Larger bodies are not read, so that a trace hardly changes the run.
const HELD_BYTES_MAX: u64 = 64 * 1024;

/// Runs steps one by one, and records the message before and after each.
pub(crate) async fn run(
    recording: &Recording,
    steps: &[Step],
    run: &Run<'_>,
    state: &mut State,
) -> Result<StepsEnd, Fault> {
    for step in steps {
        hold(state, run).await?;
        let number = recording.begin(step, state);
        state.depth = state.depth.saturating_add(1);
        let mut ended = run_all(std::slice::from_ref(step), run, state).await;
        state.depth = state.depth.saturating_sub(1);
        if let Err(fault) = hold(state, run).await {
            ended = ended.and(Err(fault));
        }
        recording.end(number, &ended, state);
        if ended? == StepsEnd::Answered {
            return Ok(StepsEnd::Answered);
        }
    }
    Ok(StepsEnd::Through)
}

/// Reads the message's body into memory if it is small, its length is known, and it has no content coding.
async fn hold(state: &mut State, run: &Run<'_>) -> Result<(), Fault> {
    let Payload::Stream { body, .. } = &state.message.payload else { return Ok(()) };
    let small = body.remaining().is_some_and(|bytes| bytes <= HELD_BYTES_MAX);
    if small && state.message.lines.get("content-encoding").is_none() {
        state.hold(run).await
    } else {
        Ok(())
    }
}

impl Recording {
    fn begin(&self, step: &Step, state: &State) -> usize {
        let mut trace = self.trace.borrow_mut();
        let number = trace.steps.len();
        if number >= STEPS_MAX {
            trace.left_out += 1;
            return usize::MAX;
        }
        let (name, label) = (step.name().clone(), step.label().clone());
        let (depth, part, before) = (state.depth, state.part, traced(&state.message));
        trace.steps.push(TracedStep { name, label, depth, part, before, after: None });
        number
    }

    fn end(&self, number: usize, ended: &Result<StepsEnd, Fault>, state: &State) {
        if let Some(step) = self.trace.borrow_mut().steps.get_mut(number) {
            step.after = Some(match ended {
                Ok(_) => Ok(traced(&state.message)),
                Err(fault) => Err(body(fault.to_string().as_bytes()).into()),
            });
        }
    }
}

fn traced(message: &Message) -> TracedMessage {
    // Harmless: the content type is only shown. A message may have none.
    let content_type = String::from_utf8_lossy(message.content_type().unwrap_or_default());
    let content = message.content();
    TracedMessage {
        status: message.status,
        content_type: content_type.into(),
        bytes: content.map(|content| content.bytes.len()),
        // Harmless: a message without a body is shown with an empty one.
        body: content.map(|content| body(&content.bytes)).unwrap_or_default().into(),
    }
}
