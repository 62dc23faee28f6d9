//! A scripted upstream: a test decides what it does with each connection.

use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use rustls::{ServerConfig, ServerConnection};

use super::{Message, Wire, until};

/// A listening service. It stops when dropped.
pub(crate) struct Origin {
    address: SocketAddr,
    seen: Arc<Seen>,
}

#[derive(Default)]
struct Seen {
    requests: Mutex<Vec<Message>>,
    accepted: AtomicUsize,
    open: AtomicUsize,
    stopped: AtomicBool,
}

/// One connection of the gateway to an origin.
pub(crate) struct Peer {
    wire: Wire,
    /// The index of the connection, from 0.
    pub(crate) number: usize,
    seen: Arc<Seen>,
}

impl Origin {
    /// Runs `script` for each connection, in its own thread. The connection is closed when it returns.
    pub(crate) fn start(script: impl Fn(&mut Peer) + Send + Sync + 'static) -> Origin {
        Origin::serve(|socket| Some(Wire::from(socket)), script)
    }

    /// Sends the same bytes in reply to every request.
    pub(crate) fn answering(reply: impl AsRef<[u8]>) -> Origin {
        let reply = reply.as_ref().to_owned();
        Origin::start(move |peer| while peer.request().is_some() && peer.try_send(&reply) {})
    }

    /// Reads requests and never answers.
    pub(crate) fn silent() -> Origin {
        Origin::start(|peer| while peer.request().is_some() {})
    }

    /// Answers every request with 200 and a body.
    pub(crate) fn saying(body: &str) -> Origin {
        Origin::answering(format!(
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    }

    /// Sends back the body of each request.
    pub(crate) fn echo() -> Origin {
        Origin::start(echo)
    }

    /// Starts with TLS. Failed handshakes do not count as connections.
    pub(crate) fn start_tls(
        settings: Arc<ServerConfig>,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
    ) -> Origin {
        Origin::start_tls_by(move || settings.clone(), script)
    }

    /// Starts with TLS, with separate settings for each connection.
    pub(crate) fn start_tls_by(
        settings: impl Fn() -> Arc<ServerConfig> + Send + Sync + 'static,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
    ) -> Origin {
        let wrap = move |socket| {
            let session = ServerConnection::new(settings()).expect("settings that work");
            Wire::wrap_server(socket, session).ok()
        };
        Origin::serve(wrap, script)
    }

    fn serve(
        wrap: impl Fn(TcpStream) -> Option<Wire> + Send + Sync + 'static,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
    ) -> Origin {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        Origin::serve_on(listener, wrap, script)
    }

    /// Runs `script` for each connection to a listener that the test has created.
    pub(crate) fn start_on(
        listener: TcpListener,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
    ) -> Origin {
        Origin::serve_on(listener, |socket| Some(Wire::from(socket)), script)
    }

    fn serve_on(
        listener: TcpListener,
        wrap: impl Fn(TcpStream) -> Option<Wire> + Send + Sync + 'static,
        script: impl Fn(&mut Peer) + Send + Sync + 'static,
    ) -> Origin {
        let address = listener.local_addr().expect("an address");
        let seen: Arc<Seen> = Arc::default();
        let shared = seen.clone();
        let work = Arc::new((wrap, script));
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (socket, seen, work) =
                    (socket.expect("a connection"), shared.clone(), work.clone());
                if seen.stopped.load(Ordering::SeqCst) {
                    return;
                }
                thread::spawn(move || {
                    let Some(wire) = (work.0)(socket) else { return };
                    let number = seen.accepted.fetch_add(1, Ordering::SeqCst);
                    seen.open.fetch_add(1, Ordering::SeqCst);
                    // Decrements the count after the connection is closed, even if the script panics.
                    let _open = Open(seen.clone());
                    (work.1)(&mut Peer { wire, number, seen });
                });
            }
        });
        Origin { address, seen }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns all requests read so far, on all connections.
    pub(crate) fn requests(&self) -> Vec<Message> {
        self.seen.requests.lock().unwrap().clone()
    }

    /// Clears the recorded requests.
    pub(crate) fn forget(&self) {
        self.seen.requests.lock().unwrap().clear();
    }

    /// Returns the only request so far.
    #[track_caller]
    pub(crate) fn request(&self) -> Message {
        let requests = self.requests();
        assert_eq!(requests.len(), 1, "{requests:?}");
        requests[0].clone()
    }

    /// Returns the number of connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.seen.accepted.load(Ordering::SeqCst)
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.seen.open.load(Ordering::SeqCst)
    }

    #[track_caller]
    pub(crate) fn wait_for_requests(&self, count: usize) {
        until(&format!("{count} requests have arrived"), || self.requests().len() >= count);
    }
}

impl Drop for Origin {
    /// Closes the port, so that later connections are refused.
    fn drop(&mut self) {
        self.seen.stopped.store(true, Ordering::SeqCst);
        // This only wakes the accepting thread, and may fail.
        let _ = TcpStream::connect(self.address);
    }
}

/// Sent to a request that expects it (RFC 9110, 10.1.1).
pub(crate) const LEAVE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

impl Peer {
    /// Reads one whole request, sending 100 (Continue) if expected, and records it. Returns `None` if the gateway closed the connection.
    pub(crate) fn request(&mut self) -> Option<Message> {
        let mut request = self.wire.next_head()?;
        if request.get("expect").is_some() {
            self.wire.try_send(LEAVE);
        }
        self.wire.read_request_body(&mut request);
        self.note(&request);
        Some(request)
    }

    /// Reads the head of a request and records it.
    pub(crate) fn request_head(&mut self) -> Option<Message> {
        let request = self.wire.next_head()?;
        self.note(&request);
        Some(request)
    }

    /// Adds a request to those that the test can see.
    pub(crate) fn note(&self, request: &Message) {
        self.seen.requests.lock().unwrap().push(request.clone());
    }
}

impl Deref for Peer {
    type Target = Wire;

    fn deref(&self) -> &Wire {
        &self.wire
    }
}

impl DerefMut for Peer {
    fn deref_mut(&mut self) -> &mut Wire {
        &mut self.wire
    }
}

pub(crate) fn echo(peer: &mut Peer) {
    while let Some(request) = peer.request() {
        let length = request.body.len();
        peer.try_send(format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n"));
        if request.method() != "HEAD" && !peer.try_send(&request.body) {
            return;
        }
    }
}

struct Open(Arc<Seen>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}
