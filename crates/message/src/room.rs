//! The bound on the memory of the process, for exchanges.

use fault::{Fault, Kind};
use kit::memory;

/// The seconds after which a client is asked to try again: most exchanges are over by then.
const RETRY_AFTER: &str = "1";

/// Fails if so many bytes more are over `limits.memory`.
#[inline]
pub fn room(bytes: usize) -> Result<(), Fault> {
    if memory::has_room(bytes) { Ok(()) } else { Err(no_room()) }
}

/// The fault of an exchange for which there is no memory.
#[cold]
pub fn no_room() -> Fault {
    let (used, limit) = (memory::used() >> 20, memory::limit().unwrap_or(0) >> 20);
    let cause =
        format!("no memory is left: {used} MiB are in use, and `limits.memory` is {limit} MiB");
    Fault::new(Kind::MemoryFull, cause).with_header("Retry-After", RETRY_AFTER)
}
