//! A hub as the destination of a route.

use std::borrow::Cow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fault::{Fault, Kind};
use message::{Body, Reply, Request, RequestHead, Upgrade, weighted};
use policy::{Answer, Answerer, Exchange, Explanation};
use serde_json::{Value, json};

use crate::event::Event;
use crate::feed::ReadBounds;
use crate::hub::{Hub, Topic};
use crate::reader::{Gap, NotRead, Reader, StartFrom, store_fault};
use crate::representation::Representation;
use crate::socket::{self, Format};
use crate::stream::EventStream;
use crate::{link_header, subscribe};

/// A hub as a destination.
pub struct HubEnd {
    pub hub: Arc<Hub>,
    /// True if the route's path ends with `/**`: the hub then serves all paths below it. Otherwise the route's path is one of the hub's
    /// paths, such as `/news/publish`.
    pub is_open: bool,
}

/// The operation that a request selects by its path.
enum HubOperation<'a> {
    Subscribe,
    Publish,
    /// Read a topic. Its name is in the path, or in the parameter `topic`.
    Read(Option<&'a [u8]>),
}

/// The longest wait of a long poll.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// The number of events in a long poll without `limit`.
const EVENTS_USUAL: usize = 100;
/// The largest `limit`.
const EVENTS_MAX: usize = 1000;
/// The size at which a long poll returns no further event.
const EVENTS_BYTES: usize = 1 << 20;
/// The estimated size of an event in JSON without its body, including some escapes.
const EVENT_BYTES_USUAL: usize = 128;

impl Answerer for HubEnd {
    fn answer<'a>(&'a self, ex: &'a mut Exchange, request: &'a mut Request) -> Answer<'a> {
        Answer::Wait(Box::pin(self.serve(ex, request)))
    }

    fn explained(&self, _parameters: &[&str]) -> Explanation {
        let topics = self.hub.topics.len();
        let log = self.hub.settings.log.as_ref().map(|(said, _)| said.to_string());
        Explanation {
            what: format!("hub `{}`", self.hub.name()),
            how: std::iter::once(format!("{topics} topics")).chain(log).collect(),
        }
    }

    fn view(&self) -> Value {
        json!({ "hub": self.hub.name() })
    }
}

impl HubEnd {
    async fn serve(&self, ex: &mut Exchange, request: &mut Request) -> Result<Reply, Fault> {
        let path = request.head.path().to_vec();
        let (prefix, asks) = self.asks(&path, ex.rest).ok_or_else(|| no_such_path(&path))?;
        let is_read = matches!(request.head.method(), b"GET" | b"HEAD");
        match (asks, request.head.method()) {
            (HubOperation::Publish, b"POST") => self.publish(ex, request).await,
            (HubOperation::Subscribe, b"POST") => {
                let base = self.base(ex, &request.head, prefix);
                self.hub.serve_subscriber(ex, request, base).await
            }
            (HubOperation::Read(name), _) if is_read => {
                let topic = self.topic_read(name, &request.head)?;
                topic.check_scopes(ex)?;
                let base = self.base(ex, &request.head, prefix);
                let mut reply = self.read(topic, request).await?;
                let links = link_header::links(&base, &topic.name);
                // Harmless: if the URL of the hub is not valid in a header, the reply has no `Link`.
                let _ = reply.head.headers.add("Link", links.as_bytes());
                Ok(reply)
            }
            (HubOperation::Read(_), _) => Err(other_method("GET, HEAD")),
            (HubOperation::Publish | HubOperation::Subscribe, _) => Err(other_method("POST")),
        }
    }

    /// The topic to read. Its name is in the path, or in the parameter `topic`, which can contain any name.
    fn topic_read(&self, name: Option<&[u8]>, head: &RequestHead) -> Result<&Topic, Fault> {
        let query = head.query().unwrap_or(b"");
        let name = match name {
            Some(name) => kit::percent::decoded(name, false).into_owned(),
            None => once(query, "topic")?
                .ok_or_else(|| subscribe::wrong("`topic` is missing.").with_status(422))?,
        };
        self.hub.topic(&name).ok_or_else(subscribe::unknown_topic)
    }

    /// Splits a path into the path of the hub and the operation. Returns `None` if the hub has no such path.
    fn asks<'p>(&self, path: &'p [u8], rest: usize) -> Option<(&'p [u8], HubOperation<'p>)> {
        let (prefix, below) = if self.is_open {
            path.split_at_checked(rest)?
        } else {
            path.split_at_checked(self.prefix_of_one(path))?
        };
        let prefix = prefix.strip_suffix(b"/").unwrap_or(prefix);
        let below = below.strip_prefix(b"/").unwrap_or(below);
        let mut publish = self.hub.settings.publish.iter();
        let asks = match below {
            b"" => HubOperation::Subscribe,
            b"topics" => HubOperation::Read(None),
            _ if publish.any(|path| path.trim_start_matches('/').as_bytes() == below) => {
                HubOperation::Publish
            }
            _ => HubOperation::Read(Some(below.strip_prefix(b"topics/")?)),
        };
        Some((prefix, asks))
    }

    /// The length of the hub's own path in `path`, if the route has only one of the hub's paths.
    fn prefix_of_one(&self, path: &[u8]) -> usize {
        let publish = self.hub.settings.publish.iter().map(|path| path.as_bytes());
        let mut ends = publish.chain([&b"/topics"[..]]);
        if let Some(prefix) = ends.find_map(|end| path.strip_suffix(end)) {
            return prefix.len();
        }
        const BEFORE: &[u8] = b"/topics/";
        path.windows(BEFORE.len()).position(|part| part == BEFORE).unwrap_or(path.len())
    }

    /// The URL of the hub: the configured one, or the one that the client used.
    fn base(&self, ex: &Exchange, head: &RequestHead, prefix: &[u8]) -> String {
        if let Some(url) = &self.hub.settings.url {
            return url.to_string();
        }
        let (scheme, host) = ex.public_origin(head);
        // Harmless: a host that is not UTF-8 was refused, and the prefix matches a path of the configuration.
        let (host, prefix) = (String::from_utf8_lossy(host), String::from_utf8_lossy(prefix));
        format!("{scheme}://{host}{prefix}")
    }

    async fn publish(&self, ex: &Exchange, request: &mut Request) -> Result<Reply, Fault> {
        let query = request.head.query().unwrap_or(b"");
        let name = once(query, "topic")?.filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| subscribe::wrong("`topic` is missing.").with_status(422))?;
        let topic = self.hub.topic(&name).ok_or_else(subscribe::unknown_topic)?;
        if !self.hub.is_signed() {
            topic.check_scopes(ex)?;
        }
        let body = std::mem::take(&mut request.body);
        let body = body.gather(self.hub.settings.event_bytes_max, Kind::BodyTooLarge).await?;
        let headers = &request.head.headers;
        let signatures: Vec<&[u8]> = headers.get_all(&self.hub.settings.signature).collect();
        self.hub.check_publisher(&signatures, &body)?;
        let span = ex.trace.as_ref().map(|trace| trace.span);
        let representation = Representation::of(headers)?.published_by(span);
        let id = self.hub.publish(topic, &representation, &body).await?;
        Ok(json_reply(200, &json!({ "id": id.to_string() })))
    }

    async fn read(&self, topic: &Topic, request: &Request) -> Result<Reply, Fault> {
        let head = &request.head;
        let query = head.query().unwrap_or(b"");
        let is_socket = head.method() == b"GET" && Upgrade::is_to_websocket(head);
        if !is_socket && head.method() == b"GET" && Upgrade::names_websocket(head) {
            let what = "A request for a WebSocket needs HTTP/1.1 and `Connection: upgrade`.";
            return Err(subscribe::wrong(what));
        }
        let is_stream = !is_socket && accepts_events(head);
        let format = match once(query, "format")?.as_deref() {
            None | Some(b"json") => Format::Json,
            Some(b"body") => Format::Body,
            Some(_) => return Err(subscribe::wrong("`format` is neither `json` nor `body`.")),
        };
        // A client sends an empty id before its first event (WHATWG HTML, 9.2.4).
        let had = head.headers.get("last-event-id").filter(|id| is_stream && !id.is_empty());
        let from = StartFrom::of(had.map(<[u8]>::to_vec).or(once(query, "after")?).as_deref())?;
        let wait = once(query, "wait")?.map(|text| wait(&text)).transpose()?;
        let limit = once(query, "limit")?.map(|text| limit(&text)).transpose()?;
        let feed = self.hub.feed(topic);
        let span = self.hub.store.span(&topic.log).await.map_err(|error| store_fault(&error))?;
        let (reader, gap) = Reader::new(feed, span, from);
        if is_stream {
            return Ok(stream(match head.method() {
                b"HEAD" => Body::Empty,
                _ => Body::Stream(Box::new(EventStream::new(reader, gap))),
            }));
        }
        if let Some(Gap { oldest, .. }) = gap {
            return unread(&NotRead::Gone { oldest });
        }
        if is_socket {
            socket::answer(head, !request.body.is_empty(), reader, format)
        } else {
            poll(reader, wait.unwrap_or(Duration::ZERO), limit.unwrap_or(EVENTS_USUAL)).await
        }
    }
}

/// Answers a long poll with the available events. If there are none, waits up to `wait` for the next ones.
async fn poll(mut reader: Reader, wait: Duration, limit: usize) -> Result<Reply, Fault> {
    let most = ReadBounds { events: limit, bytes: EVENTS_BYTES };
    let read = match reader.read(most).await {
        Ok(events) if events.is_empty() && !wait.is_zero() => {
            tokio::time::timeout(wait, reader.next(most)).await.unwrap_or(Ok(Vec::new()))
        }
        read => read,
    };
    match read {
        Ok(events) => Ok(bytes_of_json(200, polled(&events, reader.after()))),
        Err(not_read) => unread(&not_read),
    }
}

/// Writes the reply to a long poll. A reader that catches up requests a thousand events each time, so they are written directly,
/// without a tree of JSON values.
fn polled(events: &[Rc<Event>], next: u64) -> Vec<u8> {
    let bytes = events.iter().map(|event| event.body.len() + EVENT_BYTES_USUAL).sum();
    let mut out = Vec::with_capacity(bytes);
    out.extend_from_slice(b"{\"events\":[");
    for (number, event) in events.iter().enumerate() {
        if number > 0 {
            out.push(b',');
        }
        event.add_json(&mut out);
    }
    out.extend_from_slice(format!("],\"next\":\"{next}\"}}").as_bytes());
    out
}

fn unread(not_read: &NotRead) -> Result<Reply, Fault> {
    match not_read {
        NotRead::Gone { oldest } => Ok(json_reply(410, &json!({ "oldest": oldest.to_string() }))),
        NotRead::Store(error) => Err(store_fault(error)),
    }
}

fn stream(body: Body) -> Reply {
    let mut reply = Reply::new(200, body);
    reply.head.headers.add_known("Content-Type", b"text/event-stream");
    reply.head.headers.add_known("Cache-Control", b"no-store");
    // Without this, nginx buffers the head and the first events.
    reply.head.headers.add_known("X-Accel-Buffering", b"no");
    reply
}

/// A JSON reply that must not be cached.
pub(crate) fn json_reply(status: u16, json: &Value) -> Reply {
    bytes_of_json(status, json.to_string().into_bytes())
}

fn bytes_of_json(status: u16, json: Vec<u8>) -> Reply {
    let mut reply = Reply::new(status, Body::whole(Bytes::from(json)));
    reply.head.headers.add_known("Content-Type", b"application/json");
    reply.head.headers.add_known("Cache-Control", b"no-store");
    reply
}

fn no_such_path(path: &[u8]) -> Fault {
    // Harmless: the text is only logged.
    let cause = format!("the hub has no path {}", String::from_utf8_lossy(path));
    Fault::new(Kind::PathUnknown, cause)
}

fn other_method(allow: &'static str) -> Fault {
    Fault::new(Kind::MethodNotAllowed, format!("the hub accepts only {allow} here"))
        .with_header("Allow", allow)
}

fn accepts_events(head: &RequestHead) -> bool {
    let ranges = head.headers.get_all("accept").flat_map(|value| value.split(|b| *b == b','));
    // Harmless: an invalid range accepts nothing.
    let mut accepted = ranges.filter_map(weighted).filter(|(_, weight)| *weight > 0);
    accepted.any(|(kind, _)| kind.eq_ignore_ascii_case(b"text/event-stream"))
}

/// The query parameter of this name. A repeated parameter is refused, since a policy and the hub could use different values.
fn once(query: &[u8], name: &str) -> Result<Option<Vec<u8>>, Fault> {
    let mut found = parameters(query, name.as_bytes());
    match (found.next(), found.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(subscribe::wrong(&format!("`{name}` is given twice."))),
    }
}

/// The first query parameter of this name.
pub(crate) fn parameter(query: &[u8], name: &[u8]) -> Option<Vec<u8>> {
    parameters(query, name).next()
}

fn parameters<'q>(query: &'q [u8], name: &'q [u8]) -> impl Iterator<Item = Vec<u8>> {
    kit::percent::values(query, name).map(Cow::into_owned)
}

/// Parses a wait such as `30s`, `500ms` or `1m`. A number without a unit is in seconds.
fn wait(text: &[u8]) -> Result<Duration, Fault> {
    let millis = || {
        let text = std::str::from_utf8(text).ok()?;
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at_checked(digits)?;
        let factor = match unit {
            "ms" => 1,
            "s" | "" => 1000,
            "m" => 60_000,
            _ => return None,
        };
        Some(number.parse::<u64>().ok()?.saturating_mul(factor))
    };
    let wait = millis().map(|millis| Duration::from_millis(millis).min(WAIT_MAX));
    wait.ok_or_else(|| subscribe::wrong("`wait` must be a time such as `500ms`, `30s` or `1m`."))
}

fn limit(text: &[u8]) -> Result<usize, Fault> {
    // Harmless: an invalid number is refused.
    let number = std::str::from_utf8(text).ok().and_then(kit::digits::whole::<usize>);
    let number = number.filter(|number| *number > 0);
    let number = number.ok_or_else(|| subscribe::wrong("`limit` must be a positive number."))?;
    Ok(number.min(EVENTS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_have_units_and_a_maximum() {
        for (text, millis) in [
            ("30s", Some(30_000)),
            ("0s", Some(0)),
            ("250ms", Some(250)),
            ("1m", Some(60_000)),
            ("5", Some(5000)),
            ("2h", None),
            ("99999999999999999999s", None),
            ("10m", Some(60_000)),
            ("", None),
            ("s", None),
            ("-1s", None),
            ("1.5s", None),
        ] {
            let read = wait(text.as_bytes()).ok().map(|wait| wait.as_millis());
            assert_eq!(read, millis, "{text}");
        }
    }

    #[test]
    fn limits_are_numbers_from_one() {
        for (text, number) in
            [("1", Some(1)), ("100000", Some(EVENTS_MAX)), ("0", None), ("-1", None), ("x", None)]
        {
            assert_eq!(limit(text.as_bytes()).ok(), number, "{text}");
        }
    }

    #[test]
    fn parameters_are_decoded() {
        for (query, value) in [
            ("topic=sports", Some("sports")),
            ("a=b&topic=a%2Fb+c", Some("a/b c")),
            ("to%70ic=x&topic=y", Some("x")),
            ("topic", Some("")),
            ("topics=x", None),
            ("", None),
        ] {
            let found = parameter(query.as_bytes(), b"topic");
            assert_eq!(found.as_deref(), value.map(str::as_bytes), "{query}");
        }
    }
}
