//! Passes one event stream in whole events, and ends it after one of them.

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

/// An open stream. Only whole blocks have been passed, so it may end at any time.
pub(super) struct MeteredStream {
    meter: EventMeter,
    scanner: EventScanner,
    /// The received part of an incomplete block, bounded by the maximum size of an event.
    held: Vec<u8>,
    decoder: Option<Decoder>,
}

/// The cause of an end that a reconnect cannot solve.
pub(super) const TOO_LARGE: &str = "sse: an event is larger than `event_bytes_max`";

/// The capacity that is kept for the next part of a block. A waiting stream holds no more memory than this.
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
    pub(super) fn heard(&mut self, now: Option<clock::Instant>) {
        // Most streams have no idle timeout, and so need not read the clock for each event.
        if let Some(idle) = self.stream.sse.settings.idle {
            self.alarm.set_by(now.unwrap_or_else(clock::now), idle, self.expires);
        }
    }

    /// Returns true if the client's token has expired at `now`.
    pub(super) fn is_expired(&self, now: clock::Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Charges a block, if it is an event. Returns how many events are left, or `None` if this one must not pass. `now` is the current
    /// time, if known.
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

    /// Ready when the stream must end because of the idle timeout or the expiry of the client's token. The end is recorded.
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

    /// Passes the blocks that end in these bytes, and keeps the incomplete part after them. The error is the reason to end the stream.
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

    /// Checks the size of the incomplete block with `more` further bytes.
    fn check_size(&self, more: usize) -> Result<(), StreamEnd> {
        match self.held.len() + more > self.meter.stream.sse.settings.event_bytes_max {
            true => Err(StreamEnd::TooLarge),
            false if !kit::memory::has_room(self.held.len()) => Err(StreamEnd::NoMemory),
            false => Ok(()),
        }
    }
}

impl BodyTransform for MeteredStream {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        self.meter.heard(None);
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
            // After a reconnect, the client would get the same event, so the reply must not look complete.
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

    /// Called if the upstream has ended within a block. Browsers ignore such a block, but other clients may not.
    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.append(&mut self.held);
        self.decoder.as_mut().map_or(Ok(()), Decoder::end)
    }
}
