//! The socket of the catalog, and the dispatch of its requests.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use admin::{BoundedListener, Peer};
use axum::Router;
use axum::body::to_bytes;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{Method, StatusCode, header};
use tokio::net::TcpListener;
use tokio::sync::SemaphorePermit;
use tokio::time::timeout;

use crate::http::{Answer, CatalogRequest, Refusal, ok, pairs};
use crate::{Catalog, devportal, plans, publisher};

/// The largest body. Documents with schemas have some hundred kilobytes; the largest known ones have a few megabytes.
const BODY_BYTES_MAX: usize = 10 << 20;

/// The limit of concurrent connections. Above it, a new connection replaces the one with the longest idle time.
const CONNECTIONS_MAX: usize = 1024;

/// The time limit for a request's body.
const BODY_TIME: Duration = Duration::from_secs(30);

/// Serves the catalog on a socket.
pub async fn serve(
    listener: TcpListener,
    catalog: Arc<Catalog>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let current = catalog.control.clone();
    // Read for each connection, so that a renewed certificate is used.
    let tls = move || current.plan().catalog.as_ref()?.tls.clone();
    let (listener, stop) = BoundedListener::new(listener, CONNECTIONS_MAX, Box::new(tls), stop);
    let router = Router::new().fallback(answer).with_state(catalog);
    let service = router.into_make_service_with_connect_info::<Peer>();
    axum::serve(listener, service).with_graceful_shutdown(stop).await
}

async fn answer(
    State(catalog): State<Arc<Catalog>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    request: Request,
) -> Answer {
    let (asked, _place) = asked_of(&catalog, peer.address.ip(), request, "").await?;
    dispatch(&catalog, &asked).await
}

/// A parsed request, whose path lacks the prefix, and its place among concurrent requests.
pub(crate) async fn asked_of<'c>(
    catalog: &'c Catalog,
    client: IpAddr,
    request: Request,
    prefix: &str,
) -> Result<(CatalogRequest, SemaphorePermit<'c>), Refusal> {
    let busy = |_| Refusal::later("Too many requests are in progress");
    let place = catalog.places.try_acquire().map_err(busy)?;
    let (head, body) = request.into_parts();
    let body = timeout(BODY_TIME, to_bytes(body, BODY_BYTES_MAX)).await;
    let late = |_| Refusal::new(StatusCode::REQUEST_TIMEOUT, "The body took too long");
    let large = |_| Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "The body is too large");
    let body = body.map_err(late)?.map_err(large)?;
    let path = head.uri.path();
    let path = path.strip_prefix(prefix).unwrap_or(path);
    // HEAD gets the answer to GET, of which only the head is sent (RFC 9110, 9.3.2).
    let method = if head.method == Method::HEAD { Method::GET } else { head.method };
    let asked = CatalogRequest {
        schema: catalog.interface.schema(&method, path).cloned(),
        method,
        path: path.to_owned(),
        // Harmless: an absent query has no parameters.
        query: pairs(head.uri.query().unwrap_or_default().as_bytes()),
        headers: head.headers,
        body,
        client,
    };
    Ok((asked, place))
}

/// Answers a request by its path.
pub(crate) async fn dispatch(catalog: &Catalog, asked: &CatalogRequest) -> Answer {
    if !catalog.is_ready.load(std::sync::atomic::Ordering::Acquire) {
        return Err(Refusal::unready());
    }
    if let Some(others) = catalog.interface.other_methods(&asked.method, &asked.path) {
        let refusal =
            Refusal::new(StatusCode::METHOD_NOT_ALLOWED, "The resource does not have this method");
        return Err(refusal.with(header::ALLOW, others));
    }
    catalog.interface.check_query(asked)?;
    let path: Vec<&str> = asked.path.split('/').filter(|part| !part.is_empty()).collect();
    match (&asked.method, path.as_slice()) {
        (&Method::POST, ["client-registration", _, "register"]) => catalog.register(asked).await,
        (&Method::POST, ["oauth2", "token"]) => catalog.token(asked).await,
        (&Method::POST, ["oauth2", "revoke"]) => catalog.revoke(asked).await,
        (&Method::GET, ["openapi.json"]) => ok(catalog.interface.document()),
        (&Method::GET, ["oauth2", "jwks"]) => ok(&catalog.keyring.document()),
        (&Method::GET, [".well-known", "openid-configuration"])
        | (&Method::GET, ["oauth2", "token", ".well-known", "openid-configuration"]) => {
            catalog.discovery(asked)
        }
        (_, ["api", "am", "publisher", rest @ ..]) => {
            publisher::answer(catalog, asked, without_version(rest)).await
        }
        (_, ["api", "am", "devportal" | "store", rest @ ..]) => {
            devportal::answer(catalog, asked, without_version(rest)).await
        }
        (_, ["api", "am", "admin", rest @ ..]) => {
            plans::answer(catalog, asked, without_version(rest)).await
        }
        (_, ["api", "am", ..]) => Err(Refusal::unsupported()),
        _ => Err(Refusal::missing("resource")),
    }
}

/// Removes the version, such as `v1` or `v0.17`. All versions mean the same, and so does none.
pub(crate) fn without_version<'p, 'a>(path: &'p [&'a str]) -> &'p [&'a str] {
    match path {
        [version, rest @ ..] if is_version(version) => rest,
        path => path,
    }
}

fn is_version(part: &str) -> bool {
    // Harmless: a part without this prefix is not a version.
    let digits = part.strip_prefix('v').unwrap_or_default();
    !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.')
}
