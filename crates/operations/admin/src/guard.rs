//! Access control: checks the origin of each request, then the operator's role, and writes the audit log. Without `users`, everyone
//! who can connect to the socket is an operator. Web pages in an operator's browser can connect too, and have to be kept out.
//!
//! A page reaches a local socket in two ways. It sends a cross-site request, which browsers mark with `Origin` and
//! `Sec-Fetch-Site`. Or it resolves its own name to a local address (DNS rebinding), and then `Host` is that name. So the host
//! has to be an address or `localhost`, which no page can have as its name, or one of `admin.hosts`. Probes and scrapers may use any
//! name: they only read, and see no secrets.

use crate::access::{self, Operator};
use crate::audit::{Attempt, Changes};
use crate::bounded::Peer;
use crate::cors;
use crate::problem::Problem;
use axum::extract::{ConnectInfo, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use control::{Admin, Control, Role};
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

/// The paths for orchestrators and Prometheus, which may use any host name.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// Other pages must not frame replies of this API, caches must not store them, and browsers must not guess their type. The
/// dashboard loads scripts and styles only from its own files.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
];

/// The header with the id of a request, which is also in its log lines.
const REQUEST_ID: &str = "x-request-id";

/// Ids of clients are kept up to this length.
const REQUEST_ID_BYTES_MAX: usize = 128;

pub(crate) async fn guard(
    State(control): State<Arc<Control>>,
    ConnectInfo(peer): ConnectInfo<Peer>,
    mut request: Request,
    next: Next,
) -> Response {
    let plan = control.plan();
    let admin = plan.admin.as_ref();
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let request_id = request_id(request.headers());
    let origin = cors::allowed(admin, request.headers());
    let needed = access::needed(&method, uri.path(), uri.query());
    let operator = access::operator(admin, request.headers(), &peer);
    let refused = refusal(&method, uri.path(), request.headers(), admin).map(forbidden);
    let refused = refused.or_else(|| lacking(needed, operator.as_ref()));
    let asked = origin.is_some() && cors::is_preflight(&method, request.headers());
    let mut response = match (refused, asked) {
        (_, true) => cors::preflight(),
        (Some(refused), false) => refused,
        (None, false) => {
            let anybody = || Operator { name: None, role: Role::Read };
            let operator = operator.clone().unwrap_or_else(anybody);
            request.extensions_mut().insert(operator);
            next.run(request).await
        }
    };
    if !asked {
        let attempt =
            Attempt { method, uri, peer, request_id: request_id.clone(), operator, needed };
        let changes = response.extensions().get::<Changes>().copied();
        attempt.note(plan.audit_log.clone(), response.status(), changes).await;
    }
    add_headers(response.headers_mut());
    if let Some(origin) = origin {
        cors::expose(origin, response.headers_mut());
    }
    // Harmless: an id has only visible ASCII characters.
    if let Ok(id) = HeaderValue::from_str(&request_id) {
        response.headers_mut().insert(REQUEST_ID, id);
    }
    response
}

/// Adds the headers of [`HEADERS`] to the answers of the socket for probes, which has no access control.
pub(crate) async fn seal(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    add_headers(response.headers_mut());
    response
}

fn add_headers(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

fn forbidden(why: &'static str) -> Response {
    Problem::new(StatusCode::FORBIDDEN, why).into_response()
}

/// The refusal of a request without a valid credential, or of an operator without the role.
fn lacking(needed: Option<Role>, operator: Option<&Operator>) -> Option<Response> {
    let needed = needed?;
    match operator {
        None => {
            let what = "Send the token of an operator as `Authorization: Bearer TOKEN`.";
            let mut reply = Problem::new(StatusCode::UNAUTHORIZED, what).into_response();
            let challenge = HeaderValue::from_static("Bearer");
            reply.headers_mut().insert(header::WWW_AUTHENTICATE, challenge);
            Some(reply)
        }
        Some(operator) if operator.role < needed => {
            Some(forbidden("This needs the role `write`, and the operator has `read`."))
        }
        Some(_) => None,
    }
}

/// The id that the client sent, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    // Harmless: an id that is not text is replaced.
    let sent = headers.get(REQUEST_ID).and_then(|id| id.to_str().ok());
    let is_good = |id: &&str| {
        (1..=REQUEST_ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_graphic())
    };
    if let Some(id) = sent.filter(is_good) {
        return id.to_owned();
    }
    let mut bytes = [0; 16];
    // Harmless: the id only helps to find lines in logs, and each line has its time too.
    let _ = aws_lc_rs::rand::fill(&mut bytes);
    kit::hex::encoded(&bytes)
}

/// The reason to refuse a request from any operator. None if it is allowed.
fn refusal(
    method: &Method,
    path: &str,
    headers: &HeaderMap,
    admin: Option<&Admin>,
) -> Option<&'static str> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if reads && OPEN_PATHS.contains(&path) {
        return None;
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    // Harmless: a Host that is not text is refused below.
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next())
    else {
        return Some("The request must have exactly one Host.");
    };
    if !is_local(host) && !is_listed(host, admin) {
        return Some(
            "The Host must be an IP address, `localhost` or one of `admin.hosts`: any other name could belong to a web page.",
        );
    }
    if !reads && is_cross_site(host, headers) && cors::allowed(admin, headers).is_none() {
        return Some("A page of another site must not make changes here.");
    }
    None
}

/// True if the configuration names this host.
fn is_listed(host: &str, admin: Option<&Admin>) -> bool {
    let name = without_port(host);
    admin.is_some_and(|admin| admin.hosts.iter().any(|listed| listed.eq_ignore_ascii_case(name)))
}

/// True if no page can have this host as its own name.
fn is_local(host: &str) -> bool {
    let name = without_port(host);
    let bracketed = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match bracketed {
        Some(address) => address.parse::<Ipv6Addr>().is_ok(),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<IpAddr>().is_ok_and(|address| address.is_ipv4())
        }
    }
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

fn is_cross_site(host: &str, headers: &HeaderMap) -> bool {
    let foreign_origin = headers.get_all(header::ORIGIN).iter().any(|origin| {
        // Harmless: an origin that is not text is foreign.
        let origin = origin.to_str().unwrap_or_default();
        let site = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        site.is_none_or(|site| !site.eq_ignore_ascii_case(host))
    });
    let foreign_site = headers
        .get_all("sec-fetch-site")
        .iter()
        .any(|site| site != "same-origin" && site != "none");
    foreign_origin || foreign_site
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_localhost_are_local() {
        let cases = [
            ("127.0.0.1", true),
            ("127.0.0.1:9901", true),
            ("10.1.2.3:9901", true),
            ("localhost", true),
            ("LocalHost:9901", true),
            ("[::1]:9901", true),
            ("[::1]", true),
            ("evil.example", false),
            ("evil.example:9901", false),
            ("127.0.0.1.evil.example", false),
            ("localhost.evil.example:9901", false),
            ("::1", false),
            ("[evil.example]", false),
            ("127.0.0.1:9901@evil.example", false),
            ("", false),
            (":9901", false),
        ];
        for (host, local) in cases {
            assert_eq!(is_local(host), local, "{host}");
        }
    }

    #[test]
    fn pages_of_other_sites_change_nothing() {
        let host = ("host", "127.0.0.1:9901");
        let cases: &[(&[(&'static str, &'static str)], bool)] = &[
            (&[host], true),
            (&[host, ("origin", "http://127.0.0.1:9901")], true),
            (&[host, ("origin", "http://127.0.0.1:9901"), ("sec-fetch-site", "same-origin")], true),
            (&[host, ("sec-fetch-site", "none")], true),
            (&[host, ("origin", "https://evil.example")], false),
            (&[host, ("origin", "null")], false),
            (&[host, ("origin", "http://127.0.0.1:80")], false),
            (
                &[host, ("origin", "http://127.0.0.1:9901"), ("origin", "https://evil.example")],
                false,
            ),
            (&[host, ("sec-fetch-site", "cross-site")], false),
            (&[host, ("sec-fetch-site", "same-site")], false),
            (&[("host", "evil.example"), ("origin", "http://evil.example")], false),
            (&[host, ("host", "evil.example")], false),
            (&[], false),
        ];
        for (headers, allowed) in cases {
            let mut map = HeaderMap::new();
            for (name, value) in *headers {
                map.append(*name, HeaderValue::from_static(value));
            }
            assert_eq!(
                refusal(&Method::PUT, "/config", &map, None).is_none(),
                *allowed,
                "{headers:?}"
            );
        }
    }

    #[test]
    fn other_host_names_may_only_probe_and_scrape() {
        let headers = HeaderMap::from_iter([(
            header::HOST,
            HeaderValue::from_static("tidegate.prod.svc:9901"),
        )]);
        for (method, path, allowed) in [
            (Method::GET, "/metrics", true),
            (Method::HEAD, "/healthz", true),
            (Method::GET, "/readyz", true),
            (Method::PUT, "/metrics", false),
            (Method::GET, "/config", false),
            (Method::GET, "/", false),
        ] {
            assert_eq!(
                refusal(&method, path, &headers, None).is_none(),
                allowed,
                "{method} {path}"
            );
        }
    }
}
