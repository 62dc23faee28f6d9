//! The upstream of the server under test. It reports what it received.
//!
//! A lenient HTTP/1 server on threads. Any path returns the request body, or `OK` without one. `/echo` returns the request headers, one per
//! line, and `/cookie` the cookie pairs, one per line.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

/// The largest head line and the largest body that are accepted. Servers under test refuse larger ones.
const LINE_BYTES_MAX: u64 = 1 << 20;
const BODY_BYTES_MAX: u64 = 16 << 20;
const HEADERS_MAX: usize = 2000;

/// The time that a connection may be idle. It is longer than any case, so that a proxy can reuse the connection.
const IDLE: Duration = Duration::from_secs(60);

/// A received request.
#[derive(Debug, Default)]
struct Request {
    method: String,
    path: String,
    /// Whether the request is HTTP/1.0.
    is_http10: bool,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// Starts the echo server, which runs as long as the program. Returns its address.
pub(crate) fn start(address: &str) -> io::Result<SocketAddr> {
    let listener = TcpListener::bind(address)?;
    let local = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || serve(&stream));
        }
    });
    Ok(local)
}

/// Serves one connection to its end. The client usually ends it, so a closed connection is not an error.
fn serve(stream: &TcpStream) {
    let configured = stream.set_read_timeout(Some(IDLE)).and_then(|()| stream.set_nodelay(true));
    let mut reader = BufReader::new(stream);
    let mut writer = stream;
    while configured.is_ok() {
        let (reply, close) = match read_request(&mut reader) {
            Ok(Some(request)) => (reply(&request), closes(&request)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n".to_vec(), true)
            }
            Ok(None) | Err(_) => return,
        };
        if writer.write_all(&reply).is_err() || close {
            return;
        }
    }
}

fn reply(request: &Request) -> Vec<u8> {
    let path = request.path.split('?').next().unwrap_or_default();
    let body = match path {
        "/echo" => {
            request.headers.iter().map(|(name, value)| format!("{name}: {value}\n")).collect()
        }
        "/cookie" => cookies(request),
        _ if request.body.is_empty() => "OK".to_owned(),
        _ => String::new(),
    };
    let body = if body.is_empty() { request.body.clone() } else { body.into_bytes() };
    let connection = if closes(request) { "close" } else { "keep-alive" };
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: {}\r\n\
         Connection: {connection}\r\n\r\n",
        body.len()
    );
    let sent = if request.method == "HEAD" { &[][..] } else { &body };
    [head.as_bytes(), sent].concat()
}

fn cookies(request: &Request) -> String {
    let cookies = request.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let pairs = cookies.flat_map(|(_, value)| value.split(';')).map(str::trim);
    pairs.filter(|pair| pair.contains('=')).map(|pair| format!("{pair}\n")).collect()
}

fn closes(request: &Request) -> bool {
    let asked = |token: &str| has(request, "connection", token);
    asked("close") || (request.is_http10 && !asked("keep-alive"))
}

fn has(request: &Request, name: &str, token: &str) -> bool {
    let values = request.headers.iter().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    values.flat_map(|(_, value)| value.split(',')).any(|t| t.trim().eq_ignore_ascii_case(token))
}

/// Reads a request with its body. Returns `None` if the client closed or was idle for too long.
fn read_request(reader: &mut impl BufRead) -> io::Result<Option<Request>> {
    let Some(start) = read_line(reader)? else { return Ok(None) };
    let words: Vec<&str> = start.split(' ').collect();
    let [method, path, version] = words.as_slice() else { return Err(invalid()) };
    let mut request = Request {
        method: (*method).to_owned(),
        path: (*path).to_owned(),
        is_http10: *version == "HTTP/1.0",
        ..Request::default()
    };
    loop {
        let line = read_line(reader)?.ok_or_else(invalid)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':').ok_or_else(invalid)?;
        request.headers.push((name.to_owned(), value.trim().to_owned()));
        if request.headers.len() > HEADERS_MAX {
            return Err(invalid());
        }
    }
    request.body = read_body(reader, &request)?;
    Ok(Some(request))
}

fn read_body(reader: &mut impl BufRead, request: &Request) -> io::Result<Vec<u8>> {
    if has(request, "transfer-encoding", "chunked") {
        return read_chunks(reader);
    }
    let length =
        request.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    match length.map(|(_, value)| value.parse()) {
        Some(Ok(length)) => read_exactly(reader, length),
        Some(Err(_)) => Err(invalid()),
        None => Ok(Vec::new()),
    }
}

fn read_chunks(reader: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let line = read_line(reader)?.ok_or_else(invalid)?;
        let size = line.split(';').next().unwrap_or_default().trim();
        let size = u64::from_str_radix(size, 16).map_err(|_| invalid())?;
        if size == 0 {
            break;
        }
        body.extend(read_exactly(reader, size)?);
        if !read_line(reader)?.is_some_and(|line| line.is_empty())
            || body.len() as u64 > BODY_BYTES_MAX
        {
            return Err(invalid());
        }
    }
    while !read_line(reader)?.ok_or_else(invalid)?.is_empty() {}
    Ok(body)
}

fn read_exactly(reader: &mut impl BufRead, length: u64) -> io::Result<Vec<u8>> {
    if length > BODY_BYTES_MAX {
        return Err(invalid());
    }
    let mut bytes = Vec::new();
    reader.take(length).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < length { Err(io::ErrorKind::UnexpectedEof.into()) } else { Ok(bytes) }
}

/// Reads one line without its end. Returns `None` at the end of the stream.
fn read_line(reader: &mut impl BufRead) -> io::Result<Option<String>> {
    let mut bytes = Vec::new();
    reader.take(LINE_BYTES_MAX).read_until(b'\n', &mut bytes)?;
    match bytes.pop() {
        None => Ok(None),
        Some(b'\n') => {
            let line = bytes.strip_suffix(b"\r").unwrap_or(&bytes);
            Ok(Some(String::from_utf8_lossy(line).into_owned()))
        }
        Some(_) => Err(invalid()),
    }
}

fn invalid() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(input: &str, expected: &str) {
        let mut reader = input.as_bytes();
        let mut found = String::new();
        while let Ok(Some(request)) = read_request(&mut reader) {
            let reply = String::from_utf8(reply(&request)).unwrap();
            let (head, body) = reply.split_once("\r\n\r\n").unwrap();
            let length = head.lines().find(|line| line.starts_with("Content-Length")).unwrap();
            found += &format!("{length} {body:?} close={};", closes(&request));
        }
        assert_eq!(found, expected, "{input:?}");
    }

    #[test]
    fn replies() {
        check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "Content-Length: 2 \"OK\" close=false;");
        check("HEAD / HTTP/1.0\r\n\r\n", "Content-Length: 2 \"\" close=true;");
        check(
            "POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nabGET / HTTP/1.1\r\nConnection: close\r\n\r\n",
            "Content-Length: 2 \"ab\" close=false;Content-Length: 2 \"OK\" close=true;",
        );
        check(
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2;x\r\nab\r\n1\r\nc\r\n0\r\nT: u\r\n\r\n",
            "Content-Length: 3 \"abc\" close=false;",
        );
        check(
            "GET /echo?x HTTP/1.1\r\nA: b\r\nC:d\r\n\r\n",
            "Content-Length: 10 \"A: b\\nC: d\\n\" close=false;",
        );
        check(
            "GET /cookie HTTP/1.1\r\nCookie: a=b; c=; =;;d\r\n\r\n",
            "Content-Length: 9 \"a=b\\nc=\\n=\\n\" close=false;",
        );
    }

    #[test]
    fn broken_requests_have_no_reply() {
        for input in [
            "GET /\r\n\r\n",
            "GET / HTTP/1.1\r\nA\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabc",
            "POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n",
            "GET / HTTP/1.1\r\nA: b",
        ] {
            check(input, "");
        }
    }
}
