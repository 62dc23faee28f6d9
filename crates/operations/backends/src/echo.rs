//! The echo: answers any method and path with the request's own body, as it arrives.
//!
//! A request without a body is answered with its method, path and headers as text, one per line, so that a person can see the gateway's
//! changes.

use http::{HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body::Body as _;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::body::{Reply, TEXT, reply};

const METHOD: HeaderName = HeaderName::from_static("x-echo-method");
const PATH: HeaderName = HeaderName::from_static("x-echo-path");

pub(super) fn answer(request: Request<Incoming>) -> Reply {
    let method = HeaderValue::from_str(request.method().as_str());
    let path =
        HeaderValue::from_str(request.uri().path_and_query().map_or("/", |path| path.as_str()));
    let mut reply = if request.body().is_end_stream() {
        reply(StatusCode::OK, TEXT, describe(&request))
    } else {
        send_back(request)
    };
    reply.headers_mut().extend(
        [(METHOD, method), (PATH, path)]
            .into_iter()
            // Harmless: a method or path that is not a valid header value is not echoed.
            .filter_map(|(name, value)| value.ok().map(|value| (name, value))),
    );
    reply
}

/// Streams the body: the first byte is sent back before the last one arrives.
fn send_back(request: Request<Incoming>) -> Reply {
    let (head, body) = request.into_parts();
    let mut reply = Response::new(body.boxed_unsync());
    // `Trailer` is included because over HTTP/1 only the trailers that it announces are sent.
    for name in [header::CONTENT_TYPE, header::CONTENT_ENCODING, header::TRAILER] {
        if let Some(value) = head.headers.get(&name) {
            reply.headers_mut().insert(name, value.clone());
        }
    }
    reply
}

fn describe(request: &Request<Incoming>) -> String {
    let first = format!("{} {} {:?}\n", request.method(), request.uri(), request.version());
    let headers = request.headers().iter();
    let headers = headers
        // Harmless: the text is only displayed.
        .map(|(name, value)| format!("{name}: {}\n", String::from_utf8_lossy(value.as_bytes())));
    std::iter::once(first).chain(headers).collect()
}
