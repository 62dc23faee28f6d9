//! The time limits for receiving a request's body.
//!
//! There are three limits: for a pause, for the whole body, and for the rate. The earliest one applies. The rate is kept as a credit of
//! time. The credit starts with the longest allowed pause, and decreases while the gateway waits for the client. The bytes that end a wait
//! increase it again, up to its initial value. So a fast client may pause, and a client that sends a byte now and then is cut off as if it
//! had paused. Time spent waiting for the upstream does not count.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::alarm::{self, Alarm, SharedAlarm};
use kit::clock::{self, Instant};
use plan::Listener;

/// The limits of one body, and their use so far.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The maximum pause between two pieces.
    pause: Duration,
    /// The minimum rate in bytes per second, or 0 for no limit.
    rate: u64,
    /// How much longer the gateway may wait for the client without violating the rate.
    credit: Duration,
    /// The deadline of the whole body.
    end: Option<Instant>,
    total: Duration,
    /// The start of the current wait for the client.
    waiting: Option<Instant>,
    nearest: Nearest,
    progress: BodyProgress,
    /// Created when it is first needed, since most bodies have arrived when they are read.
    alarm: Option<SharedAlarm>,
}

/// State shared by the two directions of an exchange while its body is arriving.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    reply: Cell<ReplyState>,
    /// True if some of the body has arrived since the last check.
    moved: Cell<bool>,
}

pub(crate) type BodyProgress = Rc<Progress>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ReplyState {
    /// The reply has not begun.
    #[default]
    Waited,
    /// The reply has begun. If the body is still arriving, the two peers decide on its pace, and the rate is no longer limited.
    Begun,
    /// The reply is a stream. The sender of the stream checks for silence in both directions, so pauses are no longer limited.
    Stream,
}

impl Progress {
    pub(crate) fn begin_reply(&self) {
        if self.reply.get() == ReplyState::Waited {
            self.reply.set(ReplyState::Begun);
        }
    }

    pub(crate) fn begin_stream(&self) {
        self.reply.set(ReplyState::Stream);
    }

    /// True if some of the body has arrived since the last call.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved.replace(false)
    }

    fn is_stream(&self) -> bool {
        self.reply.get() == ReplyState::Stream
    }
}

/// The limit that the alarm was set for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nearest {
    Pause,
    Rate,
    End,
}

impl Pace {
    /// The limits for a body that begins now.
    pub(crate) fn of(listener: &Listener, progress: BodyProgress) -> Pace {
        let timeout = &listener.timeout;
        let total = timeout.body_total.unwrap_or(Duration::ZERO);
        Pace {
            pause: timeout.body,
            rate: listener.limits.body_rate_min,
            credit: timeout.body,
            end: timeout.body_total.and_then(|total| clock::now().checked_add(total)),
            total,
            waiting: None,
            nearest: Nearest::Pause,
            progress,
            alarm: None,
        }
    }

    pub(crate) fn progress(&self) -> &BodyProgress {
        &self.progress
    }

    /// Called while nothing arrives. Ready with the fault when a limit is reached.
    pub(crate) fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let alarm = self.alarm.get_or_insert_with(alarm::take).clone();
        let mut alarm = alarm.borrow_mut();
        if self.waiting.is_none() {
            self.wait(&mut alarm, clock::now(), self.pause);
        }
        loop {
            ready!(alarm.poll(cx));
            // The reply may have begun since the alarm was set. Then the rate is no longer limited, and if the reply is a stream, neither
            // are pauses.
            match (self.nearest, self.progress.reply.get(), self.waiting) {
                (Nearest::Rate, ReplyState::Begun | ReplyState::Stream, Some(since))
                | (Nearest::Pause, ReplyState::Stream, Some(since)) => {
                    let left = self.pause.saturating_sub(since.elapsed());
                    self.wait(&mut alarm, clock::now(), left);
                    self.waiting = Some(since);
                }
                _ => return Poll::Ready(Fault::new(Kind::RequestTimeout, self.why())),
            }
        }
    }

    fn wait(&mut self, alarm: &mut Alarm, now: Instant, pause: Duration) {
        // A stream is silent only if both directions are.
        let pause = if self.progress.is_stream() { Duration::MAX } else { pause };
        let mut left = (pause, Nearest::Pause);
        let is_waited = self.progress.reply.get() == ReplyState::Waited;
        if self.rate > 0 && is_waited && self.credit < left.0 {
            left = (self.credit, Nearest::Rate);
        }
        if let Some(end) = self.end {
            let until = end.saturating_duration_since(now);
            if until < left.0 {
                left = (until, Nearest::End);
            }
        }
        self.waiting = Some(now);
        self.nearest = left.1;
        alarm.set(now, left.0);
    }

    /// Records received bytes.
    pub(crate) fn received(&mut self, bytes: usize) {
        self.progress.moved.set(true);
        let Some(since) = self.waiting.take() else { return };
        let bytes = u64::try_from(bytes).unwrap_or(u64::MAX);
        if let Some(earned) = bytes.saturating_mul(1_000_000).checked_div(self.rate) {
            let left = self.credit.saturating_sub(since.elapsed());
            let credit = left.saturating_add(Duration::from_micros(earned));
            self.credit = credit.min(self.pause);
        }
    }

    fn why(&self) -> String {
        match self.nearest {
            Nearest::Pause => format!("the request's body paused for {:?}", self.pause),
            Nearest::Rate => {
                format!("the request's body arrived at less than {} bytes per second", self.rate)
            }
            Nearest::End => format!("the request's body took longer than {:?}", self.total),
        }
    }
}

impl Drop for Pace {
    fn drop(&mut self) {
        if let Some(alarm) = self.alarm.take() {
            alarm::give(alarm);
        }
    }
}

#[cfg(test)]
mod tests;
