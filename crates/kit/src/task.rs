//! Starting tasks. Tasks of a worker stay on the worker's thread.

use std::any::Any;
use std::cell::Cell;
use std::future::Future;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

/// Starts a task on this thread's runtime, which is a local one. The task ends with the worker's runtime at the latest.
#[allow(clippy::disallowed_methods, reason = "this is the one place")]
pub fn spawn<F>(future: F) -> tokio::task::JoinHandle<F::Output>
where
    F: Future + 'static,
{
    tokio::task::spawn_local(future)
}

/// Runs work that keeps a core busy for milliseconds on another thread. Returns none if it panicked. The caller has to bound
/// how much of it runs at once.
#[allow(clippy::disallowed_methods, reason = "this is the one place")]
pub async fn beside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    // Harmless: a receiver without a value knows that the sender panicked.
    tokio::task::spawn_blocking(work).await.ok()
}

/// Runs a future and turns a panic inside it into an error with the panic's message.
///
/// After a panic the future is only dropped, so no broken state is seen.
pub async fn contain<F: Future>(mut future: Pin<&mut F>) -> Result<F::Output, String> {
    std::future::poll_fn(move |cx| {
        match catch_unwind(AssertUnwindSafe(|| Pin::as_mut(&mut future).poll(cx))) {
            Ok(poll) => poll.map(Ok),
            Err(panic) => Poll::Ready(Err(said(&*panic))),
        }
    })
    .await
}

/// Messages that are written together ([`yield_to_ready`]): enough that one wake-up of a peer serves many, and few enough that they stay
/// in the CPU's cache from one step to the next.
pub const UNWRITTEN_MAX: usize = 64;

/// A message that this thread has read and not written yet.
pub struct Unwritten(PhantomData<*const ()>);

thread_local!(static UNWRITTEN: Cell<usize> = const { Cell::new(0) });

impl Unwritten {
    #[allow(clippy::new_without_default, reason = "it counts")]
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

/// True while this thread has as many unwritten messages as it writes together. A task that may read several more lets the others run
/// first.
pub fn has_read_enough() -> bool {
    UNWRITTEN.get() >= UNWRITTEN_MAX
}

/// Work that a task of this thread does beside the requests. A worker that stops waits for it, as it waits for requests.
pub struct SideWork(PhantomData<*const ()>);

thread_local!(static SIDE_WORK: Cell<usize> = const { Cell::new(0) });

impl SideWork {
    /// Begins work, which is over when this is dropped.
    pub fn begin() -> SideWork {
        SIDE_WORK.set(SIDE_WORK.get() + 1);
        SideWork(PhantomData)
    }
}

impl Drop for SideWork {
    fn drop(&mut self) {
        // The thread may be ending.
        // Harmless: the thread may be ending.
        let _gone = SIDE_WORK.try_with(|count| count.set(count.get().saturating_sub(1)));
    }
}

/// True while this thread has such work.
pub fn has_side_work() -> bool {
    SIDE_WORK.get() > 0
}

/// Lets every other task that is ready now run first.
///
/// Tasks await this before they write to a socket, so that all of them read and compute first, and then all write. A write to a peer
/// that sleeps wakes it, which takes longer than the write. Writes in a batch pay for one wake-up instead of many. Where nothing
/// else is ready it costs one more poll.
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

/// Lets every other task run first, also those that new events wake. Long work that waits for nothing awaits this now and then.
pub async fn yield_to_events() {
    tokio::task::yield_now().await;
}

/// False where the runtime may have put this task off, so that a look at a connection that waits is not registered to hear of it.
pub fn has_budget() -> bool {
    tokio::task::coop::has_budget_remaining()
}

fn said(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "panic".to_owned())
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::rc::Rc;

    use super::*;

    #[tokio::test]
    async fn whoever_stands_back_comes_behind_what_is_ready() {
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
    fn a_thread_has_read_enough_when_so_many_messages_are_unwritten() {
        let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
        let mut waiting: Vec<_> = (1..UNWRITTEN_MAX).map(|_| Box::pin(yield_to_ready())).collect();
        assert!(waiting.iter_mut().all(|task| task.as_mut().poll(&mut cx).is_pending()));
        let read = Unwritten::new();
        assert!(has_read_enough());
        drop(read);
        assert!(!has_read_enough());
        // One is written, another one's client has gone.
        assert!(waiting.remove(0).as_mut().poll(&mut cx).is_ready());
        drop(waiting.pop());
        let read: Vec<_> = (0..3).map(|_| Unwritten::new()).collect();
        assert!(has_read_enough());
        drop((waiting, read));
        assert_eq!(UNWRITTEN.get(), 0);
    }
}
