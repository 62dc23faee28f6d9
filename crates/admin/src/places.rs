//! Places for the requests that may take long, so that those for health are answered whatever the others do.
//!
//! A request has a place until its reply is made: while its body arrives, while a configuration is compiled, while metrics are rendered.
//! The connections of all of these together are far fewer than the listener takes.

use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tokio::sync::Semaphore;

use crate::problem::Problem;

/// The paths of probes. They are answered at once and need no place.
const HEALTH: [&str; 2] = ["/healthz", "/readyz"];

/// Requests for metrics at once. There are few scrapers.
static SCRAPES: Semaphore = Semaphore::const_new(8);

/// Other requests at once. Operators are few, and each of them may hold a configuration or an archive in memory.
static OTHERS: Semaphore = Semaphore::const_new(32);

/// Answers a request, or says that there is no place for it.
pub(crate) async fn take_place(request: Request, next: Next) -> Response {
    let places = match request.uri().path() {
        path if HEALTH.contains(&path) => return next.run(request).await,
        "/metrics" => &SCRAPES,
        _ => &OTHERS,
    };
    let Ok(_place) = places.try_acquire() else {
        let what = "Too many requests of operators are under way.";
        let mut reply = Problem::new(StatusCode::SERVICE_UNAVAILABLE, what).into_response();
        reply.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
        return reply;
    };
    next.run(request).await
}
