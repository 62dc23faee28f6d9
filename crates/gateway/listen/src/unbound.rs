//! A listener without an address: its caller makes the connections. `tidegate test`, tests and the fuzzer use it to
//! serve whole exchanges in one thread, with the code that serves sockets.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use kit::Wire;
use pipeline::Recorders;
use plan::{Listener, Plan};
use policy::{Caller, Scheme};
use telemetry::Telemetry;

use crate::clients::OpenConnections;
use crate::connection::Connection;
use crate::connections::ListenerState;
use crate::h1::H1;
use crate::h2;
use crate::worker_state::Worker;

/// A worker that serves one plan, with one listener of the plan.
pub struct UnboundListener {
    worker: Rc<Worker>,
    listener_state: Rc<ListenerState>,
}

impl UnboundListener {
    pub fn new(
        plan: Arc<Plan>,
        listener: Arc<Listener>,
        telemetry: Arc<Telemetry>,
    ) -> UnboundListener {
        let metrics = telemetry.listener(&listener.name);
        let listener_state =
            ListenerState::new(listener, metrics, Arc::new(OpenConnections::default()));
        let recorders = Rc::new(Recorders::of(&plan, telemetry, None, None));
        UnboundListener { worker: Worker::of(plan, recorders), listener_state }
    }

    /// Serves a connection to its end, unless there is no place for it. No PROXY header is read and no handshake is made:
    /// on a listener with TLS, the client counts as one without a certificate.
    pub async fn serve(&self, wire: Wire, peer: SocketAddr, local: SocketAddr) {
        let Some(permit) = self.listener_state.enter(0) else { return };
        let scheme =
            if self.listener_state.listener().tls.is_some() { Scheme::Https } else { Scheme::Http };
        let caller = Rc::new(Caller::new(peer, local, scheme, 0));
        let connection = Connection { worker: self.worker.clone(), permit, caller };
        if let Some((wire, early, connection)) = H1::new(wire, connection).serve().await {
            Box::pin(h2::serve(wire, early, connection)).await;
        }
    }

    /// Ends connections that wait for a request now, and others after their current exchange.
    pub fn close(&self) {
        self.listener_state.close();
    }
}

/// Reads a PROXY header, and nothing after it. Returns source and destination.
#[cfg(feature = "fake")]
pub async fn proxy_header(
    stream: &mut (impl tokio::io::AsyncRead + Unpin),
) -> std::io::Result<Option<(SocketAddr, SocketAddr)>> {
    crate::proxy_protocol::read(stream).await
}
