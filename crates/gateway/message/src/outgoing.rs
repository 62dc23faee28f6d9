//! A message being written over HTTP/1: head, body and framing, as fast as the peer accepts it.

use std::io;
use std::rc::Rc;
use std::task::{Context, Poll};

use fault::Fault;
use kit::Wire;
use kit::scratch::{self, LARGE_BYTES, Scratch};

use crate::chunk::frame;
use crate::{Body, DirectBytes, DirectWriter, Fill};

/// The unwritten part of one message. Between two polls it holds only bytes that the peer has not accepted.
pub struct Outgoing {
    /// Bytes that were built but not sent.
    pending: Vec<u8>,
    /// Number of bytes already sent of `pending`, and of a large body that follows it.
    sent: usize,
    /// The head, until the first poll writes it together with the available part of the body.
    head: Option<Scratch>,
    body: Body,
    /// Whether the body is large and in memory, so that it is written without being copied.
    large: bool,
    chunked: bool,
    ended: bool,
    /// Whether the body must not be pulled yet.
    held: bool,
    /// Number of body bytes that were pulled, whether written or not.
    made_bytes: u64,
    sent_bytes: u64,
}

/// The side on which copying the body failed.
#[derive(Debug)]
pub enum CopyError {
    /// The peer that is being written to.
    Peer(io::Error),
    /// The source of the body.
    Source(Fault),
}

/// The connection that an outgoing message is written to. Borrowed anew for every write, so that it can be shared with a body that reads
/// from the same connection.
pub trait WriteTarget {
    /// See [`Wire::poll_send_two`].
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
        sent: &mut usize,
    ) -> Poll<io::Result<()>>;
}

impl WriteTarget for Wire {
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
    /// `head` must be complete, including the empty line. A body of unknown length must be chunked or end with the connection.
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

    /// Writes only the head until [`Outgoing::release`] is called.
    pub fn hold_body(&mut self) {
        self.held = true;
    }

    /// Allows the body to be written from the next poll on.
    pub fn release(&mut self) {
        self.held = false;
    }

    /// Returns true if the body is being held back.
    pub fn is_held(&self) -> bool {
        self.held
    }

    /// Returns the part of the body that has not been pulled.
    pub fn into_body(self) -> Body {
        self.body
    }

    /// Returns true if everything has been written.
    pub fn is_done(&self) -> bool {
        self.ended && !self.is_blocked() && self.head.is_none()
    }

    /// Returns true if the last poll stopped because the peer is slow.
    pub fn is_blocked(&self) -> bool {
        !self.pending.is_empty() || self.large
    }

    /// Returns true if the last poll stopped because the source is slow.
    pub fn is_starved(&self) -> bool {
        !self.ended && !self.held && !self.is_blocked()
    }

    /// Returns true if the length of the body is unknown until it ends.
    pub fn has_unknown_length(&self) -> bool {
        self.body.remaining().is_none()
    }

    /// Returns the number of bytes the peer has accepted so far, including framing.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Returns the number of body bytes written so far, without framing.
    pub fn payload_bytes(&self) -> u64 {
        let unsent = (self.pending.len() + self.at_hand().len()).saturating_sub(self.sent);
        self.made_bytes.saturating_sub(bytes(unsent))
    }

    /// Returns true if the body is sent in chunks.
    pub fn is_chunked(&self) -> bool {
        self.chunked
    }

    /// See [`crate::Source::write_directly`].
    pub fn write_directly(&mut self, writer: &Rc<dyn DirectWriter>) -> bool {
        self.is_starved() && self.head.is_none() && self.body.write_directly(writer)
    }

    /// Accounts for the bytes that a direct writer has accepted since the task last waited.
    pub fn take_over(&mut self, taken: DirectBytes) {
        self.made_bytes += taken.made_bytes;
        self.sent_bytes += taken.sent_bytes;
        self.pending.extend_from_slice(&taken.rest);
    }

    /// Writes as much as possible now. Ready when everything has been written.
    pub fn poll(
        &mut self,
        cx: &mut Context<'_>,
        target: &mut impl WriteTarget,
    ) -> Poll<Result<(), CopyError>> {
        loop {
            if self.poll_pending(cx, target).map_err(CopyError::Peer)?.is_pending() {
                return Poll::Pending;
            }
            if self.ended {
                return Poll::Ready(Ok(()));
            }
            let mut out = self.head.take().unwrap_or_else(scratch::lend);
            let filled = match self.poll_fill(cx, &mut out) {
                Poll::Ready(Err(fault)) => {
                    self.keep(&out, 0);
                    return Poll::Ready(Err(CopyError::Source(fault)));
                }
                Poll::Ready(Ok(())) => Poll::Ready(()),
                Poll::Pending => Poll::Pending,
            };
            if out.is_empty() && filled.is_pending() {
                return Poll::Pending;
            }
            let mut sent = 0;
            let written = target.poll_send(cx, [&out, self.at_hand()], &mut sent);
            self.sent_bytes += bytes(sent);
            match written {
                Poll::Ready(Ok(())) => self.drop_written_body(),
                Poll::Ready(Err(_)) | Poll::Pending => {
                    self.keep(&out, sent);
                    return written.map_err(CopyError::Peer);
                }
            }
            if filled.is_pending() {
                return Poll::Pending;
            }
        }
    }

    /// After a failure of the source, writes the bytes received before it, as far as the peer accepts them at once.
    pub fn flush(&mut self, cx: &mut Context<'_>, target: &mut impl WriteTarget) {
        // Harmless: the message is incomplete already, so losing its last bytes changes nothing.
        let _ = self.poll_pending(cx, target);
    }

    /// Keeps the bytes that were not sent. If only a flush is pending, keeps one sent byte as a marker.
    fn keep(&mut self, out: &[u8], sent: usize) {
        let from = sent.min((out.len() + self.at_hand().len()).saturating_sub(1));
        self.pending = out.get(from..).unwrap_or_default().to_vec();
        if let (Body::Whole(all, _), true) = (&mut self.body, self.large) {
            *all = all.slice(from.saturating_sub(out.len())..);
        }
        self.sent = sent - from;
    }

    /// Returns the unwritten part of a large body.
    fn at_hand(&self) -> &[u8] {
        match &self.body {
            Body::Whole(all, _) if self.large => all,
            Body::Whole(..) | Body::Empty | Body::Stream(_) => &[],
        }
    }

    /// Drops a large body once it has been written.
    fn drop_written_body(&mut self) {
        if std::mem::take(&mut self.large) {
            self.body = Body::Empty;
        }
    }

    fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        target: &mut impl WriteTarget,
    ) -> Poll<io::Result<()>> {
        if !self.is_blocked() {
            return Poll::Ready(Ok(()));
        }
        let before = self.sent;
        let mut sent = before;
        let written = target.poll_send(cx, [&self.pending, self.at_hand()], &mut sent);
        self.sent_bytes += bytes(sent - before);
        self.sent = sent;
        if written.is_ready() {
            self.pending = Vec::new();
            self.drop_written_body();
            self.sent = 0;
        }
        written
    }

    /// For a large body in memory, makes it the part written after `out`. For any other body, appends framed bytes until there are enough
    /// for a write, the source has none, or the body ends.
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Fault>> {
        if self.held {
            return Poll::Pending;
        }
        if let (Body::Whole(all, _), false) = (&self.body, self.chunked)
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
                    // Harmless: these bytes are not in a chunk yet, and the fault is reported.
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
            match fill {
                Fill::More => {}
                Fill::Later => return Poll::Pending,
                Fill::End => {
                    self.ended = true;
                    let trailers = self.body.trailers();
                    if self.chunked {
                        http1::last_chunk(&trailers, out);
                    }
                }
            }
        }
        Poll::Ready(Ok(()))
    }
}

fn bytes(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// A peer that accepts at most `at_a_time` bytes and then blocks. With `flushing`, it blocks once more after the last byte.
    struct Slow {
        at_a_time: usize,
        taken: Vec<u8>,
        full: bool,
        flushing: bool,
    }

    impl WriteTarget for Slow {
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
            if end < all.len() || std::mem::take(&mut self.flushing) {
                Poll::Pending
            } else {
                Poll::Ready(Ok(()))
            }
        }
    }

    #[test]
    fn a_body_is_sent_completely_however_little_the_peer_accepts_at_a_time() {
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
