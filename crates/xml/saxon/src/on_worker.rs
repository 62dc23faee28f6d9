//! Short transformations, run directly by the worker that has the message. A job in the pool costs two thread switches and four to six
//! system calls, which is more than a small message takes in Saxon.
//!
//! Such a run is bounded: the message is small, its stylesheet is known to be fast, and the keeper stops a run that takes too long. A
//! stopped run is started again in the pool, and its stylesheet is barred from workers for some time.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use kit::{clock, turns};

use crate::engine_thread::{EngineThread, TimeLimit};
use crate::pool::{JavaStylesheet, PoolState};
use crate::transformation::{Message, RunError};

/// Maximum size of a message. Larger ones go to the pool, because a stylesheet that is fast on small messages need not be so on large ones.
const BYTES_MAX: usize = 16 << 10;

/// A run is stopped when it has used this much CPU time since the keeper first saw it, which is after two to four ticks of the keeper.
/// Other requests of this worker have to wait that long.
const BUSY_MAX: Duration = Duration::from_millis(25);

thread_local! {
    /// The attachment of this worker's thread, made on first use and kept until a run fails on it.
    static ATTACHED: RefCell<Option<EngineThread>> = const { RefCell::new(None) };
}

/// Runs the transformation on this thread, if allowed. Returns `None` if it has to go to the pool.
pub(crate) fn run(
    shared: &Arc<PoolState>,
    sheet: &JavaStylesheet,
    message: &Message,
    output_bytes_max: usize,
) -> Option<Result<Vec<u8>, RunError>> {
    if message.len() > BYTES_MAX || !sheet.trust.is_enough() {
        return None;
    }
    let began = clock::now();
    // Java knows only the bounds of the thread's original stack.
    let ended = turns::on_thread_stack(|| here(shared, sheet, message, output_bytes_max));
    let time = began.elapsed();
    sheet.ran(time, time);
    match &ended {
        Some(result) => shared.ran_on_worker(result.is_ok()),
        None => sheet.trust.bar(),
    }
    ended
}

/// Runs the transformation. Returns `None` if it was stopped or ran out of a resource of which the pool has more, or if the JVM failed or
/// the thread cannot be attached to it.
fn here(
    shared: &PoolState,
    sheet: &JavaStylesheet,
    message: &Message,
    output_bytes_max: usize,
) -> Option<Result<Vec<u8>, RunError>> {
    ATTACHED.with_borrow_mut(|engine| {
        if engine.is_none() {
            *engine = Some(shared.attach_worker().ok()?);
        }
        let until = TimeLimit::Busy { max: BUSY_MAX, met: None };
        let ended = engine.as_mut()?.run(sheet.kept()?, message, output_bytes_max, until);
        let usual = matches!(
            ended.result,
            Ok(_) | Err(RunError::Refused(_) | RunError::BadInput(_) | RunError::TooLarge)
        );
        if usual && !ended.stopped {
            return Some(ended.result);
        }
        // Dropping this detaches the thread, and thereby discards an error thrown into it. To the JVM, the next run is on a new thread.
        *engine = None;
        None
    })
}
