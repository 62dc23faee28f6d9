//! Memory of idle connections: how much a gateway grows if many clients keep theirs open.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use crate::cases::Case;
use crate::peers::Peer;
use bench::process::{check_stopped, pause};

const ANSWER_MAX: Duration = Duration::from_secs(5);
/// Buffers that are freed after a pause do not count for idle connections.
const SETTLE: Duration = Duration::from_secs(2);
/// Connections that are opened first and not counted: for them the gateway makes its one-time allocations.
const FIRST: u32 = 50;

/// The cost of one peer's idle connections.
#[derive(Clone, Copy)]
pub(crate) struct Idle {
    pub(crate) rss_bytes: u64,
    pub(crate) connection_bytes: u64,
}

/// Opens the connections, makes one request on each, waits, and measures.
pub(crate) fn hold(peer: &Peer, case: &Case) -> io::Result<Idle> {
    let port = peer.port(case.door);
    let first = open(port, FIRST)?;
    pause(SETTLE)?;
    let before = peer.process.rss_bytes();
    let held = open(port, case.connections)?;
    pause(SETTLE)?;
    let rss_bytes = peer.process.rss_bytes();
    // Only open connections count.
    for stream in first.iter().chain(&held) {
        check_open(stream)?;
    }
    let connection_bytes = rss_bytes.saturating_sub(before) / u64::from(case.connections.max(1));
    Ok(Idle { rss_bytes, connection_bytes })
}

fn open(port: u16, count: u32) -> io::Result<Vec<TcpStream>> {
    let mut held = Vec::new();
    for _ in 0..count {
        check_stopped()?;
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
        stream.set_read_timeout(Some(ANSWER_MAX))?;
        ask(&mut stream)?;
        held.push(stream);
    }
    Ok(held)
}

fn ask(stream: &mut TcpStream) -> io::Result<()> {
    stream.write_all(b"GET /echo/idle HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
    let mut reply = Vec::new();
    let mut piece = [0; 4096];
    // The backend's fixed reply consists of this letter only, and no gateway adds one after it.
    while !reply.ends_with(b"xxxxxxxx") {
        let count = stream.read(&mut piece)?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        reply.extend_from_slice(piece.get(..count).unwrap_or_default());
    }
    if reply.starts_with(b"HTTP/1.1 200") { Ok(()) } else { Err(io::Error::other("not 200")) }
}

fn check_open(stream: &TcpStream) -> io::Result<()> {
    stream.set_nonblocking(true)?;
    match stream.peek(&mut [0]) {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
        Ok(0) => Err(io::Error::other("an idle connection was closed while it was measured")),
        Ok(_) => Err(io::Error::other("more than one reply came")),
        Err(error) => Err(error),
    }
}
