//! The first steps after the head: the request id, the client's address and the route.
//!
//! Afterwards the head has the path that was matched, so that policies and the route use the same path.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use fault::{Fault, Kind};
use message::{Headers, RequestHead};
use plan::path::{self, PathRefusal, ResolvedPath, shown};
use plan::{Arrival, Listener, Plan};
use policy::{Exchange, RequestId};
use upstream::forward;

use crate::HeldRoute;
use telemetry::masked::masked;

/// Finds the route of a request, and sets the exchange's id and client.
pub(crate) fn arrive(
    plan: &Plan,
    listener: &Listener,
    ex: &mut Exchange,
    head: &mut RequestHead,
) -> Result<HeldRoute, Fault> {
    if let Some(id) = head.headers.get("x-request-id").and_then(RequestId::from_client) {
        ex.id = id;
    }
    ex.peer_trusted = listener.trusts(ex.caller.peer.ip());
    if ex.peer_trusted {
        ex.client = client(listener, &head.headers).unwrap_or(ex.client)
    } else if listener.pass_untrusted_headers {
        forward::drop_origin(&mut head.headers)
    } else {
        forward::drop_claims(&mut head.headers)
    }
    let ResolvedPath { path, moved } =
        path::resolve(head.path(), listener.paths).map_err(|why| refused(why, head))?;
    let found = plan.table.find(arrival(listener, ex), head, &path);
    let found = found.ok_or_else(|| no_route(head))?;
    if !found.names_method && !http1::is_registered_method(head.method()) {
        return Err(Fault::new(
            Kind::NotImplemented,
            format!("method {}, which no route allows", shown(head.method())),
        ));
    }
    ex.parameters = found.parameters;
    ex.prefix = found.prefix;
    ex.rest = found.rest;
    let route = found.route.clone();
    if let Some(trace) = ex.trace.as_mut()
        && let Some(recorder) = &trace.recorder
    {
        recorder.set_secrets(&route.secrets);
        trace.route = Some(found.condition.to_string().into());
    }
    if let Cow::Owned(matched) = path
        && matched != head.path()
    {
        // A path whose segments differ from the matched ones must not be forwarded.
        ex.notes().path_sent = (!moved).then(|| head.path().into());
        head.set_path(&matched);
    }
    Ok(route)
}

/// Returns the fault for a request that routes accept only with other methods (RFC 9110, 15.5.6), and the route that determines the fault's
/// format. Returns `None` if no route accepts another method either.
pub(crate) fn method_not_allowed<'p>(
    plan: &'p Plan,
    listener: &Listener,
    ex: &Exchange,
    head: &RequestHead,
) -> Option<(Fault, &'p HeldRoute)> {
    let path = path::resolve(head.path(), listener.paths).ok()?.path;
    let (allow, route) = plan.table.other_methods(arrival(listener, ex), head, &path)?;
    let (method, shown_path) = (head.method(), shown(&masked(head.path(), &[])));
    let known = http1::is_registered_method(method) || plan.table.names(method);
    let fault = if known {
        Fault::new(
            Kind::MethodNotAllowed,
            format!("{} {shown_path}, which allows {allow}", shown(method)),
        )
    } else {
        Fault::new(Kind::NotImplemented, format!("method {}, which no route allows", shown(method)))
    };
    Some((fault.with_header("Allow", allow), route))
}

/// The list of the methods that the routes of a path allow, for an `OPTIONS` that the gateway answers itself. `None` for other methods.
pub(crate) fn options(
    plan: &Plan,
    listener: &Listener,
    ex: &Exchange,
    head: &RequestHead,
) -> Option<String> {
    let path = path::resolve(head.path(), listener.paths).ok()?.path;
    plan.table.options(arrival(listener, ex), head, &path)
}

/// The properties of a request, besides its head, that conditions of routes use.
fn arrival<'a>(listener: &'a Listener, ex: &'a Exchange) -> Arrival<'a> {
    let server_name = ex.caller.server_name.as_deref();
    Arrival { listener: &listener.name, client: ex.client, server_name }
}

/// The client's address as reported by trusted proxies: from the right of `X-Forwarded-For`, the first address that is not a trusted proxy.
/// If all addresses are trusted, returns the leftmost one. Returns `None` if there is no address, or if one cannot be parsed before an
/// untrusted one is found.
fn client(listener: &Listener, headers: &Headers) -> Option<IpAddr> {
    let lines: Vec<&[u8]> = headers.get_all("x-forwarded-for").collect();
    let named = lines.iter().rev().flat_map(|line| line.rsplit(|b| *b == b','));
    let mut client = None;
    // Empty members mean nothing (RFC 9110, 5.6.1).
    for name in named.map(<[u8]>::trim_ascii).filter(|name| !name.is_empty()) {
        let ip = address(std::str::from_utf8(name).ok()?)?;
        client = Some(ip);
        if !listener.trusts(ip) {
            break;
        }
    }
    client
}

/// Parses an address with or without a port, which some proxies append.
fn address(name: &str) -> Option<IpAddr> {
    // Harmless: this is the last form that is tried, and `None` means that the text is not an address.
    let bracketed = || name.strip_prefix('[')?.strip_suffix(']')?.parse().ok().map(IpAddr::V6);
    // Harmless: if this form does not match, the next one is tried.
    let with_port = || name.parse::<SocketAddr>().ok().map(|address| address.ip());
    // Harmless: if this form does not match, the next one is tried.
    name.parse().ok().or_else(with_port).or_else(bracketed)
}

fn refused(why: PathRefusal, head: &RequestHead) -> Fault {
    let path = shown(&masked(head.path(), &[]));
    match why.key() {
        None => Fault::new(Kind::PathEscapes, format!("path {path} leaves its root or hides dots")),
        Some(key) => {
            let cause = format!("path {path} is refused by the listener's `paths.{key}`");
            Fault::with_detail(Kind::PathAmbiguous, cause, why.why())
        }
    }
}

fn no_route(head: &RequestHead) -> Fault {
    let (method, host, path) =
        (shown(head.method()), shown(head.host()), shown(&masked(head.path(), &[])));
    Fault::new(Kind::NoRoute, format!("{method} {path} on host {host}"))
}
