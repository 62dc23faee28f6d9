//! The operators' API: its answers, its changes, and its refusals.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Gate, Gateway, Message, Origin, Peer, Wire, until};

const YAML: &str = "\
listen: { public: { address: \"127.0.0.1:0\", limits: { headers_max: 77 } } }
admin: { address: \"127.0.0.1:0\" }
workers: 2
routes:
  hello: { match: { host: a.example.com, path: \"/hello/{name}\", methods: [GET] }, respond: { body: \"a secret\", headers: { x-key: \"another secret\" } } }
";

fn start() -> Gateway {
    Gateway::start(YAML)
}

/// A request with header lines, and the reply.
#[track_caller]
fn ask(gateway: &Gateway, request: &str, headers: &str, body: &str) -> Message {
    let length = body.len();
    Wire::connect(gateway.admin())
        .ask(format!("{request} HTTP/1.1\r\n{headers}Content-Length: {length}\r\n\r\n{body}"))
}

#[track_caller]
fn json(reply: &Message) -> Value {
    serde_json::from_slice(&reply.body).unwrap_or_else(|e| panic!("{e}: {reply:?}"))
}

#[test]
fn every_path_answers_in_its_type() {
    let gateway = start();
    let cases = [
        ("/", "text/html; charset=utf-8", "<!doctype html>"),
        ("/healthz", "application/json", "\"ok\""),
        ("/readyz", "application/json", "\"ready\""),
        ("/metrics", "text/plain; version=0.0.4; charset=utf-8", "tidegate_workers 2"),
        ("/config", "application/yaml", YAML),
        ("/plan", "application/json", "\"headers_max\":77"),
        ("/routes", "application/json", "/hello/{name}"),
        ("/upstreams", "application/json", "[]"),
        ("/openapi.json", "application/json", "\"openapi\":\"3.1.0\""),
        ("/schema.json", "application/schema+json", "json-schema.org"),
    ];
    for (path, kind, part) in cases {
        let reply = gateway.admin_get(path);
        assert_eq!((reply.status(), reply.get("content-type")), (200, Some(kind)), "{path}");
        assert!(
            reply.text().to_lowercase().contains(&part.to_lowercase()),
            "{path}: {}",
            reply.text()
        );
        assert_eq!(reply.get("cache-control"), Some("no-store"), "{path}");
        assert_eq!(reply.get("x-content-type-options"), Some("nosniff"), "{path}");
    }
}

#[test]
fn what_it_shows_is_complete_and_holds_no_secret() {
    let gateway = start();
    let plan = json(&gateway.admin_get("/plan"));
    assert_eq!(
        (&plan["generation"], &plan["workers"], &plan["drain_ms"], &plan["drain_delay_ms"]),
        (&1.into(), &2.into(), &30_000.into(), &5_000.into())
    );
    // Defaults are spelt out.
    assert_eq!(plan["listeners"][0]["limits"]["head_bytes_max"], 64 * 1024);
    assert_eq!(plan["configuration"]["last_failed"], Value::Null);
    let routes = json(&gateway.admin_get("/routes"));
    assert_eq!(plan["routes"], routes);
    assert_eq!(
        (&routes[0]["name"], &routes[0]["match"]["methods"]),
        (&"hello".into(), &serde_json::json!(["GET"]))
    );
    for path in ["/plan", "/routes", "/", "/metrics"] {
        assert!(!gateway.admin_get(path).text().contains("secret"), "{path}");
    }
}

#[test]
fn the_openapi_document_names_every_path_and_nothing_else() {
    let gateway = start();
    let document = json(&gateway.admin_get("/openapi.json"));
    let mut operations = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            assert!(
                operations.insert(operation["operationId"].as_str().unwrap().to_owned()),
                "{operation}"
            );
            let reply = match method.as_str() {
                "get" => gateway.admin_get(path),
                _ => ask(
                    &gateway,
                    &format!("{} {path}", method.to_uppercase()),
                    "Host: 127.0.0.1\r\n",
                    "nonsense",
                ),
            };
            let declared = operation["responses"].as_object().unwrap();
            assert!(
                declared.contains_key(&reply.status().to_string()),
                "{method} {path}: {reply:?}"
            );
        }
    }
    assert_eq!(operations.len(), 68);
}

/// More connections than the listener allows, all in the middle of a request.
#[test]
fn health_is_answered_whatever_other_connections_do() {
    let gateway = start();
    let admin = gateway.admin();
    let host = format!("Host: {admin}\r\n");
    for (what, sent) in [
        ("heads that do not end", format!("GET /plan HTTP/1.1\r\n{host}")),
        (
            "bodies that do not end",
            format!("PUT /config HTTP/1.1\r\n{host}Content-Length: 1000\r\n\r\nlisten"),
        ),
        (
            "archives that do not end",
            format!("PUT /bundles/a HTTP/1.1\r\n{host}Transfer-Encoding: chunked\r\n\r\n5\r\nlis"),
        ),
        (
            "bodies that look like heads",
            format!(
                "POST /config/check HTTP/1.1\r\n{host}Content-Length: 1000\r\n\r\n\r\n\r\n\r\n\r\n"
            ),
        ),
        (
            "bodies of requests without one",
            format!("GET /healthz HTTP/1.1\r\n{host}Content-Length: 1000\r\n\r\nx"),
        ),
        ("replies that nobody reads", format!("GET /schema.json HTTP/1.1\r\n{host}\r\n").repeat(3)),
    ] {
        let _held: Vec<Wire> = (0..300)
            .map(|_| {
                let mut wire = Wire::connect(admin);
                // The listener may have closed it already.
                let _ = wire.try_send(&sent);
                wire
            })
            .collect();
        for path in ["/readyz", "/healthz"] {
            let asked = Instant::now();
            let reply = gateway.admin_get(path);
            assert_eq!(reply.status(), 200, "{what}: {path}: {reply:?}");
            // Each takes the place of another one. Before the fix, all of them waited for 20 to 30 seconds.
            assert!(asked.elapsed() < Duration::from_secs(15), "{what}: {path}");
        }
    }
}

#[test]
fn requests_that_find_no_place_are_told() {
    let gateway = start();
    let admin = gateway.admin();
    let head = format!(
        "PUT /config HTTP/1.1\r\nHost: {admin}\r\nExpect: 100-continue\r\nContent-Length: 1000\r\n\r\n"
    );
    let mut under_way: Vec<Wire> = (0..32).map(|_| Wire::connect(admin)).collect();
    for wire in &mut under_way {
        wire.send(&head);
        // Its body is awaited, so that it has a place.
        assert_eq!(wire.read_head().status(), 100);
    }
    let refused = gateway.admin_get("/plan");
    assert_eq!((refused.status(), refused.get("retry-after")), (503, Some("1")), "{refused:?}");
    assert_eq!(gateway.admin_get("/metrics").status(), 200);
    drop(under_way);
    until("there is a place again", || gateway.admin_get("/plan").status() == 200);
}

#[test]
fn what_is_not_there_is_problem_json() {
    let gateway = start();
    let host = "Host: localhost:9901\r\n";
    let cases = [
        ("GET /nosuch", 404),
        ("GET /healthz/", 404),
        ("GET /config/check", 405),
        ("DELETE /config", 405),
        ("POST /metrics", 405),
        ("PUT /", 405),
    ];
    for (request, status) in cases {
        let reply = ask(&gateway, request, host, "");
        assert_eq!(
            (reply.status(), reply.get("content-type")),
            (status, Some("application/problem+json")),
            "{request}"
        );
        let problem = json(&reply);
        assert_eq!(problem["status"], status, "{request}");
        assert!(
            problem["detail"].as_str().is_some_and(|detail| !detail.is_empty()),
            "{request}: {problem}"
        );
        assert_eq!(reply.get("allow").is_some(), status == 405, "{request}: {reply:?}");
    }
    let reply =
        Wire::connect(gateway.admin()).ask("HEAD /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n");
    assert_eq!(reply.status(), 200);
}

#[test]
fn check_says_what_is_wrong_and_changes_nothing() {
    let gateway = start();
    let check = |text: &str| ask(&gateway, "POST /config/check", "Host: 127.0.0.1\r\n", text);
    let good = check(&YAML.replace("77", "78"));
    assert_eq!(
        (good.status(), json(&good)),
        (200, serde_json::json!({ "usable": true, "complaints": [] }))
    );
    let bad = check(&YAML.replace("headers_max", "header_max"));
    assert_eq!((bad.status(), bad.get("content-type")), (422, Some("application/problem+json")));
    let complaint = &json(&bad)["complaints"][0];
    assert_eq!(
        (&complaint["line"], &complaint["column"], &complaint["severity"]),
        (&1.into(), &55.into(), &"error".into())
    );
    assert!(
        complaint["message"].as_str().unwrap().contains("did you mean `headers_max`?"),
        "{complaint}"
    );
    assert!(complaint["help"].is_string());
    assert_eq!(check("").status(), 422);
    assert_eq!(json(&gateway.admin_get("/plan"))["generation"], 1);
    assert_eq!(gateway.admin_get("/config").text(), YAML);
}

#[test]
fn a_body_that_is_no_text_or_too_large_is_refused() {
    let gateway = start();
    let host = format!("Host: {}\r\n", gateway.admin());
    let head =
        |length: usize| format!("PUT /config HTTP/1.1\r\n{host}Content-Length: {length}\r\n\r\n");
    let binary = Wire::connect(gateway.admin()).ask([head(2).as_bytes(), b"\xff\xfe"].concat());
    assert_eq!(
        (binary.status(), binary.get("content-type")),
        (400, Some("application/problem+json"))
    );
    let large = Wire::connect(gateway.admin()).ask(head(17 << 20));
    assert_eq!(
        (large.status(), large.get("content-type")),
        (413, Some("application/problem+json"))
    );
    assert_eq!(json(&gateway.admin_get("/plan"))["generation"], 1);
}

#[test]
fn web_pages_of_other_sites_are_kept_out() {
    let gateway = start();
    let address = gateway.admin();
    let own = format!("Host: {address}\r\n");
    let cases = [
        // A page that changed where its name leads.
        ("GET /config", "Host: evil.example\r\n".to_owned(), 403),
        ("GET /plan", "Host: evil.example:9901\r\n".to_owned(), 403),
        ("PUT /config", "Host: evil.example\r\nOrigin: http://evil.example\r\n".to_owned(), 403),
        // A page that asks across sites.
        ("PUT /config", format!("{own}Origin: https://evil.example\r\n"), 403),
        ("PUT /config", format!("{own}Origin: null\r\n"), 403),
        ("POST /config/check", format!("{own}Sec-Fetch-Site: cross-site\r\n"), 403),
        // Probes with any host name, and operators.
        ("GET /healthz", "Host: gate.prod.svc\r\n".to_owned(), 200),
        ("GET /metrics", "Host: gate.prod.svc\r\n".to_owned(), 200),
        (
            "PUT /config",
            format!("{own}Origin: http://{address}\r\nSec-Fetch-Site: same-origin\r\n"),
            200,
        ),
        ("GET /config", "Host: localhost\r\n".to_owned(), 200),
    ];
    for (request, headers, status) in cases {
        let body = if request == "GET /healthz" { "" } else { YAML };
        let reply = ask(&gateway, request, &headers, body);
        assert_eq!(reply.status(), status, "{request} {headers}");
        if status == 403 {
            assert_eq!(reply.get("content-type"), Some("application/problem+json"));
        }
        assert_eq!(reply.get("access-control-allow-origin"), None);
    }
    let page = gateway.admin_get("/");
    assert_eq!(page.get("x-frame-options"), Some("DENY"));
    assert!(page.get("content-security-policy").unwrap().starts_with("default-src 'none'"));
}

#[test]
fn it_is_not_ready_while_it_drains() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer| {
            if peer.request().is_some() {
                gate.wait();
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    });
    let yaml = format!(
        "{YAML}  slow: {{ match: {{ path: /slow }}, upstream: origin }}\nupstreams: {{ origin: {{ targets: [\"http://{}\"] }} }}\ndrain: {{ delay: 0s }}\n",
        origin.address()
    );
    let gateway = Gateway::start(yaml);
    assert_eq!(gateway.admin_get("/readyz").status(), 200);
    let mut wire = gateway.wire();
    wire.send("GET /slow HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    gateway.signal(Signal::TERM);
    gateway.wait_for_log("draining");
    let ready = gateway.admin_get("/readyz");
    assert_eq!(
        (ready.status(), ready.get("content-type")),
        (503, Some("application/problem+json"))
    );
    assert!(json(&ready)["detail"].as_str().unwrap().contains("draining"));
    // It still reports that it is alive, so that it is not killed.
    assert_eq!(gateway.admin_get("/healthz").status(), 200);
    assert_eq!(gateway.admin_get("/metrics").status(), 200);
    gate.open();
    assert_eq!(wire.read_reply().text(), "ok");
    assert_eq!(gateway.wait_for_exit().code(), Some(0));
}

#[test]
fn the_health_of_upstreams_is_visible() {
    let healthy = Origin::saying("ok");
    let sick = Origin::start(|peer: &mut Peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n");
        }
    });
    let yaml = format!(
        "{YAML}  pair: {{ match: {{ path: /pair }}, upstream: pair }}\nupstreams:\n  pair:\n    targets: [\"http://{}\", {{ url: \"http://{}\", weight: 3 }}]\n    \
         health: {{ path: /health, interval: 20ms, unhealthy_after: 2 }}\n    outlier: {{}}\n",
        healthy.address(),
        sick.address()
    );
    let gateway = Gateway::start(yaml);
    let targets = || json(&gateway.admin_get("/upstreams"))[0]["targets"].clone();
    until("the sick one is seen as such", || targets()[1]["healthy"] == false);
    let targets = targets();
    let (first, second) = (&targets[0], &targets[1]);
    assert_eq!(
        (&first["healthy"], &first["url"]),
        (&true.into(), &format!("http://{}", healthy.address()).into())
    );
    assert_eq!(
        (&second["weight"], &second["ejected"], &second["requests_active"]),
        (&3.into(), &false.into(), &0.into())
    );
    assert_eq!(second["addresses"], serde_json::json!([sick.address().to_string()]));
    let label = |origin: &Origin| {
        format!(
            "tidegate_upstream_target_healthy{{upstream=\"pair\",target=\"http://{}\"}}",
            origin.address()
        )
    };
    assert_eq!(crate::telemetry::metric(&gateway, &label(&sick)), Some(0.0));
    assert_eq!(crate::telemetry::metric(&gateway, &label(&healthy)), Some(1.0));
    // Nothing is sent to it.
    for _ in 0..4 {
        assert_eq!(gateway.wire().get("/pair").text(), "ok");
    }
}
