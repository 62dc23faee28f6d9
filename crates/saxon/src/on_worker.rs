//! Short transformations, run by the worker that has the message. A job for the pool costs two switches of threads and four to six
//! calls of the system's, which is more than a small message takes in Saxon.
//!
//! A run here is bounded: the message is small, its stylesheet has shown itself to be fast, and the keeper stops what is not.
//! Such a run is begun anew in the pool, which it cannot tell from its first, and its stylesheet stays away from workers for a time.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use kit::clock;

use crate::pool::{Failed, Message, Shared, Sheet};
use crate::seat::{Seated, Until};

/// Larger messages go to the pool: a stylesheet that was fast at small ones need not be so at large ones.
const BYTES_MAX: usize = 16 << 10;

/// A run is stopped when it has had a core for so long since the keeper first met it, which is after two to four of its ticks.
/// Others of this worker wait that long.
const BUSY_MAX: Duration = Duration::from_millis(25);

thread_local! {
    /// This worker's seat, taken when it first needs one and kept until a run fails in it.
    static SEATED: RefCell<Option<Seated>> = const { RefCell::new(None) };
}

/// Runs it on this thread, where it may. Nothing: the pool has to.
pub(crate) fn run(
    shared: &Arc<Shared>,
    sheet: &Sheet,
    message: &Message,
    output_bytes_max: usize,
) -> Option<Result<Vec<u8>, Failed>> {
    if message.len() > BYTES_MAX || !sheet.trust.is_enough() {
        return None;
    }
    let began = clock::now();
    let ended = here(shared, sheet, message, output_bytes_max);
    let time = began.elapsed();
    sheet.ran(time, time);
    match &ended {
        Some(result) => shared.ran_on_worker(result.is_ok()),
        None => sheet.trust.bar(),
    }
    ended
}

/// Nothing: it was stopped, or failed for want of something that the pool has more of.
fn here(
    shared: &Shared,
    sheet: &Sheet,
    message: &Message,
    output_bytes_max: usize,
) -> Option<Result<Vec<u8>, Failed>> {
    SEATED.with_borrow_mut(|seated| {
        if seated.is_none() {
            *seated = Some(shared.seat_worker().ok()?);
        }
        let until = Until::Busy { max: BUSY_MAX, met: None };
        let ended = seated.as_mut()?.run(sheet.kept()?, message, output_bytes_max, until);
        let usual = matches!(
            ended.result,
            Ok(_) | Err(Failed::Refused(_) | Failed::BadInput(_) | Failed::TooLarge)
        );
        if usual && !ended.stopped {
            return Some(ended.result);
        }
        // What was thrown into this thread ends with the machine's idea of it: the next run is another thread's to the machine.
        *seated = None;
        None
    })
}
