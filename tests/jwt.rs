//! Tokens: their signers, their permissions, the upstream's view, and attacks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::harness::{Gateway, Message, Origin, Peer, tidegate, until};
use crate::tokens::{
    EC, ED, Key, OTHER_EC, RSA, base64, hmac_token, issuer_by_discovery, jwks, now,
};

/// A gateway whose one route asks for tokens; `issuer` and `jwt` are keys in flow style, `more` other keys of the route.
#[track_caller]
fn gateway(origin: &Origin, issuer: &str, jwt: &str, more: &str) -> Gateway {
    Gateway::start_beside(yaml(origin, issuer, jwt, more), &files())
}

fn yaml(origin: &Origin, issuer: &str, jwt: &str, more: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 1
upstreams: {{ origin: {{ targets: ["{}"] }} }}
issuers:
  main: {{ issuer: "https://idp.test", {issuer} }}
routes:
  all:
    match: {{ path: "/**" }}
    policies: [{{ jwt: {{ issuers: [main], {jwt} }} }}]
    upstream: origin
    {more}
telemetry: {{ access_log: {{ format: json }} }}
"#,
        origin.url()
    )
}

fn files() -> [(&'static str, &'static str); 4] {
    let leak = |text: String| -> &'static str { text.leak() };
    [
        ("all.jwks", leak(jwks(&[&RSA, &EC, &ED]))),
        ("rsa.pem", leak(RSA.pem())),
        ("ec.pem", leak(EC.pem())),
        ("pinned.jwk", {
            let mut jwk = RSA.jwk();
            jwk["alg"] = "RS256".into();
            leak(jwk.to_string())
        }),
    ]
}

const KEYS: &str = "keys: [all.jwks]";

fn with(token: &str) -> String {
    format!("GET /a HTTP/1.1\r\nHost: a.test\r\nAuthorization: Bearer {token}\r\n\r\n")
}

#[track_caller]
fn ask(gateway: &Gateway, token: &str) -> Message {
    gateway.wire().ask(with(token))
}

/// A 401 has the challenge of RFC 6750 and nothing else.
#[track_caller]
fn refused(reply: &Message, what: &str) {
    assert_eq!(reply.status(), 401, "{what}: {reply:?}");
    let challenge = reply.get("www-authenticate");
    assert_eq!(challenge, Some("Bearer realm=\"tidegate\", error=\"invalid_token\""), "{what}");
    let body = reply.text().to_lowercase();
    for word in ["signature", "kid", "issuer", "audience", "algorithm", "claim"] {
        assert!(!body.contains(word), "{what}: {body}");
    }
}

#[test]
fn every_algorithm_is_believed_and_the_upstream_sees_no_token() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "", "");
    let payload = json!({ "iss": "https://idp.test", "sub": "a", "exp": now() + 60 }).to_string();
    let mut tokens = vec![EC.token(&json!({})), ED.token(&json!({}))];
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] {
        tokens.push(RSA.sign(&json!({ "alg": algorithm, "kid": "rsa" }).to_string(), &payload));
    }
    // Without a key id, any key of this type may match.
    tokens.push(RSA.sign(r#"{"alg":"RS256"}"#, &payload));
    for token in &tokens {
        // The second time it is one this worker knows.
        for _ in 0..2 {
            assert_eq!(ask(&gateway, token).text(), "ok", "{token}");
        }
    }
    let requests = origin.requests();
    assert_eq!(requests.len(), tokens.len() * 2);
    assert!(requests.iter().all(|request| request.get("authorization").is_none()));
}

#[test]
fn a_bad_token_is_refused_without_a_reason_that_helps() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "audiences: [shop]", "");
    let good = json!({ "aud": "shop" });
    let claims = |claims: Value| {
        let mut all = good.clone();
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        EC.token(&all)
    };
    let payload = json!({
        "iss": "https://idp.test", "sub": "a", "aud": "shop", "exp": now() + 60,
    })
    .to_string();
    let (head, rest) =
        EC.token(&good).split_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let (body, signature) = rest.split_once('.').unwrap();
    let header = |text: &str| EC.sign(text, &payload);
    let none =
        |alg: &str| format!("{}.{}.", base64(json!({ "alg": alg }).to_string()), base64(&payload));
    let cases = [
        ("no JWS", "abc".to_owned()),
        ("empty", String::new()),
        ("two parts", format!("{head}.{body}")),
        ("four parts", format!("{head}.{body}.{signature}.x")),
        ("encrypted", format!("{head}.{body}.{signature}.x.y")),
        ("no signature", format!("{head}.{body}.")),
        ("another's signature", OTHER_EC.sign(r#"{"alg":"ES256","kid":"ec"}"#, &payload)),
        (
            "a changed payload",
            format!("{head}.{}.{signature}", base64(payload.replace("shop", "shap"))),
        ),
        ("padding", format!("{head}.{body}.{signature}=")),
        ("none", none("none")),
        ("None", none("None")),
        (
            "HS256 with the public key as PEM",
            hmac_token(EC.pem().as_bytes(), r#"{"alg":"HS256","kid":"ec"}"#, &payload),
        ),
        (
            "HS256 with the key set",
            hmac_token(jwks(&[&RSA, &EC, &ED]).as_bytes(), r#"{"alg":"HS256"}"#, &payload),
        ),
        ("an algorithm of another kind of key", header(r#"{"alg":"RS256","kid":"ec"}"#)),
        ("an unknown key", header(r#"{"alg":"ES256","kid":"nobody"}"#)),
        ("a path as a key", header(r#"{"alg":"ES256","kid":"../../../dev/null"}"#)),
        ("a query as a key", header(r#"{"alg":"ES256","kid":"ec' OR 1=1 --"}"#)),
        (
            "its own key",
            OTHER_EC.sign(&json!({ "alg": "ES256", "jwk": OTHER_EC.jwk() }).to_string(), &payload),
        ),
        ("an extension", header(r#"{"alg":"ES256","kid":"ec","crit":["exp"]}"#)),
        ("a doubled header", header(r#"{"alg":"none","alg":"ES256","kid":"ec"}"#)),
        (
            "a doubled claim",
            EC.sign(r#"{"alg":"ES256","kid":"ec"}"#, &payload.replacen('{', r#"{"aud":"x","#, 1)),
        ),
        ("no claims", EC.sign(r#"{"alg":"ES256","kid":"ec"}"#, "[]")),
        ("not yet", claims(json!({ "nbf": now() + 60 }))),
        ("no end", claims(json!({ "exp": null }))),
        ("an end that is a text", claims(json!({ "exp": (now() + 60).to_string() }))),
        ("another audience", claims(json!({ "aud": "shop2" }))),
        ("no audience", claims(json!({ "aud": null }))),
        ("another issuer", claims(json!({ "iss": "https://idp.test/" }))),
        ("no issuer", claims(json!({ "iss": null }))),
        ("too large", claims(json!({ "x": "y".repeat(40_000) }))),
    ];
    for (what, token) in &cases {
        let reply = ask(&gateway, token);
        refused(&reply, what);
        // Also when it was refused before.
        refused(&ask(&gateway, token), what);
    }
    assert!(origin.requests().is_empty());
    // The log says why.
    for why in ["the signature is wrong", "is encrypted", "`aud` names none", "more than"] {
        if why != "more than" {
            gateway.wait_for_output(why);
        }
    }
    assert_eq!(ask(&gateway, &EC.token(&good)).status(), 200);
}

/// RFC 8725, 3.11: a token of the same issuer for another purpose is not accepted.
#[test]
fn tokens_of_another_kind_are_refused() {
    let origin = Origin::saying("ok");
    let plain = gateway(&origin, KEYS, "", "");
    let wide =
        gateway(&origin, &format!("{KEYS}, types: [application/Event+JWT, id_token]"), "", "");
    let token = |typ: Option<&str>, claims: Value| {
        let mut header = json!({ "alg": "ES256", "kid": "ec" });
        if let Some(typ) = typ {
            header["typ"] = typ.into();
        }
        let mut all = json!({ "iss": "https://idp.test", "sub": "a", "exp": now() + 60 });
        all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
        EC.sign(&header.to_string(), &all.to_string())
    };
    let logout = json!({ "events": { "http://schemas.openid.net/event/backchannel-logout": {} } });
    for (typ, claims, passes, passes_wide) in [
        (None, json!({}), true, false),
        (Some("JWT"), json!({}), true, false),
        (Some("jwt"), json!({}), true, false),
        (Some("at+JWT"), json!({}), true, false),
        (Some("application/at+jwt"), json!({ "at_hash": "x" }), true, false),
        (Some("logout+jwt"), json!({}), false, false),
        (Some("application/logout+jwt"), json!({}), false, false),
        (Some("dpop+jwt"), json!({}), false, false),
        (Some("secevent+jwt"), json!({}), false, false),
        (Some("event+jwt"), json!({}), false, true),
        (Some(""), json!({}), false, false),
        (Some("JWT"), logout.clone(), false, false),
        (None, logout, false, false),
        (Some("JWT"), json!({ "at_hash": "x" }), false, true),
        (None, json!({ "c_hash": "x" }), false, true),
        (Some("JWT"), json!({ "typ": "ID" }), false, true),
        (Some("JWT"), json!({ "typ": "Bearer" }), true, false),
        (Some("JWT"), json!({ "token_use": "id" }), false, true),
    ] {
        let what = format!("{typ:?} {claims}");
        let token = token(typ, claims);
        for (gateway, passes) in [(&plain, passes), (&wide, passes_wide)] {
            let reply = ask(gateway, &token);
            if passes { assert_eq!(reply.status(), 200, "{what}") } else { refused(&reply, &what) }
        }
    }
    plain.wait_for_output("has a type (`typ`)");
}

#[test]
fn a_missing_token_is_told_apart_from_a_bad_one() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "", "");
    let token = EC.token(&json!({}));
    for lines in ["", "Authorization: Basic YTpi\r\n", "Authorization: \r\n", "X-Token: x\r\n"] {
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        assert_eq!(reply.status(), 401);
        assert_eq!(reply.get("www-authenticate"), Some("Bearer realm=\"tidegate\""), "{lines}");
    }
    for lines in [
        format!("Authorization: Bearer {token}\r\nAuthorization: Bearer {token}\r\n"),
        format!("Authorization: Bearer {token}, Bearer {token}\r\n"),
        "Authorization: Bearer\r\n".to_owned(),
    ] {
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{lines}\r\n"));
        refused(&reply, &lines);
    }
    let reply = gateway
        .wire()
        .ask(format!("GET / HTTP/1.1\r\nHost: a\r\nauthorization: bEARER  {token}\r\n\r\n"));
    assert_eq!(reply.status(), 200);
}

#[test]
fn an_expired_token_is_refused_also_when_it_was_believed_before() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "keys: [all.jwks], leeway: 0s", "", "");
    let token = EC.token(&json!({ "exp": now() + 2 }));
    assert_eq!(ask(&gateway, &token).status(), 200);
    until("the token has expired", || ask(&gateway, &token).status() == 401);
    assert!(ask(&gateway, &EC.token(&json!({ "exp": now() - 1 }))).status() == 401);
    gateway.wait_for_output("\"fault\":\"credential_expired\"");
}

#[test]
fn the_leeway_is_five_seconds() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "", "");
    assert_eq!(ask(&gateway, &EC.token(&json!({ "exp": now() - 2 }))).status(), 200);
    assert_eq!(ask(&gateway, &EC.token(&json!({ "exp": now() - 30 }))).status(), 401);
    assert_eq!(ask(&gateway, &EC.token(&json!({ "nbf": now() + 3 }))).status(), 200);
}

#[test]
fn scopes_are_a_text_or_a_list() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "scopes: { any: [read, write], all: [shop] }", "");
    for (claims, status) in [
        (json!({ "scope": "read shop" }), 200),
        (json!({ "scope": ["shop", "write"] }), 200),
        (json!({ "scp": ["shop", "read"] }), 200),
        (json!({ "scope": "read" }), 403),
        (json!({ "scope": "shop" }), 403),
        (json!({ "scope": "shopread" }), 403),
        (json!({}), 403),
    ] {
        let reply = ask(&gateway, &EC.token(&claims));
        assert_eq!(reply.status(), status, "{claims}");
        if status == 403 {
            let challenge = "Bearer realm=\"tidegate\", error=\"insufficient_scope\", scope=\"shop read write\"";
            assert_eq!(reply.get("www-authenticate"), Some(challenge));
        }
    }
}

#[test]
fn the_algorithm_of_a_key_is_the_only_one() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "keys: [pinned.jwk]", "", "");
    let payload = json!({ "iss": "https://idp.test", "exp": now() + 60 }).to_string();
    for (algorithm, status) in [("RS256", 200), ("RS384", 401), ("PS256", 401)] {
        let header = json!({ "alg": algorithm, "kid": "rsa" }).to_string();
        assert_eq!(ask(&gateway, &RSA.sign(&header, &payload)).status(), status, "{algorithm}");
    }
}

#[test]
fn keys_are_read_from_pem_and_json_files() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, "keys: [rsa.pem, ec.pem]", "", "");
    assert_eq!(ask(&gateway, &RSA.token(&json!({}))).status(), 200);
    assert_eq!(ask(&gateway, &EC.token(&json!({}))).status(), 200);
    assert_eq!(ask(&gateway, &OTHER_EC.token(&json!({}))).status(), 401);
}

#[test]
fn a_token_may_be_in_the_query_and_is_cut_there() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "query: access_token", "");
    let token = EC.token(&json!({}));
    for (target, seen) in [
        (format!("/p?access_token={token}"), "/p"),
        (format!("/p?a=%201&access_token={token}&b"), "/p?a=%201&b"),
        (format!("/p?access_token={}", token.replace('.', "%2E")), "/p"),
    ] {
        assert_eq!(gateway.wire().get(&target).status(), 200);
        assert_eq!(origin.requests().last().unwrap().target(), seen);
    }
    let two = format!("/p?access_token={token}&access_token={token}");
    refused(&gateway.wire().get(&two), "two");
    let both = format!(
        "GET /p?access_token={token} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    );
    refused(&gateway.wire().ask(both), "both");
    assert_eq!(gateway.wire().get("/p?access_token=").status(), 401);
}

#[test]
fn a_token_is_forwarded_only_where_that_is_asked_for() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "forward: true, header: x-token, query: t", "");
    let token = EC.token(&json!({}));
    let reply =
        gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\nX-Token: {token}\r\n\r\n"));
    assert_eq!(reply.status(), 200);
    assert_eq!(origin.request().get("x-token"), Some(token.as_str()));
    assert_eq!(gateway.wire().get(&format!("/?t={token}")).status(), 200);
    assert_eq!(origin.requests()[1].target(), format!("/?t={token}"));
}

#[test]
fn claims_become_headers_and_nobody_can_forge_them() {
    let origin = Origin::saying("ok");
    let jwt =
        "optional: true, claims_to_headers: { x-user: sub, x-city: address.city, x-bad: bad }";
    let gateway = gateway(&origin, KEYS, jwt, "");
    let claims = json!({ "address": { "city": "Ulm" }, "bad": "a\r\nx-evil: 1" });
    let token = EC.token(&claims);
    let forged = "X-User: root\r\nx-user: root\r\nX-City: Rome\r\nX-Bad: b\r\n";
    for credential in [format!("Authorization: Bearer {token}\r\n"), String::new()] {
        let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{forged}{credential}\r\n");
        assert_eq!(gateway.wire().ask(request).status(), 200);
    }
    let requests = origin.requests();
    assert_eq!(
        (requests[0].get("x-user"), requests[0].get("x-city")),
        (Some("alice"), Some("Ulm"))
    );
    assert_eq!((requests[0].get("x-bad"), requests[0].get("x-evil")), (None, None));
    assert_eq!((requests[1].get("x-user"), requests[1].get("x-city")), (None, None));
    refused(&ask(&gateway, "bad"), "a bad token on an optional route");
}

#[test]
fn several_issuers_have_their_own_keys() {
    let origin = Origin::saying("ok");
    let yaml = yaml(&origin, "keys: [ec.pem]", "", "")
        .replace("routes:", "  second: { issuer: \"https://two.test\", keys: [rsa.pem] }\nroutes:");
    let yaml = yaml.replace("issuers: [main]", "issuers: [main, second]");
    let gateway = Gateway::start_beside(yaml.replace("issuers: [main,]", ""), &files());
    let two = json!({ "iss": "https://two.test" });
    assert_eq!(ask(&gateway, &EC.token(&json!({}))).status(), 200);
    assert_eq!(ask(&gateway, &RSA.token(&two)).status(), 200);
    refused(&ask(&gateway, &EC.token(&two)), "the first one's key for the second");
    refused(&ask(&gateway, &RSA.token(&json!({}))), "the second one's key for the first");
    refused(&ask(&gateway, &EC.token(&json!({ "iss": "https://three.test" }))), "nobody");
}

#[test]
fn wanted_claims_and_subscriptions_are_checked() {
    let origin = Origin::saying("ok");
    let jwt =
        "claims: { tenant: [a, b], email: { present: true } }, subscription: { name: orders }";
    let gateway = gateway(&origin, KEYS, jwt, "");
    let subscribed = json!([{ "name": "orders", "subscriptionTier": "Gold" }]);
    for (claims, status) in [
        (json!({ "tenant": "b", "email": "x", "subscribedAPIs": subscribed }), 200),
        (json!({ "tenant": "c", "email": "x", "subscribedAPIs": subscribed }), 403),
        (json!({ "tenant": "a", "subscribedAPIs": subscribed }), 403),
        (json!({ "tenant": "a", "email": "x", "subscribedAPIs": [] }), 403),
    ] {
        assert_eq!(ask(&gateway, &EC.token(&claims)).status(), status, "{claims}");
    }
    gateway.wait_for_output("\"fault\":\"subscription_missing\"");
}

#[test]
fn codes_of_the_reference_system_are_answered_where_asked_for() {
    let origin = Origin::saying("ok");
    let jwt = "scopes: { any: [read] }, subscription: { name: orders }";
    let gateway = gateway(&origin, KEYS, jwt, "errors: wso2");
    let read = json!({ "scope": "read" });
    let expired = json!({ "exp": now() - 60 });
    for (credential, status, code) in [
        (String::new(), 401, "900902"),
        ("Authorization: Bearer garbage\r\n".to_owned(), 401, "900901"),
        (format!("Authorization: Bearer {}\r\n", EC.token(&expired)), 401, "900903"),
        (format!("Authorization: Bearer {}\r\n", EC.token(&json!({}))), 403, "900910"),
        (format!("Authorization: Bearer {}\r\n", EC.token(&read)), 403, "900908"),
    ] {
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{credential}\r\n"));
        assert_eq!(reply.status(), status, "{credential}");
        assert!(reply.text().contains(code), "{credential}: {}", reply.text());
    }
}

/// An issuer whose key set a test can change.
struct Idp {
    origin: Origin,
    says: Arc<Mutex<String>>,
    reads: Arc<AtomicUsize>,
}

impl Idp {
    fn new(body: &str) -> Idp {
        let says = Arc::new(Mutex::new(reply(200, body)));
        let reads = Arc::new(AtomicUsize::new(0));
        let (saying, reading) = (says.clone(), reads.clone());
        let origin = Origin::start(move |peer: &mut Peer| {
            while peer.request().is_some() {
                reading.fetch_add(1, Ordering::SeqCst);
                let says = saying.lock().unwrap().clone();
                if !peer.try_send(says) {
                    return;
                }
            }
        });
        Idp { origin, says, reads }
    }

    fn now_says(&self, status: u16, body: &str) {
        *self.says.lock().unwrap() = reply(status, body);
    }

    fn issuer(&self) -> String {
        format!("jwks: \"{}/jwks.json\"", self.origin.url())
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }
}

fn reply(status: u16, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

#[test]
fn a_new_key_is_believed_at_the_first_request_with_it() {
    let origin = Origin::saying("ok");
    let idp = Idp::new(&jwks(&[&EC]));
    let gateway = gateway(&origin, &idp.issuer(), "", "");
    assert_eq!(ask(&gateway, &EC.token(&json!({}))).status(), 200);
    assert_eq!(idp.origin.requests()[0].target(), "/jwks.json");
    let new = Key::new("new");
    refused(&ask(&gateway, &new.token(&json!({}))), "not published yet");
    idp.now_says(200, &jwks(&[&EC, &new]));
    assert_eq!(ask(&gateway, &new.token(&json!({}))).status(), 200);
    // A key that is withdrawn is not believed any more once the set was read again.
    idp.now_says(200, &jwks(&[&new]));
    refused(&ask(&gateway, &OTHER_EC.token(&json!({}))), "unknown, which makes it read again");
    refused(&ask(&gateway, &EC.token(&json!({}))), "withdrawn, though it was believed");
}

#[test]
fn a_new_key_is_believed_at_once_also_where_keys_have_no_names() {
    let unnamed = |key: &Key| {
        let mut jwk = key.jwk();
        jwk.as_object_mut().unwrap().remove("kid");
        json!({ "keys": [jwk] }).to_string()
    };
    let origin = Origin::saying("ok");
    let payload = json!({ "iss": "https://idp.test", "exp": now() + 600 }).to_string();
    for header in [r#"{"alg":"ES256"}"#, r#"{"alg":"ES256","kid":"k"}"#] {
        let (old, new) = (Key::new(""), Key::new(""));
        let idp = Idp::new(&unnamed(&old));
        let gateway = gateway(&origin, &idp.issuer(), "", "");
        assert_eq!(ask(&gateway, &old.sign(header, &payload)).status(), 200, "{header}");
        idp.now_says(200, &unnamed(&new));
        assert_eq!(ask(&gateway, &new.sign(header, &payload)).status(), 200, "{header}");
        refused(&ask(&gateway, &old.sign(header, &payload)), "withdrawn, though it was believed");
    }
}

#[test]
fn many_unknown_keys_at_once_are_one_reading() {
    let origin = Origin::saying("ok");
    let idp = Idp::new(&jwks(&[&EC]));
    let gateway = Arc::new(gateway(&origin, &idp.issuer(), "", ""));
    assert_eq!(ask(&gateway, &EC.token(&json!({}))).status(), 200);
    let before = idp.reads();
    let payload = json!({ "iss": "https://idp.test", "exp": now() + 60 }).to_string();
    let waiting: Vec<_> = (0..40)
        .map(|number| {
            let header = json!({ "alg": "ES256", "kid": format!("made up {number}") }).to_string();
            let (gateway, token) = (gateway.clone(), EC.sign(&header, &payload));
            thread::spawn(move || ask(&gateway, &token).status())
        })
        .collect();
    for reply in waiting {
        assert_eq!(reply.join().unwrap(), 401);
    }
    let read = idp.reads() - before;
    assert!((1..=3).contains(&read), "{read} readings for 40 unknown keys");
}

#[test]
fn known_keys_survive_an_issuer_that_is_away_or_talks_rubbish() {
    let origin = Origin::saying("ok");
    let idp = Idp::new(&jwks(&[&EC]));
    let issuer = format!("{}, refresh: 200ms", idp.issuer());
    let gateway = gateway(&origin, &issuer, "", "");
    assert_eq!(ask(&gateway, &EC.token(&json!({}))).status(), 200);
    let huge = format!("{{\"keys\":[],\"x\":\"{}\"}}", "y".repeat(600_000));
    let counted = |result: &str| -> u64 {
        let name =
            format!("tidegate_issuer_key_reads_total{{issuer=\"main\",result=\"{result}\"}} ");
        let text = gateway.admin_get("/metrics").text();
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        line.map_or(0, |count| count.parse().unwrap())
    };
    for (status, body) in [(500, ""), (200, "rubbish"), (200, "{\"keys\":[]}"), (200, &huge)] {
        let before = counted("failure");
        idp.now_says(status, body);
        until("reading fails", || counted("failure") > before);
        let fresh = EC.token(&json!({ "jti": before.to_string() }));
        assert_eq!(ask(&gateway, &fresh).status(), 200, "{status} {body:.20}");
        let before = counted("success");
        idp.now_says(200, &jwks(&[&EC]));
        until("reading works again", || counted("success") > before);
    }
    gateway.wait_for_log("the keys known so far stay in use");
    let metrics = gateway.admin_get("/metrics").text();
    assert!(metrics.contains("tidegate_issuer_keys{issuer=\"main\"} 1"), "{metrics}");
    let failures = "tidegate_issuer_key_reads_total{issuer=\"main\",result=\"failure\"}";
    assert!(metrics.contains(failures), "{metrics}");
}

#[test]
fn the_gateway_starts_without_the_keys() {
    let origin = Origin::saying("ok");
    let idp = Idp::new("");
    idp.now_says(503, "");
    let gateway = gateway(&origin, &idp.issuer(), "", "");
    let token = EC.token(&json!({}));
    assert_eq!(ask(&gateway, &token).status(), 503);
    refused(&ask(&gateway, "garbage"), "what no key would make good");
    idp.now_says(200, &jwks(&[&EC]));
    assert_eq!(ask(&gateway, &token).status(), 200);
}

#[test]
fn published_secrets_are_no_keys() {
    let origin = Origin::saying("ok");
    let secret = [7; 32];
    let oct = json!({ "kty": "oct", "kid": "s", "alg": "HS256", "k": base64(secret) });
    let idp = Idp::new(&json!({ "keys": [oct] }).to_string());
    let gateway = gateway(&origin, &idp.issuer(), "", "");
    let payload = json!({ "iss": "https://idp.test", "exp": now() + 60 }).to_string();
    let token = hmac_token(&secret, r#"{"alg":"HS256","kid":"s"}"#, &payload);
    assert_ne!(ask(&gateway, &token).status(), 200);
    assert!(origin.requests().is_empty());
}

#[test]
fn discovery_finds_the_keys() {
    let origin = Origin::saying("ok");
    let idp = issuer_by_discovery();
    let name = format!("{}/realm", idp.url());
    let yaml = yaml(&origin, "discovery: true", "", "").replace("https://idp.test", &name);
    let gateway = Gateway::start_beside(yaml, &[]);
    assert_eq!(ask(&gateway, &EC.token(&json!({ "iss": name }))).status(), 200);
    refused(&ask(&gateway, &EC.token(&json!({}))), "another issuer");
}

#[test]
fn opaque_tokens_are_asked_about_once_in_a_while() {
    let origin = Origin::saying("ok");
    let idp = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            if request.text().contains("token=opaque-3&") {
                peer.send(reply(500, ""));
                continue;
            }
            let active = request.text().contains("token=opaque-1&");
            let body = json!({ "active": active, "sub": "bob", "scope": "read" }).to_string();
            peer.send(reply(200, &body));
        }
    });
    let issuer = format!(
        "introspection: {{ url: \"{}/introspect\", client_id: gate, client_secret: \"s:1\" }}",
        idp.url()
    );
    let jwt = "scopes: { any: [read] }, claims_to_headers: { x-user: sub }";
    let gateway = gateway(&origin, &issuer, jwt, "");
    for _ in 0..3 {
        assert_eq!(ask(&gateway, "opaque-1").status(), 200);
    }
    assert_eq!(idp.requests().len(), 1, "the answer is remembered");
    let asked = idp.requests().remove(0);
    assert_eq!((asked.method(), asked.target()), ("POST", "/introspect"));
    // gate:s%3A1
    assert_eq!(asked.get("authorization"), Some("Basic Z2F0ZTpzJTNBMQ=="));
    assert_eq!(origin.requests()[0].get("x-user"), Some("bob"));
    refused(&ask(&gateway, "opaque-2"), "not active");
    refused(&ask(&gateway, "a b"), "no token at all");
    assert_eq!(idp.requests().len(), 2);
    assert_eq!(ask(&gateway, "opaque-3").status(), 503);
}

#[test]
fn an_opaque_token_is_asked_about_again_when_the_answer_is_old() {
    let origin = Origin::saying("ok");
    let active = Arc::new(AtomicBool::new(true));
    let says = active.clone();
    let idp = Origin::start(move |peer| {
        while peer.request().is_some() {
            let active = says.load(Ordering::Relaxed);
            peer.send(reply(200, &json!({ "active": active, "sub": "bob" }).to_string()));
        }
    });
    let issuer = format!("introspection: {{ url: \"{}/introspect\", cache: 100ms }}", idp.url());
    let gateway = gateway(&origin, &issuer, "", "");
    until("the issuer is asked again and again", || {
        assert_eq!(ask(&gateway, "opaque").status(), 200, "it is active all the time");
        idp.requests().len() >= 4
    });
    active.store(false, Ordering::Relaxed);
    until("its issuer takes it back", || ask(&gateway, "opaque").status() == 401);
}

#[test]
fn a_revoked_token_is_refused_at_once_and_after_a_reload() {
    let origin = Origin::saying("ok");
    let gateway = gateway(&origin, KEYS, "", "");
    let (token, other) = (EC.token(&json!({ "jti": "t/1" })), EC.token(&json!({ "jti": "t2" })));
    assert_eq!(ask(&gateway, &token).status(), 200);
    let admin = |method: &str, path: &str, body: &str| {
        let address = gateway.admin();
        crate::harness::Wire::connect(address).ask(format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    let until_then = now() + 600;
    let body = json!({ "jti": "t/1", "until": until_then }).to_string();
    assert_eq!(admin("POST", "/revoked", &body).status(), 200);
    refused(&ask(&gateway, &token), "believed before");
    assert_eq!(ask(&gateway, &other).status(), 200);
    let listed = gateway.admin_get("/revoked").text();
    assert_eq!(listed, json!({ "revoked": [{ "jti": "t/1", "until": until_then }] }).to_string());

    gateway.rewrite(yaml(&origin, KEYS, "forward: true", ""));
    gateway.wait_for_log("generation=2");
    refused(&ask(&gateway, &token), "after a reload");

    assert_eq!(admin("DELETE", "/revoked/t%2F1", "").status(), 204);
    assert_eq!(admin("DELETE", "/revoked/t%2F1", "").status(), 404);
    assert_eq!(ask(&gateway, &token).status(), 200);
    for bad in ["", "{}", "[]", r#"{"jti":1}"#, r#"{"jti":""}"#, r#"{"jti":"a","until":"b"}"#] {
        assert_eq!(admin("POST", "/revoked", bad).status(), 422, "{bad}");
    }
    for over in [0, 3600, now() - 1] {
        let over = admin("POST", "/revoked", &json!({ "jti": "a", "until": over }).to_string());
        assert_eq!(over.status(), 422);
        assert!(over.text().contains("`until` is in the past"), "{}", over.text());
    }
    let doubled = admin("POST", "/revoked", r#"{"jti":"a","jti":"t/1"}"#);
    assert_eq!(doubled.status(), 422, "{doubled:?}");
    let misspelled = admin("POST", "/revoked", r#"{"jti":"a","expires":1}"#);
    assert_eq!(misspelled.status(), 422);
    assert!(misspelled.text().contains("no member `expires`"), "{}", misspelled.text());
    let listed = gateway.admin_get("/revoked").text();
    assert_eq!(listed, json!({ "revoked": [] }).to_string());
}

fn private_key() -> String {
    rcgen::KeyPair::generate_for(&rcgen::PKCS_ED25519).unwrap().serialize_pem()
}

#[test]
fn the_upstream_is_told_by_a_token_of_ours() {
    let origin = Origin::saying("ok");
    let policies = "policies: [{ jwt: { issuers: [main], } }, { backend_jwt: { keys: [new.pem, old.pem], copy: [email], claims: { env: test }, audiences: [shop] } }]";
    let yaml = yaml(&origin, KEYS, "", "")
        .replace("policies: [{ jwt: { issuers: [main],  } }]", policies)
        .replace("policies: [{ jwt: { issuers: [main], } }]", policies)
        .replace(
            "routes:",
            "routes:\n  keys: { match: { path: /.well-known/jwks.json }, policies: [{ jwks: {} }], respond: {} }",
        );
    assert!(yaml.contains("backend_jwt"), "{yaml}");
    let (new, old) = (private_key(), private_key());
    let mut files = files().to_vec();
    files.extend([("new.pem", new.as_str()), ("old.pem", old.as_str())]);
    let gateway = Gateway::start_beside(yaml, &files);
    let token = EC.token(&json!({ "email": "a@b.test" }));
    for _ in 0..2 {
        let request = format!(
            "GET / HTTP/1.1\r\nHost: a\r\nX-JWT-Assertion: forged\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        assert_eq!(gateway.wire().ask(request).status(), 200);
    }
    let requests = origin.requests();
    let told = requests[0].get("x-jwt-assertion").unwrap();
    assert_eq!(requests[1].get("x-jwt-assertion"), Some(told), "it is remembered");
    let part = |at: usize| -> Value {
        use base64::Engine as _;
        let text = told.split('.').nth(at).unwrap();
        let bytes = base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(text).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    };
    let claims = part(1);
    for (name, value) in [
        ("iss", "tidegate"),
        ("sub", "alice"),
        ("email", "a@b.test"),
        ("env", "test"),
        ("aud", "shop"),
    ] {
        assert_eq!(claims[name], value, "{claims}");
    }
    assert_eq!(claims["exp"].as_u64().unwrap() - claims["iat"].as_u64().unwrap(), 3600);

    let published = gateway.wire().get("/.well-known/jwks.json");
    assert_eq!(published.get("content-type"), Some("application/jwk-set+json"));
    assert_eq!(published.text(), gateway.admin_get("/.well-known/jwks.json").text());
    let keys: Value = serde_json::from_str(&published.text()).unwrap();
    assert_eq!(keys["keys"].as_array().unwrap().len(), 2);
    assert_eq!(keys["keys"][0]["kid"], part(0)["kid"]);
    assert!(!published.text().contains("\"d\""));
    // A gateway before another believes the first one's lines.
    let inner = yaml_for_inner(&origin);
    let inner = Gateway::start_beside(inner, &[("own.jwks", &published.text())]);
    assert_eq!(ask(&inner, told).status(), 200);
}

fn yaml_for_inner(origin: &Origin) -> String {
    yaml(origin, "keys: [own.jwks]", "audiences: [shop]", "")
        .replace("https://idp.test", "tidegate")
}

/// Issue 42: the ninth key of a set without names was never tried, and the log said that the signature was wrong.
#[test]
fn keys_that_are_not_tried_are_told() {
    let origin = Origin::saying("ok");
    let keys: Vec<Key> = (0..9).map(|_| Key::new("unnamed")).collect();
    let pem: String = keys.iter().map(Key::pem).collect();
    let yaml = yaml(&origin, "keys: [many.pem]", "", "");
    let gateway = Gateway::start_beside(&yaml, &[("many.pem", &*pem)]);
    assert_eq!(ask(&gateway, &keys[7].token(&json!({}))).status(), 200);
    refused(&ask(&gateway, &keys[8].token(&json!({}))), "the ninth");
    gateway.wait_for_output("too many keys could have signed the token");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("many.pem"), &pem).unwrap();
    let file = folder.path().join("tidegate.yaml");
    std::fs::write(&file, &yaml).unwrap();
    let run = tidegate(&["check", file.to_str().unwrap()]);
    let said = run.stdout + &run.stderr;
    let told = "9 keys for ES256: only 8 are tried for tokens without a `kid`";
    assert!(run.code == Some(0) && said.contains(told), "{said}");
}
