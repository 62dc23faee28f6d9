//! Keys of issuers: curves, where they are published, and issuers that are slow or strangers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

use serde_json::json;

use crate::harness::{Authority, Gateway, Message, Origin, Plain, until};
use crate::tokens::{EC, Key, P256, P384, P521, jwks, now};

/// A gateway that requires tokens of an issuer with these keys.
fn start(origin: &Origin, keys: &str, files: &[(&str, &str)]) -> Gateway {
    let issuers = format!("issuers: {{ main: {{ issuer: \"https://idp.test\", {keys} }} }}");
    let route = "policies: [{ jwt: { issuers: [main] } }]";
    let yaml = Plain { route, more: &issuers, ..Plain::default() }.yaml(origin);
    Gateway::start_beside(yaml, files)
}

fn ask(gateway: &Gateway, token: &str) -> Message {
    gateway
        .wire()
        .ask(format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"))
}

#[test]
fn every_curve_signs_with_its_own_algorithm_only() {
    let origin = Origin::saying("ok");
    let keys = [&P256, &P384, &P521].map(|curve| Key::on(curve, "one"));
    let payload = json!({ "iss": "https://idp.test", "exp": now() + 60 }).to_string();
    for (at, key) in keys.iter().enumerate() {
        let gateway = start(
            &origin,
            "keys: [a.jwks, b.pem]",
            &[("a.jwks", &jwks(&[key])), ("b.pem", &EC.pem())],
        );
        assert_eq!(ask(&gateway, &key.token(&json!({}))).status(), 200, "{at}");
        for algorithm in ["ES256", "ES384", "ES512", "RS256", "EdDSA", "HS256", "none"] {
            let header = json!({ "alg": algorithm, "kid": "one" }).to_string();
            let good = algorithm == ["ES256", "ES384", "ES512"][at];
            let status = ask(&gateway, &key.sign(&header, &payload)).status();
            assert_eq!(status == 200, good, "{at} {algorithm}");
        }
        let other = &keys[(at + 1) % keys.len()];
        assert_eq!(ask(&gateway, &other.token(&json!({}))).status(), 401, "{at}");
    }
}

/// An issuer with TLS and these keys.
fn issuer_over_tls(authority: &Authority, clients: Option<&Authority>) -> Origin {
    let body = jwks(&[&EC]);
    Origin::start_tls(authority.server("localhost", clients), move |peer| {
        while peer.request().is_some() {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            peer.try_send(head + &body);
        }
    })
}

#[test]
fn keys_are_read_over_tls_from_whom_the_authority_vouches_for() {
    let origin = Origin::saying("ok");
    let (authority, stranger) = (Authority::new(), Authority::new());
    let us = authority.issue("gate");
    let files = [
        ("ca.pem", authority.pem()),
        ("stranger.pem", stranger.pem()),
        ("us.pem", us.certificate.clone()),
        ("us.key", us.key.clone()),
    ];
    let files: Vec<(&str, &str)> =
        files.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let token = EC.token(&json!({}));
    for (mutual, tls, status) in [
        (false, "ca: ca.pem", 200),
        (false, "ca: stranger.pem", 503),
        (false, "verify: true", 503),
        (true, "ca: ca.pem", 503),
        (true, "ca: ca.pem, certificate: us.pem, key: us.key", 200),
    ] {
        let idp = issuer_over_tls(&authority, mutual.then_some(&authority));
        let url = format!("https://localhost:{}/jwks.json", idp.address().port());
        let keys = format!("jwks: \"{url}\", tls: {{ {tls} }}, timeout: 2s");
        let gateway = start(&origin, &keys, &files);
        assert_eq!(ask(&gateway, &token).status(), status, "{mutual} {tls}");
    }
}

#[test]
fn an_issuer_that_never_answers_holds_nobody_up_for_longer_than_its_deadline() {
    let origin = Origin::saying("ok");
    // It reads the request and does not answer.
    let idp = Origin::start(|peer| while peer.request().is_some() {});
    let keys = format!("jwks: \"{}/jwks.json\", timeout: 2s", idp.url());
    let gateway = Arc::new(start(&origin, &keys, &[]));
    let token = EC.token(&json!({}));
    let began = Instant::now();
    let asking: Vec<_> = (0..20)
        .map(|_| {
            let (gateway, token) = (gateway.clone(), token.clone());
            thread::spawn(move || ask(&gateway, &token).status())
        })
        .collect();
    for asked in asking {
        assert_eq!(asked.join().unwrap(), 503);
    }
    // Its deadline, a pause between two readings and a busy machine.
    assert!(began.elapsed().as_secs() < 10, "{:?}", began.elapsed());
    assert!(idp.requests().len() < 10, "{} readings", idp.requests().len());
    gateway.wait_for_log("the issuer's keys cannot be read");
    // Others are served meanwhile, and a text that is not a token is refused at once.
    let began = Instant::now();
    assert_eq!(ask(&gateway, "garbage").status(), 401);
    assert!(began.elapsed().as_millis() < 1000, "{:?}", began.elapsed());
    until("nobody waits any more", || ask(&gateway, &token).status() == 503);
}

/// The reply of WSO2 API Manager's router when its enforcer does not answer. The token may be one of the failed
/// issuer, whatever its position in the list.
#[test]
fn a_token_that_one_of_two_issuers_could_not_be_asked_about_is_not_refused() {
    let origin = Origin::saying("ok");
    let down = Origin::start(|peer| drop(peer.request()));
    let up = Origin::start(|peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{\"active\":false}");
        }
    });
    let issuer = |idp: &Origin| {
        format!(
            "{{ introspection: {{ url: \"{}/\", client_id: a, client_secret: b }} }}",
            idp.url()
        )
    };
    let issuers = format!("issuers: {{ in1: {}, in2: {} }}", issuer(&down), issuer(&up));
    for order in ["in1, in2", "in2, in1"] {
        let route = format!("policies: [{{ jwt: {{ issuers: [{order}] }} }}]");
        let gateway = Plain { route: &route, more: &issuers, ..Plain::default() }.start(&origin);
        assert_eq!(ask(&gateway, "opaque").status(), 503, "{order}");
    }
}

#[test]
fn an_issuer_that_cannot_be_asked_is_told_apart_and_asked_again() {
    let origin = Origin::saying("ok");
    let up = Arc::new(AtomicBool::new(false));
    let is_up = up.clone();
    let idp = Origin::start(move |peer| {
        while peer.request().is_some() {
            let body = if is_up.load(Ordering::SeqCst) {
                json!({ "active": true, "sub": "ann" }).to_string()
            } else {
                // It hangs up without a word.
                return;
            };
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}", body.len()));
        }
    });
    let issuers = format!(
        "issuers: {{ main: {{ introspection: {{ url: \"{}/introspect\", client_id: a, client_secret: b }} }} }}",
        idp.url()
    );
    let route = "errors: wso2, policies: [{ jwt: { issuers: [main] } }]";
    let gateway = Plain { route, more: &issuers, ..Plain::default() }.start(&origin);
    for _ in 0..2 {
        let reply = ask(&gateway, "opaque");
        let said: serde_json::Value = serde_json::from_str(&reply.text()).unwrap();
        assert_eq!(
            (reply.status(), said["code"].to_string().trim_matches('"')),
            (500, "102500"),
            "{said}"
        );
        assert_eq!(reply.get("www-authenticate"), None, "the token may be good");
    }
    assert!(origin.requests().is_empty());
    gateway.wait_for_log("the issuer cannot be reached");
    up.store(true, Ordering::SeqCst);
    assert_eq!(ask(&gateway, "opaque").status(), 200);
}
