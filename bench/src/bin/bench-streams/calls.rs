//! Calls over HTTP/2, plain ones and unary ones of gRPC: a client with many at once, and a backend that sends each body back.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use http2::{Block, BodyPiece, Config, Event, RequestLine, Session};

use crate::rig::{End, Ends, Hand, Rig, Tally, Wire, noise};

/// How calls are made.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) connections: usize,
    /// Calls at once on each connection.
    pub(crate) streams: usize,
    pub(crate) body_bytes: usize,
    pub(crate) is_grpc: bool,
}

pub(crate) struct Calls {
    shape: Shape,
    clients: Vec<Client>,
    backends: Vec<Backend>,
    /// The place that makes the next call.
    turn: usize,
    /// Calls made, by which their bodies differ.
    made: u64,
}

struct Client {
    peer: Peer,
    places: Vec<CallSlot>,
    /// Places whose stream has news.
    ready: Arc<Ready>,
}

struct Backend {
    peer: Peer,
    /// Requests whose body is not whole.
    open: HashMap<u32, (Vec<u8>, Waker)>,
    ready: Arc<Ready>,
}

/// A connection's end with its session.
struct Peer {
    wire: Wire,
    session: Session,
    unread: Vec<u8>,
    is_gone: bool,
}

/// One call at a time.
struct CallSlot {
    /// The stream of the call that waits for its reply.
    stream: Option<u32>,
    has_head: bool,
    body: Vec<u8>,
    /// The number of the call, by which its body is known.
    call: u64,
    waker: Waker,
}

/// Streams that were woken.
#[derive(Default)]
struct Ready(Mutex<Vec<usize>>);

struct Woken {
    ready: Arc<Ready>,
    at: usize,
}

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.ready.0.lock().unwrap_or_else(PoisonError::into_inner).push(self.at);
    }
}

impl Ready {
    fn waker(self: &Arc<Self>, at: usize) -> Waker {
        Arc::new(Woken { ready: self.clone(), at }).into()
    }

    fn take(&self) -> Vec<usize> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

const CONFIG: Config = Config { streams_max: 1000, head_bytes_max: 64 << 10 };
const AUTHORITY: &[u8] = b"localhost";
const TARGET: &[u8] = b"/bench.Echo/Unary";
/// A flag and a length stand before a message of gRPC.
const PREFIX_BYTES: usize = 5;

impl Calls {
    pub(crate) fn rig(shape: Shape) -> io::Result<Rig> {
        let (clients, backends) = (Vec::new(), Vec::new());
        let ends = Calls { shape, clients, backends, turn: 0, made: 0 };
        Rig::new(Box::new(ends), shape.connections, 1)
    }

    fn places(&self) -> usize {
        self.shape.connections * self.shape.streams
    }
}

const GRPC: (&[u8], &[u8]) = (b"content-type", b"application/grpc");
const TRAILERS: (&[u8], &[u8]) = (b"te", b"trailers");

impl Ends for Calls {
    fn begin(&mut self, end: End, wire: Wire) -> io::Result<()> {
        if let End::Backend(_) = end {
            let peer = Peer::new(wire, Session::new(CONFIG));
            let (open, ready) = (HashMap::new(), Arc::default());
            self.backends.push(Backend { peer, open, ready });
            return Ok(());
        }
        let ready = Arc::<Ready>::default();
        let places = (0..self.shape.streams).map(|at| CallSlot {
            stream: None,
            has_head: false,
            body: Vec::new(),
            call: 0,
            waker: ready.waker(at),
        });
        let places = places.collect();
        let mut peer = Peer::new(wire, Session::client(CONFIG));
        peer.write()?;
        self.clients.push(Client { peer, places, ready });
        Ok(())
    }

    fn on_ready(&mut self, end: End, is_writable: bool, hand: &mut Hand) -> io::Result<()> {
        let Hand { scratch, tally } = hand;
        match end {
            End::Client(at) => {
                let Some(client) = self.clients.get_mut(at) else { return Ok(()) };
                let read = client.peer.read(scratch, is_writable, |_| {});
                tally.wrong += u64::from(read.is_err());
                client.read(self.shape, &mut tally.came, &mut tally.wrong);
            }
            End::Backend(at) => {
                let Some(backend) = self.backends.get_mut(at) else { return Ok(()) };
                let mut begun = Vec::new();
                let read = backend.peer.read(scratch, is_writable, |stream| begun.push(stream));
                tally.wrong += u64::from(read.is_err());
                tally.wrong += backend.answer(&begun, self.shape);
            }
        }
        Ok(())
    }

    /// Makes a call at the next free place, if there is one.
    fn send(&mut self, tally: &mut Tally) -> io::Result<bool> {
        let Shape { connections, streams, body_bytes, is_grpc } = self.shape;
        for _ in 0..self.places() {
            let at = self.turn;
            self.turn = (at + 1) % self.places();
            let Some(client) = self.clients.get_mut(at % connections) else { break };
            let Some(place) = client.places.get_mut(at / connections % streams) else { break };
            if place.stream.is_some() {
                continue;
            }
            let body = body_of(self.made, body_bytes, is_grpc);
            place.call = self.made;
            self.made += 1;
            tally.sent += 1;
            let (lines, length) = ([GRPC, TRAILERS], body.len().to_string());
            let plain = [(&b"content-length"[..], length.as_bytes())];
            let lines = if is_grpc { &lines[..] } else { &plain[..] };
            let asking = RequestLine {
                method: b"POST",
                is_https: false,
                target: TARGET,
                authority: AUTHORITY,
            };
            let session = &mut client.peer.session;
            let opened = session.open_stream(&asking, lines.iter().copied(), false);
            let sent = opened.map(|stream| session.send_data(stream, &body, true));
            tally.wrong += u64::from(sent != Some(body.len()));
            (place.stream, place.has_head) = (opened, false);
            place.body.clear();
            let mut cx = Context::from_waker(&place.waker);
            let polled = opened.map(|stream| session.poll_reply(&mut cx, stream));
            tally.wrong += u64::from(polled.is_some_and(|polled| polled.is_ready()));
            return Ok(true);
        }
        Ok(false)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.clients.iter_mut().try_for_each(|client| client.peer.write())
    }

    fn open(&self) -> usize {
        self.clients.iter().filter(|client| client.peer.session.has_begun()).count()
    }
}

impl Client {
    /// Reads replies as far as they came.
    fn read(&mut self, shape: Shape, came: &mut u64, wrong: &mut u64) {
        for at in self.ready.take() {
            let Some(place) = self.places.get_mut(at) else { continue };
            let Some(stream) = place.stream else { continue };
            let Some(is_right) = place.advance(&mut self.peer.session, stream, shape) else {
                continue;
            };
            *came += 1;
            *wrong += u64::from(!is_right);
            self.peer.session.close(stream);
            place.stream = None;
        }
    }
}

impl CallSlot {
    /// Whether the reply is right, once it is whole.
    fn advance(&mut self, session: &mut Session, stream: u32, shape: Shape) -> Option<bool> {
        let mut cx = Context::from_waker(&self.waker);
        while !self.has_head {
            match session.poll_reply(&mut cx, stream) {
                Poll::Pending => return None,
                Poll::Ready(Ok((head, _))) if head.status == 200 => self.has_head = true,
                Poll::Ready(_) => return Some(false),
            }
        }
        loop {
            match session.poll_body(&mut cx, stream, &mut self.body) {
                BodyPiece::More => {}
                BodyPiece::None => return None,
                BodyPiece::Gone => return Some(false),
                BodyPiece::End(trailers) => {
                    let body = body_of(self.call, shape.body_bytes, shape.is_grpc);
                    let is_ok = !shape.is_grpc || trailers.starts_with(b"grpc-status: 0\r\n");
                    return Some(is_ok && self.body == body);
                }
            }
        }
    }
}

impl Backend {
    /// Answers the requests that are whole, of those that have begun and those that were woken. Gives how many it could not.
    fn answer(&mut self, begun: &[u32], shape: Shape) -> u64 {
        let mut wrong = 0;
        for stream in begun {
            if let Some(body) = self.peer.session.whole_body(*stream) {
                wrong += u64::from(!reply(&mut self.peer.session, *stream, &body, shape));
                continue;
            }
            let waker = self.ready.waker(usize::try_from(*stream).unwrap_or_default());
            self.open.insert(*stream, (Vec::new(), waker));
            wrong += self.advance(*stream, shape);
        }
        for at in self.ready.take() {
            wrong += self.advance(u32::try_from(at).unwrap_or_default(), shape);
        }
        // A gateway that is gone is missed by the client.
        drop(self.peer.write());
        wrong
    }

    fn advance(&mut self, stream: u32, shape: Shape) -> u64 {
        let Some((body, waker)) = self.open.get_mut(&stream) else { return 0 };
        let mut cx = Context::from_waker(waker);
        loop {
            match self.peer.session.poll_body(&mut cx, stream, body) {
                BodyPiece::More => {}
                BodyPiece::None => return 0,
                BodyPiece::Gone => {
                    self.open.remove(&stream);
                    return 1;
                }
                BodyPiece::End(_) => break,
            }
        }
        let (body, _) = self.open.remove(&stream).unwrap_or((Vec::new(), Waker::noop().clone()));
        u64::from(!reply(&mut self.peer.session, stream, &body, shape))
    }
}

/// Sends a body back; false if there is no room for it.
fn reply(session: &mut Session, stream: u32, body: &[u8], shape: Shape) -> bool {
    if shape.is_grpc {
        session.send_head(stream, 200, [GRPC].into_iter(), false);
        let sent = session.send_data(stream, body, false);
        session.send_trailers(stream, [(&b"grpc-status"[..], &b"0"[..])].into_iter());
        return sent == body.len();
    }
    let length = body.len().to_string();
    let lines = [
        (&b"content-type"[..], &b"application/octet-stream"[..]),
        (&b"content-length"[..], length.as_bytes()),
    ];
    session.send_head(stream, 200, lines.into_iter(), false);
    session.send_data(stream, body, true) == body.len()
}

impl Peer {
    fn new(wire: Wire, session: Session) -> Peer {
        Peer { wire, session, unread: Vec::new(), is_gone: false }
    }

    /// Takes the frames that came, and says which requests have begun.
    fn read(
        &mut self,
        scratch: &mut [u8],
        is_writable: bool,
        mut begun: impl FnMut(u32),
    ) -> io::Result<()> {
        if self.is_gone {
            return Ok(());
        }
        let mut block = Block::default();
        loop {
            if is_writable {
                self.wire.flush()?;
            }
            let (bytes, more) = self.wire.read(scratch).inspect_err(|_| self.is_gone = true)?;
            let held = std::mem::take(&mut self.unread);
            let joined = if held.is_empty() { Vec::new() } else { [&held, bytes].concat() };
            let mut rest = if joined.is_empty() { bytes } else { &joined };
            while let Some(read) = self.session.read(rest, &mut block).map_err(io::Error::other)? {
                rest = rest.get(read.len..).unwrap_or_default();
                if let Event::Request { stream, .. } = read.event {
                    begun(stream);
                }
            }
            self.unread = rest.to_vec();
            if !more {
                return Ok(());
            }
        }
    }

    fn write(&mut self) -> io::Result<()> {
        let unsent = self.session.unsent();
        if unsent.is_empty() || self.is_gone {
            return Ok(());
        }
        let len = unsent.len();
        let sent = self.wire.send(unsent);
        self.session.sent(len);
        sent
    }
}

/// The body of a call; no two are the same.
fn body_of(call: u64, bytes: usize, is_grpc: bool) -> Vec<u8> {
    let prefix = if is_grpc { PREFIX_BYTES } else { 0 };
    let mut body = vec![0; prefix + bytes];
    if let Some((prefix, _)) = body.split_first_chunk_mut::<PREFIX_BYTES>().filter(|_| is_grpc) {
        let [a, b, c, d] = u32::try_from(bytes).unwrap_or_default().to_be_bytes();
        *prefix = [0, a, b, c, d];
    }
    noise(0, call, body.get_mut(prefix..).unwrap_or_default());
    body
}
