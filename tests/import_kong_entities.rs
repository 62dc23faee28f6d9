//! Entities of Kong behind the result of `tidegate import kong`: certificates, upstreams, credentials, the scopes of plugins, and the
//! headers in which services learn about a request's way.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::harness::{
    Authority, Gateway, Message, Origin, Run, Wire, echo, import_kong, start_imported,
};
use crate::tokens::{EC, OTHER_EC, RSA, now};

fn imported(text: &str) -> (Run, tempfile::TempDir) {
    import_kong(text, &["--listen-tls", "127.0.0.1:0"])
}

#[track_caller]
fn serving(text: &str, code: i32) -> (Gateway, Run) {
    start_imported(imported(text), code)
}

fn get(gateway: &Gateway, target: &str, lines: &str) -> Message {
    gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"))
}

/// An id of an entity.
fn id(number: u32) -> String {
    format!("{number:08}-191c-4464-9b18-e5222b46035b")
}

#[test]
fn services_learn_the_way_of_a_request() {
    let origin = Origin::echo();
    let (gateway, run) = serving(
        &format!(
            r#"
_format_version: "3.0"
services:
  - name: s
    url: {}
    routes:
      - {{ name: a, paths: [/a] }}
      - {{ name: several, paths: [/b, /c/, "~/v[0-9]+"] }}
      - {{ name: whole, paths: [/d], strip_path: false }}
      - {{ name: kept, hosts: [kept.test], preserve_host: true }}
"#,
            origin.url()
        ),
        0,
    );
    let port = gateway.address("public").port().to_string();
    let own = origin.address().to_string();
    for (target, host, prefix, host_sent) in [
        ("/a/x?q=1", "H.test:99", Some("/a"), own.as_str()),
        ("/a", "h.test", Some("/a"), own.as_str()),
        ("/b/x", "h.test", Some("/b"), own.as_str()),
        ("/c/x", "h.test", Some("/c/"), own.as_str()),
        ("/v12/x", "h.test", Some("/v12"), own.as_str()),
        ("/d/x", "h.test", None, own.as_str()),
        ("/x", "kept.test:81", None, "kept.test:81"),
    ] {
        origin.forget();
        let claims = "X-Forwarded-Prefix: /evil\r\nX-Forwarded-Port: 1\r\nX-Real-IP: 9.9.9.9\r\n\
                      X-Forwarded-For: 9.9.9.9\r\nX-Forwarded-Host: evil\r\nX-Forwarded-Proto: https\r\n\
                      CF-Connecting-IP: 9.9.9.9\r\nProxy: evil\r\nProxy-Authorization: Basic eDp5\r\n";
        let asked = format!("GET {target} HTTP/1.1\r\nHost: {host}\r\n{claims}\r\n");
        assert_eq!(gateway.wire().ask(asked).status(), 200, "{target}: {}", run.stderr);
        let seen = origin.request();
        let name = host.split(':').next().unwrap().to_ascii_lowercase();
        assert_eq!(seen.all("x-forwarded-host"), [name], "{target}");
        assert_eq!(seen.all("x-forwarded-port"), [port.as_str()], "{target}");
        let path = target.split('?').next().unwrap();
        assert_eq!(seen.all("x-forwarded-path"), [path], "{target}");
        assert_eq!(seen.get("x-forwarded-prefix"), prefix, "{target}");
        assert_eq!(seen.all("x-real-ip"), ["127.0.0.1"], "{target}");
        // Kong sends on what any client says of itself, and adds its address.
        assert_eq!(seen.all("x-forwarded-for"), ["9.9.9.9, 127.0.0.1"], "{target}");
        assert_eq!(seen.all("cf-connecting-ip"), ["9.9.9.9"], "{target}");
        assert_eq!(seen.all("x-forwarded-proto"), ["http"], "{target}");
        assert_eq!((seen.get("proxy"), seen.get("proxy-authorization")), (None, None), "{target}");
        assert_eq!(seen.all("host"), [host_sent], "{target}");
    }
}

#[test]
fn an_address_that_a_client_claims_opens_no_filter() {
    let origin = Origin::echo();
    let (gateway, _) = serving(
        &format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"{}\", routes: [{{ name: r, paths: [/r], plugins: [{{ name: ip-restriction, config: {{ allow: [9.9.9.9] }} }}] }}] }}]\n",
            origin.url()
        ),
        0,
    );
    assert_eq!(get(&gateway, "/r", "X-Forwarded-For: 9.9.9.9\r\n").status(), 403);
}

/// Kong gives a client the cookie that it hashes, if it lacks it.
#[test]
fn the_cookie_that_is_hashed_is_given_to_clients() {
    let (one, two) = (Origin::echo(), Origin::echo());
    let targets = [&one, &two].map(|origin| json!({ "target": origin.address().to_string() }));
    let text = json!({
        "_format_version": "3.0",
        "services": [{ "name": "s", "host": "u", "routes": [{ "name": "r", "paths": ["/r"] }] }],
        "upstreams": [{
            "name": "u", "hash_on": "cookie", "hash_on_cookie": "who", "hash_on_cookie_path": "/r",
            "targets": targets,
        }],
    });
    let (gateway, _) = serving(&text.to_string(), 0);
    for _ in 0..8 {
        [&one, &two].iter().for_each(|origin| origin.forget());
        let reply = get(&gateway, "/r", "");
        let cookie = reply.get("set-cookie").and_then(|set| set.strip_suffix("; Path=/r")).unwrap();
        assert!(cookie.starts_with("who="), "{cookie}");
        let line = format!("Cookie: {cookie}\r\n");
        (0..3).for_each(|_| assert_eq!(get(&gateway, "/r", &line).get("set-cookie"), None));
        let counts = [one.requests().len(), two.requests().len()];
        assert!(counts.contains(&4), "{counts:?}");
    }
}

#[test]
fn each_service_has_a_count_of_its_own() {
    let origin = Origin::echo();
    let plugins = "[{ name: rate-limiting, config: { hour: 2, limit_by: service } }]";
    let (gateway, _) = serving(
        &format!(
            "_format_version: \"3.0\"\nservices:\n  - {{ name: one, url: \"{0}\", routes: [{{ name: a, paths: [/a] }}, {{ name: b, paths: [/b] }}] }}\n  - {{ name: two, url: \"{0}\", routes: [{{ name: c, paths: [/c] }}] }}\nplugins: {plugins}\n",
            origin.url()
        ),
        0,
    );
    for (target, status) in [("/a", 200), ("/b", 200), ("/a", 429), ("/b", 429), ("/c", 200)] {
        assert_eq!(get(&gateway, target, "").status(), status, "{target}");
    }
}

#[test]
fn certificates_are_shown_and_trusted_as_in_kong() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (shown, client) = (authority.issue("a.test"), authority.issue("client"));
    let settings = authority.server("127.0.0.1", Some(&authority));
    let origin = Origin::start_tls(settings, echo);
    let url = format!("https://{}", origin.address());
    let text = json!({
        "_format_version": "3.0",
        "certificates": [
            { "id": id(1), "cert": shown.certificate, "key": shown.key, "snis": [{ "name": "a.test" }] },
            { "id": id(2), "cert": client.certificate, "key": client.key },
        ],
        "ca_certificates": [
            { "id": id(3), "cert": authority.pem() },
            { "id": id(4), "cert": other.pem() },
        ],
        "services": [
            {
                "name": "good", "url": url, "client_certificate": id(2), "tls_verify": true,
                "ca_certificates": [id(3)], "routes": [{ "name": "good", "paths": ["/good"] }],
            },
            {
                "name": "unknown", "url": url, "client_certificate": id(2), "tls_verify": true,
                "ca_certificates": [id(4)], "routes": [{ "name": "unknown", "paths": ["/unknown"] }],
            },
            { "name": "bare", "url": url, "routes": [{ "name": "bare", "paths": ["/bare"] }] },
        ],
    });
    let (gateway, run) = serving(&text.to_string(), 0);
    let secure = gateway.address("secure");
    for (path, status) in [("/good", 200), ("/unknown", 502), ("/bare", 502)] {
        let mut wire = Wire::connect_tls(secure, "a.test", &authority.trust());
        assert_eq!(wire.get(path).status(), status, "{path}: {}", run.stderr);
    }
    // Another name gets the first certificate, which is not for it.
    assert!(Wire::try_tls(secure, "b.test", &authority.trust()).is_err());
}

fn credentials(origin: &Origin, public_key: &str, transform: bool) -> String {
    // As Kong dumps it: the password and the id of the consumer, hashed.
    let salted = format!("wonder{}", id(9));
    let hash = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, salted.as_bytes());
    let hash: String = hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    let password = if transform { "wonder".to_owned() } else { hash };
    json!({
        "_format_version": "3.0",
        "_transform": transform,
        "services": [{ "name": "s", "url": origin.url(), "routes": [
            { "name": "basic", "paths": ["/basic"], "plugins": [{ "name": "basic-auth" }] },
            { "name": "rsa", "paths": ["/rsa"], "plugins": [{ "name": "jwt" }] },
        ] }],
        "consumers": [{
            "id": id(9), "username": "ann",
            "basicauth_credentials": [{ "username": "ann", "password": password }],
            "jwt_secrets": [
                { "key": "k-rsa", "algorithm": "RS256", "rsa_public_key": public_key },
                { "key": "k-ec", "algorithm": "ES256", "rsa_public_key": EC.pem() },
            ],
        }],
    })
    .to_string()
}

#[test]
fn hashed_passwords_and_public_keys_are_those_of_kong() {
    let origin = Origin::echo();
    for transform in [true, false] {
        let (gateway, _) = serving(&credentials(&origin, &RSA.pem(), transform), 0);
        for (pair, status) in [("ann:wonder", 200), ("ann:land", 401)] {
            let line = format!("Authorization: Basic {}\r\n", STANDARD.encode(pair));
            assert_eq!(get(&gateway, "/basic", &line).status(), status, "{transform} {pair}");
        }
        let claims = |key: &str| json!({ "iss": key, "exp": now() + 60 });
        for (token, status) in [
            (RSA.token(&claims("k-rsa")), 200),
            (EC.token(&claims("k-ec")), 200),
            (OTHER_EC.token(&claims("k-ec")), 401),
            (EC.token(&claims("k-rsa")), 401),
        ] {
            let line = format!("Authorization: Bearer {token}\r\n");
            assert_eq!(get(&gateway, "/rsa", &line).status(), status, "{transform} {token}");
        }
    }
}

#[test]
fn a_public_key_that_is_none_is_named_where_its_route_is_closed() {
    let origin = Origin::echo();
    let (gateway, run) = serving(&credentials(&origin, "x", true), 3);
    let row = |what: &str| {
        let found = run.stderr.lines().find(|line| line.contains(what));
        found.unwrap_or_else(|| panic!("{what}: {}", run.stderr)).to_owned()
    };
    let credential = row("the gateway would refuse it");
    assert!(credential.starts_with("refused"), "{credential}");
    assert!(credential.contains("jwt credential of ann"), "{credential}");
    let route = row("  route rsa");
    assert!(route.starts_with("refused"), "{route}");
    assert!(route.contains("jwt credential of ann is refused, so it answers 503"), "{route}");
    assert_eq!(get(&gateway, "/rsa", "").status(), 503);
    assert_eq!(get(&gateway, "/basic", "").status(), 401);
}

#[test]
fn upstreams_choose_targets_as_in_kong() {
    let (one, two) = (Origin::echo(), Origin::echo());
    let failing =
        Origin::answering("HTTP/1.1 500 Internal Server Error\r\nContent-Length: 0\r\n\r\n");
    let [first, second, bad] = [&one, &two, &failing].map(|origin| origin.address().to_string());
    let service = |name: &str| {
        let route = json!({ "name": name, "paths": [format!("/{name}")] });
        json!({ "name": name, "host": name, "routes": [route] })
    };
    let both = json!([{ "target": first }, { "target": second }]);
    let services = ["hashed", "weighted", "ejecting"].map(service);
    let text = json!({
        "_format_version": "3.0",
        "services": services,
        "upstreams": [
            {
                "name": "hashed", "hash_on": "header", "hash_on_header": "x-user",
                "hash_fallback": "query_arg", "hash_fallback_query_arg": "user",
                "host_header": "inner.test", "targets": both,
            },
            { "name": "weighted", "targets": [{ "target": first, "weight": 0 }, { "target": second }] },
            {
                "name": "ejecting", "targets": [{ "target": bad }, { "target": second }],
                "healthchecks": { "passive": { "unhealthy": { "http_failures": 1, "http_statuses": [500] } } },
            },
        ],
    });
    let (gateway, run) = serving(&text.to_string(), 3);
    assert!(run.stderr.contains("1 approximated, 0 refused"), "{}", run.stderr);
    // The number of requests that each of the targets got.
    let counts = || [one.requests().len(), two.requests().len()];
    let forget = || [&one, &two].iter().for_each(|origin| origin.forget());
    for by_header in [true, false] {
        let ask = |user: usize| {
            let (target, line) = if by_header {
                ("/hashed?user=same".to_owned(), format!("X-User: u{user}\r\n"))
            } else {
                (format!("/hashed?user=u{user}"), String::new())
            };
            assert_eq!(get(&gateway, &target, &line).status(), 200, "{target}");
        };
        forget();
        (0..6).for_each(|_| ask(7));
        assert!(counts().contains(&6), "{by_header}: {:?}", counts());
        forget();
        (0..64).for_each(ask);
        assert!(!counts().contains(&0), "{by_header}: {:?}", counts());
    }
    assert_eq!(one.requests()[0].all("host"), ["inner.test"]);
    forget();
    (0..6).for_each(|_| assert_eq!(get(&gateway, "/weighted", "").status(), 200));
    assert_eq!(counts(), [0, 6]);
    let mut wire = gateway.wire();
    let statuses: Vec<u16> = (0..8).map(|_| wire.get("/ejecting").status()).collect();
    let failed = statuses.iter().filter(|status| **status == 500).count();
    assert!(failed == 1 && statuses[0..2].contains(&500), "{statuses:?}");
}

#[test]
fn plain_http_is_sent_to_https_with_the_status_of_the_route() {
    let route = |status: u16| {
        json!({
            "name": format!("r{status}"), "paths": [format!("/{status}")], "protocols": ["https"],
            "https_redirect_status_code": status,
        })
    };
    let routes: Vec<Value> = [426, 301, 302, 307, 308].into_iter().map(route).collect();
    let service = json!({ "name": "s", "url": "http://127.0.0.1:1", "routes": routes });
    let text = json!({ "_format_version": "3.0", "services": [service] }).to_string();
    let (gateway, _) = serving(&text, 0);
    for status in [426, 301, 302, 307, 308] {
        // Kong leaves the port of its plain listener out.
        let reply =
            gateway.wire().ask(format!("GET /{status}/x?q=1 HTTP/1.1\r\nHost: h:8000\r\n\r\n"));
        assert_eq!(reply.status(), status);
        let to = format!("https://h/{status}/x?q=1");
        let expected = (status != 426).then_some(to.as_str());
        assert_eq!(reply.get("location"), expected, "{status}");
        let upgrade = (status == 426).then_some("TLS/1.2, HTTP/1.1");
        assert_eq!(reply.get("upgrade"), upgrade, "{status}");
        assert_eq!(reply.get("connection"), upgrade.map(|_| "upgrade"), "{status}");
    }
}

#[test]
fn the_narrowest_scope_of_a_plugin_wins() {
    let origin = Origin::echo();
    let plugin = |scope: &str, name: &str| {
        format!(
            "  - {{ name: response-transformer, {scope} config: {{ add: {{ headers: [\"x-scope:{name}\"] }} }} }}\n"
        )
    };
    let plugins = [
        plugin("", "global"),
        plugin("service: s,", "service"),
        plugin("route: r,", "route"),
        plugin("consumer: alice,", "consumer"),
        plugin("consumer: alice, route: r,", "consumer and route"),
        plugin("consumer: alice, route: r, service: s,", "all three"),
    ];
    let text = format!(
        r#"
_format_version: "3.0"
services:
  - {{ name: s, url: "{0}", routes: [{{ name: r, paths: [/r] }}, {{ name: o, paths: [/o] }}] }}
  - {{ name: t, url: "{0}", routes: [{{ name: t, paths: [/t] }}] }}
consumers:
  - {{ username: alice, keyauth_credentials: [{{ key: a }}] }}
  - {{ username: bob, keyauth_credentials: [{{ key: b }}] }}
plugins:
  - {{ name: key-auth }}
{1}"#,
        origin.url(),
        plugins.concat()
    );
    let (gateway, _) = serving(&text, 0);
    for (key, path, scope) in [
        ("a", "/r", "all three"),
        ("a", "/o", "consumer"),
        ("a", "/t", "consumer"),
        ("b", "/r", "route"),
        ("b", "/o", "service"),
        ("b", "/t", "global"),
    ] {
        let reply = get(&gateway, path, &format!("apikey: {key}\r\n"));
        assert_eq!(reply.get("x-scope"), Some(scope), "{key} {path}");
    }
}

/// In Kong more headers win, and here the longer path. It would take a priority for each of the routes.
#[test]
fn a_pair_of_routes_with_another_winner_has_a_row_with_a_request() {
    let route = |length: usize| {
        let headers = (0..102 - length).map(|at| (format!("x-{at}"), json!(["1"])));
        let headers: serde_json::Map<String, Value> = headers.collect();
        json!({ "name": format!("r{length}"), "paths": ["/a".repeat(length)], "headers": headers })
    };
    let routes: Vec<Value> = (1..102).map(route).collect();
    let service = json!({ "name": "s", "url": "http://127.0.0.1:1", "routes": routes });
    let text = json!({ "_format_version": "3.0", "services": [service] }).to_string();
    let (run, _folder) = imported(&text);
    assert_eq!(run.code, Some(3), "{}", run.stderr);
    let row = run.stderr.lines().find(|line| line.contains("routes r1, r2 ")).unwrap();
    assert!(row.starts_with("approximated"), "{row}");
    assert!(row.contains("GET http://h/a/a with x-0: 1, x-1: 1"), "{row}");
    assert!(row.contains("goes to r1 in Kong, and to r2 in Tidegate"), "{row}");
}

#[test]
fn routes_of_refused_guards_answer_503() {
    let origin = Origin::echo();
    let plugins = [
        ("certificate", "{ name: mtls-auth }"),
        ("json", "{ name: json-threat-protection }"),
        ("xml", "{ name: xml-threat-protection }"),
        ("grpc", "{ name: grpc-gateway, config: { proto: a.proto } }"),
        // It gives access by a cookie, beside a plugin with credentials, which refuses.
        ("session", "{ name: session }, { name: key-auth }"),
    ];
    let route = |(name, plugins): (&str, &str)| {
        format!("      - {{ name: {name}, paths: [/{name}], plugins: [{plugins}] }}\n")
    };
    let text = format!(
        "_format_version: \"3.0\"\nservices:\n  - name: s\n    url: {}\n    routes:\n{}",
        origin.url(),
        plugins.map(route).concat()
    );
    let (gateway, _) = serving(&text, 3);
    for (name, status) in
        [("certificate", 503), ("json", 503), ("xml", 503), ("grpc", 503), ("session", 401)]
    {
        let reply = get(&gateway, &format!("/{name}"), "Cookie: session=a\r\n");
        assert_eq!(reply.status(), status, "{name}");
    }
    assert!(origin.requests().is_empty());
}

#[test]
fn calls_of_grpc_web_reach_the_service() {
    const MESSAGE: &[u8] = b"\0\0\0\0\x02ok";
    const TRAILERS: &[u8] = b"\x80\0\0\0\x0fgrpc-status:0\r\n";
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            assert_eq!(request.get("content-type"), Some("application/grpc+proto"));
            peer.send("HTTP/1.1 200 OK\r\nContent-Type: application/grpc\r\nTransfer-Encoding: chunked\r\n\r\n");
            let size = format!("{:x}\r\n", request.body.len());
            peer.send([size.as_bytes(), &request.body, b"\r\n"].concat());
            peer.send("0\r\ngrpc-status: 0\r\n\r\n");
        }
    });
    let (gateway, _) = serving(
        &format!(
            "_format_version: \"3.0\"\nservices: [{{ name: s, url: \"{}\", routes: [{{ name: r, paths: [/a.B], strip_path: false, plugins: [{{ name: grpc-web }}] }}] }}]\n",
            origin.url()
        ),
        0,
    );
    let length = MESSAGE.len();
    let head = format!(
        "POST /a.B/C HTTP/1.1\r\nHost: h\r\nContent-Type: application/grpc-web+proto\r\nOrigin: https://a.test\r\nContent-Length: {length}\r\n\r\n"
    );
    let reply = gateway.wire().ask([head.as_bytes(), MESSAGE].concat());
    assert_eq!(reply.status(), 200, "{}", reply.text());
    assert_eq!(reply.get("content-type"), Some("application/grpc-web+proto"));
    assert_eq!(reply.get("access-control-allow-origin"), Some("*"));
    assert_eq!(reply.body, [MESSAGE, TRAILERS].concat());
    assert_eq!(origin.request().target(), "/a.B/C");
}
