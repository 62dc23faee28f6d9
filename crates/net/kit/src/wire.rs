//! One byte stream to a peer, plain or wrapped in TLS, with the reads and writes of the proxy loop.

use std::any::Any;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

/// A byte stream in both directions: TLS over a socket, or an in-memory pipe in tests. Code that knows the concrete type can access the
/// socket below.
pub trait Duplex: AsyncRead + AsyncWrite + Unpin + Any {}

impl<T: AsyncRead + AsyncWrite + Unpin + Any> Duplex for T {}

/// TCP keep-alive. A peer that is silent for a minute is probed every 15 seconds, and is considered lost after four unanswered probes.
/// Therefore a stream or tunnel to a machine that is off ends within two minutes. Firewalls on the path, which drop idle connections after
/// five minutes or more, keep a silent one.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(60))
    .with_interval(Duration::from_secs(15))
    .with_retries(4);

/// The delivery state of a connection, see [`delivery`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delivery {
    /// Bytes that the peer's system has acknowledged since it connected.
    pub acknowledged: u64,
    /// Whether everything is acknowledged.
    pub is_done: bool,
}

/// A stream to a peer. The plain case is a separate variant, so that it needs no indirect calls.
pub enum Wire {
    Plain(TcpStream),
    Wrapped(Box<dyn Duplex>),
}

impl Wire {
    /// Reads once, and appends at most `room` bytes to `out`. Zero bytes mean that the peer has closed its side.
    pub fn poll_read_into(
        &mut self,
        cx: &mut Context<'_>,
        out: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        out.reserve(room);
        let start = out.len();
        let spare = out.spare_capacity_mut();
        let spare_len = spare.len().min(room);
        let Some(spare) = spare.get_mut(..spare_len) else { return Poll::Ready(Ok(0)) };
        let lent = spare.as_ptr().cast::<u8>();
        let mut buffer = ReadBuf::uninit(spare);
        ready!(Pin::new(self).poll_read(cx, &mut buffer))?;
        let (read, filled) = (buffer.filled().len(), buffer.filled().as_ptr());
        // A reader gets the whole `ReadBuf`, and could replace its buffer.
        if filled != lent {
            return Poll::Ready(Err(io::Error::other(
                "a reader has replaced the buffer that it was lent",
            )));
        }
        // SAFETY: the check above shows that `buffer` is over the spare capacity. It says that its first `read` bytes are
        // initialised, and `read` is at most its length, so the new length is within the capacity.
        #[allow(unsafe_code)]
        unsafe {
            out.set_len(start + read);
        }
        Poll::Ready(Ok(read))
    }

    /// Pending if nothing can be read; the task is woken when that changes. Makes no system call. Ready only means that a read is worth
    /// trying.
    pub fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self {
            Wire::Plain(stream) => stream.poll_read_ready(cx).map(|_ready| ()),
            Wire::Wrapped(_) => Poll::Ready(()),
        }
    }

    /// Writes `bytes` from `*sent` on, as far as the peer accepts them. Ready when everything is sent and flushed.
    pub fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        self.poll_send_two(cx, [bytes, &[]], sent)
    }

    /// Like `poll_send`, for two consecutive pieces. `*sent` counts over both.
    #[inline]
    pub fn poll_send_two(
        &mut self,
        cx: &mut Context<'_>,
        [first, second]: [&[u8]; 2],
        sent: &mut usize,
    ) -> Poll<io::Result<()>> {
        while *sent < first.len() + second.len() {
            let front = first.get(*sent..).unwrap_or_default();
            let back = second.get(sent.saturating_sub(first.len())..).unwrap_or_default();
            let wire = Pin::new(&mut *self);
            let written = match (front.is_empty(), back.is_empty()) {
                (_, true) => wire.poll_write(cx, front),
                (true, false) => wire.poll_write(cx, back),
                (false, false) => {
                    wire.poll_write_vectored(cx, &[IoSlice::new(front), IoSlice::new(back)])
                }
            };
            match ready!(written)? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                n => *sent += n,
            }
        }
        Pin::new(self).poll_flush(cx)
    }

    /// Writes as much of `bytes` as the peer accepts now, and returns the number of bytes written. Registers no task: to wait for the peer,
    /// use a poll function. A wrapped stream accepts nothing here.
    pub fn write_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Wire::Plain(stream) => SockRef::from(stream).send(bytes),
            Wire::Wrapped(_) => Ok(0),
        }
    }

    /// Returns true if no data can have arrived since the last pending read: the task is still registered for that event. Costs neither a
    /// system call nor a lock.
    pub fn has_no_read_event(&self) -> bool {
        match self {
            Wire::Plain(stream) => {
                // Without an event from the runtime, the closure is not called, and the result is `WouldBlock`.
                would_block(stream.try_io(Interest::READABLE, || Ok(0)))
            }
            Wire::Wrapped(_) => false,
        }
    }

    /// Returns true if an idle connection is still usable: there is nothing to read, and it is not closed. Costs no system call as long as
    /// the runtime has seen no event for it.
    pub fn is_quiet(&mut self) -> bool {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut byte = [0u8; 1];
        match self {
            Wire::Plain(stream) => {
                stream.poll_read_ready(&mut cx).is_pending()
                    || would_block(stream.try_read(&mut byte))
            }
            Wire::Wrapped(stream) => {
                Pin::new(stream).poll_read(&mut cx, &mut ReadBuf::new(&mut byte)).is_pending()
            }
        }
    }
}

/// Enables TCP keep-alive, so that the system detects when a silent peer is lost. Accepted connections inherit it from the listening
/// socket.
pub fn keep_alive<'s>(socket: impl Into<SockRef<'s>>) -> io::Result<()> {
    socket.into().set_tcp_keepalive(&KEEPALIVE)
}

/// Returns the delivery state of a connection, or `None` if the system does not report it. Costs a system call.
#[cfg(target_os = "linux")]
pub fn delivery(socket: &TcpStream) -> Option<Delivery> {
    let mut told = TcpStats::default();
    let size = u32::try_from(size_of::<TcpStats>()).ok()?;
    let mut len = size;
    // SAFETY: the socket is open as long as it is borrowed, and the system writes at most `len` bytes, which is the size of
    // `told`, for which any bytes are valid.
    #[allow(unsafe_code, reason = "neither the standard library nor tokio offers this option")]
    let failed = unsafe {
        let (fd, told) = (std::os::fd::AsRawFd::as_raw_fd(socket), &raw mut told);
        libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, told.cast(), &raw mut len)
    };
    let is_done = told.unacknowledged == 0 && told.unsent == 0;
    let is_whole = failed == 0 && len == size;
    is_whole.then_some(Delivery { acknowledged: told.acknowledged, is_done })
}

#[cfg(not(target_os = "linux"))]
pub fn delivery(_: &TcpStream) -> Option<Delivery> {
    None
}

/// The beginning of Linux's `struct tcp_info`, which only ever grows at its end.
#[cfg(target_os = "linux")]
#[derive(Default)]
#[repr(C)]
struct TcpStats {
    _states_and_times: [u32; 6],
    /// The number of unacknowledged segments.
    unacknowledged: u32,
    _paths: [u32; 23],
    /// In bytes.
    acknowledged: u64,
    _received: u64,
    _segments: [u32; 2],
    /// In bytes.
    unsent: u32,
    _round_trip: u32,
}

fn would_block(read: io::Result<usize>) -> bool {
    read.is_err_and(|e| e.kind() == io::ErrorKind::WouldBlock)
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut *self {
            Wire::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Wire::Wrapped(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Wire::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Wire::Wrapped(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut *self {
            Wire::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
            Wire::Wrapped(stream) => Pin::new(stream).poll_write_vectored(cx, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Wire::Plain(stream) => stream.is_write_vectored(),
            Wire::Wrapped(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Wire::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Wire::Wrapped(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut *self {
            Wire::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Wire::Wrapped(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A reader that replaces the lent buffer by another one.
    struct Swaps;

    impl AsyncRead for Swaps {
        fn poll_read(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let mut other = ReadBuf::new(Box::leak(Box::new([7; 8])));
            other.advance(8);
            *buffer = other;
            Poll::Ready(Ok(()))
        }
    }

    impl AsyncWrite for Swaps {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    /// Issue 18: bytes in a buffer of the reader were counted as bytes of the lent buffer, so that uninitialised memory was read.
    #[test]
    fn a_reader_that_replaces_its_buffer_is_an_error() {
        let mut cx = Context::from_waker(std::task::Waker::noop());
        let mut out = b"kept".to_vec();
        let read = Wire::Wrapped(Box::new(Swaps)).poll_read_into(&mut cx, &mut out, 100);
        assert!(matches!(read, Poll::Ready(Err(_))));
        assert_eq!(out, b"kept");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_system_tells_what_has_arrived() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let to = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (from, _) = listener.accept().await.unwrap();
        assert!(delivery(&to).unwrap().is_done);
        let before = delivery(&to).unwrap().acknowledged;
        to.writable().await.unwrap();
        assert_eq!(to.try_write(&[7; 10_000]).unwrap(), 10_000);
        from.readable().await.unwrap();
        assert_eq!(delivery(&to), Some(Delivery { acknowledged: before + 10_000, is_done: true }));
        // The peer does not read.
        while to.try_write(&[7; 100_000]).is_ok() {}
        assert!(!delivery(&to).unwrap().is_done);
    }
}
