//! A stream that became a tunnel (RFC 8441): the client's side as a wire.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use fault::{Fault, Kind};
use kit::Wire;
use message::{Reply, RequestHead};
use policy::RequestId;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::stream::Stream;

/// The only protocol that clients may tunnel. The client names it in `:protocol`, and the upstream gets it as `Upgrade`.
const WEBSOCKET: &[u8] = b"websocket";

/// The number of random base64 characters in a key.
const KEY_RANDOM: usize = 21;
/// Completes a key, so that it is the encoding of 16 bytes (RFC 6455, 4.1).
const KEY_END: &[u8] = b"A==";

/// Refuses tunnels of other protocols.
pub(super) fn check(protocol: &[u8]) -> Result<(), Fault> {
    if protocol.eq_ignore_ascii_case(WEBSOCKET) {
        Ok(())
    } else {
        // Harmless: the text is only logged.
        let cause = format!("CONNECT for the protocol {}", String::from_utf8_lossy(protocol));
        Err(Fault::new(Kind::NotImplemented, cause))
    }
}

/// Adds the headers of an upgrade to a request for a tunnel, as an HTTP/1 client would.
pub(super) fn ask(request: &mut RequestHead) {
    let id = RequestId::random();
    let key = [id.as_bytes().get(..KEY_RANDOM).unwrap_or(b""), KEY_END].concat();
    request.headers.remove("sec-websocket-key");
    request.headers.add_known("Connection", b"upgrade");
    request.headers.add_known("Upgrade", WEBSOCKET);
    request.headers.add_known("Sec-WebSocket-Key", &key);
}

/// Returns the fault for a successful reply that opens no tunnel although the request asks for one. Returns `None` for any other reply,
/// which the client gets.
pub(super) fn missing(reply: &Reply) -> Option<Fault> {
    let opens = (200..300).contains(&reply.head.status);
    opens.then(|| {
        let cause = format!(
            "status {} without a tunnel for a request that asks for one",
            reply.head.status
        );
        Fault::new(Kind::UpstreamMalformed, cause)
    })
}

/// Tells the client that the tunnel is open. Removes headers that only an HTTP/1 client checks.
pub(super) fn open(stream: &Stream, reply: &mut Reply) {
    for name in ["sec-websocket-accept", "content-length"] {
        reply.head.headers.remove(name);
    }
    super::reply::send_head(stream, 200, &reply.head, None, false);
}

/// The client's side. If it is dropped before both sides have ended, it resets the stream.
pub(super) fn wire(stream: Stream) -> Wire {
    Wire::Wrapped(Box::new(TunnelStream(stream)))
}

struct TunnelStream(Stream);

impl AsyncRead for TunnelStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let TunnelStream(stream) = &*self;
        let into = buffer.initialize_unfilled();
        let read = ready!(stream.with(|session, number| session.poll_tunnel(cx, number, into)));
        let read = read.ok_or_else(|| io::Error::from(io::ErrorKind::ConnectionReset))?;
        buffer.advance(read);
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for TunnelStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let TunnelStream(stream) = &*self;
        let room = ready!(stream.with(|session, number| session.poll_room(cx, number)));
        if room.is_none() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Poll::Ready(Ok(stream.with(|session, number| session.send_data(number, bytes, false))))
    }

    /// Nothing to do: the connection's task writes the data.
    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let TunnelStream(stream) = &*self;
        stream.with(|session, number| session.end_tunnel_side(number));
        Poll::Ready(Ok(()))
    }
}

impl Drop for TunnelStream {
    fn drop(&mut self) {
        let TunnelStream(stream) = self;
        stream.with(|session, number| session.close_tunnel(number));
    }
}
