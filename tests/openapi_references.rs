//! References in OpenAPI documents: each that has an effect is followed, and one that cannot be is a complaint.

use crate::harness::{Gateway, Message, Origin, Run, tidegate};

/// A gateway with an API of this document and other files.
fn start(origin: &Origin, document: &str, files: &[(&str, &str)], keys: &str) -> Gateway {
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nissuers: {{ main: {{ issuer: \"https://idp.test\", jwks: \"http://127.0.0.1:1/jwks\" }} }}\nupstreams: {{ up: {{ targets: [\"{}\"] }} }}\napis: {{ a: {{ openapi: api.yaml, base_path: /v1, upstream: up, {keys} }} }}\n",
        origin.url()
    );
    Gateway::start_beside(yaml, &[&[("api.yaml", document)], files].concat())
}

fn check(document: &str, files: &[(&str, &str)], keys: &str) -> Run {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ up: {{ targets: [\"http://127.0.0.1:1\"] }} }}\napis: {{ a: {{ openapi: api.yaml, base_path: /v1, upstream: up, {keys} }} }}\n"
    );
    std::fs::write(&path, yaml).unwrap();
    for (name, text) in [&[("api.yaml", document)], files].concat() {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    tidegate(&["check", path.to_str().unwrap()])
}

fn ask(gateway: &Gateway, start: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "{start} HTTP/1.1\r\nHost: a.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

const JSON: &str = "Content-Type: application/json\r\n";

/// An operation with all kinds of constraints, directly and by references in every possible place.
#[test]
fn an_operation_is_held_to_what_stands_behind_its_references() {
    const OPERATION: &str = r#"
post:
  security: [{ oauth: [] }]
  responses: { "200": { description: ok } }
"#;
    let oauth = "components: { securitySchemes: { oauth: { type: oauth2 } } }";
    for (paths, file) in [
        ("paths: { /a: { post: { $ref: \"op.yaml#/post\" } } }", OPERATION),
        ("paths: { /a: { $ref: op.yaml } }", OPERATION),
        ("paths: { /a: { $ref: op.yaml, get: { responses: {} } } }", OPERATION),
        (
            "paths: { $ref: \"op.yaml#/all\" }",
            "all: { /a: { $ref: \"#/item\" } }\nitem: { post: { security: [{ oauth: [] }], responses: {} } }",
        ),
        (
            "paths: { /a: { post: { responses: {} } } }\nsecurity: { $ref: \"op.yaml#/needs\" }",
            "needs: [{ oauth: [] }]",
        ),
    ] {
        let origin = Origin::echo();
        let document = format!("openapi: 3.0.3\n{paths}\n{oauth}\n");
        let gateway = start(&origin, &document, &[("op.yaml", file)], "");
        assert_eq!(ask(&gateway, "POST /v1/a", "", "").status(), 401, "{paths}");
    }
    // The scheme itself, too.
    let origin = Origin::echo();
    let document = "openapi: 3.0.3\npaths: { /a: { post: { security: [{ o: [] }], responses: {} } } }\ncomponents: { securitySchemes: { o: { $ref: \"s.yaml#/o\" } } }\n";
    let gateway = start(&origin, document, &[("s.yaml", "o: { type: oauth2 }")], "");
    assert_eq!(ask(&gateway, "POST /v1/a", "", "").status(), 401);
    assert!(origin.requests().is_empty());
}

#[test]
fn parts_of_an_operation_are_followed() {
    let origin = Origin::echo();
    let document = r##"
openapi: 3.1.0
paths:
  /a/{id}:
    parameters: { $ref: "parts.yaml#/path" }
    post:
      parameters: [{ $ref: "#/components/parameters/Limit" }]
      requestBody: { $ref: "parts.yaml#/body" }
      responses: {}
  /id: { post: { requestBody: { content: { application/json: { schema: { $ref: "https://a.test/pet.json" } } } }, responses: {} } }
  /anchor: { post: { requestBody: { content: { application/json: { schema: { $ref: "parts.yaml#pet" } } } }, responses: {} } }
components:
  parameters: { Limit: { $ref: "parts.yaml#/limit" } }
  schemas:
    Pet: { $id: "https://a.test/pet.json", type: object, required: [name], properties: { name: { $ref: "#/$defs/name" } }, $defs: { name: { type: string } } }
"##;
    let parts = r##"
path: [{ name: id, in: path, required: true, schema: { type: integer } }]
limit: { name: limit, in: query, schema: { $ref: "#/number" } }
number: { type: integer, maximum: 5 }
body: { required: true, content: { $ref: "#/content" } }
content: { application/json: { schema: { $ref: "schemas/sum.yaml#/a~1b/0" } } }
pet: { $anchor: pet, type: object, required: [name] }
"##;
    let files = [("parts.yaml", parts)];
    let folder =
        [files.as_slice(), &[("sum.yaml", "a/b: [{ type: object, required: [sum] }]")]].concat();
    let document = document.to_owned();
    let parts_here = parts.replace("schemas/sum.yaml", "sum.yaml");
    let folder: Vec<(&str, &str)> = folder
        .iter()
        .map(
            |(name, text)| {
                if *name == "parts.yaml" { (*name, parts_here.as_str()) } else { (*name, *text) }
            },
        )
        .collect();
    let gateway = start(&origin, &document, &folder, "validate: { request: true, verbose: true }");
    for (start, body, status) in [
        ("POST /v1/a/1", r#"{"sum":1}"#, 200),
        ("POST /v1/a/x", r#"{"sum":1}"#, 400),
        ("POST /v1/a/1?limit=6", r#"{"sum":1}"#, 400),
        ("POST /v1/a/1?limit=5", r#"{"sum":1}"#, 200),
        ("POST /v1/a/1", "{}", 400),
        ("POST /v1/a/1", "", 400),
        ("POST /v1/id", r#"{"name":"x"}"#, 200),
        ("POST /v1/id", r#"{"name":1}"#, 400),
        ("POST /v1/anchor", "{}", 400),
        ("POST /v1/anchor", r#"{"name":1}"#, 200),
    ] {
        let got = ask(&gateway, start, JSON, body);
        assert_eq!(got.status(), status, "{start} {body}: {got:?}");
    }
}

#[test]
fn a_reference_that_leads_nowhere_is_a_complaint() {
    let cases = [
        "paths: { /a: { post: { $ref: \"#/nowhere\" } } }",
        "paths: { /a: { $ref: \"#/nowhere\" } }",
        "paths: { $ref: \"#/nowhere\" }",
        "paths: { /a: { parameters: [{ $ref: \"#/nowhere\" }], post: { responses: {} } } }",
        "paths: { /a: { post: { parameters: { $ref: \"#/nowhere\" }, responses: {} } } }",
        "paths: { /a: { post: { requestBody: { $ref: \"#/nowhere\" }, responses: {} } } }",
        "paths: { /a: { post: { requestBody: { content: { a/b: { $ref: \"#/nowhere\" } } }, responses: {} } } }",
        "paths: { /a: { post: { responses: { $ref: \"#/nowhere\" } } } }",
        "paths: { /a: { post: { responses: { default: { $ref: \"#/nowhere\" } } } } }",
        "paths: { /a: { post: { responses: { default: { headers: { X-A: { $ref: \"#/nowhere\" } } } } } } }",
        "paths: { /a: { post: { security: { $ref: \"#/nowhere\" }, responses: {} } } }",
        "paths: { /a: { post: { responses: {} } } }\ncomponents: { securitySchemes: { a: { $ref: \"#/nowhere\" } } }",
        "paths: { /a: { post: { responses: {} } } }\nx-wso2-cors: { $ref: \"#/nowhere\" }",
        "paths: { /a: { post: { responses: { default: { content: { application/json: { schema: { properties: { a: { $ref: \"#/nowhere\" } } } } } } } } } }",
    ];
    for paths in cases {
        let run = check(&format!("openapi: 3.0.3\n{paths}\n"), &[], "");
        assert_eq!(run.code, Some(1), "{paths}: {run:?}");
        assert!(run.stderr.contains("`#/nowhere`, which does not exist"), "{paths}: {run:?}");
    }
    for (document, what) in [
        (
            "openapi: 3.0.3\npaths: { /a: { post: { $ref: \"#/paths/~1a/post\" } } }",
            "go in circles",
        ),
        ("openapi: 3.0.3\npaths: { /a: { post: \"op.yaml\" } }", "an operation must be an object"),
        ("openapi: 3.0.3\npaths: { /a: { POST: { responses: {} } } }", "write `post` for `POST`"),
        (
            "openapi: 3.0.3\npaths: { /a: { $ref: \"#/x\", get: {} } }\nx: { get: {} }",
            "`get` stands here and beside",
        ),
        ("swagger: \"2.0\"\npaths: { /a: { post: { $ref: \"#/nowhere\" } } }", "does not exist"),
        (
            "swagger: \"2.0\"\npaths: { /a: { post: { responses: { \"200\": { $ref: \"#/nowhere\" } } } } }",
            "does not exist",
        ),
    ] {
        let run = check(document, &[], "");
        assert_eq!(run.code, Some(1), "{document}: {run:?}");
        assert!(run.stderr.contains(what), "{what}: {run:?}");
    }
}

/// Swagger 2 is followed in the same places.
#[test]
fn swagger_2_is_followed_too() {
    let origin = Origin::echo();
    let document = "swagger: \"2.0\"\npaths: { /a: { $ref: \"op.yaml#/path\" }, /b: { post: { $ref: \"op.yaml#/post\" } } }\nsecurityDefinitions: { o: { type: oauth2 } }\n";
    let file = r##"
path:
  parameters: [{ $ref: "#/id" }]
  get: { responses: {} }
id: { name: id, in: query, required: true, type: integer }
post: { security: [{ o: [] }], responses: {} }
"##;
    let gateway = start(&origin, document, &[("op.yaml", file)], "validate: { request: true }");
    assert_eq!(ask(&gateway, "GET /v1/a?id=1", "", "").status(), 200);
    assert_eq!(ask(&gateway, "GET /v1/a?id=x", "", "").status(), 400);
    assert_eq!(ask(&gateway, "GET /v1/a", "", "").status(), 400);
    assert_eq!(ask(&gateway, "POST /v1/b", "", "").status(), 401);
}

/// References without effect are not resolved.
#[test]
fn only_references_that_are_used_are_followed() {
    let document = r##"
openapi: 3.0.3
paths:
  /a:
    post:
      x-codeSamples: [{ source: { $ref: "samples/a.yaml" } }]
      requestBody: { content: { application/json: { schema: { type: object }, examples: { a: { $ref: "examples/a.json" } } } } }
      responses: {}
components: { schemas: { Unused: { $ref: "https://a.test/unused.yaml" } } }
"##;
    let run = check(document, &[], "validate: { request: true, response: true }");
    assert_eq!(run.code, Some(0), "{run:?}");
}
