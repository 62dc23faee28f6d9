//! Limits for requests that may take long, so that health checks are always answered.
//!
//! A request has a place until its reply is made: while its body arrives, and while a configuration is compiled. A scrape has one until
//! its last piece is sent. The total of these places is far below the limit of connections.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::problem::Problem;

/// Paths without a place here: probes are answered at once, and scrapes have their own limit.
const ELSEWHERE: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Concurrent scrapes. There are few scrapers.
static SCRAPES: Semaphore = Semaphore::const_new(8);

/// Other concurrent requests. There are few operators, and each request may have a configuration or an archive in
/// memory.
static OTHERS: Semaphore = Semaphore::const_new(32);

/// Answers a request, or refuses it if there is no place.
pub(crate) async fn take_place(request: Request, next: Next) -> Response {
    if ELSEWHERE.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let Ok(_place) = OTHERS.try_acquire() else { return none_left() };
    next.run(request).await
}

/// A place for a scrape, if one is free.
pub(crate) fn of_scrape() -> Option<SemaphorePermit<'static>> {
    // Harmless: the scraper is told that there is none.
    SCRAPES.try_acquire().ok()
}

/// The answer if no place is free.
pub(crate) fn none_left() -> Response {
    let what = "Too many requests of operators are in progress.";
    let mut reply = Problem::new(StatusCode::SERVICE_UNAVAILABLE, what).into_response();
    reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}
