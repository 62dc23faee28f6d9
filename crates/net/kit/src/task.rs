//! Starts tasks. Tasks of a worker stay on the worker's thread.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Starts a task on this thread's runtime, which is a local one. The task ends with the worker's runtime at the latest.
#[allow(clippy::disallowed_methods, reason = "all other code starts tasks through this function")]
pub fn spawn<F>(future: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future + 'static,
{
    tokio::task::spawn_local(future)
}

/// Runs blocking work, or CPU-bound work of milliseconds, on another thread. Returns `None` if it panicked, or if the runtime shut down
/// before it began. The caller must bound how much of it runs concurrently.
#[allow(
    clippy::disallowed_methods,
    reason = "all other code runs blocking work through this function"
)]
pub async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    // Harmless: the result is documented as `None` for each possible error: a panic and the shutdown of the runtime.
    tokio::task::spawn_blocking(work).await.ok()
}

/// Runs a future and turns a panic inside it into an error with the panic's message.
///
/// After a panic, the future is only dropped, so no broken state is observed.
pub async fn contain<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, String> {
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| Pin::as_mut(&mut future).poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(panic_message(&*panic))),
        }
    })
    .await
}

/// The maximum number of messages that are written together ([`yield_to_ready`]): enough that one wake-up of a peer serves many, and few
/// enough that they stay in the CPU cache from one step to the next.
pub const UNWRITTEN_MAX: usize = 64;

/// A message that this thread has read but not written yet.
pub struct Unwritten(PhantomData<*const ()>);

thread_local!(static UNWRITTEN: Cell<usize> = const { Cell::new(0) });

impl Unwritten {
    #[allow(clippy::new_without_default, reason = "each new value is counted")]
    pub fn new() -> Unwritten {
        UNWRITTEN.set(UNWRITTEN.get() + 1);
        Unwritten(PhantomData)
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        UNWRITTEN.set(UNWRITTEN.get() - 1);
    }
}

/// Returns true while this thread has the maximum number of unwritten messages. A task that could read more then lets the others run first.
pub fn has_read_enough() -> bool {
    UNWRITTEN.get() >= UNWRITTEN_MAX
}

/// Work of a task on this thread that is not a request. A worker that stops waits for it, as for requests.
pub struct SideWork(PhantomData<*const ()>);

thread_local!(static SIDE_WORK: Cell<usize> = const { Cell::new(0) });

impl SideWork {
    /// Begins work, which ends when the returned value is dropped.
    pub fn begin() -> SideWork {
        SIDE_WORK.set(SIDE_WORK.get() + 1);
        SideWork(PhantomData)
    }
}

impl Drop for SideWork {
    fn drop(&mut self) {
        // Harmless: if the thread is ending, the count is no longer needed.
        let _ = SIDE_WORK.try_with(|count| count.set(count.get().saturating_sub(1)));
    }
}

/// Returns true while this thread has side work.
pub fn has_side_work() -> bool {
    SIDE_WORK.get() > 0
}

/// Lets every other task that is ready now run first.
///
/// Tasks await this before they write to a socket, so that all of them read and compute first, and then all write. A write to a sleeping
/// peer wakes it, which takes longer than the write itself. A batch of writes causes one wake-up instead of many. If nothing else is ready,
/// this costs one more poll.
pub async fn yield_to_ready() {
    let mut unwritten = None;
    std::future::poll_fn(|cx| {
        if unwritten.take().is_some() {
            return Poll::Ready(());
        }
        unwritten = Some(Unwritten::new());
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Lets every other task run first, including those woken by new events. Long work that does not wait otherwise awaits this regularly.
pub async fn yield_to_events() {
    tokio::task::yield_now().await;
}

/// Returns false if the runtime's cooperative budget for this poll is used up. In that case, polling a connection returns pending without
/// registering the task for its events.
pub fn has_budget() -> bool {
    tokio::task::coop::has_budget_remaining()
}

fn panic_message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[tokio::test]
    async fn a_task_that_yields_runs_after_the_tasks_that_are_ready() {
        let said = Rc::<RefCell<Vec<&str>>>::default();
        let (late, early) = (said.clone(), said.clone());
        let both = tokio::task::LocalSet::new();
        both.spawn_local(async move {
            late.borrow_mut().push("reads");
            yield_to_ready().await;
            late.borrow_mut().push("writes");
        });
        both.spawn_local(async move { early.borrow_mut().push("reads too") });
        both.await;
        assert_eq!(*said.borrow(), ["reads", "reads too", "writes"]);
    }

    #[test]
    fn a_thread_has_read_enough_at_the_maximum_of_unwritten_messages() {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut waiting: Vec<_> = (1..UNWRITTEN_MAX).map(|_| Box::pin(yield_to_ready())).collect();
        assert!(waiting.iter_mut().all(|task| task.as_mut().poll(&mut cx).is_pending()));
        let read = Unwritten::new();
        assert!(has_read_enough());
        drop(read);
        assert!(!has_read_enough());
        // One is written; the client of another has disconnected.
        assert!(waiting.remove(0).as_mut().poll(&mut cx).is_ready());
        drop(waiting.pop());
        let read: Vec<_> = (0..3).map(|_| Unwritten::new()).collect();
        assert!(has_read_enough());
        drop((waiting, read));
        assert_eq!(UNWRITTEN.get(), 0);
    }
}
