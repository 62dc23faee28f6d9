//! `subscription`: applications, their subscriptions and plans, as a client meets them.

use serde_json::{Value, json};

use crate::harness::{Gateway, Message, Origin, tidegate, until};
use crate::tokens::{EC, OTHER_EC, jwks};

/// An API with a tier for one operation, and one that needs a scope.
const DOCUMENT: &str = r#"
openapi: 3.0.3
info: { title: Pets, version: "1" }
paths:
  /pets: { get: { responses: { "200": { description: ok } } }, post: { responses: { "200": { description: ok } } } }
  /few: { get: { x-wso2-throttling-tier: Few, responses: { "200": { description: ok } } } }
  /scoped: { get: { x-scopes: [pets:read], responses: { "200": { description: ok } } } }
  /open: { get: { x-auth-type: None, responses: { "200": { description: ok } } } }
"#;

/// A gateway with the API `pets`; `api` are its further keys, `more` are sections.
fn yaml(origin: &Origin, api: &str, more: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
admin: {{ address: "127.0.0.1:0" }}
workers: 2
upstreams: {{ origin: {{ targets: ["{}"] }} }}
issuers:
  main: {{ issuer: "https://idp.test", keys: [keys.jwks], application: azp }}
  other: {{ issuer: "https://other.test", keys: [other.jwks] }}
apis: {{ pets: {{ openapi: api.yaml, base_path: /pets/1, upstream: origin, errors: wso2, subscription: required, {api} }} }}
plans: {{ Few: {{ requests: 3, per: 1h }}, Two: {{ requests: 2, per: 1h }}, One: {{ requests: 1, per: 1h }} }}
{more}
"#,
        origin.url()
    )
}

fn start(origin: &Origin, api: &str, more: &str) -> Gateway {
    start_of(DOCUMENT, origin, api, more)
}

fn start_of(document: &str, origin: &Origin, api: &str, more: &str) -> Gateway {
    let (keys, other) = (jwks(&[&EC]), jwks(&[&OTHER_EC]));
    let files = [("api.yaml", document), ("keys.jwks", &*keys), ("other.jwks", &*other)];
    Gateway::start_beside(yaml(origin, api, more), &files)
}

fn token(consumer_key: &str) -> String {
    EC.token(&json!({ "azp": consumer_key }))
}

fn ask(gateway: &Gateway, target: &str, token: &str) -> Message {
    gateway.wire().ask(format!(
        "GET /pets/1{target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
    ))
}

/// The status with the code.
fn outcome(reply: &Message) -> (u16, String) {
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    (reply.status(), body["code"].as_str().unwrap_or_default().to_owned())
}

#[track_caller]
fn is_refused(reply: &Message, status: u16, code: &str) {
    assert_eq!(outcome(reply), (status, code.to_owned()), "{reply:?}");
}

/// The number of allowed requests out of `of`. All others are refused with this code.
#[track_caller]
fn passed(gateway: &Gateway, target: &str, token: &str, of: usize, code: &str) -> usize {
    let replies: Vec<Message> = (0..of).map(|_| ask(gateway, target, token)).collect();
    for refused in replies.iter().filter(|reply| reply.status() != 200) {
        is_refused(refused, 429, code);
        let wait: u64 = refused.get("retry-after").unwrap().parse().unwrap();
        assert!((1..=3600).contains(&wait), "{refused:?}");
    }
    replies.iter().filter(|reply| reply.status() == 200).count()
}

#[test]
fn who_has_subscribed_passes_and_others_are_told_why_not() {
    let origin = Origin::saying("ok");
    let gateway = start(
        &origin,
        "plans: [Gold, Silver]",
        r#"applications: {
            mobile: { plan: 50PerMin, keys: { consumer_key: m, consumer_secret: s }, subscriptions: { pets: Gold } },
            blocked: { keys: { consumer_key: b }, subscriptions: { pets: { plan: Silver, state: BLOCKED } } },
            tests: { keys: [{ consumer_key: p }, { consumer_key: t, type: SANDBOX }], subscriptions: { pets: { plan: Gold, state: PROD_ONLY_BLOCKED } } },
            nothing: { keys: { consumer_key: n } } }"#,
    );
    for _ in 0..2 {
        assert_eq!(ask(&gateway, "/pets", &token("m")).status(), 200);
        assert_eq!(ask(&gateway, "/pets", &token("t")).status(), 200);
    }
    let blocked = ask(&gateway, "/pets", &token("b"));
    is_refused(&blocked, 401, "900907");
    assert!(blocked.get("www-authenticate").is_some(), "{blocked:?}");
    is_refused(&ask(&gateway, "/pets", &token("p")), 401, "900907");
    is_refused(&ask(&gateway, "/pets", &token("n")), 403, "900908");
    is_refused(&ask(&gateway, "/pets", &token("nobody")), 403, "900908");
    // Not a text, so it does not name an application.
    is_refused(&ask(&gateway, "/pets", &EC.token(&json!({ "azp": ["m"] }))), 403, "900908");
    // The other issuer has no `application`, so its tokens name none.
    let other =
        OTHER_EC.token(&json!({ "iss": "https://other.test", "azp": "m", "client_id": "m" }));
    is_refused(&ask(&gateway, "/pets", &other), 403, "900908");
    let missing = gateway.wire().get("/pets/1/pets");
    is_refused(&missing, 401, "900902");
    assert!(missing.get("www-authenticate").is_some(), "{missing:?}");
    assert_eq!(gateway.wire().get("/pets/1/open").status(), 200, "nobody is asked there");
}

#[test]
fn subscriptions_are_looked_at_before_scopes() {
    let origin = Origin::saying("ok");
    let gateway = start(
        &origin,
        "plans: [One]",
        "applications: { a: { keys: { consumer_key: a }, subscriptions: { pets: One } } }",
    );
    is_refused(&ask(&gateway, "/scoped", &token("x")), 403, "900908");
    is_refused(&ask(&gateway, "/scoped", &token("a")), 403, "900910");
    let scoped = EC.token(&json!({ "azp": "a", "scope": "pets:read" }));
    assert_eq!(ask(&gateway, "/scoped", &scoped).status(), 200, "the refusal counted nothing");
    is_refused(&ask(&gateway, "/scoped", &scoped), 429, "900804");
    is_refused(&ask(&gateway, "/scoped", &token("a")), 403, "900910");
}

#[test]
fn plans_of_all_levels_hold_at_once() {
    let origin = Origin::saying("ok");
    let more = r#"applications: {
        one: { plan: Two, keys: { consumer_key: one }, subscriptions: { pets: Gold } },
        two: { keys: { consumer_key: two }, subscriptions: { pets: Two } },
        three: { keys: { consumer_key: three }, subscriptions: { pets: Unlimited } } }"#;
    let gateway = start(&origin, "plans: [Gold, Two, Unlimited]", more);
    assert_eq!(passed(&gateway, "/pets", &token("one"), 5, "900803"), 2);
    assert_eq!(passed(&gateway, "/pets", &token("two"), 5, "900804"), 2);
    // Requests refused by an application's plan do not count for a resource.
    assert_eq!(passed(&gateway, "/few", &token("one"), 5, "900803"), 0);
    assert_eq!(passed(&gateway, "/few", &token("three"), 5, "900802"), 3);
    assert_eq!(passed(&gateway, "/pets", &token("three"), 20, "900802"), 20);
    // The API's plan replaces those of its operations, for all applications together.
    let document = format!("x-wso2-throttling-tier: Few\n{DOCUMENT}");
    let gateway = start_of(&document, &origin, "", more);
    assert_eq!(passed(&gateway, "/pets", &token("one"), 2, "900803"), 2);
    assert_eq!(passed(&gateway, "/few", &token("three"), 5, "900800"), 1);
    assert_eq!(passed(&gateway, "/pets", &token("two"), 1, "900800"), 0);
}

#[test]
fn the_plans_with_the_references_names_are_there() {
    let origin = Origin::saying("ok");
    let subscription = |plan: &str| {
        format!(
            "applications: {{ a: {{ keys: {{ consumer_key: a }}, subscriptions: {{ pets: {plan} }} }} }}"
        )
    };
    let application = |plan: &str| {
        format!(
            "applications: {{ a: {{ plan: {plan}, keys: {{ consumer_key: a }}, subscriptions: {{ pets: Unlimited }} }} }}"
        )
    };
    let mut cases = vec![
        (subscription("Bronze"), 1000, "900804"),
        (application("50PerMin"), 50, "900803"),
        (application("20PerMin"), 20, "900803"),
        (application("10PerMin"), 10, "900803"),
    ];
    cases.extend(
        ["Silver", "Gold", "DefaultSubscriptionless", "10KPerMin"]
            .map(|plan| (subscription(plan), 1001, "")),
    );
    for (more, allowed, code) in cases {
        let gateway = start(&origin, "", &more);
        let token = token("a");
        let request = format!(
            "GET /pets/1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"
        );
        let mut wire = gateway.wire();
        for number in 1..=allowed {
            assert_eq!(wire.ask(&request).status(), 200, "{more} {number}");
        }
        if !code.is_empty() {
            is_refused(&wire.ask(&request), 429, code);
        }
    }
}

#[test]
fn bursts_refuse_and_plans_that_do_not_stop_let_pass() {
    let origin = Origin::saying("ok");
    let plans = r#"applications: {
        burst: { keys: { consumer_key: burst }, subscriptions: { pets: Burst } },
        soft: { keys: { consumer_key: soft }, subscriptions: { pets: Soft } } }"#;
    let yaml = yaml(&origin, "", plans).replace(
        "plans: { Few",
        "plans: { Burst: { requests: 1000, per: 1m, burst_rate: { requests: 3, per: 30s } }, Soft: { requests: 2, per: 1h, stop_on_quota: false, burst_rate: { requests: 4, per: 1h } }, Few",
    );
    let (keys, other) = (jwks(&[&EC]), jwks(&[&OTHER_EC]));
    let files = [("api.yaml", DOCUMENT), ("keys.jwks", &*keys), ("other.jwks", &*other)];
    let gateway = Gateway::start_beside(yaml, &files);
    assert_eq!(passed(&gateway, "/pets", &token("burst"), 6, "900807"), 3);
    let refused = ask(&gateway, "/pets", &token("burst"));
    let wait: u64 = refused.get("retry-after").unwrap().parse().unwrap();
    assert!((1..=10).contains(&wait), "{wait}");
    assert_eq!(passed(&gateway, "/pets", &token("soft"), 6, "900807"), 4);
    gateway.wait_for_log("over its plan");
}

#[test]
fn bytes_of_requests_and_replies_count_and_pass_while_any_are_left() {
    let origin = Origin::start(|peer| {
        while peer.request().is_some() {
            let body = "x".repeat(600);
            peer.send(format!("HTTP/1.1 200 OK\r\nContent-Length: 600\r\n\r\n{body}"));
        }
    });
    let more = "applications: { a: { keys: { consumer_key: a }, subscriptions: { pets: Bytes } } }";
    let yaml = yaml(&origin, "", more)
        .replace("plans: { Few", "plans: { Bytes: { bytes: 2KiB, per: 1h }, Few");
    let (keys, other) = (jwks(&[&EC]), jwks(&[&OTHER_EC]));
    let files = [("api.yaml", DOCUMENT), ("keys.jwks", &*keys), ("other.jwks", &*other)];
    let gateway = Gateway::start_beside(yaml, &files);
    let post = || {
        let body = "y".repeat(400);
        gateway.wire().ask(format!(
            "POST /pets/1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\nContent-Length: 400\r\n\r\n{body}",
            token("a")
        ))
    };
    // 1,000 bytes each: after two of them 48 bytes are left, and the third one passes.
    for _ in 0..3 {
        let reply = post();
        assert_eq!((reply.status(), reply.body.len()), (200, 600), "{reply:?}");
        assert_eq!(reply.get("content-length"), Some("600"));
    }
    assert_eq!(origin.requests()[0].get("content-length"), Some("400"));
    is_refused(&post(), 429, "900804");
    assert_eq!(ask(&gateway, "/open", "").status(), 200);
}

#[test]
fn tokens_that_list_their_subscriptions_still_work() {
    let origin = Origin::saying("ok");
    let gateway = start(
        &origin,
        "plans: [Two, Gold]",
        "applications: { a: { keys: { consumer_key: a }, subscriptions: { pets: { plan: Gold, state: BLOCKED } } } }",
    );
    let listing = |key: &str, context: &str, tier: &str| {
        EC.token(&json!({ "sub": key, "azp": key, "subscribedAPIs": [
            { "name": "Pets", "context": context, "version": "1", "subscriptionTier": tier },
        ] }))
    };
    assert_eq!(passed(&gateway, "/pets", &listing("x", "/pets/1", "Two"), 4, "900804"), 2);
    assert_eq!(passed(&gateway, "/pets", &listing("y", "/pets/1", "Two"), 4, "900804"), 2);
    assert_eq!(passed(&gateway, "/pets", &listing("z", "/pets/1", "Gold"), 9, ""), 9);
    is_refused(&ask(&gateway, "/pets", &listing("x", "/other/1", "Two")), 403, "900908");
    is_refused(&ask(&gateway, "/pets", &listing("x", "/pets/1", "NoPlan")), 403, "900908");
    is_refused(&ask(&gateway, "/pets", &listing("a", "/pets/1", "Gold")), 401, "900907");
    let other = OTHER_EC.token(&json!({ "iss": "https://other.test", "subscribedAPIs": [
        { "name": "pets", "subscriptionTier": "Gold" },
    ] }));
    assert_eq!(ask(&gateway, "/pets", &other).status(), 200, "by name, of any issuer");
}

#[test]
fn keys_lead_to_applications_too_and_what_is_optional_passes() {
    let origin = Origin::saying("ok");
    let api_key = "policies: [{ authenticate: { any: [{ jwt: { issuers: [main] } }, { api_key: { header: apikey, keys: { ann: { key: k1, application: mobile }, bob: k2 } } }], otherwise: anonymous } }]";
    let more = "applications: { mobile: { subscriptions: { pets: Two } } }";
    let key = |gateway: &Gateway, key: &str| {
        gateway.wire().ask(format!("GET /pets/1/pets HTTP/1.1\r\nHost: a\r\napikey: {key}\r\n\r\n"))
    };
    let gateway = start(&origin, &format!("plans: [Two], {api_key}"), more);
    assert_eq!([(); 3].map(|()| key(&gateway, "k1").status()), [200, 200, 429]);
    is_refused(&key(&gateway, "k2"), 403, "900908");
    is_refused(&gateway.wire().get("/pets/1/pets"), 403, "900908");
    let yaml = yaml(&origin, &format!("plans: [Two, DefaultSubscriptionless], {api_key}"), more)
        .replace("subscription: required", "subscription: optional")
        .replace("plans: { Few", "plans: { DefaultSubscriptionless: { requests: 3, per: 1h }, Few");
    let (keys, other) = (jwks(&[&EC]), jwks(&[&OTHER_EC]));
    let files = [("api.yaml", DOCUMENT), ("keys.jwks", &*keys), ("other.jwks", &*other)];
    let gateway = Gateway::start_beside(yaml, &files);
    assert_eq!([(); 3].map(|()| key(&gateway, "k1").status()), [200, 200, 429]);
    for _ in 0..2 {
        let statuses = [(); 4].map(|()| key(&gateway, "k2").status());
        assert!(statuses == [200, 200, 200, 429] || statuses == [429; 4], "{statuses:?}");
    }
    assert_eq!([(); 4].map(|()| gateway.wire().get("/pets/1/pets").status()), [200, 200, 200, 429]);
}

#[test]
fn a_reload_changes_subscriptions_and_keeps_the_counts() {
    let origin = Origin::saying("ok");
    let with =
        |applications: &str| yaml(&origin, "", &format!("applications: {{ {applications} }}"));
    let one = "a: { keys: { consumer_key: a }, subscriptions: { pets: Two } }";
    let (keys, other) = (jwks(&[&EC]), jwks(&[&OTHER_EC]));
    let files = [("api.yaml", DOCUMENT), ("keys.jwks", &*keys), ("other.jwks", &*other)];
    let gateway = Gateway::start_beside(with(one), &files);
    assert_eq!(passed(&gateway, "/pets", &token("a"), 1, ""), 1);
    is_refused(&ask(&gateway, "/pets", &token("b")), 403, "900908");
    gateway.rewrite(with(&format!(
        "{one}, b: {{ keys: {{ consumer_key: b }}, subscriptions: {{ pets: Gold }} }}"
    )));
    until("b has subscribed", || ask(&gateway, "/pets", &token("b")).status() == 200);
    assert_eq!(passed(&gateway, "/pets", &token("a"), 3, "900804"), 1, "one was used before");
    gateway.rewrite(with("b: { keys: { consumer_key: b }, subscriptions: { pets: Gold } }"));
    until("a is gone", || outcome(&ask(&gateway, "/pets", &token("a"))).1 == "900908");
}

#[test]
fn streams_and_subscriptions_have_one_plan() {
    let events = "data: x\n\n".repeat(40);
    let reply = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {}\r\n\r\n{events}",
        events.len()
    );
    let origin = Origin::answering(reply);
    let more = r#"applications: {
        a: { keys: [{ consumer_key: a }, { consumer_key: a2 }], subscriptions: { ticks: Events } },
        b: { keys: { consumer_key: b }, subscriptions: { ticks: Connects } } }
routes: { ticks: { match: { path: /ticks }, upstream: origin, errors: wso2, policies: [{ jwt: { issuers: [main] } }, { subscription: { plans: [Events, Connects] } }, { sse: { plans: true, default: AsyncUnlimited } }] } }"#;
    let yaml = yaml(&origin, "", more).replace(
        "plans: { Few",
        "plans: { Events: { events: 30, per: 1h }, Connects: { requests: 1, per: 1h }, Few",
    );
    let (keys, other) = (jwks(&[&EC]), jwks(&[&OTHER_EC]));
    let files = [("api.yaml", DOCUMENT), ("keys.jwks", &*keys), ("other.jwks", &*other)];
    let gateway = Gateway::start_beside(yaml, &files);
    let connect = |key: &str| {
        let token = EC.token(&json!({ "azp": key, "sub": format!("user of {key}") }));
        gateway
            .wire()
            .ask(format!("GET /ticks HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n"))
    };
    let count = |reply: Message| (reply.status(), reply.text().matches("data: x").count());
    assert_eq!(count(connect("a")), (200, 30));
    is_refused(&connect("a2"), 429, "900807");
    assert_eq!(count(connect("b")), (200, 40), "a plan of requests counts connects");
    is_refused(&connect("b"), 429, "900804");
    is_refused(&connect("c"), 403, "900908");
}

#[test]
fn mistakes_are_complaints() {
    let origin = Origin::saying("ok");
    let check = |api: &str, more: &str| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.yaml");
        std::fs::write(&path, yaml(&origin, api, more)).unwrap();
        std::fs::write(folder.path().join("api.yaml"), DOCUMENT).unwrap();
        std::fs::write(folder.path().join("keys.jwks"), jwks(&[&EC])).unwrap();
        std::fs::write(folder.path().join("other.jwks"), jwks(&[&OTHER_EC])).unwrap();
        tidegate(&["check", path.to_str().unwrap()])
    };
    let app = |keys: &str| format!("applications: {{ a: {{ {keys} }} }}");
    for (api, more, what) in [
        ("", app("subscriptions: { cats: Gold }"), "cats"),
        ("", app("subscriptions: { pets: Glod }"), "Glod"),
        ("plans: [Silver]", app("subscriptions: { pets: Gold }"), "does not offer the plan `Gold`"),
        ("plans: [Silber]", String::new(), "Silber"),
        ("", app("plan: 51PerMin"), "51PerMin"),
        ("", app("keys: [{ consumer_key: k }, { consumer_key: k }]"), "twice"),
        ("", app("keys: { consumer_key: \"\" }"), "consumer key"),
        ("", app("subscriptions: { pets: { plan: Gold, state: AWAY } }"), "AWAY"),
    ] {
        let run = check(api, &more);
        assert_eq!(run.code, Some(1), "{api} {more} {}", run.stderr);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert!(said.contains(what), "{what}: {said}");
    }
    let run =
        check("plans: [Gold]", &app("keys: { consumer_key: k }, subscriptions: { pets: Gold }"));
    assert_eq!(run.code, Some(0), "{}{}", run.stdout, run.stderr);
}
