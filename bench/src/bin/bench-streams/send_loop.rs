//! The floor of a shared stream: what comes of the backend goes to each client by one `send()`, in a loop, and nothing else is done.

use std::io::{self, Read as _, Write as _};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::{Mutex, PoisonError};
use std::thread;

/// As the rig expects it; no client is read.
const REPLY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Transfer-Encoding: chunked\r\n\r\n";
const REQUEST: &[u8] = b"GET /shared/000000 HTTP/1.1\r\nHost: localhost\r\n\r\n";

static CLIENTS: Mutex<Vec<TcpStream>> = Mutex::new(Vec::new());

/// Serves this port from this backend until it is killed.
pub(crate) fn serve(port: u16, backend: u16) -> io::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    thread::spawn(move || accept(&listener));
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, backend))?;
    stream.write_all(REQUEST)?;
    let mut bytes = vec![0; 64 << 10];
    // The first that comes is the head, alone: events begin when all clients are there.
    let _head = stream.read(&mut bytes)?;
    loop {
        let came = stream.read(&mut bytes)?;
        if came == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let event = bytes.get(..came).unwrap_or_default();
        let mut clients = CLIENTS.lock().unwrap_or_else(PoisonError::into_inner);
        // A client that takes nothing more is none.
        clients.retain_mut(|client| client.write(event).is_ok_and(|sent| sent == event.len()));
    }
}

fn accept(listener: &TcpListener) -> io::Result<()> {
    loop {
        let (mut client, _) = listener.accept()?;
        client.set_nodelay(true)?;
        client.set_nonblocking(true)?;
        client.write_all(REPLY)?;
        CLIENTS.lock().unwrap_or_else(PoisonError::into_inner).push(client);
    }
}
