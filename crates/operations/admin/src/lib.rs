//! The operators' HTTP API: health, metrics, the configuration with its history, and the dashboard.
//!
//! Owns its paths and documents, access control and the audit log. All data and changes go through `control`; this crate never
//! accesses workers or the files of the configuration directly. It runs on other threads than the workers.
#![forbid(unsafe_code)]

mod access;
mod answer;
mod audit;
mod bounded;
mod configuration;
mod cors;
mod dashboard;
mod extract;
mod guard;
mod hubs;
mod live;
mod look;
mod openapi;
mod openapi_live;
mod openapi_messages;
mod openapi_parts;
mod openapi_requests;
mod paths;
mod places;
mod problem;
mod schedules;
mod scrape;
mod text;

#[cfg(test)]
mod tests;

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware;
pub use bounded::{BoundedConnection, BoundedListener, CurrentTls, Peer};
use control::Control;
use std::io;
use std::sync::Arc;
use text::BODY_BYTES_MAX;
use tokio::net::TcpListener;

/// The limit of open connections. There are few operators, probes and scrapers. Above it, the connection with the longest idle
/// time is closed for a new one.
pub const CONNECTIONS_MAX: usize = 256;

/// Paths of other parts of the program on the operators' socket.
pub type MorePaths = Router;

/// Serves the API on a socket until `stop` is ready, and then completes active requests. `more` are paths of other parts,
/// which have their own access control.
pub async fn serve(
    listener: TcpListener,
    control: Arc<Control>,
    more: MorePaths,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let current = control.clone();
    let tls = move || Some(current.plan().admin.as_ref()?.tls.as_ref()?.server.clone());
    let (listener, stop) = BoundedListener::new(listener, CONNECTIONS_MAX, Box::new(tls), stop);
    let service = router(control).merge(more).into_make_service_with_connect_info::<Peer>();
    axum::serve(listener, service).with_graceful_shutdown(stop).await
}

/// Serves only `/healthz`, `/readyz` and `/metrics`, for any host name and without credentials, until `stop` is
/// ready.
pub async fn serve_status(
    listener: TcpListener,
    control: Arc<Control>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let current = control.clone();
    let tls = move || current.plan().status.as_ref()?.tls.clone();
    let (listener, stop) = BoundedListener::new(listener, CONNECTIONS_MAX, Box::new(tls), stop);
    let router = status_router(control);
    axum::serve(listener, router).with_graceful_shutdown(stop).await
}

fn router(control: Arc<Control>) -> Router {
    let mut router = Router::new();
    for (path, methods) in paths::all() {
        router = router.route(path, methods);
    }
    router
        .fallback(answer::no_such_path)
        .method_not_allowed_fallback(answer::no_such_method)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(middleware::from_fn(places::take_place))
        .layer(middleware::from_fn_with_state(control.clone(), guard::guard))
        .with_state(control)
}

fn status_router(control: Arc<Control>) -> Router {
    let mut router = Router::new();
    for (path, methods) in paths::status() {
        router = router.route(path, methods);
    }
    router
        .fallback(answer::no_such_status)
        .method_not_allowed_fallback(answer::no_such_method)
        .layer(middleware::from_fn(places::take_place))
        .layer(middleware::from_fn(guard::seal))
        .with_state(control)
}
