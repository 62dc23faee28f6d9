//! Observes a server: its first reply to some bytes, and whether it keeps the connection.

use std::fmt;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::Duration;

use super::case::Step;

/// Maximum number of bytes that are read of a reply. Replies to these cases are smaller.
const REPLY_BYTES_MAX: usize = 4 << 20;

/// The times to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Patience {
    /// To connect, and for more bytes of a head.
    pub(crate) read: Duration,
    /// For the rest of the body, after the head is complete.
    pub(crate) settle: Duration,
    /// After that, for the peer to close the connection.
    pub(crate) close: Duration,
}

impl Default for Patience {
    /// The times of the suite's own program.
    fn default() -> Self {
        let ms = Duration::from_millis;
        Self { read: ms(5000), settle: ms(100), close: ms(50) }
    }
}

/// The state of the connection after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Connection {
    Open,
    Closed,
    /// No complete head arrived, and the connection was not closed.
    Timeout,
    /// The step was not reached.
    NotExecuted,
}

/// The observation of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) status: Option<u16>,
    pub(crate) connection: Connection,
    /// The number of status lines.
    pub(crate) responses: usize,
    pub(crate) headers: Vec<(String, String)>,
    /// Without chunk framing and without trailing line ends.
    pub(crate) body: String,
}

/// Sends the steps over one connection, and returns the observation of each.
pub(crate) fn observe(target: SocketAddr, steps: &[Step], patience: Patience) -> Vec<Seen> {
    let mut stream = TcpStream::connect_timeout(&target, patience.read).ok();
    let mut seen = Vec::new();
    for step in steps {
        let found = match &mut stream {
            Some(stream) => exchange(stream, step, patience),
            None => Seen::nothing(Connection::NotExecuted),
        };
        if found.connection != Connection::Open {
            stream = None;
        }
        seen.push(found);
    }
    seen
}

impl Seen {
    /// Returns the observation of a step without a response.
    pub(crate) fn nothing(connection: Connection) -> Self {
        Self { status: None, connection, responses: 0, headers: Vec::new(), body: String::new() }
    }

    /// Parses the bytes of a step.
    pub(crate) fn read(bytes: &[u8], connection: Connection) -> Self {
        let responses = count_responses(bytes);
        let end = end_of_head(bytes).unwrap_or(bytes.len());
        let (head, rest) = bytes.split_at_checked(end).unwrap_or((bytes, &[]));
        let head = String::from_utf8_lossy(head);
        let mut lines = head.split("\r\n");
        let status = lines.next().and_then(status);
        let headers: Vec<(String, String)> = lines.filter_map(header).collect();
        let body = String::from_utf8_lossy(&body(&headers, rest))
            .trim_end_matches(['\r', '\n'])
            .to_owned();
        Self { status, connection, responses, headers, body }
    }

    /// The first header of this name.
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut of = self.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
        of.next().map(|(_, value)| value.as_str())
    }
}

impl fmt::Display for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) => write!(f, "{status}")?,
            None => write!(f, "no status")?,
        }
        write!(f, ", connection {:?}, {} response(s)", self.connection, self.responses)?;
        let body: String = self.body.chars().take(200).collect();
        if body.is_empty() { Ok(()) } else { write!(f, ", body {body:?}") }
    }
}

/// Sends a step and reads the reply. A failed write is ignored, because the peer may answer and close before it has read the whole step.
fn exchange(stream: &mut TcpStream, step: &Step, patience: Patience) -> Seen {
    let configured = stream
        .set_nodelay(true)
        .and_then(|()| stream.set_write_timeout(Some(patience.read)))
        .and_then(|()| stream.set_read_timeout(Some(patience.read)));
    if configured.is_err() {
        return Seen::nothing(Connection::Closed);
    }
    for part in &step.parts {
        stream.write_all(&part.bytes).ok();
        thread::sleep(part.pause);
    }
    let mut bytes = Vec::new();
    let mut connection = receive_head(stream, &mut bytes);
    if connection == Connection::Open {
        thread::sleep(patience.settle);
        connection = receive_waiting(stream, &mut bytes);
    }
    if connection == Connection::Open {
        thread::sleep(patience.close);
        // Bytes that arrive this late are not part of the observation.
        connection = receive_waiting(stream, &mut Vec::new());
    }
    Seen::read(&bytes, connection)
}

/// Reads until the head is complete, the peer closes or the time is up.
fn receive_head(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Connection {
    while end_of_head(bytes).is_none() {
        match receive(stream, bytes) {
            Received::Bytes => {}
            Received::Nothing => return Connection::Timeout,
            Received::End => return Connection::Closed,
        }
    }
    Connection::Open
}

/// Reads available bytes without waiting.
fn receive_waiting(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Connection {
    if stream.set_nonblocking(true).is_err() {
        return Connection::Closed;
    }
    let connection = loop {
        match receive(stream, bytes) {
            Received::Bytes => {}
            Received::Nothing => break Connection::Open,
            Received::End => break Connection::Closed,
        }
    };
    if stream.set_nonblocking(false).is_err() { Connection::Closed } else { connection }
}

enum Received {
    Bytes,
    Nothing,
    /// Closed or reset.
    End,
}

fn receive(stream: &mut TcpStream, bytes: &mut Vec<u8>) -> Received {
    let mut buffer = [0; 16 << 10];
    match stream.read(&mut buffer) {
        Ok(0) => Received::End,
        Ok(_) if bytes.len() > REPLY_BYTES_MAX => Received::End,
        Ok(n) => {
            bytes.extend_from_slice(buffer.get(..n).unwrap_or_default());
            Received::Bytes
        }
        Err(error) if error.kind() == ErrorKind::Interrupted => Received::Bytes,
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
            Received::Nothing
        }
        Err(_) => Received::End,
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4)
}

/// Counts `HTTP/1.x` with three digits anywhere in the text, because a response may follow a body that does not end with a line end.
fn count_responses(bytes: &[u8]) -> usize {
    let lines = bytes.windows(12).filter(|w| {
        w.starts_with(b"HTTP/1.")
            && matches!(w, [.., minor, b' ', a, b, c] if [minor, a, b, c].iter().all(|d| d.is_ascii_digit()))
    });
    lines.count()
}

fn status(line: &str) -> Option<u16> {
    line.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()
}

fn header(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    Some((name.to_owned(), value.trim().to_owned()))
}

fn body(headers: &[(String, String)], rest: &[u8]) -> Vec<u8> {
    let value = |name: &str| {
        headers.iter().find(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    };
    if value("transfer-encoding").is_some_and(|coding| coding.to_lowercase().contains("chunked")) {
        return dechunk(rest);
    }
    let length = value("content-length").and_then(|length| length.parse().ok());
    rest.get(..length.unwrap_or(rest.len())).unwrap_or(rest).to_vec()
}

/// The payload of all complete chunks.
fn dechunk(bytes: &[u8]) -> Vec<u8> {
    let (mut rest, mut payload) = (bytes, Vec::new());
    while let Some(at) = rest.windows(2).position(|two| two == b"\r\n") {
        let line = String::from_utf8_lossy(rest.get(..at).unwrap_or_default()).into_owned();
        let size = line.split(';').next().unwrap_or_default().trim();
        let Ok(size @ 1..) = usize::from_str_radix(size, 16) else { break };
        let data = rest.get(at + 2..).unwrap_or_default();
        payload.extend_from_slice(data.get(..size).unwrap_or(data));
        rest = data.get(size.saturating_add(2)..).unwrap_or_default();
    }
    payload
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::case::Part;
    use super::*;

    #[test]
    fn replies() {
        let seen = Seen::read(
            b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 4\r\n\r\nhi\r\n",
            Connection::Open,
        );
        assert_eq!((seen.status, seen.responses, seen.body.as_str()), (Some(200), 1, "hi"));
        assert_eq!(seen.header("a"), Some("b"));
        let seen = Seen::read(
            b"HTTP/1.1 400 No\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhi\r\n3;x\r\n ho\r\n0\r\n\r\n",
            Connection::Open,
        );
        assert_eq!((seen.status, seen.body.as_str()), (Some(400), "hi ho"));
        let seen = Seen::read(
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nOKHTTP/1.1 400 Bad\r\n\r\n",
            Connection::Closed,
        );
        assert_eq!((seen.status, seen.responses, seen.body.as_str()), (Some(200), 2, "OK"));
        let seen = Seen::read(b"", Connection::Closed);
        assert_eq!(seen, Seen::nothing(Connection::Closed));
        assert_eq!(Seen::read(b"HTTP/1.1 ", Connection::Closed).responses, 0);
    }

    /// Checks what is observed if a peer writes this reply, and then closes the connection unless `keep` is set.
    #[track_caller]
    fn check(
        reply: &'static [u8],
        keep: bool,
        steps: usize,
        expected: &[(Option<u16>, Connection)],
    ) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = listener.local_addr().unwrap();
        let peer = thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.read_exact(&mut [0; 3]).unwrap();
            stream.write_all(reply).unwrap();
            // Reads to the end, so that a close does not become a reset.
            if keep {
                stream.read_to_end(&mut Vec::new()).unwrap();
            }
        });
        let step = Step { parts: vec![Part { bytes: b"GET".to_vec(), pause: Duration::ZERO }] };
        let ms = Duration::from_millis;
        let patience = Patience { read: ms(300), settle: ms(30), close: ms(30) };
        let seen = observe(target, &vec![step; steps], patience);
        let seen: Vec<_> = seen.iter().map(|seen| (seen.status, seen.connection)).collect();
        peer.join().unwrap();
        assert_eq!(seen, expected);
    }

    #[test]
    fn connections() {
        use Connection::*;
        let reply = b"HTTP/1.1 204 No Content\r\n\r\n";
        check(reply, true, 1, &[(Some(204), Open)]);
        check(reply, false, 2, &[(Some(204), Closed), (None, NotExecuted)]);
        check(b"", true, 2, &[(None, Timeout), (None, NotExecuted)]);
        check(b"", false, 1, &[(None, Closed)]);
        check(reply, true, 2, &[(Some(204), Open), (None, Timeout)]);
    }
}
