//! One event stream as it passes: whole events go on, and it ends behind one of them.

use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::{Alarm, clock};
use message::{EventScanner, Fill};
use policy::BodyTransform;
use telemetry::StreamEnd;

use super::Stream;
use super::coding::Decoder;

/// The bounds of one client's stream: its quota of events, the time of silence, and the end of the client's token.
pub(super) struct EventMeter {
    stream: Stream,
    /// For the first of silence and the end of the client's token.
    alarm: Alarm,
    expires: Option<clock::Instant>,
}

/// An open stream. What has gone on is whole blocks, so it may end at any time.
pub(super) struct MeteredStream {
    meter: EventMeter,
    scanner: EventScanner,
    /// The part of a block that came; bounded by the largest event.
    held: Vec<u8>,
    decoder: Option<Decoder>,
}

/// The cause of an end that no reconnect can cure.
pub(super) const TOO_LARGE: &str = "sse: an event is larger than `event_bytes_max`";

/// Room that is kept for the next part of a block. A stream that waits holds no more.
const KEPT_BYTES: usize = 1 << 10;

impl EventMeter {
    /// `expires` is when the client's token does, in seconds since the Unix epoch.
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

    /// Something came of the upstream: silence begins anew. `now` is the time, where that is known.
    pub(super) fn heard(&mut self, now: Option<clock::Instant>) {
        // The usual stream may be silent, and needs no look at the clock for each event.
        if let Some(idle) = self.stream.sse.settings.idle {
            self.alarm.set_by(now.unwrap_or_else(clock::now), idle, self.expires);
        }
    }

    /// True if the client's token has ended by then.
    pub(super) fn is_expired(&self, now: clock::Instant) -> bool {
        self.expires.is_some_and(|expires| expires <= now)
    }

    /// Charges a block that passes, if it is an event. Gives how many events are left, or none if this one may not pass. `now` is the
    /// time, where that is known.
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

    /// Ready when the stream has to end for silence or with the client's token. That is noted.
    pub(super) fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.alarm.poll(cx).is_pending() {
            return Poll::Pending;
        }
        let is_over = self.expires.is_some_and(|expires| expires <= clock::now());
        self.end(if is_over { StreamEnd::Expired } else { StreamEnd::Idle });
        Poll::Ready(())
    }

    /// Notes that the policy ends the stream.
    pub(super) fn end(&self, end: StreamEnd) -> Fill {
        self.stream.ended(end);
        Fill::End
    }
}

impl MeteredStream {
    pub(super) fn new(meter: EventMeter, decoder: Option<Decoder>) -> MeteredStream {
        MeteredStream { meter, scanner: EventScanner::default(), held: Vec::new(), decoder }
    }

    /// Hands on the blocks that end in these bytes, and holds the part behind them. The error is the reason to end the stream.
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

    /// Checks the block that is held with so many bytes more.
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
            // A reconnect would come to the same event, so the reply must not look complete.
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

    /// The upstream ended within a block. Browsers make no event of that, other readers may.
    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.append(&mut self.held);
        self.decoder.as_mut().map_or(Ok(()), Decoder::end)
    }
}
