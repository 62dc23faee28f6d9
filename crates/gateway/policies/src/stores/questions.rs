//! Questions to a store that wait for the next call. Those that wait at the same time share a call.

use std::collections::VecDeque;
use std::iter::from_fn;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};

use super::StoreConnection;

/// The questions that wait. Each has the answer `A`.
pub(crate) struct QuestionQueue<Q, A> {
    waiting: Mutex<VecDeque<WaitingQuestion<Q, A>>>,
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
            waiting.push_back(WaitingQuestion { question, answer });
        }
        self.bell.notify_one();
        // Harmless: without an answer, the local counts decide. The deadline covers one call in progress and the next one.
        tokio::time::timeout(2 * connection.store.timeout, answered).await.ok()?.ok()
    }

    /// Takes the oldest questions, at most `max`. Those that nobody waits for any more are dropped and do not count.
    pub(crate) fn take(&self, max: usize) -> Vec<WaitingQuestion<Q, A>> {
        let mut waiting = self.waiting();
        // Harmless: further questions wait for the next call.
        from_fn(|| waiting.pop_front()).filter(|ask| !ask.answer.is_closed()).take(max).collect()
    }

    fn waiting(&self) -> MutexGuard<'_, VecDeque<WaitingQuestion<Q, A>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn abandoned_questions_do_not_delay_others() {
        let queue = QuestionQueue::<u32, ()>::default();
        let ask = |question| {
            let (answer, answered) = oneshot::channel();
            queue.waiting().push_back(WaitingQuestion { question, answer });
            answered
        };
        drop((ask(1), ask(2)));
        let _waits = (ask(3), ask(4));
        let taken =
            |max| queue.take(max).into_iter().map(|asked| asked.question).collect::<Vec<_>>();
        assert_eq!(taken(1), [3]);
        assert_eq!(taken(9), [4]);
        assert!(taken(9).is_empty());
    }
}
