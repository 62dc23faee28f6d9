//! The backend of calls over HTTP/2. It sends each message back, as gRPC if the call is gRPC.
//!
//! One thread with epoll, and HTTP/2 by prior knowledge. It does as little work as possible, so that a comparison does not measure the
//! backend. It is not an example of how to serve HTTP.

use std::collections::HashMap;
use std::io::{self, Read as _, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Waker};

use backends::fast;
use http2::{Block, BodyPiece, Config, Event, Session};
use memchr::memmem;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::ready::Ready;

const CONFIG: Config = Config { streams_max: 1000, head_bytes_max: 64 << 10 };
const GRPC: (&[u8], &[u8]) = (b"content-type", b"application/grpc");
const EVENTS_MAX: usize = 1024;
const LISTENER: Token = Token(usize::MAX);
const SCRATCH_BYTES: usize = 256 << 10;

struct Connection {
    stream: TcpStream,
    session: Session,
    /// Received bytes of an incomplete frame.
    unread: Vec<u8>,
    /// Bytes that the kernel has not accepted yet.
    unsent: Vec<u8>,
    /// Requests whose body is incomplete, and replies for which the windows have no room yet.
    open: HashMap<u32, Call>,
    /// Streams that have been woken.
    ready: Arc<Ready>,
}

struct Call {
    is_grpc: bool,
    body: Vec<u8>,
    /// The number of bytes of the reply that are still to be sent, after it has begun.
    left: Option<usize>,
    waker: Waker,
}

/// Serves on the calling thread. Returns only with an error of the listener or of epoll.
///
/// # Errors
///
/// If the address cannot be bound or the kernel refuses to poll.
pub fn serve(address: SocketAddr, ready: impl FnOnce(SocketAddr)) -> io::Result<()> {
    let mut listener = fast::listener(address)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    ready(listener.local_addr()?);
    let mut events = Events::with_capacity(EVENTS_MAX);
    let mut connections: HashMap<usize, Connection> = HashMap::new();
    let (mut next, mut scratch) = (0, vec![0; SCRATCH_BYTES]);
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            if event.token() == LISTENER {
                accept(&listener, &poll, &mut connections, &mut next)?;
                continue;
            }
            let Some(connection) = connections.get_mut(&event.token().0) else { continue };
            if connection.advance(&mut scratch).is_err() {
                connections.remove(&event.token().0);
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    poll: &Poll,
    connections: &mut HashMap<usize, Connection>,
    next: &mut usize,
) -> io::Result<()> {
    while let Some(stream) = fast::accept(listener, poll, Token(*next))? {
        connections.insert(*next, Connection::new(stream));
        *next += 1;
    }
    Ok(())
}

impl Connection {
    fn new(stream: TcpStream) -> Connection {
        Connection {
            stream,
            session: Session::new(CONFIG),
            unread: Vec::new(),
            unsent: Vec::new(),
            open: HashMap::new(),
            ready: Arc::default(),
        }
    }

    fn advance(&mut self, scratch: &mut [u8]) -> io::Result<()> {
        self.flush()?;
        let mut block = Block::default();
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            };
            self.take(scratch.get(..count).unwrap_or_default(), &mut block)?;
            if count < scratch.len() {
                break;
            }
        }
        self.answer();
        let unsent = self.session.unsent();
        self.unsent.extend_from_slice(unsent);
        let len = unsent.len();
        self.session.sent(len);
        self.flush()
    }

    /// Processes the frames that have arrived.
    fn take(&mut self, bytes: &[u8], block: &mut Block) -> io::Result<()> {
        self.unread.extend_from_slice(bytes);
        let mut taken = 0;
        loop {
            let rest = self.unread.get(taken..).unwrap_or_default();
            let Some(read) = self.session.read(rest, block).map_err(io::Error::other)? else {
                break;
            };
            taken += read.len;
            if let Event::Request { stream, .. } = read.event {
                let is_grpc = memmem::find(&block.bytes, GRPC.1).is_some();
                let (body, left, waker) = (Vec::new(), None, self.ready.waker(stream));
                self.open.insert(stream, Call { is_grpc, body, left, waker });
                self.ready.push(stream);
            }
        }
        self.unread.drain(..taken);
        Ok(())
    }

    /// Answers the requests whose body is complete.
    fn answer(&mut self) {
        let waiting = self.open.iter().filter(|(_, call)| call.left.is_some());
        let mut streams: Vec<u32> = waiting.map(|(stream, _)| *stream).collect();
        streams.extend(self.ready.take());
        for stream in streams {
            let Some(call) = self.open.get_mut(&stream) else { continue };
            if call.advance(&mut self.session, stream) {
                self.open.remove(&stream);
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut sent = 0;
        while let Some(rest) = self.unsent.get(sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.write(rest) {
                Ok(count) => sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        self.unsent.drain(..sent);
        Ok(())
    }
}

impl Call {
    /// Continues the call. Returns true once it is answered, or if the stream is gone.
    fn advance(&mut self, session: &mut Session, stream: u32) -> bool {
        let mut cx = Context::from_waker(&self.waker);
        while self.left.is_none() {
            match session.poll_body(&mut cx, stream, &mut self.body) {
                BodyPiece::More => {}
                BodyPiece::None => return false,
                BodyPiece::Gone => return true,
                BodyPiece::End(_) => {
                    let length = self.body.len().to_string();
                    let plain = [
                        (&b"content-type"[..], &b"application/octet-stream"[..]),
                        (&b"content-length"[..], length.as_bytes()),
                    ];
                    let lines = if self.is_grpc { &[GRPC][..] } else { &plain[..] };
                    session.send_head(stream, 200, lines.iter().copied(), false);
                    self.left = Some(self.body.len());
                }
            }
        }
        let left = self.left.unwrap_or(0);
        let rest = self.body.get(self.body.len() - left..).unwrap_or_default();
        let left = left - session.send_data(stream, rest, !self.is_grpc);
        self.left = Some(left);
        if left == 0 && self.is_grpc {
            session.send_trailers(stream, [(&b"grpc-status"[..], &b"0"[..])].into_iter());
        }
        left == 0
    }
}
