//! The time that a request's body may take to come.
//!
//! Three bounds, of which the nearest counts: a pause, the whole body, and a rate. The rate is an account of time: it begins
//! with as much as a pause may take, each byte that comes puts its share in, never more than that again, and waiting for the
//! client takes it out. So a client that is fast may pause, and one that sends a byte now and then is given up as if it had
//! paused. Only waiting for the client counts, not what the upstream makes it wait.

use std::cell::Cell;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fault::{Fault, Kind};
use kit::alarm::{self, Alarm, SharedAlarm};
use kit::clock::{self, Instant};
use plan::Listener;

/// The bounds of one body, and what is used up of them.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Allowed between two pieces.
    pause: Duration,
    /// Bytes a second; 0 for any.
    rate: u64,
    /// The time that may be waited before the rate is missed.
    credit: Duration,
    /// When the whole body has to be there.
    end: Option<Instant>,
    total: Duration,
    /// Since when the client is waited for.
    waiting: Option<Instant>,
    nearest: Nearest,
    progress: BodyProgress,
    /// Taken when it is first needed: most bodies are there when they are asked for.
    alarm: Option<SharedAlarm>,
}

/// What the two directions of an exchange know of each other while its body is still coming.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    reply: Cell<ReplyState>,
    /// Some of the body came since that was last asked.
    moved: Cell<bool>,
}

pub(crate) type BodyProgress = Rc<Progress>;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ReplyState {
    #[default]
    Waited,
    /// It has begun: what is answered while it is still sent is a conversation, and its pace is its peers' business.
    Begun,
    /// It is a stream, and whoever sends it sees to silence in both directions.
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

    /// True if some of the body came since this was last asked.
    pub(crate) fn has_moved(&self) -> bool {
        self.moved.replace(false)
    }

    fn is_stream(&self) -> bool {
        self.reply.get() == ReplyState::Stream
    }
}

/// The reason for which the alarm was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Nearest {
    Pause,
    Rate,
    End,
}

impl Pace {
    /// For a body that begins now.
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

    /// Nothing came: ready with the fault when that has lasted too long.
    pub(crate) fn poll_late(&mut self, cx: &mut Context<'_>) -> Poll<Fault> {
        let alarm = self.alarm.get_or_insert_with(alarm::take).clone();
        let mut alarm = alarm.borrow_mut();
        if self.waiting.is_none() {
            self.wait(&mut alarm, clock::now(), self.pause);
        }
        loop {
            ready!(alarm.poll(cx));
            // It began to be answered meanwhile.
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
        // The silence of a stream is that of both directions.
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

    /// So much of the body came.
    pub(crate) fn came(&mut self, bytes: usize) {
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
                format!("the request's body came at less than {} bytes a second", self.rate)
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
