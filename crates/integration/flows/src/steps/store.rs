//! `store`: puts the message into a queue.

use std::pin::pin;
use std::sync::Arc;

use expression::{JsonNodes, Value};
use fault::{Fault, Kind};
use message::{Headers, Protocol, RequestHead};
use policy::Decision;
use queues::Entrance;

use crate::levels::{ActionNeeds, Levels};
use crate::state::{Run, State, Variable};
use crate::step::{Action, Step, StepRun, StepsEnd};
use crate::steps::drop_message::drop_message;
use crate::timeout::{flow_timeout, within};
use crate::view::read_json;

/// Puts messages into a queue.
pub struct Store {
    pub queue: Arc<Entrance>,
    /// True if the flow ends with 202. Otherwise it continues with the unchanged message.
    pub end: bool,
    /// The number of the variable that takes the message's number in the queue.
    pub into: Option<u32>,
}

impl Action for Store {
    fn needs(&self, _levels: &Levels<'_>) -> ActionNeeds {
        let (content, uses_message) = (!self.end, Some(true));
        ActionNeeds { content, uses_message, levels: Some(0), ..ActionNeeds::default() }
    }

    fn run<'a>(&'a self, _step: &'a Step, run: &'a Run<'a>, state: &'a mut State) -> StepRun<'a> {
        Decision::Waits(Box::pin(store(self, run, state)))
    }
}

/// Stores the message as the request that a call would send.
async fn store(made: &Store, run: &Run<'_>, state: &mut State) -> Result<StepsEnd, Fault> {
    let mut lines = Headers::new();
    state.add_request_lines(run.head.method(), run, &mut lines);
    state.message.add_lines_of_body(&mut lines);
    let mut head = RequestHead::new(Protocol::Http11, run.head.method(), run.head.target());
    head.headers.add_all(&lines);
    if let Some(trace) = &run.ex.trace {
        trace.note_in(&mut head.headers);
    }
    let waiting = state.message.waiting(run);
    let body = state.message.body();
    let stored = async {
        let bytes = body.gather(run.body_bytes_max, Kind::BodyTooLarge).await?;
        drop(waiting);
        made.queue.put(&head, &bytes).await
    };
    let stored = within(state.left(), pin!(stored)).await;
    let number = stored.unwrap_or_else(|| Err(flow_timeout()))?;
    if let Some(variable) = made.into {
        let entry = read_json(&format!("{{\"id\":{number}}}"), false);
        let entry = entry.map_err(|what| Fault::new(Kind::Internal, what))?;
        state.set(variable, Variable::Value(Value::Json(JsonNodes::root(entry))));
    }
    if !made.end {
        return Ok(StepsEnd::Through);
    }
    drop_message(state);
    Ok(StepsEnd::Answered)
}
