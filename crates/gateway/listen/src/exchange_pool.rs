//! Reuses the memory of exchanges: each thread has pools of futures that run one exchange after the other.
//!
//! The future of an exchange has several kilobytes. A new future for each request would be made on the stack, copied to uncached memory,
//! and freed. A reused future is not copied, and the most recently used one, which is still in the cache, is reused first. A connection
//! without a request holds no future.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::thread::LocalKey;

/// The number of free futures of one kind that a thread keeps: one round of its loop handles as many connections.
const FREE_MAX: usize = 64;

/// The input of an exchange. Each implementing type is a kind of exchange with a separate pool.
pub(crate) trait PooledExchange: Sized + 'static {
    /// The result of the exchange.
    type End: 'static;

    /// The pool of its kind.
    fn pool() -> &'static LocalKey<ExchangePool<Self>>;

    fn run(self) -> impl Future<Output = Self::End>;
}

/// The free futures of one kind. The most recently used one is at the end.
pub(crate) struct ExchangePool<E: PooledExchange>(RefCell<Vec<PooledFuture<E>>>);

impl<E: PooledExchange> ExchangePool<E> {
    pub(crate) const fn new() -> ExchangePool<E> {
        ExchangePool(RefCell::new(Vec::new()))
    }
}

/// A future that runs exchanges, and its handover.
struct PooledFuture<E: PooledExchange> {
    handover: Rc<Handover<E>>,
    work: Pin<Box<dyn Future<Output = Infallible>>>,
}

/// The input and the output of a future that never ends.
struct Handover<E: PooledExchange> {
    begun: Cell<Option<E>>,
    ended: Cell<Option<E::End>>,
}

/// An exchange that runs in a future of the pool. If it is dropped before its end, the future is dropped too.
struct RunningExchange<E: PooledExchange>(Option<PooledFuture<E>>);

/// Runs one exchange in a future of its kind's pool.
pub(crate) fn exchange<E: PooledExchange>(new: E) -> impl Future<Output = E::End> + Unpin {
    let free = E::pool().with(|pool| pool.0.borrow_mut().pop());
    let pooled = free.unwrap_or_else(PooledFuture::new);
    pooled.handover.begun.set(Some(new));
    RunningExchange(Some(pooled))
}

impl<E: PooledExchange> PooledFuture<E> {
    fn new() -> PooledFuture<E> {
        let handover = Rc::new(Handover { begun: Cell::new(None), ended: Cell::new(None) });
        PooledFuture { work: Box::pin(work(handover.clone())), handover }
    }

    fn give_back(self) {
        E::pool().with(|pool| {
            let mut free = pool.0.borrow_mut();
            if free.len() < FREE_MAX {
                free.push(self);
            }
        });
    }
}

/// Runs one exchange after the other, without end. Waiting for an exchange needs no waker, because the caller polls the future after
/// handing one over.
async fn work<E: PooledExchange>(handover: Rc<Handover<E>>) -> Infallible {
    loop {
        let begun = poll_fn(|_| handover.begun.take().map_or(Poll::Pending, Poll::Ready));
        let ended = begun.await.run().await;
        handover.ended.set(Some(ended));
    }
}

impl<E: PooledExchange> Future for RunningExchange<E> {
    type Output = E::End;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<E::End> {
        let Some(pooled) = &mut self.0 else { return Poll::Pending };
        let Poll::Pending = pooled.work.as_mut().poll(cx);
        let Some(ended) = pooled.handover.ended.take() else { return Poll::Pending };
        if let Some(pooled) = self.0.take() {
            pooled.give_back();
        }
        Poll::Ready(ended)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// An exchange that ends at the poll after this one.
    struct Job(u32);

    impl PooledExchange for Job {
        type End = u32;

        fn pool() -> &'static LocalKey<ExchangePool<Job>> {
            thread_local!(static FREE: ExchangePool<Job> = const { ExchangePool::new() });
            &FREE
        }

        async fn run(self) -> u32 {
            let mut polled = false;
            poll_fn(|_| {
                if std::mem::replace(&mut polled, true) { Poll::Ready(()) } else { Poll::Pending }
            })
            .await;
            self.0
        }
    }

    fn free() -> usize {
        Job::pool().with(|pool| pool.0.borrow().len())
    }

    /// Tests may share a thread, and so its pool.
    fn empty() {
        Job::pool().with(|pool| pool.0.borrow_mut().clear());
    }

    fn poll(exchange: &mut (impl Future<Output = u32> + Unpin)) -> Poll<u32> {
        Pin::new(exchange).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[test]
    fn futures_are_used_again_unless_their_exchange_was_dropped() {
        empty();
        for number in 0..3 {
            let mut one = exchange(Job(number));
            assert_eq!((poll(&mut one), free()), (Poll::Pending, 0));
            assert_eq!((poll(&mut one), free()), (Poll::Ready(number), 1));
        }
        let (mut one, mut other) = (exchange(Job(7)), exchange(Job(8)));
        assert!(poll(&mut one).is_pending() && poll(&mut other).is_pending());
        drop(one);
        assert_eq!((poll(&mut other), free()), (Poll::Ready(8), 1));
        // The next exchange gets nothing of the dropped one.
        let mut next = exchange(Job(9));
        assert!(poll(&mut next).is_pending());
        assert_eq!(poll(&mut next), Poll::Ready(9));
    }

    #[test]
    fn a_burst_leaves_a_bounded_number_of_futures() {
        empty();
        let mut all: Vec<_> = (0..100).map(|number| exchange(Job(number))).collect();
        assert!(all.iter_mut().all(|one| poll(one).is_pending()));
        for (number, one) in (0..).zip(&mut all) {
            assert_eq!(poll(one), Poll::Ready(number));
        }
        assert_eq!(free(), FREE_MAX);
    }
}
