//! Keys that change while a gateway runs: clients with valid credentials are served, whatever an issuer or a file contains
//! meanwhile.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::harness::{Gateway, Origin, Plain, until};
use crate::reload::put_ok;
use crate::tokens::{EC, Key, P256, P384, jwks};

/// A rotation that refuses for longer is an outage.
const REFUSED_MAX: Duration = Duration::from_secs(5);

/// An issuer whose answer changes.
struct Issuer {
    answer: Arc<Mutex<String>>,
    origin: Origin,
}

fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

impl Issuer {
    fn new(keys: &[&Key]) -> Issuer {
        let answer = Arc::new(Mutex::new(answer("200 OK", &jwks(keys))));
        let says = answer.clone();
        let origin = Origin::start(move |peer| {
            while peer.request().is_some() {
                let answer = says.lock().unwrap().clone();
                if answer.is_empty() || !peer.try_send(answer) {
                    return;
                }
            }
        });
        Issuer { answer, origin }
    }

    /// Its answer from now on. An empty one hangs up.
    fn says(&self, answer: String) {
        *self.answer.lock().unwrap() = answer;
    }

    fn publishes(&self, keys: &[Value]) {
        self.says(answer("200 OK", &json!({ "keys": keys }).to_string()));
    }

    /// Waits until it was read again since now.
    fn is_read_again(&self) {
        let before = self.origin.requests().len();
        until("the keys are read again", || self.origin.requests().len() >= before + 2);
    }
}

fn yaml(origin: &Origin, issuer: &Issuer, more: &str) -> String {
    let url = issuer.origin.url();
    let issuers = format!(
        "issuers: {{ main: {{ issuer: \"https://idp.test\", jwks: \"{url}/keys\", {more} }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}"
    );
    let route = "policies: [{ jwt: { issuers: [main] } }]";
    Plain { route, more: &issuers, ..Plain::default() }.yaml(origin)
}

fn status(gateway: &Gateway, key: &Key) -> u16 {
    let token = key.token(&json!({}));
    let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
    gateway.wire().ask(request).status()
}

/// An issuer that was set up again, or restored, has other keys by the names of the ones before.
#[test]
fn another_key_under_the_same_name_is_taken_at_once() {
    let [first, second, third] = [(); 3].map(|()| Key::on(&P256, "one"));
    let (origin, issuer) = (Origin::saying("ok"), Issuer::new(&[&first]));
    let gateway = Gateway::start(yaml(&origin, &issuer, ""));
    assert_eq!((status(&gateway, &first), status(&gateway, &second)), (200, 401));
    for (old, new) in [(&first, &second), (&second, &third)] {
        issuer.publishes(&[new.jwk()]);
        let changed = Instant::now();
        until("the new key is known", || status(&gateway, new) == 200);
        assert!(changed.elapsed() < REFUSED_MAX, "{:?}", changed.elapsed());
        assert_eq!(status(&gateway, old), 401, "the old key is gone");
    }
    // Forged tokens with a name that is known make the gateway read once a second.
    let (before, began) = (issuer.origin.requests().len(), Instant::now());
    while began.elapsed() < Duration::from_secs(3) {
        assert_eq!(status(&gateway, &first), 401);
    }
    let count = issuer.origin.requests().len() - before;
    let most = usize::try_from(began.elapsed().as_secs()).unwrap() + 2;
    assert!(count <= most, "{count} readings");
}

/// Some issuers list a key twice, or the old and the new one by one name.
#[test]
fn keys_of_one_name_are_all_tried() {
    let (one, two) = (Key::on(&P256, "same"), Key::on(&P256, "same"));
    let stranger = Key::on(&P256, "same");
    let (origin, issuer) = (Origin::saying("ok"), Issuer::new(&[&one]));
    let gateway = Gateway::start(yaml(&origin, &issuer, "refresh: 1s"));
    for (keys, statuses) in [
        (vec![one.jwk(), one.jwk(), EC.jwk()], [200, 401, 200, 401]),
        (vec![one.jwk(), two.jwk(), EC.jwk()], [200, 200, 200, 401]),
        (vec![two.jwk()], [401, 200, 401, 401]),
    ] {
        issuer.publishes(&keys);
        issuer.is_read_again();
        let found = [&one, &two, &EC, &stranger].map(|key| status(&gateway, key));
        assert_eq!(found, statuses, "{keys:?}");
    }
    gateway.wait_for_log("another key has the same `kid`");
}

#[test]
fn keys_that_cannot_be_read_leave_the_last_good_ones() {
    let key = Key::on(&P256, "one");
    let (origin, issuer) = (Origin::saying("ok"), Issuer::new(&[&key]));
    let gateway = Gateway::start(yaml(&origin, &issuer, "refresh: 200ms, timeout: 1s"));
    assert_eq!(status(&gateway, &key), 200);
    let with = |name: &str, value: &str| {
        let mut jwk = key.jwk();
        jwk[name] = value.into();
        answer("200 OK", &json!({ "keys": [jwk] }).to_string())
    };
    let good = answer("200 OK", &jwks(&[&key]));
    let large = format!("{{\"keys\":[],\"a\":\"{}\"}}", "a".repeat(1 << 20));
    for (bad, said) in [
        (answer("200 OK", "<html>"), "it is not a key set"),
        (answer("200 OK", ""), "it is not a key set"),
        (answer("200 OK", "{\"keys\":[]}"), "it has no key that verifies tokens"),
        (answer("200 OK", "{\"keys\":[{\"kty\":\"EC\"}]}"), "it has no key that verifies tokens"),
        (with("use", "enc"), "it has no key that verifies tokens"),
        (with("alg", "RS256"), "its `alg` is not for this kind of key"),
        (answer("200 OK", &large), "cannot be read"),
        (answer("503 No", ""), "/keys answered 503"),
        (
            "HTTP/1.1 302 Found\r\nLocation: https://other.test/keys\r\nContent-Length: 0\r\n\r\n"
                .to_owned(),
            "/keys answered 302",
        ),
        ("HTTP/1.1 200 OK\r\nContent-Length: 9000\r\n\r\n{\"keys\"".to_owned(), "cannot be read"),
        (String::new(), "cannot be read"),
    ] {
        let logged = gateway.log().len();
        issuer.says(bad);
        until("the log says so", || gateway.log()[logged..].contains(said));
        assert!(gateway.log()[logged..].contains("WARN"), "{said}");
        assert_eq!(status(&gateway, &key), 200, "{said}");
        issuer.says(good.clone());
        let logged = gateway.log().len();
        until("they are read again", || {
            gateway.log()[logged..].contains("the issuer's keys were read")
        });
    }
}

/// A key that is left out causes tokens to be refused, so the log names it with the reason.
#[test]
fn each_key_that_cannot_be_used_is_told() {
    let origin = Origin::saying("ok");
    let jwk = |name: &str, changes: Value| {
        let mut jwk = Key::on(&P384, name).jwk();
        for (member, value) in changes.as_object().unwrap() {
            jwk[member] = value.clone();
        }
        jwk
    };
    let issuer = Issuer::new(&[&EC]);
    issuer.publishes(&[
        EC.jwk(),
        jwk("mismatched", json!({ "alg": "RS256" })),
        json!({ "kty": "RSA", "kid": "short", "n": "AQAB", "e": "AQAB" }),
        jwk("cut", json!({ "x": "AQAB" })),
        jwk("strange", json!({ "alg": "XS256" })),
        jwk("encrypts", json!({ "use": "enc" })),
    ]);
    let gateway = Gateway::start(yaml(&origin, &issuer, ""));
    assert_eq!(status(&gateway, &EC), 200);
    gateway.wait_for_log("the issuer's keys were read");
    for name in ["mismatched", "short", "cut", "strange"] {
        until("the log tells it", || {
            let log = gateway.log();
            let mut warnings = log.lines().filter(|line| line.contains("WARN"));
            warnings.any(|line| line.contains(name) && line.contains("a key was ignored"))
        });
    }
    // A key that is not for tokens is nothing unusual.
    assert!(!gateway.log().contains("encrypts"));
}

/// A change of a timeout also works while the issuer is unavailable.
#[test]
fn a_reload_keeps_the_keys_of_an_issuer_that_is_away() {
    let (origin, issuer) = (Origin::saying("ok"), Issuer::new(&[&EC]));
    let gateway = Gateway::start(yaml(&origin, &issuer, ""));
    assert_eq!(status(&gateway, &EC), 200);
    issuer.says(String::new());
    for more in ["refresh: 10m", "timeout: 1s", "leeway: 5s"] {
        put_ok(&gateway, &yaml(&origin, &issuer, more));
        assert_eq!(status(&gateway, &EC), 200, "{more}");
    }
    // Another place is another issuer.
    let elsewhere = yaml(&origin, &issuer, "timeout: 1s").replace("/keys", "/others");
    put_ok(&gateway, &elsewhere);
    assert_eq!(status(&gateway, &EC), 503);
}

/// Two issuers whose keys have the same id: each key is only used for its own issuer.
#[test]
fn issuers_that_share_a_name_of_a_key_do_not_share_the_key() {
    let (one, two) = (Key::on(&P256, "shared"), Key::on(&P256, "shared"));
    let (origin, first, second) =
        (Origin::saying("ok"), Issuer::new(&[&one]), Issuer::new(&[&two]));
    let issuers = format!(
        "issuers:\n  first: {{ issuer: \"https://first.test\", jwks: \"{}/keys\" }}\n  second: {{ issuer: \"https://second.test\", jwks: \"{}/keys\" }}",
        first.origin.url(),
        second.origin.url()
    );
    let route = "policies: [{ jwt: { issuers: [first, second] } }]";
    let gateway = Gateway::start(Plain { route, more: &issuers, ..Plain::default() }.yaml(&origin));
    let ask = |key: &Key, issuer: &str| {
        let token = key.token(&json!({ "iss": issuer }));
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        gateway.wire().ask(request).status()
    };
    let (a, b) = ("https://first.test", "https://second.test");
    for _ in 0..2 {
        let found =
            [ask(&one, a), ask(&two, b), ask(&one, b), ask(&two, a), ask(&one, "https://idp.test")];
        assert_eq!(found, [200, 200, 401, 401, 401]);
    }
    // The one rotates to a key of the other's name, and then to the other's own key.
    let third = Key::on(&P256, "shared");
    first.publishes(&[third.jwk()]);
    until("the new key is known", || ask(&third, a) == 200);
    let found = [ask(&one, a), ask(&two, b), ask(&third, b), ask(&two, a)];
    assert_eq!(found, [401, 200, 401, 401]);
}

/// An issuer that rotates its key and then hangs: known keys are accepted without delay, a token of the new key waits at most for
/// `timeout`, and one of an unknown key delays no other request. Once the issuer answers, the new key is accepted.
#[test]
fn an_issuer_that_stalls_during_a_rotation_stalls_nobody_else() {
    let (old, new) = (Key::on(&P256, "old"), Key::on(&P256, "new"));
    let answers = Arc::new(Mutex::new(answer("200 OK", &jwks(&[&old]))));
    let stalls = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let (says, silent) = (answers.clone(), stalls.clone());
    let server = Origin::start(move |peer| {
        while peer.request().is_some() {
            while silent.load(std::sync::atomic::Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            let answer = says.lock().unwrap().clone();
            if !peer.try_send(answer) {
                return;
            }
        }
    });
    let issuer = Issuer { answer: answers, origin: server };
    let origin = Origin::saying("ok");
    let gateway = Gateway::start(yaml(&origin, &issuer, "refresh: 1s, timeout: 2s"));
    assert_eq!(status(&gateway, &old), 200);
    stalls.store(true, std::sync::atomic::Ordering::SeqCst);
    let timed = |key: &Key| {
        let began = Instant::now();
        (status(&gateway, key), began.elapsed())
    };
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..8).map(|_| scope.spawn(|| timed(&new))).collect();
        for _ in 0..20 {
            let (found, took) = timed(&old);
            assert_eq!(found, 200);
            assert!(took < Duration::from_millis(1000), "{took:?}");
        }
        for waiting in waiting {
            let (found, took) = waiting.join().unwrap();
            assert!([401, 503].contains(&found), "{found}");
            assert!(took < Duration::from_secs(6), "{took:?}");
        }
    });
    issuer.publishes(&[old.jwk(), new.jwk()]);
    stalls.store(false, std::sync::atomic::Ordering::SeqCst);
    until("the new key is known", || status(&gateway, &new) == 200);
    assert_eq!(status(&gateway, &old), 200);
}
