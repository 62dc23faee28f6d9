//! One side of a connection, in bytes: a client library that normalises messages could not test framing.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use rustls::{ClientConnection, ServerConnection, StreamOwned};

use super::{Message, PATIENCE, Trust, headers};

/// A connection. All reads have a timeout. Bytes that were read but not yet requested are buffered.
pub(crate) struct Wire {
    stream: Box<dyn Duplex>,
    socket: TcpStream,
    alpn: Option<String>,
    unread: Vec<u8>,
    ended: bool,
}

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// The framing of a body.
#[derive(Clone, Copy)]
enum Frame {
    Empty,
    Length(usize),
    Chunked,
    Close,
}

impl Wire {
    #[track_caller]
    pub(crate) fn connect(address: SocketAddr) -> Wire {
        Wire::from(TcpStream::connect_timeout(&address, PATIENCE).expect("a connection"))
    }

    /// Connects as a TLS client. The handshake is done with the first byte, see `handshake`.
    #[track_caller]
    pub(crate) fn connect_tls(address: SocketAddr, host: &str, trust: &Trust) -> Wire {
        let socket = TcpStream::connect_timeout(&address, PATIENCE).expect("a connection");
        Wire::wrap_client(socket, host, trust).expect("a handshake")
    }

    /// Like `connect_tls`, for handshakes that may fail.
    pub(crate) fn try_tls(address: SocketAddr, host: &str, trust: &Trust) -> io::Result<Wire> {
        Wire::wrap_client(TcpStream::connect_timeout(&address, PATIENCE)?, host, trust)
    }

    /// Turns a plain connection into a TLS client, after plain bytes.
    pub(crate) fn wrap_client(socket: TcpStream, host: &str, trust: &Trust) -> io::Result<Wire> {
        limit_waits(&socket);
        let name = host.to_owned().try_into().expect("a host name");
        let session = ClientConnection::new(trust.client(), name).expect("settings that work");
        let mut stream = StreamOwned::new(session, socket.try_clone()?);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let alpn =
            stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        Ok(Wire { stream: Box::new(stream), socket, alpn, unread: Vec::new(), ended: false })
    }

    /// Creates the server side of a TLS connection.
    pub(crate) fn wrap_server(socket: TcpStream, session: ServerConnection) -> io::Result<Wire> {
        limit_waits(&socket);
        let mut stream = StreamOwned::new(session, socket.try_clone()?);
        while stream.conn.is_handshaking() {
            stream.conn.complete_io(&mut stream.sock)?;
        }
        let alpn =
            stream.conn.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned());
        Ok(Wire { stream: Box::new(stream), socket, alpn, unread: Vec::new(), ended: false })
    }

    /// Sends a request without a body and returns the whole reply.
    #[track_caller]
    pub(crate) fn get(&mut self, target: &str) -> Message {
        self.ask(format!("GET {target} HTTP/1.1\r\nHost: a.test\r\n\r\n"))
    }

    /// Sends a request as written and returns the whole reply.
    #[track_caller]
    pub(crate) fn ask(&mut self, request: impl AsRef<[u8]>) -> Message {
        let head = request.as_ref().starts_with(b"HEAD ");
        self.send(request);
        if head { self.read_head() } else { self.read_reply() }
    }

    #[track_caller]
    pub(crate) fn send(&mut self, bytes: impl AsRef<[u8]>) {
        assert!(self.try_send(bytes), "the other side has closed");
    }

    /// Sends bytes. Returns false if the other side is gone.
    #[track_caller]
    pub(crate) fn try_send(&mut self, bytes: impl AsRef<[u8]>) -> bool {
        match self.stream.write_all(bytes.as_ref()).and_then(|()| self.stream.flush()) {
            Ok(()) => true,
            Err(e) if is_gone(&e) => false,
            Err(e) => panic!("cannot send: {e}"),
        }
    }

    /// Sends repeatedly until the other side accepts nothing for a while or has accepted `max` bytes. Returns the number of bytes.
    pub(crate) fn send_until_stuck(&mut self, piece: &[u8], max: usize) -> usize {
        self.socket.set_write_timeout(Some(Duration::from_millis(300))).unwrap();
        let mut taken = 0;
        while taken < max
            && let Ok(length) = self.stream.write(&piece[taken % piece.len()..])
        {
            taken += length;
        }
        self.socket.set_write_timeout(Some(PATIENCE)).unwrap();
        taken
    }

    /// Reads up to and including an empty line, and returns the head without its body.
    #[track_caller]
    pub(crate) fn read_head(&mut self) -> Message {
        let head = self.read_until(b"\r\n\r\n");
        let Some(head) = head else {
            panic!("closed before a head; came: {}", self.unread.escape_ascii());
        };
        Message::parse(&head)
    }

    /// Like `read_head`, but returns `None` if the other side closed without sending anything.
    #[track_caller]
    pub(crate) fn next_head(&mut self) -> Option<Message> {
        (self.fill_to(1) && !self.unread.is_empty()).then(|| self.read_head())
    }

    /// Reads a whole reply, or as much as arrives. Interim replies must be read before.
    #[track_caller]
    pub(crate) fn read_reply(&mut self) -> Message {
        let mut reply = self.read_head();
        let frame = match reply.length() {
            _ if matches!(reply.status(), 100..=199 | 204 | 304) => Frame::Empty,
            _ if reply.is_chunked() => Frame::Chunked,
            Some(length) => Frame::Length(length),
            None => Frame::Close,
        };
        self.read_body(&mut reply, frame);
        reply
    }

    /// Reads the body of a request whose head was read.
    #[track_caller]
    pub(crate) fn read_request_body(&mut self, request: &mut Message) {
        let frame = match request.length() {
            _ if request.is_chunked() => Frame::Chunked,
            Some(length) => Frame::Length(length),
            None => Frame::Empty,
        };
        self.read_body(request, frame);
    }

    #[track_caller]
    fn read_body(&mut self, message: &mut Message, frame: Frame) {
        match frame {
            Frame::Empty => message.whole = true,
            Frame::Length(length) => {
                message.whole = self.fill_to(length);
                message.body = self.take(length);
            }
            Frame::Close => {
                while self.fill() {}
                message.whole = true;
                message.body = std::mem::take(&mut self.unread);
            }
            Frame::Chunked => message.whole = self.read_chunks(message).is_some(),
        }
    }

    /// Returns `None` if the connection ended first.
    #[track_caller]
    fn read_chunks(&mut self, message: &mut Message) -> Option<()> {
        loop {
            let size = self.read_chunk_size()?;
            if size == 0 {
                break;
            }
            self.fill_to(size);
            message.body.append(&mut self.take(size));
            assert_eq!(self.read_exact(2)?, b"\r\n", "after a chunk");
        }
        let mut lines = Vec::new();
        while let line = self.read_until(b"\r\n")?
            && line != b"\r\n"
        {
            lines.extend(line);
        }
        message.trailers = headers(&String::from_utf8_lossy(&lines));
        Some(())
    }

    #[track_caller]
    fn read_chunk_size(&mut self) -> Option<usize> {
        let line = String::from_utf8(self.read_until(b"\r\n")?).expect("a chunk size");
        let digits = line.trim_end().split(';').next().unwrap_or_default();
        let size = usize::from_str_radix(digits, 16);
        Some(size.unwrap_or_else(|_| panic!("no chunk size: {line:?}")))
    }

    /// Reads one chunk as the sender framed it. Returns `None` after the last.
    #[track_caller]
    pub(crate) fn read_chunk(&mut self) -> Option<Vec<u8>> {
        let size = self.read_chunk_size().filter(|&size| size > 0)?;
        let chunk = self.read_exact(size)?;
        self.read_exact(2)?;
        Some(chunk)
    }

    /// Reads exactly this many bytes. Returns `None` if the connection ended first.
    #[track_caller]
    pub(crate) fn read_exact(&mut self, length: usize) -> Option<Vec<u8>> {
        self.fill_to(length).then(|| self.take(length))
    }

    /// Reads up to and including `end`.
    #[track_caller]
    pub(crate) fn read_until(&mut self, end: &[u8]) -> Option<Vec<u8>> {
        let mut searched = 0;
        loop {
            let found = self.unread[searched..].windows(end.len()).position(|window| window == end);
            if let Some(at) = found {
                return Some(self.take(searched + at + end.len()));
            }
            searched = self.unread.len().saturating_sub(end.len() - 1);
            if !self.fill() {
                return None;
            }
        }
    }

    /// Returns the buffered bytes, or the next ones. Returns `None` after the other side has closed.
    #[track_caller]
    pub(crate) fn read_some(&mut self) -> Option<Vec<u8>> {
        let is_there = !self.unread.is_empty() || self.fill();
        is_there.then(|| std::mem::take(&mut self.unread))
    }

    /// Reads until the other side closes.
    #[track_caller]
    pub(crate) fn read_to_end(&mut self) -> Vec<u8> {
        while self.fill() {}
        std::mem::take(&mut self.unread)
    }

    /// Waits for the end of the connection. Returns false if a byte arrives first.
    #[track_caller]
    pub(crate) fn is_closed(&mut self) -> bool {
        self.unread.is_empty() && !self.fill()
    }

    /// Returns true if nothing arrives within this time, not even the end.
    #[track_caller]
    pub(crate) fn is_silent_for(&mut self, time: Duration) -> bool {
        if self.ended || !self.unread.is_empty() {
            return false;
        }
        let mut piece = [0; 4096];
        self.socket.set_read_timeout(Some(time)).unwrap();
        let read = self.stream.read(&mut piece);
        self.socket.set_read_timeout(Some(PATIENCE)).unwrap();
        match read {
            Ok(length) => {
                self.ended = length == 0;
                self.unread.extend(&piece[..length]);
            }
            Err(e) if is_late(&e) => return true,
            Err(_) => self.ended = true,
        }
        false
    }

    /// Closes the sending side. Reading is still possible.
    pub(crate) fn shut(&mut self) {
        self.socket.shutdown(Shutdown::Write).expect("an open socket");
    }

    /// Closes the connection with a reset.
    pub(crate) fn reset(self) {
        self.reset_on_close();
    }

    /// Returns another handle of the same plain connection, to send from another thread.
    pub(crate) fn second(&self) -> Wire {
        Wire::from(self.socket.try_clone().expect("an open socket"))
    }

    /// Makes closing this connection a reset.
    pub(crate) fn reset_on_close(&self) {
        let linger = Some(Duration::ZERO);
        socket2::SockRef::from(&self.socket).set_linger(linger).expect("an open socket");
    }

    /// Waits for the end of the connection. Returns true if it was a reset.
    #[track_caller]
    pub(crate) fn is_reset(&mut self) -> bool {
        let read = self.stream.read(&mut [0]);
        self.ended = true;
        read.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
    }

    /// Returns the protocol that was negotiated with TLS.
    pub(crate) fn alpn(&self) -> Option<&str> {
        self.alpn.as_deref()
    }

    /// Waits for the end of a TLS connection. Returns true if it was closed properly.
    #[track_caller]
    pub(crate) fn says_goodbye(&mut self) -> bool {
        self.ended = true;
        let read = self.stream.read(&mut [0]);
        assert!(!matches!(read, Ok(1)), "not an end");
        read.is_ok()
    }

    fn take(&mut self, length: usize) -> Vec<u8> {
        let rest = self.unread.split_off(length.min(self.unread.len()));
        std::mem::replace(&mut self.unread, rest)
    }

    #[track_caller]
    fn fill_to(&mut self, length: usize) -> bool {
        while self.unread.len() < length {
            if !self.fill() {
                return false;
            }
        }
        true
    }

    /// Reads once. Returns false at any kind of end.
    #[track_caller]
    fn fill(&mut self) -> bool {
        if self.ended {
            return false;
        }
        let mut piece = vec![0; 64 * 1024];
        match self.stream.read(&mut piece) {
            Ok(0) => self.ended = true,
            Ok(length) => self.unread.extend(&piece[..length]),
            Err(e) if is_gone(&e) => self.ended = true,
            Err(e) if is_late(&e) => {
                panic!(
                    "nothing came for {PATIENCE:?} after {:?}",
                    self.unread.escape_ascii().to_string()
                )
            }
            Err(e) => panic!("cannot read: {e}"),
        }
        !self.ended
    }
}

impl From<TcpStream> for Wire {
    fn from(socket: TcpStream) -> Wire {
        limit_waits(&socket);
        let stream = Box::new(socket.try_clone().expect("an open socket"));
        Wire { stream, socket, alpn: None, unread: Vec::new(), ended: false }
    }
}

fn limit_waits(socket: &TcpStream) {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket.set_write_timeout(Some(PATIENCE)).unwrap();
    socket.set_nodelay(true).unwrap();
}

fn is_late(e: &io::Error) -> bool {
    matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)
}

/// Returns true if the error means that the other side is gone.
fn is_gone(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::BrokenPipe
            | ErrorKind::UnexpectedEof
            // A TLS alert.
            | ErrorKind::InvalidData
    )
}
