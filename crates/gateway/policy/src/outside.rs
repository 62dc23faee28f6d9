//! The interfaces beyond an exchange: calls to another service, background work, and work that runs on every worker.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use fault::Fault;
use kit::LocalBoxFuture;
use message::{Reply, Request};
use telemetry::access::AccessLog;
use telemetry::span::Tracing;

use crate::{Call, Caller};

/// A connection to another service, with its pools, balancing, health and timeouts. A policy that calls a service gets one when it is
/// built, and does not know the upstream itself.
pub trait Fetch: Send + Sync {
    /// Sends a request and returns the reply as soon as its head has arrived, without hop-by-hop headers. The request needs no `Host`, and
    /// gets the id of its exchange.
    fn fetch<'a>(
        &'a self,
        call: Call<'a>,
        request: Request,
    ) -> LocalBoxFuture<'a, Result<Reply, Fault>>;
}

/// Background work, such as refreshing key sets or sharing counts through a store. It runs on a separate thread until its last owner drops
/// it.
pub trait Background: Send + Sync {
    /// Does one round of work and returns the pause until the next. `caller` is the caller to use for its fetches.
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration>;
}

/// Work that runs on every worker for as long as a plan contains it, such as deliveries.
pub trait Resident: Send + Sync {
    /// Does the work of one worker until the end signal, and then completes the work in progress.
    fn live(self: Arc<Self>, place: ResidentWorker) -> LocalBoxFuture<'static, ()>;
}

/// The worker that a resident runs on.
pub struct ResidentWorker {
    /// The caller to make calls with. It identifies the worker.
    pub caller: Rc<Caller>,
    /// The number of workers.
    pub workers: usize,
    /// Returns the access log of the current plan.
    pub access_log: Rc<dyn Fn() -> Option<Arc<AccessLog>>>,
    /// Returns the tracing of the current plan.
    pub tracing: Rc<dyn Fn() -> Option<Rc<Tracing>>>,
    pub ending: Rc<EndSignal>,
}

/// The signal for a resident to end.
#[derive(Debug, Default)]
pub struct EndSignal {
    is_asked: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl EndSignal {
    /// Requests the end.
    pub fn ask(&self) {
        self.is_asked.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ready once the end is requested. Only one task may wait for it.
    pub fn poll_asked(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.is_asked.get() {
            return Poll::Ready(());
        }
        let mut waker = self.waker.borrow_mut();
        if waker.as_ref().is_none_or(|waker| !waker.will_wake(cx.waker())) {
            *waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }
}
