//! The treatment of header lines on the way.

use crate::harness::{Gateway, H2, Origin, Plain, tidegate, until};
use crate::telemetry::metric;

/// Names and values, without the lines the gateway adds.
fn own(headers: &[(String, String)]) -> Vec<(&str, &str)> {
    let added =
        ["via", "x-request-id", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "date"];
    let is_own =
        |(name, _): &&(String, String)| !added.contains(&name.to_ascii_lowercase().as_str());
    headers.iter().filter(is_own).map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

#[test]
fn what_is_not_the_gateways_business_passes_untouched() {
    let origin = Origin::answering(concat!(
        "HTTP/1.1 299 Quite Fine\r\nServer: origin/1\r\nSet-Cookie: a=b\r\nX-cAsE: c\r\nSet-Cookie: d=e; Path=/\r\n",
        "Date: Sun, 06 Nov 1994 08:49:37 GMT\r\nContent-Length: 0\r\n\r\n",
    ));
    let gateway = Gateway::before(&origin);
    let reply = gateway.wire().ask(concat!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-cAsE:  v  \r\nCookie: a=b\r\nAccept: */*\r\nX-Many: 1\r\nX-Many: 2\r\n",
        "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\ntracestate: a=b\r\n",
        "Authorization: Bearer c\r\nX-Empty:\r\n\r\n",
    ));
    assert_eq!(
        own(&origin.request().headers),
        [
            ("Host", "a.test"),
            ("X-cAsE", "v"),
            ("Cookie", "a=b"),
            ("Accept", "*/*"),
            ("X-Many", "1"),
            ("X-Many", "2"),
            ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
            ("tracestate", "a=b"),
            ("Authorization", "Bearer c"),
            ("X-Empty", ""),
        ]
    );
    assert_eq!(reply.start, "HTTP/1.1 299 Quite Fine");
    assert_eq!(
        own(&reply.headers),
        [
            ("Server", "origin/1"),
            ("Set-Cookie", "a=b"),
            ("X-cAsE", "c"),
            ("Set-Cookie", "d=e; Path=/"),
            ("Content-Length", "0"),
        ]
    );
    assert_eq!(reply.get("date"), Some("Sun, 06 Nov 1994 08:49:37 GMT"));
}

#[test]
fn lines_of_one_connection_stay_behind() {
    let origin = Origin::answering(concat!(
        "HTTP/1.1 200 OK\r\nConnection: X-Internal, keep-alive\r\nX-Internal: secret\r\nKeep-Alive: timeout=5\r\n",
        "Proxy-Connection: keep-alive\r\nUpgrade: h2\r\nX-Kept: a\r\nContent-Length: 0\r\n\r\n",
    ));
    let gateway = Gateway::before(&origin);
    let reply = gateway.wire().ask(concat!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: x-one, keep-alive\r\nConnection:X-TWO\r\nX-One: 1\r\nX-Two: 2\r\n",
        "X-Two: 3\r\nKeep-Alive: 5\r\nProxy-Connection: close\r\nTE: gzip\r\nUpgrade: foo\r\nX-Kept: a\r\n\r\n",
    ));
    assert_eq!(own(&origin.request().headers), [("Host", "a.test"), ("X-Kept", "a")]);
    assert_eq!(own(&reply.headers), [("X-Kept", "a"), ("Content-Length", "0")]);
}

/// The name of a gateway in the `Via` of requests, which is unique to the process.
#[track_caller]
fn pseudonym<'v>(via: &'v str, version: &str) -> &'v str {
    let (received, name) = via.split_once(' ').unwrap();
    let digits = name.strip_prefix("tidegate-").unwrap_or_default();
    let good = digits.len() == 12 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(received == version && good, "{via}");
    name
}

/// RFC 9110, 8.6: a request without a body has a length of 0 if its method usually has a body. Some servers answer 411
/// otherwise.
#[test]
fn a_body_that_is_not_there_has_the_length_zero() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    for (method, length) in [
        ("POST", Some(0)),
        ("PUT", Some(0)),
        ("PATCH", Some(0)),
        ("GET", None),
        ("DELETE", None),
        ("OPTIONS", None),
    ] {
        let request = format!("{method} / HTTP/1.1\r\nHost: a.test\r\n\r\n");
        assert_eq!(gateway.wire().ask(request).status(), 200, "{method}");
        assert_eq!(origin.requests().last().unwrap().length(), length, "{method}");
    }
}

/// A client must not rob a request of the lines that route, frame or protect it.
#[test]
fn connection_cannot_name_what_the_gateway_needs() {
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    let reply = gateway.wire().ask(concat!(
        "POST / HTTP/1.1\r\nHost: a.test\r\nConnection: host, content-length, x-forwarded-for, x-request-id, via\r\n",
        "Content-Length: 5\r\nX-Request-Id: mine\r\n\r\nhello",
    ));
    assert_eq!(reply.text(), "hello");
    let request = origin.request();
    assert_eq!(request.get("host"), Some("a.test"));
    assert_eq!(request.get("x-forwarded-for"), Some("127.0.0.1"));
    assert_eq!(request.get("x-request-id"), Some("mine"));
    assert!(pseudonym(request.get("via").unwrap(), "1.1").starts_with("tidegate-"));
}

/// Policies control the headers that they add, and see the headers that are forwarded.
#[test]
fn connection_cannot_name_what_policies_add() {
    let origin = Origin::echo();
    let route = "policies: [ authorize: { rule: \"!('x-skip' in request.headers)\" }, headers: { request: { set: { x-tenant: one } } } ]";
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    let reply = gateway.wire().ask(concat!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nConnection: x-tenant, keep-alive, x-skip, upgrade\r\n",
        "X-Tenant: two\r\nX-Skip: 1\r\nUpgrade: foo\r\n\r\n",
    ));
    assert_eq!(reply.status(), 200);
    let request = origin.request();
    assert_eq!((request.get("x-tenant"), request.get("x-skip")), (Some("one"), None));
    assert_eq!((request.get("connection"), request.get("upgrade")), (Some("upgrade"), Some("foo")));
}

#[test]
fn the_upstream_learns_who_asked() {
    let origin = Origin::echo();
    let sent = concat!(
        "GET / HTTP/1.1\r\nHost: a.test\r\nVia: 1.0 fred\r\nX-Forwarded-For: 203.0.113.7, 198.51.100.2\r\n",
        "X-Forwarded-Proto: https\r\nX-Forwarded-Host: public.test\r\nForwarded: for=203.0.113.7\r\n\r\n",
    );
    for (listener, client, proto, host) in [
        ("", "127.0.0.1", "http", "a.test"),
        ("trusted_proxies: [\"10.0.0.0/8\"]", "127.0.0.1", "http", "a.test"),
        (
            "trusted_proxies: [\"127.0.0.0/8\"]",
            "203.0.113.7, 198.51.100.2, 127.0.0.1",
            "https",
            "public.test",
        ),
    ] {
        let gateway = Plain { listener, ..Plain::default() }.start(&origin);
        let reply = gateway.wire().ask(sent);
        assert_eq!(reply.all("via"), ["1.1 tidegate"]);
        let request = origin.requests().pop().unwrap();
        assert_eq!(request.all("x-forwarded-for").join(", "), client, "{listener}");
        assert_eq!(request.get("x-forwarded-proto"), Some(proto), "{listener}");
        assert_eq!(request.get("x-forwarded-host"), Some(host), "{listener}");
        assert_eq!(request.all("forwarded").is_empty(), proto == "http", "{listener}");
        let via = request.all("via").join(", ");
        pseudonym(via.strip_prefix("1.0 fred, ").unwrap(), "1.1");
    }
}

#[test]
fn every_exchange_has_an_id() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nX-Request-Id: the-origins\r\nContent-Length: 0\r\n\r\n",
    );
    let gateway = Gateway::before(&origin);
    let mut wire = gateway.wire();
    let long = "x".repeat(500);
    let mut ids = Vec::new();
    for (line, kept) in [
        ("X-Request-Id: abc-123", Some("abc-123")),
        ("", None),
        ("X-Request-Id:", None),
        ("X-Request-Id: a b", None),
        ("X-Request-Id: one\r\nX-Request-Id: two", Some("one")),
        (&format!("X-Request-Id: {long}"), None),
    ] {
        let lines = if line.is_empty() { String::new() } else { format!("{line}\r\n") };
        let reply = wire.ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        let request = origin.requests().pop().unwrap();
        let id = request.get("x-request-id").expect("an id").to_owned();
        assert_eq!(reply.get("x-request-id"), Some(id.as_str()), "{line}");
        match kept {
            Some(kept) => assert_eq!(id, kept),
            None => assert!(id.len() >= 16 && !ids.contains(&id), "{line}: {id}"),
        }
        ids.push(id);
    }
}

#[test]
fn the_headers_policy_removes_sets_and_adds() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nServer: origin\r\nX-Set: old\r\nX-Set: older\r\nX-Add: one\r\nContent-Length: 0\r\n\r\n",
    );
    let edit =
        "{ remove: [server, x-gone], set: { x-set: new, x-new: made }, add: { x-add: two } }";
    let route = format!("policies: [ headers: {{ request: {edit}, response: {edit} }} ]");
    let gateway = Plain { route: &route, ..Plain::default() }.start(&origin);
    let reply = gateway.wire().ask(
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Gone: 1\r\nX-GONE: 2\r\nX-Set: old\r\nX-Add: one\r\nX-Kept: a\r\n\r\n",
    );
    let request = origin.request();
    for message in [&request, &reply] {
        assert!(
            message.all("x-gone").is_empty() && message.all("server").is_empty(),
            "{message:?}"
        );
        assert_eq!(message.all("x-set"), ["new"]);
        assert_eq!(message.all("x-new"), ["made"]);
        assert_eq!(message.all("x-add"), ["one", "two"]);
    }
    assert_eq!(request.get("x-kept"), Some("a"));
}

/// The line with the old name replaces the one with the new name, and no spelling of the old name stays.
#[test]
fn headers_are_renamed() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nX-Inner: a\r\nX-Inner: b\r\nX-Outer: forged\r\nContent-Length: 0\r\n\r\n",
    );
    let route = "policies: [ headers: { \
        request: { rename: { apikey: x-api-key, x-none: x-own }, remove: [x-gone], add: { x-api-key: last } }, \
        response: { rename: { x-inner: X-Outer } } } ]";
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    let reply = gateway.wire().ask(
        "GET / HTTP/1.1\r\nHost: a.test\r\nX-Api-Key: old\r\nX_Api_Key: older\r\nApikey: 1\r\nAPIKEY: 2\r\nX-Own: o\r\nX_None: twin\r\n\r\n",
    );
    let request = origin.request();
    assert_eq!(request.all("x-api-key"), ["1", "2", "last"], "{request:?}");
    for name in ["apikey", "x_api_key", "x_none", "x-none"] {
        assert!(request.all(name).is_empty(), "{request:?}");
    }
    assert_eq!(request.get("x-own"), Some("o"));
    assert_eq!((reply.all("x-outer"), reply.all("x-inner").len()), (vec!["a", "b"], 0));
}

#[test]
fn policies_run_down_the_list_and_up_again() {
    let origin = Origin::saying("hello");
    let add = |name: &str| {
        format!(
            "headers: {{ request: {{ add: {{ x-way: {name} }} }}, response: {{ add: {{ x-way: {name} }} }} }}"
        )
    };
    let route = format!("policies: [ {}, {} ]", add("first"), add("second"));
    let gateway = Plain { route: &route, ..Plain::default() }.start(&origin);
    let reply = gateway.wire().get("/");
    assert_eq!(origin.request().all("x-way"), ["first", "second"]);
    assert_eq!(reply.all("x-way"), ["second", "first"]);
}

/// Faults of the gateway's own pass the response policies of their route too.
#[test]
fn the_headers_policy_sees_the_gateways_own_replies() {
    let route = "policies: [ headers: { response: { set: { x-set: new } } } ], limits: { body_bytes_max: 1B }";
    let origin = Origin::start(|_| {});
    let gateway = Plain { route, ..Plain::default() }.start(&origin);
    let reply = gateway.wire().get("/");
    assert_eq!((reply.status(), reply.get("x-set")), (502, Some("new")));
}

#[test]
fn via_tells_what_was_received() {
    let origin = Origin::start(|peer| {
        peer.request();
        peer.send("HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
    });
    let gateway = Gateway::before(&origin);
    let seen = || origin.requests().pop().unwrap().get("via").unwrap().to_owned();
    let reply = gateway.wire().ask("GET / HTTP/1.0\r\nHost: a.test\r\n\r\n");
    assert_eq!(reply.get("via"), Some("1.0 tidegate"));
    let own = pseudonym(&seen(), "1.0").to_owned();
    let reply = gateway.wire().get("/");
    assert_eq!((reply.get("via"), pseudonym(&seen(), "1.1")), (Some("1.0 tidegate"), &*own));
    let reply = H2::connect(gateway.address("public")).get("http://a.test/");
    let said = (reply.headers["via"].as_bytes(), seen());
    assert_eq!((said.0, pseudonym(&said.1, "2.0")), (&b"1.0 tidegate"[..], &*own));
}

#[test]
fn a_request_goes_no_further_than_it_says() {
    let origin = Origin::saying("far");
    let gateway = Gateway::before(&origin);
    let ask = |method: &str, left: &str| {
        gateway
            .wire()
            .ask(format!("{method} /a HTTP/1.1\r\nHost: a.test\r\nMax-Forwards: {left}\r\n\r\n"))
    };
    let reply = ask("OPTIONS", "0");
    assert_eq!((reply.status(), origin.requests().len()), (204, 0));
    assert_eq!(reply.get("allow"), Some("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"));
    let huge = u64::MAX.to_string();
    for (method, left, passed) in [
        ("OPTIONS", "1", "0"),
        ("OPTIONS", "010", "9"),
        ("OPTIONS", &*format!("{huge}0"), &*(u64::MAX - 1).to_string()),
        ("OPTIONS", "-1", "-1"),
        ("OPTIONS", "", ""),
        ("GET", "0", "0"),
    ] {
        assert_eq!(ask(method, left).text(), "far", "{method} {left}");
        let request = origin.requests().pop().unwrap();
        assert_eq!(request.all("max-forwards"), [passed], "{method} {left}");
    }
}

/// RFC 9110, 7.6.3: a request that returns to a gateway would loop without end.
#[test]
fn a_request_that_comes_back_is_stopped_at_the_second_pass() {
    let yaml = |to: &str| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\n\
             upstreams: {{ there: {{ targets: [\"http://{to}\"], retry: {{ attempts: 3, on: [502, 503, 504] }} }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: there }} }}\n"
        )
    };
    let leads_to = |gateway: &Gateway, to: &Gateway| {
        gateway.rewrite(yaml(&to.address("public").to_string()));
        gateway.wait_for_log("the configuration is in service generation=2");
    };
    // Directly, and through another gateway.
    let [alone, one, other] = [(); 3].map(|()| Gateway::start(yaml("127.0.0.1:1")));
    leads_to(&alone, &alone);
    leads_to(&one, &other);
    leads_to(&other, &one);
    for gateway in [&alone, &one] {
        for request in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi",
        ] {
            let reply = gateway.wire().ask(request);
            assert_eq!(reply.status(), 508, "{reply:?}");
            assert!(reply.text().contains("\"fault\":\"loop\""), "{reply:?}");
        }
        gateway.wait_for_log("fault=\"loop\"");
        // Each went out once and came back once.
        let passes = "tidegate_requests_total{route=\"all\",status_class=\"5xx\"}";
        until("all passes are counted", || metric(gateway, passes) == Some(4.0));
    }
    // Another gateway's name, and one that only begins like its own, are nothing to it.
    let origin = Origin::echo();
    let gateway = Gateway::before(&origin);
    gateway.wire().get("/");
    let own = pseudonym(origin.request().get("via").unwrap(), "1.1").to_owned();
    for (via, status) in [
        ("1.1 tidegate".to_owned(), 200),
        ("1.1 tidegate-000000000000".to_owned(), 200),
        (format!("1.1 {own}x, 1.1 x{own}"), 200),
        (format!("1.0 fred, HTTP/1.1 {own} (comment), 1.1 other"), 508),
        (format!("1.0 fred\r\nVia: 2.0 {own}"), 508),
    ] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nVia: {via}\r\n\r\n");
        assert_eq!(gateway.wire().ask(request).status(), status, "{via}");
    }
}

#[test]
fn check_warns_of_an_upstream_that_is_a_listener() {
    for (listener, target, warned) in [
        ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
        ("127.0.0.1:8080", "http://localhost:8080", true),
        ("0.0.0.0:8080", "http://localhost:8080", true),
        ("0.0.0.0:8080", "http://127.0.0.1:8080", true),
        ("[::]:8080", "http://127.0.0.1:8080", true),
        ("[::]:8080", "http://[::1]:8080", true),
        ("127.0.0.1:8080", "http://0.0.0.0:8080", true),
        ("10.0.0.1:8080", "http://10.0.0.1:8080", true),
        ("0.0.0.0:80", "http://localhost", true),
        ("127.0.0.1:8080", "http://127.0.0.1:8081", false),
        ("127.0.0.1:8080", "http://127.0.0.2:8080", false),
        ("10.0.0.1:8080", "http://localhost:8080", false),
        ("0.0.0.0:8080", "http://10.0.0.1:8080", false),
        ("0.0.0.0:8080", "http://[::1]:8080", false),
        ("127.0.0.1:0", "http://127.0.0.1:8080", false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate.yaml");
        let text = format!(
            "listen: {{ public: {{ address: \"{listener}\" }} }}\nupstreams: {{ there: {{ targets: [\"{target}\"] }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: there }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        let said = run.stdout + &run.stderr;
        assert_eq!(run.code, Some(0), "{said}");
        let what = "is the listener `public` of this gateway";
        assert_eq!(said.contains(what), warned, "{listener} {target}: {said}");
    }
}

/// A case of `xpath_route` that names a URL ends there as a route does at its upstream.
#[test]
fn check_warns_of_a_case_that_is_a_listener() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tidegate.yaml");
    let text = "listen: { public: { address: \"127.0.0.1:8080\" } }\n\
        routes: { all: { match: { path: \"/**\" }, respond: {}, policies: [{ xpath_route: { cases: [{ xpath: \"/a\", equals: b, url: \"http://localhost:8080/c\" }] } }] } }\n";
    std::fs::write(&file, text).unwrap();
    let run = tidegate(&["check".as_ref(), file.as_os_str()]);
    let said = run.stdout + &run.stderr;
    assert!(said.contains("is the listener `public` of this gateway"), "{said}");
}

/// Empty list members are ignored (RFC 9110, 5.6.1). A proxy may leave one.
#[test]
fn the_client_is_the_last_member_that_is_none_of_the_trusted() {
    let origin = Origin::saying("ok");
    let route = "policies: [{ ip_filter: { deny: [203.0.113.7] } }]";
    let listener = "trusted_proxies: [\"127.0.0.0/8\", \"10.0.0.0/8\"]";
    let gateway = Plain { route, listener, ..Plain::default() }.start(&origin);
    for (line, status) in [
        ("203.0.113.7", 403),
        ("203.0.113.7,", 403),
        ("203.0.113.7,, ,", 403),
        (", 203.0.113.7 ,\t", 403),
        ("203.0.113.7,, 10.1.1.1", 403),
        ("203.0.113.7\r\nX-Forwarded-For: ", 403),
        ("198.51.100.2, 203.0.113.7", 403),
        ("203.0.113.7, 198.51.100.2,", 200),
        (",", 200),
    ] {
        let asked = format!("GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: {line}\r\n\r\n");
        assert_eq!(gateway.wire().ask(asked).status(), status, "{line:?}");
    }
}
