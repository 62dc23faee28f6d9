//! Copies of requests for a mirror: another upstream whose replies are ignored.
//!
//! The request is copied in the form that the upstream gets, after all policies. The exchange never waits for the copy and is
//! not affected by its faults: a body is copied as it passes, and the copy is sent once the body is complete. Copies are
//! limited in number, size and time, and end with their worker.

use std::cell::Cell;
use std::future::poll_fn;
use std::net::IpAddr;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fault::Fault;
use kit::{clock, scratch};
use message::{Body, Fill, Reply, Request, RequestHead, Source, Trailers};
use policy::{Call, Exchange, Totals};
use telemetry::{MirrorOutcome, RouteMetrics};

use crate::{HostSent, Upstream};

/// An upstream that gets copies of requests, and whose replies are ignored.
pub struct Mirror {
    pub upstream: Arc<Upstream>,
    /// The number of requests, out of [`Mirror::WHOLE`], that are copied.
    pub share: u32,
    /// Requests with a larger body are not copied.
    pub body_bytes_max: usize,
    pub host: HostSent,
    pub metrics: Arc<RouteMetrics>,
}

/// The limit of active copies on one worker. With bodies of the default limit they take at most 16 MiB.
const UNDER_WAY_MAX: usize = 256;

/// The maximum duration of a copy.
const TIME_MAX: Duration = Duration::from_secs(60);

/// The largest reply that is read to its end so that its connection can be reused. For a longer reply it is cheaper to
/// close the connection.
const REPLY_BYTES_MAX: usize = 1024 * 1024;

thread_local! {
    static UNDER_WAY: Cell<usize> = const { Cell::new(0) };
}

impl Mirror {
    /// The share that stands for all requests. One percent is 10,000.
    pub const WHOLE: u32 = 1_000_000;

    /// Its share in percent, as configured.
    pub fn percent(&self) -> f64 {
        f64::from(self.share) * 100.0 / f64::from(Mirror::WHOLE)
    }

    /// Copies a request that is ready for its upstream, if it is part of this mirror's share.
    pub fn copy(self: &Arc<Mirror>, ex: &Exchange, request: &mut Request) {
        if fastrand::u32(..Mirror::WHOLE) >= self.share {
            return;
        }
        let worker = ex.caller.worker;
        let Some(permit) = Permit::take() else {
            return self.metrics.mirrored(worker, MirrorOutcome::Dropped);
        };
        let outcome = MirrorOutcome::Incomplete;
        let mut tally = Tally { mirror: self.clone(), worker, outcome, _permit: permit };
        let bytes_max = u64::try_from(self.body_bytes_max).unwrap_or(u64::MAX);
        if request.body.remaining().is_some_and(|n| n > bytes_max) {
            tally.outcome = MirrorOutcome::TooLarge;
            return;
        }
        let copy = Copy { head: request.head.clone(), client: ex.client, tally };
        match request.body.replay() {
            Some(body) => copy.send(body),
            None => {
                let inner = std::mem::take(&mut request.body);
                let tee = Tee { inner, bytes: Vec::new(), copy: Some(copy) };
                request.body = Body::Stream(Box::new(tee));
            }
        }
    }
}

/// A copy of a request, without its body.
struct Copy {
    head: RequestHead,
    client: IpAddr,
    tally: Tally,
}

/// The outcome of a copy; counted on drop.
struct Tally {
    mirror: Arc<Mirror>,
    worker: usize,
    outcome: MirrorOutcome,
    _permit: Permit,
}

/// A place among the active copies of a worker.
struct Permit;

impl Permit {
    fn take() -> Option<Permit> {
        let taken = UNDER_WAY.get();
        (taken < UNDER_WAY_MAX).then(|| {
            UNDER_WAY.set(taken + 1);
            Permit
        })
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        // Harmless: if the thread is ending, the count is gone, too.
        let _ = UNDER_WAY.try_with(|taken| taken.set(taken.get().saturating_sub(1)));
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.mirror.metrics.mirrored(self.worker, self.outcome);
    }
}

impl Copy {
    /// Sends the copy in a separate task. The task ends with the worker's runtime at the latest.
    fn send(self, body: Body) {
        let Copy { head, client, tally } = self;
        let mut request = Request { head, body };
        drop(kit::spawn(async move {
            // Moved as a whole, so that it is dropped, and counted, at the end of the task.
            let mut tally = tally;
            let totals = Totals::default();
            let mut call = Call {
                worker: tally.worker,
                client,
                subject: None,
                captured: None,
                id: None,
                deadline: clock::now().checked_add(TIME_MAX),
                may_pause: true,
                alarm: kit::alarm::take(),
                totals: &totals,
                target: None,
                interim: None,
                trace: None,
            };
            let mirror = tally.mirror.clone();
            tally.outcome = ask(&mirror, &mut call, &mut request).await;
            kit::alarm::give(call.alarm);
        }));
    }
}

async fn ask(mirror: &Mirror, call: &mut Call<'_>, request: &mut Request) -> MirrorOutcome {
    match mirror.upstream.send(call, request, &mirror.host).await {
        Ok(reply) => match read_to_end(reply).await {
            Ok(()) => MirrorOutcome::Success,
            Err(_) => MirrorOutcome::Failure,
        },
        Err(fault) => {
            let upstream = &mirror.upstream.settings().name;
            tracing::debug!(fault = fault.kind.label(), upstream, "mirror: {}", fault.cause);
            MirrorOutcome::Failure
        }
    }
}

/// Reads a reply to its end, so that its connection can be reused. Endless streams are not read.
async fn read_to_end(mut reply: Reply) -> Result<(), Fault> {
    let mut left = REPLY_BYTES_MAX;
    while !reply.head.is_event_stream() && left > 0 {
        let read = poll_fn(|cx| {
            let mut bytes = scratch::lend();
            reply.body.poll_fill(cx, &mut bytes).map_ok(|fill| (fill, bytes.len()))
        });
        match read.await? {
            (Fill::More | Fill::Later, len) => left = left.saturating_sub(len),
            (Fill::End, _) => break,
        }
    }
    Ok(())
}

/// A body that is copied as it passes.
struct Tee {
    inner: Body,
    bytes: Vec<u8>,
    /// None once the copy was sent or abandoned.
    copy: Option<Copy>,
}

impl Tee {
    fn passed(&mut self, bytes: &[u8], fill: Fill) {
        let Some(copy) = &mut self.copy else { return };
        let is_too_large =
            self.bytes.len().saturating_add(bytes.len()) > copy.tally.mirror.body_bytes_max;
        if is_too_large || !kit::memory::might_have_room(self.bytes.len()) {
            copy.tally.outcome =
                if is_too_large { MirrorOutcome::TooLarge } else { MirrorOutcome::Dropped };
            self.copy = None;
            self.bytes = Vec::new();
            return;
        }
        self.bytes.extend_from_slice(bytes);
        if fill == Fill::End
            && let Some(copy) = self.copy.take()
        {
            copy.send(Body::whole(Bytes::from(std::mem::take(&mut self.bytes))));
        }
    }
}

impl Source for Tee {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let before = out.len();
        let fill = ready!(self.inner.poll_fill(cx, out))?;
        self.passed(out.get(before..).unwrap_or_default(), fill);
        Poll::Ready(Ok(fill))
    }

    fn remaining(&self) -> Option<u64> {
        self.inner.remaining()
    }

    fn trailers(&mut self) -> Trailers {
        self.inner.trailers()
    }

    fn may_trail(&self) -> bool {
        self.inner.may_trail()
    }

    fn expects_continue(&self) -> bool {
        self.inner.expects_continue()
    }
}
