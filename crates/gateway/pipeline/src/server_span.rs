//! The span of a sampled exchange, with the attributes of the semantic conventions for HTTP servers.

use std::time::Duration;

use kit::clock;
use message::{Headers, Protocol};
use policy::{Exchange, ExchangeTrace};
use telemetry::span::{Attribute, AttributeValue, Recorder, Span, SpanKind};

/// A request that was answered.
pub(crate) struct SpannedRequest<'a> {
    pub(crate) began: Duration,
    pub(crate) method: &'a [u8],
    pub(crate) host: &'a [u8],
    pub(crate) target: &'a [u8],
    pub(crate) user_agent: Option<&'a [u8]>,
    pub(crate) protocol: Protocol,
    pub(crate) status: u16,
}

/// The methods that the conventions list. Any other method is recorded as `_OTHER`.
const METHODS: [&[u8]; 9] =
    [b"GET", b"HEAD", b"POST", b"PUT", b"PATCH", b"DELETE", b"OPTIONS", b"CONNECT", b"TRACE"];

/// The configured request headers as attributes, with their received values.
pub(crate) fn header_attributes(recorder: &Recorder, headers: &Headers) -> Vec<Attribute> {
    let mut attributes: Vec<Attribute> = Vec::new();
    for name in &recorder.settings().request_headers {
        // Harmless: the values are only displayed.
        let text = |line: &[u8]| String::from_utf8_lossy(line).into();
        let lines: Vec<Box<str>> = headers.get_all(name).map(text).collect();
        if !lines.is_empty() {
            let name = format!("http.request.header.{name}");
            attributes.push((name.into(), AttributeValue::Texts(lines)));
        }
    }
    attributes
}

/// Records the span.
pub(crate) fn record(
    ex: &Exchange,
    trace: &ExchangeTrace,
    request: &SpannedRequest<'_>,
    mut attributes: Vec<Attribute>,
) {
    let Some(recorder) = &trace.recorder else { return };
    let (method, known) = match METHODS.iter().find(|known| **known == request.method) {
        // Harmless: the known methods are ASCII.
        Some(method) => (std::str::from_utf8(method).unwrap_or_default(), true),
        None => ("_OTHER", false),
    };
    attributes.push(("http.request.method".into(), method.into()));
    if !known {
        let original = AttributeValue::of_bytes(request.method);
        attributes.push(("http.request.method_original".into(), original));
    }
    add_target(recorder, request, &mut attributes);
    add_peers(ex, request, &mut attributes);
    attributes.push(("http.response.status_code".into(), request.status.into()));
    attributes.push(("tidegate.request_id".into(), ex.id.as_str().into()));
    let error = error(ex, request.status, &mut attributes);
    if let Some(route) = &trace.route {
        attributes.push(("http.route".into(), (&**route).into()));
    }
    let shown = if known { method } else { "HTTP" };
    let name = match &trace.route {
        Some(route) => format!("{shown} {route}"),
        None => shown.to_owned(),
    };
    recorder.record(Span {
        context: trace.span,
        parent: trace.parent,
        link: None,
        kind: SpanKind::Server,
        name: name.into(),
        start: request.began,
        end: clock::wall().max(request.began),
        attributes,
        error,
    });
}

/// The path, the query without credentials, and the host that was asked for.
fn add_target(recorder: &Recorder, request: &SpannedRequest<'_>, attributes: &mut Vec<Attribute>) {
    let target = recorder.shown_target(request.target);
    let (path, query) = match target.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (&*target, None),
    };
    attributes.push(("url.path".into(), path.into()));
    if let Some(query) = query {
        attributes.push(("url.query".into(), query.into()));
    }
    // Harmless: the host is only displayed.
    let host = String::from_utf8_lossy(request.host);
    let (name, port) = match host.rsplit_once(':') {
        // Harmless: a port that cannot be read is left out.
        Some((name, port)) if !port.contains(']') => (name, port.parse::<u16>().ok()),
        Some(_) | None => (&*host, None),
    };
    if !name.is_empty() {
        attributes.push(("server.address".into(), name.trim_matches(['[', ']']).into()));
    }
    if let Some(port) = port {
        attributes.push(("server.port".into(), port.into()));
    }
}

fn add_peers(ex: &Exchange, request: &SpannedRequest<'_>, attributes: &mut Vec<Attribute>) {
    let version = match request.protocol {
        Protocol::Http10 => "1.0",
        Protocol::Http11 => "1.1",
        Protocol::Http2 => "2",
    };
    let client = ex.client.to_canonical().to_string();
    let peer = ex.caller.peer.ip().to_canonical().to_string();
    attributes.extend([
        ("url.scheme".into(), ex.caller.scheme.name().into()),
        ("network.protocol.name".into(), "http".into()),
        ("network.protocol.version".into(), version.into()),
        ("client.address".into(), client.as_str().into()),
        ("network.peer.address".into(), peer.as_str().into()),
        ("network.peer.port".into(), ex.caller.peer.port().into()),
    ]);
    if let Some(user_agent) = request.user_agent {
        attributes.push(("user_agent.original".into(), AttributeValue::of_bytes(user_agent)));
    }
}

/// Adds the attributes of the fault, and returns the error text of the span if the status is 500 or above. A mistake of the client is not
/// an error of the span.
fn error(ex: &Exchange, status: u16, attributes: &mut Vec<Attribute>) -> Option<Box<str>> {
    let fault = ex.fault.as_ref();
    if let Some(fault) = fault {
        attributes.push(("tidegate.fault".into(), fault.kind.label().into()));
    }
    if status < 500 {
        return None;
    }
    let status = status.to_string();
    let kind = fault.map_or(status.as_str(), |fault| fault.kind.label());
    attributes.push(("error.type".into(), kind.into()));
    Some(fault.map_or_else(Box::default, |fault| fault.cause.clone()))
}
