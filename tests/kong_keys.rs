//! Keys that files of Kong need and that are useful alone: conditions on the way of a request, priorities, signatures, ids, examples as
//! replies, releases for a part of the clients, and policies for some clients.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::harness::{Authority, Gateway, Message, Origin, Wire, tidegate, until};

/// A gateway with a listener, an echoing upstream and the rest of the configuration.
fn gateway(origin: &Origin, rest: &str) -> Gateway {
    let listen = "listen: { public: { address: \"127.0.0.1:0\" } }";
    let upstreams = format!("upstreams: {{ echo: {{ targets: [\"{}\"] }} }}", origin.url());
    Gateway::start(format!("{listen}\n{upstreams}\n{rest}"))
}

fn get(gateway: &Gateway, target: &str, lines: &str) -> Message {
    gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"))
}

fn post(gateway: &Gateway, target: &str, kind: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {target} HTTP/1.1\r\nHost: h\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// The complaints of `check` about one route's keys. The keys may begin with `match`.
fn complaints(keys: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    let found = if keys.starts_with("match:") { "" } else { "match: { path: / }, " };
    let text = format!(
        "listen: {{ a: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ u: {{ targets: [\"http://127.0.0.1:1\"] }} }}\nroutes: {{ r: {{ {found}upstream: u, {keys} }} }}\n"
    );
    std::fs::write(&file, text).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert_eq!(run.code, Some(1), "{keys}: {}", run.stdout);
    run.stderr
}

#[test]
fn a_route_may_be_for_a_name_of_tls_or_a_network_or_come_first() {
    let authority = Authority::new();
    let identity = authority.issue_as("a.test", |params| {
        params.subject_alt_names = ["a.test", "b.test", "x.c.test"]
            .map(|name| rcgen::SanType::DnsName(name.try_into().unwrap()))
            .to_vec();
    });
    let gateway = Gateway::start_beside(
        r#"
listen:
  public: { address: "127.0.0.1:0" }
  secure: { address: "127.0.0.1:0", tls: { certificate: a.pem, key: a.key } }
routes:
  all: { match: { path: "/**" }, respond: { body: all } }
  b: { match: { path: "/**", sni: b.test }, respond: { body: b } }
  c: { match: { path: "/**", sni: "*.c.test" }, respond: { body: c } }
  far: { match: { path: "/net", source: [10.0.0.0/8, "fd00::/8"] }, respond: { body: far } }
  near: { match: { path: "/net", source: 127.0.0.1 }, respond: { body: near } }
  deep: { match: { path: "/p/q" }, respond: { body: deep } }
  first: { match: { path: "/p/**", methods: [GET], priority: 1 }, respond: { body: first } }
  last: { match: { path: "/p/q", headers: { x-a: b }, priority: -1 }, respond: { body: last } }
"#,
        &[("a.pem", identity.certificate.as_str()), ("a.key", identity.key.as_str())],
    );
    let secure = gateway.address("secure");
    for (name, body) in [("a.test", "all"), ("b.test", "b"), ("x.c.test", "c")] {
        let reply = Wire::connect_tls(secure, name, &authority.trust()).get("/");
        assert_eq!(reply.text(), body, "{name}");
    }
    for (target, lines, body) in [
        ("/", "", "all"),
        ("/net", "", "near"),
        ("/net", "X-Forwarded-For: 10.1.1.1\r\n", "near"),
        ("/p/q", "X-A: b\r\n", "first"),
    ] {
        assert_eq!(get(&gateway, target, lines).text(), body, "{target}");
    }
    assert_eq!(post(&gateway, "/p/q", "a/b", "").text(), "deep");
    let said = complaints("match: { path: /, priority: high }");
    assert!(said.contains("is not a whole number from -1000000 to 1000000"), "{said}");
    for (keys, what) in [
        ("sni: \"a:b\"", "`a:b` is not a host"),
        ("source: 10.0.0.0/99", "is not a network"),
        ("priority: 1.5", "is not a whole number"),
    ] {
        let said = complaints(&format!("match: {{ path: /, {keys} }}"));
        assert!(said.contains(what), "{keys}: {said}");
    }
}

#[test]
fn a_path_parameter_chooses_the_target() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams:
  hashed: {{ targets: ["{}", "{}"], balance: {{ hash: {{ by: "capture:id", else: path }} }} }}
routes:
  pattern: {{ match: {{ path: "/a/{{id}}/**" }}, upstream: hashed }}
  regex: {{ match: {{ path: {{ regex_prefix: "/r/(?<id>[0-9]+)?" }} }}, upstream: hashed }}
"#,
        one.url(),
        other.url()
    ));
    for prefix in ["/a/7", "/r/7"] {
        one.forget();
        other.forget();
        (0..8).for_each(|number| drop(get(&gateway, &format!("{prefix}/{number}"), "")));
        let counts = [one.requests().len(), other.requests().len()];
        assert!(counts.contains(&8) && counts.contains(&0), "{prefix}: {counts:?}");
    }
    one.forget();
    other.forget();
    // Without a value, the path is used.
    (0..40).for_each(|number| drop(get(&gateway, &format!("/r/x{number}"), "")));
    assert!(one.requests().len() > 4 && other.requests().len() > 4);
}

#[test]
fn a_consumer_stays_at_a_target_and_others_by_another_key() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let keys: String = (0..40).map(|number| format!("c{number}: k{number}, ")).collect();
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams:
  hashed: {{ targets: ["{}", "{}"], balance: {{ hash: {{ by: consumer, else: "cookie:user" }} }} }}
routes:
  named: {{ match: {{ path: "/named" }}, policies: [{{ api_key: {{ header: k, keys: {{ {keys} }} }} }}], upstream: hashed }}
  others: {{ match: {{ path: "/others" }}, upstream: hashed }}
"#,
        one.url(),
        other.url()
    ));
    let counts = || [one.requests().len(), other.requests().len()];
    for (target, line) in [("/named", "K: k"), ("/others", "Cookie: user=")] {
        let ask = |number: usize| {
            let line = format!("{line}{number}\r\n");
            assert_eq!(get(&gateway, target, &line).status(), 200);
        };
        [&one, &other].iter().for_each(|origin| origin.forget());
        (0..8).for_each(|_| ask(7));
        assert!(counts().contains(&8), "{target}: {:?}", counts());
        [&one, &other].iter().for_each(|origin| origin.forget());
        (0..40).for_each(ask);
        assert!(!counts().contains(&0), "{target}: {:?}", counts());
    }
}

/// A client without the cookie gets it, and its later requests go to the same target.
#[test]
fn a_cookie_that_is_hashed_is_given_to_clients_without_it() {
    let (one, other) = (Origin::echo(), Origin::echo());
    let own =
        Origin::answering("HTTP/1.1 200 OK\r\nSet-Cookie: user=own\r\nContent-Length: 0\r\n\r\n");
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams:
  hashed: {{ targets: ["{}", "{}"], balance: {{ hash: {{ by: "cookie:user", cookie_path: /a }} }} }}
  own: {{ targets: ["{}"], balance: {{ hash: {{ by: "cookie:user", cookie_path: / }} }} }}
routes:
  a: {{ match: {{ path: "/a" }}, upstream: hashed }}
  own: {{ match: {{ path: "/own" }}, upstream: own }}
"#,
        one.url(),
        other.url(),
        own.url()
    ));
    let counts = || [one.requests().len(), other.requests().len()];
    let mut given = Vec::new();
    for _ in 0..40 {
        [&one, &other].iter().for_each(|origin| origin.forget());
        let reply = get(&gateway, "/a", "");
        let set = reply.get("set-cookie").unwrap();
        let cookie = set.strip_suffix("; Path=/a").unwrap().to_owned();
        assert_eq!(cookie.len(), "user=".len() + 32, "{cookie}");
        for _ in 0..3 {
            let again = get(&gateway, "/a", &format!("Cookie: {cookie}\r\n"));
            assert_eq!(again.get("set-cookie"), None);
        }
        assert!(counts().contains(&4), "{:?}", counts());
        given.push((cookie, counts()));
    }
    assert!(given.iter().any(|(_, counts)| counts[0] == 4));
    assert!(given.iter().any(|(_, counts)| counts[1] == 4));
    given.sort();
    given.dedup_by(|one, other| one.0 == other.0);
    assert_eq!(given.len(), 40);
    assert_eq!(get(&gateway, "/own", "").all("set-cookie"), ["user=own"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    for (hash, expected) in [
        ("by: path", "`cookie_path` needs a cookie that is hashed"),
        ("by: \"cookie:user\", else: client", "`else` is never used"),
    ] {
        let text = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}
upstreams: {{ u: {{ targets: [\"http://h\"], balance: {{ hash: {{ {hash}, cookie_path: / }} }} }} }}
routes: {{ r: {{ match: {{ path: / }}, upstream: u }} }}
"
        );
        std::fs::write(&file, text).unwrap();
        let run = tidegate(&["check".as_ref(), file.as_os_str()]);
        assert_eq!(run.code, Some(1));
        assert!(run.stderr.contains(expected), "{}", run.stderr);
    }
}

#[test]
fn a_target_that_takes_nothing_is_given_up() {
    let stuck = Origin::start(|peer| {
        let _ = peer.request_head();
        std::thread::park_timeout(std::time::Duration::from_secs(60));
    });
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ u: {{ targets: ["{}"], timeout: {{ write: 200ms, response: 60s }} }} }}
routes: {{ r: {{ match: {{ path: / }}, upstream: u }} }}
"#,
        stuck.url()
    ));
    let mut wire = gateway.wire();
    wire.send("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100000000\r\n\r\n");
    let mut second = wire.second();
    let sending = std::thread::spawn(move || second.send_until_stuck(&[b'x'; 65_536], 100_000_000));
    assert_eq!(wire.read_head().status(), 504);
    drop(wire);
    let _ = sending.join();
    gateway.wait_for_log("the target accepted no more of the request within 200ms");
}

#[test]
fn a_key_may_be_in_a_form_or_in_json() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  cut: { match: { path: /cut }, policies: [{ api_key: { header: x-key, body: key, keys: { alice: k1 } } }, { headers: { request: { set: { x-who: "{subject}" } } } }], upstream: echo }
  kept: { match: { path: /kept }, policies: [{ api_key: { body: [key, apikey], body_bytes_max: 64B, keys: { alice: "a b&c" }, forward: true } }], upstream: echo }
"#,
    );
    const FORM: &str = "application/x-www-form-urlencoded";
    const JSON: &str = "application/json; charset=utf-8";
    for (target, kind, body, status, seen) in [
        ("/cut", FORM, "a=1&key=k1&b=2", 200, "a=1&b=2"),
        ("/cut", FORM, "a=1&%6bey=k1", 200, "a=1"),
        ("/cut", FORM, "key=k2", 401, ""),
        ("/cut", FORM, "key=k1&key=k2", 401, ""),
        ("/cut", FORM, "a=1", 401, ""),
        ("/cut", JSON, r#"{"a": 1, "key": "k1"}"#, 200, r#"{"a": 1}"#),
        ("/cut", JSON, r#"{"key": 1}"#, 401, ""),
        ("/cut", JSON, r#"["k1"]"#, 401, ""),
        ("/cut", JSON, r#"{"key": "k1""#, 401, ""),
        ("/cut", JSON, r#"{"key":"k1","key":"k1"}"#, 401, ""),
        ("/cut", "text/plain", "key=k1", 401, ""),
        ("/kept", FORM, "apikey=a+b%26c", 200, "apikey=a+b%26c"),
        ("/kept", FORM, &format!("apikey=a+b%26c&x={}", "y".repeat(64)), 413, ""),
    ] {
        origin.forget();
        assert_eq!(post(&gateway, target, kind, body).status(), status, "{target} {body}");
        if status == 200 {
            assert_eq!(origin.request().text(), seen, "{target} {body}");
        }
    }
    origin.forget();
    assert_eq!(get(&gateway, "/cut", "X-Key: k1\r\n").status(), 200);
    assert_eq!(origin.request().get("x-who"), Some("alice"));
    let said = complaints(
        "policies: [{ authenticate: { any: [{ api_key: { body: k, keys: { a: b } } }] } }]",
    );
    assert!(said.contains("this key is in the body"), "{said}");
}

/// A request that is signed with a secret: its lines.
fn signed(secret: &str, request_line: &str, date: &str, name: &str) -> String {
    let text = format!("date: {date}\n{request_line}");
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
    let signature = STANDARD.encode(hmac::sign(&key, text.as_bytes()));
    format!(
        "Date: {date}\r\nAuthorization: hmac username=\"{name}\", algorithm=\"hmac-sha256\", headers=\"date request-line\", signature=\"{signature}\"\r\n"
    )
}

#[test]
fn a_signature_shows_who_asks() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  signed:
    match: { path: /signed }
    policies:
      - hmac: { users: { alice: { key: secret, groups: [staff], subject: Alice } } }
      - authorize: { groups: { allow: [staff] } }
      - headers: { request: { set: { x-who: "{subject}" } } }
    upstream: echo
  body: { match: { path: /body }, policies: [{ hmac: { users: { alice: secret }, body: true } }], upstream: echo }
  any: { match: { path: /any }, policies: [{ authenticate: { any: [{ hmac: { users: { alice: secret } } }, { api_key: { header: x-key, keys: { bob: k } } }] } }], upstream: echo }
"#,
    );
    let date = get(&gateway, "/none", "").get("date").unwrap().to_owned();
    let line = "GET /signed?a=b HTTP/1.1";
    let good = signed("secret", line, &date, "alice");
    for (target, lines, status) in [
        ("/signed?a=b", good.clone(), 200),
        ("/signed?a=c", good.clone(), 401),
        ("/signed?a=b", signed("other", line, &date, "alice"), 401),
        ("/signed?a=b", signed("secret", line, &date, "bob"), 401),
        ("/signed?a=b", signed("secret", line, "Sun, 06 Nov 1994 08:49:37 GMT", "alice"), 401),
        ("/signed?a=b", good.replace("hmac-sha256", "hmac-sha1"), 401),
        ("/signed?a=b", good.replace("date request-line", "date"), 401),
        ("/signed?a=b", good.replace("signature=\"", "signature=\"!"), 401),
        ("/signed?a=b", good.replace(", signature", ", username=\"x\", signature"), 401),
        ("/signed?a=b", format!("{good}{good}"), 401),
        ("/signed?a=b", format!("Date: {date}\r\n"), 401),
        ("/signed?a=b", "Authorization: hmac \r\n".to_owned(), 401),
        ("/any", "X-Key: k\r\n".to_owned(), 200),
        ("/any", signed("secret", "GET /any HTTP/1.1", &date, "alice"), 200),
        ("/any", String::new(), 401),
    ] {
        origin.forget();
        let reply = get(&gateway, target, &lines);
        assert_eq!(reply.status(), status, "{target} {lines}");
        if status == 200 {
            assert_eq!(origin.request().get("authorization"), None);
        } else if target.starts_with("/signed") {
            assert_eq!(reply.get("www-authenticate"), Some("hmac realm=\"tidegate\""));
        }
    }
    origin.forget();
    get(&gateway, "/signed?a=b", &good);
    assert_eq!(origin.request().get("x-who"), Some("Alice"));
    // The digest of `hello`, and that of nothing.
    let digest = "SHA-256=LPJNul+wow4m6DsqxbninhsWHlwfp0JecwQzYpOLmCQ=";
    for (body, lines, status) in [
        ("hello", format!("Digest: {digest}\r\n"), 200),
        ("hullo", format!("Digest: {digest}\r\n"), 401),
        ("hello", String::new(), 401),
        ("", String::new(), 200),
    ] {
        let signed = signed("secret", "POST /body HTTP/1.1", &date, "alice");
        let length = body.len();
        let reply = gateway.wire().ask(format!(
            "POST /body HTTP/1.1\r\nHost: h\r\n{signed}{lines}Content-Length: {length}\r\n\r\n{body}"
        ));
        assert_eq!(reply.status(), status, "{body} {lines}");
    }
    let said = complaints("policies: [{ hmac: { users: { a: \"sha256:00\" } } }]");
    assert!(said.contains("is not followed by 64 hex digits"), "{said}");
    let said = complaints("policies: [{ hmac: { users: { a: b }, algorithms: [] } }]");
    assert!(said.contains("no algorithm is allowed"), "{said}");
}

#[test]
fn a_request_gets_an_id_of_the_operators_choice() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  counter: { match: { path: /counter }, policies: [{ correlation: { header: X-Id, generator: counter, echo: true } }], upstream: echo }
  tracker: { match: { path: /tracker }, policies: [{ correlation: { header: X-Id, generator: tracker } }], upstream: echo }
  uuid: { match: { path: /uuid }, policies: [{ correlation: { header: X-Id } }], upstream: echo }
"#,
    );
    let ask = |target: &str, lines: &str| {
        origin.forget();
        let reply = get(&gateway, target, lines);
        let echoed = reply.get("x-id").map(str::to_owned);
        (origin.request().get("x-id").unwrap().to_owned(), echoed)
    };
    let (first, echoed) = ask("/counter", "");
    let (uuid, number) = first.split_once('#').unwrap();
    assert_eq!((uuid.len(), Some(&first)), (36, echoed.as_ref()));
    let (second, _) = ask("/counter", "X-Id:\r\n");
    assert_eq!(second, format!("{uuid}#{}", number.parse::<u64>().unwrap() + 1));
    assert_eq!(ask("/counter", "X-Id: mine\r\n"), ("mine".to_owned(), Some("mine".to_owned())));
    let (tracker, echoed) = ask("/tracker", "");
    assert!(tracker.starts_with("127.0.0.1-"), "{tracker}");
    assert_eq!(echoed, None);
    let (one, _) = ask("/uuid", "");
    assert_eq!(one.split('-').map(str::len).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{one}");
    assert_ne!(one, ask("/uuid", "").0);
    let said = complaints("policies: [{ correlation: { header: \"a b\" } }]");
    assert!(said.contains("a b"), "{said}");
}

#[test]
fn forms_change_and_replies_by_their_status() {
    let origin = Origin::answering(
        "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
    );
    let gateway = gateway(
        &origin,
        r#"
routes:
  r:
    match: { path: / }
    policies:
      - transform: { request: { form: { rename: { old: new }, remove: [gone], replace: { there: "1", missing: "2" }, default: { there: "3", given: "x y" } } } }
      - headers: { response: { if_status: [404], set: { x-lost: "yes" } } }
      - headers: { response: { if_status: ["500-599", 200], set: { x-bad: "yes" } } }
      - transform: { response: { if_status: [404], json: { set: { b: 2 } } } }
      - transform: { response: { if_status: [500], json: { remove: [a] } } }
    upstream: echo
"#,
    );
    let form = "application/x-www-form-urlencoded; charset=utf-8";
    let reply = post(&gateway, "/", form, "old=1&g%6fne=2&there=0&x=%7e");
    assert_eq!((reply.get("x-lost"), reply.get("x-bad")), (Some("yes"), None));
    assert_eq!(reply.text(), r#"{"a":1,"b":2}"#);
    assert_eq!(origin.request().text(), "new=1&x=%7e&there=1&given=x%20y");
    origin.forget();
    post(&gateway, "/", "text/plain", "old=1");
    assert_eq!(origin.request().text(), "old=1");
    let said = complaints("policies: [{ headers: { request: { if_status: [404] } } }]");
    assert!(said.contains("`if_status` applies only to responses"), "{said}");
}

#[test]
fn examples_of_a_document_are_replies() {
    let document = r##"
openapi: 3.0.3
info: { title: t, version: "1" }
paths:
  /pets/{id}:
    get:
      responses:
        "404": { description: no, content: { application/json: { example: { gone: true } } } }
        "200":
          description: ok
          content:
            application/json:
              examples: { one: { $ref: "#/components/examples/cat" }, two: { value: { name: dog } } }
            text/plain: { example: a cat }
    delete: { responses: { "204": { description: gone } } }
  /made:
    get: { responses: { "200": { description: ok, content: { application/json: { schema: { $ref: "#/components/schemas/Pet" } } } } } }
components:
  examples: { cat: { value: { name: cat } } }
  schemas: { Pet: { type: object, properties: { name: { type: string, example: cow }, next: { $ref: "#/components/schemas/Pet" }, tags: { type: array, items: { type: string, enum: [big] } } } } }
"##;
    let gateway = Gateway::start_beside(
        r#"
listen: { public: { address: "127.0.0.1:0" } }
routes:
  all: { match: { path: "/**" }, policies: [{ mock: { document: api.yaml } }] }
  lost: { match: { path: "/v1/**" }, policies: [{ mock: { document: api.yaml, base_path: /v1, statuses: [404] } }] }
"#,
        &[("api.yaml", document)],
    );
    for (request, lines, status, body) in [
        ("GET /pets/7?a=b", "", 200, r#"{"name":"cat"}"#),
        ("GET /pets/7", "Accept: text/*;q=0.5, application/json;q=0\r\n", 200, "a cat"),
        ("GET /pets/7", "Accept: image/png\r\n", 404, ""),
        ("DELETE /pets/7", "", 204, ""),
        ("PUT /pets/7", "", 405, ""),
        ("GET /other", "", 404, ""),
        ("GET /v1/pets/7", "", 404, r#"{"gone":true}"#),
    ] {
        let reply = gateway.wire().ask(format!("{request} HTTP/1.1\r\nHost: h\r\n{lines}\r\n"));
        assert_eq!(reply.status(), status, "{request}: {}", reply.text());
        if !body.is_empty() {
            assert_eq!(reply.text(), body, "{request}");
        }
    }
    let made = get(&gateway, "/made", "").text();
    assert!(made.starts_with(r#"{"name":"cow""#) && made.contains(r#""tags":["big"]"#), "{made}");
    let folder = tempfile::tempdir().unwrap();
    let bare = "openapi: 3.0.3\ninfo: { title: t, version: \"1\" }\npaths: { /a: { get: { responses: { \"200\": { description: ok, content: { text/plain: {} } } } } } }\n";
    std::fs::write(folder.path().join("api.yaml"), bare).unwrap();
    let file = folder.path().join("t.yaml");
    std::fs::write(&file, "listen: { a: { address: \"127.0.0.1:0\" } }\nroutes: { r: { match: { path: / }, policies: [{ mock: { document: api.yaml } }] } }\n").unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert!(run.stderr.contains("the document has no example"), "{}", run.stderr);
}

#[test]
fn a_part_of_the_clients_gets_another_version() {
    let (old, new) = (Origin::saying("old"), Origin::saying("new"));
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ old: {{ targets: ["{}"] }}, new: {{ targets: ["{}"] }} }}
routes:
  header: {{ match: {{ path: /header }}, policies: [{{ canary: {{ upstream: new, header: x-canary }} }}], upstream: old }}
  late: {{ match: {{ path: /late }}, policies: [{{ canary: {{ upstream: new, percent: 100, ramp: {{ start: "2990-01-01T00:00:00Z", over: 1h }} }} }}], upstream: old }}
  done: {{ match: {{ path: /done }}, policies: [{{ canary: {{ upstream: new, percent: 100, ramp: {{ start: "2020-01-01T00:00:00+01:00", over: 1h }} }} }}], upstream: old }}
  half: {{ match: {{ path: /half }}, policies: [{{ canary: {{ upstream: new, percent: 50, by: "header:x-user", header: x-canary }} }}], upstream: old }}
  groups:
    match: {{ path: /groups }}
    policies:
      - api_key: {{ header: x-key, keys: {{ alice: {{ key: a, groups: [beta] }}, bob: b }} }}
      - canary: {{ upstream: new, groups: {{ allow: [beta] }} }}
    upstream: old
"#,
        old.url(),
        new.url()
    ));
    for (target, lines, body) in [
        ("/header", "", "old"),
        ("/header", "X-Canary: always\r\n", "new"),
        ("/header", "X-Canary: never\r\n", "old"),
        ("/groups", "X-Key: a\r\n", "new"),
        ("/groups", "X-Key: b\r\n", "old"),
        ("/late", "", "old"),
        ("/done", "", "new"),
    ] {
        assert_eq!(get(&gateway, target, lines).text(), body, "{target} {lines}");
    }
    let of = |user: usize| get(&gateway, "/half", &format!("X-User: {user}\r\n")).text();
    let versions: Vec<String> = (0..60).map(of).collect();
    let count = versions.iter().filter(|version| *version == "new").count();
    assert!((10..=50).contains(&count), "{count} of 60");
    assert_eq!((0..60).map(of).collect::<Vec<_>>(), versions);
    assert_eq!(get(&gateway, "/half", "X-User: 1\r\nX-Canary: always\r\n").text(), "new");
    for (keys, what) in [
        ("upstream: nowhere, percent: 5", "nowhere"),
        ("upstream: u", "no request goes to the upstream of this `canary`"),
        ("upstream: u, percent: 101", "a number from 0 to 100"),
        (
            "upstream: u, percent: 5, ramp: { start: tomorrow, over: 1h }",
            "`tomorrow` is not a time",
        ),
    ] {
        let said = complaints(&format!("policies: [{{ canary: {{ {keys} }} }}]"));
        assert!(said.contains(what), "{keys}: {said}");
    }
}

#[test]
fn replies_take_a_target_out_until_a_probe_brings_it_back() {
    let sick = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let by = sick.clone();
    let origin = Origin::start(move |peer| {
        while let Some(request) = peer.request() {
            let sick = by.load(std::sync::atomic::Ordering::SeqCst);
            let status = match (request.target(), sick) {
                ("/health", true) => "500 No",
                ("/limited", _) => "429 Later",
                _ => "200 OK",
            };
            peer.send(format!("HTTP/1.1 {status}\r\nContent-Length: 0\r\n\r\n"));
        }
    });
    let gateway = Gateway::start(format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams:
  u:
    targets: ["{}"]
    health: {{ path: /health, interval: 50ms, unhealthy_after: 100, healthy_after: 1 }}
    outlier: {{ after: 2, statuses: [429], until: probe, max_ejected_percent: 100 }}
routes: {{ r: {{ match: {{ path: "/**" }}, upstream: u }} }}
"#,
        origin.url()
    ));
    for target in ["/limited", "/", "/limited"] {
        assert_ne!(get(&gateway, target, "").status(), 503, "{target}");
    }
    assert_eq!(get(&gateway, "/limited", "").status(), 429);
    assert_eq!(get(&gateway, "/", "").status(), 503);
    sick.store(false, std::sync::atomic::Ordering::SeqCst);
    until("a probe has brought it back", || get(&gateway, "/", "").status() == 200);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.yaml");
    std::fs::write(&file, "listen: { a: { address: \"127.0.0.1:0\" } }\nupstreams: { u: { targets: [\"http://127.0.0.1:1\"], outlier: { until: probe } } }\nroutes: { r: { match: { path: / }, upstream: u } }\n").unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    assert!(run.stderr.contains("no health check can bring a target back"), "{}", run.stderr);
}

#[test]
fn a_policy_may_be_for_some_clients() {
    let origin = Origin::echo();
    let gateway = gateway(
        &origin,
        r#"
routes:
  r:
    match: { path: / }
    policies:
      - api_key: { header: x-key, keys: { alice: a, bob: { key: b, groups: [gold] }, carol: c } }
      - for: { subjects: [alice], policy: { rate_limit: { requests: 1, per: 1h, by: subject } } }
      - for: { groups: [gold], policy: { headers: { request: { set: { x-gold: "1" } }, response: { set: { x-gold: "1" } } } } }
      - for: { except: { subjects: [alice], groups: [gold] }, policy: { transform: { json: { set: { who: other } } } } }
    upstream: echo
"#,
    );
    for (key, statuses) in [("a", [200, 429]), ("b", [200, 200])] {
        let asked = statuses.map(|_| get(&gateway, "/", &format!("X-Key: {key}\r\n")).status());
        assert_eq!(asked, statuses, "{key}");
    }
    origin.forget();
    assert_eq!(get(&gateway, "/", "X-Key: b\r\n").get("x-gold"), Some("1"));
    assert_eq!(origin.request().get("x-gold"), Some("1"));
    for (key, seen) in [("b", "{}"), ("c", r#"{"who":"other"}"#)] {
        origin.forget();
        let request = format!(
            "POST / HTTP/1.1\r\nHost: h\r\nX-Key: {key}\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{{}}"
        );
        assert_eq!(gateway.wire().ask(request).get("x-gold").is_some(), key == "b");
        assert_eq!(origin.request().text(), seen, "{key}");
    }
    let said =
        complaints("policies: [{ for: { subjects: [a], policy: { jwt: { issuers: [] } } } }]");
    assert!(said.contains("`for` cannot be used with `jwt`"), "{said}");
}
