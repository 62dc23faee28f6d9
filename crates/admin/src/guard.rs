//! Access control. The API has no passwords: whoever can connect to its socket is an operator. But web pages in an operator's
//! browser can connect too, and have to be kept out.
//!
//! A page reaches a local socket in two ways. It sends a cross-site request, which browsers mark with `Origin` and
//! `Sec-Fetch-Site`. Or it points its own name at a local address (DNS rebinding), and then `Host` is that name. So the host
//! has to be an address or `localhost`, which no page can have as its name. Probes and scrapers are allowed with any name: they
//! only read, and nothing secret.

use crate::problem::Problem;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use std::net::{IpAddr, Ipv6Addr};

/// The paths that orchestrators and Prometheus read, by any name of this machine.
const OPEN_PATHS: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

/// No reply of this API is for other pages, caches or content sniffing. The page has its style inside and no script.
const HEADERS: [(header::HeaderName, &str); 5] = [
    (header::CACHE_CONTROL, "no-store"),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "no-referrer"),
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'",
    ),
];

pub(crate) async fn guard(request: Request, next: Next) -> Response {
    let refusal = refusal(request.method(), request.uri().path(), request.headers());
    let mut response = match refusal {
        Some(why) => Problem::new(StatusCode::FORBIDDEN, why).into_response(),
        None => next.run(request).await,
    };
    for (name, value) in HEADERS {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    response
}

/// The reason why a request is refused, if it is.
fn refusal(method: &Method, path: &str, headers: &HeaderMap) -> Option<&'static str> {
    let reads = matches!(*method, Method::GET | Method::HEAD);
    if reads && OPEN_PATHS.contains(&path) {
        return None;
    }
    let mut hosts = headers.get_all(header::HOST).iter();
    // Harmless: a Host that is not text is refused below.
    let (Some(host), None) = (hosts.next().and_then(|host| host.to_str().ok()), hosts.next())
    else {
        return Some("The request needs one Host.");
    };
    if !is_local(host) {
        return Some(
            "The Host has to be an IP address or `localhost`: another name could be a web page's.",
        );
    }
    if !reads && is_cross_site(host, headers) {
        return Some("A page of another site must not change anything here.");
    }
    None
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
            assert_eq!(refusal(&Method::PUT, "/config", &map).is_none(), *allowed, "{headers:?}");
        }
    }

    #[test]
    fn names_may_probe_and_scrape_and_nothing_else() {
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
            assert_eq!(refusal(&method, path, &headers).is_none(), allowed, "{method} {path}");
        }
    }
}
