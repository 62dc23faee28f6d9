//! Reads a body into one piece for a step that needs all of it. The step may look at the pieces on the way.
//!
//! Owns the loop and its bound. Nothing is sent on before the end, but a mistake at the beginning is reported at once.

use std::future::poll_fn;
use std::pin::pin;

use fault::Fault;
use kit::memory;
use message::{Body, Fill, GatheredBody, no_room, room};
use policy::{Decision, Exchange, Flow, OnBuffered, OnPieces};

use crate::steps::Head;

/// Gathers a body and gives it to a step. Afterwards the possibly changed body is in `body`, whatever the step decides. A step that found
/// no memory has failed for that reason, whatever it made of it.
pub(crate) async fn buffered<H: Head>(
    step: &dyn OnBuffered<H>,
    ex: &mut Exchange,
    head: &mut H,
    body: &mut Body,
) -> Flow {
    match memory::watch(pin!(gathered(step, ex, head, body))).await {
        (flow, false) => flow,
        (_, true) => Err(no_room()),
    }
}

async fn gathered<H: Head>(
    step: &dyn OnBuffered<H>,
    ex: &mut Exchange,
    head: &mut H,
    body: &mut Body,
) -> Flow {
    let bytes_max = step.bytes_max();
    let taken = std::mem::take(body);
    let (mut gathered, pieces) = match taken {
        Body::Stream(_) => in_pieces(step, ex, head, taken).await?,
        at_hand @ (Body::Empty | Body::Whole(..)) => {
            (at_hand.gather_all(bytes_max, H::TOO_LARGE).await?, None)
        }
    };
    // What a step makes of a message is mostly about as large.
    room(gathered.bytes.len())?;
    let flow = match pieces {
        Some(mut pieces) => pieces.on_end(ex, head, &mut gathered),
        None => match step.on_buffered(ex, head, &mut gathered) {
            Decision::Ready(flow) => flow,
            Decision::Waits(flow) => flow.await,
        },
    };
    *body = Body::gathered(gathered);
    flow
}

type PiecesOutcome<H> = (GatheredBody, Option<Box<dyn OnPieces<H>>>);

async fn in_pieces<H: Head>(
    step: &dyn OnBuffered<H>,
    ex: &mut Exchange,
    head: &H,
    mut body: Body,
) -> Result<PiecesOutcome<H>, Fault> {
    let bytes_max = step.bytes_max();
    let over = || Fault::new(H::TOO_LARGE, format!("the body is over {bytes_max} bytes"));
    if body.remaining().is_some_and(|n| n > u64::try_from(bytes_max).unwrap_or(u64::MAX)) {
        return Err(over());
    }
    let mut bytes = Vec::new();
    // Most bodies are complete at once. They are not shown to the step as pieces, which would be looking at them twice.
    let mut pieces: Option<Box<dyn OnPieces<H>>> = None;
    let mut looked = 0;
    loop {
        let fill = fill::<H>(ex, &mut body, &mut bytes).await?;
        if bytes.len() > bytes_max {
            return Err(over());
        }
        if fill == Fill::End && looked == 0 {
            break;
        }
        // It grows to twice its size, and is moved.
        room(bytes.len())?;
        if looked == 0 && !bytes.is_empty() {
            pieces = step.on_pieces(ex, head);
        }
        if let Some(pieces) = &mut pieces {
            pieces.on_piece(ex, head, &bytes, looked)?;
        }
        looked = bytes.len();
        if fill == Fill::End {
            break;
        }
    }
    Ok((GatheredBody::new(bytes.into(), body.trailers()), pieces))
}

/// The next bytes. The time until they come counts for their sender. If they are there already, no clock is read.
async fn fill<H: Head>(ex: &Exchange, body: &mut Body, bytes: &mut Vec<u8>) -> Result<Fill, Fault> {
    let mut waiting = None;
    let filled = poll_fn(|cx| {
        let filled = body.poll_fill(cx, bytes);
        if filled.is_pending() {
            waiting.get_or_insert_with(|| H::wait(ex).begin());
        }
        filled
    });
    filled.await
}
