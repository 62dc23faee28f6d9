//! From a listening socket to a connection that speaks HTTP: limits, the PROXY header, TLS, and which HTTP it is.

use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use kit::Wire;
use policy::Scheme;
use telemetry::Refusal;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::connections::{Door, Place};
use crate::worker::Worker;
use crate::{h1, h2, proxy_protocol};

/// One client connection, as far as HTTP is concerned.
pub(crate) struct Connection {
    pub(crate) worker: Rc<Worker>,
    pub(crate) place: Place,
    /// The client's end, or what the PROXY header said it is.
    pub(crate) peer: SocketAddr,
    pub(crate) local: SocketAddr,
    pub(crate) scheme: Scheme,
    pub(crate) tls: Option<&'static str>,
}

/// How long to leave a listener alone that is full, or for which the system has no descriptors. Short enough that a freed
/// place is taken at once, long enough not to spin.
const PAUSE: Duration = Duration::from_millis(10);

/// Accepts until the door closes.
pub(crate) async fn run(worker: Rc<Worker>, door: Rc<Door>, socket: std::net::TcpListener) {
    let listener = match TcpListener::from_std(socket) {
        Ok(listener) => listener,
        Err(e) => return tracing::error!(listener = door.listener().name, "cannot accept: {e}"),
    };
    let watch = door.watch();
    loop {
        if door.is_full() {
            tokio::time::sleep(PAUSE).await;
            if door.is_closing() {
                return;
            }
            continue;
        }
        let accepted = std::future::poll_fn(|cx| match watch.is_closing(cx.waker()) {
            true => Poll::Ready(None),
            false => listener.poll_accept(cx).map(Some),
        });
        match accepted.await {
            None => return,
            Some(Ok((socket, peer))) => {
                let place = door.enter(worker.index);
                kit::spawn(connection(worker.clone(), place, socket, peer));
            }
            Some(Err(e)) => {
                door.metrics.refused(worker.index, Refusal::Accept);
                tracing::warn!(listener = door.listener().name, "accept: {e}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

async fn connection(worker: Rc<Worker>, place: Place, socket: TcpStream, peer: SocketAddr) {
    let door = place.door.clone();
    let listener = door.listener();
    let prepared = tokio::time::timeout(listener.timeout.tls, prepare(&listener, socket, peer)).await;
    let prepared = match prepared {
        Ok(Ok(prepared)) => prepared,
        Ok(Err((refusal, why))) => {
            door.metrics.refused(worker.index, refusal);
            return tracing::debug!(listener = listener.name, %peer, "connection refused: {why}");
        }
        Err(_) => {
            door.metrics.refused(worker.index, if listener.proxy_protocol { Refusal::ProxyHeader } else { Refusal::Tls });
            return tracing::debug!(listener = listener.name, %peer, "connection refused: handshake too slow");
        }
    };
    let connection = Connection {
        worker,
        place,
        peer: prepared.peer,
        local: prepared.local,
        scheme: prepared.scheme,
        tls: prepared.tls,
    };
    if prepared.http2 {
        h2::serve(prepared.wire, connection).await;
    } else if let Some((wire, connection)) = h1::serve(prepared.wire, connection).await {
        h2::serve(wire, connection).await;
    }
}

struct Prepared {
    wire: Wire,
    peer: SocketAddr,
    local: SocketAddr,
    scheme: Scheme,
    tls: Option<&'static str>,
    http2: bool,
}

async fn prepare(
    listener: &Arc<plan::Listener>,
    mut socket: TcpStream,
    peer: SocketAddr,
) -> Result<Prepared, (Refusal, io::Error)> {
    let local = socket.local_addr().map_err(|e| (Refusal::Accept, e))?;
    let mut ends = (peer, local);
    if listener.proxy_protocol {
        let said = proxy_protocol::read(&mut socket).await.map_err(|e| (Refusal::ProxyHeader, e))?;
        ends = said.unwrap_or(ends);
    }
    let (peer, local) = ends;
    let Some(tls) = &listener.tls else {
        let wire = Wire::Plain(socket);
        return Ok(Prepared { wire, peer, local, scheme: Scheme::Http, tls: None, http2: false });
    };
    let stream = TlsAcceptor::from(tls.config()).accept(socket).await.map_err(|e| (Refusal::Tls, e))?;
    let (_, session) = stream.get_ref();
    let http2 = session.alpn_protocol() == Some(b"h2");
    let version = match session.protocol_version() {
        Some(rustls::ProtocolVersion::TLSv1_2) => "TLSv1.2",
        _ => "TLSv1.3",
    };
    let wire = Wire::Wrapped(Box::new(stream));
    Ok(Prepared { wire, peer, local, scheme: Scheme::Https, tls: Some(version), http2 })
}
