//! Runs deeply recursive work on a separate stack.

use std::thread;

use crate::outcome::ProgramError;

/// Runs work on a thread with a stack of this size. The error means that the work panicked.
pub(crate) fn on_stack<T: Send + 'static>(
    bytes: usize,
    work: impl FnOnce() -> Result<T, ProgramError> + Send + 'static,
) -> thread::Result<Result<T, ProgramError>> {
    match thread::Builder::new().stack_size(bytes).spawn(work) {
        Ok(thread) => thread.join(),
        Err(error) => Ok(Err(ProgramError::whole(format!("no thread to read it: {error}")))),
    }
}
