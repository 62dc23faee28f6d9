//! `store`: the message goes into a queue, and the client hears that it is there.

use std::pin::pin;
use std::sync::Arc;

use fault::{Fault, Kind};
use message::{Headers, Protocol, RequestHead};
use queues::Entrance;

use crate::state::{Run, State};
use crate::steps::call::{flow_timeout, within};
use crate::steps::payload;

/// Stores the message as the request that a call would send. Its reply is 202.
pub(crate) async fn store(
    queue: &Arc<Entrance>,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let mut lines = Headers::clone(&state.request_lines);
    state.message.add_lines_of_body(&mut lines);
    let mut head = RequestHead::new(Protocol::Http11, run.head.method(), run.head.target());
    head.headers.add_all(&lines);
    let waiting = state.message.waiting(run);
    let body = state.message.body();
    let stored = async {
        let bytes = body.gather(run.body_bytes_max, Kind::BodyTooLarge).await?;
        drop(waiting);
        queue.put(&head, &bytes).await
    };
    within(state.left(), pin!(stored)).await.unwrap_or_else(|| Err(flow_timeout()))?;
    payload::drop_message(state);
    Ok(())
}
