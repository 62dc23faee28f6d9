//! `apis`: routes made of OpenAPI documents, and the effect of their extensions.

use serde_json::{Value, json};

use crate::harness::{Gateway, Message, Origin, tidegate};
use crate::tokens::{EC, jwks, now};

fn service(answer: &Value) -> Origin {
    let text = answer.to_string();
    Origin::answering(format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{text}", text.len()))
}

fn start(document: &str, keys: &str, more: &str) -> Gateway {
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\napis: {{ pets: {{ openapi: api.yaml, {keys} }} }}\n{more}\n"
    );
    Gateway::start_beside(yaml, &[("api.yaml", document)])
}

fn ask(gateway: &Gateway, method: &str, target: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "{method} {target} HTTP/1.1\r\nHost: a.test\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn checked(document: &str, keys: &str, more: &str) -> crate::harness::Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\napis: {{ pets: {{ openapi: api.yaml, {keys} }} }}\n{more}\n"
    );
    std::fs::write(&path, yaml).unwrap();
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    tidegate(&["check", path.to_str().unwrap()])
}

#[test]
fn a_document_becomes_routes_below_its_base_path() {
    let origin = Origin::echo();
    let document = r#"
openapi: 3.0.1
info: { title: Echo, version: 1.0.0 }
x-wso2-basePath: /ctx/1.0.0
x-wso2-production-endpoints: { urls: ["ORIGIN/base"] }
paths:
  /path: { post: { responses: { "200": { description: ok } } } }
  /pets/{petId}: { get: { responses: { "200": { description: ok } } } }
"#
    .replace("ORIGIN", &origin.url());
    let gateway = start(&document, "errors: wso2", "");
    let reply = ask(&gateway, "POST", "/ctx/1.0.0/path?a=b", "as it is\n");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "as it is\n"));
    assert_eq!(origin.request().target(), "/base/path?a=b");
    assert_eq!(ask(&gateway, "GET", "/ctx/1.0.0/pets/a%20b", "").status(), 200);
    assert_eq!(origin.requests()[1].target(), "/base/pets/a%20b");
    let reply = ask(&gateway, "GET", "/ctx/1.0.0/nothing", "");
    assert_eq!((reply.status(), reply.get("content-type")), (404, Some("application/json")));
    let reply = ask(&gateway, "DELETE", "/ctx/1.0.0/path", "");
    assert_eq!((reply.status(), reply.get("allow")), (405, Some("POST, OPTIONS")));
    let reply = ask(&gateway, "OPTIONS", "/ctx/1.0.0/path", "");
    assert_eq!((reply.status(), reply.get("allow")), (204, Some("POST, OPTIONS")));
    assert_eq!(ask(&gateway, "GET", "/path", "").status(), 404);
    assert_eq!(origin.requests().len(), 2);
}

#[test]
fn an_upstream_of_ones_own_gets_the_path_without_the_base() {
    let origin = Origin::echo();
    let document = "openapi: 3.1.0\ninfo: {}\nservers: [{ url: \"http://127.0.0.1:1/x\" }]\npaths: { /pets: { get: { responses: {} } } }";
    let more = format!("upstreams: {{ mine: {{ targets: [\"{}\"] }} }}", origin.url());
    let gateway = start(document, "base_path: /petstore/v1, upstream: mine", &more);
    assert_eq!(ask(&gateway, "GET", "/petstore/v1/pets", "").status(), 200);
    assert_eq!(origin.request().target(), "/pets");
    // Without a base path, the document's paths are used unchanged.
    let gateway = start(document, "upstream: mine", &more);
    assert_eq!(ask(&gateway, "GET", "/pets", "").status(), 200);
    assert_eq!(ask(&gateway, "POST", "/pets", "").status(), 405);
    assert_eq!(ask(&gateway, "GET", "/cats", "").status(), 404);
}

#[test]
fn swagger_2_is_read_and_validated() {
    let origin = Origin::echo();
    let document = r##"
swagger: "2.0"
info: { title: old, version: "2" }
host: ORIGIN
basePath: /v2
schemes: [http]
consumes: [application/json]
paths:
  /sums:
    parameters: [{ $ref: "#/parameters/Many" }]
    post:
      parameters:
        - { name: body, in: body, required: true, schema: { $ref: "#/definitions/Sum" } }
      responses: { "200": { description: ok, schema: { $ref: "#/definitions/Sum" } } }
  /forms:
    post:
      consumes: [application/x-www-form-urlencoded]
      parameters: [{ name: n, in: formData, type: integer, required: true }]
      responses: { "200": { description: ok } }
parameters:
  Many: { name: many, in: query, type: array, collectionFormat: pipes, items: { type: integer } }
definitions:
  Sum: { type: object, required: [a], properties: { a: { type: integer } } }
"##
    .replace("ORIGIN", &origin.address().to_string());
    let gateway =
        start(&document, "base_path: /old, validate: { request: true, verbose: true }", "");
    assert_eq!(ask(&gateway, "POST", "/old/sums?many=1|2", r#"{"a":1}"#).status(), 200);
    assert_eq!(origin.request().target(), "/v2/sums?many=1|2");
    for (target, body) in [("/old/sums", r#"{"a":"1"}"#), ("/old/sums?many=1|x", r#"{"a":1}"#)] {
        assert_eq!(ask(&gateway, "POST", target, body).status(), 400, "{target}");
    }
    let form = |body: &str| {
        gateway.wire().ask(format!(
            "POST /old/forms HTTP/1.1\r\nHost: a\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ))
    };
    assert_eq!((form("n=1").status(), form("n=x").status()), (200, 400));
}

#[test]
fn the_most_specific_interceptor_is_asked() {
    let origin = Origin::saying("ok");
    let by = |name: &str| service(&json!({ "headersToReplace": { "x-by": name } }));
    let (api, path, operation, reply) = (by("api"), by("path"), by("operation"), by("reply"));
    let document = r#"
openapi: 3.0.1
info: { title: Pets, version: 1.0.5 }
x-wso2-basePath: /v1
x-wso2-production-endpoints: { urls: ["ORIGIN"] }
x-wso2-request-interceptor: { serviceURL: "API/ignored", includes: [request_headers, invocation_context, response_body] }
x-wso2-response-interceptor: { serviceURL: "REPLY", includes: [response_body] }
paths:
  /a:
    get: { responses: {} }
  /b:
    x-wso2-request-interceptor: { serviceURL: "PATH", includes: [request_body], requestTimeout: 3 }
    get: { responses: {} }
    post:
      x-wso2-request-interceptor: { serviceURL: "OPERATION", includes: [] }
      responses: {}
"#;
    let document = [
        ("ORIGIN", &origin),
        ("API", &api),
        ("PATH", &path),
        ("OPERATION", &operation),
        ("REPLY", &reply),
    ]
    .iter()
    .fold(document.to_owned(), |text, (name, origin)| text.replace(name, &origin.url()));
    let gateway = start(&document, "", "");
    for (method, target, by) in
        [("GET", "/v1/a", "api"), ("GET", "/v1/b", "path"), ("POST", "/v1/b", "operation")]
    {
        let got = ask(&gateway, method, target, "");
        // The response policies are those of the API for all of them.
        assert_eq!((got.status(), got.get("x-by")), (200, Some("reply")), "{got:?}");
        assert_eq!(origin.requests().pop().unwrap().get("x-by"), Some(by));
    }
    let told: Value = serde_json::from_slice(&api.request().body).unwrap();
    let context = &told["invocationContext"];
    let said = ["apiName", "apiVersion", "basePath", "path", "pathTemplate", "supportedMethods"];
    let said: Vec<&str> = said.iter().map(|name| context[name].as_str().unwrap()).collect();
    assert_eq!(said, ["Pets", "1.0.5", "/v1", "/v1/a", "/a", "GET"]);
    assert!(told.get("requestHeaders").is_some() && told.get("requestBody").is_none());
    let told: Value = serde_json::from_slice(&path.request().body).unwrap();
    assert_eq!(told, json!({ "requestBody": "" }));
    assert_eq!(serde_json::from_slice::<Value>(&operation.request().body).unwrap(), json!({}));
    assert_eq!(reply.requests().len(), 3);
}

#[test]
fn dynamic_endpoints_are_those_of_the_document() {
    for list in [true, false] {
        let (origin, other) = (Origin::saying("origin"), Origin::saying("other"));
        let interceptor = service(&json!({ "dynamicEndpoint": { "endpointName": "second" } }));
        let endpoints = if list {
            "[{ first: { urls: [\"ORIGIN\"] } }, { second: { urls: [\"OTHER/below\"] } }]"
        } else {
            "{ first: { urls: [\"ORIGIN\"] }, second: { urls: [\"OTHER/below\"] } }"
        };
        let document = format!(
            "openapi: 3.0.1\ninfo: {{ title: t, version: v }}\nx-wso2-basePath: /v1\nx-wso2-production-endpoints: \"#/x-wso2-endpoints/first\"\nx-wso2-endpoints: {endpoints}\npaths:\n  /a:\n    get: {{ responses: {{}} }}\n    post: {{ x-wso2-request-interceptor: {{ serviceURL: \"{}\" }}, responses: {{}} }}\n",
            interceptor.url()
        );
        let document = document.replace("ORIGIN", &origin.url()).replace("OTHER", &other.url());
        let gateway = start(&document, "", "");
        assert_eq!(ask(&gateway, "GET", "/v1/a?x=1", "").text(), "origin");
        assert_eq!(ask(&gateway, "POST", "/v1/a?x=1", "").text(), "other");
        assert_eq!(origin.request().target(), "/a?x=1");
        assert_eq!(other.request().target(), "/below/a?x=1");
    }
}

#[test]
fn endpoints_are_balanced_failed_over_and_retried() {
    let broken = Origin::answering("HTTP/1.1 503 X\r\nContent-Length: 0\r\n\r\n");
    let (one, two) = (Origin::saying("one"), Origin::saying("two"));
    let document = |endpoint: &str| {
        let document = format!(
            "openapi: 3.0.1\ninfo: {{}}\nx-wso2-basePath: /v1\nx-wso2-production-endpoints: {endpoint}\npaths: {{ /a: {{ get: {{ responses: {{}} }} }} }}"
        );
        let document = document.replace("ONE", &one.url()).replace("TWO", &two.url());
        document.replace("BROKEN", &broken.url())
    };
    let texts = |gateway: &Gateway| {
        let mut wire = gateway.wire();
        (0..6).map(|_| wire.get("/v1/a").text()).collect::<Vec<String>>()
    };
    let gateway = start(&document("{ urls: [\"ONE\", \"TWO\"], type: load_balance }"), "", "");
    let all = texts(&gateway);
    assert_eq!(all.iter().filter(|text| *text == "one").count(), 3, "{all:?}");
    let gateway = start(&document("{ urls: [\"ONE\", \"TWO\"], type: failover }"), "", "");
    assert_eq!(texts(&gateway), ["one"; 6]);
    // No other test gets that port.
    let gone = "http://127.0.0.1:1";
    let failing = format!("{{ urls: [\"{gone}\", \"TWO\"], type: failover }}");
    assert_eq!(texts(&start(&document(&failing), "", "")), ["two"; 6]);
    let retried = "{ urls: [\"BROKEN\", \"TWO\"], advanceEndpointConfig: { timeoutInMillis: 5000, retryConfig: { count: 2, statusCodes: [503] }, circuitBreakers: { maxConnections: 10, maxRequests: 75, maxPendingRequests: 35, maxRetries: 3 } } }";
    assert_eq!(texts(&start(&document(retried), "", "")), ["two"; 6]);
}

#[test]
fn basic_credentials_of_an_endpoint_are_sent() {
    let origin = Origin::saying("ok");
    let document = format!(
        "openapi: 3.0.1\ninfo: {{}}\nx-wso2-basePath: /v1\nx-wso2-production-endpoints: {{ urls: [\"{}\"], securityConfig: {{ enabled: true, type: BASIC, username: ann, password: secret }} }}\npaths: {{ /a: {{ get: {{ responses: {{}} }} }} }}",
        origin.url()
    );
    ask(&start(&document, "", ""), "GET", "/v1/a", "");
    assert_eq!(origin.request().get("authorization"), Some("Basic YW5uOnNlY3JldA=="));
}

#[test]
fn cors_and_tiers_are_those_of_the_document() {
    let origin = Origin::saying("ok");
    let document = format!(
        "openapi: 3.0.1\ninfo: {{}}\nx-wso2-basePath: /v1\nx-wso2-cors: {{ corsConfigurationEnabled: true, accessControlAllowOrigins: [\"https://app.test\"], accessControlAllowMethods: [GET, PUT] }}\nx-wso2-production-endpoints: {{ urls: [\"{}\"] }}\npaths:\n  /a: {{ get: {{ x-wso2-throttling-tier: Bronze, responses: {{}} }} }}\n  /b: {{ get: {{ x-throttling-tier: Unlimited, responses: {{}} }} }}\n",
        origin.url()
    );
    let gateway = start(&document, "", "plans: { Bronze: { requests: 2, per: 1h } }");
    let preflight = gateway.wire().ask("OPTIONS /v1/a HTTP/1.1\r\nHost: a\r\nOrigin: https://app.test\r\nAccess-Control-Request-Method: PUT\r\n\r\n");
    assert_eq!(preflight.get("access-control-allow-origin"), Some("https://app.test"));
    let status = |target: &str| ask(&gateway, "GET", target, "").status();
    assert_eq!([status("/v1/a"), status("/v1/a"), status("/v1/a")], [200, 200, 429]);
    assert_eq!((0..5).map(|_| status("/v1/b")).collect::<Vec<_>>(), [200; 5]);
    let run = checked(&document.replace("Bronze", "Tin"), "", "");
    assert!(
        run.code == Some(1) && run.stderr.contains("the tier `Tin` is none of the `plans`"),
        "{run:?}"
    );
}

#[test]
fn security_is_asked_where_the_document_does() {
    let origin = Origin::saying("ok");
    let document = format!(
        r#"
openapi: 3.0.1
info: {{ title: t, version: v }}
x-wso2-basePath: /v1
x-wso2-production-endpoints: {{ urls: ["{}"] }}
security: [{{ default: [] }}]
components: {{ securitySchemes: {{ default: {{ type: oauth2 }} }} }}
paths:
  /open: {{ get: {{ x-wso2-disable-security: true, responses: {{}} }} }}
  /none: {{ get: {{ x-auth-type: None, responses: {{}} }} }}
  /free: {{ get: {{ security: [], responses: {{}} }} }}
  /read: {{ get: {{ security: [{{ default: [pets:read] }}], responses: {{}} }} }}
  /any: {{ get: {{ responses: {{}} }} }}
"#,
        origin.url()
    );
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    let token = |scope: &str| {
        let run = tidegate(&[
            "token",
            "--key",
            key.to_str().unwrap(),
            "--issuer",
            "https://idp.test",
            "--scope",
            scope,
        ]);
        run.stdout.trim().to_owned()
    };
    let (good, other) = (token("pets:read"), token("pets:write"));
    let jwks = tidegate(&["token", "--jwks", "--key", key.to_str().unwrap()]).stdout;
    let yaml = |policies: &str| {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nissuers: {{ main: {{ issuer: \"https://idp.test\", keys: [jwks.json] }} }}\napis: {{ pets: {{ openapi: api.yaml, {policies} }} }}\n"
        )
    };
    // With the document only, and with a policy of the API.
    for policies in ["", "policies: [{ jwt: { issuers: [main] } }]"] {
        let gateway =
            Gateway::start_beside(yaml(policies), &[("api.yaml", &document), ("jwks.json", &jwks)]);
        let status = |target: &str, token: &str| {
            let line = match token {
                "" => String::new(),
                token => format!("Authorization: Bearer {token}\r\n"),
            };
            gateway.wire().ask(format!("GET {target} HTTP/1.1\r\nHost: a\r\n{line}\r\n")).status()
        };
        for target in ["/v1/open", "/v1/none"] {
            assert_eq!(status(target, ""), 200, "{target} {policies}");
        }
        assert_eq!((status("/v1/any", ""), status("/v1/any", &other)), (401, 200), "{policies}");
        assert_eq!((status("/v1/read", &good), status("/v1/read", &other)), (200, 403));
        assert_eq!(status("/v1/free", ""), if policies.is_empty() { 200 } else { 401 });
    }
    assert!(origin.requests().iter().all(|request| request.get("authorization").is_none()));
}

#[test]
fn documents_that_cannot_be_served_are_complained_about() {
    let paths = "paths: { /a: { get: { responses: {} } } }";
    let unread =
        |line: &str| format!("openapi: 3.0.1\nservers: [{{ url: \"http://a\" }}]\n{line}\n{paths}");
    for (document, keys, what) in [
        (format!("openapi: 3.0.1\n{paths}"), "", "write `upstream: NAME`"),
        (
            format!("openapi: 3.0.1\nservers: [{{ url: /v1 }}]\n{paths}"),
            "",
            "write `upstream: NAME`",
        ),
        (format!("openapi: 3.0.1\n{paths}"), "upstream: nobody", "there is no upstream `nobody`"),
        (
            format!(
                "openapi: 3.0.1\nx-wso2-production-endpoints: {{ urls: [\"http://a/x\", \"http://b/y\"] }}\n{paths}"
            ),
            "",
            "share one path",
        ),
        (
            format!(
                "openapi: 3.0.1\nx-wso2-production-endpoints: {{ urls: [\"ftp://a\"] }}\n{paths}"
            ),
            "",
            "neither http nor https",
        ),
        (
            format!(
                "openapi: 3.0.1\nx-wso2-production-endpoints: {{ urls: [\"http://a\"], type: foo }}\n{paths}"
            ),
            "",
            "api.yaml#/x-wso2-production-endpoints: an endpoint of the type `foo`",
        ),
        (
            "openapi: 3.0.1\nservers: [{ url: \"http://a\" }]\npaths: { /a: { get: { x-wso2-request-interceptor: { serviceURL: \"http://b\", includes: [requst_body] }, responses: {} } } }"
                .to_owned(),
            "",
            "api.yaml#/paths/~1a/get/x-wso2-request-interceptor: unknown value",
        ),
        (
            "openapi: 3.0.1\nservers: [{ url: \"http://a\" }]\nx-wso2-cors: { corsConfigurationEnabled: true, accessControlAllowOrigins: [\"https://a.test/\"] }\npaths: { /a: { get: { responses: {} } } }"
                .to_owned(),
            "",
            "api.yaml#/x-wso2-cors: `https://a.test/` is not an origin",
        ),
        (
            format!(
                "openapi: 3.0.1\nx-wso2-production-endpoints: \"#/x-wso2-endpoints/b\"\nx-wso2-endpoints: {{ a: {{ urls: [\"http://a\"] }} }}\n{paths}"
            ),
            "",
            "none of the `x-wso2-endpoints`",
        ),
        ("swagger: \"1.2\"".to_owned(), "", "not an OpenAPI version"),
        (String::new(), "", "the file is empty"),
        (unread("security: [bearer]"), "", "must be a map from the name of a scheme to its scopes"),
        (unread("security: { bearer: [] }"), "", "`security` must be a list"),
        (unread("x-wso2-disable-security: maybe"), "", "x-wso2-disable-security must be true or false"),
        (unread("x-wso2-auth-header: [a]"), "", "x-wso2-auth-header must be a text"),
        (unread("x-wso2-request-interceptor: http://b"), "", "an interceptor must be a map"),
        (unread("x-wso2-endpoints: [a]"), "", "x-wso2-endpoints: \"a\" must be a map"),
        (unread("x-wso2-throttling-tier: 5"), "", "the tier `5` is none of the `plans`"),
        (unread("x-wso2-production-endpoints: { urls: [http://a, 1] }"), "", "1 in `urls` must be a text"),
        (unread("x-wso2-production-endpoints: { urls: http://a }"), "", "`urls` must be a list"),
        (
            unread("x-wso2-production-endpoints: { urls: [http://a], securityConfig: { type: BASIC, username: a } }"),
            "",
            "`securityConfig` needs the texts `username` and `password`",
        ),
        (
            format!("openapi: 3.0.1\nservers: [{{ url: \"http://{{h}}\", variables: {{ h: {{}} }} }}]\n{paths}"),
            "",
            "the variable `h` of a server has no `default`",
        ),
        (
            unread("").replace("responses: {}", "parameters: [{ name: a, in: query, required: \"yes\" }], responses: {}"),
            "",
            "`required` must be true or false, and is \"yes\"",
        ),
    ] {
        let run = checked(&document, keys, "");
        assert_eq!(run.code, Some(1), "{document}: {run:?}");
        assert!(run.stderr.contains(what), "{what}: {run:?}");
        assert!(run.stderr.contains("tidegate.yaml:2:"), "no place: {run:?}");
    }
}

#[test]
fn import_writes_a_configuration_that_does_the_same() {
    let origin = Origin::echo();
    let document = format!(
        r#"
openapi: 3.0.1
info: {{ title: t, version: v }}
x-wso2-basePath: /v1
x-wso2-production-endpoints: {{ urls: ["{}/base"], advanceEndpointConfig: {{ timeoutInMillis: 5000 }} }}
x-wso2-cors: {{ accessControlAllowOrigins: ["*"] }}
paths:
  /a/{{id}}: {{ post: {{ requestBody: {{ content: {{ application/json: {{ schema: {{ type: object }} }} }} }}, responses: {{}} }} }}
"#,
        origin.url()
    );
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pets.yaml");
    std::fs::write(&path, &document).unwrap();
    let import = || tidegate(&["import", "openapi", path.to_str().unwrap(), "--validate"]);
    let run = import();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_eq!(run.stdout, import().stdout, "not the same twice");
    let yaml = run.stdout.replace("127.0.0.1:8080", "127.0.0.1:0");
    let gateway = Gateway::start_beside(yaml, &[]);
    assert_eq!(ask(&gateway, "POST", "/v1/a/7?b=c", "{}").text(), "{}");
    assert_eq!(origin.request().target(), "/base/a/7?b=c");
    assert_eq!(ask(&gateway, "POST", "/v1/a/7", "[]").status(), 400);
    assert_eq!(ask(&gateway, "PUT", "/v1/a/7", "{}").status(), 405);
    std::fs::write(&path, "openapi: 3.0.1\npaths: { /a: { get: {} } }").unwrap();
    let run = import();
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stdout.is_empty() && run.stderr.contains("write `--upstream URL`"), "{run:?}");
}

#[test]
fn explain_shows_the_routes_that_were_made() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    std::fs::write(&path, "listen: { public: { address: \"127.0.0.1:0\" } }\napis: { pets: { openapi: api.yaml, base_path: /v1, upstream: origin } }\nupstreams: { origin: { targets: [\"http://127.0.0.1:1\"] } }\n").unwrap();
    std::fs::write(
        folder.path().join("api.yaml"),
        "openapi: 3.1.0\npaths: { \"/a/{id}\": { get: { responses: {} } } }",
    )
    .unwrap();
    let run = tidegate(&["explain", path.to_str().unwrap(), "GET", "/v1/a/7"]);
    assert!(run.stdout.contains("route `pets GET /a/{id}`"), "{run:?}");
    assert!(run.stdout.contains("{id} is 7"), "{run:?}");
}

/// A token with a `keytype`, or without one.
fn keyed(key: &std::path::Path, kind: &str) -> String {
    let claim = format!("keytype={kind}");
    let mut arguments =
        vec!["token", "--key", key.to_str().unwrap(), "--issuer", "https://idp.test"];
    if !kind.is_empty() {
        arguments.extend(["--claim", &claim]);
    }
    tidegate(&arguments).stdout.trim().to_owned()
}

#[test]
fn tokens_for_the_sandbox_go_to_the_sandbox() {
    let [production, sandbox] = ["production", "sandbox"].map(Origin::saying);
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    let jwks = tidegate(&["token", "--jwks", "--key", key.to_str().unwrap()]).stdout;
    let yaml = "listen: { public: { address: \"127.0.0.1:0\" } }\nissuers: { main: { issuer: \"https://idp.test\", keys: [jwks.json] } }\napis: { pets: { openapi: api.yaml, errors: wso2 } }\n";
    let at = |name: &str, origin: &Origin, path: &str| {
        format!("x-wso2-{name}-endpoints: {{ urls: [\"{}{path}\"] }}\n", origin.url())
    };
    let both = at("production", &production, "/p") + &at("sandbox", &sandbox, "/s");
    for (endpoints, kind, answer) in [
        (both.clone(), "PRODUCTION", Some(("production", "/p/a/7?q=1"))),
        (both.clone(), "SANDBOX", Some(("sandbox", "/s/a/7?q=1"))),
        (both, "", Some(("production", "/p/a/7?q=1"))),
        (at("production", &production, ""), "PRODUCTION", Some(("production", "/a/7?q=1"))),
        (at("production", &production, ""), "SANDBOX", None),
        (at("sandbox", &sandbox, ""), "SANDBOX", Some(("sandbox", "/a/7?q=1"))),
        (at("sandbox", &sandbox, ""), "PRODUCTION", None),
        (at("sandbox", &sandbox, ""), "", None),
    ] {
        let document = format!(
            "openapi: 3.0.1\ninfo: {{ title: t, version: v }}\nx-wso2-basePath: /v1\n{endpoints}security: [{{ default: [] }}]\n\
             components: {{ securitySchemes: {{ default: {{ type: oauth2 }} }} }}\npaths: {{ \"/a/{{id}}\": {{ get: {{ responses: {{}} }} }} }}\n"
        );
        let gateway = Gateway::start_beside(yaml, &[("api.yaml", &document), ("jwks.json", &jwks)]);
        let reply = gateway.wire().ask(format!(
            "GET /v1/a/7?q=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {}\r\n\r\n",
            keyed(&key, kind)
        ));
        let Some((origin, target)) = answer else {
            assert_eq!(reply.status(), 401, "{endpoints} {kind}");
            assert!(reply.text().contains("900901"), "{reply:?}");
            assert!(reply.get("www-authenticate").is_some(), "{reply:?}");
            continue;
        };
        assert_eq!((reply.status(), reply.text().as_str()), (200, origin), "{endpoints} {kind}");
        let asked = if origin == "sandbox" { &sandbox } else { &production };
        assert_eq!(asked.requests().last().unwrap().target(), target, "{endpoints} {kind}");
    }
}

/// The path is the matched one, even if another one is at its base.
#[test]
fn nothing_leads_out_of_the_sandboxs_path() {
    let origin = Origin::saying("ok");
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    let jwks = tidegate(&["token", "--jwks", "--key", key.to_str().unwrap()]).stdout;
    let yaml = "listen: { public: { address: \"127.0.0.1:0\", paths: { escaped_slash: keep } } }\nissuers: { main: { issuer: \"https://idp.test\", keys: [jwks.json] } }\napis: { pets: { openapi: api.yaml } }\n";
    let document = format!(
        "openapi: 3.0.1\ninfo: {{ title: t, version: v }}\nx-wso2-basePath: /v1\nx-wso2-production-endpoints: {{ urls: [\"{0}/p\"] }}\nx-wso2-sandbox-endpoints: {{ urls: [\"{0}/s\"] }}\nsecurity: [{{ default: [] }}]\n\
         components: {{ securitySchemes: {{ default: {{ type: oauth2 }} }} }}\npaths: {{ \"/a/{{id}}\": {{ get: {{ responses: {{}} }} }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("api.yaml", &document), ("jwks.json", &jwks)]);
    let token = keyed(&key, "SANDBOX");
    for (target, sent) in [
        ("/v1/a/7", "/s/a/7"),
        ("/%761/a/7?q=%61", "/s/a/7?q=%61"),
        ("/v1/a/x%2fy%7e?q=1", "/s/a/x%2fy%7e?q=1"),
        ("/x/../v1/a/7", "/s/a/7"),
        ("/v1/../v1/a/7", "/s/a/7"),
    ] {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n\r\n");
        assert_eq!(gateway.wire().ask(request).status(), 200, "{target}");
        assert_eq!(origin.requests().last().unwrap().target(), sent, "{target}");
    }
}

/// A base is cut from the path that was matched, however its escapes are written.
#[test]
fn a_base_may_be_written_with_escapes() {
    let [production, other] = ["production", "other"].map(Origin::saying);
    let answer = r#"{"dynamicEndpoint":{"endpointName":"other"}}"#;
    let length = answer.len();
    let service =
        Origin::answering(format!("HTTP/1.1 200 X\r\nContent-Length: {length}\r\n\r\n{answer}"));
    let yaml = "listen: { public: { address: \"127.0.0.1:0\", paths: { escaped_slash: keep } } }\napis: { pets: { openapi: api.yaml } }\n";
    let document = format!(
        "openapi: 3.0.1\ninfo: {{ title: t, version: v }}\nx-wso2-basePath: /api%c3%a9\n\
         x-wso2-production-endpoints: {{ urls: [\"{}/p\"] }}\nx-wso2-endpoints: [other: {{ urls: [\"{}/o\"] }}]\n\
         x-wso2-request-interceptor: {{ serviceURL: \"{}\" }}\npaths: {{ \"/a%7e/{{id}}\": {{ get: {{ responses: {{}} }} }} }}\n",
        production.url(),
        other.url(),
        service.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("api.yaml", &document)]);
    for (target, sent) in
        [("/api%c3%a9/a~/7?q=1", "/o/a~/7?q=1"), ("/api%C3%A9/a%7e/x%2fy", "/o/a%7e/x%2fy")]
    {
        assert_eq!(ask(&gateway, "GET", target, "").text(), "other", "{target}");
        assert_eq!(other.requests().last().unwrap().target(), sent, "{target}");
    }
}

/// `security` has the meaning of OpenAPI, whatever the other policies of the API are.
#[test]
fn what_a_document_asks_is_asked_beside_a_rule_of_the_operators() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key.pem");
    let token = keyed(&key, "");
    let jwks = tidegate(&["token", "--jwks", "--key", key.to_str().unwrap()]).stdout;
    let rule = "policies: [{ authorize: { rule: \"request.path != '/v1/never'\" } }]";
    let document = r#"
openapi: 3.0.1
info: { title: t, version: v }
components: { securitySchemes: { oauth: { type: oauth2 }, key: { type: apiKey, in: header, name: k } } }
x-wso2-auth-header: X-Token
paths:
  /asked: { get: { security: [{ oauth: [] }], responses: {} } }
  /both: { get: { security: [{ oauth: [], key: [] }], responses: {} } }
  /may: { get: { security: [{}, { oauth: [] }], responses: {} } }
  /lifted: { get: { security: [], responses: {} } }
  /said: { get: { x-wso2-application-security: { security-types: [oauth2] }, responses: {} } }
  /never: { get: { x-wso2-disable-security: true, responses: {} } }
"#;
    let origin = Origin::saying("ok");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nissuers: {{ main: {{ issuer: \"https://idp.test\", keys: [jwks.json] }} }}\nupstreams: {{ u: {{ targets: [\"{}\"] }} }}\napis: {{ pets: {{ openapi: api.yaml, base_path: /v1, upstream: u, {rule} }} }}\n",
        origin.url()
    );
    let path = folder.path().join("tidegate.yaml");
    std::fs::write(&path, &yaml).unwrap();
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    std::fs::write(folder.path().join("jwks.json"), &jwks).unwrap();
    let said = tidegate(&["check", path.to_str().unwrap()]);
    assert!(said.stderr.contains("asks for `key` beside a token"), "{said:?}");
    let gateway = Gateway::start_beside(yaml, &[("api.yaml", document), ("jwks.json", &jwks)]);
    for (target, nobody, somebody) in [
        ("/v1/asked", 401, 200),
        ("/v1/both", 401, 200),
        ("/v1/may", 200, 200),
        ("/v1/lifted", 200, 200),
        ("/v1/said", 401, 200),
        ("/v1/never", 403, 403),
    ] {
        let status = |lines: &str| {
            let request = format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
            gateway.wire().ask(request).status()
        };
        let shown = format!("X-Token: Bearer {token}\r\n");
        assert_eq!((status(""), status(&shown)), (nobody, somebody), "{target}");
    }
}

#[test]
fn a_scheme_may_stand_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let jwks = tidegate(&["token", "--jwks", "--key", folder.path().join("k").to_str().unwrap()]);
    let document = r##"
openapi: 3.0.1
info: { title: t, version: v }
servers: [{ url: "http://127.0.0.1:1" }]
security: [{ oauth: [] }]
components: { securitySchemes: { oauth: { $ref: "#/x-schemes/oauth" } } }
x-schemes: { oauth: { type: oauth2 } }
paths: { /a: { get: { responses: {} } } }
"##;
    let yaml = "listen: { public: { address: \"127.0.0.1:0\" } }\nissuers: { main: { issuer: \"https://idp.test\", keys: [jwks.json] } }\napis: { pets: { openapi: api.yaml, base_path: /v1 } }\n";
    let gateway =
        Gateway::start_beside(yaml, &[("api.yaml", document), ("jwks.json", &jwks.stdout)]);
    assert_eq!(ask(&gateway, "GET", "/v1/a", "").status(), 401);
}

#[test]
fn each_endpoint_gets_its_own_credentials_and_no_other() {
    let (production, sandbox, open) =
        (Origin::saying("production"), Origin::saying("sandbox"), Origin::saying("open"));
    let config = |user: &str| format!("{{ type: BASIC, username: {user}, password: secret }}");
    let document = format!(
        "openapi: 3.0.1\ninfo: {{}}\nx-wso2-basePath: /v1\n\
         x-wso2-production-endpoints: {{ urls: [\"{}\"], securityConfig: {{ production: {}, sandbox: {} }} }}\n\
         x-wso2-sandbox-endpoints: {{ urls: [\"{}\"], securityConfig: {{ production: {}, sandbox: {} }} }}\n\
         components: {{ securitySchemes: {{ token: {{ type: http, scheme: bearer }} }} }}\n\
         security: [{{ token: [] }}]\n\
         paths:\n  /a: {{ get: {{ responses: {{}} }} }}\n  /open: {{ get: {{ x-wso2-disable-security: true, responses: {{}}, \
         x-wso2-production-endpoints: {{ urls: [\"{}\"] }} }} }}\n",
        production.url(),
        config("ann"),
        config("bob"),
        sandbox.url(),
        config("ann"),
        config("bob"),
        open.url()
    );
    let yaml = "listen: { public: { address: \"127.0.0.1:0\" } }\nissuers: { main: { issuer: \"https://idp.test\", keys: [all.jwks] } }\n\
                apis: { a: { openapi: api.yaml } }\n";
    let gateway =
        Gateway::start_beside(yaml, &[("api.yaml", &document), ("all.jwks", &jwks(&[&EC]))]);
    let ask = |target: &str, kind: &str| {
        let claims = json!({ "iss": "https://idp.test", "keytype": kind, "exp": now() + 60 });
        crate::catalog::call(&gateway, target, &EC.token(&claims)).text()
    };
    assert_eq!(ask("/v1/a", "PRODUCTION"), "production");
    assert_eq!(production.request().get("authorization"), Some("Basic YW5uOnNlY3JldA=="));
    assert_eq!(ask("/v1/a", "SANDBOX"), "sandbox");
    assert_eq!(sandbox.request().get("authorization"), Some("Basic Ym9iOnNlY3JldA=="));
    let reply = gateway.wire().get("/v1/open");
    assert_eq!((reply.status(), reply.text().as_str()), (200, "open"));
    assert_eq!(open.request().get("authorization"), None);
}

#[test]
fn what_an_endpoint_asks_for_is_done_or_told() {
    let settings = "advanceEndpointConfig: { timeoutInMillis: \"5000\", retryConfig: { count: \"2\", statusCodes: [429, \"503\"] }, circuitBreakers: { maxRequests: many } }";
    let document = format!(
        "openapi: 3.0.1\ninfo: {{}}\nx-wso2-basePath: /v1\nx-wso2-production-endpoints: {{ urls: [\"http://127.0.0.1:1\"], {settings} }}\n\
         x-wso2-request-interceptor: {{ serviceURL: \"http://127.0.0.1:1\", requestTimeout: \"2\", clusterTimeout: soon }}\n\
         paths: {{ /a: {{ get: {{ responses: {{}} }}, put: {{ responses: {{}} }} }} }}"
    );
    let run = checked(&document, "", "");
    assert_eq!(run.code, Some(0), "{run:?}");
    for warning in [
        "`retryConfig.statusCodes` names 429;",
        "`maxRequests` of an endpoint is \"many\"",
        "`clusterTimeout` of an interceptor is \"soon\"",
    ] {
        assert_eq!(run.stderr.matches(warning).count(), 1, "{warning}: {run:?}");
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api.yaml");
    std::fs::write(&path, document).unwrap();
    let run = tidegate(&["import", "openapi", path.to_str().unwrap()]);
    for part in ["response: \"5000ms\"", "attempts: 2", ", 503]", "timeout: \"2s\""] {
        assert!(run.stdout.contains(part), "{part}: {run:?}");
    }
}

#[test]
fn what_has_no_effect_is_told() {
    let endpoint = "urls: [\"http://127.0.0.1:1\"], securityConfig: { type: OAUTH }, advanceEndpointConfig: { suspend: 1, retryConfig: { count: 12, statusCodes: 503 }, circuitBreakers: { maxRetries: 3 } }";
    let document = format!(
        "openapi: 3.0.1\ninfo: {{}}\nx-wso2-production-endpoints: {{ {endpoint} }}\nx-wso2-cors: {{ accessControlAllowOrigins: [\"https://a.test\"], accessControlMaxAge: 5 }}\npaths: {{ /a: {{ get: {{ responses: {{}} }} }} }}"
    );
    let run = checked(&document, "", "");
    assert_eq!(run.code, Some(0), "{run:?}");
    for warning in [
        "`suspend` of an endpoint has no effect here",
        "`maxRetries` of an endpoint has no effect here",
        "`securityConfig` of the type `OAUTH` has no effect here",
        "`retryConfig.count` is 12; at most 10 attempts are made",
        "x-wso2-cors: `accessControlMaxAge` has no effect here",
    ] {
        assert_eq!(run.stderr.matches(warning).count(), 1, "{warning}: {run:?}");
    }
}

#[test]
fn import_gives_limits_to_tiers_that_are_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api.yaml");
    std::fs::write(&path, "openapi: 3.0.1\ninfo: {}\nservers: [{ url: \"http://127.0.0.1:1\" }]\npaths:\n  /a: { get: { x-wso2-throttling-tier: Bronze, responses: {} }, put: { x-wso2-throttling-tier: Bronze, responses: {} } }\n").unwrap();
    let run = tidegate(&["import", "openapi", path.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{run:?}");
    let rows: Vec<&str> = run.stderr.lines().map(str::trim_end).collect();
    let place = |line, column| format!("{}:{line}:{column}", path.display());
    let limits = r#"its limits are not in the document; here they are {"requests":100,"per":"1m"}"#;
    let expected = [
        format!("converted     {}   GET /a", place(5, 9)),
        format!("converted     {}  PUT /a", place(5, 65)),
        format!("approximated  {}   the tier `Bronze`  {limits}", place(5, 9)),
        "2 converted, 1 approximated, 0 refused".to_owned(),
    ];
    let spaced = |row: &str| row.split_whitespace().collect::<Vec<_>>().join(" ");
    let spaced_rows: Vec<String> = rows.iter().map(|row| spaced(row)).collect();
    assert_eq!(spaced_rows, expected.map(|row| spaced(&row)), "{run:?}");
    assert!(!run.stderr.contains("the issuer of its tokens"), "{run:?}");
    assert!(run.stdout.contains("requests: 100"), "{run:?}");
    let made = folder.path().join("tidegate.yaml");
    std::fs::write(&made, &run.stdout).unwrap();
    assert_eq!(tidegate(&["check", made.to_str().unwrap()]).code, Some(0));
}

/// With an issuer that is not configured, every request gets 401 or 503, without a reason.
#[test]
fn import_says_that_the_issuer_is_to_be_filled_in() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("api.yaml");
    std::fs::write(&path, "openapi: 3.0.1\ninfo: {}\nservers: [{ url: \"http://127.0.0.1:1\" }]\ncomponents: { securitySchemes: { t: { type: http, scheme: bearer } } }\nsecurity: [{ t: [] }]\npaths: { /a: { get: { responses: {} } } }\n").unwrap();
    let run = tidegate(&["import", "openapi", path.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{run:?}");
    assert_eq!(run.stderr.matches("does not name the issuer of its tokens").count(), 1, "{run:?}");
}

/// A parameter of a route is a whole segment; the document tells the operations apart.
#[test]
fn paths_that_differ_within_a_segment_are_served() {
    let origin = Origin::echo();
    let document = r#"
openapi: 3.0.3
info: { title: t, version: "1" }
servers: [{ url: "ORIGIN" }]
paths:
  /r/{id}: { get: { responses: {} }, put: { responses: {} } }
  /r/{name}.pdf: { get: { parameters: [{ name: q, in: query, required: true, schema: { type: integer } }], responses: {} }, head: { responses: {} } }
  /y/{id}: { get: { responses: {} }, head: { responses: {} } }
  /y/{id}:show: { get: { responses: {} }, post: { responses: {} } }
  /z/{id}.a: { get: { responses: {} } }
  /z/{id}.b: { get: { responses: {} } }
"#
    .replace("ORIGIN", &origin.url());
    for base in ["", "/v1"] {
        let keys = format!("base_path: \"{base}\", validate: {{ request: true }}");
        let gateway = start(&document, &keys, "");
        for (method, target, status) in [
            ("GET", "/r/1", 200),
            ("HEAD", "/r/1", 200),
            ("GET", "/r/1.pdf?q=2", 200),
            ("GET", "/r/1.pdf", 400),
            ("PUT", "/r/1", 200),
            ("GET", "/y/1", 200),
            ("GET", "/y/1:show", 200),
            ("POST", "/y/1:show", 200),
            ("POST", "/y/1", 405),
            ("GET", "/z/1.a", 200),
            ("GET", "/z/1.b", 200),
            ("GET", "/z/1.c", 404),
        ] {
            let reply = ask(&gateway, method, &format!("{base}{target}"), "");
            assert_eq!(reply.status(), status, "{method} {base}{target}");
        }
    }
    // Operations with different tiers cannot be one route.
    let differs = document
        .replace("/z/{id}.b: { get: {", "/z/{id}.b: { get: { x-wso2-throttling-tier: Bronze,");
    let run = checked(&differs, "base_path: /v1", "plans: { Bronze: { requests: 2, per: 1h } }");
    assert_eq!(run.code, Some(1), "{run:?}");
    assert!(run.stderr.contains("match the same requests, since a parameter"), "{run:?}");

    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    let path = folder.path().join("api.yaml");
    let run = tidegate(&["import", "openapi", path.to_str().unwrap()]);
    let made = folder.path().join("tidegate.yaml");
    std::fs::write(&made, &run.stdout).unwrap();
    let run = tidegate(&["check", made.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
}

#[test]
fn paths_that_end_in_an_asterisk_take_all_below() {
    let origin = Origin::echo();
    let document = r#"
openapi: 3.0.3
info: { title: t, version: "1" }
x-wso2-production-endpoints: { urls: ["ORIGIN/up"] }
paths:
  /foo/*: { get: { responses: {} } }
  /foo/one: { put: { responses: {} } }
  /q/*: { post: { parameters: [{ name: n, in: query, required: true, schema: { type: integer } }], responses: {} } }
"#
    .replace("ORIGIN", &origin.url());
    for base in ["", "/v1"] {
        let keys = format!("base_path: \"{base}\", validate: {{ request: true }}");
        let gateway = start(&document, &keys, "");
        for (method, target, status) in [
            ("GET", "/foo", 200),
            ("GET", "/foo/a", 200),
            ("GET", "/foo/a/b?c", 200),
            ("PUT", "/foo/one", 200),
            ("PUT", "/foo/a", 405),
            ("POST", "/q/a/b?n=1", 200),
            ("POST", "/q/a/b", 400),
            ("GET", "/bar", 404),
        ] {
            let reply = ask(&gateway, method, &format!("{base}{target}"), "");
            assert_eq!(reply.status(), status, "{method} {base}{target}");
        }
        let sent: Vec<_> = origin.requests().iter().map(|r| r.target().to_owned()).collect();
        let expected = ["/up/foo", "/up/foo/a", "/up/foo/a/b?c", "/up/foo/one", "/up/q/a/b?n=1"];
        assert!(sent.ends_with(&expected.map(str::to_owned)), "{base}: {sent:?}");
    }
    let all = document.replace("/foo/*:", "/*:");
    let gateway = start(&all, "", "");
    assert_eq!(ask(&gateway, "GET", "/a/b", "").status(), 200);
    assert_eq!(ask(&gateway, "GET", "/", "").status(), 200);
}

#[test]
fn issue_19_what_is_not_in_the_document_asks_nobody_and_is_not_warned_of() {
    let document = "openapi: 3.0.1\ninfo: {}\nx-wso2-basePath: /v1\npaths:\n  /a: { get: { responses: {} } }\n";
    let more = "upstreams: { up: { targets: [\"http://127.0.0.1:1\"] } }";
    let limit = "rate_limit: { requests: 5, per: 1h, by: subject }";
    let api = |policies: &str| format!("upstream: up, policies: [{policies}]");
    let run = checked(
        document,
        &api(&format!("{{ basic: {{ users: {{ a: \"a-long-password\" }} }} }}, {{ {limit} }}")),
        more,
    );
    assert!(!run.stderr.contains("no policy identifies the client"), "{run:?}");
    let run = checked(document, &api(&format!("{{ {limit} }}")), more);
    assert!(
        run.stderr.contains("no policy identifies the client, so this counts by client address"),
        "{run:?}"
    );
}

/// A request that the document does not describe is reported as such, and not as one without a message.
#[test]
fn policies_over_xml_are_those_of_described_requests() {
    let [origin, other] = [Origin::echo(), Origin::saying("other")];
    let document = "openapi: 3.0.3\ninfo: {}\npaths: { /ws: { post: { responses: {} } } }";
    let more = format!(
        "upstreams: {{ mine: {{ targets: [\"{}\"] }}, other: {{ targets: [\"{}\"] }} }}",
        origin.url(),
        other.url()
    );
    for base in ["base_path: /c, ", ""] {
        let keys = format!(
            "{base}upstream: mine, policies: [{{ headers: {{ response: {{ set: {{ x-a: b }} }} }} }}, {{ soap: {{ verbose: true }} }}, \
             {{ xpath_route: {{ cases: [{{ xpath: //n, equals: \"5\", upstream: other }}] }} }}]"
        );
        let gateway = start(document, &keys, &more);
        let path = if base.is_empty() { "/ws" } else { "/c/ws" };
        let envelope = |n: u32| {
            format!(
                "<s:Envelope xmlns:s=\"http://schemas.xmlsoap.org/soap/envelope/\"><s:Body><n>{n}</n></s:Body></s:Envelope>"
            )
        };
        let post = |path: &str, body: &str| {
            let length = body.len();
            gateway.wire().ask(format!(
                "POST {path} HTTP/1.1\r\nHost: a.test\r\nContent-Type: text/xml\r\nContent-Length: {length}\r\n\r\n{body}"
            ))
        };
        assert_eq!(post(path, &envelope(5)).text(), "other", "{base}");
        assert_eq!(post(path, &envelope(6)).text(), envelope(6), "{base}");
        assert_eq!(post(path, "<a/>").status(), 500, "{base}");
        let reply = gateway.wire().ask(format!("GET {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        assert_eq!((reply.status(), reply.get("x-a")), (405, Some("b")), "{base}");
        assert!(reply.text().contains("<faultcode>soap:Client</faultcode>"), "{}", reply.text());
        let reply = gateway.wire().ask(format!("OPTIONS {path} HTTP/1.1\r\nHost: a.test\r\n\r\n"));
        assert_eq!((reply.status(), reply.get("allow")), (204, Some("POST, OPTIONS")), "{base}");
    }
}

/// One of the alternatives is enough; an operation with one alternative asks for all that the API's policies ask.
#[test]
fn alternatives_of_a_document_are_one_of_several_credentials() {
    let origin = Origin::saying("ok");
    let document = r#"
openapi: 3.0.1
info: { title: Pets, version: 1.0.0 }
security: [{ key: [] }, { pass: [] }]
components:
  securitySchemes:
    key: { type: apiKey, in: header, name: X-Key }
    pass: { type: http, scheme: basic }
paths:
  /either: { get: { responses: { "200": { description: ok } } } }
  /maybe: { get: { security: [{ key: [] }, { pass: [] }, {}], responses: { "200": { description: ok } } } }
  /both: { get: { security: [{ key: [], pass: [] }], responses: { "200": { description: ok } } } }
"#;
    let keys = "upstream: origin, policies: [{ api_key: { header: x-key, keys: { alice: sesame } } }, { basic: { users: { alice: sesame } } }]";
    let more = format!("upstreams: {{ origin: {{ targets: [\"{}\"] }} }}", origin.url());
    let gateway = start(document, keys, &more);
    let (key, pass) = ("X-Key: sesame\r\n", "Authorization: Basic YWxpY2U6c2VzYW1l\r\n");
    let wrong = "X-Key: wrong\r\n";
    let both = format!("{key}{pass}");
    for (path, lines, status) in [
        ("/either", key, 200),
        ("/either", pass, 200),
        ("/either", &both, 200),
        ("/either", wrong, 401),
        ("/either", "", 401),
        ("/maybe", "", 200),
        ("/maybe", pass, 200),
        ("/maybe", wrong, 401),
        ("/both", key, 401),
        ("/both", &both, 200),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\n{lines}\r\n");
        assert_eq!(gateway.wire().ask(request).status(), status, "{path} {lines}");
    }
}

/// Each unsupported part has a row with its place, even in a document of several files, and affects the exit code.
#[test]
fn rows_of_an_import_have_their_places() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    let json = r#"{
  "openapi": "3.0.1",
  "servers": [{ "url": "http://127.0.0.1:1" }],
  "x-wso2-transports": ["https"],
  "x-wso2-cors": { "accessControlAllowOrigins": ["*"], "accessControlMaxAge": 5 },
  "components": { "securitySchemes": { "k": { "type": "apiKey", "in": "header", "name": "k" } } },
  "paths": {
    "/a": { "get": { "responses": {}, "security": [{ "k": [] }] } },
    "/b?x=1": { "get": { "responses": {} } },
    "/c": { "$ref": "c.yaml" }
  }
}"#;
    write("api.json", json);
    write("c.yaml", "x-wso2-invented: 1\nget:\n  responses: {}\n");
    let path = folder.path().join("api.json");
    let run = tidegate(&["import", "openapi", path.to_str().unwrap()]);
    assert_eq!(run.code, Some(3), "{run:?}");
    let told = run.stderr.replace(&format!("{}/", folder.path().display()), "");
    let rows: Vec<String> =
        told.lines().map(|row| row.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for row in [
        "converted api.json:8:13 GET /a",
        "converted api.json:9:17 GET /b?x=1",
        "refused api.json:5:56 `accessControlMaxAge` has no effect here",
        "refused api.json:4:3 `x-wso2-transports` has no effect here",
        "approximated api.json:9:5 the query in the path becomes a condition on the query",
    ] {
        assert!(rows.iter().any(|known| known == row), "{row}: {told}");
    }
    let guard = rows.iter().find(|row| row.contains("so nobody is asked")).expect(&told);
    assert!(guard.starts_with("refused api.json:8:13 security asks for `k`"), "{guard}");
    assert!(
        rows.iter().any(|row| row.starts_with("refused") && row.contains("`x-wso2-invented`")),
        "{told}"
    );
    assert!(!told.contains("note:"), "{told}");
    let good = r#"{ "openapi": "3.0.1", "servers": [{ "url": "http://127.0.0.1:1" }], "paths": { "/a": { "get": { "responses": {} } } } }"#;
    write("api.json", good);
    let run = tidegate(&["import", "openapi", path.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.ends_with("1 converted, 0 approximated, 0 refused\n"), "{run:?}");
}
