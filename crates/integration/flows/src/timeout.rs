//! The timeouts of flows and of their calls.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use fault::{Fault, Kind};
use kit::clock::{self, Instant};

pub(crate) const CALL_OVER: &str = "the call's timeout is over";

/// The fault of a call whose timeout ended while a step read its reply.
pub(crate) fn call_timeout() -> Fault {
    Fault::new(Kind::UpstreamTimeout, CALL_OVER)
}

pub(crate) fn flow_timeout() -> Fault {
    Fault::new(Kind::FlowTimeout, "the flow's timeout is over")
}

/// Waits for a future. Returns `None` if it takes longer than the limit. The future is borrowed, since moving a large one is expensive.
pub(crate) async fn within<T>(
    limit: Duration,
    work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Option<T> {
    within_from(clock::now(), limit, work).await
}

/// Like [`within`], but the limit starts at `began`.
pub(crate) async fn within_from<T>(
    began: Instant,
    limit: Duration,
    mut work: Pin<&mut (impl Future<Output = T> + ?Sized)>,
) -> Option<T> {
    let alarm = kit::alarm::take();
    alarm.borrow_mut().set(began, limit);
    let done = poll_fn(|cx| match work.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending => alarm.borrow_mut().poll(cx).map(|()| None),
    })
    .await;
    kit::alarm::give(alarm);
    done
}
