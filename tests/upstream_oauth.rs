//! `upstreams.NAME.oauth`: tokens for an upstream, their renewal, and token endpoints that do not work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::harness::{ClosedPort, Gate, Gateway, Origin, Plain, tidegate, until};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
const REFUSED: &str = "HTTP/1.1 401 Unauthorized\r\nContent-Length: 2\r\n\r\nno";

fn reply(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn token(text: &str, seconds: u32) -> String {
    let body =
        format!(r#"{{"access_token":"{text}","token_type":"bearer","expires_in":{seconds}}}"#);
    reply("200 OK", &body)
}

/// A token endpoint whose tokens are `t1`, `t2` and so on.
fn issuer(seconds: u32) -> Origin {
    let count = AtomicUsize::new(0);
    Origin::start(move |peer| {
        while peer.request().is_some() {
            let number = count.fetch_add(1, Ordering::SeqCst) + 1;
            peer.send(token(&format!("t{number}"), seconds));
        }
    })
}

fn yaml(origin: &Origin, endpoint: &str, more: &str) -> String {
    let upstream = format!(
        "oauth: {{ token_url: \"{endpoint}/token?x=1\", client_id: \"id:1\", client_secret: \"hunter 2&\", {more} }}"
    );
    Plain { upstream: &upstream, more: "admin: { address: \"127.0.0.1:0\" }", ..Plain::default() }
        .yaml(origin)
}

#[track_caller]
fn gateway(origin: &Origin, endpoint: &str, more: &str) -> Gateway {
    Gateway::start(yaml(origin, endpoint, more))
}

/// The tokens that the upstream got.
fn tokens(origin: &Origin) -> Vec<String> {
    let sent = origin.requests();
    sent.iter().map(|request| request.all("authorization").join(" and ")).collect()
}

#[test]
fn an_upstream_with_a_user_gets_that_user_and_no_other() {
    let origin = Origin::saying("ok");
    let basic = "basic: { username: ann, password: \"hunter 2:&\" }";
    let more = "admin: { address: \"127.0.0.1:0\" }";
    let gateway = Gateway::start(Plain { upstream: basic, more, ..Plain::default() }.yaml(&origin));
    let asked = gateway.wire().ask("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer x\r\n\r\n");
    assert_eq!(asked.status(), 200);
    assert_eq!(origin.request().all("authorization"), ["Basic YW5uOmh1bnRlciAyOiY="]);
    for path in ["/plan", "/upstreams", "/upstreams/origin"] {
        let shown = gateway.admin_get(path).text();
        assert!(!shown.contains("hunter") && !shown.contains("YW5uOm"), "{path}: {shown}");
    }
    for (keys, complaint) in [
        ("{ username: \"a:b\", password: c }", "contain colons"),
        ("{ username: \"\", password: c }", "must not be empty"),
        ("{ username: a }", "`password`"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.yaml");
        let upstream = format!("basic: {keys}");
        std::fs::write(&path, Plain { upstream: &upstream, ..Plain::default() }.yaml(&origin))
            .unwrap();
        let run = tidegate(&["check", path.to_str().unwrap()]);
        assert!(run.code == Some(1) && run.stderr.contains(complaint), "{keys}: {run:?}");
    }
}

#[test]
fn each_request_carries_the_token_that_is_fetched_once() {
    let (origin, issuer) = (Origin::saying("ok"), issuer(3600));
    let gateway = gateway(&origin, &issuer.url(), "");
    let mut wire = gateway.wire();
    for _ in 0..3 {
        let asked = wire.ask("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic eDp5\r\n\r\n");
        assert_eq!(asked.status(), 200);
    }
    assert_eq!(tokens(&origin), ["Bearer t1"; 3]);
    let told = issuer.request();
    assert_eq!((told.method(), told.target()), ("POST", "/token?x=1"));
    assert_eq!(told.get("content-type"), Some("application/x-www-form-urlencoded"));
    assert_eq!(told.text(), "grant_type=client_credentials");
    // RFC 6749, 2.3.1: `id%3A1:hunter%202%26`.
    assert_eq!(told.get("authorization"), Some("Basic aWQlM0ExOmh1bnRlciUyMDIlMjY="));
    let shown =
        ["/config", "/plan", "/upstreams", "/routes"].map(|path| gateway.admin_get(path).text());
    for text in shown.iter().skip(1).chain([&gateway.output()]) {
        for secret in ["hunter", "t1\"", "Bearer"] {
            assert!(!text.contains(secret), "{secret}: {text}");
        }
    }
}

#[test]
fn the_body_has_scopes_parameters_and_the_client_where_it_is_to() {
    let (origin, issuer) = (Origin::saying("ok"), issuer(3600));
    let more = "authentication: body, scopes: [read, \"a:b\"], parameters: { audience: \"https://x/?a=b&c\" }";
    let gateway = gateway(&origin, &issuer.url(), more);
    assert_eq!(gateway.wire().get("/").status(), 200);
    let told = issuer.request();
    assert_eq!(told.get("authorization"), None);
    assert_eq!(
        told.text(),
        "grant_type=client_credentials&scope=read%20a%3Ab&audience=https%3A%2F%2Fx%2F%3Fa%3Db%26c\
         &client_id=id%3A1&client_secret=hunter%202%26"
    );
}

#[test]
fn requests_that_wait_share_one_fetch() {
    let (origin, gate) = (Origin::saying("ok"), Gate::default());
    let held = gate.clone();
    let issuer = Origin::start(move |peer| {
        while peer.request().is_some() {
            held.wait();
            peer.send(token("t1", 3600));
        }
    });
    let gateway = Arc::new(gateway(&origin, &issuer.url(), ""));
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let gateway = gateway.clone();
            thread::spawn(move || gateway.wire().get("/").status())
        })
        .collect();
    issuer.wait_for_requests(1);
    gate.open();
    for asked in asking {
        assert_eq!(asked.join().unwrap(), 200);
    }
    assert_eq!((issuer.requests().len(), tokens(&origin).len()), (1, 20));
}

#[test]
fn a_token_is_replaced_ahead_of_its_end_while_requests_go_on() {
    let (origin, issuer) = (Origin::saying("ok"), issuer(4));
    let gateway = gateway(&origin, &issuer.url(), "");
    let mut wire = gateway.wire();
    until("the third token is in use", || {
        assert_eq!(wire.get("/").status(), 200);
        tokens(&origin).last().is_some_and(|last| last == "Bearer t3")
    });
    // Half of its lifetime, and not more often.
    assert_eq!(issuer.requests().len(), 3);
}

#[test]
fn an_endpoint_that_is_away_is_503_until_it_is_back() {
    let origin = Origin::saying("ok");
    let closed = ClosedPort::any();
    let gateway = gateway(&origin, &format!("http://{}", closed.address), "");
    let mut wire = gateway.wire();
    let refused = wire.get("/");
    assert_eq!((refused.status(), refused.get("retry-after")), (503, Some("1")));
    assert!(refused.text().contains("\"fault\":\"token_unavailable\""), "{refused:?}");
    assert!(!refused.text().contains("127.0.0.1"), "{refused:?}");
    gateway.wait_for_log("the access token could not be fetched: ");
    assert_eq!(origin.requests().len(), 0);
    let listener = std::net::TcpListener::bind(closed.address).unwrap();
    let _issuer = Origin::start_on(listener, |peer| {
        while peer.request().is_some() {
            peer.send(token("back", 60));
        }
    });
    until("there is a token", || wire.get("/").status() == 200);
    gateway.wait_for_log("there is an access token again");
    assert_eq!(tokens(&origin), ["Bearer back"]);
}

#[test]
fn answers_that_are_not_tokens_are_refused_with_the_reason() {
    let long = format!(r#"{{"access_token":"{}"}}"#, "a".repeat(16 * 1024 + 1));
    let huge = format!(r#"{{"access_token":"a","x":"{}"}}"#, "a".repeat(64 * 1024));
    let deep = format!(r#"{{"access_token":"a","x":{}1{}}}"#, "[".repeat(5000), "]".repeat(5000));
    for (answer, why) in [
        (reply("200 OK", "hello"), "not a JSON object"),
        (reply("200 OK", ""), "not a JSON object"),
        (reply("200 OK", "[]"), "not a JSON object"),
        (reply("200 OK", &deep), "not a JSON object"),
        (reply("200 OK", "{}"), "returns no `access_token`"),
        (reply("200 OK", r#"{"access_token":1}"#), "returns no `access_token`"),
        (reply("200 OK", r#"{"access_token":""}"#), "not a bearer token"),
        (reply("200 OK", r#"{"access_token":"a\r\nX-Evil: 1"}"#), "not a bearer token"),
        (reply("200 OK", &long), "not a bearer token"),
        (reply("200 OK", &huge), "over 65536"),
        (reply("200 OK", r#"{"access_token":"a","token_type":"mac"}"#), "not `Bearer`"),
        (reply("200 OK", r#"{"access_token":"a","expires_in":0}"#), "has already expired"),
        (reply("200 OK", r#"{"access_token":"a","expires_in":-5}"#), "not a number of seconds"),
        (reply("200 OK", r#"{"access_token":"a","expires_in":{}}"#), "not a number of seconds"),
        (reply("200 OK", r#"{"access_token":"a","access_token":"b"}"#), "not a JSON object"),
        (
            reply("401 Unauthorized", r#"{"error":"invalid_client"}"#),
            "answered 401: invalid_client",
        ),
        (
            reply("400 Bad Request", r#"{"error":"a\nlevel=ERROR"}"#),
            "answered 400: a\\nlevel=ERROR",
        ),
        (reply("302 Found", ""), "answered 302"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{".to_owned(), "closed"),
        ("nonsense".to_owned(), ""),
    ] {
        let origin = Origin::saying("ok");
        let answer = Arc::new(answer);
        let said = answer.clone();
        let issuer = Origin::start(move |peer| {
            peer.request();
            peer.try_send(said.as_bytes());
        });
        let gateway = gateway(&origin, &issuer.url(), "");
        let refused = gateway.wire().get("/");
        assert_eq!(refused.status(), 503, "{answer}");
        gateway.wait_for_log("the access token could not be fetched: ");
        let log = gateway.log();
        // A log escapes what others wrote.
        assert!(log.replace("\\\\", "\\").contains(why), "{answer}: {why}\n{log}");
        assert_eq!(origin.requests().len(), 0, "{answer}");
    }
}

#[test]
fn an_endpoint_that_is_silent_costs_its_timeout_and_then_nothing() {
    let (origin, issuer) = (Origin::saying("ok"), Origin::silent());
    let gateway = gateway(&origin, &issuer.url(), "timeout: 200ms");
    let mut wire = gateway.wire();
    // The second one finds that it has just failed.
    for _ in 0..2 {
        assert_eq!(wire.get("/").status(), 503);
    }
    assert_eq!(issuer.accepted(), 1);
}

#[test]
fn a_token_that_the_upstream_refuses_is_replaced_once() {
    let issuer = issuer(3600);
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let good = request.get("authorization") == Some("Bearer t2");
            peer.send(if good { OK } else { REFUSED });
        }
    });
    let gateway = gateway(&origin, &issuer.url(), "");
    let post = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello";
    assert_eq!(gateway.wire().ask(post).status(), 200);
    assert_eq!(tokens(&origin), ["Bearer t1", "Bearer t2"]);
    let sent = origin.requests();
    assert_eq!((sent[0].text(), sent[1].text()), ("hello".to_owned(), "hello".to_owned()));
    gateway.wait_for_log("the upstream refuses its access token");
}

#[test]
fn an_upstream_that_refuses_every_token_gets_the_last_word() {
    let (issuer, origin) = (issuer(3600), Origin::answering(REFUSED));
    let gateway = gateway(&origin, &issuer.url(), "");
    let mut wire = gateway.wire();
    for _ in 0..10 {
        assert_eq!(wire.get("/").status(), 401);
    }
    // One fetch a second at most, so ten requests in a row do not cause ten.
    assert!(issuer.requests().len() < 10, "{}", issuer.requests().len());
}

#[test]
fn a_reload_keeps_the_token_and_a_new_secret_takes_effect() {
    let (origin, issuer) = (Origin::saying("ok"), issuer(3600));
    let before = yaml(&origin, &issuer.url(), "");
    let gateway = Gateway::start(&before);
    let mut wire = gateway.wire();
    assert_eq!(wire.get("/").status(), 200);
    let more =
        before.replace("routes: {", "routes: { other: { match: { path: /other }, respond: {} }, ");
    gateway.rewrite(&more);
    until("it serves", || wire.get("/other").text().is_empty());
    assert_eq!(wire.get("/").status(), 200);
    gateway.rewrite(more.replace("hunter 2&", "other"));
    until("the new token is in use", || {
        assert_eq!(wire.get("/").status(), 200);
        tokens(&origin).last().is_some_and(|last| last == "Bearer t2")
    });
    assert_eq!(issuer.requests().len(), 2);
}

#[test]
fn calls_of_flows_carry_it_too() {
    let (origin, issuer) = (Origin::saying("ok"), issuer(3600));
    let flow = "flows: { f: [{ call: origin }, { respond: {} }] }\nadmin: ";
    let yaml = yaml(&origin, &issuer.url(), "").replace("upstream: origin", "flow: f");
    let gateway = Gateway::start(yaml.replace("admin: ", flow));
    assert_eq!(gateway.wire().get("/").status(), 200);
    assert_eq!(tokens(&origin), ["Bearer t1"]);
}

#[test]
fn what_cannot_work_is_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    let origin = Origin::saying("ok");
    for (more, part) in [
        ("scopes: [\"a b\"]", "`a b` is not a scope"),
        ("parameters: { scope: a }", "the parameter `scope` cannot be added"),
        ("authentication: digest", "unknown value `digest`"),
        ("lifetime: 0s", ""),
    ] {
        std::fs::write(&file, yaml(&origin, "http://127.0.0.1:1", more)).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{more}: {run:?}");
        assert!(run.stderr.contains(part) && !run.stderr.contains("hunter"), "{more}: {run:?}");
    }
}
