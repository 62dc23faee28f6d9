//! What both sides of a handover of the store share: the time that a call waits, and the error of a refused call.

use std::time::Duration;

use kit::clock;

use crate::Error;

/// The maximum time that a call waits while the store moves to another process.
pub(crate) const HANDOVER_MAX: Duration = Duration::from_secs(5);
/// The interval at which [`wait_for`] checks its condition.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// The error of a call that is refused because no process serves the store.
pub(crate) fn moving() -> Error {
    Error::Unavailable("it is moving to another process".to_owned())
}

/// Waits until a condition holds, for `limit` at most. Returns whether it holds. This blocks.
pub(crate) fn wait_for(limit: Duration, holds: impl Fn() -> bool) -> bool {
    let until = clock::now() + limit;
    while !holds() {
        if clock::now() >= until {
            return false;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    true
}
