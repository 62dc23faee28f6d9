//! The event source: `text/event-stream`, one event per interval, each sent at once.
//!
//! Query parameters: `?interval=100ms&count=10&size=64`; the size is that of the padding in each event. Without a count, it continues
//! until the client disconnects. With `Last-Event-ID`, it continues after that event. It waits for slow clients: at most one event is
//! unsent.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body::{Body, Frame};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::amount::{parse_bytes, parse_duration};
use super::body::{Reply, refusal};

const INTERVAL: Duration = Duration::from_secs(1);
/// The interval of comments. Proxies commonly cut a stream that is silent for 30 or 60 s; half of the shorter time keeps it open.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The shortest interval. tokio's timer has a resolution of a millisecond, so a shorter interval would be a busy loop.
const INTERVAL_MIN: Duration = Duration::from_millis(1);
const INTERVAL_MAX: Duration = Duration::from_secs(3600);
/// The default size of an event, as in the usual load tests of event streams.
const EVENT_BYTES_USUAL: usize = 82;
/// The maximum padding of an event (the parameter `size`). More would show nothing that 1 MiB does not show.
const EVENT_BYTES_MAX: usize = 1 << 20;

pub(super) fn answer(request: &Request<Incoming>) -> Reply {
    let events = match Events::asked_by(request) {
        Ok(events) => events,
        Err(why) => return refusal(StatusCode::BAD_REQUEST, &why),
    };
    let mut reply = Response::new(events.map_err(|never| match never {}).boxed_unsync());
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    reply
}

/// The body: an event at each interval, and a comment if nothing was sent for a long time.
struct Events {
    interval: Interval,
    heartbeat: Interval,
    /// The id of the next event. The first one has the id 1.
    id: u64,
    /// The number of events left, or `None` to continue until the client disconnects.
    left: Option<u64>,
    /// The padding of each event, or `None` for events of `EVENT_BYTES_USUAL` bytes.
    padding: Option<String>,
}

impl Events {
    fn asked_by(request: &Request<Incoming>) -> Result<Self, String> {
        let mut pause = INTERVAL;
        let mut left = None;
        let mut size_bytes = None;
        // Harmless: a request without a query has no parameters.
        let query = request.uri().query().unwrap_or_default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "interval" => pause = parse_duration(&value)?.clamp(INTERVAL_MIN, INTERVAL_MAX),
                "count" => left = Some(value.parse().map_err(|_| "count is a number")?),
                "size" => size_bytes = Some(parse_bytes(&value)?.min(EVENT_BYTES_MAX)),
                // Harmless: other parameters are ignored.
                _ => {}
            }
        }
        let last = request.headers().get("last-event-id");
        // Harmless: an id that is not a number was not sent by this source.
        let last: Option<u64> = last.and_then(|id| id.to_str().ok()?.parse().ok());
        let mut interval = interval(pause);
        interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heartbeat = tokio::time::interval(HEARTBEAT);
        heartbeat.set_missed_tick_behavior(MissedTickBehavior::Delay);
        heartbeat.reset();
        let id = last.unwrap_or(0).saturating_add(1);
        Ok(Self {
            interval,
            heartbeat,
            id,
            left,
            padding: size_bytes.map(|bytes| "x".repeat(bytes)),
        })
    }

    fn next_event(&mut self) -> Bytes {
        let id = self.id;
        self.id = id.saturating_add(1);
        let mut event = format!("id: {id}\nevent: tick\ndata: tick {id}");
        match &self.padding {
            Some(padding) if padding.is_empty() => {}
            Some(padding) => {
                event.push(' ');
                event.push_str(padding);
            }
            None => {
                event.push(' ');
                let padding = EVENT_BYTES_USUAL.saturating_sub(event.len() + 2);
                event.extend(std::iter::repeat_n('x', padding));
            }
        }
        event.push_str("\n\n");
        Bytes::from(event)
    }
}

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let events = self.get_mut();
        if events.left == Some(0) {
            return Poll::Ready(None);
        }
        if events.interval.poll_tick(cx).is_ready() {
            events.heartbeat.reset();
            events.left = events.left.map(|left| left - 1);
            return Poll::Ready(Some(Ok(Frame::data(events.next_event()))));
        }
        ready!(events.heartbeat.poll_tick(cx));
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b": heartbeat\n\n")))))
    }
}
