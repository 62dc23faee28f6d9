//! The queue of the engine's thread: bounded in commands and bytes, taken in batches.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::Error;
use crate::command::Command;

/// The number of commands that may wait. Each caller waits for a sync, and a slow disk makes a hundred per second.
const WAITING_MAX: usize = 16_384;
/// The number of bytes that may wait: two writes of the largest size.
const WAITING_BYTES_MAX: usize = 2 * crate::limits::WRITE_BYTES_MAX;
/// The limits of a batch in commands and bytes. Above them, some callers are answered first.
const BATCH_MAX: usize = 4096;
const BATCH_BYTES: usize = 8 << 20;

#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    news: Condvar,
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
        self.news.notify_one();
        Ok(())
    }

    /// Takes waiting commands, or waits for one up to this time.
    pub(crate) fn take(&self, wait: Duration) -> NextWork {
        let state = self.state();
        let waits = |state: &mut State| state.commands.is_empty() && !state.closed;
        let waited = self.news.wait_timeout_while(state, wait, waits);
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
        self.news.notify_all();
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
    Error::Away("it is closed".to_owned())
}
