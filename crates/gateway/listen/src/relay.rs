//! Joins the two sides of a tunnel through a policy that inspects the data.

use std::cell::Cell;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use kit::scratch::{self, Scratch};
use kit::{Alarm, Wire, clock};
use policy::{Outbox, Relay, TunnelSide};
use telemetry::StreamEnd;
use tokio::io::Interest;
use tokio::task::coop;

use crate::stream_lifetime::StreamLifetime;
use crate::tunnel_parts::{PassedBytes, Silence, TunnelEnd};

/// The maximum capacity of a buffer that is kept for the next tunnel. The data of one read fits.
const ROOM_BYTES_MAX: usize = 2 * READ_BYTES;

/// The size of one read. If the other side is slow, all of the data stays in memory, and there may be many such tunnels.
const READ_BYTES: usize = 16 << 10;

/// Unused capacity above this is freed while a side is slow.
const UNUSED_BYTES_MAX: usize = 4 << 10;

/// The time for sending the last bytes of a tunnel that has ended. A side that does not read must not keep it open.
const LAST_BYTES_MAX: Duration = Duration::from_secs(5);

thread_local! {
    /// Buffers for the data to each side. A tunnel uses them while it is polled, and keeps only data that its side does not
    /// take at once. So the memory used for each message stays in the cache, and silent tunnels have no buffers.
    static ROOM: [Cell<Vec<u8>>; 2] = const { [Cell::new(Vec::new()), Cell::new(Vec::new())] };
}

/// Joins two streams through a relay. The tunnel ends when the relay is over, when both sides have been silent for too long, or when it had
/// to leave and its drain is over. Returns the client's stream, unless the client is gone, so that its last bytes are not lost to a reset.
///
/// The future runs as a separate task, so that a message wakes only this task, and not those of the connection and the exchange. If
/// thousands of tunnels have a message now and then, the state of a tunnel is no longer in the cache when its next message arrives.
pub(crate) fn join(
    client: TunnelEnd,
    upstream: TunnelEnd,
    relay: Box<dyn Relay>,
    silence: Silence,
    mut alarm: Alarm,
    stay: StreamLifetime,
) -> impl Future<Output = RelayOutcome> {
    let mut relayed = RelayState {
        relay,
        out: Outbox::default(),
        client: RelayEnd::new(client.wire),
        upstream: RelayEnd::new(upstream.wire),
        is_leaving: false,
        is_over: false,
    };
    relayed.relay.on_bytes(TunnelSide::Client, &client.first_bytes, &mut relayed.out);
    relayed.relay.on_bytes(TunnelSide::Upstream, &upstream.first_bytes, &mut relayed.out);
    alarm.set(clock::now(), silence.open);
    let mut was_over = false;
    // A future reserves space for the values that it destructures, so this block captures only what it needs.
    async move {
        let ended = poll_fn(|cx| {
            relayed.is_leaving = stay.has_to_leave(cx);
            if relayed.is_leaving && stay.poll_over(cx).is_ready() {
                relayed.cut(StreamEnd::Leaving, cx);
                return Poll::Ready(Ok(()));
            }
            if relayed.poll(cx, || alarm.set(clock::now(), silence.open)).is_ready() {
                return Poll::Ready(Ok(()));
            }
            if relayed.is_over && !std::mem::replace(&mut was_over, true) {
                alarm.set(clock::now(), LAST_BYTES_MAX);
            }
            ready!(alarm.poll(cx));
            if was_over {
                return Poll::Ready(Ok(()));
            }
            relayed.cut(StreamEnd::Idle, cx);
            Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no data passed for too long")))
        });
        let ended = ended.await;
        let RelayState { client, upstream, .. } = relayed;
        let passed = PassedBytes { up: upstream.passed(), down: client.passed() };
        (passed, ended, (!client.is_gone).then_some(client.wire))
    }
}

/// The result of a tunnel: the bytes in each direction, how it ended, and the client's stream.
type RelayOutcome = (PassedBytes, io::Result<()>, Option<Wire>);

struct RelayState {
    relay: Box<dyn Relay>,
    out: Outbox,
    client: RelayEnd,
    upstream: RelayEnd,
    /// True if it has to end as soon as possible.
    is_leaving: bool,
    /// True if only the last bytes have to be sent.
    is_over: bool,
}

/// One side of the tunnel.
struct RelayEnd {
    wire: Wire,
    /// The number of bytes of its outbox that it has taken.
    sent: usize,
    /// The number of bytes that it took before those in the outbox.
    sent_before: u64,
    /// True if the task is woken when data arrives from it.
    is_watched: bool,
    /// True if it sends no more data.
    has_ended: bool,
    /// True if it accepts no more data.
    is_gone: bool,
}

impl RelayState {
    /// Forwards available data. Ready when the tunnel is over. Calls `moved` whenever data has arrived.
    fn poll(&mut self, cx: &mut Context<'_>, moved: impl FnMut()) -> Poll<()> {
        lend_room(&mut self.out);
        let passed = self.pass(cx, moved);
        take_room_back(&mut self.out);
        passed
    }

    /// Ends it at once. Data that a side does not take now is lost.
    fn cut(&mut self, why: StreamEnd, cx: &mut Context<'_>) {
        self.relay.cut(why, &mut self.out);
        self.is_over = true;
        // Harmless: the tunnel is cut, which is recorded.
        let _ = self.poll(cx, || ());
    }

    fn pass(&mut self, cx: &mut Context<'_>, mut moved: impl FnMut()) -> Poll<()> {
        let RelayState { relay, out, client, upstream, is_leaving, is_over } = self;
        let mut bytes = scratch::lend();
        // A side without data is not read again before it wakes the task.
        let [mut client_may_have, mut upstream_may_have] = [client.may_have(), upstream.may_have()];
        loop {
            // The data just read may have completed a message, after which the tunnel can end.
            if *is_leaving {
                relay.leave(out);
            }
            *is_over |= relay.poll_over(cx, out).is_ready();
            let is_sent = [
                client.poll_send(cx, &mut out.client).is_ready(),
                upstream.poll_send(cx, &mut out.upstream).is_ready(),
            ];
            if *is_over {
                match is_sent {
                    [true, true] => return Poll::Ready(()),
                    [_, _] => return Poll::Pending,
                }
            }
            let [client_is_free, upstream_is_free] = is_sent;
            let mut has_come = false;
            if upstream_is_free && client_may_have {
                let read = client.poll_read(cx, &mut bytes, relay, TunnelSide::Client, out);
                client_may_have = read.is_ready();
                has_come |= client_may_have;
            }
            if client_is_free && upstream_may_have {
                let read = upstream.poll_read(cx, &mut bytes, relay, TunnelSide::Upstream, out);
                upstream_may_have = read.is_ready();
                has_come |= upstream_may_have;
            }
            if !has_come {
                return Poll::Pending;
            }
            moved();
        }
    }
}

/// Gives a buffer to each outbox without one.
fn lend_room(out: &mut Outbox) {
    ROOM.with(|rooms| {
        // Harmless: there is a buffer for each side.
        for (room, out) in rooms.iter().zip([&mut out.client, &mut out.upstream]) {
            if out.capacity() == 0 {
                *out = room.take();
            }
        }
    });
}

/// Takes the buffer back that an outbox does not need until the next poll.
fn take_room_back(out: &mut Outbox) {
    ROOM.with(|rooms| {
        // Harmless: there is a buffer for each side.
        for (room, out) in rooms.iter().zip([&mut out.client, &mut out.upstream]) {
            if out.is_empty() {
                let mut out = std::mem::take(out);
                out.shrink_to(ROOM_BYTES_MAX);
                room.set(out);
            }
        }
    });
}

impl RelayEnd {
    fn new(wire: Wire) -> RelayEnd {
        let (sent, sent_before, is_watched, has_ended, is_gone) = (0, 0, false, false, false);
        RelayEnd { wire, sent, sent_before, is_watched, has_ended, is_gone }
    }

    /// The number of bytes that it has taken.
    fn passed(&self) -> u64 {
        self.sent_before.saturating_add(u64::try_from(self.sent).unwrap_or(u64::MAX))
    }

    /// True if data may have arrived. Most wake-ups are for one side only, and this check is cheaper than reading from the other side.
    fn may_have(&self) -> bool {
        match &self.wire {
            Wire::Plain(socket) if self.is_watched => {
                socket.try_io(Interest::READABLE, || Ok(())).is_ok()
            }
            Wire::Plain(_) | Wire::Wrapped(_) => true,
        }
    }

    /// Ready once its outbox is empty.
    fn poll_send(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<()> {
        if out.is_empty() {
            return Poll::Ready(());
        }
        if !self.is_gone {
            match self.wire.poll_send(cx, out, &mut self.sent) {
                Poll::Ready(sent) => self.is_gone = sent.is_err(),
                Poll::Pending => {
                    self.wait_with(out);
                    return Poll::Pending;
                }
            }
        }
        (self.sent_before, self.sent) = (self.passed(), 0);
        out.clear();
        Poll::Ready(())
    }

    /// Frees memory that the data for a slow side does not need.
    fn wait_with(&mut self, out: &mut Vec<u8>) {
        let left = out.len().saturating_sub(self.sent);
        // If only a flush is pending, the bytes stay, since an empty outbox is not flushed.
        if left > 0 && out.capacity() - left > UNUSED_BYTES_MAX {
            out.drain(..self.sent);
            out.shrink_to_fit();
            (self.sent_before, self.sent) = (self.passed(), 0);
        }
    }

    /// Reads once. Ready if data or the end has arrived.
    fn poll_read(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &mut Scratch,
        relay: &mut Box<dyn Relay>,
        side: TunnelSide,
        out: &mut Outbox,
    ) -> Poll<()> {
        if self.has_ended {
            return Poll::Pending;
        }
        bytes.clear();
        let read = self.wire.poll_read_into(cx, bytes, READ_BYTES);
        // Without remaining budget, the read is pending although the socket was not checked, so the socket does not wake the task.
        self.is_watched = read.is_pending() && coop::has_budget_remaining();
        match ready!(read) {
            Ok(0) | Err(_) => {
                self.has_ended = true;
                relay.on_end(side, out);
            }
            Ok(_) => relay.on_bytes(side, bytes, out),
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt as _;

    use super::*;

    #[tokio::test]
    async fn a_slow_side_holds_little_more_than_its_unsent_data() {
        let (near, mut far) = tokio::io::duplex(1000);
        let mut side = RelayEnd::new(Wire::Wrapped(Box::new(near)));
        let message: Vec<u8> = (0..READ_BYTES).map(|n| n.to_le_bytes()[0]).collect();
        let mut out = Vec::with_capacity(4 * READ_BYTES);
        out.extend_from_slice(&message);
        let is_sent = poll_fn(|cx| Poll::Ready(side.poll_send(cx, &mut out).is_ready())).await;
        assert!(!is_sent);
        assert_eq!(side.passed(), 1000, "what it has taken counts at once");
        assert!(out.capacity() <= READ_BYTES - 1000 + UNUSED_BYTES_MAX, "{}", out.capacity());
        let mut came = vec![0; READ_BYTES];
        tokio::join!(poll_fn(|cx| side.poll_send(cx, &mut out)), async {
            far.read_exact(&mut came).await.unwrap();
        });
        assert!(came == message);
        assert_eq!(side.passed(), READ_BYTES as u64);
        let mut out = Outbox { client: out, upstream: Vec::with_capacity(10 * READ_BYTES) };
        take_room_back(&mut out);
        assert_eq!((out.client.capacity(), out.upstream.capacity()), (0, 0));
        lend_room(&mut out);
        assert!(out.client.capacity() > 0 && out.upstream.capacity() <= ROOM_BYTES_MAX);
    }
}
