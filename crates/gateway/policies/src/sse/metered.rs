//! Forwards one event stream in whole events, so that it can be ended between two events.

use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::{Alarm, clock};
use message::{EventScanner, Fill};
use policy::BodyTransform;
use telemetry::StreamEnd;

use super::Stream;
use super::coding::Decoder;

/// The bounds of one client's stream: its quota of events, its idle timeout, and the expiry of the client's token.
pub(super) struct EventMeter {
    stream: Stream,
    /// The alarm for the idle timeout or the expiry of the client's token, whichever is first.
    alarm: Alarm,
    expires: Option<clock::Instant>,
}

/// An open stream. Only whole blocks are forwarded, so it may be ended at any time.
pub(super) struct MeteredStream {
    meter: EventMeter,
    scanner: EventScanner,
    /// The received part of an incomplete block, bounded by the maximum size of an event.
    held: Vec<u8>,
    decoder: Option<Decoder>,
}

/// The cause of the fault for an event that is too large. A client that reconnects would get the same event again.
pub(super) const TOO_LARGE: &str = "sse: an event is larger than `event_bytes_max`";

/// The maximum capacity of `held` between two blocks. A waiting stream holds no more memory than this.
const KEPT_BYTES: usize = 1 << 10;

impl EventMeter {
    /// Creates the meter. `expires` is the expiry of the client's token, in seconds since the Unix epoch.
    pub(super) fn new(stream: Stream, expires: Option<u64>) -> EventMeter {
        let expires = expires.and_then(|expires| {
            let left = Duration::from_secs(expires).saturating_sub(clock::wall());
            clock::now().checked_add(left)
        });
        let mut alarm = Alarm::default();
        let idle = stream.sse.settings.idle.unwrap_or(Duration::MAX);
        alarm.set_by(clock::now(), idle, expires);
        EventMeter { stream, alarm, expires }
    }

    /// Restarts the idle timeout, since the upstream has sent data. `now` is the current time, if known.
    pub(super) fn restart_idle(&mut self, now: Option<clock::Instant>) {
        // Most streams have no idle timeout, and so need not read the clock for each event.
        if let Some(idle) = self.stream.sse.settings.idle {
            self.alarm.set_by(now.unwrap_or_else(clock::now), idle, self.expires);
        }
    }

    /// Returns true if the client's token has expired at `now`.
    pub(super) fn is_expired(&self, now: clock::Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Counts a block against the quota, if it is an event. Returns the number of remaining events, or `None` if the block must not pass.
    /// `now` is the current time, if known.
    pub(super) fn pass(
        &self,
        bytes: usize,
        is_event: bool,
        now: Option<clock::Instant>,
    ) -> Option<u64> {
        if !is_event {
            return Some(u64::MAX);
        }
        let left = self.stream.take(bytes, now)?;
        self.stream.passed();
        Some(left)
    }

    /// Becomes ready when the idle timeout or the client's token has expired, and records the end of the stream.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.alarm.poll(cx).is_pending() {
            return Poll::Pending;
        }
        let is_over = self.expires.is_some_and(|expires| expires <= clock::now());
        self.end(if is_over { StreamEnd::Expired } else { StreamEnd::Idle });
        Poll::Ready(())
    }

    /// Records that the policy ends the stream.
    pub(super) fn end(&self, end: StreamEnd) -> Fill {
        self.stream.ended(end);
        Fill::End
    }
}

impl MeteredStream {
    pub(super) fn new(meter: EventMeter, decoder: Option<Decoder>) -> MeteredStream {
        MeteredStream { meter, scanner: EventScanner::default(), held: Vec::new(), decoder }
    }

    /// Forwards the blocks that end in these bytes, and keeps the incomplete block after them. An error is the reason to end the stream.
    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), StreamEnd> {
        let mut rest = bytes;
        while let Some(block) = self.scanner.next_block(rest) {
            let (ended, behind) = rest.split_at_checked(block.len).unwrap_or((rest, &[]));
            self.check_size(ended.len())?;
            let passed = self.meter.pass(self.held.len() + ended.len(), block.is_event, None);
            let left = passed.ok_or(StreamEnd::Quota)?;
            out.extend_from_slice(&self.held);
            out.extend_from_slice(ended);
            self.held.clear();
            self.held.shrink_to(KEPT_BYTES);
            if left == 0 {
                return Err(StreamEnd::Quota);
            }
            rest = behind;
        }
        self.check_size(rest.len())?;
        self.held.extend_from_slice(rest);
        Ok(())
    }

    /// Checks that the incomplete block may grow by `more` bytes.
    fn check_size(&self, more: usize) -> Result<(), StreamEnd> {
        if self.held.len() + more > self.meter.stream.sse.settings.event_bytes_max {
            Err(StreamEnd::TooLarge)
        } else if !kit::memory::has_room(self.held.len()) {
            Err(StreamEnd::NoMemory)
        } else {
            Ok(())
        }
    }
}

impl BodyTransform for MeteredStream {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        self.meter.restart_idle(None);
        let passed = match self.decoder.take() {
            None => self.pass(bytes, out),
            Some(mut decoder) => {
                let passed = decoder.decode(bytes, |plain| self.pass(plain, out))?;
                self.decoder = Some(decoder);
                passed
            }
        };
        match passed {
            Ok(()) => Ok(Fill::More),
            // The reply must fail instead of ending cleanly: a client that reconnects would get the same event again.
            Err(StreamEnd::TooLarge) => {
                self.meter.end(StreamEnd::TooLarge);
                Err(Fault::new(Kind::ReplyTooLarge, TOO_LARGE))
            }
            Err(end) => Ok(self.meter.end(end)),
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.meter.poll_end(cx)
    }

    /// Forwards the incomplete block at the end of the upstream's stream. Browsers ignore it, but other clients may use it.
    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.append(&mut self.held);
        self.decoder.as_mut().map_or(Ok(()), Decoder::end)
    }
}
