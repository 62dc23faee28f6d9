//! Calls over HTTP/2, plain or unary gRPC, with a constant number in progress. Each reply must contain the message of its call.
//!
//! Owns the connections and the requests in progress on each. It runs on one thread with one epoll.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll as TaskPoll, Waker};
use std::time::{Duration, Instant};

use http2::{Block, BodyPiece, Config, RequestLine, Session};
use mio::{Events, Poll, Token};

use super::compiled::{write_digits, write_letters};
use super::control::Control;
use super::load::{Calls, Load};
use super::outcome::{ErrorKind, Users};
use super::recorder::{Recorder, Sample, Shape};
use super::run::{CpuTime, ThreadOutcome};
use super::wire::{Arrival, Dialer, Wire};
use crate::ready::Ready;

/// All connections.
struct Callers<'l> {
    load: &'l Load,
    calls: &'l Calls,
    control: &'l Control,
    clients: Vec<Client>,
    dialer: Dialer,
    poll: Poll,
    start: Instant,
    scratch: Vec<u8>,
    shared: Shared,
}

/// State that the calls of all connections share.
struct Shared {
    now: Duration,
    recorder: Recorder,
    /// The number of the next call.
    number: u64,
}

/// A connection with its calls.
struct Client {
    link: Option<Link>,
    slots: Vec<Slot>,
    /// The indices of slots whose stream has been woken.
    ready: Arc<Ready>,
    /// When it was dialled, or when it will be dialled again.
    at: Duration,
}

struct Link {
    wire: Wire,
    session: Session,
    /// Received bytes of an incomplete frame.
    unread: Vec<u8>,
    is_connected: bool,
    /// Bytes since the last sample.
    sent_bytes: u64,
    received_bytes: u64,
}

/// A place for one call at a time.
struct Slot {
    call: Option<Call>,
    body: Vec<u8>,
    waker: Waker,
}

struct Call {
    stream: u32,
    has_head: bool,
    sent: Vec<u8>,
    /// The number of bytes for which the windows have had room.
    sent_bytes: usize,
    begin: Duration,
}

const CONFIG: Config = Config { streams_max: 1000, head_bytes_max: 64 << 10 };
const GRPC: (&[u8], &[u8]) = (b"content-type", b"application/grpc");
const TRAILERS: (&[u8], &[u8]) = (b"te", b"trailers");
/// Length of the flag and the length before each message of gRPC.
const PREFIX_BYTES: usize = 5;
/// Number of digits of the message's number, at its start.
const NUMBER_BYTES: usize = 12;
const SCRATCH_BYTES: usize = 256 << 10;
const EVENTS_MAX: usize = 1024;
const TICK: Duration = Duration::from_millis(5);
/// The pause before a connection that failed is opened again.
const PAUSE: Duration = Duration::from_millis(200);

pub(super) fn run(load: &Load, calls: &Calls, control: &Control) -> Result<ThreadOutcome, String> {
    let mut callers = Callers::new(load, calls, control)?;
    let cpu = CpuTime::from_warm_up(|at_warm_up| callers.run(at_warm_up))?;
    let labels = vec![callers.shared.recorder.finish()];
    let at_once = f64::from(calls.calls);
    let users = Users { warm_up: at_once, measured: at_once };
    Ok(ThreadOutcome { labels, users, streams: None, cpu, log_failed: None })
}

impl<'l> Callers<'l> {
    fn new(load: &'l Load, calls: &'l Calls, control: &'l Control) -> Result<Callers<'l>, String> {
        let connections = calls.calls.div_ceil(calls.streams);
        let slots = |at: u32| calls.streams.min(calls.calls - at * calls.streams);
        let recorder = Recorder::new("HTTP Request".to_owned(), Duration::ZERO, Shape::of(load));
        let number = u64::from(load.share.part) << 40;
        Ok(Callers {
            load,
            calls,
            control,
            clients: (0..connections).map(|at| Client::new(slots(at))).collect(),
            dialer: Dialer::new(&load.target)?,
            poll: Poll::new().map_err(|error| error.to_string())?,
            start: control.start(),
            scratch: vec![0; SCRATCH_BYTES],
            shared: Shared { now: Duration::ZERO, recorder, number },
        })
    }

    fn run(&mut self, at_warm_up: &mut dyn FnMut()) -> io::Result<()> {
        let mut events = Events::with_capacity(EVENTS_MAX);
        let (mut is_warm, mut next_tick) = (false, Duration::ZERO);
        loop {
            self.read_clock();
            if !is_warm && self.shared.now >= self.load.warm_up {
                is_warm = true;
                at_warm_up();
            }
            if self.shared.now >= next_tick {
                next_tick = self.shared.now + TICK;
                self.dial_due();
                self.end_late();
                self.control.count_of(&mut self.shared.recorder);
            }
            if self.control.is_stopped() || self.is_over() {
                return Ok(());
            }
            match self.poll.poll(&mut events, Some(TICK)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                polled => polled?,
            }
            self.read_clock();
            for event in &events {
                let is_writable = event.is_writable() || event.is_error();
                self.advance(event.token().0, is_writable, event.is_read_closed());
            }
        }
    }

    /// Returns true after the end of the load, once no call is in progress.
    fn is_over(&self) -> bool {
        let is_busy = |client: &Client| client.slots.iter().any(|slot| slot.call.is_some());
        self.shared.now >= self.load.duration && !self.clients.iter().any(is_busy)
    }

    #[allow(clippy::disallowed_methods, reason = "the generator's own clock")]
    fn read_clock(&mut self) {
        self.shared.now = Instant::now().saturating_duration_since(self.start);
    }

    fn dial_due(&mut self) {
        let now = self.shared.now;
        if now >= self.load.duration {
            return;
        }
        for (at, client) in self.clients.iter_mut().enumerate() {
            if client.link.is_some() || now < client.at {
                continue;
            }
            client.at = now;
            match self.dialer.dial(self.poll.registry(), Token(at)) {
                Ok(wire) => client.link = Some(Link::new(wire)),
                Err(kind) => client.fail(kind, &mut self.shared),
            }
        }
    }

    /// Ends connections that are not open in time, or that have a reply that is late.
    fn end_late(&mut self) {
        for client in &mut self.clients {
            let Some(link) = &client.link else { continue };
            let now = self.shared.now;
            let waited = now.saturating_sub(client.at);
            if !link.session.has_begun() && waited >= self.load.connect_max {
                client.fail(ErrorKind::ConnectTimeout, &mut self.shared);
                continue;
            }
            let calls = client.slots.iter().filter_map(|slot| slot.call.as_ref());
            let oldest = calls.map(|call| now.saturating_sub(call.begin)).max();
            if oldest.is_some_and(|waited| waited >= self.load.response_max) {
                client.fail(ErrorKind::ResponseTimeout, &mut self.shared);
            }
        }
    }

    fn advance(&mut self, at: usize, is_writable: bool, is_ending: bool) {
        let Some(client) = self.clients.get_mut(at) else { return };
        let (calls, shared) = (self.calls, &mut self.shared);
        let mut advance = || {
            let Some(link) = &mut client.link else { return Ok(()) };
            let arrival = link.read(is_writable, is_ending, &mut self.scratch)?;
            client.take_replies(calls, shared);
            if arrival == Arrival::Closed {
                return Err(ErrorKind::Closed);
            }
            client.begin_calls(self.load, calls, shared)?;
            client.link.as_mut().map_or(Ok(()), Link::write)
        };
        if let Err(kind) = advance() {
            client.fail(kind, shared);
        }
    }
}

impl Client {
    fn new(slots: u32) -> Client {
        let ready = Arc::<Ready>::default();
        let slot = |at| Slot { call: None, body: Vec::new(), waker: ready.waker(at) };
        let slots = (0..slots).map(slot).collect();
        Client { link: None, slots, ready, at: Duration::ZERO }
    }

    /// Ends the connection. Its calls in progress count as errors. If it was not open and has none, the connection itself counts as one.
    fn fail(&mut self, kind: ErrorKind, shared: &mut Shared) {
        let begun = self.link.take().is_some_and(|link| link.session.has_begun());
        let calls: Vec<Call> = self.slots.iter_mut().filter_map(|slot| slot.call.take()).collect();
        if !begun && calls.is_empty() {
            shared.recorder.record(&Sample::failed(self.at, shared.now, kind));
        }
        for call in calls {
            shared.recorder.record(&Sample::failed(call.begin, shared.now, kind));
        }
        drop(self.ready.take());
        self.at = shared.now + PAUSE;
    }

    /// Begins a call in each free slot until the end of the load, as far as the other side permits, and sends what is left of the other
    /// calls.
    fn begin_calls(
        &mut self,
        load: &Load,
        calls: &Calls,
        shared: &mut Shared,
    ) -> Result<(), ErrorKind> {
        let (seed, duration) = (load.seed, load.duration);
        let Some(link) = self.link.as_mut().filter(|link| link.session.has_begun()) else {
            return Ok(());
        };
        for slot in &mut self.slots {
            if let Some(call) = &mut slot.call {
                let rest = call.sent.get(call.sent_bytes..).filter(|rest| !rest.is_empty());
                call.sent_bytes +=
                    rest.map_or(0, |rest| link.session.send_data(call.stream, rest, true));
                continue;
            }
            if shared.now >= duration {
                continue;
            }
            let sent = message(seed, shared.number, calls);
            let length = sent.len().to_string();
            let lines = if calls.is_grpc {
                [GRPC, TRAILERS]
            } else {
                [
                    (&b"content-type"[..], &b"application/octet-stream"[..]),
                    (&b"content-length"[..], length.as_bytes()),
                ]
            };
            let asking = RequestLine {
                method: b"POST",
                is_https: false,
                target: calls.path.as_bytes(),
                authority: b"localhost",
            };
            let Some(stream) = link.session.open_stream(&asking, lines.into_iter(), false) else {
                return Ok(());
            };
            let sent_bytes = link.session.send_data(stream, &sent, true);
            shared.number += 1;
            slot.body.clear();
            slot.call = Some(Call { stream, has_head: false, sent, sent_bytes, begin: shared.now });
            let mut cx = Context::from_waker(&slot.waker);
            if link.session.poll_reply(&mut cx, stream).is_ready() {
                return Err(ErrorKind::Protocol);
            }
        }
        Ok(())
    }

    /// Reads replies, as far as they have arrived.
    fn take_replies(&mut self, calls: &Calls, shared: &mut Shared) {
        let Some(link) = &mut self.link else { return };
        for at in self.ready.take() {
            let Some(slot) = self.slots.get_mut(at as usize) else { continue };
            let Some(result) = slot.advance(&mut link.session, calls.is_grpc) else { continue };
            let Some(call) = slot.call.take() else { continue };
            link.session.close(call.stream);
            shared.recorder.record(&Sample {
                begin: call.begin,
                end: shared.now,
                result,
                status: result.is_ok().then_some(200),
                sent_bytes: std::mem::take(&mut link.sent_bytes),
                received_bytes: std::mem::take(&mut link.received_bytes),
            });
        }
    }
}

impl Slot {
    /// Returns whether the reply is right, or `None` while it is incomplete.
    fn advance(&mut self, session: &mut Session, is_grpc: bool) -> Option<Result<(), ErrorKind>> {
        let call = self.call.as_mut()?;
        let mut cx = Context::from_waker(&self.waker);
        while !call.has_head {
            match session.poll_reply(&mut cx, call.stream) {
                TaskPoll::Pending => return None,
                TaskPoll::Ready(Ok((head, _))) if head.status == 200 => call.has_head = true,
                TaskPoll::Ready(Ok(_)) => return Some(Err(ErrorKind::Status)),
                TaskPoll::Ready(Err(_)) => return Some(Err(ErrorKind::Closed)),
            }
        }
        loop {
            match session.poll_body(&mut cx, call.stream, &mut self.body) {
                BodyPiece::More => {}
                BodyPiece::None => return None,
                BodyPiece::Gone => return Some(Err(ErrorKind::Closed)),
                BodyPiece::End(trailers) => {
                    let is_ok = !is_grpc || trailers.starts_with(b"grpc-status: 0\r\n");
                    let is_right = is_ok && self.body == call.sent;
                    return Some(if is_right { Ok(()) } else { Err(ErrorKind::Content) });
                }
            }
        }
    }
}

impl Link {
    fn new(wire: Wire) -> Link {
        Link {
            wire,
            session: Session::client(CONFIG),
            unread: Vec::new(),
            is_connected: false,
            sent_bytes: 0,
            received_bytes: 0,
        }
    }

    /// Processes the frames that have arrived.
    fn read(
        &mut self,
        is_writable: bool,
        is_ending: bool,
        scratch: &mut [u8],
    ) -> Result<Arrival, ErrorKind> {
        if !self.is_connected {
            if !self.wire.is_connected()? {
                return Ok(Arrival::Drained);
            }
            self.is_connected = true;
            self.write()?;
        } else if is_writable {
            self.wire.flush()?;
        }
        let Link { wire, session, unread, received_bytes, .. } = self;
        let mut block = Block::default();
        wire.read(is_ending, scratch, |bytes| {
            *received_bytes += bytes.len() as u64;
            unread.extend_from_slice(bytes);
            let mut taken = 0;
            loop {
                let rest = unread.get(taken..).unwrap_or_default();
                let read = session.read(rest, &mut block).map_err(|_| ErrorKind::Protocol)?;
                let Some(read) = read else { break };
                taken += read.len;
            }
            unread.drain(..taken);
            Ok(())
        })
    }

    fn write(&mut self) -> Result<(), ErrorKind> {
        let unsent = self.session.unsent();
        if unsent.is_empty() {
            return Ok(());
        }
        let len = unsent.len();
        let sent = self.wire.send(unsent);
        self.session.sent(len);
        self.sent_bytes += len as u64;
        sent
    }
}

/// Returns the message of a call. No two messages are equal.
fn message(seed: u64, number: u64, calls: &Calls) -> Vec<u8> {
    let prefix = if calls.is_grpc { PREFIX_BYTES } else { 0 };
    let mut message = vec![0; prefix + calls.message_bytes as usize];
    let (front, text) = message.split_at_mut(prefix);
    if let [flag, length @ ..] = front {
        *flag = 0;
        length.copy_from_slice(&calls.message_bytes.to_be_bytes());
    }
    let digits = text.len().min(NUMBER_BYTES);
    let (digits, letters) = text.split_at_mut(digits);
    write_digits(number, digits);
    write_letters(seed, number, letters);
    message
}

#[cfg(test)]
mod tests;
