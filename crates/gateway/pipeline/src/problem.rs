//! Turns a fault into a reply: RFC 9457 problem details, or the route's format. The client gets the kind's title and the fault's safe
//! detail; the cause goes to the log.

mod flow;
mod soap;
mod wso2;

pub(crate) use flow::{keep_body, keeps_body, note_format_of};
pub(crate) use soap::{blames_server, note_message_format};

use std::borrow::Cow;

use fault::{Fault, Kind};
use message::{Body, Reply};
use plan::Errors;
use policy::Exchange;

use crate::grpc_call;

/// Makes the reply for a fault in the route's format, and records the fault in the exchange.
pub(crate) fn reply(ex: &mut Exchange, errors: Errors, mut fault: Fault) -> Reply {
    if let Some(call) = &ex.grpc {
        fault = grpc_call::blamed(call.deadline, fault);
    }
    let kind = fault.kind;
    let more = fault.more.as_mut().map(|more| std::mem::take(&mut more.headers));
    // Faults of these kinds use the format of the interceptor contract, whatever the route's format is.
    let errors = if matches!(kind, Kind::InterceptorFailed | Kind::InterceptorInvalid) {
        Errors::Wso2
    } else {
        errors
    };
    let own = fault.status();
    if let Some(call) = &ex.grpc {
        let reply = grpc_call::reply(call, &fault);
        ex.fault = Some(fault);
        return with_headers(reply, kind, more);
    }
    let (status, content_type, text) = match errors {
        Errors::Problem => (own, "application/problem+json", problem(ex, own, &fault)),
        Errors::Flow => flow::reply(ex, own, &fault)
            .unwrap_or_else(|| (own, "application/problem+json", problem(ex, own, &fault))),
        Errors::Wso2 | Errors::Apim => {
            let layout =
                if errors == Errors::Apim { wso2::Layout::Manager } else { wso2::Layout::Connect };
            let (status, text) = wso2::reply(&fault, layout);
            (status, "application/json", text)
        }
        Errors::Soap { flow: true, .. } if flow::is_of_step(&fault) => flow::reply(ex, own, &fault)
            .unwrap_or_else(|| (own, "application/problem+json", problem(ex, own, &fault))),
        Errors::Soap { verbose, .. } => soap::reply(ex, own, &fault, verbose)
            .unwrap_or_else(|| (own, "application/problem+json", problem(ex, own, &fault))),
        Errors::Kong { verbose } => soap::kong(ex, own, &fault, verbose),
    };
    ex.fault = Some(fault);
    let mut reply = Reply::new(status, Body::whole(text.into_bytes().into()));
    reply.head.headers.add_known("Content-Type", content_type.as_bytes());
    with_headers(reply, kind, more)
}

/// Adds the headers of the fault's kind and of the fault itself.
fn with_headers(
    mut reply: Reply,
    kind: Kind,
    more: Option<Vec<(Cow<'static, str>, Box<str>)>>,
) -> Reply {
    let lines = &mut reply.head.headers;
    if let Some((name, value)) = required_header(kind) {
        lines.add_known(name, value);
    }
    // Harmless: a fault may have no lines.
    for (name, value) in more.into_iter().flatten() {
        let written = lines.add(&name, value.as_bytes());
        debug_assert!(written.is_ok());
    }
    reply
}

/// Writes problem details (RFC 9457).
fn problem(ex: &Exchange, status: u16, fault: &Fault) -> String {
    let kind = fault.kind;
    let mut text = format!(
        r#"{{"type":"about:blank","title":"{}","status":{},"fault":"{}""#,
        kind.title(),
        status,
        kind.label()
    );
    if let Some(detail) = &fault.detail {
        text.push_str(r#","detail":"#);
        json::push_string(&mut text, detail);
    }
    // Harmless: a fault may have no list of errors.
    let errors = fault.more.as_ref().map(|more| &more.errors[..]).unwrap_or_default();
    for (index, error) in errors.iter().enumerate() {
        text.push_str(if index == 0 { r#","errors":["# } else { "," });
        json::push_string(&mut text, error);
    }
    if !errors.is_empty() {
        text.push(']');
    }
    text.push_str(r#","request_id":"#);
    json::push_string(&mut text, ex.id.as_str());
    text.push_str("}\n");
    text
}

/// The header that the reply to a fault of this kind requires, if any.
fn required_header(kind: Kind) -> Option<(&'static str, &'static [u8])> {
    const METHODS: &[u8] = b"GET, HEAD, POST, PUT, DELETE, PATCH, OPTIONS";
    let lines = [
        (Kind::MethodRefused, "Allow", METHODS),
        (Kind::UpgradeRequired, "Sec-WebSocket-Version", b"13"),
    ];
    lines.into_iter().find(|line| line.0 == kind).map(|(_, name, value)| (name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Caller, Scheme};

    #[test]
    fn the_client_never_reads_the_cause() {
        let peer = "192.0.2.1:1".parse().unwrap();
        let mut ex =
            Exchange::new(Caller::new(peer, peer, Scheme::Http, 0).into(), Default::default());
        let fault = Fault::with_detail(Kind::ConnectFailure, "10.0.0.1:80: refused", "a \"b\"\n");
        let reply = reply(&mut ex, Errors::Problem, fault);
        let Body::Whole(bytes, _) = &reply.body else { panic!("no body") };
        let text = std::str::from_utf8(bytes).unwrap();
        assert_eq!(reply.head.status, 502);
        assert!(!text.contains("10.0.0.1"), "{text}");
        assert!(text.contains(r#""detail":"a \"b\"\n""#), "{text}");
        assert_eq!(ex.fault.unwrap().kind, Kind::ConnectFailure);
    }
}
