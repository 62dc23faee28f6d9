//! The client's side of an HTTP/1 connection: bytes that were read but not used yet, and the current request's body. The connection's loop
//! and the body share this state, since both read from the same stream.

use std::cell::RefCell;
use std::io;
use std::ops::Deref;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use fault::{Fault, Kind};
use http1::Decoder;
use kit::clock::{self, Instant};
use kit::scratch::{self, SCRATCH_BYTES};
use kit::{Alarm, Wire};
use message::{Fill, ReplyHead, Source, Trailers, WriteTarget};
use policy::InterimReplies;

use crate::pace::{BodyProgress, Pace};

/// A connection's state, shared within its task.
pub(crate) type ClientHandle = Rc<SharedClient>;

/// The shared state of a connection. It also receives the upstream's interim replies.
pub(crate) struct SharedClient(RefCell<Client>);

impl SharedClient {
    pub(crate) fn new(wire: Wire) -> ClientHandle {
        Rc::new(SharedClient(RefCell::new(Client::new(wire))))
    }
}

impl Deref for SharedClient {
    type Target = RefCell<Client>;

    fn deref(&self) -> &RefCell<Client> {
        &self.0
    }
}

pub(crate) struct Client {
    pub(crate) wire: Wire,
    /// Bytes read but not used: the beginning of a head, or data after a request.
    pub(crate) buffer: Vec<u8>,
    /// How much of the head in the buffer was already parsed.
    pub(crate) partial: http1::Partial,
    /// The current request's body.
    pub(crate) decoder: Decoder,
    /// True if a `100 Continue` has to be sent before the body is read.
    owes_continue: bool,
    /// The unwritten rest of interim replies.
    interim: Vec<u8>,
    /// Payload of the current request, read so far.
    pub(crate) body_bytes: u64,
    /// True if the client has closed its sending side.
    pub(crate) half_closed: bool,
    /// The checks whether the client still reads. Created once the client has closed its sending side.
    probe: Option<Box<Probe>>,
    /// The time limits for the current request's body, or `None` if all of it arrived with its head.
    pace: Option<Box<Pace>>,
}

/// The checks of a client that has closed its side.
struct Probe {
    alarm: Alarm,
    pause: Duration,
    /// The time after which the client counts as gone.
    until: Instant,
}

/// The wait before the first check of a client that has closed its sending side. Most replies are sent sooner, so most clients are never
/// checked.
const FIRST_PROBE: Duration = Duration::from_secs(1);

/// The wait before the second check. It doubles for each further check. A reset in answer to the first check has arrived by then.
const NEXT_PROBE: Duration = Duration::from_millis(500);

/// How long a request continues without a reply after its client has closed its sending side. Patient clients wait this long, and it is
/// also the default timeout for buffering. A client that has left must not keep services busy for longer.
const HALF_CLOSED_MAX: Duration = Duration::from_secs(30);

const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// The maximum size of buffered data after the current request. Further pipelined data is read later.
const PIPELINED_BYTES_MAX: usize = 64 * 1024;

/// The maximum size of interim replies that the client has not taken yet. Further ones are dropped.
const INTERIM_BYTES_MAX: usize = 16 * 1024;

impl Client {
    fn new(wire: Wire) -> Client {
        Client {
            wire,
            buffer: Vec::new(),
            partial: http1::Partial::default(),
            decoder: Decoder::new(http1::Framing::None),
            owes_continue: false,
            interim: Vec::new(),
            body_bytes: 0,
            half_closed: false,
            probe: None,
            pace: None,
        }
    }

    /// Starts a request's body. `expected` is true if the client waits for a 100 before it sends the body.
    pub(crate) fn begin_body(&mut self, framing: http1::Framing, expected: bool) {
        self.pace = None;
        self.probe = None;
        self.decoder = Decoder::new(framing);
        self.body_bytes = 0;
        self.owes_continue = expected && self.buffer.is_empty();
    }

    /// Applies the listener's time limits to a body that is still arriving.
    pub(crate) fn expect_body(&mut self, listener: &plan::Listener) {
        self.pace = Some(Box::new(Pace::of(listener, BodyProgress::default())));
    }

    /// Notes that the reply begins, whether or not all of the body was read.
    pub(crate) fn begin_reply(&self) {
        if let Some(pace) = &self.pace {
            pace.progress().begin_reply();
        }
    }

    /// The progress of the rest of the body, if there is any.
    pub(crate) fn progress(&self) -> Option<BodyProgress> {
        self.pace.as_ref().map(|pace| pace.progress().clone())
    }

    /// True if the client still waits for a 100 before it sends its body.
    pub(crate) fn is_waiting_for_continue(&self) -> bool {
        self.owes_continue
    }

    /// Writes pending interim replies.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.interim.is_empty() {
            let mut sent = 0;
            let written = self.wire.poll_send(cx, &self.interim, &mut sent);
            self.interim.drain(..sent.min(self.interim.len()));
            ready!(written)?;
        }
        self.interim = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Appends the next bytes of the body to `out`.
    pub(crate) fn poll_body(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<Fill, Fault>> {
        let before = out.len();
        let read = self.poll_body_inner(cx, out);
        let came = out.len().saturating_sub(before);
        self.body_bytes += u64::try_from(came).unwrap_or(u64::MAX);
        match (read, &mut self.pace) {
            (Poll::Pending, Some(pace)) => pace.poll_late(cx).map(Err),
            // A body that has arrived needs no time limit.
            (Poll::Pending, None) => Poll::Pending,
            (Poll::Ready(read), pace) => {
                if let Some(pace) = pace {
                    pace.received(came);
                }
                Poll::Ready(
                    read.map(|()| if self.decoder.is_done() { Fill::End } else { Fill::More }),
                )
            }
        }
    }

    fn poll_body_inner(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
    ) -> Poll<Result<(), Fault>> {
        if self.decoder.is_done() {
            return Poll::Ready(Ok(()));
        }
        if !self.buffer.is_empty() {
            let taken = self.decoder.decode(&self.buffer, out).map_err(malformed)?;
            self.buffer.drain(..taken.min(self.buffer.len()));
            if self.buffer.is_empty() {
                self.buffer = Vec::new();
            }
            return Poll::Ready(Ok(()));
        }
        if std::mem::take(&mut self.owes_continue) {
            self.interim.extend_from_slice(CONTINUE);
        }
        ready!(self.poll_interim(cx)).map_err(gone)?;
        let read = match self.decoder.remaining() {
            Some(n) => {
                let room = usize::try_from(n).unwrap_or(SCRATCH_BYTES).min(SCRATCH_BYTES);
                let read = ready!(self.wire.poll_read_into(cx, out, room)).map_err(gone)?;
                self.decoder.advance(read);
                read
            }
            None => {
                let mut input = scratch::lend();
                let read = ready!(self.wire.poll_read_into(cx, &mut input, SCRATCH_BYTES))
                    .map_err(gone)?;
                let taken = self.decoder.decode(&input, out).map_err(malformed)?;
                self.buffer.extend_from_slice(input.get(taken..).unwrap_or_default());
                read
            }
        };
        match read {
            0 => Poll::Ready(Err(Fault::new(
                Kind::ClientGone,
                "the client closed within its request's body",
            ))),
            _ => Poll::Ready(Ok(())),
        }
    }

    /// Ready when the client leaves before its reply is complete. Here, a client that has only closed its sending side counts as gone.
    pub(crate) fn poll_gone(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let broken = self.poll_broken(cx);
        if self.half_closed { Poll::Ready(()) } else { broken }
    }

    /// True if nothing has arrived since a task began to wait in [`Client::poll_gone`], and the task still waits.
    pub(crate) fn is_silent(&self) -> bool {
        self.interim.is_empty() && self.wire.has_no_read_event()
    }

    /// Writes as much as the client accepts now, and returns the number of bytes. An error is reported when the client's task writes the
    /// rest.
    pub(crate) fn write_now(&self, bytes: &[u8]) -> usize {
        if self.interim.is_empty() {
            // Harmless: the error occurs again when the client's task writes the rest.
            self.wire.write_now(bytes).unwrap_or_default()
        } else {
            0
        }
    }

    /// Ready when the client has gone before its reply begins. A client that has only closed its sending side looks the same at first. So,
    /// if it accepts interim replies, it gets some at intervals: a client that still waits ignores them, and the system of one that has
    /// left answers with a reset. In any case, such a client counts as gone after [`HALF_CLOSED_MAX`].
    pub(crate) fn poll_left(&mut self, cx: &mut Context<'_>, takes_interim: bool) -> Poll<()> {
        let broken = self.poll_broken(cx);
        if broken.is_ready() || !self.half_closed {
            return broken;
        }
        let mut probe = self.probe.take().unwrap_or_else(Probe::begin);
        while probe.alarm.poll(cx).is_ready() {
            let now = clock::now();
            let left = probe.until.saturating_duration_since(now);
            if left.is_zero() {
                return Poll::Ready(());
            }
            probe.alarm.set(now, probe.pause.min(left));
            probe.pause = probe.pause.saturating_mul(2);
            if takes_interim && self.interim.is_empty() {
                self.interim.extend_from_slice(CONTINUE);
            }
            if let Poll::Ready(Err(_)) = self.poll_interim(cx) {
                return Poll::Ready(());
            }
        }
        self.probe = Some(probe);
        Poll::Pending
    }

    /// Ready when the connection fails before its reply is complete. A client that has closed its sending side may still wait for the
    /// reply. Buffers pipelined data meanwhile. The rest of a body stays in the socket for its reader.
    pub(crate) fn poll_broken(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if let Poll::Ready(Err(_)) = self.poll_interim(cx) {
            return Poll::Ready(());
        }
        while self.decoder.is_done() && !self.half_closed && self.buffer.len() < PIPELINED_BYTES_MAX
        {
            ready!(self.wire.poll_readable(cx));
            let mut ahead = scratch::lend();
            match ready!(self.wire.poll_read_into(cx, &mut ahead, SCRATCH_BYTES)) {
                Ok(0) => self.half_closed = true,
                Ok(_) => self.buffer.extend_from_slice(&ahead),
                Err(_) => return Poll::Ready(()),
            }
        }
        Poll::Pending
    }
}

impl Probe {
    fn begin() -> Box<Probe> {
        let (mut alarm, now) = (Alarm::default(), clock::now());
        alarm.set(now, FIRST_PROBE);
        let until = now.checked_add(HALF_CLOSED_MAX).unwrap_or(now);
        Box::new(Probe { alarm, pause: NEXT_PROBE, until })
    }
}

impl InterimReplies for SharedClient {
    fn pass(&self, _: u32, head: &ReplyHead) {
        let Ok(mut client) = self.try_borrow_mut() else { return };
        let before = client.interim.len();
        head.write_to(&mut client.interim);
        client.interim.extend_from_slice(b"\r\n");
        if client.interim.len() > INTERIM_BYTES_MAX {
            tracing::debug!(
                "an interim reply is dropped: it is too large, or the client does not read the earlier ones"
            );
            // Harmless: this is logged, and the final reply has all information.
            client.interim.truncate(before);
        }
    }
}

fn malformed(error: http1::Error) -> Fault {
    Fault::new(Kind::Malformed, format!("body: {error}"))
}

fn gone(error: io::Error) -> Fault {
    Fault::new(Kind::ClientGone, format!("reading the request's body: {error}"))
}

/// The current request's body as a source.
pub(crate) struct ClientBody(pub(crate) ClientHandle);

impl Source for ClientBody {
    fn poll_fill(&mut self, cx: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<Fill, Fault>> {
        self.0.borrow_mut().poll_body(cx, out)
    }

    fn remaining(&self) -> Option<u64> {
        self.0.borrow().decoder.remaining()
    }

    fn trailers(&mut self) -> Trailers {
        self.0.borrow().decoder.trailers().to_vec()
    }

    fn may_trail(&self) -> bool {
        self.0.borrow().decoder.is_chunked()
    }

    fn expects_continue(&self) -> bool {
        self.0.borrow().is_waiting_for_continue()
    }
}

/// The writing side of the client's connection. It is borrowed only during a write, so that the body can be read in
/// between.
pub(crate) struct ClientWriter<'a>(pub(crate) &'a ClientHandle);

impl WriteTarget for ClientWriter<'_> {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        pieces: [&[u8]; 2],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        let mut client = self.0.borrow_mut();
        ready!(client.poll_interim(cx))?;
        client.wire.poll_send_two(cx, pieces, sent)
    }
}

#[cfg(test)]
mod tests;
