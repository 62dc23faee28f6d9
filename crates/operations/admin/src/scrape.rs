//! A scrape as the body of a reply, in the format that the scraper asks for.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use control::Control;
use futures_util::stream;
use telemetry::{ScrapeFormat, TakePiece};
use tokio::runtime::Handle;
use tokio::sync::{SemaphorePermit, mpsc};
use tokio::time::timeout;

/// The number of rendered pieces that may wait to be sent. The rendering thread holds at most one more.
const PIECES_AHEAD: usize = 4;

/// The time limit for all pieces. A scraper waits ten seconds, the default of Prometheus, or not much longer.
const SENT_WITHIN: Duration = Duration::from_secs(30);

/// The body of a scrape. It keeps its place until it is sent.
pub(crate) fn body(
    control: Arc<Control>,
    format: ScrapeFormat,
    place: SemaphorePermit<'static>,
) -> Body {
    rendered(SENT_WITHIN, place, move |take| control.telemetry().scrape(format, take))
}

/// A body that a thread renders while it is sent. The thread drops `place` when the last piece is ready to be sent, when the client is
/// gone, or at the time limit.
fn rendered(
    limit: Duration,
    place: impl Send + 'static,
    render: impl FnOnce(&mut TakePiece<'_>) -> fmt::Result + Send + 'static,
) -> Body {
    let (sender, receiver) = mpsc::channel(PIECES_AHEAD);
    let runtime = Handle::current();
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let begun = kit::clock::now();
        let send = |piece| {
            let left = limit.saturating_sub(begun.elapsed());
            let sent = runtime.block_on(async { timeout(left, sender.send(piece)).await });
            // If sending fails, the scraper is gone or its time is over.
            if matches!(sent, Ok(Ok(()))) { Ok(()) } else { Err(fmt::Error) }
        };
        let complete = render(&mut |piece| send(Some(piece)));
        // Harmless: an incomplete body is reported as such below.
        complete.and_then(|()| send(None)).unwrap_or_default();
    });
    Body::from_stream(stream::unfold(Some(receiver), next_piece))
}

type Pieces = mpsc::Receiver<Option<Vec<u8>>>;

/// The next piece. A body without its end marker is an error, so that it is not mistaken for a complete one.
async fn next_piece(pieces: Option<Pieces>) -> Option<(io::Result<Bytes>, Option<Pieces>)> {
    let mut pieces = pieces?;
    match pieces.recv().await {
        Some(Some(piece)) => Some((Ok(piece.into()), Some(pieces))),
        Some(None) => None,
        None => Some((Err(io::Error::other("the scrape was not sent in time")), None)),
    }
}

/// The format of the metrics that a scraper asks for.
pub(crate) fn format(headers: &HeaderMap) -> ScrapeFormat {
    if wants_openmetrics(headers) { ScrapeFormat::OpenMetrics } else { ScrapeFormat::PlainText }
}

/// True if `Accept` names OpenMetrics, and gives the text format no higher weight. A range such as `*/*` is ignored.
fn wants_openmetrics(headers: &HeaderMap) -> bool {
    // Harmless: a line that is not text names no known format.
    let lines = headers.get_all(header::ACCEPT).iter().filter_map(|line| line.to_str().ok());
    let (mut openmetrics, mut text) = (0, None);
    for range in lines.flat_map(|line| line.split(',')) {
        let (name, parameters) = range.split_once(';').unwrap_or((range, ""));
        let weight = weight(parameters);
        match name.trim().to_ascii_lowercase().as_str() {
            "application/openmetrics-text" => openmetrics = openmetrics.max(weight),
            "text/plain" => text = text.max(Some(weight)),
            // Harmless: other formats are not offered.
            _ => {}
        }
    }
    // Harmless: if the text format is absent, its weight is 0.
    openmetrics > 0 && openmetrics >= text.unwrap_or_default()
}

/// The `q` of a range in thousandths (RFC 9110, 12.4.2). An invalid one is ignored.
fn weight(parameters: &str) -> u32 {
    // Harmless: a parameter without a value is not a weight.
    let mut pairs = parameters.split(';').filter_map(|pair| pair.split_once('='));
    let q = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("q"));
    // Harmless: an invalid weight is ignored, as stated above.
    let q = q.and_then(|(_, value)| value.trim().parse::<f32>().ok());
    let q = q.filter(|q| (0.0..=1.0).contains(q)).unwrap_or(1.0);
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 1000")]
    let thousandths = (q * 1000.0).round() as u32;
    thousandths
}

#[cfg(test)]
mod tests {
    use axum::body::to_bytes;
    use axum::http::HeaderValue;
    use futures_util::StreamExt as _;
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn a_scraper_that_stops_reading_keeps_its_place_until_the_time_limit() {
        let places = Arc::new(Semaphore::new(1));
        let place = places.clone().try_acquire_owned().unwrap();
        let endless = |take: &mut TakePiece<'_>| loop {
            take(b"x".to_vec())?;
        };
        let body = rendered(Duration::from_millis(100), place, endless);
        assert_eq!(places.available_permits(), 0);
        // Nobody reads, and the place is free again.
        drop(timeout(Duration::from_secs(30), places.acquire()).await.unwrap().unwrap());
        // A reader that comes back learns that the body is incomplete.
        let pieces: Vec<bool> = body.into_data_stream().map(|piece| piece.is_ok()).collect().await;
        assert_eq!(pieces, [true, true, true, true, false]);
    }

    #[tokio::test]
    async fn a_body_ends_after_its_last_piece() {
        let three = |take: &mut TakePiece<'_>| {
            ["a", "b", "c"].into_iter().try_for_each(|piece| take(piece.into()))
        };
        let body = rendered(Duration::from_secs(30), (), three);
        assert_eq!(to_bytes(body, 10).await.unwrap(), "abc");
        let fails = |take: &mut TakePiece<'_>| take(b"a".to_vec()).and(Err(fmt::Error));
        let body = rendered(Duration::from_secs(30), (), fails);
        assert!(
            to_bytes(body, 10).await.is_err(),
            "the client would take the body for a complete one"
        );
    }

    #[test]
    fn openmetrics_is_only_for_scrapers_that_ask_for_it() {
        for (accept, wanted) in [
            ("", false),
            ("*/*", false),
            ("text/plain", false),
            ("text/html, */*;q=0.1", false),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; version=1.0.0; charset=utf-8", true),
            (
                "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
                true,
            ),
            ("application/openmetrics-text;q=0.2, text/plain;q=0.9", false),
            ("application/openmetrics-text; Q=0", false),
            ("text/plain;version=0.0.4;q=0.5,*/*;q=0.1", false),
        ] {
            let mut headers = HeaderMap::new();
            if !accept.is_empty() {
                headers.append(header::ACCEPT, HeaderValue::from_static(accept));
            }
            assert_eq!(wants_openmetrics(&headers), wanted, "{accept}");
        }
    }
}
