//! Questions to a store that wait for the next call. Those that wait at the same time share a call.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::StoreConnection;

/// The questions that wait. Each has the answer `A`.
pub(crate) struct QuestionQueue<Q, A> {
    waiting: Mutex<Vec<WaitingQuestion<Q, A>>>,
    /// Notified when a question is added.
    pub(super) bell: Notify,
}

/// A question, and the place for its answer.
pub(crate) struct WaitingQuestion<Q, A> {
    pub(crate) question: Q,
    pub(crate) answer: oneshot::Sender<A>,
}

/// The maximum number of waiting questions. Further ones get no answer.
const WAITING_MAX: usize = 10_000;

impl<Q, A> Default for QuestionQueue<Q, A> {
    fn default() -> QuestionQueue<Q, A> {
        QuestionQueue { waiting: Mutex::default(), bell: Notify::new() }
    }
}

impl<Q, A> QuestionQueue<Q, A> {
    /// Waits for the answer. Returns `None` if there is none in time, or if too many questions wait.
    pub(crate) async fn ask(&self, connection: &StoreConnection, question: Q) -> Option<A> {
        let (answer, answered) = oneshot::channel();
        {
            let mut waiting = self.waiting();
            if waiting.len() >= WAITING_MAX {
                return None;
            }
            waiting.push(WaitingQuestion { question, answer });
        }
        self.bell.notify_one();
        // Harmless: without an answer, the local counts decide. The deadline covers one call in progress and the next one.
        tokio::time::timeout(2 * connection.store.timeout, answered).await.ok()?.ok()
    }

    /// Takes at most `max` questions, without those that nobody waits for any more.
    pub(crate) fn take(&self, max: usize) -> Vec<WaitingQuestion<Q, A>> {
        let mut waiting = self.waiting();
        let count = waiting.len().min(max);
        waiting.drain(..count).filter(|ask| !ask.answer.is_closed()).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, Vec<WaitingQuestion<Q, A>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
