//! The paths of httpbin.org that tests of gateways use, with the same answers, and `/size/350B`.
//!
//! `/anything` (and below), `/get`, `/post`, `/headers`, `/status/N`, `/delay/SECONDS`, `/size/N` with a
//! unit, `/response-headers`. Bodies are gathered up to a bound; multipart forms are shown as text.

use std::net::SocketAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, header};
use hyper::body::Incoming;
use serde_json::{Map, Value, json};

use super::amount::{parse_bytes, parse_seconds};
use super::body::{
    JSON, Reply, TEXT, WholeReply, full, gather, refusal, whole_refusal, whole_reply,
};

/// The maximum size of a body. The answer contains it twice, as text and as JSON.
const BODY_BYTES_MAX: usize = 16 << 20;
const SIZE_BYTES_MAX: usize = 64 << 20;
/// The longest delay, which is the limit of httpbin.org itself.
const DELAY_MAX: Duration = Duration::from_secs(10);

const INDEX: &str = "\
/anything  /anything/...   the request as JSON, any method
/get /post                 the same for one method
/headers                   its headers
/status/N                  that status
/delay/SECONDS             the same as /anything, later
/size/350B                 that many bytes; KiB and MiB too
/response-headers?a=b      those headers in the answer
";

/// The client's address and protocol.
#[derive(Clone, Copy)]
pub(super) struct Client {
    pub(super) address: SocketAddr,
    pub(super) scheme: &'static str,
}

pub(super) async fn answer(request: Request<Incoming>, client: Client) -> Reply {
    let (head, body) = request.into_parts();
    let body = match gather(body, BODY_BYTES_MAX).await {
        Ok(body) => body,
        Err(refusal) => return refusal,
    };
    if let ("delay", seconds) = split(head.uri.path()) {
        let Some(delay) = parse_seconds(seconds) else {
            return refusal(StatusCode::BAD_REQUEST, "a delay in seconds, as 0.5");
        };
        tokio::time::sleep(delay.min(DELAY_MAX)).await;
        return json(&Mirror { head, body, client }.everything()).map(full);
    }
    answer_whole(Request::from_parts(head, body), client).map(full)
}

/// Answers a request that has arrived whole, on any path without a wait.
pub(super) fn answer_whole(request: Request<Bytes>, client: Client) -> WholeReply {
    let (head, body) = request.into_parts();
    let path = head.uri.path().to_owned();
    let (first, rest) = split(&path);
    match first {
        "" => whole_reply(StatusCode::OK, TEXT, INDEX),
        "anything" => json(&Mirror { head, body, client }.everything()),
        "get" => only(&Method::GET, Mirror { head, body, client }),
        "post" => only(&Method::POST, Mirror { head, body, client }),
        "headers" => json(&json!({ "headers": Mirror { head, body, client }.headers() })),
        "status" => status(rest),
        "delay" => whole_refusal(StatusCode::NOT_IMPLEMENTED, "this server never waits"),
        "size" => size(rest),
        "response-headers" => response_headers(&head),
        _ => whole_refusal(StatusCode::NOT_FOUND, "there is nothing here; / lists the paths"),
    }
}

/// Splits a path after its first segment.
fn split(path: &str) -> (&str, &str) {
    let path = path.trim_start_matches('/');
    path.split_once('/').unwrap_or((path, ""))
}

fn json(value: &Value) -> WholeReply {
    whole_reply(StatusCode::OK, JSON, format!("{value:#}\n"))
}

fn only(method: &Method, mirror: Mirror) -> WholeReply {
    let allowed = mirror.head.method == method
        || (method == Method::GET && mirror.head.method == Method::HEAD);
    if !allowed {
        return whole_refusal(StatusCode::METHOD_NOT_ALLOWED, &format!("only {method}"));
    }
    let mut everything = mirror.everything();
    if let Some(members) = everything.as_object_mut() {
        members.retain(|name, _| {
            name != "method"
                && (method == Method::POST
                    || ["args", "headers", "origin", "url"].contains(&name.as_str()))
        });
    }
    json(&everything)
}

/// Returns a reply with this status. Only final statuses are allowed, since a 1xx alone is not a reply.
fn status(text: &str) -> WholeReply {
    // Harmless: an invalid status is refused below.
    let status = text.parse().ok().filter(|status| (200..=599).contains(status));
    // Harmless: an invalid status is refused below.
    match status.and_then(|status| StatusCode::from_u16(status).ok()) {
        Some(status) => whole_reply(status, TEXT, ""),
        None => whole_refusal(StatusCode::BAD_REQUEST, "a status from 200 to 599"),
    }
}

fn size(text: &str) -> WholeReply {
    match parse_bytes(text) {
        Ok(size_bytes) if size_bytes <= SIZE_BYTES_MAX => {
            whole_reply(StatusCode::OK, TEXT, vec![b'x'; size_bytes])
        }
        Ok(_) => whole_refusal(StatusCode::BAD_REQUEST, "at most 64MiB"),
        Err(why) => whole_refusal(StatusCode::BAD_REQUEST, &why),
    }
}

fn response_headers(head: &Parts) -> WholeReply {
    let mut answer = json(&Value::Object(query(head)));
    // Harmless: a request without a query has no parameters.
    for (name, value) in form_urlencoded::parse(head.uri.query().unwrap_or_default().as_bytes()) {
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(&value))
        else {
            return whole_refusal(StatusCode::BAD_REQUEST, "not a header");
        };
        // hyper writes the framing headers. A wrong length would break the connection.
        if ![header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(&name)
        {
            answer.headers_mut().append(name, value);
        }
    }
    answer
}

/// A request described as by httpbin.org, with the same order and spelling of members and header names.
struct Mirror {
    head: Parts,
    body: Bytes,
    client: Client,
}

impl Mirror {
    fn everything(&self) -> Value {
        let is_form = self.header(&header::CONTENT_TYPE).is_some_and(|kind| {
            kind.to_ascii_lowercase().starts_with("application/x-www-form-urlencoded")
        });
        let form = if is_form { pairs(&self.body) } else { Map::new() };
        json!({
            "args": query(&self.head),
            "data": if is_form { String::new() } else { self.data() },
            "files": {},
            "form": form,
            "headers": self.headers(),
            "json": serde_json::from_slice::<Value>(&self.body).unwrap_or(Value::Null),
            "method": self.head.method.as_str(),
            "origin": self.origin(),
            "url": self.url(),
        })
    }

    fn data(&self) -> String {
        match str::from_utf8(&self.body) {
            Ok(text) => text.to_owned(),
            Err(_) => {
                format!("data:application/octet-stream;base64,{}", STANDARD.encode(&self.body))
            }
        }
    }

    fn headers(&self) -> Value {
        let mut headers: Vec<(String, String)> = Vec::new();
        if let (Some(host), None) = (self.head.uri.authority(), self.header(&header::HOST)) {
            headers.push(("Host".to_owned(), host.as_str().to_owned()));
        }
        for name in self.head.headers.keys() {
            let values = self.head.headers.get_all(name).into_iter();
            let values: Vec<_> =
                // Harmless: the text is only displayed.
                values.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
            headers.push((title_case(name.as_str()), values.join(",")));
        }
        headers.sort();
        headers.into_iter().map(|(name, value)| (name, Value::String(value))).collect()
    }

    fn origin(&self) -> String {
        let forwarded = self.header(&HeaderName::from_static("x-forwarded-for"));
        forwarded.map_or_else(|| self.client.address.ip().to_string(), str::to_owned)
    }

    fn url(&self) -> String {
        let forwarded = self.header(&HeaderName::from_static("x-forwarded-proto"));
        let scheme = forwarded.unwrap_or(self.client.scheme);
        let authority = self.head.uri.authority().map(|authority| authority.as_str());
        let host = authority.or_else(|| self.header(&header::HOST)).unwrap_or("localhost");
        let path = self.head.uri.path_and_query().map_or("/", |path| path.as_str());
        format!("{scheme}://{host}{path}")
    }

    fn header(&self, name: &HeaderName) -> Option<&str> {
        // Harmless: a header that is not text counts as absent.
        self.head.headers.get(name)?.to_str().ok()
    }
}

fn query(head: &Parts) -> Map<String, Value> {
    // Harmless: a request without a query has no parameters.
    pairs(head.uri.query().unwrap_or_default().as_bytes())
}

/// Returns the parameters as JSON. A name that occurs once has its value, and a repeated name has the list of its values.
fn pairs(encoded: &[u8]) -> Map<String, Value> {
    let mut pairs = Map::new();
    for (name, value) in form_urlencoded::parse(encoded) {
        let value = Value::String(value.into_owned());
        match pairs.get_mut(&*name) {
            None => drop(pairs.insert(name.into_owned(), value)),
            Some(Value::Array(values)) => values.push(value),
            Some(first) => *first = Value::Array(vec![first.take(), value]),
        }
    }
    pairs
}

fn title_case(name: &str) -> String {
    let mut starts = true;
    let cased = name.chars().map(|c| {
        let c = if starts { c.to_ascii_uppercase() } else { c };
        starts = c == '-';
        c
    });
    cased.collect()
}
