//! The ways beyond an exchange: calls to another service, background work, and work that lives on every worker.

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

/// A way to another service, with its pools, balancing, health and timeouts. A policy that calls out gets one when it is built,
/// and does not know the upstream behind it.
pub trait Fetch: Send + Sync {
    /// Sends a request and returns the reply as soon as its head is there, without hop-by-hop headers. The request needs no
    /// `Host`, and gets the id of its exchange.
    fn fetch<'a>(
        &'a self,
        call: Call<'a>,
        request: Request,
    ) -> LocalBoxFuture<'a, Result<Reply, Fault>>;
}

/// Work beside the requests: fetching key sets anew, reporting counts to a store. It runs on a thread of its own until it is
/// dropped by its last holder.
pub trait Background: Send + Sync {
    /// Does one round of work and returns the pause until the next. `caller` is the caller to make its fetches with.
    fn round<'a>(&'a self, caller: &'a Rc<Caller>) -> LocalBoxFuture<'a, Duration>;
}

/// Work that lives on every worker for as long as a plan names it, such as deliveries.
pub trait Resident: Send + Sync {
    /// Does the work of one worker, until it is told to end. It ends with what it has begun.
    fn live(self: Arc<Self>, place: Residence) -> LocalBoxFuture<'static, ()>;
}

/// The worker of a resident, as the resident sees it.
pub struct Residence {
    /// The caller to make calls with; it names the worker.
    pub caller: Rc<Caller>,
    /// The number of workers.
    pub workers: usize,
    /// Gives the access log of the present plan.
    pub access_log: Rc<dyn Fn() -> Option<Arc<AccessLog>>>,
    /// Gives the tracing of the present plan.
    pub tracing: Rc<dyn Fn() -> Option<Rc<Tracing>>>,
    pub ending: Rc<EndSignal>,
}

/// The signal that a resident has to end.
#[derive(Debug, Default)]
pub struct EndSignal {
    is_asked: Cell<bool>,
    waker: RefCell<Option<Waker>>,
}

impl EndSignal {
    /// Asks it to end.
    pub fn ask(&self) {
        self.is_asked.set(true);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Ready once it has to end. One task waits for that.
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
