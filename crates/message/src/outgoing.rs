//! A message on its way out over HTTP/1: head, body and framing, written as fast as the peer takes it.

use std::io;
use std::task::{Context, Poll};

use fault::Fault;
use kit::Wire;
use kit::scratch::{self, Scratch};

use crate::{Body, Fill};

/// What is left to write of one message. Between two polls it holds only what the peer has not taken yet.
pub struct Outgoing {
    /// Bytes built but not taken, from `sent` on.
    pending: Vec<u8>,
    sent: usize,
    /// The head, until the first poll writes it together with whatever there is of the body.
    head: Option<Scratch>,
    body: Body,
    chunked: bool,
    ended: bool,
    payload_bytes: u64,
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
    /// See [`Wire::poll_send`].
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Poll<io::Result<()>>;
}

impl Outlet for Wire {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        Wire::poll_send(self, cx, bytes, sent)
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
            chunked,
            ended: false,
            payload_bytes: 0,
            sent_bytes: 0,
        }
    }

    /// Everything is written.
    pub fn is_done(&self) -> bool {
        self.ended && self.pending.is_empty() && self.head.is_none()
    }

    /// After a pending poll: it is the peer that is slow, not the source.
    pub fn is_blocked(&self) -> bool {
        !self.pending.is_empty()
    }

    /// After a pending poll: it is the source that is slow.
    pub fn is_starved(&self) -> bool {
        !self.ended && self.pending.is_empty()
    }

    /// The body's length is not known before its end.
    pub fn is_endless(&self) -> bool {
        self.body.remaining().is_none()
    }

    /// Bytes the peer has taken so far, framing included.
    pub fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes of the body written so far, without framing.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
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
            let written = outlet.poll_send(cx, &out, &mut sent);
            self.sent_bytes += bytes(sent);
            match written {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(e)) => return Poll::Ready(Err(Broken::Peer(e))),
                Poll::Pending => {
                    self.keep(&out, sent);
                    return Poll::Pending;
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
        let from = sent.min(out.len().saturating_sub(1));
        self.pending = out.get(from..).unwrap_or_default().to_vec();
        self.sent = sent - from;
    }

    fn poll_pending(
        &mut self,
        cx: &mut Context<'_>,
        outlet: &mut impl Outlet,
    ) -> Poll<io::Result<()>> {
        if self.pending.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let before = self.sent;
        let written = outlet.poll_send(cx, &self.pending, &mut self.sent);
        self.sent_bytes += bytes(self.sent - before);
        if written.is_ready() {
            self.pending = Vec::new();
            self.sent = 0;
        }
        written
    }

    /// Appends body bytes with their framing until there are enough for a write, the source has none, or the end.
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<(), Fault>> {
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
            self.payload_bytes += bytes(added);
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
