//! The runs of a queue that are in progress. They continue while its processing waits for the store.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt as _};
use kit::{Alarm, LocalBoxFuture, clock};
use store::Record;

use crate::queue::{Order, Queue};
use crate::run::RunFailure;

/// The interval at which runs are checked while the processing waits for the store.
const CHECK: Duration = Duration::from_secs(1);

/// The runs in progress, and the outcomes that were not handled yet.
pub(crate) struct Runs {
    queue: Arc<Queue>,
    /// The node's term when it took the queue over.
    term: u64,
    running: RefCell<FuturesUnordered<LocalBoxFuture<'static, RunOutcome>>>,
    ended: RefCell<VecDeque<RunOutcome>>,
    is_cut: Cell<bool>,
}

/// The outcome of processing a message once.
pub(crate) struct RunOutcome {
    pub(crate) message: u64,
    pub(crate) record: Record,
    pub(crate) failed: Option<RunFailure>,
}

impl Runs {
    pub(crate) fn new(queue: Arc<Queue>, term: u64) -> Runs {
        let (running, ended) = (RefCell::default(), RefCell::default());
        Runs { queue, term, running, ended, is_cut: Cell::new(false) }
    }

    pub(crate) fn start(&self, run: LocalBoxFuture<'static, RunOutcome>) {
        self.running.borrow_mut().push(run);
    }

    /// Returns true if no run is in progress and all outcomes were handled.
    pub(crate) fn is_empty(&self) -> bool {
        self.running.borrow().is_empty() && self.ended.borrow().is_empty()
    }

    /// Ready with the next outcome.
    pub(crate) fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<RunOutcome> {
        self.advance(cx);
        self.ended.borrow_mut().pop_front().map_or(Poll::Pending, Poll::Ready)
    }

    fn advance(&self, cx: &mut Context<'_>) {
        let mut running = self.running.borrow_mut();
        while let Poll::Ready(Some(ended)) = running.poll_next_unpin(cx) {
            self.ended.borrow_mut().push_back(ended);
        }
    }

    /// Awaits a step of the processing, which may wait for the store. Meanwhile the runs continue, because their timeouts do not stop, and
    /// [`Runs::cut`] aborts those that must not continue. `timer` is set anew.
    pub(crate) async fn beside<T>(&self, timer: &mut Alarm, step: impl Future<Output = T>) -> T {
        let mut step = pin!(step);
        timer.set(clock::now(), CHECK);
        poll_fn(|cx| {
            if let Poll::Ready(done) = step.as_mut().poll(cx) {
                return Poll::Ready(done);
            }
            self.advance(cx);
            while timer.poll(cx).is_ready() {
                self.cut();
                timer.set(clock::now(), CHECK);
            }
            Poll::Pending
        })
        .await
    }

    /// Aborts the runs of a strictly ordered queue once another node may process it. Otherwise that node could overtake them.
    pub(crate) fn cut(&self) {
        let is_strict = self.queue.settings.order == Order::Strict;
        let mut running = self.running.borrow_mut();
        if is_strict && !self.queue.nodes.may_begin(self.term) && !running.is_empty() {
            tracing::warn!(
                queue = self.queue.name(),
                "a run was stopped: the store has been unavailable for too long"
            );
            running.clear();
            self.is_cut.set(true);
        }
    }

    /// Returns true if runs were aborted since the last call.
    pub(crate) fn take_cut(&self) -> bool {
        self.is_cut.take()
    }

    /// Returns true if the run of a message has ended and its outcome was not handled yet.
    pub(crate) fn has_ended(&self, message: u64) -> bool {
        self.ended.borrow().iter().any(|ended| ended.message == message)
    }
}
