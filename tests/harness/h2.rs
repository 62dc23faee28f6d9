//! An HTTP/2 client: one connection on its own runtime.

use std::net::SocketAddr;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::{HeaderMap, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio_rustls::TlsConnector;

use super::{PATIENCE, Trust};

/// A body to send.
pub(crate) type Sent = BoxBody<Bytes, std::io::Error>;

/// One connection. Futures run in `block_on`.
pub(crate) struct H2 {
    runtime: Runtime,
    pub(crate) sender: SendRequest<Sent>,
}

/// A complete reply.
#[derive(Debug)]
pub(crate) struct H2Reply {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) trailers: HeaderMap,
}

impl H2 {
    /// Connects with prior knowledge, without TLS.
    #[track_caller]
    pub(crate) fn connect(address: SocketAddr) -> H2 {
        let runtime = runtime();
        let sender = runtime.block_on(async {
            begin(TcpStream::connect(address).await.expect("a connection")).await
        });
        H2 { runtime, sender }
    }

    /// Connects with TLS and ALPN.
    #[track_caller]
    pub(crate) fn connect_tls(address: SocketAddr, host: &str, trust: Trust) -> H2 {
        let runtime = runtime();
        let connector = TlsConnector::from(trust.offering(&["h2"]).client());
        let name = host.to_owned().try_into().expect("a host name");
        let sender = runtime.block_on(async {
            let socket = TcpStream::connect(address).await.expect("a connection");
            let stream = connector.connect(name, socket).await.expect("a handshake");
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
            begin(stream).await
        });
        H2 { runtime, sender }
    }

    /// Waits for a future, for a limited time.
    #[track_caller]
    pub(crate) fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime
            .block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
    }

    /// Runs a future in the background.
    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        future: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T> {
        self.runtime.spawn(future)
    }

    /// Sends a request and returns the whole reply.
    #[track_caller]
    pub(crate) fn ask(&self, request: Request<Sent>) -> H2Reply {
        let mut sender = self.sender.clone();
        self.block_on(async {
            let reply = sender.send_request(request).await.expect("a reply");
            whole(reply).await.expect("a whole reply")
        })
    }

    #[track_caller]
    pub(crate) fn get(&self, url: &str) -> H2Reply {
        self.ask(Request::get(url).body(full("")).unwrap())
    }
}

/// Reads a reply to its end.
pub(crate) async fn whole(reply: Response<Incoming>) -> Result<H2Reply, hyper::Error> {
    let (parts, body) = reply.into_parts();
    let body = body.collect().await?;
    let trailers = body.trailers().cloned().unwrap_or_default();
    let (status, headers) = (parts.status.as_u16(), parts.headers);
    Ok(H2Reply { status, headers, body: body.to_bytes(), trailers })
}

/// Returns a body that is completely available.
pub(crate) fn full(body: impl Into<Bytes>) -> Sent {
    Full::new(body.into()).map_err(|never| match never {}).boxed()
}

async fn begin(stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static) -> SendRequest<Sent> {
    let began = handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
    let (sender, connection) = began.expect("a preface");
    // Errors of the connection appear in its requests.
    tokio::spawn(async move { connection.await.is_ok() });
    sender
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}
