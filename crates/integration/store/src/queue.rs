//! The queue of the engine's thread: bounded in commands and bytes, taken in batches.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::command::Command;

/// The maximum number of waiting commands. Each waits for a sync, and a slow disk makes about a hundred syncs per second, each for a batch
/// of commands.
const WAITING_MAX: usize = 16_384;
/// The maximum number of bytes of waiting commands: two writes of the largest size.
const WAITING_BYTES_MAX: usize = 2 * crate::limits::WRITE_BYTES_MAX;
/// The maximum number of commands in a batch. The callers of one batch are answered before the next batch starts.
const BATCH_MAX: usize = 4096;
/// The size from which a batch takes no further command.
const BATCH_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    commands: VecDeque<Command>,
    bytes: usize,
    closed: bool,
}

/// The next work of the engine's thread.
pub(crate) enum NextWork {
    Batch(Vec<Command>),
    Nothing,
    Closed,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, command: Command) -> Result<(), Error> {
        let bytes = command.bytes();
        let mut state = self.state();
        if state.closed {
            return Err(closed());
        }
        if state.commands.len() >= WAITING_MAX || state.bytes + bytes > WAITING_BYTES_MAX {
            return Err(Error::Busy);
        }
        state.bytes += bytes;
        state.commands.push_back(command);
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes waiting commands, or waits for one up to this time.
    pub(crate) fn take(&self, wait: Duration) -> NextWork {
        let state = self.state();
        let waits = |state: &mut State| state.commands.is_empty() && !state.closed;
        let waited = self.changed.wait_timeout_while(state, wait, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < BATCH_MAX && bytes < BATCH_BYTES {
            let Some(command) = state.commands.pop_front() else { break };
            bytes += command.bytes();
            batch.push(command);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        match (batch.is_empty(), state.closed) {
            (false, _) => NextWork::Batch(batch),
            (true, true) => NextWork::Closed,
            (true, false) => NextWork::Nothing,
        }
    }

    /// Accepts no more commands. Waiting ones are still carried out.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_all();
    }

    /// Accepts no more commands, and drops waiting ones.
    pub(crate) fn abandon(&self) {
        let mut state = self.state();
        state.closed = true;
        state.commands.clear();
        state.bytes = 0;
    }
}

pub(crate) fn closed() -> Error {
    Error::Unavailable("it is closed".to_owned())
}
