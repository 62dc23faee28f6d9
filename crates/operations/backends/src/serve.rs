//! The accept loop of the backends, and the one place where a kind decides the answer.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::{HeaderName, HeaderValue, Request};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use super::body::Reply;
use super::httpbin::Client;
use super::{
    Answers, Kind, Options, Webhook, calculator, echo, httpbin, interceptor, reverse, sse, webhook,
};

/// The maximum number of connections, above the load of any demo or test on a laptop. Further connections are closed at once.
const CONNECTIONS_MAX: usize = 16_384;
/// The pause after a failed accept, such as without free file descriptors. Retrying at once would be a busy loop.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);
const HANDSHAKE_MAX: Duration = Duration::from_secs(10);

/// Serves until `shutdown` completes. `ready` is called with the address as soon as connections are accepted.
///
/// # Errors
///
/// If the address cannot be bound or the certificate cannot be loaded.
pub async fn serve(
    kind: Kind,
    options: Options,
    ready: impl FnOnce(SocketAddr),
    shutdown: impl Future<Output = ()>,
) -> io::Result<()> {
    let tls = options.tls.as_ref().map(|tls| tls.acceptor(options.http2)).transpose()?;
    let listener = TcpListener::bind(options.address).await?;
    let origin = Arc::new(Origin::new(kind, &options)?);
    ready(listener.local_addr()?);
    // It is dropped at the return below, which ends every connection.
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        tokio::select! {
            () = &mut shutdown => return Ok(()),
            Some(_ended) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
                Ok(_) if connections.len() >= CONNECTIONS_MAX => {}
                Ok((stream, client)) => {
                    let connection = Arc::clone(&origin).connection(stream, client, tls.clone());
                    connections.spawn(connection);
                }
            },
        }
    }
}

/// The state that all connections share.
struct Origin {
    kind: Kind,
    name: Option<HeaderValue>,
    /// See [`calculator::region`].
    region: HeaderValue,
    delay: Duration,
    http2: bool,
    answers: Answers,
    webhook: Webhook,
}

impl Origin {
    fn new(kind: Kind, options: &Options) -> io::Result<Self> {
        let name = options.name.as_deref().map(HeaderValue::from_str).transpose();
        let name = name.map_err(io::Error::other)?;
        let region = calculator::region()?;
        let (answers, webhook) = (options.answers.clone(), options.webhook.clone());
        let (delay, http2) = (options.delay, options.http2);
        Ok(Self { kind, name, region, delay, http2, answers, webhook })
    }

    /// Serves one connection. A failure only concerns its client, which sees it, so it is not reported.
    async fn connection(
        self: Arc<Self>,
        stream: TcpStream,
        client: SocketAddr,
        tls: Option<TlsAcceptor>,
    ) {
        // Harmless: a failure only affects latency.
        let _ = stream.set_nodelay(true);
        let Some(tls) = tls else {
            return self.converse(stream, Client { address: client, scheme: "http" }).await;
        };
        let handshake = tokio::time::timeout(HANDSHAKE_MAX, tls.accept(stream)).await;
        // Harmless: the client sees its failed handshake.
        if let Ok(Ok(stream)) = handshake {
            self.converse(stream, Client { address: client, scheme: "https" }).await;
        }
    }

    async fn converse<S>(self: Arc<Self>, stream: S, client: Client)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let http2 = self.http2;
        let upgrade = Arc::new(OnceLock::new());
        let promised = Arc::clone(&upgrade);
        let service = service_fn(move |request| {
            let (origin, upgrade) = (Arc::clone(&self), Arc::clone(&promised));
            async move { Ok::<Reply, Infallible>(origin.answer(request, client, &upgrade).await) }
        });
        let mut builder = auto::Builder::new(TokioExecutor::new());
        // A client that sends nothing more, such as `nc -N`, still gets its reply.
        builder.http1().timer(TokioTimer::new()).half_close(true);
        builder.http2().timer(TokioTimer::new());
        let builder = if http2 { builder } else { builder.http1_only() };
        let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
        // The client sees its own failure.
        drop(Box::pin(connection).await);
        if let Some(upgrade) = upgrade.get() {
            reverse::converse(upgrade.clone()).await;
        }
    }

    /// Answers a request. If the answer is a 101, `upgrade` is set to the rest of the connection.
    async fn answer(
        &self,
        mut request: Request<Incoming>,
        client: Client,
        upgrade: &OnceLock<OnUpgrade>,
    ) -> Reply {
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        let mut reply = match self.kind {
            Kind::Echo => echo::answer(request),
            Kind::Httpbin => httpbin::answer(request, client).await,
            Kind::Sse => sse::answer(&request),
            Kind::Reverse => reverse::answer(&mut request, upgrade),
            Kind::Calculator => calculator::answer(request, &self.region).await,
            Kind::Interceptor => interceptor::answer(request, &self.answers).await,
            Kind::Webhook => webhook::answer(request, &self.webhook).await,
        };
        if let Some(name) = &self.name {
            reply.headers_mut().insert(HeaderName::from_static("x-backend"), name.clone());
        }
        reply
    }
}
