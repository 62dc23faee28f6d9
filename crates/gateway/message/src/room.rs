//! Checks the process's memory limit for exchanges.

use fault::{Fault, Kind};
use kit::memory;

/// The number of seconds after which a client is asked to retry. Most exchanges are finished by then.
const RETRY_AFTER: &str = "1";

/// Fails if allocating `bytes` more would exceed `limits.memory`.
#[inline]
pub fn room(bytes: usize) -> Result<(), Fault> {
    if memory::has_room(bytes) { Ok(()) } else { Err(no_room()) }
}

/// Returns the fault of an exchange that would exceed the limit.
#[cold]
pub fn no_room() -> Fault {
    let (used, limit) = (memory::used() >> 20, memory::limit().unwrap_or(0) >> 20);
    let cause =
        format!("no memory is left: {used} MiB are in use, and `limits.memory` is {limit} MiB");
    Fault::new(Kind::MemoryFull, cause).with_header("Retry-After", RETRY_AFTER)
}
