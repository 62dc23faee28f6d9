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
/// If all addresses are trusted, returns the leftmost one. Returns `None` if there are none, or if the search meets one that cannot be
/// parsed.
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use plan::{Limits, PathRules, Timeouts};

    use super::*;

    fn listener(trusted: &[&str]) -> Listener {
        let second = Duration::from_secs(1);
        Listener {
            name: "web".to_owned(),
            address: "127.0.0.1:80".parse().unwrap(),
            tls: None,
            http2: false,
            proxy_protocol: false,
            trusted_proxies: trusted.iter().map(|network| network.parse().unwrap()).collect(),
            pass_untrusted_headers: false,
            paths: PathRules::default(),
            limits: Limits {
                head_bytes_max: 1,
                target_bytes_max: 1,
                headers_max: 1,
                connections_max: 1,
                connections_max_written: false,
                connections_per_client: None,
                streams_max: 1,
                body_rate_min: 0,
            },
            timeout: Timeouts {
                head: second,
                body: second,
                body_total: None,
                idle: second,
                tunnel: second,
                tls: second,
            },
        }
    }

    /// An address left of one that is not trusted is written by the client, and so may be a lie.
    #[test]
    fn the_client_is_the_first_untrusted_address_from_the_right() {
        let listener = listener(&["10.0.0.0/8", "fd00::/8"]);
        for (lines, expected) in [
            (&[][..], None),
            (&[""], None),
            (&["192.0.2.1"], Some("192.0.2.1")),
            (&["203.0.113.9, 192.0.2.1"], Some("192.0.2.1")),
            (&["203.0.113.9,192.0.2.1,10.0.0.1 , 10.9.9.9"], Some("192.0.2.1")),
            (&["203.0.113.9", "192.0.2.1", "10.0.0.1"], Some("192.0.2.1")),
            (&["203.0.113.9, , ,10.0.0.1,"], Some("203.0.113.9")),
            (&["10.0.0.2, 10.0.0.1"], Some("10.0.0.2")),
            (&["::ffff:10.0.0.2, 192.0.2.1:81, [fd00::1]:90"], Some("192.0.2.1")),
            (&["[2001:db8::1]"], Some("2001:db8::1")),
            (&["192.0.2.1, unknown"], None),
            (&["unknown, 192.0.2.1"], Some("192.0.2.1")),
            (&["unknown, 10.0.0.1"], None),
            (&["192.0.2.1 10.0.0.1"], None),
            (&["192.0.2.256"], None),
        ] {
            let mut headers = Headers::new();
            for line in lines {
                headers.add("x-forwarded-for", line.as_bytes()).unwrap();
            }
            let expected = expected.map(|address| address.parse::<IpAddr>().unwrap());
            assert_eq!(client(&listener, &headers), expected, "{lines:?}");
        }
    }

    #[test]
    fn each_refused_path_names_the_rule_that_lets_it_through() {
        for (path, kind, key) in [
            ("/../a", Kind::PathEscapes, None),
            ("/a/%2e%2e/%2e%2e/b", Kind::PathEscapes, None),
            ("/a%2Fb", Kind::PathAmbiguous, Some("escaped_slash")),
            ("/a;b=c/d", Kind::PathAmbiguous, Some("parameters")),
        ] {
            let head = RequestHead::new(message::Protocol::Http11, b"GET", path.as_bytes());
            let why = path::resolve(head.path(), PathRules::default()).map(drop).unwrap_err();
            let fault = refused(why, &head);
            assert_eq!(fault.kind, kind, "{path}");
            let names = |key: &str| fault.cause.contains(&format!("`paths.{key}`"));
            assert!(key.is_none_or(names), "{path}: {}", fault.cause);
            // The cause is for the log. The client reads what is wrong, without a key of the configuration.
            assert_eq!(fault.detail.is_some(), key.is_some(), "{path}");
        }
    }
}
