//! Joins two streams after an upgrade: forwards bytes in both directions until both sides are done or have to leave.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use kit::scratch::{self, SCRATCH_BYTES, Scratch};
use kit::{SharedAlarm, Wire, clock};
use message::{Reply, Tunnel};
use pipeline::Account;
use plan::Listener;
use policy::TunnelSide;
use telemetry::StreamKind;
use tokio::io::AsyncWrite;

use crate::connection::Connection;
use crate::frames::{self, Frames, GOING_AWAY};
use crate::relay;
use crate::stream_lifetime::StreamLifetime;
use crate::tunnel_parts::{PassedBytes, Silence, TunnelEnd};

/// What a tunnel needs from its exchange.
pub(crate) struct TunnelSettings<'a> {
    pub(crate) account: &'a mut Account,
    pub(crate) connection: &'a Connection,
    pub(crate) listener: &'a Listener,
    pub(crate) alarm: &'a SharedAlarm,
}

/// True if a 101 switches to WebSocket.
pub(crate) fn is_websocket(reply: &Reply) -> bool {
    let protocol = reply.head.headers.get("upgrade").unwrap_or(b"");
    protocol.eq_ignore_ascii_case(b"websocket")
}

/// Forwards data in both directions until the end, through a policy if one inspects it, and counts it. Returns the client's stream if it
/// has to be closed carefully, so that its last bytes are not lost to a reset.
pub(crate) async fn run(
    client: TunnelEnd,
    tunnel: Tunnel,
    is_websocket: bool,
    TunnelSettings { account, connection, listener, alarm }: TunnelSettings<'_>,
) -> Option<Wire> {
    let kind = if is_websocket { StreamKind::WebSocket } else { StreamKind::Tunnel };
    let stay = StreamLifetime::begin(account, connection, kind, None);
    let timeout = &listener.timeout;
    let half_closed = timeout.idle.min(timeout.tunnel);
    let silence = Silence { open: stay.tunnel_silence(timeout.tunnel), half_closed };
    let upstream = TunnelEnd { wire: tunnel.wire, first_bytes: tunnel.first_bytes };
    let notes = account.ex.notes.as_mut();
    let (passed, ended, client) = match notes.and_then(|notes| notes.relay.take()) {
        Some(relay) => {
            let alarm = std::mem::take(&mut *alarm.borrow_mut());
            let relaying =
                kit::spawn(relay::join(client, upstream, relay, silence, alarm, stay)).await;
            let broke = |e| (PassedBytes::default(), Err(io::Error::other(e)), None);
            relaying.unwrap_or_else(broke)
        }
        None => join(client, upstream, is_websocket, silence, alarm, &stay).await,
    };
    account.request_bytes = passed.up;
    account.reply_bytes = passed.down;
    if let Err(e) = ended {
        tracing::debug!("tunnel: {e}");
    }
    client
}

/// Joins two streams. Bytes already read from one side are sent to the other first. An error on either side ends both, and so does silence.
/// A WebSocket that has to leave gets a Close frame on both sides, each between two messages, and ends once both have answered, or when its
/// drain is over. Returns the client's stream if the client was sent a Close frame when the tunnel was cut.
async fn join(
    client: TunnelEnd,
    upstream: TunnelEnd,
    is_websocket: bool,
    silence: Silence,
    alarm: &SharedAlarm,
    stay: &StreamLifetime,
) -> (PassedBytes, io::Result<()>, Option<Wire>) {
    let side = |side| is_websocket.then_some(side);
    let mut up = Direction::new(client.first_bytes, side(TunnelSide::Client));
    let mut down = Direction::new(upstream.first_bytes, side(TunnelSide::Upstream));
    let (mut client, mut upstream) = (client.wire, upstream.wire);
    let mut is_told = false;
    alarm.borrow_mut().set(clock::now(), silence.open);
    let ended = poll_fn(|cx| {
        if stay.has_to_leave(cx) {
            if stay.poll_over(cx).is_ready() {
                up.cut(cx, &mut upstream, GOING_AWAY);
                is_told = down.cut(cx, &mut client, stay.close_code());
                return Poll::Ready(Ok(()));
            }
            // If either side has already sent a Close frame, no other one is needed.
            if !up.is_closed() && !down.is_closed() {
                up.leave(GOING_AWAY);
                down.leave(stay.close_code());
            }
        }
        let before = (up.progress(), down.progress());
        let is_up = up.poll(cx, &mut client, &mut upstream)?.is_ready();
        let is_down = down.poll(cx, &mut upstream, &mut client)?.is_ready();
        if is_up && is_down {
            return Poll::Ready(Ok(()));
        }
        if before != (up.progress(), down.progress()) {
            let longest = if is_up || is_down { silence.half_closed } else { silence.open };
            alarm.borrow_mut().set(clock::now(), longest);
        }
        ready!(alarm.borrow_mut().poll(cx));
        up.cut(cx, &mut upstream, GOING_AWAY);
        is_told = down.cut(cx, &mut client, GOING_AWAY);
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no data passed for too long")))
    });
    let ended = ended.await;
    (PassedBytes { up: up.passed(), down: down.passed() }, ended, is_told.then_some(client))
}

/// One direction of a tunnel.
struct Direction {
    /// Data that the other side has not taken yet. It starts at `sent`.
    pending: Vec<u8>,
    sent: usize,
    /// The number of bytes that the other side took before those in `pending`.
    passed_before: u64,
    state: State,
    websocket: Option<WebSocket>,
}

/// The state of one direction of a WebSocket.
struct WebSocket {
    frames: Frames,
    /// The side that sends the frames. A Close frame for the other side is sent in the name of this side.
    from: TunnelSide,
    /// The code of this Close frame.
    code: u16,
}

#[derive(Clone, Copy, PartialEq)]
enum State {
    Open,
    /// Forwards up to the next position between two messages.
    Leaving,
    /// The Close frame was the last one forwarded. Later data up to the answer is discarded.
    Left,
    /// The reader has ended; the writer is being closed.
    Closing,
    Closed,
}

impl WebSocket {
    /// The Close frame for the other side.
    fn close(&self) -> Vec<u8> {
        frames::close(self.code, self.from == TunnelSide::Client)
    }
}

impl Direction {
    /// `from` is the sender of the data, if it is a WebSocket.
    fn new(pending: Vec<u8>, from: Option<TunnelSide>) -> Direction {
        let websocket = from.map(|from| {
            let mut frames = Frames::default();
            frames.pass(&pending);
            WebSocket { frames, from, code: GOING_AWAY }
        });
        Direction { pending, sent: 0, passed_before: 0, state: State::Open, websocket }
    }

    /// The number of bytes that the other side has taken.
    fn passed(&self) -> u64 {
        self.passed_before.saturating_add(u64::try_from(self.sent).unwrap_or(u64::MAX))
    }

    /// True if a Close frame has passed.
    fn is_closed(&self) -> bool {
        self.websocket.as_ref().is_some_and(|websocket| websocket.frames.is_closed())
    }

    /// Sends a Close frame, now or at the next position between two messages. Has no effect if this is not a
    /// WebSocket.
    fn leave(&mut self, code: u16) {
        let (State::Open, Some(websocket)) = (self.state, &mut self.websocket) else { return };
        websocket.code = code;
        self.state = if websocket.frames.is_between() {
            self.pending.extend(websocket.close());
            State::Left
        } else {
            State::Leaving
        };
    }

    /// Sends a Close frame at once, if none was sent yet and the last frame is complete. It may stand within a message. Returns
    /// true if the write did not block. Data that the other side does not take now is lost.
    fn cut(&mut self, cx: &mut Context<'_>, to: &mut Wire, code: u16) -> bool {
        let (State::Open | State::Leaving, Some(websocket)) = (self.state, &mut self.websocket)
        else {
            return false;
        };
        if websocket.frames.is_closed() || !websocket.frames.is_between_frames() {
            return false;
        }
        websocket.code = code;
        self.pending.extend(websocket.close());
        to.poll_send(cx, &self.pending, &mut self.sent).is_ready()
    }

    /// A value that changes with each forwarded piece and at the end.
    fn progress(&self) -> (u64, usize, State) {
        (self.passed_before, self.sent, self.state)
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
                self.passed_before = self.passed();
                (self.pending, self.sent) = (Vec::new(), 0);
            }
            match self.state {
                State::Open | State::Leaving => ready!(self.poll_pass(cx, from, to))?,
                State::Left if self.is_closed() => self.state = State::Closing,
                State::Left => ready!(self.poll_answer(cx, from))?,
                State::Closing => {
                    ready!(Pin::new(&mut *to).poll_shutdown(cx))?;
                    self.state = State::Closed;
                }
                State::Closed => return Poll::Ready(Ok(())),
            }
        }
    }

    /// Reads once and writes what the other side takes. The rest is kept, and no more is read until it is written.
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
        self.follow(&mut bytes);
        let mut sent = 0;
        match to.poll_send(cx, &bytes, &mut sent) {
            Poll::Ready(result) => {
                self.passed_before += u64::try_from(sent).unwrap_or(u64::MAX);
                result?;
            }
            Poll::Pending => {
                let from = sent.min(bytes.len().saturating_sub(1));
                self.pending = bytes.get(from..).unwrap_or_default().to_vec();
                self.sent = sent - from;
                self.passed_before += u64::try_from(from).unwrap_or(u64::MAX);
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Follows the frames of the data. If the direction has to leave and the data has a position between two messages, replaces everything
    /// after that position by the Close frame.
    fn follow(&mut self, bytes: &mut Scratch) {
        let Some(websocket) = &mut self.websocket else { return };
        if self.state != State::Leaving {
            return websocket.frames.pass(bytes);
        }
        let Some(passed) = websocket.frames.pass_to_between(bytes) else { return };
        let is_told = websocket.frames.is_closed();
        websocket.frames.pass(bytes.get(passed..).unwrap_or_default());
        // Harmless: the removed messages follow the Close frame, so the other side does not expect them.
        bytes.truncate(passed);
        if !is_told {
            bytes.extend_from_slice(&websocket.close());
        }
        self.state = State::Left;
    }

    /// Discards data until the side that was told to leave has answered or is gone.
    fn poll_answer(&mut self, cx: &mut Context<'_>, from: &mut Wire) -> Poll<io::Result<()>> {
        let mut bytes = scratch::lend();
        let read = ready!(from.poll_read_into(cx, &mut bytes, SCRATCH_BYTES))?;
        if read == 0 {
            self.state = State::Closing;
        }
        if let Some(websocket) = &mut self.websocket {
            websocket.frames.pass(&bytes);
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    /// A tunnel may be cut while its receiver is slow. The access log then has what the receiver took.
    #[tokio::test]
    async fn a_partly_sent_piece_counts_as_far_as_it_was_taken() {
        let (mut sender, from) = tokio::io::duplex(5000);
        let (to, mut receiver) = tokio::io::duplex(1000);
        let [mut from, mut to] = [from, to].map(|end| Wire::Wrapped(Box::new(end)));
        sender.write_all(&[7; 3000]).await.unwrap();
        let mut direction = Direction::new(vec![7; 10], None);
        for (passed, more) in [(1000, 400), (1400, 500), (1900, 500)] {
            let is_over = poll_fn(|cx| Poll::Ready(direction.poll(cx, &mut from, &mut to)));
            assert!(is_over.await.is_pending());
            assert_eq!(direction.passed(), passed);
            receiver.read_exact(&mut vec![0; more]).await.unwrap();
        }
    }
}
