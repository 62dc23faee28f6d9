//! The task of one connection to a target: connects, reads, writes, and watches the time limits.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use fault::Kind;
use http2::Block;
use kit::Alarm;
use kit::clock;
use kit::scratch::{self, SCRATCH_BYTES, Scratch};
use message::Headers;

use super::shared::{SharedConnection, State, StreamPermit};
use crate::Upstream;
use crate::connect::Connection;
use crate::pool::Pool;
use crate::roster::WorkerTarget;
use crate::settings::Timeouts;
use crate::target::Target;

/// A target that is silent for this long while exchanges wait for it gets a PING.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The time before the next PING if nothing but the answer to the last one has arrived. gRPC servers close connections with more than one
/// PING in five minutes.
const SILENCE_AGAIN: Duration = Duration::from_secs(330);

/// The time limit for the answer to a PING, and for the first frame of a connection.
const ANSWER_WAIT: Duration = Duration::from_secs(10);

/// The time in which the target has to take the last frames.
const LAST_FRAMES_WAIT: Duration = Duration::from_secs(1);

struct H2 {
    shared: Rc<SharedConnection>,
    connection: Connection,
    url: Arc<str>,
    timeouts: Timeouts,
    /// Bytes that were read but are not a complete frame yet, or were left for later.
    unread: Vec<u8>,
    /// True if TLS may have unsent data.
    unflushed: bool,
    phase: Phase,
    alarm: Alarm,
    /// True if data has arrived since the alarm was set.
    has_received: bool,
    /// The number of bytes written.
    written: u64,
    /// The value of `written` when the PING was sent.
    written_before: u64,
}

/// What the connection waits for. The alarm limits how long.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// Waits for the target's settings.
    Beginning,
    /// Waits for an exchange.
    Idle,
    /// Waits for the replies to exchanges.
    Busy,
    /// Waits for the answer to a PING.
    Asked,
    /// As `Busy`, after the target has answered a PING but sent nothing else.
    Quiet,
}

/// Why a connection ended.
enum EndReason {
    /// It was closed in the regular way.
    Over,
    Gone(io::Error),
    /// It does not speak HTTP/2.
    Wrong(http2::Error),
    Http1,
    /// It does not answer.
    Silent,
}

/// Opens a connection for the exchanges that wait for it, and serves it to its end.
pub(super) async fn open(
    shared: Rc<SharedConnection>,
    upstream: Arc<Upstream>,
    pool: Rc<Pool>,
    place: Rc<WorkerTarget>,
) {
    let offer = upstream.settings.protocol.offer();
    let opened = Box::pin(upstream.connect_now(&place.target, pool.worker(), offer)).await;
    let (connection, is_http2) = match opened {
        Ok(opened) => opened,
        Err(fault) => return shared.set_state(State::Over(fault.kind, fault.cause.into())),
    };
    if !is_http2 {
        place.connections.borrow_mut().note_http1();
        pool.give(&place, connection, clock::now());
        return shared.set_state(State::Http1);
    }
    if let Some(address) = connection.address.as_deref() {
        shared.address.get_or_init(|| *address);
    }
    let timeouts = upstream.settings.timeout.clone();
    let h2 = H2::new(shared, connection, &place.target, timeouts);
    // Dropped here, so that an upstream that a reload has removed can be freed.
    drop((upstream, pool, place));
    h2.serve().await;
}

/// Returns a permit for a stream on a separate connection, for a health check. The connection ends when the permit is dropped.
pub(crate) fn apart(
    upstream: &Arc<Upstream>,
    connection: Connection,
    target: &Target,
) -> StreamPermit {
    let shared = SharedConnection::new(State::Opening);
    let permit = StreamPermit::apart(shared.clone(), upstream.clone(), telemetry::BACKGROUND);
    let h2 = H2::new(shared.clone(), connection, target, upstream.settings.timeout.clone());
    drop(kit::spawn(Box::pin(h2.serve())));
    shared.close();
    permit
}

impl H2 {
    fn new(
        shared: Rc<SharedConnection>,
        connection: Connection,
        target: &Target,
        timeouts: Timeouts,
    ) -> H2 {
        H2 {
            shared,
            connection,
            url: target.url().clone(),
            timeouts,
            unread: Vec::new(),
            unflushed: false,
            phase: Phase::Beginning,
            alarm: Alarm::default(),
            has_received: false,
            written: 0,
            written_before: 0,
        }
    }

    async fn serve(mut self) {
        self.alarm.set(clock::now(), self.time(Phase::Beginning));
        self.shared.set_state(State::Open);
        self.count_idle(1);
        let ended = poll_fn(|cx| self.poll(cx)).await;
        self.end(ended).await;
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        self.shared.served_by(cx.waker());
        loop {
            let read = match self.poll_read(cx) {
                Ok(read) => read,
                Err(ended) => return Poll::Ready(ended),
            };
            if self.shared.is_closing() && self.shared.permits() == 0 {
                return Poll::Ready(EndReason::Over);
            }
            let written = match self.poll_write(cx) {
                Ok(written) => written,
                Err(error) => return Poll::Ready(EndReason::Gone(error)),
            };
            if written && self.shared.permits() == 0 && self.shared.session().is_leaving() {
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
        let mut input = scratch::lend();
        input.append(&mut self.unread);
        let read = loop {
            self.take_frames(&mut input)?;
            if self.shared.session().is_full() {
                break ReadState::Full;
            }
            match self.connection.wire.poll_read_into(cx, &mut input, SCRATCH_BYTES) {
                Poll::Ready(Ok(0)) => {
                    return Err(EndReason::Gone(io::ErrorKind::UnexpectedEof.into()));
                }
                Poll::Ready(Ok(_)) => {
                    self.has_received = true;
                    self.shared.note_received();
                }
                Poll::Ready(Err(error)) => return Err(EndReason::Gone(error)),
                Poll::Pending => break ReadState::Nothing,
            }
        };
        self.unread = if input.is_empty() { Vec::new() } else { input.to_vec() };
        Ok(read)
    }

    /// Processes complete frames at the front of the input.
    fn take_frames(&mut self, input: &mut Scratch) -> Result<(), EndReason> {
        let mut session = self.shared.session();
        if !session.has_begun() && input.starts_with(b"HTTP/1.") {
            return Err(EndReason::Http1);
        }
        let mut at = 0;
        let mut block = empty_block();
        while let Some(rest) = input.get(at..).filter(|rest| !rest.is_empty()) {
            let Some(read) = session.read(rest, &mut block).map_err(EndReason::Wrong)? else {
                break;
            };
            at += read.len;
            if block.bytes.capacity() == 0 {
                // The last block was moved into a reply's head.
                block = empty_block();
            }
            if session.is_full() {
                break;
            }
        }
        input.drain(..at);
        drop(Headers::of(block.bytes, block.lines));
        Ok(())
    }

    /// True when everything has been written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> io::Result<bool> {
        let mut session = self.shared.session();
        if session.unsent().is_empty() && !self.unflushed {
            return Ok(true);
        }
        let mut sent = 0;
        let written = self.connection.wire.poll_send(cx, session.unsent(), &mut sent);
        session.sent(sent);
        self.written += sent as u64;
        self.unflushed = written.is_pending();
        match written {
            Poll::Ready(Ok(())) => Ok(true),
            Poll::Ready(Err(error)) => Err(error),
            Poll::Pending => Ok(false),
        }
    }

    fn poll_time(&mut self, cx: &mut Context<'_>) -> Poll<EndReason> {
        let phase = self.phase_now();
        if phase != self.phase {
            self.enter(phase);
        }
        while self.alarm.poll(cx).is_ready() {
            match self.on_alarm() {
                Ok(next) => self.enter(next),
                Err(ended) => return Poll::Ready(ended),
            }
        }
        Poll::Pending
    }

    fn phase_now(&self) -> Phase {
        let is_idle = self.shared.permits() == 0;
        match self.phase {
            Phase::Beginning if !self.shared.session().has_begun() => Phase::Beginning,
            Phase::Asked if !self.has_received => Phase::Asked,
            _ if self.shared.is_suspect() => Phase::Asked,
            _ if is_idle => Phase::Idle,
            Phase::Asked => Phase::Quiet,
            Phase::Quiet if !self.has_received => Phase::Quiet,
            Phase::Beginning | Phase::Idle | Phase::Busy | Phase::Quiet => Phase::Busy,
        }
    }

    fn enter(&mut self, phase: Phase) {
        if phase == Phase::Asked {
            let mut session = self.shared.session();
            session.ping();
            drop(session);
            self.written_before = self.written;
            self.shared.wake_task();
        }
        self.phase = phase;
        self.has_received = false;
        self.shared.session().rest();
        self.alarm.set(clock::now(), self.time(phase));
    }

    fn time(&self, phase: Phase) -> Duration {
        match phase {
            Phase::Idle => self.timeouts.idle,
            Phase::Busy => self.timeouts.idle.min(SILENCE_MAX),
            Phase::Quiet => SILENCE_AGAIN,
            Phase::Beginning | Phase::Asked => self.timeouts.response.min(ANSWER_WAIT),
        }
    }

    /// The alarm has fired. Returns the next phase, or the reason to end.
    fn on_alarm(&mut self) -> Result<Phase, EndReason> {
        match self.phase {
            Phase::Idle => Err(EndReason::Over),
            Phase::Busy | Phase::Quiet if self.has_received => Ok(Phase::Busy),
            Phase::Busy | Phase::Quiet => Ok(Phase::Asked),
            // The PING may not have reached the target yet, since the target is still accepting earlier data.
            Phase::Asked if self.written > self.written_before && self.unflushed => {
                Ok(Phase::Asked)
            }
            Phase::Beginning | Phase::Asked => Err(EndReason::Silent),
        }
    }

    /// Notifies the exchanges, and sends the target a GOAWAY if it may still read one.
    async fn end(mut self, ended: EndReason) {
        self.count_idle(-1);
        let url = &self.url;
        let (kind, why) = match &ended {
            EndReason::Over => (Kind::UpstreamReset, format!("{url}: the connection has ended")),
            EndReason::Gone(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                (Kind::UpstreamReset, format!("{url}: closed the connection before its reply"))
            }
            EndReason::Gone(error) => {
                (Kind::UpstreamReset, format!("{url}: closed before its reply: {error}"))
            }
            EndReason::Wrong(error) => (Kind::UpstreamMalformed, format!("{url}: HTTP/2: {error}")),
            EndReason::Http1 => (Kind::UpstreamMalformed, format!("{url}: {SPEAKS_HTTP1}")),
            EndReason::Silent => (Kind::UpstreamTimeout, format!("{url}: {}", self.silence())),
        };
        match self.shared.permits() {
            0 => tracing::debug!(target = %url, "HTTP/2 connection has ended: {why}"),
            _ => tracing::debug!(target = %url, "HTTP/2 connection broke: {why}"),
        }
        self.shared.set_state(State::Over(kind, why.into()));
        match &ended {
            EndReason::Over => self.shared.session().send_goaway(),
            EndReason::Wrong(error) => self.shared.session().fail(error),
            EndReason::Gone(_) | EndReason::Http1 | EndReason::Silent => {
                return self.shared.session().abandon();
            }
        }
        self.shared.session().abandon();
        let last = poll_fn(|cx| match self.poll_write(cx) {
            Ok(false) => Poll::Pending,
            Ok(true) | Err(_) => Poll::Ready(()),
        });
        // Harmless: a target that does not accept the last frames in time only misses the reason for the end.
        let _ = tokio::time::timeout(LAST_FRAMES_WAIT, last).await;
    }

    /// Adds `n` to the number of idle connections if this one has no exchanges. While it is open, its permits update that number.
    fn count_idle(&self, n: i64) {
        if self.shared.permits() == 0 {
            self.connection.open.metrics().connections_idle.add(n);
        }
    }

    fn silence(&self) -> &'static str {
        match self.phase {
            Phase::Beginning => "no SETTINGS of HTTP/2 in time",
            Phase::Idle | Phase::Busy | Phase::Asked | Phase::Quiet => {
                "it is silent, and does not answer a PING"
            }
        }
    }
}

/// The cause if a target answers with HTTP/1.
const SPEAKS_HTTP1: &str = "it answers with HTTP/1.1, but this upstream's `protocol` is http2";

#[derive(PartialEq, Eq)]
enum ReadState {
    /// There is nothing to read.
    Nothing,
    /// There may be more to read, but too much output is unwritten.
    Full,
}

/// Memory for the next head.
fn empty_block() -> Block {
    let (bytes, lines) = Headers::memory();
    Block { bytes, lines }
}
