//! `script`: the message's JSON made anew by a program in jq.

use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use jq::{Program, ProgramFailure};

use crate::content::View;
use crate::state::{Run, State};
use crate::steps::call::{flow_timeout, within};
use crate::steps::payload;

/// The longest run over one message. Its wait for a free process is not included.
const LONGEST: Duration = Duration::from_secs(1);

/// Replaces the message by the program's value. A program without one leaves an empty message.
pub(crate) async fn script(
    program: &Program,
    run: &Run<'_>,
    state: &mut State,
) -> Result<(), Fault> {
    let Some(content) = state.message.content().cloned() else { return Ok(()) };
    let message = match content.known()? {
        View::Json(json) => Bytes::copy_from_slice(json.text().as_bytes()),
        View::Empty => Bytes::new(),
        View::Xml { .. } | View::Text(_) | View::Bytes => {
            return Err(content.malformed("script: the message is not JSON"));
        }
    };
    let left = state.left();
    let failed = |what: &str| Fault::new(Kind::FlowFailed, format!("script: {what}"));
    let value = match within(left, pin!(program.run(&message, LONGEST))).await {
        Some(ran) => ran.map_err(|why| match why {
            ProgramFailure::Crowded => {
                Fault::new(Kind::Busy, format!("script: {why}")).with_header("Retry-After", "1")
            }
            ProgramFailure::Late => failed("it was stopped after 1 s"),
            ProgramFailure::Refused(_)
            | ProgramFailure::Ended
            | ProgramFailure::NotStarted(_)
            | ProgramFailure::TooLarge => failed(&why.to_string()),
        })?,
        None => return Err(flow_timeout()),
    };
    // Harmless: a program without a result makes an empty message.
    let text = Bytes::from(value.unwrap_or_default());
    run.bound(text.len())?;
    state.message.replace(text, payload::JSON.as_bytes());
    Ok(())
}
