//! The text in a request's body: bounded in size and in time.

use crate::problem::Problem;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use std::time::Duration;

/// The largest configuration that a client can send: 5,000 routes are about one megabyte.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;

/// The maximum time for sending it.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// The whole body as text.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Text, Problem> {
        // Checked by the announced length, before a byte is read. A body without a length is cut off at the same bound.
        if length(request.headers()).is_some_and(|length| length > BODY_BYTES_MAX) {
            let detail = format!("The body is larger than {BODY_BYTES_MAX} bytes.");
            return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail));
        }
        let body = tokio::time::timeout(BODY_TIME_MAX, Bytes::from_request(request, state)).await;
        let body = body.map_err(|_| {
            Problem::new(StatusCode::REQUEST_TIMEOUT, "The body did not come in time.")
        })?;
        let body =
            body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
        let text = String::from_utf8(body.into());
        text.map(Text)
            .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "The body is not UTF-8 text."))
    }
}

fn length(headers: &HeaderMap) -> Option<usize> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
