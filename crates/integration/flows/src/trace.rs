//! Records the steps of a run for a trace. Without a request for one, none of this runs.

use std::cell::RefCell;
use std::sync::Arc;

use fault::Fault;
use telemetry::trace::{STEPS_MAX, Trace, TraceCandidate, TracedMessage, TracedStep, Tracer, body};

use crate::message::{Message, Payload};
use crate::state::{Run, State};
use crate::step::{Step, StepsEnd, run_all};

/// The record of a run's steps. It is published when the run ends, also if the client has left.
#[derive(Debug)]
pub(crate) struct Recording {
    tracer: Arc<Tracer>,
    trace: RefCell<Trace>,
}

/// The largest body that is read into memory only for a trace: a trace should not change the run.
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

/// Reads a small body of a known length that is not coded.
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
    /// None if no trace was requested.
    pub(crate) fn of(
        tracer: &Arc<Tracer>,
        flow: &str,
        (route, path): (&str, &[u8]),
        request_id: &str,
    ) -> Option<Recording> {
        if !tracer.answers(&TraceCandidate { route, flow: Some(flow), path, request_id }) {
            return None;
        }
        let (route, flow, request_id) = (route.into(), flow.into(), request_id.into());
        let trace = RefCell::new(Trace { route, flow, request_id, ..Trace::default() });
        Some(Recording { tracer: tracer.clone(), trace })
    }

    fn begin(&self, step: &Step, state: &State) -> usize {
        let mut trace = self.trace.borrow_mut();
        let number = trace.steps.len();
        if number >= STEPS_MAX {
            trace.left_out += 1;
            return usize::MAX;
        }
        let (name, label) = (step.name().clone(), step.label().clone());
        let (depth, part, before) = (state.depth, state.part, seen(&state.message));
        trace.steps.push(TracedStep { name, label, depth, part, before, after: None });
        number
    }

    fn end(&self, number: usize, ended: &Result<StepsEnd, Fault>, state: &State) {
        if let Some(step) = self.trace.borrow_mut().steps.get_mut(number) {
            step.after = Some(match ended {
                Ok(_) => Ok(seen(&state.message)),
                Err(fault) => Err(body(fault.to_string().as_bytes()).into()),
            });
        }
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        self.tracer.leave(self.trace.take());
    }
}

fn seen(message: &Message) -> TracedMessage {
    // Harmless: a message may have no type; it is only shown.
    let content_type = String::from_utf8_lossy(message.content_type().unwrap_or_default());
    let content = message.content();
    TracedMessage {
        status: message.status,
        content_type: content_type.into(),
        bytes: content.map(|content| content.bytes.len()),
        // Harmless: a message may have no body.
        body: content.map(|content| body(&content.bytes)).unwrap_or_default().into(),
    }
}
