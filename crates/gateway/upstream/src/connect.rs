//! Opens connections to a target: name look-up, TCP and TLS, all within one connect timeout.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use fault::{Fault, Kind};
use kit::Wire;
use kit::clock::{self, Instant};
use kit::names::{self, LookUps};
use telemetry::{PoolMetrics, UpstreamMetrics};
use tokio_rustls::TlsConnector;

use crate::breaker::Permit;
use crate::settings::{Protocol, TargetSettings};
use crate::target::Target;
use crate::{AddressRule, Upstream};

/// An open connection to a target, in use or idle.
pub(crate) struct Connection {
    pub(crate) wire: Wire,
    /// True if it comes from the pool, so that the target may have closed it since.
    pub(crate) reused: bool,
    /// The value of [`WorkerTarget::losses`](crate::roster::WorkerTarget::losses) when its address was last checked.
    pub(crate) losses: u32,
    /// None if a stand-in replaces the target.
    pub(crate) address: Option<Box<SocketAddr>>,
    /// Held until the connection is closed.
    pub(crate) open: OpenGauge,
}

/// The protocols that a new connection may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offer {
    Http1,
    Http2,
    /// The target chooses by ALPN. Without TLS it is HTTP/1.
    Both,
}

/// Counts an open connection in the metrics.
pub(crate) struct OpenGauge {
    metrics: Arc<UpstreamMetrics>,
    worker: usize,
}

/// A connection that is being opened or waited for.
pub(crate) struct PendingConnection<'a> {
    metrics: &'a PoolMetrics,
    _permit: Permit,
}

/// The maximum number of a name's addresses that are tried for one connection.
const ADDRESSES_TRIED_MAX: usize = 4;

impl Upstream {
    /// Opens a connection to a target, before the deadline if there is one.
    pub(crate) async fn connect(
        &self,
        target: &Target,
        worker: usize,
        deadline: Option<Instant>,
    ) -> Result<Connection, Fault> {
        let _pending = PendingConnection::begin(self, worker)?;
        let opened = self.connect_by(target, worker, deadline, Offer::Http1).await;
        opened.map(|(connection, _)| connection)
    }

    /// Opens a connection that several calls may wait for. Also returns whether it uses HTTP/2.
    pub(crate) async fn connect_now(
        &self,
        target: &Target,
        worker: usize,
        offer: Offer,
    ) -> Result<(Connection, bool), Fault> {
        self.connect_by(target, worker, None, offer).await
    }

    async fn connect_by(
        &self,
        target: &Target,
        worker: usize,
        deadline: Option<Instant>,
        offer: Offer,
    ) -> Result<(Connection, bool), Fault> {
        let metrics = self.metrics.pool(worker);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(clock::now()));
        let most = self.settings().timeout.connect;
        let time = left.map_or(most, |left| left.min(most));
        let opened =
            tokio::time::timeout(time, self.open(target, offer)).await.unwrap_or_else(|_| {
                Err(Fault::new(
                    Kind::ConnectTimeout,
                    format!("{}: no connection within {time:?}", target.url()),
                ))
            });
        let (wire, is_http2, address) =
            opened.inspect_err(|_| metrics.connections_failed.add(1))?;
        metrics.connections_created.add(1);
        metrics.connections_open.add(1);
        let open = OpenGauge { metrics: self.metrics.clone(), worker };
        let address = address.map(Box::new);
        Ok((Connection { wire, reused: false, losses: 0, address, open }, is_http2))
    }

    async fn open(
        &self,
        target: &Target,
        offer: Offer,
    ) -> Result<(Wire, bool, Option<SocketAddr>), Fault> {
        if let Some(dialled) = kit::stand_in::dialled(&self.settings().name) {
            // A stand-in for a service reads and writes HTTP/1.
            return dialled.map(|wire| (wire, false, None)).map_err(|e| failure(target, &e));
        }
        let knows = offer == Offer::Http2;
        if let Some(rule) = &self.settings().addresses {
            target.look_up_permitted(rule).await.map_err(|e| failure(target, &e))?;
        } else if target.addresses().is_empty() {
            let TargetSettings { host, port, .. } = target.settings();
            let first = target.known.first(&self.settings().dns, host, *port).await;
            first.map_err(|e| failure(target, &e))?;
        }
        let (wire, address) = dial(target).await.map_err(|e| failure(target, &e))?;
        let address = Some(address);
        let socket = match wire {
            Wire::Plain(socket) => socket,
            // A stand-in for a target needs no TLS.
            wrapped @ Wire::Wrapped(_) => return Ok((wrapped, knows, address)),
        };
        // Small writes must not wait for acknowledgements.
        // Harmless: a socket that refuses an option still works.
        let _ = socket.set_nodelay(true);
        // Harmless: a socket that refuses an option still works.
        let _ = kit::wire::keep_alive(&socket);
        if !target.settings().https {
            return Ok((Wire::Plain(socket), knows, address));
        }
        let refused =
            |why: &str| Fault::new(Kind::UpstreamTls, format!("{}: TLS: {why}", target.url()));
        let tls = &self.settings().tls;
        let name = tls.server_name(&target.settings().host).map_err(|e| refused(&e.to_string()))?;
        let connected =
            TlsConnector::from(self.tls_settings(offer)).connect(name.clone(), socket).await;
        let stream = connected.map_err(|e| {
            let address = target.settings().host_and_port();
            let server = tls::Peer::Server { address: &address, name: &name.to_str() };
            refused(&tls::failure(&e, server))
        })?;
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        if knows && !is_http2 {
            Err(refused("it does not offer HTTP/2 by ALPN"))
        } else {
            Ok((Wire::Wrapped(Box::new(stream)), is_http2, address))
        }
    }

    fn tls_settings(&self, offer: Offer) -> Arc<rustls::ClientConfig> {
        match &self.tls_http2 {
            Some(settings) if offer != Offer::Http1 => settings.clone(),
            Some(_) | None => self.settings().tls.config(),
        }
    }
}

/// Limits the concurrent look-ups of names that somebody other than the operator chose: in total, and within one zone.
static LOOK_UPS: LookUps = LookUps::new(256, 32);

/// Tries the target's addresses, beginning with the next in turn.
async fn dial(target: &Target) -> io::Result<(Wire, SocketAddr)> {
    let tries = target.addresses().len().clamp(1, ADDRESSES_TRIED_MAX);
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for _ in 0..tries {
        let Some(address) = target.known.next() else { break };
        match kit::dial::to(address).await {
            Ok(wire) => return Ok((wire, address)),
            Err(e) => last = e,
        }
    }
    Err(last)
}

fn failure(target: &Target, e: &io::Error) -> Fault {
    Fault::new(Kind::ConnectFailure, format!("{}: {e}", target.url()))
}

impl Target {
    /// Looks the target's name up again, and keeps the addresses that the rule permits.
    async fn look_up_permitted(&self, rule: &AddressRule) -> io::Result<()> {
        let settings = self.settings();
        let mut permitted =
            LOOK_UPS.find(names::zone(&settings.host), &settings.host, settings.port).await?;
        permitted.retain(|address| rule.permits(address.ip()));
        if permitted.is_empty() {
            let why = "the name has no permitted address";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        self.known.set(permitted);
        Ok(())
    }
}

impl Protocol {
    /// What a new connection may use.
    pub(crate) fn offer(self) -> Offer {
        match self {
            Protocol::Http1 => Offer::Http1,
            Protocol::Http2 => Offer::Http2,
            Protocol::Auto => Offer::Both,
        }
    }
}

impl PendingConnection<'_> {
    pub(crate) fn begin(
        upstream: &Upstream,
        worker: usize,
    ) -> Result<PendingConnection<'_>, Fault> {
        let metrics = upstream.metrics.pool(worker);
        let permit =
            upstream.limits.pending.take().inspect_err(|_| metrics.breaker_refused.add(1))?;
        metrics.requests_pending.add(1);
        Ok(PendingConnection { metrics, _permit: permit })
    }
}

impl Drop for PendingConnection<'_> {
    fn drop(&mut self) {
        self.metrics.requests_pending.add(-1);
    }
}

impl OpenGauge {
    pub(crate) fn metrics(&self) -> &PoolMetrics {
        self.metrics.pool(self.worker)
    }
}

impl Drop for OpenGauge {
    fn drop(&mut self) {
        self.metrics.pool(self.worker).connections_open.add(-1);
    }
}
