//! A golden list of the facts of each kind of policy, so that a review shows wrong facts.

use std::path::Path;

use config::Policy;
use expect_test::expect;

use super::{Facts, facts};

/// Each kind once, with the keys that affect its facts.
const TEXT: &str = r#"
upstreams: { a: { targets: ["http://127.0.0.1:1"] } }
policy_sets: { set: [cors: { origins: ["*"] }] }
routes:
  all:
    match: { path: "/{id}/**" }
    upstream: a
    policies:
      - api_key: { header: x-key, query: key, keys: { ann: key-of-ann } }
      - authenticate: { any: [api_key: { header: x-key, keys: { ann: key-of-ann } }, basic: { users: {} }] }
      - authorize: { rule: "subject == 'ann'" }
      - backend_jwt: { keys: [own.pem], issuer: "https://gate.example" }
      - basic: { users: {} }
      - hmac: { users: {} }
      - jwks: {}
      - jwt: { issuers: [main], claims_to_headers: { x-sub: sub } }
      - key_type: { sandbox: a }
      - mutual_tls: { header: x-cert }
      - headers: { request: { set: { x-a: "{subject}" }, remove: [x-b] } }
      - transform: { request: { json: { set: { a: "{subject}" } } } }
      - mock: { document: api.yaml }
      - canary: { upstream: a, percent: 5, by: subject }
      - correlation: { header: x-id }
      - for: { subjects: [ann], policy: { rate_limit: { by: client, requests: 1, per: 1s } } }
      - redirect: { to: "/{id}" }
      - cache: {}
      - compress: {}
      - concurrency: { by: subject, requests: 1 }
      - cors: { origins: ["*"] }
      - forward_auth: { upstream: a, headers: { take: [x-user] } }
      - grpc_json: { descriptors: a.pb }
      - grpc_web: {}
      - ip_filter: { allow: [10.0.0.0/8] }
      - user_agent: { deny: [curl] }
      - interceptor: { request: { url: "http://127.0.0.1:1" } }
      - json_schema: { body: a.json }
      - openapi: { document: api.yaml }
      - rate_limit: { by: operation, requests: 1, per: 1s }
      - soap: { schema: a.wsdl, validate: [request] }
      - soap_rest: { wsdl: a.wsdl }
      - sse: { by: subject, events: 1 }
      - subscription: { required: true }
      - websocket: { topics: { t: { path: /t, publish: [s] } } }
      - xpath_route: { cases: [{ xpath: /a, equals: b, upstream: a }] }
      - xslt: { stylesheet: a.xsl, on: request }
      - ws_security: { users: { file: users.yaml } }
      - use: set
"#;

/// Returns the facts with their names.
fn by_name(facts: Facts<'_>) -> Vec<(&'static str, String)> {
    let Facts {
        access,
        attracts_preflights,
        answers,
        asks_identity,
        counts,
        tells_operations,
        replies_differ,
        writes,
        removes,
        secrets,
        upstreams,
        diverts,
        xml,
    } = facts;
    vec![
        ("access", format!("{access:?}")),
        ("attracts_preflights", format!("{attracts_preflights:?}")),
        ("answers", format!("{answers:?}")),
        ("asks_identity", format!("{asks_identity:?}")),
        ("counts", format!("{counts:?}")),
        ("tells_operations", format!("{tells_operations:?}")),
        ("replies_differ", format!("{replies_differ:?}")),
        ("writes", format!("{writes:?}")),
        ("removes", format!("{removes:?}")),
        ("secrets", format!("{secrets:?}")),
        ("upstreams", format!("{upstreams:?}")),
        ("diverts", format!("{diverts:?}")),
        ("xml", format!("{xml:?}")),
    ]
}

/// Returns the facts of a policy that differ from [`Facts::NONE`].
fn words(policy: &Policy) -> String {
    let mut words = format!("{}:", policy.name());
    let own = by_name(facts(policy, &["id".to_owned()]));
    for ((name, value), (_, none)) in own.iter().zip(by_name(Facts::NONE)) {
        if *value != none {
            words.push_str(&format!(" {name} {value};"));
        }
    }
    words + "\n"
}

#[test]
fn each_kind_of_policy_has_the_listed_facts() {
    let loaded = config::parse(TEXT, Path::new("gate.yaml"));
    assert!(!loaded.report.has_errors(), "{}", loaded.report);
    let config = loaded.config.expect("a configuration");
    let routes = config.routes.iter().map(|(_, route)| route);
    let policies: Vec<&Policy> =
        routes.flat_map(|route| &route.value.policies).map(|policy| &policy.value).collect();
    let mut names: Vec<&str> = policies.iter().map(|policy| policy.name()).collect();
    let mut all = Policy::NAMES.to_vec();
    names.sort_unstable();
    all.sort_unstable();
    assert_eq!(names, all);
    let words: String = policies.into_iter().map(words).collect();
    expect![[r#"
        api_key: access Identifies; removes ["x-key"]; secrets ["key"];
        authenticate: access Identifies; removes ["x-key", "authorization"];
        authorize: access Guards; asks_identity true;
        backend_jwt: asks_identity true; replies_differ true; writes These(["X-JWT-Assertion"]);
        basic: access Identifies; removes ["authorization"];
        hmac: access Identifies; removes ["authorization", "proxy-authorization"];
        jwks:
        jwt: access Identifies; replies_differ true; writes These(["x-sub"]); removes ["authorization"];
        key_type: asks_identity true; upstreams These(["a"]); diverts ByCaller;
        mutual_tls: access Identifies; removes ["x-cert"];
        headers: asks_identity true; replies_differ true; writes These(["x-a"]); removes ["x-b"];
        transform: asks_identity true; replies_differ true;
        mock: answers true;
        canary: asks_identity true; upstreams These(["a"]); diverts ByCaller;
        correlation:
        for: asks_identity true; counts Requests; replies_differ true;
        redirect: answers true;
        cache:
        compress:
        concurrency: asks_identity true; counts Requests;
        cors: access AnswersPreflights; attracts_preflights true;
        forward_auth: access Guards; replies_differ true; writes These(["x-user"]); upstreams These(["a"]);
        grpc_json: tells_operations true;
        grpc_web:
        ip_filter: access FiltersAddresses;
        user_agent: access FiltersAddresses;
        interceptor: writes Any; upstreams Any; diverts ByService;
        json_schema: access Guards;
        openapi:
        rate_limit: counts Operations;
        soap: tells_operations true; xml Some(Xml { verbose: false, validates: [Request], reads_requests: true, reads_replies: false, makes_faults: false });
        soap_rest: tells_operations true;
        sse: asks_identity true; counts Requests;
        subscription: access Guards; asks_identity true;
        websocket: access Guards; asks_identity true; counts Requests;
        xpath_route: upstreams These(["a"]); diverts ByMessage; xml Some(Xml { verbose: false, validates: [], reads_requests: true, reads_replies: false, makes_faults: false });
        xslt: xml Some(Xml { verbose: false, validates: [], reads_requests: true, reads_replies: false, makes_faults: false });
        ws_security: access Identifies; xml Some(Xml { verbose: false, validates: [], reads_requests: true, reads_replies: false, makes_faults: false });
        use:
    "#]].assert_eq(&words);
}
