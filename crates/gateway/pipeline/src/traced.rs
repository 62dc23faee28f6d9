//! Records what each policy did with one message, for an operator who requested it. Without a request none of this
//! runs.

use fault::Fault;
use message::Body;
use plan::Route;
use policy::{Exchange, Flow, MessageBefore, Onward, Step, TracedHead, bytes_in_memory};
use telemetry::trace::{PolicyTrace, TracedPolicy};

use crate::head::Head;
use crate::step;

/// The maximum size of a body that is buffered for a trace. Larger bodies are streamed as usual, so that a trace does not change how they
/// are forwarded.
const HELD_BYTES_MAX: u64 = 64 * 1024;

/// True if the policies of this exchange are traced.
pub(crate) fn is_asked(ex: &Exchange) -> bool {
    ex.notes.as_ref().is_some_and(|notes| notes.policies.is_some())
}

/// Runs the step of the policy at `depth`, and notes what it did.
pub(crate) async fn run<H: Head + TracedHead>(
    route: &Route,
    depth: usize,
    step: &Step<H>,
    ex: &mut Exchange,
    head: &mut H,
    body: &mut Body,
) -> Flow {
    let (name, place) = name_and_place(route, depth);
    hold::<H>(body).await?;
    let before = MessageBefore::of(ex, head, bytes_in_memory(body));
    let mut is_transformed = false;
    let flow = match step {
        Step::Streamed(step) => step::stream(&**step, ex, head, body).map(|is| {
            is_transformed = is;
            Onward::Next
        }),
        Step::Head(_) | Step::Call(_) | Step::Buffered(_) => {
            step::run(name, step, ex, head, body).await
        }
    };
    let mut traced = before.after(name, place, ex, head, bytes_in_memory(body), &flow);
    if is_transformed {
        traced.verdict = "passes, and may change the body as it is forwarded".into();
    }
    note(ex, H::IS_REPLY, traced);
    flow
}

/// Records the policies below the one that answered.
pub(crate) fn not_reached(route: &Route, depth: usize, ex: &mut Exchange) {
    for below in depth + 1..route.policies.len() {
        let has_step = route.policies.get(below).is_some_and(|policy| policy.request.is_some());
        if !has_step {
            continue;
        }
        let (name, place) = name_and_place(route, below);
        let (verdict, changes, body) = ("not reached".into(), Vec::new(), None);
        note(ex, false, TracedPolicy { name, place: place.into(), verdict, changes, body });
    }
}

/// The trace of an exchange that has ended, if it has one.
pub(crate) fn finished(route: Option<&Route>, ex: &mut Exchange) -> Option<PolicyTrace> {
    let mut trace = *ex.notes.as_mut()?.policies.take()?;
    trace.route = route.map_or("", |route| &route.name).into();
    let told = |fault: &Fault| {
        format!("{} {}: {}", fault.status(), fault.kind.label(), fault.cause).into()
    };
    trace.fault = ex.fault.as_ref().map(told);
    Some(trace)
}

fn name_and_place(route: &Route, depth: usize) -> (&'static str, &str) {
    let name = route.policies.get(depth).map_or("", |policy| policy.name);
    (name, route.places.get(depth).map_or("", |place| place))
}

fn note(ex: &mut Exchange, is_reply: bool, traced: TracedPolicy) {
    let trace = ex.notes.as_mut().and_then(|notes| notes.policies.as_mut());
    if let Some(trace) = trace {
        let list = if is_reply { &mut trace.up } else { &mut trace.down };
        list.push(traced);
    }
}

/// Reads a small body of a known length.
async fn hold<H: Head>(body: &mut Body) -> Result<(), Fault> {
    let is_small = body.remaining().is_some_and(|bytes| bytes <= HELD_BYTES_MAX);
    if matches!(body, Body::Stream(_)) && is_small {
        let bytes_max = usize::try_from(HELD_BYTES_MAX).unwrap_or(usize::MAX);
        *body = Body::gathered(std::mem::take(body).gather_all(bytes_max, H::TOO_LARGE).await?);
    }
    Ok(())
}
