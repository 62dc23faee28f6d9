//! Places for the requests that may take long, so that those for health are answered whatever the others do.
//!
//! A request has a place until its reply is made: while its body arrives, while a configuration is compiled. A scrape has one until its
//! last piece is sent.
//! The connections of all of these together are far fewer than the listener takes.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::problem::Problem;

/// Paths that take no place here: probes are answered at once, and a scrape has its own.
const ELSEWHERE: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Requests for metrics at once. There are few scrapers.
static SCRAPES: Semaphore = Semaphore::const_new(8);

/// Other requests at once. Operators are few, and each of them may hold a configuration or an archive in memory.
static OTHERS: Semaphore = Semaphore::const_new(32);

/// Answers a request, or says that there is no place for it.
pub(crate) async fn take_place(request: Request, next: Next) -> Response {
    if ELSEWHERE.contains(&request.uri().path()) {
        return next.run(request).await;
    }
    let Ok(_place) = OTHERS.try_acquire() else { return none_left() };
    next.run(request).await
}

/// The place of a scrape, if there is one.
pub(crate) fn of_scrape() -> Option<SemaphorePermit<'static>> {
    // Harmless: the scraper is told that there is none.
    SCRAPES.try_acquire().ok()
}

/// The answer where there is no place.
pub(crate) fn none_left() -> Response {
    let what = "Too many requests of operators are under way.";
    let mut reply = Problem::new(StatusCode::SERVICE_UNAVAILABLE, what).into_response();
    reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    reply
}
