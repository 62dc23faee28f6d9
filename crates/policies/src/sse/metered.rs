//! One event stream as it passes: whole events go on, and it ends behind one of them.

use std::task::{Context, Poll};
use std::time::Duration;

use fault::Fault;
use kit::{Alarm, clock};
use message::{EventScanner, Fill};
use policy::BodyTransform;
use telemetry::StreamEnd;

use super::Stream;
use super::coding::Decoder;

/// An open stream. What has gone on is whole blocks, so it may end at any time.
pub(super) struct MeteredStream {
    stream: Stream,
    scanner: EventScanner,
    /// The part of a block that came; bounded by the largest event.
    held: Vec<u8>,
    decoder: Option<Decoder>,
    /// For the first of silence and the end of the client's token.
    alarm: Alarm,
    expires: Option<clock::Instant>,
}

/// Room that is kept for the next part of a block. A stream that waits holds no more.
const KEPT_BYTES: usize = 1 << 10;

impl MeteredStream {
    /// `expires` is when the client's token does, in seconds since the Unix epoch.
    pub(super) fn new(
        stream: Stream,
        decoder: Option<Decoder>,
        expires: Option<u64>,
    ) -> MeteredStream {
        let expires = expires.and_then(|expires| {
            let left = Duration::from_secs(expires).saturating_sub(clock::wall());
            clock::now().checked_add(left)
        });
        let (scanner, alarm) = (EventScanner::default(), Alarm::default());
        let mut metered =
            MeteredStream { stream, scanner, held: Vec::new(), decoder, alarm, expires };
        metered.set_alarm();
        metered
    }

    fn set_alarm(&mut self) {
        let idle = self.stream.sse.settings.idle;
        // The usual stream has neither, and needs no look at the clock for each event.
        if idle.is_some() || self.expires.is_some() {
            self.alarm.set_by(clock::now(), idle.unwrap_or(Duration::MAX), self.expires);
        }
    }

    /// Hands on the blocks that end in these bytes, and holds the part behind them. The error is the reason to end the stream.
    fn pass(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), StreamEnd> {
        let mut rest = bytes;
        while let Some(block) = self.scanner.next_block(rest) {
            let (ended, behind) = rest.split_at_checked(block.len).unwrap_or((rest, &[]));
            self.check_size(ended.len())?;
            let left = match block.is_event {
                true => self.take(ended.len())?,
                false => u64::MAX,
            };
            out.extend_from_slice(&self.held);
            out.extend_from_slice(ended);
            self.held.clear();
            self.held.shrink_to(KEPT_BYTES);
            if block.is_event {
                self.stream.passed();
            }
            if left == 0 {
                return Err(StreamEnd::Quota);
            }
            rest = behind;
        }
        self.check_size(rest.len())?;
        self.held.extend_from_slice(rest);
        Ok(())
    }

    /// Charges the event whose last bytes these are. Gives how many are left.
    fn take(&self, more: usize) -> Result<u64, StreamEnd> {
        self.stream.take(self.held.len() + more).ok_or(StreamEnd::Quota)
    }

    /// Checks the block that is held with so many bytes more.
    fn check_size(&self, more: usize) -> Result<(), StreamEnd> {
        match self.held.len() + more > self.stream.sse.settings.event_bytes_max {
            true => Err(StreamEnd::TooLarge),
            false => Ok(()),
        }
    }
}

impl BodyTransform for MeteredStream {
    fn on_bytes(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Result<Fill, Fault> {
        self.set_alarm();
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
            Err(end) => {
                self.stream.ended(end);
                Ok(Fill::End)
            }
        }
    }

    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.alarm.poll(cx).is_pending() {
            return Poll::Pending;
        }
        let is_over = self.expires.is_some_and(|expires| expires <= clock::now());
        self.stream.ended(if is_over { StreamEnd::Expired } else { StreamEnd::Idle });
        Poll::Ready(())
    }

    /// The upstream ended within a block. Browsers make no event of that, other readers may.
    fn on_end(&mut self, out: &mut Vec<u8>) -> Result<(), Fault> {
        out.append(&mut self.held);
        self.decoder.as_mut().map_or(Ok(()), Decoder::end)
    }
}
