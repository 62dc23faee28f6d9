//! Two streams joined after an upgrade: bytes pass both ways until both ends are done.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kit::scratch::{self, SCRATCH_BYTES};
use kit::{Alarm, Wire, clock};
use tokio::io::AsyncWrite;

/// Bytes that passed each way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) up: u64,
    pub(crate) down: u64,
}

/// How long a tunnel may be silent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Silence {
    /// Both ways, while both ends are open.
    pub(crate) open: Duration,
    /// Once one end is done and only the other may still say something.
    pub(crate) half_closed: Duration,
}

/// Joins two streams. What was read of each before goes to the other first. An error on either side ends both, and so does silence.
pub(crate) async fn join(
    (mut client, from_client): (Wire, Vec<u8>),
    (mut upstream, from_upstream): (Wire, Vec<u8>),
    silence: Silence,
    closing: impl Fn(&Context<'_>) -> bool,
) -> (Passed, io::Result<()>) {
    let mut up = Direction::new(from_client);
    let mut down = Direction::new(from_upstream);
    let mut alarm = Alarm::default();
    alarm.set(clock::now(), silence.open);
    let ended = poll_fn(|cx| {
        if closing(cx) {
            return Poll::Ready(Ok(()));
        }
        let before = (up.progress(), down.progress());
        let is_up = up.poll(cx, &mut client, &mut upstream)?.is_ready();
        let is_down = down.poll(cx, &mut upstream, &mut client)?.is_ready();
        if is_up && is_down {
            return Poll::Ready(Ok(()));
        }
        if before != (up.progress(), down.progress()) {
            let longest = if is_up || is_down { silence.half_closed } else { silence.open };
            alarm.set(clock::now(), longest);
        }
        ready!(alarm.poll(cx));
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "nothing passed for too long")))
    });
    let ended = ended.await;
    (Passed { up: up.passed, down: down.passed }, ended)
}

/// One way through a tunnel.
struct Direction {
    /// Read and not yet taken by the other side, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    passed: u64,
    state: State,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    /// The reader is done; the writer is being told.
    Closing,
    Closed,
}

impl Direction {
    fn new(pending: Vec<u8>) -> Direction {
        Direction { pending, sent: 0, passed: 0, state: State::Open }
    }

    /// Another value whenever something was taken, or the end came.
    fn progress(&self) -> (u64, usize, State) {
        (self.passed, self.sent, self.state)
    }

    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Wire,
        to: &mut Wire,
    ) -> Poll<io::Result<()>> {
        loop {
            if !self.pending.is_empty() {
                ready!(to.poll_send(cx, &self.pending, &mut self.sent))?;
                self.passed += u64::try_from(self.pending.len()).unwrap_or_default();
                (self.pending, self.sent) = (Vec::new(), 0);
            }
            match self.state {
                State::Open => ready!(self.poll_pass(cx, from, to))?,
                State::Closing => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Closed;
                }
                State::Closed => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads once and writes what the other side takes; the rest is kept, and nothing more is read until it is gone.
    fn poll_pass(
        &mut self,
        cx: &mut Context<'_>,
        from: &mut Wire,
        to: &mut Wire,
    ) -> Poll<io::Result<()>> {
        let mut bytes = scratch::lend();
        let read = ready!(from.poll_read_into(cx, &mut bytes, SCRATCH_BYTES))?;
        if read == 0 {
            self.state = State::Closing;
            return Poll::Ready(Ok(()));
        }
        let mut sent = 0;
        match to.poll_send(cx, &bytes, &mut sent) {
            Poll::Ready(result) => {
                result?;
                self.passed += u64::try_from(read).unwrap_or_default();
            }
            Poll::Pending => {
                let from = sent.min(bytes.len().saturating_sub(1));
                self.pending = bytes.get(from..).unwrap_or_default().to_vec();
                self.sent = sent - from;
                self.passed += u64::try_from(from).unwrap_or_default();
            }
        }
        Poll::Ready(Ok(()))
    }
}
