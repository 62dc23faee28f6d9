//! `authenticate`: which of several kinds of credentials is used, and what the groups of its owner allow.

use serde_json::json;

use crate::harness::{Gateway, Message, Origin, tidegate};
use crate::tokens::{EC, OTHER_EC, jwks, now};

const KEYS: &str = "alice: { key: key-of-alice, tier: Gold, groups: [staff, ops], attributes: { org: o1, level: 3 } }\nbob: key-of-bob\n";
const USERS: &str = "carol: { password: pass-of-carol, groups: [guests] }\n";

fn yaml(origin: &Origin, policies: &str) -> String {
    format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
workers: 1
upstreams: {{ origin: {{ targets: ["{}"] }} }}
issuers: {{ main: {{ issuer: "https://idp.test", keys: [keys.jwks] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, policies: [{policies}], upstream: origin }} }}
telemetry: {{ access_log: {{ format: json }} }}
"#,
        origin.url()
    )
}

fn files() -> [(&'static str, &'static str); 3] {
    [("keys.jwks", jwks(&[&EC]).leak()), ("keys.yaml", KEYS), ("users.yaml", USERS)]
}

#[track_caller]
fn gateway(origin: &Origin, policies: &str) -> Gateway {
    Gateway::start_beside(yaml(origin, policies), &files())
}

const KINDS: &str = "{ jwt: { issuers: [main], groups: realm.roles, claims_to_headers: { x-sub: sub, x-groups: groups } } }, \
    { api_key: { header: x-api-key, query: key, keys: { file: keys.yaml } } }, { basic: { users: { file: users.yaml } } }";

fn token(groups: serde_json::Value) -> String {
    EC.token(&json!({
        "iss": "https://idp.test", "sub": "dora", "exp": now() + 600, "realm": { "roles": groups },
    }))
}

#[track_caller]
fn ask(gateway: &Gateway, target: &str, lines: &str) -> Message {
    gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n"))
}

#[test]
fn the_first_kind_that_is_there_decides() {
    let origin = Origin::saying("ok");
    let told = "{ headers: { request: { set: { x-who: \"{subject}\" } } } }";
    let gateway = gateway(&origin, &format!("{{ authenticate: {{ any: [{KINDS}] }} }}, {told}"));
    let (good, wrong) = (token(json!([])), OTHER_EC.token(&json!({ "iss": "https://idp.test" })));
    let basic = "Authorization: Basic Y2Fyb2w6cGFzcy1vZi1jYXJvbA==\r\n";
    for (lines, who) in [
        (format!("Authorization: Bearer {good}\r\n"), "dora"),
        ("X-Api-Key: key-of-alice\r\n".to_owned(), "alice"),
        (basic.to_owned(), "carol"),
        (format!("{basic}X-Api-Key: key-of-bob\r\n"), "bob"),
        (format!("Authorization: Bearer {good}\r\nX-Api-Key: wrong\r\nX-Sub: root\r\n"), "dora"),
        ("X-Api-Key: key-of-bob\r\nX-Sub: root\r\n".to_owned(), "bob"),
    ] {
        assert_eq!(ask(&gateway, "/", &lines).status(), 200, "{lines}");
        let seen = origin.request();
        assert_eq!(seen.get("x-who"), Some(who), "{lines}");
        // No credential is forwarded, whichever was used, and neither are the client's own claims.
        for hidden in ["authorization", "x-api-key"] {
            assert_eq!(seen.get(hidden), None, "{lines}");
        }
        assert_ne!(seen.get("x-sub"), Some("root"), "{lines}");
        origin.forget();
    }
    for lines in [
        format!("Authorization: Bearer {wrong}\r\nX-Api-Key: key-of-alice\r\n"),
        "X-Api-Key: wrong\r\nAuthorization: Basic Y2Fyb2w6cGFzcy1vZi1jYXJvbA==\r\n".to_owned(),
        "Authorization: Basic Y2Fyb2w6d3Jvbmc=\r\n".to_owned(),
    ] {
        let refused = ask(&gateway, "/", &lines);
        assert_eq!(refused.status(), 401, "{lines}");
        assert_eq!(refused.all("www-authenticate").len(), 1, "{lines}: {refused:?}");
    }
    assert_eq!(ask(&gateway, "/?key=key-of-bob&a=1", "").status(), 200);
    assert_eq!(origin.request().target(), "/?a=1");
}

#[test]
fn a_request_without_any_is_refused_with_each_challenge_or_has_no_subject() {
    let origin = Origin::saying("ok");
    let strict = gateway(&origin, &format!("{{ authenticate: {{ any: [{KINDS}] }} }}"));
    let refused = ask(&strict, "/", "");
    assert_eq!(refused.status(), 401);
    assert_eq!(
        refused.all("www-authenticate"),
        [
            "Bearer realm=\"tidegate\"",
            "ApiKey realm=\"tidegate\"",
            "Basic realm=\"tidegate\", charset=\"UTF-8\""
        ]
    );
    let told = "{ headers: { request: { set: { x-who: \"[{subject}]\" } } } }";
    let open = format!("{{ authenticate: {{ any: [{KINDS}], otherwise: anonymous }} }}, {told}");
    let open = gateway(&origin, &open);
    assert_eq!(ask(&open, "/", "X-Sub: root\r\n").status(), 200);
    let seen = origin.request();
    assert_eq!((seen.get("x-who"), seen.get("x-sub")), (Some("[]"), None));
    assert_eq!(ask(&open, "/", "X-Api-Key: wrong\r\n").status(), 401);
}

#[test]
fn groups_allow_and_deny_and_are_sent_on() {
    let origin = Origin::saying("ok");
    let rules = "{ authorize: { groups: { allow: [staff, guests], deny: [blocked] } } }, \
        { headers: { request: { set: { x-all: \"{groups}\", x-org: \"{attributes.org}\" } } } }";
    let gateway = gateway(&origin, &format!("{{ authenticate: {{ any: [{KINDS}] }} }}, {rules}"));
    let bearer = |groups| format!("Authorization: Bearer {}\r\n", token(groups));
    for (lines, all, org) in [
        ("X-Api-Key: key-of-alice\r\n".to_owned(), "staff,ops", "o1"),
        ("Authorization: Basic Y2Fyb2w6cGFzcy1vZi1jYXJvbA==\r\n".to_owned(), "guests", ""),
        (bearer(json!(["x", "staff"])), "x,staff", ""),
        (bearer(json!("x, guests")), "x,guests", ""),
    ] {
        assert_eq!(ask(&gateway, "/", &lines).status(), 200, "{lines}");
        let seen = origin.request();
        let told = (seen.get("x-all"), seen.get("x-org").unwrap_or_default());
        assert_eq!(told, (Some(all), org), "{lines}");
        if lines.contains("Bearer") {
            assert_eq!(seen.get("x-groups"), Some(all));
        }
        origin.forget();
    }
    for lines in [
        "X-Api-Key: key-of-bob\r\n".to_owned(),
        bearer(json!(["x"])),
        bearer(json!([])),
        bearer(json!({ "staff": true })),
        bearer(json!(["staff", "blocked"])),
    ] {
        let refused = ask(&gateway, "/", &lines);
        assert_eq!(refused.status(), 403, "{lines}");
        assert!(!refused.text().contains("staff"), "{refused:?}");
    }
    gateway.wait_for_output("the client is in none of the groups staff, guests; its groups are: x");
    gateway.wait_for_output("the client is in the group `blocked`, which `deny` names");
}

#[test]
fn rules_look_at_groups_and_attributes() {
    let origin = Origin::saying("ok");
    let key = "{ api_key: { header: x-api-key, keys: { file: keys.yaml } } }";
    let rule = "'ops' in groups && attributes.org == 'o1' && attributes.level == '3'";
    let gateway = gateway(&origin, &format!("{key}, {{ authorize: {{ rule: \"{rule}\" }} }}"));
    assert_eq!(ask(&gateway, "/", "X-Api-Key: key-of-alice\r\n").status(), 200);
    assert_eq!(ask(&gateway, "/", "X-Api-Key: key-of-bob\r\n").status(), 403);
}

/// The log has the present and the required values; the reply does not.
#[test]
fn reasons_have_their_values() {
    let origin = Origin::saying("ok");
    let jwt = "{ jwt: { issuers: [main], audiences: [api], scopes: { any: [read, write] } } }";
    let gateway = gateway(&origin, jwt);
    for (claims, status, reason) in [
        (
            json!({ "aud": ["web", "app"], "scope": "read" }),
            401,
            "`aud` names none of the audiences; the token has: web,app; needed: api",
        ),
        (
            json!({ "aud": "api", "scope": "list" }),
            403,
            "lacks a scope that the route requires; the token has: list; needed: one of read, write",
        ),
        (json!({ "aud": "api" }), 403, "the token has: none; needed: one of read, write"),
    ] {
        let mut claims = claims;
        claims["iss"] = "https://idp.test".into();
        claims["exp"] = (now() + 600).into();
        let token = EC.token(&claims);
        let refused = ask(&gateway, "/", &format!("Authorization: Bearer {token}\r\n"));
        assert_eq!(refused.status(), status, "{claims}");
        for hidden in ["web", "list", "needed"] {
            assert!(!refused.text().contains(hidden), "{}", refused.text());
        }
        gateway.wait_for_output(reason);
    }
}

#[test]
fn what_cannot_work_is_a_complaint() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gate.yaml");
    for (name, text) in files() {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let origin = Origin::saying("ok");
    let key = "{ api_key: { header: x-api-key, keys: { a: b } } }";
    for (policies, part) in [
        ("{ authenticate: { any: [] } }".to_owned(), "no kind of credential"),
        (
            "{ authenticate: { any: [{ cors: { origins: [\"*\"] } }] } }".to_owned(),
            "`cors` does not authenticate clients",
        ),
        (format!("{{ authenticate: {{ any: [{key}, {key}] }} }}"), "this `api_key` is never used"),
        (
            "{ authenticate: { any: [{ jwt: { issuers: [main], optional: true } }] } }".to_owned(),
            "add `otherwise: anonymous`",
        ),
        (format!("{key}, {{ authorize: {{}} }}"), "neither a rule nor groups are given"),
        (format!("{key}, {{ authorize: {{ groups: {{}} }} }}"), "no groups are named"),
        (
            format!("{key}, {{ authorize: {{ groups: {{ allow: [] }} }} }}"),
            "no group is allowed, so every request would be refused",
        ),
        (
            format!("{{ authorize: {{ groups: {{ allow: [a] }} }} }}, {key}"),
            "move it below `api_key`",
        ),
        (format!("{key}, {{ authorize: {{ rule: \"request.method = 'GET'\" }} }}"), "write `==`"),
    ] {
        std::fs::write(&file, yaml(&origin, &policies)).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        let said = format!("{}{}", run.stdout, run.stderr);
        assert_eq!(run.code, Some(1), "{policies}: {said}");
        assert!(said.contains(part), "{policies}: {said}");
    }
}
