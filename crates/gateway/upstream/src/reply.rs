//! The body of a reply, read from the target's connection. At its end the connection is returned to the pool. If the body is
//! dropped before, the connection is closed.

use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use grpc::Dialect;
use http1::Decoder;
use kit::clock::{self, Instant};
use kit::scratch::{self, SCRATCH_BYTES};
use kit::{Alarm, SharedAlarm};
use message::{Body, CopyError, Fill, Outgoing, Reply, ReplyHead, Source, Trailers, Tunnel};

use crate::Upstream;
use crate::call::StartedReply;
use crate::connect::Connection;
use crate::pool::Pool;
use crate::roster::WorkerTarget;
use crate::target::InFlight;

/// The resources of an exchange until its reply has ended, and the way to return the connection.
pub(crate) struct Lease {
    pub(crate) pool: Rc<Pool>,
    pub(crate) place: Rc<WorkerTarget>,
    /// The longest pause between two pieces of the body.
    pub(crate) timeout: Duration,
    /// Whether the reply of a gRPC call may pause without limit.
    pub(crate) may_pause: bool,
    /// The deadline of the whole call.
    pub(crate) deadline: Option<Instant>,
    pub(crate) alarm: SharedAlarm,
    pub(crate) in_flight: InFlight,
    pub(crate) _permit: RequestPermit,
}

impl Lease {
    /// Ready with the fault if the body pauses for too long or the call's time is over. The flag in the result is true if the target
    /// paused. `is_starved` is true if the target may be waiting for the client, which has its own deadline.
    pub(crate) fn poll_late(
        &self,
        cx: &mut Context<'_>,
        timeout: Option<Duration>,
        is_starved: bool,
    ) -> Poll<(Fault, bool)> {
        let pause = timeout.filter(|_| !is_starved);
        ready!(poll_alarm(&mut self.alarm.borrow_mut(), cx, pause, self.deadline));
        let url = self.in_flight.url();
        let is_early = |deadline: Instant| clock::now() < deadline;
        let (why, paused) = match pause.filter(|_| self.deadline.is_none_or(is_early)) {
            Some(pause) => (format!("{url}: the body paused for {pause:?}"), true),
            None => {
                (format!("{url}: the body did not end within the time limit of the call"), false)
            }
        };
        Poll::Ready((Fault::new(Kind::UpstreamTimeout, why), paused))
    }
}

/// Ready once the pause or the deadline is over. The pause begins with the first poll that has one. A poll without one unsets the alarm, so
/// that the next pause is measured from its own beginning.
fn poll_alarm(
    alarm: &mut Alarm,
    cx: &mut Context<'_>,
    pause: Option<Duration>,
    deadline: Option<Instant>,
) -> Poll<()> {
    if let Some(pause) = pause {
        if !alarm.is_set() {
            alarm.set_by(clock::now(), pause, deadline);
        }
        return alarm.poll(cx);
    }
    alarm.clear();
    alarm.bring_forward(deadline);
    let rings = alarm.poll(cx);
    alarm.clear();
    rings
}

/// An active request: it counts for the breaker and in the metrics until dropped.
pub(crate) struct RequestPermit {
    upstream: Arc<Upstream>,
    pool: Rc<Pool>,
    /// True if it also counts as a connection in use.
    connects: bool,
}

/// A body still arriving.
struct IncomingBody {
    connection: Connection,
    upload: Option<Outgoing>,
    decoder: Decoder,
    ahead: Bytes,
    /// True as long as nothing prevents the connection's reuse.
    reusable: bool,
    /// None for a stream.
    timeout: Option<Duration>,
}

/// The size of one read of an event stream. A slow client keeps all of it in memory, and there may be many such
/// clients.
const EVENTS_READ_BYTES: usize = 16 << 10;

/// An incoming body with its lease. Both end together.
struct LeasedBody {
    incoming: Option<(IncomingBody, Lease)>,
    trailers: Trailers,
    remaining: Option<u64>,
}

/// Converts a started reply into one that can be forwarded.
pub(crate) fn reply(begun: Box<StartedReply>, hold: Lease, now: Instant) -> Reply {
    if begun.parsed.upgrade {
        let guards: Box<dyn std::any::Any> = Box::new((begun.connection.open, hold));
        let tunnel =
            Tunnel { wire: begun.connection.wire, first_bytes: begun.rest, guards: Some(guards) };
        return Reply { head: begun.head, body: Body::Empty, tunnel: Some(Box::new(tunnel)) };
    }
    // An event stream or a gRPC reply has no timeout here: the client's side limits silence in both directions, and notices if the client
    // has gone.
    let endless = is_stream(&begun.head, &hold);
    let incoming = IncomingBody {
        reusable: begun.parsed.keep_alive && begun.intact && begun.rest.is_empty(),
        timeout: (!endless).then_some(hold.timeout),
        connection: begun.connection,
        upload: begun.upload,
        decoder: begun.decoder,
        ahead: begun.ahead,
    };
    Reply { head: begun.head, body: incoming.body(hold, now), tunnel: None }
}

/// True for a reply that may pause without limit: an event stream, or the reply to a gRPC call.
pub(crate) fn is_stream(head: &ReplyHead, hold: &Lease) -> bool {
    let is_call = || head.headers.get("content-type").is_some_and(|of| Dialect::of(of).is_some());
    head.is_event_stream() || hold.may_pause && is_call()
}

impl IncomingBody {
    /// Returns a body in memory if all of it came with the head and the request is sent. Otherwise returns a stream.
    fn body(self, hold: Lease, now: Instant) -> Body {
        let complete = self.decoder.is_done() && self.upload.is_none();
        if complete && self.decoder.trailers().is_empty() {
            if self.reusable {
                hold.pool.give(&hold.place, self.connection, now);
            }
            return Body::whole(self.ahead);
        }
        hold.alarm.borrow_mut().clear();
        let left =
            self.decoder.remaining().map(|n| n + u64::try_from(self.ahead.len()).unwrap_or(0));
        // A body with trailers hides its length, even if it is complete, because trailers need chunks.
        let remaining = left.filter(|_| self.decoder.trailers().is_empty());
        Body::Stream(Box::new(LeasedBody {
            incoming: Some((self, hold)),
            trailers: Trailers::new(),
            remaining,
        }))
    }

    fn poll_fill(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        hold: &Lease,
    ) -> Poll<Result<Fill, Fault>> {
        if !self.ahead.is_empty() {
            out.extend_from_slice(&std::mem::take(&mut self.ahead));
            return Poll::Ready(Ok(self.fill()));
        }
        self.poll_upload(cx)?;
        if self.decoder.is_done() {
            return Poll::Ready(Ok(Fill::End));
        }
        match self.poll_read(cx, out, hold.in_flight.url()) {
            Poll::Pending => {
                let is_starved = self.upload.as_ref().is_some_and(Outgoing::is_starved);
                hold.poll_late(cx, self.timeout, is_starved).map(|(fault, _)| Err(fault))
            }
            Poll::Ready(read) => {
                hold.alarm.borrow_mut().clear();
                read?;
                let fill = self.fill();
                // An event usually arrives alone. Then only the wire has to be waited for.
                let is_alone = fill == Fill::More
                    && self.timeout.is_none()
                    && self.upload.is_none()
                    && hold.deadline.is_none()
                    && self.connection.wire.poll_readable(cx).is_pending();
                Poll::Ready(Ok(if is_alone { Fill::Later } else { fill }))
            }
        }
    }

    fn fill(&self) -> Fill {
        if self.decoder.is_done() { Fill::End } else { Fill::More }
    }

    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        url: &str,
    ) -> Poll<Result<(), Fault>> {
        let reset = |why: &dyn std::fmt::Display| {
            Fault::new(Kind::UpstreamReset, format!("{url}: in the body: {why}"))
        };
        let most = match self.timeout {
            Some(_) => SCRATCH_BYTES,
            None => EVENTS_READ_BYTES,
        };
        let wire = &mut self.connection.wire;
        let read = match self.decoder.remaining() {
            Some(n) => {
                let room = usize::try_from(n).unwrap_or(most).min(most);
                let read = ready!(wire.poll_read_into(cx, out, room)).map_err(|e| reset(&e))?;
                self.decoder.advance(read);
                read
            }
            None => {
                let mut input = scratch::lend();
                let read =
                    ready!(wire.poll_read_into(cx, &mut input, most)).map_err(|e| reset(&e))?;
                let malformed = |e| Fault::new(Kind::UpstreamMalformed, format!("{url}: {e}"));
                let taken = self.decoder.decode(&input, out).map_err(malformed)?;
                // Unrequested bytes: the connection cannot be trusted with another request.
                self.reusable &= taken == input.len();
                read
            }
        };
        if read == 0 {
            self.reusable = false;
            self.decoder.end_of_input().map_err(|e| reset(&e))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Sends more of the request while its reply is read.
    fn poll_upload(&mut self, cx: &mut Context<'_>) -> Result<(), Fault> {
        let Some(upload) = &mut self.upload else { return Ok(()) };
        match upload.poll(cx, &mut self.connection.wire) {
            Poll::Pending => return Ok(()),
            Poll::Ready(Ok(())) => {}
            // The target accepts no more of the request. Its reply continues nevertheless.
            Poll::Ready(Err(CopyError::Peer(_))) => self.reusable = false,
            Poll::Ready(Err(CopyError::Source(fault))) => return Err(fault),
        }
        self.upload = None;
        Ok(())
    }

    /// Returns the connection to the pool if it can be reused.
    fn finish(self, hold: Lease, now: Instant) {
        if self.reusable && self.upload.is_none() {
            hold.pool.give(&hold.place, self.connection, now);
        }
    }
}

impl Source for LeasedBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        let Some((incoming, hold)) = &mut self.incoming else { return Poll::Ready(Ok(Fill::End)) };
        let before = out.len();
        let fill = ready!(incoming.poll_fill(cx, out, hold));
        if let Some(remaining) = &mut self.remaining {
            let added = u64::try_from(out.len().saturating_sub(before)).unwrap_or(u64::MAX);
            *remaining = remaining.saturating_sub(added);
        }
        if fill.as_ref().is_ok_and(|fill| *fill == Fill::End)
            && let Some((incoming, hold)) = self.incoming.take()
        {
            self.trailers = incoming.decoder.trailers().to_vec();
            incoming.finish(hold, clock::now());
        }
        Poll::Ready(fill)
    }

    fn remaining(&self) -> Option<u64> {
        self.remaining
    }

    fn trailers(&mut self) -> Trailers {
        std::mem::take(&mut self.trailers)
    }

    fn may_trail(&self) -> bool {
        // HTTP/1 has trailers only after chunks.
        self.remaining.is_none()
    }
}

impl RequestPermit {
    /// Takes a place within the breaker's limit of requests.
    pub(crate) fn take(upstream: &Arc<Upstream>, pool: Rc<Pool>) -> Result<RequestPermit, Fault> {
        let metrics = pool.metrics();
        upstream.limits.requests.enter().inspect_err(|_| metrics.breaker_refused.add(1))?;
        metrics.requests_active.add(1);
        Ok(RequestPermit { upstream: upstream.clone(), pool, connects: false })
    }

    /// Takes a place within the limit of connections in use, once for all attempts.
    pub(crate) fn connect(&mut self) -> Result<(), Fault> {
        let Some(limit) = self.upstream.limits.connections.as_ref().filter(|_| !self.connects)
        else {
            return Ok(());
        };
        limit.enter().inspect_err(|_| self.pool.metrics().breaker_refused.add(1))?;
        self.connects = true;
        Ok(())
    }
}

impl Drop for RequestPermit {
    fn drop(&mut self) {
        if let Some(limit) = self.upstream.limits.connections.as_ref().filter(|_| self.connects) {
            limit.leave();
        }
        self.upstream.limits.requests.leave();
        self.pool.metrics().requests_active.add(-1);
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    /// A target that waits for more of the request may pause until the deadline. Once it has the whole request, its pause is limited again.
    #[test]
    fn each_pause_has_a_limit_of_its_own() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let (mut alarm, now) = (Alarm::default(), clock::now());
        let day = Duration::from_secs(24 * 3600);
        let late = now.checked_add(day);
        runtime.block_on(async {
            // If a poll leaves the alarm set, the next one goes on with the same pause.
            for (pause, deadline, goes_on) in [
                (Some(day), late, true),
                (None, late, false),
                (Some(day), None, true),
                (None, None, false),
            ] {
                let first = poll_fn(|cx| Poll::Ready(poll_alarm(&mut alarm, cx, pause, deadline)));
                assert!(first.await.is_pending(), "{pause:?}, {deadline:?}");
                assert_eq!(alarm.is_set(), goes_on, "{pause:?}, {deadline:?}");
            }
            for (pause, deadline) in [(None, Some(now)), (Some(Duration::ZERO), late)] {
                poll_fn(|cx| poll_alarm(&mut alarm, cx, pause, deadline)).await;
                alarm.clear();
            }
        });
    }
}
