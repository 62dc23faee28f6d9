//! The cheapest possible servers, so that comparisons never measure the backend: an echo, a fixed reply, the calculator and httpbin.
//!
//! One thread, epoll, one read and one write per request, everything in one scratch buffer. It supports only what load
//! generators and gateways send it: HTTP/1.1, bodies with a Content-Length or in chunks. The echo sends a body back unchanged, with a
//! Content-Length; a request without one gets a fixed text. Anything else is answered with 400 and closed. The calculator and httpbin
//! answer with the code of the demo backends, without the server around it. It is not an example of how to serve HTTP.

use std::io::{self, IoSlice, Read as _, Write as _};
use std::net::SocketAddr;

use bytes::Bytes;
use http::{Request, Response};
use memchr::memmem;
use mio::event::Event;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};
use socket2::{Domain, Socket, Type};

use super::httpbin::Client;
use super::{Kind, calculator, httpbin};

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
    /// With what a function answers to the client's request.
    Computed(Box<Answer>),
}

/// Answers a whole request of this client.
type Answer = dyn Fn(Request<Bytes>, SocketAddr) -> Response<Bytes>;

impl Answers {
    /// Returns the answers of a kind of backend that replies without waiting, or `None` for other kinds. For a request without a body, the
    /// echo sends 350 bytes.
    ///
    /// # Errors
    ///
    /// If the environment names a region that cannot be a header.
    pub fn of(kind: Kind) -> io::Result<Option<Answers>> {
        Ok(Some(match kind {
            Kind::Echo => Answers::Echo(350),
            Kind::Calculator => {
                let region = calculator::region()?;
                let answer = move |request, _| calculator::answer_whole(&request, &region);
                Answers::Computed(Box::new(answer))
            }
            Kind::Httpbin => Answers::Computed(Box::new(|request, address| {
                httpbin::answer_whole(request, Client { address, scheme: "http" })
            })),
            Kind::Sse | Kind::Reverse | Kind::Interceptor | Kind::Webhook => return Ok(None),
        }))
    }
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
    let mut server =
        Server { connections: Vec::new(), free: Vec::new(), replies: replies(answers) };
    let mut scratch = vec![0; SCRATCH_BYTES];
    loop {
        match poll.poll(&mut events, None) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        for event in &events {
            match event.token() {
                LISTENER => server.accept(&listener, &poll)?,
                token => server.advance(token, event, &mut scratch),
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

fn replies(answers: &Answers) -> Replies<'_> {
    match answers {
        Answers::Echo(bytes) => {
            let mut reply = head(*bytes, "text/plain; charset=utf-8");
            reply.resize(reply.len() + bytes, b'x');
            Replies::Body { without: reply }
        }
        Answers::Xml(text) => {
            let mut reply = head(text.len(), "text/xml;charset=utf-8");
            reply.extend_from_slice(text);
            Replies::Fixed(reply)
        }
        Answers::Computed(answer) => Replies::Computed(&**answer),
    }
}

fn head(length: usize, kind: &str) -> Vec<u8> {
    format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n").into()
}

struct Server<'a> {
    /// The connections, by epoll token.
    connections: Vec<Option<Connection>>,
    free: Vec<usize>,
    replies: Replies<'a>,
}

/// How a request becomes a reply.
enum Replies<'a> {
    /// The body comes back. Without a body, the reply is this one.
    Body {
        without: Vec<u8>,
    },
    Fixed(Vec<u8>),
    Computed(&'a Answer),
}

struct Connection {
    stream: TcpStream,
    client: SocketAddr,
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
        head_bytes: usize,
        bytes: usize,
        body: Vec<u8>,
    },
    Part,
    Nonsense,
}

impl Server<'_> {
    fn accept(&mut self, listener: &TcpListener, poll: &Poll) -> io::Result<()> {
        loop {
            let token = self.free.last().copied().unwrap_or(self.connections.len());
            let Some(stream) = accept(listener, poll, Token(token))? else { return Ok(()) };
            self.free.pop();
            // A client that has gone is seen when its connection is read.
            let client = stream.peer_addr().unwrap_or(SocketAddr::from(([0, 0, 0, 0], 0)));
            let (received, unsent) = (Vec::new(), Vec::new());
            let connection = Connection { stream, client, received, unsent };
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
            open = connection.read(event.is_read_closed(), scratch, &self.replies).is_ok();
        }
        if !open {
            *place = None;
            self.free.push(token.0);
        }
    }
}

impl Connection {
    /// Reads until the kernel has no more bytes. A read that does not fill the scratch buffer has emptied the socket, so another read
    /// would only cost a system call. Epoll reports when more bytes arrive, but not again that the client sends nothing more.
    fn read(
        &mut self,
        is_ending: bool,
        scratch: &mut [u8],
        replies: &Replies<'_>,
    ) -> io::Result<()> {
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let arrived = scratch.get(..count).unwrap_or_default();
            if self.received.is_empty() {
                let left = self.answer(arrived, replies)?;
                self.received.extend_from_slice(left);
            } else {
                self.received.extend_from_slice(arrived);
                let received = std::mem::take(&mut self.received);
                let left_bytes = self.answer(&received, replies)?.len();
                self.received = received;
                self.received.drain(..self.received.len() - left_bytes);
            }
            if count < scratch.len() && !is_ending {
                return Ok(());
            }
        }
    }

    /// Answers every complete request and returns the rest of the bytes.
    fn answer<'a>(&mut self, mut bytes: &'a [u8], replies: &Replies<'_>) -> io::Result<&'a [u8]> {
        while !bytes.is_empty() {
            match find(bytes) {
                RequestScan::Part => break,
                RequestScan::Nonsense => return self.refuse(),
                RequestScan::Whole { head_bytes, body_bytes } => {
                    let (request, rest) = bytes.split_at(head_bytes + body_bytes);
                    let (head, body) = request.split_at(head_bytes);
                    self.reply(head, body, replies)?;
                    bytes = rest;
                }
                RequestScan::Chunked { head_bytes, bytes: request_bytes, body } => {
                    let (head, _) = bytes.split_at(head_bytes);
                    self.reply(head, &body, replies)?;
                    bytes = bytes.get(request_bytes..).unwrap_or_default();
                }
            }
        }
        Ok(bytes)
    }

    fn refuse<T>(&mut self) -> io::Result<T> {
        self.send(REFUSAL, &[])?;
        Err(io::ErrorKind::InvalidData.into())
    }

    fn reply(&mut self, request: &[u8], body: &[u8], replies: &Replies<'_>) -> io::Result<()> {
        match replies {
            Replies::Fixed(reply) => self.send(reply, &[]),
            Replies::Body { without } if body.is_empty() => self.send(without, &[]),
            Replies::Body { .. } => {
                // Gateways that validate or transform replies need their content type.
                let kind = match body.first() {
                    Some(b'{') => "application/json",
                    Some(b'<') => "text/xml; charset=utf-8",
                    _ => "application/octet-stream",
                };
                self.send(&head(body.len(), kind), body)
            }
            Replies::Computed(answer) => {
                let Some(request) = parse(request, body) else { return self.refuse() };
                let reply = answer(request, self.client);
                self.send(&written(&reply), reply.body())
            }
        }
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

/// Returns a request, or `None` if its head is not one.
fn parse(head: &[u8], body: &[u8]) -> Option<Request<Bytes>> {
    // Harmless: a head that is not text is refused.
    let mut lines = str::from_utf8(head).ok()?.split("\r\n");
    let mut words = lines.next()?.split(' ');
    let mut request = Request::builder().method(words.next()?).uri(words.next()?);
    for line in lines.take_while(|line| !line.is_empty()) {
        let (name, value) = line.split_once(':')?;
        request = request.header(name, value.trim());
    }
    // Harmless: a request whose parts are not valid is refused.
    request.body(Bytes::copy_from_slice(body)).ok()
}

/// Returns the head of a reply.
fn written(reply: &Response<Bytes>) -> Vec<u8> {
    let length = reply.body().len();
    let mut head =
        format!("HTTP/1.1 {}\r\ncontent-length: {length}\r\n", reply.status()).into_bytes();
    for (name, value) in reply.headers() {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n");
    head
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
            ([], b"\r\n") => return RequestScan::Chunked { head_bytes, bytes: at, body },
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
                RequestScan::Chunked { bytes, body, .. } => Some((bytes, body.len())),
                RequestScan::Part | RequestScan::Nonsense => None,
            };
            assert_eq!(found, expected, "{}", String::from_utf8_lossy(bytes));
        }
    }

    /// Sends the bytes in one piece, or byte by byte, and returns all replies.
    fn ask(address: SocketAddr, bytes: &[u8], size: usize) -> String {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
        for piece in bytes.chunks(size) {
            stream.write_all(piece).unwrap();
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    /// Serves until the test's process ends.
    fn start(kind: Kind) -> SocketAddr {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let answers = Answers::of(kind).unwrap().unwrap();
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            serve(any, &answers, |address| tell.send(address).unwrap())
        });
        told.recv().unwrap()
    }

    #[test]
    fn the_calculator_and_httpbin_answer_like_the_demo_backends() {
        let sum = r#"<s:Envelope xmlns:s="http://schemas.xmlsoap.org/soap/envelope/"><s:Body><Add xmlns="http://tempuri.org/"><intA>5</intA><intB>7</intB></Add></s:Body></s:Envelope>"#;
        let json = r#"{"one":"1"}"#;
        let cases = [
            (Kind::Calculator, "POST /ws", "", sum),
            (Kind::Calculator, "POST /ws", "", "<no"),
            (Kind::Calculator, "GET /ws?wsdl", "", ""),
            (Kind::Calculator, "PUT /ws", "", ""),
            (
                Kind::Httpbin,
                "POST /anything?a=b",
                "content-type: application/json\r\nx-a: 1\r\n",
                json,
            ),
            (Kind::Httpbin, "GET /size/350B", "", ""),
            (Kind::Httpbin, "GET /response-headers?x-b=c", "", ""),
            (Kind::Httpbin, "GET /nothing", "", ""),
        ];
        let fast = [Kind::Calculator, Kind::Httpbin].map(|kind| (kind, start(kind)));
        for (kind, line, headers, body) in cases {
            let slow = crate::spawn_thread(kind, crate::Options::default()).unwrap();
            let of = |&(_, address): &(Kind, SocketAddr)| address;
            let fast = fast.iter().find(|one| one.0 == kind).map(of).unwrap();
            let length = body.len();
            let request = format!(
                "{line} HTTP/1.1\r\nHost: test\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
            );
            let expected = ask(slow.address(), request.as_bytes(), request.len());
            for size in [1, request.len()] {
                let reply = ask(fast, request.as_bytes(), size);
                assert_eq!(sorted(&reply), sorted(&expected), "{line} in pieces of {size}");
            }
        }
        let twice = "GET /size/2B HTTP/1.1\r\n\r\n".repeat(2);
        assert_eq!(ask(fast[1].1, twice.as_bytes(), 100).matches("\r\n\r\nxx").count(), 2);
        let wrong: [&[u8]; 3] = [
            b"GET / HTTP/1.1\r\nx: \xff\r\n\r\n",
            b"GET\r\n\r\n",
            b"GET / HTTP/1.1\r\nx y: 1\r\n\r\n",
        ];
        for wrong in wrong {
            assert!(ask(fast[1].1, wrong, 100).starts_with("HTTP/1.1 400 "), "{wrong:?}");
        }
        assert!(Answers::of(Kind::Sse).unwrap().is_none());
    }

    /// The lines of a head in order, without the time, and the body.
    fn sorted(reply: &str) -> (Vec<&str>, &str) {
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        let mut lines: Vec<&str> =
            head.lines().filter(|line| !line.starts_with("date: ")).collect();
        lines.sort_unstable();
        (lines, body)
    }
}
