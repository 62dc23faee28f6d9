//! The cheapest possible echo server, so that comparisons never measure the backend.
//!
//! One thread, epoll, one read and one write per request, everything in one scratch buffer. It supports only what load
//! generators and gateways send it: HTTP/1.1, bodies with a Content-Length or in chunks. A body comes back unchanged, with a
//! Content-Length; a request without one gets a fixed text. Anything else is answered with 400 and closed. With [`Answers::Xml`], every
//! request gets the same reply. It is not an example of how to serve HTTP.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::SocketAddr;

use memchr::memmem;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

/// The size of the scratch buffer. Most requests fit; a larger one is gathered in its connection.
const SCRATCH_BYTES: usize = 256 << 10;
const REQUEST_BYTES_MAX: usize = 64 << 20;
const EVENTS_MAX: usize = 1024;
const BACKLOG: i32 = 4096;
const LISTENER: Token = Token(usize::MAX);
const REFUSAL: &[u8] =
    b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";

/// How requests are answered.
pub enum Answers {
    /// With the request's body, or with this many bytes if there is none.
    Echo(usize),
    /// With this XML text.
    Xml(Vec<u8>),
}

/// Serves on the calling thread. Returns only with an error of the listener or of epoll.
///
/// # Errors
///
/// If the address cannot be bound or the kernel refuses to poll.
pub fn serve(
    address: SocketAddr,
    answers: &Answers,
    ready: impl FnOnce(SocketAddr),
) -> io::Result<()> {
    let mut listener = listener(address)?;
    let mut poll = Poll::new()?;
    poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
    ready(listener.local_addr()?);
    let mut events = Events::with_capacity(EVENTS_MAX);
    let always = matches!(answers, Answers::Xml(_));
    let fixed = Fixed { reply: fixed(answers), always };
    let mut echo = Echo { connections: Vec::new(), free: Vec::new(), fixed };
    let mut scratch = vec![0; SCRATCH_BYTES];
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            match event.token() {
                LISTENER => echo.accept(&listener, &poll)?,
                token => echo.advance(token, event, &mut scratch),
            }
        }
    }
}

/// Opens a listener with a backlog for all connections that a gateway opens at once.
///
/// # Errors
///
/// If the address cannot be bound.
pub fn listener(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Accepts a connection and registers it under the token. Returns `None` if no connection is waiting.
///
/// # Errors
///
/// If the listener fails or the kernel refuses to poll the connection.
pub fn accept(listener: &TcpListener, poll: &Poll, token: Token) -> io::Result<Option<TcpStream>> {
    loop {
        let mut stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => continue,
            Err(error) => return Err(error),
        };
        stream.set_nodelay(true)?;
        poll.registry().register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        return Ok(Some(stream));
    }
}

fn fixed(answers: &Answers) -> Vec<u8> {
    match answers {
        Answers::Echo(bytes) => {
            let mut reply = head(*bytes, "text/plain; charset=utf-8");
            reply.resize(reply.len() + bytes, b'x');
            reply
        }
        Answers::Xml(text) => {
            let mut reply = head(text.len(), "text/xml;charset=utf-8");
            reply.extend_from_slice(text);
            reply
        }
    }
}

fn head(length: usize, kind: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n").into()
}

struct Echo {
    /// The connections, by epoll token.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    fixed: Fixed,
}

/// The constant reply to a request without a body, or to every request.
struct Fixed {
    reply: Vec<u8>,
    always: bool,
}

struct Connection {
    stream: TcpStream,
    /// The received part of an incomplete request.
    received: Vec<u8>,
    /// Bytes that the kernel has not accepted yet.
    unsent: Vec<u8>,
}

/// The result of parsing the start of the received bytes.
enum RequestScan {
    Whole {
        head_bytes: usize,
        body_bytes: usize,
    },
    /// A chunked request: its length, and its decoded body.
    Chunked {
        bytes: usize,
        body: Vec<u8>,
    },
    Part,
    Nonsense,
}

impl Echo {
    fn accept(&mut self, listener: &TcpListener, poll: &Poll) -> io::Result<()> {
        loop {
            let token = self.free.last().copied().unwrap_or(self.connections.len());
            let Some(stream) = accept(listener, poll, Token(token))? else { return Ok(()) };
            self.free.pop();
            let connection = Connection { stream, received: Vec::new(), unsent: Vec::new() };
            match self.connections.get_mut(token) {
                Some(place) => *place = Some(connection),
                None => self.connections.push(Some(connection)),
            }
        }
    }

    fn advance(&mut self, token: Token, event: &Event, scratch: &mut [u8]) {
        let Some(place) = self.connections.get_mut(token.0) else { return };
        let Some(connection) = place else { return };
        let mut open = true;
        if event.is_writable() && !connection.unsent.is_empty() {
            open = connection.flush().is_ok();
        }
        if open && event.is_readable() {
            open = connection.read(scratch, &self.fixed).is_ok();
        }
        if !open {
            *place = None;
            self.free.push(token.0);
        }
    }
}

impl Connection {
    /// Reads until the kernel has no more bytes. A read that does not fill the scratch buffer has emptied the socket, so another read
    /// would only cost a system call. Epoll reports when more bytes arrive.
    fn read(&mut self, scratch: &mut [u8], fixed: &Fixed) -> io::Result<()> {
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let arrived = scratch.get(..count).unwrap_or_default();
            if self.received.is_empty() {
                let left = self.answer(arrived, fixed)?;
                self.received.extend_from_slice(left);
            } else {
                self.received.extend_from_slice(arrived);
                let received = std::mem::take(&mut self.received);
                let left_bytes = self.answer(&received, fixed)?.len();
                self.received = received;
                self.received.drain(..self.received.len() - left_bytes);
            }
            if count < scratch.len() {
                return Ok(());
            }
        }
    }

    /// Answers every complete request and returns the rest of the bytes.
    fn answer<'a>(&mut self, mut bytes: &'a [u8], fixed: &Fixed) -> io::Result<&'a [u8]> {
        while !bytes.is_empty() {
            match find(bytes) {
                RequestScan::Part => break,
                RequestScan::Nonsense => {
                    self.send(REFUSAL, &[])?;
                    return Err(io::ErrorKind::InvalidData.into());
                }
                RequestScan::Whole { head_bytes, body_bytes } => {
                    let (request, rest) = bytes.split_at(head_bytes + body_bytes);
                    let (_, body) = request.split_at(head_bytes);
                    self.echo(body, fixed)?;
                    bytes = rest;
                }
                RequestScan::Chunked { bytes: request_bytes, body } => {
                    self.echo(&body, fixed)?;
                    bytes = bytes.get(request_bytes..).unwrap_or_default();
                }
            }
        }
        Ok(bytes)
    }

    fn echo(&mut self, body: &[u8], fixed: &Fixed) -> io::Result<()> {
        if body.is_empty() || fixed.always {
            return self.send(&fixed.reply, &[]);
        }
        // Gateways that validate or transform replies need their content type.
        let kind = match body.first() {
            Some(b'{') => "application/json",
            Some(b'<') => "text/xml; charset=utf-8",
            _ => "application/octet-stream",
        };
        self.send(&head(body.len(), kind), body)
    }

    /// Sends both parts in one system call. Bytes that the kernel does not accept are kept for later.
    fn send(&mut self, first: &[u8], second: &[u8]) -> io::Result<()> {
        let mut sent = 0;
        if self.unsent.is_empty() {
            let parts = [IoSlice::new(first), IoSlice::new(second)];
            sent = match self.stream.write_vectored(&parts) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
                sent => sent?,
            };
        }
        self.unsent.extend_from_slice(first.get(sent..).unwrap_or_default());
        let sent = sent.saturating_sub(first.len());
        self.unsent.extend_from_slice(second.get(sent..).unwrap_or_default());
        if sent > 0 || !self.unsent.is_empty() { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn find(bytes: &[u8]) -> RequestScan {
    let Some(end) = memmem::find(bytes, b"\r\n\r\n") else {
        return if bytes.len() > SCRATCH_BYTES { RequestScan::Nonsense } else { RequestScan::Part };
    };
    let (head, _) = bytes.split_at(end);
    let head_bytes = end + 4;
    let body_bytes = match body_length(head) {
        None => return RequestScan::Nonsense,
        Some(Length::Chunks) => return chunks(bytes, head_bytes),
        Some(Length::Bytes(bytes)) => bytes,
    };
    if bytes.len() >= head_bytes + body_bytes {
        RequestScan::Whole { head_bytes, body_bytes }
    } else {
        RequestScan::Part
    }
}

/// The length of a body.
enum Length {
    Bytes(usize),
    Chunks,
}

/// Returns the length of the body, or `None` if it is not a number or too large.
fn body_length(head: &[u8]) -> Option<Length> {
    let mut length = 0;
    // Harmless: nothing is skipped, since `end + 1` is never beyond the end of the head.
    for line in memchr::memchr_iter(b'\n', head).filter_map(|end| head.get(end + 1..)) {
        // The first letter decides for nearly every header.
        match line.first() {
            Some(b'c' | b'C') => {
                if let Some(value) = value_of(line, b"content-length:") {
                    // Harmless: an invalid length is refused.
                    length = value.parse().ok().filter(|&length| length <= REQUEST_BYTES_MAX)?;
                }
            }
            Some(b't' | b'T') if value_of(line, b"transfer-encoding:").is_some() => {
                return Some(Length::Chunks);
            }
            // Harmless: other headers do not matter.
            _ => {}
        }
    }
    Some(Length::Bytes(length))
}

/// Joins the chunks of a body. Trailers are not supported.
fn chunks(bytes: &[u8], head_bytes: usize) -> RequestScan {
    let (mut at, mut body) = (head_bytes, Vec::new());
    loop {
        let rest = bytes.get(at..).unwrap_or_default();
        let Some(line_bytes) = memmem::find(rest, b"\r\n") else { return RequestScan::Part };
        // Harmless: an invalid length is refused below.
        let length = rest.get(..line_bytes).and_then(|line| str::from_utf8(line).ok());
        // Harmless: an invalid length is refused below.
        let length = length.and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(length) = length.filter(|length| body.len() + length <= REQUEST_BYTES_MAX) else {
            return RequestScan::Nonsense;
        };
        let from = line_bytes + 2;
        let Some(chunk) = rest.get(from..from + length + 2) else { return RequestScan::Part };
        at += from + length + 2;
        match chunk.split_at(length) {
            ([], b"\r\n") => return RequestScan::Chunked { bytes: at, body },
            (chunk, b"\r\n") => body.extend_from_slice(chunk),
            _ => return RequestScan::Nonsense,
        }
    }
}

fn value_of<'a>(line: &'a [u8], name: &[u8]) -> Option<&'a str> {
    let (start, rest) = line.split_at_checked(name.len())?;
    let value = rest.get(..memchr::memchr(b'\r', rest).unwrap_or(rest.len()))?;
    // Harmless: a value that is not text does not match.
    if start.eq_ignore_ascii_case(name) { Some(str::from_utf8(value).ok()?.trim()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_found_at_the_start_of_the_bytes() {
        let chunked = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        let whole = [&chunked[..], b"2\r\nhi\r\nA\r\n0123456789\r\n0\r\n\r\nGET"].concat();
        let part = [&chunked[..], b"2\r\nhi\r\n0\r\n"].concat();
        let nonsense = [&chunked[..], b"2\r\nhi0\r\n\r\n"].concat();
        let cases: [(&[u8], _); 9] = [
            (&whole, Some((chunked.len() + 27, 12))),
            (&part, None),
            (&nonsense, None),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", Some((27, 0))),
            (b"POST / HTTP/1.1\r\ncontent-LENGTH: 2\r\n\r\nhiGET", Some((38, 2))),
            (b"POST / HTTP/1.1\r\nContent-Length:2\r\n\r\nh", None),
            (b"POST / HTTP/1.1\r\nContent-Length: -2\r\n\r\nh", None),
            (b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", None),
            (b"GET / HTTP/1.1\r\nHost: a\r\n\r", None),
        ];
        for (bytes, expected) in cases {
            let found = match find(bytes) {
                RequestScan::Whole { head_bytes, body_bytes } => Some((head_bytes, body_bytes)),
                RequestScan::Chunked { bytes, body } => Some((bytes, body.len())),
                RequestScan::Part | RequestScan::Nonsense => None,
            };
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(bytes));
        }
    }
}
