//! Tasks that run one exchange after the other, for protocols where an exchange is a separate task.
//!
//! A new task allocates a future of several kilobytes and an entry in the runtime's list, and frees both at its end. A waiting task only
//! has to be woken, and the one whose exchange ended last is used first. This is the counterpart of `exchange_pool` for HTTP/2 streams.

use std::cell::{Cell, OnceCell, RefCell};
use std::future::poll_fn;
use std::rc::{Rc, Weak};
use std::task::{Poll, Waker};
use std::thread::LocalKey;

/// The maximum number of waiting tasks of one kind that a thread keeps: about two megabytes of futures. One round of its loop reads from 64
/// connections, and each may have several requests.
const WAITING_MAX: usize = 512;

/// The input of an exchange. Each implementing type is a kind of exchange with separate tasks.
pub(crate) trait TaskExchange: Sized + 'static {
    /// The tasks of its kind.
    fn pool() -> &'static LocalKey<TaskPool<Self>>;

    fn run(self) -> impl Future<Output = ()>;
}

/// The waiting tasks of one kind. The one whose exchange ended last is at the end. Tasks of a runtime that has ended are removed.
pub(crate) struct TaskPool<E>(RefCell<Vec<Weak<Handover<E>>>>);

impl<E> TaskPool<E> {
    pub(crate) const fn new() -> TaskPool<E> {
        TaskPool(RefCell::new(Vec::new()))
    }

    /// Adds a waiting task. Returns false if there are enough already.
    fn keep(&self, task: &Rc<Handover<E>>, waker: &Waker) -> bool {
        let mut waiting = self.0.borrow_mut();
        let is_kept = waiting.len() < WAITING_MAX;
        if is_kept {
            task.waker.get_or_init(|| waker.clone());
            waiting.push(Rc::downgrade(task));
        }
        is_kept
    }
}

/// Passes an exchange to a task, which then owns it.
struct Handover<E> {
    begun: Cell<Option<E>>,
    /// The waker of the task, once it has waited.
    waker: OnceCell<Waker>,
}

/// Runs an exchange in a task, after the tasks that are ready now.
pub(crate) fn start<E: TaskExchange>(new: E) {
    while let Some(task) = E::pool().with(|pool| pool.0.borrow_mut().pop()) {
        let Some(task) = task.upgrade() else { continue };
        task.begun.set(Some(new));
        task.waker.get().inspect(|waker| waker.wake_by_ref());
        return;
    }
    let task = Handover { begun: Cell::new(Some(new)), waker: OnceCell::new() };
    drop(kit::spawn(work(Rc::new(task))));
}

async fn work<E: TaskExchange>(task: Rc<Handover<E>>) {
    loop {
        // A wake-up for any other reason finds no exchange, and the task waits again.
        let begun = poll_fn(|_| task.begun.take().map_or(Poll::Pending, Poll::Ready));
        begun.await.run().await;
        let keep = |waker: &Waker| E::pool().with(|pool| pool.keep(&task, waker));
        if !poll_fn(|cx| Poll::Ready(keep(cx.waker()))).await {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static TASKS: TaskPool<TestExchange> = const { TaskPool::new() };
        static ENDED: RefCell<Vec<(u32, Option<tokio::task::Id>)>> = const { RefCell::new(Vec::new()) };
    }

    /// Records its number and its task. An exchange with an odd number waits once.
    struct TestExchange(u32);

    impl TaskExchange for TestExchange {
        fn pool() -> &'static LocalKey<TaskPool<TestExchange>> {
            &TASKS
        }

        async fn run(self) {
            if self.0 % 2 == 1 {
                kit::task::yield_to_ready().await;
            }
            ENDED.with_borrow_mut(|ended| ended.push((self.0, tokio::task::try_id())));
        }
    }

    fn run(numbers: &[u32]) -> Vec<(u32, Option<tokio::task::Id>)> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let tasks = tokio::task::LocalSet::new();
        for numbers in numbers.chunks(2) {
            tasks.block_on(&runtime, async {
                numbers.iter().for_each(|number| start(TestExchange(*number)));
                kit::task::yield_to_events().await;
                kit::task::yield_to_events().await;
                kit::task::yield_to_events().await;
            });
        }
        ENDED.take()
    }

    #[test]
    fn a_task_runs_one_exchange_after_another() {
        let ended = run(&[0, 1, 2, 3, 4, 5]);
        assert_eq!(ended.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
        let tasks: std::collections::HashSet<_> = ended.iter().map(|(_, task)| *task).collect();
        assert_eq!(tasks.len(), 2, "{ended:?}");
    }

    #[test]
    fn tasks_of_a_runtime_that_has_ended_get_no_exchange() {
        assert_eq!(run(&[0, 2]).len(), 2);
        assert_eq!(run(&[4, 6]).len(), 2);
    }
}
