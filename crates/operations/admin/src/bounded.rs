//! A socket with limits for open connections and for their idle time. If all places are taken, the connection with the longest idle
//! time is closed for a new one, so that silent connections do not exclude probes. If none is idle, the one that has been busy
//! longest is closed. The admin API processes far fewer requests at once than it accepts connections (see the module `places`), so most
//! of the busy connections have no request in progress.

use axum::extract::connect_info::Connected;
use axum::serve::{IncomingStream, Listener};
use control::tls::{self, Accepted, ClientCertificate};
use kit::clock::{self, Instant};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Sleep, sleep, timeout};

/// How long a connection may be silent: between two requests, within one, or while a reply is made. It is longer than the
/// largest configuration takes to go into service, and than the usual interval of Prometheus, which keeps its connection open.
pub(crate) const QUIET_MAX: Duration = Duration::from_secs(90);

/// How long the listener waits for a connection that was told to close, before it tells another one.
const LEAVING: Duration = Duration::from_millis(100);

/// How long connections stay open after a socket is closed or left to another process. A client that connected just before it has sent its
/// request by then.
const REQUEST_ARRIVES: Duration = Duration::from_millis(500);

/// How long a busy connection is kept even if new connections wait for a place. Most requests take less.
pub(crate) const BUSY_MIN: Duration = Duration::from_secs(1);

/// The empty line after a head.
const HEAD_END: u32 = u32::from_be_bytes(*b"\r\n\r\n");

/// A listener with a limit for open connections.
pub struct BoundedListener {
    /// None once it is closed.
    listener: Option<TcpListener>,
    /// Ready when the socket is to be closed.
    closing: Closing,
    tls: CurrentTls,
    places: Arc<Semaphore>,
    open: Vec<OpenConnection>,
}

/// The TLS settings for the next connection: those of the plan in service.
pub type CurrentTls = Box<dyn Fn() -> Option<tls::Server> + Send>;

type Closing = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The other end of a connection.
#[derive(Clone)]
pub struct Peer {
    pub address: SocketAddr,
    certificate: ClientCertificate,
}

/// A connection as the listener sees it.
struct OpenConnection {
    phase: SharedPhase,
    leave: oneshot::Sender<()>,
}

/// A connection with its place, which is released on drop.
pub struct BoundedConnection {
    stream: Accepted<TcpStream>,
    quiet: Pin<Box<Sleep>>,
    phase: SharedPhase,
    /// The last four bytes received.
    last: u32,
    /// None once it was told to close.
    leave: Option<oneshot::Receiver<()>>,
    _place: Option<OwnedSemaphorePermit>,
}

/// What a connection is doing, and since when. It is busy from the end of a request's head until some of the reply is
/// sent.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Phase {
    is_busy: bool,
    since: Instant,
}

#[derive(Clone)]
struct SharedPhase(Arc<Mutex<Phase>>);

impl BoundedListener {
    /// Limits the open connections of a socket to `max`. Once `stop` is ready, the socket is closed. The returned future is ready a little
    /// later: then idle connections may be closed too.
    pub fn new(
        listener: TcpListener,
        max: usize,
        tls: CurrentTls,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> (BoundedListener, impl Future<Output = ()> + Send + 'static) {
        let (close, closed) = oneshot::channel::<()>();
        let idle_end = async move {
            stop.await;
            // Harmless: without a listener there is nothing to close.
            let _ = close.send(());
            sleep(REQUEST_ARRIVES).await;
        };
        let closing = Box::pin(async {
            if closed.await.is_err() {
                std::future::pending().await
            }
        });
        let places = Arc::new(Semaphore::new(max));
        let listener =
            BoundedListener { listener: Some(listener), closing, tls, places, open: Vec::new() };
        (listener, idle_end)
    }

    /// Accepts a connection. Never returns after the socket was closed.
    async fn stream(&mut self) -> (TcpStream, SocketAddr) {
        if let Some(listener) = &mut self.listener {
            tokio::select! {
                biased;
                () = &mut self.closing => self.listener = None,
                // axum's own accept continues after errors, and pauses when the process has no descriptors left.
                accepted = Listener::accept(listener) => return accepted,
            }
        }
        std::future::pending().await
    }

    async fn place(&mut self) -> Option<OwnedSemaphorePermit> {
        loop {
            self.open.retain(|connection| !connection.leave.is_closed());
            if self.places.available_permits() == 0 {
                self.evict_one();
            }
            let place = self.places.clone().acquire_owned();
            // Harmless: after a timeout, the loop tells another connection to close.
            if let Ok(place) = timeout(LEAVING, place).await {
                // Harmless: this fails only if the semaphore is closed, which it never is.
                return place.ok();
            }
        }
    }

    /// Tells the connection with the longest idle time to close. If none is idle, tells the one that has been busy longest, provided
    /// that it has been busy for at least [`BUSY_MIN`].
    fn evict_one(&mut self) {
        let connections = self.open.iter().enumerate();
        let first = connections.map(|(at, open)| (open.phase.get(), at)).min();
        if let Some((phase, at)) = first
            && (!phase.is_busy || phase.since.elapsed() >= BUSY_MIN)
        {
            // Harmless: if the receiver is gone, the connection has already ended by itself.
            let _ = self.open.swap_remove(at).leave.send(());
        }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedConnection, SocketAddr) {
        let (stream, address) = self.stream().await;
        let place = self.place().await;
        let phase =
            SharedPhase(Arc::new(Mutex::new(Phase { is_busy: false, since: clock::now() })));
        let (leave, left) = oneshot::channel();
        self.open.push(OpenConnection { phase: phase.clone(), leave });
        let connection = BoundedConnection {
            stream: Accepted::new(stream, (self.tls)().as_ref()),
            quiet: Box::pin(sleep(QUIET_MAX)),
            phase,
            last: 0,
            leave: Some(left),
            _place: place,
        };
        (connection, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        match &self.listener {
            Some(listener) => listener.local_addr(),
            None => Err(io::ErrorKind::NotConnected.into()),
        }
    }
}

impl Connected<IncomingStream<'_, BoundedListener>> for Peer {
    fn connect_info(stream: IncomingStream<'_, BoundedListener>) -> Peer {
        let certificate = stream.io().stream.certificate().clone();
        Peer { address: *stream.remote_addr(), certificate }
    }
}

impl Peer {
    /// The client's certificate (DER), which the handshake has verified.
    pub(crate) fn certificate(&self) -> Option<&[u8]> {
        self.certificate.get().map(Vec::as_slice)
    }
}

impl SharedPhase {
    fn get(&self) -> Phase {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the phase, which begins now. A connection that is already busy keeps the start of that phase. Otherwise a client could keep
    /// its place forever by sending one head after another.
    fn set(&self, is_busy: bool) {
        let mut phase = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !(is_busy && phase.is_busy) {
            *phase = Phase { is_busy, since: clock::now() };
        }
    }
}

impl BoundedConnection {
    /// Notes that bytes were received.
    fn heard(&mut self, bytes: &[u8]) {
        self.speaks();
        for byte in bytes {
            self.last = (self.last << 8) | u32::from(*byte);
            if self.last == HEAD_END {
                self.phase.set(true);
            }
        }
    }

    /// Notes that bytes were received or sent.
    fn speaks(&mut self) {
        self.quiet.as_mut().reset(clock::now() + QUIET_MAX);
    }

    /// Ready when the connection has been silent for too long, or has to make room for another one.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let told = self.leave.as_mut().map(|leave| Pin::new(leave).poll(cx));
        match told {
            Some(Poll::Ready(_)) => {
                self.leave = None;
                Poll::Ready(())
            }
            Some(Poll::Pending) => self.quiet.as_mut().poll(cx),
            None => Poll::Ready(()),
        }
    }
}

impl AsyncRead for BoundedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending => self.poll_end(cx).map(|()| Err(io::ErrorKind::TimedOut.into())),
            ready @ Poll::Ready(_) => {
                self.heard(buf.filled().get(before..).unwrap_or_default());
                ready
            }
        }
    }
}

impl AsyncWrite for BoundedConnection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.stream).poll_write(cx, buf);
        if poll.is_pending() {
            // The client does not read. The caller may stop calling `poll_read` meanwhile, so
            // `poll_end` is also checked here.
            return self.poll_end(cx).map(|()| Err(io::ErrorKind::TimedOut.into()));
        }
        self.speaks();
        self.phase.set(false);
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
