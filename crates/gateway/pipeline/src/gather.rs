//! Reads a whole body for a step that needs all of it. The step may inspect the pieces as they arrive.
//!
//! Owns the loop and its limit. Nothing is forwarded before the end of the body, but an error in its first pieces is reported at once.

use std::future::poll_fn;
use std::pin::pin;

use fault::Fault;
use kit::memory;
use message::{Body, Fill, GatheredBody, no_room, room};
use policy::{Decision, Exchange, Flow, OnBuffered, OnPieces};

use crate::head::Head;

/// Buffers a body and passes it to a step. Whatever the step decides, `body` then has the body, possibly changed. If memory ran out during
/// the step, returns that fault in place of the step's decision.
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
    // The output of a step is usually about as large as its input.
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
    // Most bodies are complete at the first read. Passing them to the step as pieces too would make it inspect them twice.
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
        // Growing doubles the capacity and copies the data.
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

/// Reads more bytes. Adds the time spent waiting to the exchange's total for the sender, which is the client or the upstream. Does not read
/// the clock if bytes are available at once.
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
