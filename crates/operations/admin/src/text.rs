//! The body of a request, as text or as an archive, with limits for size and time.

use crate::problem::Problem;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{HeaderMap, StatusCode, header};
use control::Sent;
use std::time::Duration;

/// The largest text that a client can send. A configuration with 5,000 routes has about one megabyte.
pub(crate) const BODY_BYTES_MAX: usize = 16 << 20;

/// The largest archive of a bundle or of a configuration that a client can send.
pub(crate) const ARCHIVE_BYTES_MAX: usize = 32 << 20;

/// The content type of an archive.
pub(crate) const ZIP: &str = "application/zip";

/// The time limit for a body to arrive.
pub(crate) const BODY_TIME_MAX: Duration = Duration::from_secs(30);

/// The whole body as text.
#[derive(Debug)]
pub(crate) struct Text(pub(crate) String);

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Text, Problem> {
        let text = String::from_utf8(body(request, state, BODY_BYTES_MAX).await?.into());
        text.map(Text)
            .map_err(|_| Problem::new(StatusCode::BAD_REQUEST, "The body is not UTF-8 text."))
    }
}

/// A configuration, as text or as an archive according to its content type.
#[derive(Debug)]
pub(crate) struct Configuration(pub(crate) Sent);

impl<S: Send + Sync> FromRequest<S> for Configuration {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Configuration, Problem> {
        // Harmless: a content type that is not text is not that of an archive.
        let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
        let is_archive = kind.is_some_and(|kind| {
            let kind = kind.split(';').next().unwrap_or_default().trim();
            kind.eq_ignore_ascii_case(ZIP)
        });
        if is_archive {
            let Archive(bytes) = Archive::from_request(request, state).await?;
            Ok(Configuration(Sent::Archive(bytes)))
        } else {
            let Text(text) = Text::from_request(request, state).await?;
            Ok(Configuration(Sent::Text(text)))
        }
    }
}

/// The whole body as bytes.
#[derive(Debug)]
pub(crate) struct Archive(pub(crate) Vec<u8>);

impl<S: Send + Sync> FromRequest<S> for Archive {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &S) -> Result<Archive, Problem> {
        body(request, state, ARCHIVE_BYTES_MAX).await.map(|bytes| Archive(bytes.into()))
    }
}

async fn body<S: Send + Sync>(
    request: Request,
    state: &S,
    bytes_max: usize,
) -> Result<Bytes, Problem> {
    // The announced length is checked before reading. A body without a length has the same limit.
    if length(request.headers()).is_some_and(|length| length > bytes_max) {
        return Err(too_large(bytes_max));
    }
    let body = tokio::time::timeout(BODY_TIME_MAX, Bytes::from_request(request, state)).await;
    let body = body.map_err(|_| {
        Problem::new(StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time.")
    })?;
    let body = body.map_err(|rejection| Problem::new(rejection.status(), rejection.body_text()))?;
    if body.len() > bytes_max { Err(too_large(bytes_max)) } else { Ok(body) }
}

fn too_large(bytes_max: usize) -> Problem {
    let detail = format!("The body is larger than {bytes_max} bytes.");
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, detail)
}

fn length(headers: &HeaderMap) -> Option<usize> {
    // Harmless: the size is checked again while reading.
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
