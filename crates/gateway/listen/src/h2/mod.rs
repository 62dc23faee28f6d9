//! One HTTP/2 connection: reads frames, starts an exchange for each request, and writes the output of the exchanges.
//!
//! The connection's task owns the wire. Each exchange is a separate task. They share the session, which is never borrowed across an await.

mod body;
mod exchange;
mod reply;
mod stream;
mod tunnel;

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::{Fault, Kind};
use http1::{Parts, TargetForm, Version};
use http2::{Block, Config, Event, Head, Session};
use kit::clock::{self, Instant};
use kit::scratch::{self, SCRATCH_BYTES, Scratch};
use kit::task::Unwritten;
use kit::{Alarm, Wire};
use message::{Headers, Protocol, RequestHead};
use plan::Listener;

use crate::connection::Connection;
use crate::head::{limits, refusal, refused_method};
use crate::lingering_close;
use crate::task_pool;
use crate::write_progress::WriteProgress;
use exchange::{NewExchange, RefusedHead};
use stream::{SharedConnection, Stream};

pub(crate) fn is_preface(bytes: &[u8]) -> bool {
    bytes.starts_with(http2::PREFACE)
}

/// True if these bytes begin with the preface, or are the beginning of one.
pub(crate) fn may_be_preface(bytes: &[u8]) -> bool {
    // Harmless: `zip` ends with the shorter of the two, beyond which there is nothing to compare.
    bytes.iter().zip(http2::PREFACE).all(|(a, b)| a == b) && !bytes.is_empty()
}

/// The maximum time for the last frames of a connection: for the client to acknowledge a GOAWAY, and to accept what is written at the end.
const LAST_FRAMES_MAX: Duration = Duration::from_secs(1);

/// The maximum number of times in a row that a connection skips reading because too many requests are unanswered. It then reads
/// nevertheless, since other connections may keep adding requests. For a hundred connections with a hundred requests each, 64 was too low.
const PUT_OFF_MAX: u32 = 256;

struct H2 {
    connection: Rc<Connection>,
    listener: Arc<Listener>,
    shared: Rc<SharedConnection>,
    /// Bytes that were read but are not a complete frame yet, or were left for later.
    unread: Vec<u8>,
    /// True if TLS may have unsent data.
    unflushed: bool,
    phase: Phase,
    alarm: Alarm,
    /// True if data has arrived since the alarm was set.
    has_received: bool,
    /// The time up to which the client's resets have been forgiven, or `None` if there are none.
    unforgiven: Option<Instant>,
    write_progress: WriteProgress,
    /// The number of times that the connection has skipped reading since it last read.
    put_off: u32,
}

/// What the connection waits for. The alarm limits how long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The first frames, or the rest of a head.
    Beginning,
    /// A request.
    Idle,
    /// The ends of its streams. If the client is silent for too long meanwhile, it gets a ping.
    Busy,
    /// The answer to the ping.
    Asked,
    /// The end of a connection whose client got a GOAWAY.
    Leaving,
}

/// Why a connection ended.
enum EndReason {
    /// It was closed regularly.
    Over,
    /// The client has gone.
    Gone(io::Error),
    /// The client violates the protocol.
    Wrong(http2::Error),
    /// The client does not answer.
    Silent,
    /// The drain time of its listener is over.
    Cut,
}

/// Serves a connection to its end. `early` has the bytes that were already read.
pub(crate) async fn serve(wire: Wire, early: Vec<u8>, connection: Connection) {
    let listener = connection.permit.listener_state.listener();
    let config = Config {
        streams_max: listener.limits.streams_max,
        head_bytes_max: listener.limits.head_bytes_max,
    };
    let mut h2 = H2 {
        connection: Rc::new(connection),
        shared: SharedConnection::new(Session::new(config), wire),
        listener,
        unread: early,
        unflushed: false,
        phase: Phase::Beginning,
        alarm: Alarm::default(),
        has_received: false,
        unforgiven: None,
        write_progress: WriteProgress::default(),
        put_off: 0,
    };
    h2.alarm.set(clock::now(), h2.time(Phase::Beginning));
    let ended = poll_fn(|cx| h2.poll(cx)).await;
    h2.end(ended).await;
}

impl H2 {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        self.shared.written_by(cx.waker());
        loop {
            let read = match self.poll_read(cx) {
                Ok(read) => read,
                Err(ended) => return Poll::Ready(ended),
            };
            if self.connection.permit.is_closing(cx.waker()) {
                if self.connection.permit.listener_state.is_cutting() {
                    return Poll::Ready(EndReason::Cut);
                }
                self.shared.session().leave();
            }
            let written = match self.poll_write(cx) {
                Ok(written) => written,
                Err(error) => return Poll::Ready(EndReason::Gone(error)),
            };
            if written && self.shared.session().is_over() {
                return Poll::Ready(EndReason::Over);
            }
            // Once everything is written, continues a read that stopped because too much was unwritten.
            if !(written && read == ReadState::Full) {
                return self.poll_time(cx);
            }
        }
    }

    /// Reads while there is data and room for the answers.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Result<ReadState, EndReason> {
        if self.unread.is_empty() && self.shared.wire().poll_readable(cx).is_pending() {
            // The task was not woken by new data, but for example by an exchange that has data to write.
            return Ok(ReadState::Nothing);
        }
        // Even a few connections may send more requests than the CPU cache can hold until their replies are written.
        if kit::task::has_read_enough() && self.put_off < PUT_OFF_MAX {
            self.put_off += 1;
            cx.waker().wake_by_ref();
            return Ok(ReadState::Nothing);
        }
        self.put_off = 0;
        let mut input = scratch::lend();
        input.append(&mut self.unread);
        let read = loop {
            self.take_frames(&mut input).map_err(EndReason::Wrong)?;
            if self.shared.session().is_full() {
                break ReadState::Full;
            }
            let read = self.shared.wire().poll_read_into(cx, &mut input, SCRATCH_BYTES);
            match read {
                Poll::Ready(Ok(0)) => {
                    return Err(EndReason::Gone(io::ErrorKind::UnexpectedEof.into()));
                }
                Poll::Ready(Ok(_)) => {
                    self.has_received = true;
                    self.forgive();
                }
                Poll::Ready(Err(error)) => return Err(EndReason::Gone(error)),
                Poll::Pending => break ReadState::Nothing,
            }
        };
        self.unread = if input.is_empty() { Vec::new() } else { input.to_vec() };
        Ok(read)
    }

    /// Forgives some resets for each second that has passed. Does not read the clock if the client has reset nothing, which is usual.
    fn forgive(&mut self) {
        let mut session = self.shared.session();
        if !session.has_resets() {
            self.unforgiven = None;
            return;
        }
        let now = clock::now();
        let since = *self.unforgiven.get_or_insert(now);
        let passed = now.duration_since(since).as_secs();
        if passed > 0 {
            self.unforgiven = Some(now);
            let seconds = u32::try_from(passed).unwrap_or(u32::MAX);
            session.reset_flood_count(seconds.saturating_mul(http2::RESETS_PER_SECOND));
        }
    }

    /// Processes complete frames at the front of the input.
    fn take_frames(&mut self, input: &mut Scratch) -> Result<(), http2::Error> {
        let mut at = 0;
        let mut block = Block::default();
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            if block.bytes.capacity() == 0 && http2::contains_header_lines(rest) {
                block = empty_block();
            }
            let mut session = self.shared.session();
            let Some(read) = session.read(rest, &mut block)? else { break };
            let is_full = session.is_full();
            drop(session);
            at += read.len;
            match read.event {
                Event::Nothing => {}
                Event::Request { stream, head } => {
                    self.begin(stream, &head, std::mem::take(&mut block));
                }
            }
            if is_full {
                break;
            }
        }
        input.drain(..at);
        if block.bytes.capacity() > 0 {
            drop(Headers::of(block.bytes, block.lines));
        }
        Ok(())
    }

    /// Starts the exchange of a stream.
    fn begin(&mut self, number: u32, head: &Head, block: Block) {
        self.connection.permit.listener_state.refresh(&mut self.listener);
        let exchange = NewExchange {
            connection: self.connection.clone(),
            listener: self.listener.clone(),
            stream: Stream::new(self.shared.clone(), number),
            head: self.request_head(head, block),
            is_tunnel: head.protocol.is_some(),
            unwritten: Unwritten::new(),
        };
        task_pool::start(exchange);
    }

    /// Converts a head to the form of HTTP/1. Refuses one that breaks the rules for HTTP/1 heads.
    fn request_head(&self, head: &Head, block: Block) -> Result<RequestHead, RefusedHead> {
        let checked = self.check(head, &block);
        let headers = Headers::of(block.bytes, block.lines);
        if let Err(fault) = checked {
            let content_type = headers.get("content-type").map(<[u8]>::to_vec);
            return Err(RefusedHead { fault, content_type });
        }
        let mut request = RequestHead::parsed(headers, Protocol::Http2, head.method, head.target);
        if head.protocol.is_some() {
            tunnel::ask(&mut request);
        }
        Ok(request)
    }

    fn check(&self, head: &Head, block: &Block) -> Result<(), Fault> {
        let Head { method, target, authority, is_too_large, .. } = *head;
        if is_too_large {
            let lines = block.lines.len();
            return Err(Fault::new(
                Kind::HeadTooLarge,
                format!("the head exceeds a limit after {lines} header lines"),
            ));
        }
        refused_method(method.of(&block.bytes))?;
        let (bytes, lines) = (&*block.bytes, &*block.lines);
        let version = Version::Http11;
        let parts = Parts { bytes, method, target, authority, version, lines };
        let checked = http1::check_request(&parts, &limits(&self.listener));
        let checked = checked.map_err(|error| refusal(&error))?;
        if !matches!(checked.form, TargetForm::Origin | TargetForm::Asterisk) {
            return Err(refusal(&http1::Error::Target));
        }
        head.protocol.map_or(Ok(()), |protocol| tunnel::check(protocol.of(bytes)))
    }

    /// True when everything has been written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut session = self.shared.session();
        if session.unsent().is_empty() && !self.unflushed {
            return Ok(true);
        }
        let mut sent = 0;
        let written = self.shared.wire().poll_send(cx, session.unsent(), &mut sent);
        session.sent(sent);
        self.unflushed = written.is_pending();
        match written {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(false),
        }
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let phase = self.shared.phase(self.phase, !self.unread.is_empty());
        if phase != self.phase {
            self.enter(phase);
        }
        while self.alarm.poll(cx).is_ready() {
            if let Some(ended) = self.on_alarm() {
                return Poll::Ready(ended);
            }
        }
        Poll::Pending
    }

    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.has_received = false;
        self.shared.session().rest();
        let now = clock::now();
        self.alarm.set(now, self.time(phase));
        self.connection.permit.set_idle((phase == Phase::Idle).then_some(now));
    }

    fn time(&self, phase: Phase) -> Duration {
        let timeout = &self.listener.timeout;
        match phase {
            Phase::Idle | Phase::Busy => timeout.idle,
            Phase::Beginning | Phase::Asked => timeout.head,
            Phase::Leaving => timeout.head.min(LAST_FRAMES_MAX),
        }
    }

    /// Handles the alarm of the current phase. Returns a reason if the connection has to end.
    fn on_alarm(&mut self) -> Option<EndReason> {
        let mut session = self.shared.session();
        let next = match self.phase {
            Phase::Beginning | Phase::Idle => {
                session.leave();
                Phase::Leaving
            }
            Phase::Busy if self.has_received => Phase::Busy,
            Phase::Busy => {
                session.ping();
                self.write_progress = WriteProgress::since(&self.shared.wire());
                Phase::Asked
            }
            Phase::Asked if self.has_received => Phase::Busy,
            // The ping may not have reached the client yet.
            Phase::Asked
                if self.write_progress.has_progressed(&self.shared.wire())
                    && self.write_progress.has_unacknowledged() =>
            {
                Phase::Busy
            }
            Phase::Asked => return Some(EndReason::Silent),
            // The client does not read or does not answer in time.
            Phase::Leaving => return Some(EndReason::Over),
        };
        drop(session);
        self.shared.write_soon();
        self.enter(next);
        None
    }

    /// Informs the client of the reason, if there is one to report, and ends its streams.
    async fn end(mut self, ended: EndReason) {
        let name = &self.listener.name;
        match &ended {
            EndReason::Over => {}
            EndReason::Gone(error) => {
                tracing::debug!(listener = name, "HTTP/2 connection: {error}")
            }
            EndReason::Wrong(error) => {
                tracing::debug!(listener = name, "HTTP/2 connection: {error}")
            }
            EndReason::Silent => {
                tracing::debug!(listener = name, "HTTP/2 connection: the client does not answer");
            }
            EndReason::Cut => {
                tracing::debug!(listener = name, "HTTP/2 connection: the drain time is over")
            }
        }
        match ended {
            EndReason::Over => self.shared.session().refuse(),
            EndReason::Wrong(error) => self.shared.session().fail(&error),
            EndReason::Gone(_) | EndReason::Silent | EndReason::Cut => {
                return self.shared.session().abandon();
            }
        }
        self.shared.session().abandon();
        let last = poll_fn(|cx| match self.poll_write(cx) {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(()),
        });
        // Harmless: a client that does not accept the last frames in time only misses the reason for the end.
        let _ = tokio::time::timeout(LAST_FRAMES_MAX, last).await;
        lingering_close::linger(&mut self.shared.take_wire()).await;
    }
}

#[derive(PartialEq, Eq)]
enum ReadState {
    /// There is nothing to read now, or reading was put off.
    Nothing,
    /// There may be more to read, but too much is unwritten.
    Full,
}

/// Memory for the next head.
fn empty_block() -> Block {
    let (bytes, lines) = Headers::memory();
    Block { bytes, lines }
}
