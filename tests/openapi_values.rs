//! `openapi`: values as documents describe them in less usual ways.

use crate::harness::{Gateway, Message, Origin, tidegate};

fn start(origin: &Origin, document: &str, keys: &str, policies: &str) -> Gateway {
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ up: {{ targets: [\"{}\"] }} }}\napis: {{ a: {{ openapi: api.yaml, base_path: /v1, upstream: up, validate: {{ {keys} }}, policies: [{policies}] }} }}\n",
        origin.url()
    );
    Gateway::start_beside(yaml, &[("api.yaml", document)])
}

fn ask(gateway: &Gateway, start: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "{start} HTTP/1.1\r\nHost: a.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

const JSON: &str = "Content-Type: application/json\r\n";
const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";

fn verdicts(document: &str, cases: &[(&str, &str, &str, u16)]) {
    let origin = Origin::echo();
    let gateway = start(&origin, document, "request: true, verbose: true", "");
    for (start, lines, body, status) in cases {
        let got = ask(&gateway, start, lines, body);
        assert_eq!(got.status(), *status, "{start} {body}: {}", got.text());
    }
}

/// A value that a schema and the upstream would interpret differently is refused, and so is one that would not be
/// checked.
#[test]
fn values_that_cannot_be_seen_as_they_are_are_refused() {
    let document = r#"
openapi: 3.0.3
paths:
  /t/{id}:
    parameters:
      - { name: id, in: path, required: true, schema: { type: string, maxLength: 3 } }
    get:
      parameters:
        - { name: q, in: query, schema: { type: string, pattern: "^[^a]*$" } }
        - { name: l, in: query, schema: { type: array, items: { type: string } } }
        - { name: d, in: query, style: deepObject, schema: { type: object, properties: { k: { type: string } } } }
        - { name: rgb, in: query, explode: false, schema: { type: object, additionalProperties: { type: integer } } }
        - { name: c, in: cookie, schema: { type: string } }
      responses: {}
"#;
    let get = |target, lines, status| (target, lines, "", status);
    verdicts(
        document,
        &[
            get("GET /v1/t/1?q=%C3%A9", "", 200),
            get("GET /v1/t/1?q=%FF", "", 400),
            get("GET /v1/t/1?l=a&l=%E9", "", 400),
            get("GET /v1/t/1?d[k]=%FF", "", 400),
            get("GET /v1/t/%FF", "", 400),
            get("GET /v1/t/1", "Cookie: c=%FF\r\n", 400),
            get("GET /v1/t/1?rgb=R,100,G,200", "", 200),
            get("GET /v1/t/1?rgb=", "", 200),
            get("GET /v1/t/1?rgb=R,100,G", "", 400),
            get("GET /v1/t/1?rgb=R,100,,x,B,no", "", 400),
        ],
    );
}

#[test]
fn more_faults_than_are_told_are_said_to_be_there() {
    let document = r#"
openapi: 3.0.3
paths:
  /l:
    post:
      requestBody:
        content: { application/json: { schema: { type: array, items: { type: integer } } } }
      responses: {}
"#;
    let origin = Origin::echo();
    let gateway = start(&origin, document, "request: true, verbose: true", "");
    for (items, told) in [(16, 16), (17, 16), (40, 16)] {
        let body = format!("[{}]", vec!["\"x\""; items].join(","));
        let reply = ask(&gateway, "POST /v1/l", JSON, &body);
        assert_eq!(reply.status(), 400, "{}", reply.text());
        let problem: serde_json::Value = serde_json::from_slice(&reply.body).unwrap();
        let errors = problem["errors"].as_array().unwrap();
        assert_eq!(errors.len(), told, "{items}: {errors:?}");
        let is_more =
            errors.iter().any(|one| one == "/: there are more errors than are shown here");
        assert_eq!(is_more, items > 16, "{errors:?}");
    }
}

#[test]
fn members_of_forms_are_read_by_their_style() {
    let document = r#"
openapi: 3.0.3
paths:
  /f:
    post:
      requestBody:
        required: true
        content:
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [n]
              additionalProperties: false
              properties:
                n: { type: integer }
                metadata: { type: object, properties: { order: { type: integer }, tags: { type: array, items: { type: integer } } } }
                spaced: { type: array, items: { type: integer } }
                piped: { type: array, items: { type: integer } }
                joined: { type: array, items: { type: integer } }
                spread: { type: object, properties: { x: { type: integer }, y: { type: integer } } }
                pairs: { type: object, properties: { k: { type: integer } } }
                doc: { type: object, required: [a] }
                docs: { type: array, items: { type: object } }
            encoding:
              metadata: { style: deepObject }
              spaced: { style: spaceDelimited }
              piped: { style: pipeDelimited }
              joined: { explode: false }
              spread: { style: form, explode: true }
              pairs: { style: form, explode: false }
              docs: { contentType: application/json }
      responses: {}
"#;
    let form = |body| ("POST /v1/f", FORM, body);
    let cases: Vec<(&str, &str, &str, u16)> = [
        (form("n=1&metadata[order]=7"), 200),
        (form("n=1&metadata%5Border%5D=7&metadata[tags]=1&metadata[tags]=2"), 200),
        (form("n=1&metadata[order]=x"), 400),
        (form("n=1&metadata[order]=1&metadata[order]=2"), 400),
        (form("n=1&spaced=1%202"), 200),
        (form("n=1&spaced=1,2"), 400),
        (form("n=1&piped=1|2"), 200),
        (form("n=1&joined=1,2"), 200),
        (form("n=1&x=1&y=2"), 200),
        (form("n=1&x=a"), 400),
        (form("n=1&pairs=k,1"), 200),
        (form("n=1&pairs=k,z"), 400),
        (form("n=1&doc=%7B%22a%22%3A1%7D"), 200),
        (form("n=1&doc=%7B%7D"), 400),
        (form("n=1&docs=%5B%7B%7D%5D"), 200),
        (form("n=1&docs=%5B1%5D"), 400),
        (form("n=1&unknown=1"), 400),
        (form("metadata[order]=7"), 400),
    ]
    .into_iter()
    .map(|((start, lines, body), status)| (start, lines, body, status))
    .collect();
    verdicts(document, &cases);
}

#[test]
fn parameters_formats_and_patterns() {
    let document = r##"
openapi: 3.0.3
paths:
  /q:
    get:
      parameters:
        - { name: m, in: query, style: deepObject, schema: { type: object, additionalProperties: { type: array, items: { type: string } } } }
        - { name: p, in: query, schema: { type: string, pattern: "^[\\w-\\.]+$" } }
      responses: {}
  /b: { post: { requestBody: { content: { application/octet-stream: { schema: { type: string, format: binary } } } }, responses: {} } }
  /j:
    post:
      requestBody:
        content:
          application/json:
            schema:
              properties:
                bytes: { type: string, format: byte }
                maybe: { nullable: true, allOf: [{ $ref: "#/components/schemas/A" }] }
                default: { type: string, nullable: true }
                example: { type: integer, nullable: true }
                enum: { type: boolean }
      responses: {}
components: { schemas: { A: { type: object, required: [x] } } }
"##;
    verdicts(
        document,
        &[
            ("GET /v1/q?m[a]=x&m[a]=y", "", "", 200),
            ("GET /v1/q?m[a]=x&m[b]=y", "", "", 200),
            ("GET /v1/q?m[a][]=x&m[a][]=y", "", "", 200),
            ("GET /v1/q?p=a-b.c", "", "", 200),
            ("GET /v1/q?p=a/b", "", "", 400),
            ("POST /v1/b", "", "some bytes", 200),
            ("POST /v1/b", "Content-Type: text/html\r\n", "x", 415),
            ("POST /v1/j", JSON, r#"{"bytes":"aGVsbG8="}"#, 200),
            ("POST /v1/j", JSON, r#"{"bytes":"not base64!"}"#, 400),
            ("POST /v1/j", JSON, r#"{"maybe":null,"default":null,"example":null}"#, 200),
            ("POST /v1/j", JSON, r#"{"maybe":{}}"#, 400),
            ("POST /v1/j", JSON, r#"{"maybe":{"x":1}}"#, 200),
            ("POST /v1/j", JSON, r#"{"default":1}"#, 400),
            ("POST /v1/j", JSON, r#"{"example":"1"}"#, 400),
            ("POST /v1/j", JSON, r#"{"enum":1}"#, 400),
        ],
    );
}

#[test]
fn a_discriminator_chooses_the_schema() {
    let document = r##"
openapi: 3.0.3
paths:
  /pet: { post: { requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/Pet" } } } }, responses: {} } }
  /base: { post: { requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/Base" } } } }, responses: {} } }
components:
  schemas:
    Pet:
      oneOf: [{ $ref: "#/components/schemas/Cat" }, { $ref: "#/components/schemas/Dog" }]
      discriminator: { propertyName: kind, mapping: { puppy: "#/components/schemas/Dog", cat: Cat } }
    Cat: { type: object, properties: { lives: { type: integer } } }
    Dog: { type: object, properties: { bark: { type: string } } }
    Base: { type: object, required: [kind], properties: { kind: { type: string } }, discriminator: { propertyName: kind } }
    Child: { allOf: [{ $ref: "#/components/schemas/Base" }, { type: object, required: [age] }] }
"##;
    verdicts(
        document,
        &[
            ("POST /v1/pet", JSON, r#"{"kind":"cat","lives":7}"#, 200),
            ("POST /v1/pet", JSON, r#"{"kind":"Dog","bark":"x"}"#, 200),
            ("POST /v1/pet", JSON, r#"{"kind":"puppy","bark":1}"#, 400),
            ("POST /v1/pet", JSON, r#"{"kind":"cat","lives":"x"}"#, 400),
            ("POST /v1/pet", JSON, r#"{"kind":"bird"}"#, 400),
            ("POST /v1/pet", JSON, r#"{"lives":7}"#, 400),
            ("POST /v1/base", JSON, r#"{"kind":"Child","age":1}"#, 200),
            ("POST /v1/base", JSON, r#"{"kind":"Child"}"#, 400),
            ("POST /v1/base", JSON, r#"{"kind":"Base"}"#, 200),
        ],
    );
}

#[test]
fn a_reply_is_held_to_the_schema_under_default() {
    let origin = Origin::answering(
        "HTTP/1.1 500 No\r\nContent-Type: application/json\r\nContent-Length: 15\r\n\r\n{\"detail\":null}",
    );
    let document = r#"
openapi: 3.0.3
paths: { /a: { get: { responses: { default: { description: x, content: { application/json: { schema: { type: object, properties: { detail: { type: string, nullable: true } } } } } } } } } }
"#;
    let gateway = start(&origin, document, "response: true", "");
    assert_eq!(ask(&gateway, "GET /v1/a", "", "").text(), "{\"detail\":null}");
}

#[test]
fn downloads_and_empty_forms_of_swagger_2_pass() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/pdf\r\nContent-Length: 1\r\n\r\nx",
    );
    let document = r#"
swagger: "2.0"
paths:
  /file: { get: { responses: { "200": { description: x, schema: { type: file } } } } }
  /form: { post: { consumes: [application/x-www-form-urlencoded], parameters: [{ name: a, in: formData, type: integer }], responses: {} } }
  /needs: { post: { consumes: [application/x-www-form-urlencoded], parameters: [{ name: a, in: formData, type: integer, required: true }], responses: {} } }
"#;
    let gateway = start(&origin, document, "request: true, response: true", "");
    for (start, lines, body, status) in [
        ("GET /v1/file", "", "", 200),
        ("POST /v1/form", "", "", 200),
        ("POST /v1/form", FORM, "a=1", 200),
        ("POST /v1/form", FORM, "a=x", 400),
        ("POST /v1/needs", "", "", 400),
        ("POST /v1/needs", FORM, "a=1", 200),
    ] {
        let got = ask(&gateway, start, lines, body);
        assert_eq!(got.status(), status, "{start}: {got:?}");
    }
}

/// A key that a policy cuts is part of the request that is validated.
#[test]
fn credentials_that_a_policy_cuts_are_seen() {
    let origin = Origin::echo();
    let document = r#"
openapi: 3.0.3
paths:
  /a:
    get:
      parameters:
        - { name: x-api-key, in: header, required: true, schema: { type: string, minLength: 3 } }
        - { name: key, in: query, schema: { type: string, maxLength: 6 } }
      responses: {}
"#;
    let policy = "{ api_key: { header: x-api-key, query: key, keys: { alice: secret } } }";
    let gateway = start(&origin, document, "request: true", policy);
    assert_eq!(ask(&gateway, "GET /v1/a", "X-Api-Key: secret\r\n", "").status(), 200);
    assert_eq!(origin.request().get("x-api-key"), None, "the key was forwarded");
    assert_eq!(
        ask(&gateway, "GET /v1/a?key=secret", "", "").status(),
        400,
        "the header is required"
    );
    assert_eq!(ask(&gateway, "GET /v1/a?key=secret", "X-Api-Key: secret\r\n", "").status(), 200);
    assert_eq!(ask(&gateway, "GET /v1/a", "X-Api-Key: wrong\r\n", "").status(), 401);
}

#[test]
fn a_method_of_a_path_beside_another_is_405() {
    let origin = Origin::echo();
    let document = r#"
openapi: 3.0.3
paths:
  /r/{id}: { get: { responses: {} } }
  /r/{id}:cancel: { post: { responses: {} } }
  /m: { get: { responses: {} } }
  /m?beta=true: { post: { responses: {} } }
"#
    .replace("/r/{id}:cancel:", "\"/r/{id}:cancel\":")
    .replace("/m?beta=true:", "\"/m?beta=true\":")
    .replace("/r/{id}: {", "\"/r/{id}\": {");
    let gateway = start(&origin, &document, "request: true", "");
    let got = ask(&gateway, "POST /v1/r/5", "", "");
    assert_eq!((got.status(), got.get("allow")), (405, Some("GET, HEAD, OPTIONS")));
    assert_eq!(ask(&gateway, "POST /v1/r/5:cancel", "", "").status(), 200);
    assert_eq!(ask(&gateway, "GET /v1/r/5", "", "").status(), 200);
    assert_eq!(ask(&gateway, "POST /v1/m?beta=true", "", "").status(), 200);
    assert_eq!(ask(&gateway, "POST /v1/m", "", "").status(), 405);
    assert_eq!(ask(&gateway, "GET /v1/m", "", "").status(), 200);
}

/// The output of an import is checked before it is written.
#[test]
fn what_import_writes_passes_check() {
    let folder = tempfile::tempdir().unwrap();
    let long = "segment/".repeat(30);
    let document = format!(
        "openapi: 3.0.3\nservers: [{{ url: \"http://127.0.0.1:1\" }}]\npaths:\n  \"/{long}a\": {{ get: {{ responses: {{}} }}, post: {{ responses: {{}} }} }}\n  \"/{long}b\": {{ get: {{ responses: {{}} }} }}\n  \"/messages?beta=true\": {{ post: {{ responses: {{}} }} }}\n  /messages: {{ post: {{ responses: {{}} }} }}\n"
    );
    let path = folder.path().join("pets.yaml");
    std::fs::write(&path, document).unwrap();
    for more in [&[][..], &["--base-path", "/v1"], &["--validate"]] {
        let run = tidegate(&[&["import", "openapi", path.to_str().unwrap()], more].concat());
        assert_eq!(run.code, Some(3), "{run:?}");
        assert!(run.stderr.contains("becomes a condition on the query"), "{run:?}");
        let written = folder.path().join("tidegate.yaml");
        std::fs::write(&written, &run.stdout).unwrap();
        let checked = tidegate(&["check", written.to_str().unwrap()]);
        assert_eq!(checked.code, Some(0), "{checked:?}\n{}", run.stdout);
    }
    // A configuration that cannot be served is not written.
    std::fs::write(&path, "openapi: 3.0.3\nservers: [{ url: \"http://127.0.0.1:1\" }]\npaths: { \"/a/**/b\": { get: { responses: {} } } }").unwrap();
    let run = tidegate(&["import", "openapi", path.to_str().unwrap()]);
    assert_eq!((run.code, run.stdout.as_str()), (Some(1), ""), "{run:?}");
}

/// One note for what many operations have.
#[test]
fn what_has_no_effect_is_noted_once() {
    let operations: String = (0..20)
        .map(|n| format!("  /p{n}: {{ get: {{ x-wso2-invented: 1, security: [{{ o: [] }}], responses: {{}} }} }}\n"))
        .collect();
    let document = format!(
        "openapi: 3.0.3\nx-wso2-response-cache: {{}}\nx-wso2-transports: [https]\nx-wso2-cors: {{ accessControlAllowOrigins: [\"*\"] }}\ncomponents: {{ securitySchemes: {{ o: {{ type: oauth2 }} }} }}\npaths:\n{operations}"
    );
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("api.yaml"), document).unwrap();
    let path = folder.path().join("tidegate.yaml");
    std::fs::write(&path, "listen: { public: { address: \"127.0.0.1:0\" } }\nupstreams: { up: { targets: [\"http://127.0.0.1:1\"] } }\napis: { a: { openapi: api.yaml, base_path: /v1, upstream: up } }\n").unwrap();
    let run = tidegate(&["check", path.to_str().unwrap()]);
    assert_eq!(run.code, Some(0), "{run:?}");
    for what in ["`x-wso2-invented`", "`x-wso2-response-cache`", "`x-wso2-transports`"] {
        assert_eq!(run.stderr.matches(&format!("{what} has no effect")).count(), 1, "{run:?}");
    }
    assert!(!run.stderr.contains("`x-wso2-cors`"), "{run:?}");
    assert_eq!(run.stderr.matches("so nobody is asked").count(), 1, "{run:?}");
}
