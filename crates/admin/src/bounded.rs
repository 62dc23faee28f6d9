//! A socket with a bound on open connections and on their idle time. Further connections wait in the system's queue.

use axum::serve::Listener;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};

/// The time that a connection may be quiet: between two requests, in the middle of one, or while a reply is made. It is longer
/// than the largest configuration takes to go into service, and than the usual interval of Prometheus, which keeps its
/// connection.
pub(crate) const QUIET_MAX: Duration = Duration::from_secs(90);

/// A listener with a bound.
pub(crate) struct BoundedListener {
    listener: TcpListener,
    places: Arc<Semaphore>,
}

/// A connection with its place, which is given back on drop.
pub(crate) struct BoundedConnection {
    stream: TcpStream,
    quiet: Pin<Box<Sleep>>,
    _place: Option<OwnedSemaphorePermit>,
}

impl BoundedListener {
    pub(crate) fn new(listener: TcpListener, max: usize) -> BoundedListener {
        BoundedListener { listener, places: Arc::new(Semaphore::new(max)) }
    }
}

impl Listener for BoundedListener {
    type Io = BoundedConnection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (BoundedConnection, SocketAddr) {
        // Nobody closes the semaphore, so a place always comes.
        let place = self.places.clone().acquire_owned().await.ok();
        // axum's own accept continues after errors, and pauses when the process has no descriptors left.
        let (stream, address) = Listener::accept(&mut self.listener).await;
        (BoundedConnection { stream, quiet: Box::pin(sleep(QUIET_MAX)), _place: place }, address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

impl BoundedConnection {
    /// Notes that bytes were received or sent.
    fn speaks(&mut self) {
        self.quiet.as_mut().reset(kit::clock::now() + QUIET_MAX);
    }
}

impl AsyncRead for BoundedConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match Pin::new(&mut self.stream).poll_read(cx, buf) {
            Poll::Pending => {
                self.quiet.as_mut().poll(cx).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
            ready @ Poll::Ready(_) => {
                self.speaks();
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
        if poll.is_ready() {
            self.speaks();
        }
        poll
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
