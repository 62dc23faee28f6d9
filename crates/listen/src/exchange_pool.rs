//! The memory of HTTP/1's exchanges: a pool of futures for each thread, in which one exchange follows another.
//!
//! The future of an exchange has several kilobytes. One for each request would be made on the stack, copied to memory that is not in
//! any cache, and freed. A reused one copies nothing, and the one that was used last is used next. A connection without a request
//! has none.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use crate::h1::{Arrival, ExchangeStage, H1};

/// Free futures that a thread keeps: one round of its loop has as many connections.
const FREE_MAX: usize = 64;

thread_local! {
    /// The one that was used last is at the end.
    static FREE: RefCell<Vec<PooledFuture>> = const { RefCell::new(Vec::new()) };
}

/// A future of exchanges, and where it takes them.
struct PooledFuture {
    handover: Rc<Handover>,
    work: Pin<Box<dyn Future<Output = Infallible>>>,
}

/// The input and the output of a future that never ends.
#[derive(Default)]
struct Handover {
    begun: Cell<Option<(Rc<H1>, Box<Arrival>)>>,
    ended: Cell<Option<ExchangeStage>>,
}

/// An exchange in a future of the pool. If it is dropped before its end, so is the future.
struct RunningExchange(Option<PooledFuture>);

/// One exchange, from its head to the end of its reply or to the beginning of one that lasts.
pub(crate) fn exchange(
    h1: Rc<H1>,
    arrival: Box<Arrival>,
) -> impl Future<Output = ExchangeStage> + Unpin {
    let pooled = FREE.with_borrow_mut(Vec::pop).unwrap_or_else(PooledFuture::new);
    pooled.handover.begun.set(Some((h1, arrival)));
    RunningExchange(Some(pooled))
}

impl PooledFuture {
    fn new() -> PooledFuture {
        let handover = Rc::new(Handover::default());
        PooledFuture { work: Box::pin(work(handover.clone())), handover }
    }

    fn give_back(self) {
        FREE.with_borrow_mut(|free| {
            if free.len() < FREE_MAX {
                free.push(self);
            }
        });
    }
}

/// One exchange after another, for ever. Nothing wakes it for the next: whoever hands one over polls it.
async fn work(handover: Rc<Handover>) -> Infallible {
    loop {
        let begun = poll_fn(|_| handover.begun.take().map_or(Poll::Pending, Poll::Ready));
        let (h1, arrival) = begun.await;
        let ended = h1.exchange(arrival).await;
        drop(h1);
        handover.ended.set(Some(ended));
    }
}

impl Future for RunningExchange {
    type Output = ExchangeStage;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<ExchangeStage> {
        let Some(pooled) = &mut self.0 else { return Poll::Pending };
        let Poll::Pending = pooled.work.as_mut().poll(cx);
        let Some(ended) = pooled.handover.ended.take() else { return Poll::Pending };
        if let Some(pooled) = self.0.take() {
            pooled.give_back();
        }
        Poll::Ready(ended)
    }
}
