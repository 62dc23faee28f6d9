//! A message on its way out over HTTP/1: head, body and framing, written as fast as the peer takes it.

use std::io;
use std::task::{Context, Poll};

use fault::Fault;
use kit::Wire;
use kit::scratch::{self, LARGE_BYTES, Scratch};

use crate::{Body, Fill};

/// What is left to write of one message. Between two polls it holds only what the peer has not taken yet.
pub struct Outgoing {
    /// Bytes built but not taken, from `sent` on, which counts over them and a large body behind them.
    pending: Vec<u8>,
    sent: usize,
    /// The head, until the first poll writes it together with whatever there is of the body.
    head: Option<Scratch>,
    body: Body,
    /// The body is large and at hand: it is written as it stands.
    large: bool,
    chunked: bool,
    ended: bool,
    /// The body is not asked for its bytes yet.
    held: bool,
    /// Bytes of the body that were asked for, written or not.
    made_bytes: u64,
    sent_bytes: u64,
}

/// Which end of the copying broke.
#[derive(Debug)]
pub enum Broken {
    /// The peer that is written to.
    Peer(io::Error),
    /// Where the body comes from.
    Source(Fault),
}

/// Where an outgoing message goes. Asked anew for every write, so that it may be shared with a body that reads from
/// the same connection.
pub trait Outlet {
    /// See [`Wire::poll_send_two`].
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
        sent: &mut usize,
    ) -> Poll<io::Result<()>>;
}

impl Outlet for Wire {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        self.poll_send_two(cx, pieces, sent)
    }
}

impl Outgoing {
    /// `head` is complete, blank line included. Bodies of unknown length must be chunked, or end with the connection.
    pub fn new(head: Scratch, body: Body, chunked: bool) -> Outgoing {
        Outgoing {
            pending: Vec::new(),
            sent: 0,
            head: Some(head),
            body,
            large: false,
            chunked,
            ended: false,
            held: false,
            made_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// Writes the head alone until [`Outgoing::release`].
    pub fn hold_body(&mut self) {
        self.held = true;
    }

    /// From the next poll on the body is written.
    pub fn release(&mut self) {
        self.held = false;
    }

    /// The body waits to be released.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// The body, as far as it was not asked for its bytes.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Everything is written.
    pub fn is_done(&self) -> bool {
        self.ended && !self.is_blocked() && self.head.is_none()
    }

    /// After a pending poll: it is the peer that is slow, not the source.
    pub fn is_blocked(&self) -> bool {
        !self.pending.is_empty() || self.large
    }

    /// After a pending poll: it is the source that is slow.
    pub fn is_starved(&self) -> bool {
        !self.ended && !self.held && !self.is_blocked()
    }

    /// The body's length is not known before its end.
    pub fn is_endless(&self) -> bool {
        self.body.remaining().is_none()
    }

    /// Bytes the peer has taken so far, framing included.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes of the body written so far, without the framing of what was.
    pub fn payload_bytes(&self) -> u64 {
        let unsent = (self.pending.len() + self.at_hand().len()).saturating_sub(self.sent);
        self.made_bytes.saturating_sub(bytes(unsent))
    }

    /// Writes what can be written now; ready when all is out.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        outlet: &mut impl Outlet,
    ) -> Poll<Result<(), Broken>> {
        loop {
            if self.poll_pending(cx, outlet).map_err(Broken::Peer)?.is_pending() {
                return Poll::Pending;
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let mut out = self.head.take().unwrap_or_else(scratch::lend);
            let filled = match self.poll_fill(cx, &mut out) {
                Poll::Ready(Err(fault)) => {
                    self.keep(&out, 0);
                    return Poll::Ready(Err(Broken::Source(fault)));
                }
                Poll::Ready(Ok(())) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            };
            if out.is_empty() && filled.is_pending() {
                return Poll::Pending;
            }
            let mut sent = 0;
            let written = outlet.poll_send(cx, [&out, self.at_hand()], &mut sent);
            self.sent_bytes += bytes(sent);
            match written {
                Poll::Ready(Ok(())) => self.let_go(),
                Poll::Ready(Err(_)) | Poll::Pending => {
                    self.keep(&out, sent);
                    return written.map_err(Broken::Peer);
                }
            }
            if filled.is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// After the source broke: writes what it gave before, as far as the peer takes it at once.
    pub fn flush(&mut self, cx: &mut Context<'_>, outlet: &mut impl Outlet) {
        // The message is broken already; that its last piece does not arrive either adds nothing.
        let _unsent = self.poll_pending(cx, outlet);
    }

    /// Keeps what was not taken. Where only a flush still waits, one sent byte is kept to remember that.
    fn keep(&mut self, out: &[u8], sent: usize) {
        let from = sent.min((out.len() + self.at_hand().len()).saturating_sub(1));
        self.pending = out.get(from..).unwrap_or_default().to_vec();
        if let (Body::Whole(all), true) = (&mut self.body, self.large) {
            *all = all.slice(from.saturating_sub(out.len())..);
        }
        self.sent = sent - from;
    }

    /// A large body, as far as it is not written.
    fn at_hand(&self) -> &[u8] {
        match &self.body {
            Body::Whole(all) if self.large => all,
            Body::Whole(_) | Body::Empty | Body::Stream(_) => &[],
        }
    }

    /// A large body is written.
    fn let_go(&mut self) {
        if std::mem::take(&mut self.large) {
            self.body = Body::Empty;
        }
    }

    fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        outlet: &mut impl Outlet,
    ) -> Poll<io::Result<()>> {
        if !self.is_blocked() {
            return Poll::Ready(Ok(()));
        }
        let before = self.sent;
        let mut sent = before;
        let written = outlet.poll_send(cx, [&self.pending, self.at_hand()], &mut sent);
        self.sent_bytes += bytes(sent - before);
        self.sent = sent;
        if written.is_ready() {
            self.pending = Vec::new();
            self.let_go();
            self.sent = 0;
        }
        written
    }

    /// Puts a large body that is at hand behind `out`, or appends body bytes with their framing until there are enough for a write, the source has none, or the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Fault>> {
        if self.held {
            return Poll::Pending;
        }
        if let (Body::Whole(all), false) = (&self.body, self.chunked)
            && all.len() >= LARGE_BYTES
        {
            self.made_bytes += bytes(all.len());
            self.large = true;
            self.ended = true;
        }
        while !self.ended && out.len() < scratch::SCRATCH_BYTES {
            let start = out.len();
            let fill = match self.body.poll_fill(cx, out) {
                Poll::Ready(Ok(fill)) => fill,
                Poll::Ready(Err(fault)) => {
                    // It has no frame yet.
                    out.truncate(start);
                    return Poll::Ready(Err(fault));
                }
                Poll::Pending => return Poll::Pending,
            };
            let added = out.len() - start;
            self.made_bytes += bytes(added);
            if self.chunked && added > 0 {
                frame(out, start, added);
            }
            if fill == Fill::End {
                self.ended = true;
                let trailers = self.body.trailers();
                if self.chunked {
                    http1::last_chunk(&trailers, out);
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn bytes(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Makes the last `len` bytes a chunk: size line in front, line end behind.
fn frame(out: &mut Vec<u8>, start: usize, len: usize) {
    let end = out.len();
    http1::chunk_header(len, out);
    let header_len = out.len() - end;
    if let Some(tail) = out.get_mut(start..) {
        tail.rotate_right(header_len);
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes some bytes at a time, then makes the writer wait; with `flushing` it waits once more when it has all.
    struct Slow {
        at_a_time: usize,
        taken: Vec<u8>,
        full: bool,
        flushing: bool,
    }

    impl Outlet for Slow {
        fn poll_send(
            &mut self,
            _: &mut Context<'_>,
            pieces: [&[u8]; 2],
            sent: &mut usize,
        ) -> Poll<io::Result<()>> {
            let all = pieces.concat();
            self.full = !self.full;
            if self.full {
                return Poll::Pending;
            }
            let end = all.len().min(*sent + self.at_a_time);
            self.taken.extend_from_slice(&all[*sent..end]);
            *sent = end;
            match end < all.len() || std::mem::take(&mut self.flushing) {
                true => Poll::Pending,
                false => Poll::Ready(Ok(())),
            }
        }
    }

    #[test]
    fn a_body_leaves_whole_whatever_the_peer_takes_at_a_time() {
        for len in [0, 1, LARGE_BYTES - 1, LARGE_BYTES, 3 * LARGE_BYTES] {
            for at_a_time in [1, 7, 8, 1000, LARGE_BYTES, usize::MAX / 2] {
                if len / at_a_time > 1000 && at_a_time < 8 {
                    continue;
                }
                let body: Vec<u8> = (0u8..=250).cycle().take(len).collect();
                let mut head = scratch::lend();
                head.extend_from_slice(b"head\r\n\r\n");
                let mut outgoing = Outgoing::new(head, Body::whole(body.clone().into()), false);
                let mut slow = Slow { at_a_time, taken: Vec::new(), full: true, flushing: true };
                let mut cx = Context::from_waker(Waker::noop());
                while outgoing.poll(&mut cx, &mut slow).map(Result::unwrap).is_pending() {
                    assert!(outgoing.is_blocked() && !outgoing.is_done() && !outgoing.is_starved());
                    let taken = slow.taken.len().saturating_sub(8);
                    assert_eq!(outgoing.payload_bytes(), bytes(taken), "{len} by {at_a_time}");
                }
                assert!(outgoing.is_done() && !outgoing.is_blocked());
                assert_eq!(outgoing.payload_bytes(), bytes(len));
                assert_eq!(outgoing.sent_bytes(), bytes(len + 8));
                assert!(slow.taken == [b"head\r\n\r\n", &*body].concat(), "{len} by {at_a_time}");
            }
        }
    }
}
