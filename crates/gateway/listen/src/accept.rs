//! Accepts connections and prepares them for HTTP: limits, the PROXY header, TLS, and the version of HTTP.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kit::Wire;
use policy::{Caller, Scheme};
use telemetry::Refusal;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::connection::Connection;
use crate::connections::{ListenerState, Permit};
use crate::h1::H1;
use crate::worker_state::Worker;
use crate::{descriptors, h2, proxy_protocol};

/// The pause after a failed accept, which usually means that no file descriptor is free. The pause is short enough to use a freed
/// descriptor promptly, and long enough to avoid a busy loop.
const PAUSE: Duration = Duration::from_millis(10);

/// Accepts connections until the listener closes.
pub(crate) async fn run(
    worker: Rc<Worker>,
    listener_state: Rc<ListenerState>,
    socket: std::net::TcpListener,
) {
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(e) => {
            return tracing::error!(
                listener = listener_state.listener().name,
                "cannot accept connections: {e}"
            );
        }
    };
    let watch = listener_state.watch();
    loop {
        let accepted = std::future::poll_fn(|cx| {
            if watch.is_closing(cx.waker()) {
                Poll::Ready(None)
            } else {
                listener.poll_accept(cx).map(Some)
            }
        });
        match accepted.await {
            None => return,
            Some(Ok((socket, peer))) => match listener_state.enter(worker.index) {
                Some(permit) => {
                    drop(kit::spawn(connection(worker.clone(), permit, socket, peer)));
                    if descriptors::is_exhausted() {
                        // If another connection gave up its place for this one, yielding lets that connection free its descriptor first.
                        tokio::task::yield_now().await;
                    }
                }
                None => listener_state.metrics.refused(worker.index, Refusal::ConnectionsMax),
            },
            Some(Err(e)) => {
                listener_state.metrics.refused(worker.index, Refusal::Accept);
                tracing::warn!(
                    listener = listener_state.listener().name,
                    "cannot accept a connection: {e}"
                );
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// Serves a connection until it closes. State that is needed only at the start is boxed, and dropped after the start, so that the future of
/// an idle connection is small.
fn connection(
    worker: Rc<Worker>,
    permit: Permit,
    socket: TcpStream,
    peer: SocketAddr,
) -> impl Future<Output = ()> {
    let beginning = Box::pin(begin(worker, permit, socket, peer));
    async move {
        let serving = {
            let Some(begun) = beginning.await else { return };
            if begun.http2 {
                Err(Box::pin(h2::serve(begun.wire, Vec::new(), begun.connection)))
            } else {
                Ok(H1::new(begun.wire, begun.connection))
            }
        };
        match serving {
            Ok(h1) => {
                if let Some((wire, early, connection)) = h1.serve().await {
                    Box::pin(h2::serve(wire, early, connection)).await;
                }
            }
            Err(http2) => http2.await,
        }
    }
}

/// A connection whose HTTP version is known.
struct HttpConnection {
    wire: Wire,
    connection: Connection,
    http2: bool,
}

/// Prepares a connection for HTTP. Returns `None` if the connection is refused.
async fn begin(
    worker: Rc<Worker>,
    mut permit: Permit,
    socket: TcpStream,
    peer: SocketAddr,
) -> Option<HttpConnection> {
    let listener_state = permit.listener_state.clone();
    let listener = listener_state.listener();
    let mut step = Refusal::Accept;
    let preparing = prepare(&listener, &mut permit, &mut step, socket, peer, worker.index);
    match tokio::time::timeout(listener.timeout.tls, preparing).await {
        Ok(Ok(AcceptedConnection { wire, caller, http2 })) => {
            let connection = Connection { worker, permit, caller: Rc::new(caller) };
            return Some(HttpConnection { wire, connection, http2 });
        }
        Ok(Err(why)) => log_refused(&listener.name, peer, &why),
        Err(_) => {
            let late = if step == Refusal::ProxyHeader { "PROXY header" } else { "handshake" };
            tracing::info!(listener = listener.name, %peer, "connection refused: {late} too slow");
        }
    }
    listener_state.metrics.refused(worker.index, step);
    None
}

/// Logs why a connection was refused. Invalid data from the client is logged at info level. Everything else is logged at debug level,
/// because load balancers often check a listener's health with connections that they close at once.
fn log_refused(listener: &str, peer: SocketAddr, why: &io::Error) {
    if why.kind() == io::ErrorKind::InvalidData {
        let why = tls::failure(why, tls::Peer::Client);
        tracing::info!(listener, %peer, "connection refused: {why}");
    } else {
        tracing::debug!(listener, %peer, "connection refused: {why}")
    }
}

struct AcceptedConnection {
    wire: Wire,
    caller: Caller,
    http2: bool,
}

/// Prepares a connection. `step` is the refusal that applies if this fails, or if the time is over first.
async fn prepare(
    listener: &Arc<plan::Listener>,
    permit: &mut Permit,
    step: &mut Refusal,
    mut socket: TcpStream,
    peer: SocketAddr,
    worker: usize,
) -> io::Result<AcceptedConnection> {
    let local = socket.local_addr()?;
    let mut ends = (peer, local);
    if listener.proxy_protocol {
        *step = Refusal::ProxyHeader;
        ends = proxy_protocol::read(&mut socket).await?.unwrap_or(ends);
    }
    let (peer, local) = ends;
    *step = Refusal::ConnectionsPerClient;
    if !permit.count(peer.ip()) {
        return Err(io::Error::other("the client has reached its limit of connections"));
    }
    let Some(tls) = &listener.tls else {
        let caller = Caller::new(peer, local, Scheme::Http, worker);
        return Ok(AcceptedConnection { wire: Wire::Plain(socket), caller, http2: false });
    };
    *step = Refusal::Tls;
    let stream = TlsAcceptor::from(tls.config()).accept(socket).await?;
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let version = match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    };
    let certificate = session.peer_certificates().and_then(|chain| chain.first());
    let certificate = certificate.map(|leaf| Arc::from(leaf.as_ref()));
    let server_name = session.server_name().map(|name| name.to_ascii_lowercase().into());
    let wire = Wire::Wrapped(Box::new(stream));
    let caller = Caller::new(peer, local, Scheme::Https, worker);
    let caller = Caller { tls: Some(version), server_name, certificate, ..caller };
    Ok(AcceptedConnection { wire, caller, http2 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;

    fn future_bytes<A, B, C, D, F>(_: impl Fn(A, B, C, D) -> F) -> usize {
        size_of::<F>()
    }

    /// A gateway may have thousands of idle connections. `idle-5000` of `make bench-peers` measures their memory.
    #[test]
    fn an_idle_connection_is_small() {
        let (future, own, client) =
            (future_bytes(connection), size_of::<H1>(), size_of::<Client>());
        assert!(future + own + client <= 640, "{future} + {own} + {client} bytes");
    }
}
