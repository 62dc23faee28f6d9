//! Queues of calls for a thread: bounded in calls and bytes, and awaited without blocking.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::Error;

/// The maximum number of waiting calls. Each waits for a commit, and a distant server makes about a hundred commits per second, each for a
/// batch of calls.
const WAITING_MAX: usize = 16_384;
/// The maximum number of bytes of waiting calls: two writes of the largest size.
const WAITING_BYTES_MAX: usize = 2 * crate::limits::WRITE_BYTES_MAX;

/// The waiting calls, with their sizes.
#[derive(Debug)]
pub(crate) struct Queue<T> {
    state: Mutex<State<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct State<T> {
    waiting: VecDeque<(T, usize)>,
    bytes: usize,
    closed: bool,
}

impl<T> Queue<T> {
    pub(crate) fn new() -> Queue<T> {
        let state = State { waiting: VecDeque::new(), bytes: 0, closed: false };
        Queue { state: Mutex::new(state), changed: Notify::new() }
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(&self, call: T, bytes: usize) -> Result<(), Error> {
        let mut state = self.state();
        if state.closed {
            return Err(crate::queue::closed());
        }
        if state.waiting.len() >= WAITING_MAX || state.bytes + bytes > WAITING_BYTES_MAX {
            return Err(Error::Busy);
        }
        state.bytes += bytes;
        state.waiting.push_back((call, bytes));
        drop(state);
        self.changed.notify_one();
        Ok(())
    }

    /// Takes waiting calls, up to these bounds, or waits for one. Returns no calls only if the queue is closed and empty.
    pub(crate) async fn take(&self, calls_max: usize, bytes_max: usize) -> Vec<T> {
        loop {
            let (batch, is_closed) = self.take_batch(calls_max, bytes_max);
            if !batch.is_empty() || is_closed {
                return batch;
            }
            self.changed.notified().await;
        }
    }

    /// Takes waiting calls, up to these bounds. The first call is returned whatever its size.
    pub(crate) fn take_now(&self, calls_max: usize, bytes_max: usize) -> Vec<T> {
        self.take_batch(calls_max, bytes_max).0
    }

    /// Takes waiting calls, and returns whether the queue was closed then. If it was and there are no calls, there will be none.
    fn take_batch(&self, calls_max: usize, bytes_max: usize) -> (Vec<T>, bool) {
        let mut state = self.state();
        let mut batch = Vec::new();
        let mut bytes = 0;
        while batch.len() < calls_max && bytes < bytes_max {
            let Some((call, size)) = state.waiting.pop_front() else { break };
            bytes += size;
            batch.push(call);
        }
        state.bytes = state.bytes.saturating_sub(bytes);
        let is_closed = state.closed;
        let more = !state.waiting.is_empty() || is_closed;
        drop(state);
        // One wake-up may stand for several calls, and several tasks may wait for calls.
        if more {
            self.changed.notify_one();
        }
        (batch, is_closed)
    }

    /// Takes calls from the front while a condition holds for them.
    pub(crate) fn take_while(&self, holds: impl Fn(&T) -> bool) -> Vec<T> {
        let mut state = self.state();
        let mut taken = Vec::new();
        while state.waiting.front().is_some_and(|(call, _)| holds(call)) {
            let Some((call, size)) = state.waiting.pop_front() else { break };
            state.bytes = state.bytes.saturating_sub(size);
            taken.push(call);
        }
        taken
    }

    /// Accepts no more calls. Waiting calls are still carried out.
    pub(crate) fn close(&self) {
        self.state().closed = true;
        self.changed.notify_waiters();
        self.changed.notify_one();
    }

    /// Waits until the queue is closed.
    pub(crate) async fn closed(&self) {
        while !self.is_closed() {
            self.changed.notified().await;
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.state().closed
    }
}
