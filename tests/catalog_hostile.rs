//! The catalog with hostile requests, wrong clocks and failing stores.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use socket2::{Domain, Socket, Type};

use crate::catalog::{
    CATALOG, Client, address, application, basic, call, definition, form as in_form, in_database,
    is_refused, log_in, publish, read, start, subscribe, token,
};
use crate::catalog_imports::form as multipart;
use crate::harness::{Clock, Gateway, Origin, Postgres, Wire, until};
use crate::tokens::{EC, jwks, now};

#[track_caller]
fn access(gateway: &Gateway, key: &str, secret: &str) -> String {
    let told = token(gateway, key, secret, "grant_type=client_credentials");
    told["access_token"].as_str().unwrap().to_owned()
}

fn quiet() -> String {
    CATALOG.replace("PAT", &"0".repeat(64))
}

#[test]
fn a_token_of_another_issuer_opens_nothing_though_it_names_our_client() {
    let origin = Origin::saying("ok");
    let more = format!(
        "issuers: {{ other: {{ issuer: \"https://other.test\", keys: [all.jwks] }} }}\n\
         upstreams: {{ origin: {{ targets: [{:?}] }} }}\n\
         routes: {{ all: {{ match: {{ path: /file/** }}, upstream: origin, errors: wso2_apim, policies: [{{ jwt: {{ issuers: [catalog, other] }} }}, {{ subscription: {{ api: \"echo 1.0.0\" }} }}] }} }}\n",
        origin.url()
    );
    let gateway =
        Gateway::start_beside(format!("{}{more}", quiet()), &[("all.jwks", &jwks(&[&EC]))]);
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let (id, key, secret) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let ours = access(&gateway, &key, &secret);
    assert_eq!(call(&gateway, "/file/x", &ours).status(), 200);
    let theirs = EC.token(&json!({ "iss": "https://other.test", "sub": "mallory", "azp": key, "client_id": key, "exp": now() + 60 }));
    is_refused(&call(&gateway, "/file/x", &theirs), 403, "900908");
    is_refused(&call(&gateway, "/echo/1.0.0/x", &theirs), 401, "900901");
    let forged = EC.token(
        &json!({ "iss": "https://gateway.test", "sub": key, "azp": key, "exp": now() + 60 }),
    );
    is_refused(&call(&gateway, "/echo/1.0.0/x", &forged), 401, "900901");
}

#[test]
fn an_application_is_removed_under_load_with_more_subscriptions_than_one_change_takes() {
    const MANY: usize = 1100;
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let (id, key, secret) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let others: Vec<String> = (0..MANY)
        .map(|number| {
            let mut wish = definition(&format!("other{number}"), &origin);
            wish["operations"] = json!([{ "target": "/*", "verb": "GET" }]);
            let made = client.done("POST", "/api/am/publisher/v4/apis", &wish, 201);
            made["id"].as_str().unwrap().to_owned()
        })
        .collect();
    for other in &others {
        let at = format!("/api/am/publisher/v4/apis/change-lifecycle?action=Publish&apiId={other}");
        client.done("POST", &at, &Value::Null, 200);
        subscribe(&client, other, &id, "Gold");
    }
    let token = access(&gateway, &key, &secret);
    let (stop, passed) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut is_gone = false;
                while !stop.load(Ordering::SeqCst) {
                    match call(&gateway, "/echo/1.0.0/x", &token).status() {
                        200 => {
                            assert!(!is_gone, "it was refused before");
                            passed.fetch_add(1, Ordering::SeqCst);
                        }
                        401 => is_gone = true,
                        other => panic!("{other}"),
                    }
                }
            });
        }
        until("calls pass", || passed.load(Ordering::SeqCst) > 20);
        client.done(
            "DELETE",
            &format!("/api/am/devportal/v3/applications/{id}"),
            &Value::Null,
            200,
        );
        is_refused(&call(&gateway, "/echo/1.0.0/x", &token), 401, "900901");
        stop.store(true, Ordering::SeqCst);
    });
    let left = client.done("GET", "/api/am/publisher/v4/subscriptions", &Value::Null, 200);
    assert_eq!(left["count"], 0);
    client.done("DELETE", &format!("/api/am/publisher/v4/apis/{}", others[0]), &Value::Null, 200);
    // The name is free again.
    application(&client, "app", "Unlimited");
}

#[test]
fn names_are_data_whatever_they_contain() {
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let at = "/api/am/devportal/v3/applications";
    for name in [
        "<script>alert(1)</script>",
        "../../etc/passwd",
        "a/b",
        "..",
        "日本語のアプリ",
        "' OR 1=1 --",
        "${HOME} {{x}}",
    ] {
        let made = client.done("POST", at, &json!({ "name": name }), 201);
        let id = made["applicationId"].as_str().unwrap();
        let shown = client.ask("GET", &format!("{at}/{id}"), &Value::Null);
        assert_eq!(
            (read(&shown)["name"].as_str(), shown.get("content-type")),
            (Some(name), Some("application/json"))
        );
        assert_eq!(shown.get("x-content-type-options"), Some("nosniff"));
        assert_eq!(client.ask("POST", at, &json!({ "name": name })).status(), 409, "{name}");
    }
    for name in ["", "   ", &"x".repeat(10_000), "a\u{0}b", "a\r\nb"] {
        assert_eq!(client.ask("POST", at, &json!({ "name": name })).status(), 400, "{name:?}");
    }
    let count = client.done("GET", at, &Value::Null, 200)["count"].as_u64();
    assert_eq!(count, Some(7));
    for target in [
        "/api/am/devportal/v3/applications/..%2f..%2fx",
        "/api/am/devportal/v3/applications/%00",
        "/api/am/publisher/v4/apis/<b>",
    ] {
        let reply = client.ask("GET", target, &Value::Null);
        assert!([400, 404].contains(&reply.status()), "{target}: {}", reply.text());
    }
    let origin = Origin::saying("ok");
    let mut wish = definition("scripts", &origin);
    wish["name"] = json!("Погода 天気");
    publish(&client, &wish);
}

#[test]
fn a_document_with_ten_mistakes_is_refused_with_all_of_them() {
    let origin = Origin::saying("ok");
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let path = |at: usize| {
        format!(
            "  /p{at}: {{ get: {{ responses: {{ '200': {{ $ref: '#/components/responses/None{at}' }} }} }} }}\n"
        )
    };
    let paths: String = (0..10).map(path).collect();
    let document = format!("openapi: 3.0.1\ninfo: {{ title: Ten, version: '1' }}\npaths:\n{paths}");
    let more = json!({ "context": "/ten", "endpointConfig": { "production_endpoints": { "url": origin.url() } } });
    let parts = [
        ("file", document.as_bytes()),
        ("additionalProperties", &more.to_string().into_bytes()[..]),
    ];
    let made = multipart(&client, "POST", "/api/am/publisher/v4/apis/import-openapi", &parts);
    assert_eq!(made.status(), 201, "{}", made.text());
    let at = format!("/api/am/publisher/v4/apis/{}/revisions", read(&made)["id"].as_str().unwrap());
    let refused = client.ask("POST", &at, &json!({}));
    let told = read(&refused);
    let told = told["error"].as_array().cloned().unwrap_or_default();
    assert_eq!((refused.status(), told.len()), (400, 10), "{}", refused.text());
    for at in 0..10 {
        let name = format!("None{at}");
        assert!(
            told.iter().any(|one| one["message"].as_str().unwrap().contains(&name)),
            "{name}: {told:?}"
        );
    }
    // Characters that are invalid in a path are refused at once.
    let mut wish = definition("braces", &origin);
    wish["operations"] =
        (0..10).map(|at| json!({ "target": format!("/{{x{at}"), "verb": "GET" })).collect();
    let refused = client.ask("POST", "/api/am/publisher/v4/apis", &wish);
    assert_eq!(
        (refused.status(), read(&refused)["error"].as_array().map(Vec::len)),
        (400, Some(10))
    );
}

#[test]
fn quotas_below_nothing_are_refused() {
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let at = "/api/am/admin/v4/throttling/policies/subscription";
    let limit = |count: i64| json!({ "type": "REQUESTCOUNTLIMIT", "requestCount": { "timeUnit": "min", "unitTime": 1, "requestCount": count } });
    let good = json!({ "policyName": "P", "defaultLimit": limit(5) });
    for (key, value) in [
        ("defaultLimit", limit(-5)),
        ("defaultLimit", limit(0)),
        (
            "defaultLimit",
            json!({ "type": "BANDWIDTHLIMIT", "bandwidth": { "timeUnit": "min", "unitTime": 1, "dataAmount": -1, "dataUnit": "KB" } }),
        ),
        (
            "defaultLimit",
            json!({ "type": "EVENTCOUNTLIMIT", "eventCount": { "timeUnit": "min", "unitTime": -1, "eventCount": 1 } }),
        ),
        (
            "defaultLimit",
            json!({ "type": "BANDWIDTHLIMIT", "bandwidth": { "timeUnit": "min", "unitTime": 1, "dataAmount": u64::MAX, "dataUnit": "GB" } }),
        ),
        ("rateLimitCount", json!(-2)),
        ("rateLimitCount", json!("many")),
        ("subscriberCount", json!(-7)),
    ] {
        let mut wish = good.clone();
        wish[key] = value.clone();
        let reply = client.ask("POST", at, &wish);
        assert_eq!(reply.status(), 400, "{key} {value}: {}", reply.text());
    }
    let mut wish = good;
    (wish["rateLimitCount"], wish["subscriberCount"]) = (json!(-1), json!(0));
    client.done("POST", at, &wish, 201);
}

#[test]
fn tokens_follow_a_clock_that_jumps_and_counts_do_not() {
    let origin = Origin::saying("ok");
    let clock = Clock::new();
    let gateway = Gateway::start_by(&clock, quiet());
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let (id, key, secret) = application(&client, "app", "10PerMin");
    subscribe(&client, &api, &id, "Gold");
    let old = access(&gateway, &key, &secret);
    let status = |token: &str| call(&gateway, "/echo/1.0.0/x", token).status();
    for _ in 0..9 {
        assert_eq!(status(&old), 200);
    }
    clock.set(7200);
    until("the token is over", || status(&old) == 401);
    let new = access(&gateway, &key, &secret);
    assert_eq!(status(&new), 200, "the tenth of this minute");
    is_refused(&call(&gateway, "/echo/1.0.0/x", &new), 429, "900803");
    clock.set(0);
    let back = access(&gateway, &key, &secret);
    until("tokens of now count again", || status(&back) == 429);
}

#[test]
fn what_is_known_is_served_without_the_store_and_what_is_new_waits() {
    let mut server = Postgres::start();
    let origin = Origin::saying("ok");
    let yaml = in_database(&quiet(), &server);
    let gateway = Gateway::start(&yaml);
    let client = log_in(&gateway, "admin", "admin");
    let api = publish(&client, &definition("echo", &origin));
    let (id, key, secret) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let old = access(&gateway, &key, &secret);
    server.kill();
    assert_eq!(call(&gateway, "/echo/1.0.0/x", &old).status(), 200);
    let new = access(&gateway, &key, &secret);
    assert_eq!(call(&gateway, "/echo/1.0.0/x", &new).status(), 200, "a token is not stored");
    let at = "/api/am/devportal/v3/applications";
    until("a new application gets 503", || {
        client.ask("POST", at, &json!({ "name": "late" })).status() == 503
    });
    client.done("GET", at, &Value::Null, 200);
    server.start_again();
    until("it can be made again", || {
        [201, 409].contains(&client.ask("POST", at, &json!({ "name": "late" })).status())
    });
}

#[test]
fn a_flood_of_wrong_secrets_is_stopped_and_others_pass() {
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let (_, key, secret) = application(&client, "app", "Unlimited");
    let mut guesser = Elsewhere::connect(&gateway, Ipv4Addr::new(127, 0, 0, 8));
    let mut slowed = 0;
    for number in 0..1000 {
        match guesser.ask(&format!("nobody{number}"), "wrong") {
            401 => assert!(number < 100, "{number}"),
            429 => slowed += 1,
            other => panic!("{other}"),
        }
    }
    assert_eq!(slowed, 900);
    // Clients at other addresses are not affected.
    assert_eq!(Elsewhere::connect(&gateway, Ipv4Addr::new(127, 0, 0, 9)).ask(&key, &secret), 200);
}

#[test]
fn a_request_that_says_two_things_is_refused() {
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let (id, key, secret) = application(&client, "app", "Unlimited");
    let own = basic(&key, &secret);
    for (form, is_good) in [
        ("grant_type=client_credentials".to_owned(), true),
        (format!("grant_type=client_credentials&client_id={key}"), true),
        (format!("grant_type=client_credentials&client_id={key}&client_secret={secret}"), true),
        ("grant_type=client_credentials&unknown=a&unknown=b".to_owned(), true),
        ("grant_type=client_credentials&grant_type=password".to_owned(), false),
        ("grant_type=client_credentials&scope=a&scope=b".to_owned(), false),
        ("grant_type=client_credentials&client_id=other".to_owned(), false),
        (format!("grant_type=client_credentials&client_id={key}&client_secret=other"), false),
    ] {
        let reply = in_form(&gateway, &own, "/oauth2/token", &form);
        let told = read(&reply);
        let wanted = if is_good { (200, None) } else { (400, Some("invalid_request")) };
        assert_eq!((reply.status(), told["error"].as_str()), wanted, "{form}");
    }
    let at = "/api/am/devportal/v3/subscriptions";
    for (query, status) in [
        (format!("applicationId={id}"), 200),
        ("applicationId=".to_owned(), 400),
        ("applicationId=x".to_owned(), 400),
        (format!("applicationId={id}&applicationId={id}"), 400),
        ("limit=1.5".to_owned(), 400),
        ("limit=".to_owned(), 400),
        ("limit=4294967296".to_owned(), 400),
        ("unknown=&unknown=".to_owned(), 200),
    ] {
        let reply = client.ask("GET", &format!("{at}?{query}"), &Value::Null);
        assert_eq!(reply.status(), status, "{query}: {}", reply.text());
    }
    // A whole number may be written with a fraction of nothing.
    let keys = format!("/api/am/devportal/v3/applications/{id}/api-keys/PRODUCTION/generate");
    for (period, status) in [("60.0", 200), ("-1.0", 200), ("60.5", 400), ("1e30", 400)] {
        let wish = serde_json::from_str(&format!("{{\"validityPeriod\":{period}}}")).unwrap();
        assert_eq!(client.ask("POST", &keys, &wish).status(), status, "{period}");
    }
    let head =
        format!("HEAD {at} HTTP/1.1\r\nHost: a\r\nAuthorization: {}\r\n\r\n", client.authorization);
    let reply = Wire::connect(address(&gateway)).ask(head);
    assert_eq!((reply.status(), reply.get("content-type")), (200, Some("application/json")));
}

/// Wrong secrets in the short form; `TIDEGATE_SOAK_GUESSES=1000000` makes it the long one.
const GUESSES: u32 = 6_000;

/// Wrong secrets from each address: more than the 100 that are checked.
const OF_ADDRESS: u32 = 120;

#[test]
fn wrong_secrets_from_everywhere_cost_little_memory_and_others_get_tokens() {
    let number = std::env::var("TIDEGATE_SOAK_GUESSES");
    let number: u32 = number.map_or(GUESSES, |text| text.parse().unwrap());
    let gateway = start();
    let client = log_in(&gateway, "admin", "admin");
    let (_, key, secret) = application(&client, "app", "Unlimited");
    let mut own = Elsewhere::connect(&gateway, Ipv4Addr::new(127, 0, 0, 9));
    assert_eq!(own.ask(&key, &secret), 200);
    let before = gateway.resident_bytes();
    let (begin, is_over) = (Instant::now(), AtomicBool::new(false));
    let next = AtomicU32::new(0);
    let (looked_at, slowed) = (AtomicU32::new(0), AtomicU32::new(0));
    let (tokens, slowest) = thread::scope(|scope| {
        let (gateway, next, is_over, looked_at, slowed) =
            (&gateway, &next, &is_over, &looked_at, &slowed);
        let other = scope.spawn(move || {
            let (mut tokens, mut slowest) = (0, Duration::ZERO);
            while !is_over.load(Ordering::SeqCst) {
                let begin = Instant::now();
                assert_eq!(own.ask(&key, &secret), 200, "another client gets its tokens");
                slowest = slowest.max(begin.elapsed());
                tokens += 1;
                thread::sleep(Duration::from_millis(10));
            }
            (tokens, slowest)
        });
        let guessers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(move || {
                    loop {
                        let address = next.fetch_add(1, Ordering::SeqCst);
                        let first = address * OF_ADDRESS;
                        if first >= number {
                            return;
                        }
                        // Networks of 127.1.0.0 and above.
                        let from = Ipv4Addr::from_bits(0x7f01_0001 + address);
                        let mut guesser = Elsewhere::connect(gateway, from);
                        for guess in first..(first + OF_ADDRESS).min(number) {
                            match guesser.ask(&format!("nobody{guess}"), "wrong") {
                                401 => looked_at.fetch_add(1, Ordering::SeqCst),
                                429 => slowed.fetch_add(1, Ordering::SeqCst),
                                other => panic!("{other}"),
                            };
                        }
                    }
                })
            })
            .collect();
        let _over = Over(is_over);
        guessers.into_iter().for_each(|guesser| guesser.join().unwrap());
        is_over.store(true, Ordering::SeqCst);
        other.join().unwrap()
    });
    let (looked_at, slowed) = (looked_at.into_inner(), slowed.into_inner());
    assert_eq!(looked_at + slowed, number);
    let grown = gateway.resident_bytes().saturating_sub(before);
    println!(
        "{number} wrong secrets in {:?}: {looked_at} looked at, {slowed} refused unchecked, {} KiB more; another client got {tokens} tokens, \
         the slowest in {slowest:?}",
        begin.elapsed(),
        grown >> 10
    );
    assert!(tokens > 0);
    // The first 100 of each address are checked, however many names the others invent. The last address may have had fewer.
    let last = (number % OF_ADDRESS).saturating_sub(100);
    assert_eq!(slowed, number / OF_ADDRESS * (OF_ADDRESS - 100) + last);
    // The table of guesses, and the memory that the allocator keeps.
    assert!(grown <= 48 << 20, "{grown} bytes more");
}

/// Ends the other client, also where the test has failed.
struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A connection from another loopback address.
struct Elsewhere(Wire);

impl Elsewhere {
    fn connect(gateway: &Gateway, from: Ipv4Addr) -> Elsewhere {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&SocketAddr::from((from, 0)).into()).unwrap();
        socket.connect(&address(gateway).into()).unwrap();
        Elsewhere(Wire::from(std::net::TcpStream::from(socket)))
    }

    /// The status of a request for a token.
    fn ask(&mut self, key: &str, secret: &str) -> u16 {
        let body = "grant_type=client_credentials";
        let head = format!(
            "POST /oauth2/token HTTP/1.1\r\nHost: localhost\r\nAuthorization: {}\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            basic(key, secret),
            body.len()
        );
        self.0.ask(head).status()
    }
}

#[test]
fn an_api_key_outlives_the_rotation_of_the_key_that_signed_it() {
    let origin = Origin::saying("ok");
    let clock = Clock::new();
    let gateway = Gateway::start_by(&clock, quiet());
    let client = log_in(&gateway, "admin", "admin");
    let mut wish = definition("echo", &origin);
    wish["securityScheme"] = json!(["oauth2", "api_key"]);
    let api = publish(&client, &wish);
    let (id, ..) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let at = format!("/api/am/devportal/v3/applications/{id}/api-keys/PRODUCTION/generate");
    let key = client.done("POST", &at, &json!({ "validityPeriod": -1 }), 200)["apikey"]
        .as_str()
        .unwrap()
        .to_owned();
    let ask = |gateway: &Gateway| {
        let head = format!("GET /echo/1.0.0/a HTTP/1.1\r\nHost: a\r\napikey: {key}\r\n\r\n");
        gateway.wire().ask(head).status()
    };
    assert_eq!(ask(&gateway), 200);
    let keys = |gateway: &Gateway| {
        let reply = Wire::connect(address(gateway)).get("/oauth2/jwks");
        read(&reply)["keys"].as_array().unwrap().len()
    };
    // Three years later a key has signed since that has signed nothing for long.
    clock.set(3 * 365 * 86_400);
    gateway.signal(Signal::TERM);
    gateway.wait_for_exit();
    let again = gateway.restart_by(&clock);
    until("a new key is there", || keys(&again) == 2);
    assert_eq!(ask(&again), 200);
    clock.set(6 * 365 * 86_400);
    again.signal(Signal::TERM);
    again.wait_for_exit();
    let third = again.restart_by(&clock);
    until("a third key is there", || keys(&third) == 3);
    clock.set(6 * 365 * 86_400 + 2 * 86_400);
    third.signal(Signal::TERM);
    third.wait_for_exit();
    let last = third.restart_by(&clock);
    until("the key that signed only short tokens is gone", || keys(&last) == 2);
    assert_eq!(ask(&last), 200);
}

#[test]
fn gateways_read_what_others_have_changed_and_a_deployment_stays() {
    let server = Postgres::start();
    let (first, second) = (Origin::saying("first"), Origin::saying("second"));
    let yaml = in_database(&quiet(), &server);
    let (one, other) = (Gateway::start(&yaml), Gateway::start(&yaml));
    let client = log_in(&one, "admin", "admin");
    let api = publish(&client, &definition("echo", &first));
    let (id, key, secret) = application(&client, "app", "Unlimited");
    subscribe(&client, &api, &id, "Gold");
    let token = access(&one, &key, &secret);
    let text = |gateway: &Gateway| call(gateway, "/echo/1.0.0/", &token).text();
    until("both serve it", || text(&one) == "first" && text(&other) == "first");
    let there = Client { gateway: &other, authorization: client.authorization.clone() };
    for round in 0..6 {
        let (origin, wanted) = if round % 2 == 0 { (&second, "second") } else { (&first, "first") };
        let by = if round % 3 == 0 { &there } else { &client };
        let at = format!("/api/am/publisher/v4/apis/{api}");
        until("the other's change can be followed by one of here", || {
            by.ask("PUT", &at, &definition("echo", origin)).status() == 200
        });
        let revision = by.done("POST", &format!("{at}/revisions"), &json!({}), 201)["id"]
            .as_str()
            .unwrap()
            .to_owned();
        by.done("POST", &format!("{at}/deploy-revision?revisionId={revision}"), &json!([]), 201);
        assert_eq!(text(by.gateway), wanted, "round {round}");
        let old =
            by.done("GET", &format!("{at}/revisions?query=deployed:false"), &Value::Null, 200);
        for old in old["list"].as_array().unwrap() {
            by.done(
                "DELETE",
                &format!("{at}/revisions/{}", old["id"].as_str().unwrap()),
                &Value::Null,
                200,
            );
        }
        until("the other follows", || text(&one) == wanted && text(&other) == wanted);
        let begin = std::time::Instant::now();
        while begin.elapsed() < std::time::Duration::from_millis(600) {
            assert_eq!(
                (text(&one).as_str(), text(&other).as_str()),
                (wanted, wanted),
                "no older bundle comes back"
            );
        }
    }
}
