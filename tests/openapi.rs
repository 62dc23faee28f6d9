//! `openapi`: requests and replies held to a document.

use serde_json::Value;

use crate::harness::{Gateway, Message, Origin, until};

const DOCUMENT: &str = r##"
openapi: 3.0.3
info: { title: sums, version: "1.0" }
paths:
  /add/{kind}:
    parameters:
      - { name: kind, in: path, required: true, schema: { type: string, enum: [int, big] } }
    post:
      parameters:
        - { name: limit, in: query, schema: { type: integer, minimum: 1 } }
        - { name: tags, in: query, style: form, explode: false, schema: { type: array, items: { type: integer } } }
        - { name: deep, in: query, style: deepObject, schema: { type: object, properties: { a: { type: boolean } } } }
        - { name: small, in: query, schema: { type: integer, format: int32 } }
        - { name: one, in: query, schema: { enum: [1, 2] } }
        - { name: bare, in: query, allowEmptyValue: true, schema: { type: integer } }
        - { name: lone, in: query, schema: { $ref: "#/components/schemas/Text", maxLength: 1 } }
        - { name: X-Trace, in: header, required: true, schema: { type: string, minLength: 3 } }
        - { name: session, in: cookie, schema: { type: integer } }
      requestBody:
        required: true
        content:
          application/json: { schema: { $ref: "#/components/schemas/Sum" } }
          application/x-www-form-urlencoded:
            schema:
              type: object
              required: [intA]
              properties:
                intA: { type: integer }
                more: { type: array, items: { type: integer } }
                joined: { type: array, items: { type: integer } }
            encoding: { joined: { explode: false } }
      responses:
        "200":
          description: ok
          headers: { X-Count: { required: true, schema: { type: integer } } }
          content: { application/json: { schema: { $ref: "parts.yaml#/Result" } } }
        4XX: { description: bad, content: { application/json: { schema: { type: object } } } }
    get:
      responses: { "200": { description: whatever } }
components:
  schemas:
    Text: { type: string }
    Sum:
      type: object
      required: [intA, intB, id]
      properties:
        id: { type: integer, readOnly: true }
        secret: { type: string, writeOnly: true }
        intA: { type: integer }
        intB: { type: integer, nullable: true, minimum: 0, exclusiveMinimum: true }
"##;

const PARTS: &str = r#"
Result:
  type: object
  required: [sum, secret]
  properties:
    sum: { type: integer }
    secret: { type: string, writeOnly: true }
"#;

fn gateway(origin: &Origin, keys: &str) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
telemetry: {{ access_log: {{ format: json }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: sums.yaml, {keys} }} }}] }} }}
"#,
        origin.url()
    );
    Gateway::start_beside(yaml, &[("sums.yaml", DOCUMENT), ("parts.yaml", PARTS)])
}

fn send(gateway: &Gateway, start: &str, lines: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "{start} HTTP/1.1\r\nHost: a.test\r\n{lines}Content-Length: {length}\r\n\r\n{body}"
    ))
}

fn errors(reply: &Message) -> Vec<String> {
    let body: Value = serde_json::from_slice(&reply.body).unwrap();
    let errors = body["errors"].as_array().cloned().unwrap_or_default();
    errors.iter().map(|error| error.as_str().unwrap().to_owned()).collect()
}

const JSON: &str = "X-Trace: abc\r\nContent-Type: application/json\r\n";
const FORM: &str = "X-Trace: abc\r\nContent-Type: application/x-www-form-urlencoded\r\n";

#[test]
fn requests_that_obey_pass_as_they_came() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "verbose: true");
    for (start, lines, body) in [
        ("POST /add/int", JSON, r#"{"intA": 1, "intB": 2}"#),
        ("POST /add/big?limit=2&unknown=x", JSON, r#"{ "intA":1, "intB":null, "other": [] }"#),
        ("POST /add/int?tags=1,2,3&deep[a]=true", JSON, r#"{"intA":1,"intB":2}"#),
        (
            "POST /add/%69nt",
            "x-trace: abc\r\ncontent-type: application/json; charset=utf-8\r\nCookie: a=b; session=7\r\n",
            r#"{"intA":1,"intB":2}"#,
        ),
        ("POST /add/int", FORM, "intA=1&more=1&more=2&x=%20&joined=1,2"),
        ("POST /./a%64d/int?small=-2147483648&one=1&bare=&lone=ab", JSON, r#"{"intA":1,"intB":2}"#),
        ("GET /add/int", "", ""),
    ] {
        let reply = send(&gateway, start, lines, body);
        assert_eq!((reply.status(), reply.text().as_str()), (200, body), "{start}: {reply:?}");
    }
    assert_eq!(origin.requests()[1].target(), "/add/big?limit=2&unknown=x");
}

#[test]
fn requests_that_do_not_are_refused_with_the_pointer() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "verbose: true");
    let good = r#"{"intA":1,"intB":2}"#;
    for (start, lines, body, begins) in [
        ("POST /add/int", JSON, r#"{"intA":"1","intB":2}"#, "/intA: "),
        ("POST /add/int", JSON, r#"{"intB":2}"#, "/: \"intA\" is a required property"),
        ("POST /add/int", JSON, r#"{"intA":1,"intB":0}"#, "/intB: "),
        ("POST /add/int", JSON, r#"{"intA":1,"intB":2,"id":1}"#, "/id: "),
        ("POST /add/int", JSON, "[]", "/: "),
        ("POST /add/int", JSON, "{", "/: the body is not JSON"),
        ("POST /add/int", JSON, "", "/: a body is required"),
        ("POST /add/other", JSON, good, "path parameter `kind`: "),
        ("POST /add/int?limit=0", JSON, good, "query parameter `limit`: "),
        ("POST /add/int?limit=x", JSON, good, "query parameter `limit`: "),
        ("POST /add/int?limit=", JSON, good, "query parameter `limit`: "),
        ("POST /add/int?tags=1,x", JSON, good, "query parameter `tags` at /1: "),
        ("POST /add/int?deep[a]=maybe", JSON, good, "query parameter `deep` at /a: "),
        (
            "POST /add/int",
            "Content-Type: application/json\r\n",
            good,
            "header `X-Trace`: it is required",
        ),
        (
            "POST /add/int",
            "X-Trace: a\r\nContent-Type: application/json\r\n",
            good,
            "header `X-Trace`: ",
        ),
        (
            "POST /add/int",
            "X-Trace: abc\r\nCookie: session=x\r\nContent-Type: application/json\r\n",
            good,
            "cookie `session`: ",
        ),
        ("POST /x/../add/int", JSON, "{}", "/: "),
        ("POST /x/%2e%2e/add/int", JSON, "{}", "/: "),
        ("POST /add/int?limit=1&limit=x", JSON, good, "query parameter `limit`: it occurs more"),
        ("POST /add/int?tags=1&tags=x", JSON, good, "query parameter `tags`: it occurs more"),
        (
            "POST /add/int?deep[a]=x&deep[a]=true",
            JSON,
            good,
            "query parameter `deep` at /a: it occurs",
        ),
        (
            "POST /add/int",
            "X-Trace: abc\r\nCookie: session=1\r\nCookie: a=b; session=x\r\nContent-Type: application/json\r\n",
            good,
            "cookie `session`: ",
        ),
        ("POST /add/int", FORM, "intA=x&intA=1", "/intA: it occurs more"),
        ("POST /add/int", FORM, "intA=1&joined=1,x", "/joined/1: "),
        ("POST /add/int?small=2147483648", JSON, good, "query parameter `small`: "),
        ("POST /add/int?one=3", JSON, good, "query parameter `one`: "),
        ("POST /add/int", FORM, "intA=x", "/intA: "),
        ("POST /add/int", FORM, "more=1", "/: \"intA\" is a required property"),
    ] {
        let reply = send(&gateway, start, lines, body);
        assert_eq!(reply.status(), 400, "{start} {body}: {reply:?}");
        assert_eq!(reply.get("content-type"), Some("application/problem+json"));
        let errors = errors(&reply);
        assert!(errors.iter().any(|error| error.starts_with(begins)), "{begins}: {errors:?}");
    }
    assert_eq!(origin.requests().len(), 0);
}

const MEMBERS: &str = r##"
openapi: 3.1.0
info: { title: members, version: "1.0" }
paths:
  /form:
    post:
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: { properties: { a: {}, n: { type: integer }, p: { pattern: "^x" }, t: { type: string } } }
      responses: {}
  /closed:
    post:
      requestBody:
        content:
          application/x-www-form-urlencoded:
            schema: { properties: { a: { type: string } }, additionalProperties: { type: integer } }
      responses: {}
  /obj:
    get:
      parameters: [{ name: f, in: query, schema: { type: object, properties: { a: { type: integer } } } }]
      responses: {}
  /deep:
    get:
      parameters:
        - { name: f, in: query, style: deepObject, schema: { type: object, properties: { a: { type: integer }, l: { type: array, items: { type: integer } } } } }
      responses: {}
  /bounds:
    get:
      parameters:
        - { name: s, in: query, schema: { type: [integer, "null"], format: int32 } }
        - { name: l, in: query, schema: { type: integer, format: int64 } }
      responses: {}
"##;

/// A member that is not described may be a list; one that has to be a single value must come once.
#[test]
fn members_come_again_where_they_may_be_lists() {
    let origin = Origin::echo();
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: api.yaml, verbose: true }} }}] }} }}
"#,
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("api.yaml", MEMBERS)]);
    for (start, body, wrong) in [
        ("POST /form", "a=1&b=x&b=y&b=z", ""),
        ("POST /form", "a=1&a=2", ""),
        ("POST /form", "tags[]=x&tags[]=y", ""),
        ("POST /form", "n=1&n=2", "/n: it occurs more than once"),
        ("POST /form", "t=1&t=2", "/t: it occurs more than once"),
        ("POST /form", "p=y&p=x", "/p: it occurs more than once"),
        ("POST /closed", "b=1&b=2", "/b: it occurs more than once"),
        ("GET /obj?a=1&utm=1&utm=2", "", ""),
        ("GET /obj?a=1&a=2", "", "query parameter `f` at /a: it occurs more than once"),
        ("GET /deep?f[a]=1&f[t][]=x&f[t][]=y", "", ""),
        ("GET /deep?f[l][]=1&f[l][]=2", "", ""),
        ("GET /deep?f[l][]=1&f[l][]=x", "", "query parameter `f` at /l/1: "),
        ("GET /deep?f[a]=1&f[a]=2", "", "query parameter `f` at /a: it occurs more than once"),
        ("GET /bounds?s=2147483647&l=-9223372036854775808", "", ""),
        ("GET /bounds?s=2147483648", "", "query parameter `s`: "),
        ("GET /bounds?l=9223372036854775808", "", "query parameter `l`: "),
    ] {
        let reply = send(&gateway, start, FORM, body);
        let status = if wrong.is_empty() { 200 } else { 400 };
        assert_eq!(reply.status(), status, "{start} {body}: {reply:?}");
        let errors = if wrong.is_empty() { Vec::new() } else { errors(&reply) };
        assert!(errors.iter().all(|error| error.starts_with(wrong)), "{start} {body}: {errors:?}");
    }
}

const EXACT: &str = r##"
openapi: 3.1.0
info: { title: exact, version: "1.0" }
paths:
  /n:
    post:
      requestBody:
        content:
          application/json:
            schema:
              type: object
              properties:
                id: { type: integer, minimum: 0, maximum: 18446744073709551615 }
                open: { exclusiveMinimum: 0, exclusiveMaximum: 1 }
                even: { type: integer, multipleOf: 2 }
                cents: { type: number, multipleOf: 0.01 }
                one: { const: 1 }
                list: { enum: [0.1, [0.2], { a: 0.3 }] }
          multipart/form-data: { schema: { type: object } }
      responses: {}
    get:
      parameters:
        - { name: id, in: query, schema: { type: integer, maximum: 18446744073709551615 } }
        - { name: ids, in: query, explode: false, schema: { type: array, items: { type: integer, multipleOf: 2 } } }
        - { name: f, in: query, style: deepObject, schema: { type: object, properties: { a: { maximum: 1, type: number } } } }
        - { name: e, in: query, style: deepObject, allowEmptyValue: true, schema: { type: object, properties: { a: { type: integer } } } }
      responses: {}
  /matrix/{m}:
    get:
      parameters: [{ name: m, in: path, required: true, style: matrix, schema: { type: integer } }]
      responses: {}
  /items/{l}:
    get:
      parameters: [{ name: l, in: path, required: true, style: matrix, explode: true, schema: { type: array, items: { type: integer } } }]
      responses: {}
  /label/{l}:
    get:
      parameters: [{ name: l, in: path, required: true, style: label, schema: { type: integer } }]
      responses: {}
"##;

fn exact(origin: &Origin) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0", paths: {{ parameters: keep }} }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: api.yaml, verbose: true }} }}] }} }}
"#,
        origin.url()
    );
    Gateway::start_beside(yaml, &[("api.yaml", EXACT)])
}

/// A double takes 2^64 for 2^64 - 1, and 1.00000000000000000001 for 1.
#[test]
fn numbers_are_judged_by_their_digits() {
    let origin = Origin::echo();
    let gateway = exact(&origin);
    for (member, good) in [
        (r#""id":18446744073709551615"#, true),
        (r#""id":18446744073709551615.0"#, true),
        (r#""id":1.8446744073709551615e19"#, true),
        (r#""id":18446744073709551616"#, false),
        (r#""id":18446744073709551615.5"#, false),
        (r#""id":1.00000000000000000001"#, false),
        (r#""id":-0.0"#, true),
        (r#""open":0.99999999999999999999"#, true),
        (r#""open":1.00000000000000000001"#, false),
        (r#""open":1e-300"#, true),
        (r#""open":-1e-300"#, false),
        (r#""even":18446744073709551618"#, true),
        (r#""even":18446744073709551617"#, false),
        (r#""cents":12345678901234567.89"#, true),
        (r#""cents":12345678901234567.891"#, false),
        (r#""one":1.0"#, true),
        (r#""one":1.00000000000000000001"#, false),
        (r#""list":0.10"#, true),
        (r#""list":0.10000000000000000001"#, false),
        (r#""list":[2e-1]"#, true),
        (r#""list":[0.20000000000000000001]"#, false),
        (r#""list":{"a":0.3}"#, true),
        (r#""list":{"a":0.30000000000000000001}"#, false),
    ] {
        let reply = send(&gateway, "POST /n", JSON, &format!("{{{member}}}"));
        assert_eq!(reply.status(), if good { 200 } else { 400 }, "{member}: {reply:?}");
    }
    for (query, good) in [
        ("id=18446744073709551615", true),
        ("id=18446744073709551616", false),
        ("id=1%20", false),
        ("id=1%0a", false),
        ("ids=2,18446744073709551618", true),
        ("ids=2,18446744073709551617", false),
        ("f[a]=1.0", true),
        ("f[a]=1.00000000000000000001", false),
    ] {
        let reply = send(&gateway, &format!("GET /n?{query}"), "", "");
        assert_eq!(reply.status(), if good { 200 } else { 400 }, "{query}: {reply:?}");
    }
}

/// A parameter in another form than the document's is refused, since the upstream could interpret it differently.
#[test]
fn parameters_are_in_their_style_or_refused() {
    let origin = Origin::echo();
    let gateway = exact(&origin);
    for (target, good) in [
        ("/n?f[a]=1", true),
        ("/n?f%5Ba%5D=1", true),
        ("/n?f[b][]=1&f[b][]=2", true),
        ("/n?ff[a=9", true),
        ("/n?f[a=9", false),
        ("/n?f[a]b=9", false),
        ("/n?f[a][b]=9", false),
        ("/n?f[[a]]=9", false),
        ("/n?f[=9", false),
        ("/n?f=9", false),
        ("/n?f=", false),
        ("/n?e=", true),
        ("/n?e=&e[a]=x", false),
        ("/n?e=1", false),
        ("/matrix/;m=5", true),
        ("/matrix/5", false),
        ("/matrix/m=5", false),
        ("/matrix/;n=5", false),
        ("/items/;l=1;l=2", true),
        ("/items/;l=1;k=2", false),
        ("/items/l=1", false),
        ("/label/.5", true),
        ("/label/5", false),
    ] {
        let reply = send(&gateway, &format!("GET {target}"), "", "");
        assert_eq!(reply.status(), if good { 200 } else { 400 }, "{target}: {reply:?}");
    }
    // A schema that is not enforced is logged.
    gateway.wait_for_log("the schema of `multipart/form-data` is not enforced");
}

#[test]
fn all_that_is_wrong_is_told_within_a_bound() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "verbose: true");
    let reply = send(
        &gateway,
        "POST /add/int?limit=0",
        "Content-Type: application/json\r\n",
        r#"{"intA":"x","intB":"y"}"#,
    );
    assert_eq!(errors(&reply).len(), 4, "{reply:?}");
    let many = format!("/add/int?tags={}", "x,".repeat(200));
    let reply = send(&gateway, &format!("POST {many}"), JSON, "{}");
    assert!(errors(&reply).len() <= 16, "{reply:?}");
}

#[test]
fn without_verbose_the_client_learns_only_that() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "");
    let reply = send(&gateway, "POST /add/int", JSON, r#"{"intA":"1","intB":2}"#);
    assert_eq!(reply.status(), 400);
    assert!(!reply.text().contains("intA"), "{reply:?}");
    // The operator reads it in the access log.
    gateway.wait_for_output("intA");
}

#[test]
fn other_content_types_are_415() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "verbose: true");
    for (lines, error) in [
        ("Content-Type: text/xml\r\n", "/: the content type `text/xml` is not described"),
        ("", "/: there is no `Content-Type`"),
        (
            "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
            "/: the body is compressed",
        ),
    ] {
        let reply = send(&gateway, "POST /add/int", &format!("X-Trace: abc\r\n{lines}"), "{}");
        assert_eq!((reply.status(), errors(&reply)), (415, vec![error.to_owned()]), "{lines}");
    }
}

/// Two sides of one document: a text is validated against its schema in any encoding.
#[test]
fn texts_are_read_in_their_encoding_and_refused_in_others() {
    const TEXTS: &str = r#"
openapi: 3.0.3
info: { title: texts, version: "1" }
paths:
  /t:
    post:
      requestBody: { content: { text/plain: { schema: { type: string, maxLength: 3 } } } }
      responses: { "200": { description: ok, content: { text/plain: { schema: { type: string, maxLength: 3 } } } } }
"#;
    let utf8 = "Content-Type: text/plain; charset=utf-8\r\n";
    let latin = "Content-Type: text/plain; charset=ISO-8859-1\r\n";
    let identity = "Content-Type: text/plain\r\nContent-Encoding: Identity\r\n";
    for (lines, body, good) in [
        (utf8, &b"abc"[..], true),
        (utf8, "\u{e4}\u{f6}\u{fc}".as_bytes(), true),
        (utf8, b"abcd", false),
        (utf8, b"\xff\xfe\xfd\xfc\xfb", false),
        (utf8, b"\xff", false),
        (latin, b"\xe4\xf6\xfc", true),
        (latin, b"\xe4\xf6\xfcd", false),
        (identity, b"abc", true),
    ] {
        let framed = |start: &str| {
            let head = format!("{start}\r\n{lines}Content-Length: {}\r\n", body.len());
            [head.as_bytes(), b"\r\n", body].concat()
        };
        let origin = Origin::answering(framed("HTTP/1.1 200 OK"));
        for (keys, refused) in
            [("request: true, response: false", 400), ("request: false, response: true", 502)]
        {
            let yaml = format!(
                r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: texts.yaml, {keys} }} }}] }} }}
"#,
                origin.url()
            );
            let gateway = Gateway::start_beside(yaml, &[("texts.yaml", TEXTS)]);
            let reply = gateway.wire().ask(framed("POST /t HTTP/1.1\r\nHost: a"));
            let status = if good { 200 } else { refused };
            assert_eq!(reply.status(), status, "{keys} {lines} {body:?}");
        }
    }
}

#[test]
fn other_methods_and_paths_are_405_and_404() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "");
    let reply = send(&gateway, "DELETE /add/int", "", "");
    assert_eq!((reply.status(), reply.get("allow")), (405, Some("POST, GET, HEAD, OPTIONS")));
    let reply = send(&gateway, "OPTIONS /add/int", "", "");
    assert_eq!((reply.status(), reply.get("allow")), (204, Some("POST, GET, HEAD, OPTIONS")));
    for path in ["/add", "/add/int/x", "/", "/ADD/int"] {
        let reply = send(&gateway, &format!("GET {path}"), "", "");
        assert_eq!(
            (reply.status(), reply.get("content-type")),
            (404, Some("application/problem+json")),
            "{path}"
        );
    }
    assert_eq!(origin.requests().len(), 0);
}

/// However they are written, in the configuration, in the document and in the request.
#[test]
fn escapes_in_paths_are_read_as_those_of_routes() {
    let origin = Origin::saying("ok");
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: api.yaml, base_path: "/o%c3%a9", paths: true }} }}] }} }}
"#,
        origin.url()
    );
    let document = "openapi: 3.0.3\npaths: { /%7ea%c3%a9: { get: { responses: {} } }, \"/%7eb/{id}\": { get: { responses: {} } } }";
    let gateway = Gateway::start_beside(yaml, &[("api.yaml", document)]);
    for target in ["/o%c3%a9/~a%C3%A9", "/o%C3%A9/%7ea%c3%a9", "/o%c3%a9/~b/7"] {
        assert_eq!(send(&gateway, &format!("GET {target}"), "", "").status(), 200, "{target}");
    }
}

#[test]
fn replies_that_break_the_document_are_502() {
    for (reply, status, error) in [
        ("200 OK\r\nX-Count: 1\r\nContent-Type: application/json", 200, ""),
        ("200 OK\r\nContent-Type: application/json", 502, "header `X-Count`: it is required"),
        ("200 OK\r\nX-Count: one\r\nContent-Type: application/json", 502, "header `X-Count`: "),
        (
            "200 OK\r\nX-Count: 1\r\nContent-Type: text/plain",
            502,
            "/: the content type `text/plain`",
        ),
        ("404 No\r\nContent-Type: application/json", 404, ""),
        // It has no schema.
        ("500 Broken\r\nContent-Type: text/plain", 500, ""),
    ] {
        let body = r#"{"sum": 3}"#;
        let origin = Origin::answering(format!(
            "HTTP/1.1 {reply}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let gateway = gateway(&origin, "request: false, response: true, verbose: true");
        let got = send(&gateway, "POST /add/int", JSON, "{}");
        assert_eq!(got.status(), status, "{reply}: {got:?}");
        match error {
            "" => assert_eq!(got.text(), body),
            error => assert!(errors(&got)[0].starts_with(error), "{got:?}"),
        }
    }
}

#[test]
fn bodies_of_replies_are_read_and_their_values_never_told() {
    for (body, fault) in [
        (r#"{"sum": "s3cret"}"#, "/sum: "),
        (r#"{}"#, "/: "),
        (r#"{"sum": 1, "secret": "s3cret"}"#, "/secret: "),
        ("s3cret", "/: the body is not JSON"),
    ] {
        let origin = Origin::answering(format!(
            "HTTP/1.1 200 OK\r\nX-Count: 1\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let gateway = gateway(&origin, "response: true, verbose: true");
        let got = send(&gateway, "POST /add/int", JSON, r#"{"intA":1,"intB":2}"#);
        assert_eq!(got.status(), 502, "{body}: {got:?}");
        assert!(errors(&got)[0].starts_with(fault), "{got:?}");
        assert!(!got.text().contains("s3cret"), "{got:?}");
        // The upstream is offered no coding, so that the reply can be read.
        assert_eq!(origin.request().get("accept-encoding"), None);
    }
    // A message without a schema passes.
    let origin = Origin::saying("anything");
    let gateway = gateway(&origin, "response: true");
    assert_eq!(send(&gateway, "GET /add/int", "", "").text(), "anything");
}

#[test]
fn a_body_over_the_bound_is_413_and_a_deep_one_no_harm() {
    let origin = Origin::echo();
    let gateway = gateway(&origin, "body_bytes_max: 64KiB");
    assert_eq!(send(&gateway, "POST /add/int", JSON, &" ".repeat(70_000)).status(), 413);
    let deep = "[".repeat(60_000);
    assert_eq!(send(&gateway, "POST /add/int", JSON, &deep).status(), 400);
}

const UNREAD: &str = r#"
openapi: 3.0.3
info: { title: files, version: "1" }
paths:
  /files:
    post:
      requestBody: { required: true, content: { multipart/form-data: { schema: { type: object } }, image/png: {} } }
      responses: { "200": { description: a table, content: { text/csv: { schema: { type: string } } } } }
    get: { responses: { "200": { description: anything } } }
"#;

#[test]
fn a_body_that_nobody_validates_is_of_any_size_and_streams() {
    let gateway = |origin: &Origin| {
        let yaml = format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: api.yaml, response: true, body_bytes_max: 1KiB }} }}] }} }}
"#,
            origin.url()
        );
        Gateway::start_beside(yaml, &[("api.yaml", UNREAD)])
    };
    let large = "x".repeat(100_000);
    let table = Origin::answering(format!(
        "HTTP/1.1 200 OK\r\nContent-Type: text/csv\r\nContent-Length: {}\r\n\r\n{large}",
        large.len()
    ));
    let to_table = gateway(&table);
    for kind in ["multipart/form-data; boundary=b", "image/png"] {
        let got = send(&to_table, "POST /files", &format!("Content-Type: {kind}\r\n"), &large);
        assert_eq!((got.status(), got.text().len()), (200, large.len()), "{kind}");
        assert_eq!(table.request().body.len(), large.len(), "{kind}");
        table.forget();
    }
    // The presence of a body and its type are still checked.
    let lines = "Content-Type: image/png\r\nTransfer-Encoding: chunked\r\n";
    let none = format!("POST /files HTTP/1.1\r\nHost: a\r\n{lines}\r\n0\r\n\r\n");
    assert_eq!(to_table.wire().ask(none).status(), 400);
    assert_eq!(send(&to_table, "POST /files", "Content-Type: image/png\r\n", "").status(), 400);
    assert_eq!(send(&to_table, "POST /files", "Content-Type: text/csv\r\n", "x").status(), 415);
    // An unknown path or method is reported whatever the body is.
    assert_eq!(send(&to_table, "POST /other", "", &large).status(), 404);
    assert_eq!(send(&to_table, "PUT /files", "", &large).status(), 405);
    assert_eq!(table.requests().len(), 0);
    assert_eq!(send(&to_table, "GET /files", "", "").text().len(), large.len());

    let other = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 1\r\n\r\nx",
    );
    let got = send(&gateway(&other), "POST /files", "Content-Type: image/png\r\n", "x");
    assert_eq!(got.status(), 502, "a type that is not described");

    let events = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: a\n\n\r\n",
    );
    let gateway = gateway(&events);
    let mut wire = gateway.wire();
    wire.send("GET /files HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(wire.read_head().status(), 200);
    assert_eq!(wire.read_chunk().as_deref(), Some(&b"data: a\n\n"[..]));
}

#[test]
fn mistakes_in_documents_are_said() {
    let origin = Origin::saying("");
    for (document, what) in [
        (
            "openapi: 3.0.3\npaths: { /a: { get: { responses: { x: {} } } } }",
            "`x` is not a response status",
        ),
        ("openapi: 4.0.0", "not an OpenAPI version that can be read"),
        ("a: [", "cannot read"),
        (
            "openapi: 3.1.0\npaths: { /a: { $ref: \"other.yaml#/x\" } }",
            "other.yaml`: there is no such file",
        ),
        (
            "openapi: 3.1.0\npaths: { /a: { $ref: \"https://a/b.yaml\" } }",
            "would have to be downloaded",
        ),
        (
            "openapi: 3.1.0\npaths: { /a: { post: { requestBody: { content: { application/json: { schema: { $ref: \"#/nowhere\" } } } } } } }",
            "which does not exist",
        ),
        (
            "openapi: 3.1.0\npaths: { /a: { post: { requestBody: { content: { application/json: { schema: { type: nothing } } } } } } }",
            "schema: Unexpected type",
        ),
        (
            "openapi: 3.1.0\npaths: { /a: { get: { parameters: [{ in: query }] } } }",
            "a parameter without `name`",
        ),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: origin, policies: [{{ openapi: {{ document: api.yaml, response: true }} }}] }} }}\n",
            origin.url()
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tidegate.yaml");
        std::fs::write(&path, yaml).unwrap();
        std::fs::write(folder.path().join("api.yaml"), document).unwrap();
        let run = crate::harness::tidegate(&["check", path.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{document}: {run:?}");
        assert!(run.stderr.contains(what) || run.stdout.contains(what), "{what}: {run:?}");
    }
}

#[test]
fn a_change_of_a_file_that_the_document_refers_to_is_a_change_of_the_configuration() {
    let origin = Origin::answering(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 8\r\n\r\n{\"a\":\"\"}",
    );
    let document = "openapi: 3.1.0\npaths: { /a: { get: { responses: { \"200\": { description: x, content: { application/json: { schema: { $ref: \"a.yaml#/A\" } } } } } } } }";
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: origin, policies: [{{ openapi: {{ document: api.yaml, response: true }} }}] }} }}\n",
        origin.url()
    );
    let schema = |kind: &str| format!("A: {{ properties: {{ a: {{ type: {kind} }} }} }}");
    let gateway =
        Gateway::start_beside(yaml, &[("api.yaml", document), ("a.yaml", &schema("string"))]);
    assert_eq!(gateway.wire().get("/a").status(), 200);
    gateway.put("a.yaml", &schema("integer"));
    until("the file was read again", || gateway.wire().get("/a").status() == 502);
    // Also while it cannot be used.
    gateway.put("a.yaml", "A: [");
    gateway.wait_for_log("cannot read");
    assert_eq!(gateway.wire().get("/a").status(), 502, "the last good one stays in use");
    gateway.put("a.yaml", &schema("string"));
    until("it is good again", || gateway.wire().get("/a").status() == 200);
}

#[test]
fn a_reply_without_the_body_that_is_described_is_502() {
    for (reply, method, status) in [
        ("200 OK\r\nX-Count: 1\r\nContent-Type: application/json", "POST", 502),
        ("200 OK\r\nX-Count: 1", "POST", 502),
        ("200 OK", "GET", 200),
        ("404 No\r\nContent-Type: application/json", "POST", 502),
        ("500 No", "POST", 500),
    ] {
        let origin = Origin::answering(format!("HTTP/1.1 {reply}\r\nContent-Length: 0\r\n\r\n"));
        let gateway = gateway(&origin, "request: false, response: true, verbose: true");
        let got = send(&gateway, &format!("{method} /add/int"), JSON, "");
        assert_eq!(got.status(), status, "{reply}: {got:?}");
    }
}

/// The parts of a schema count as one schema: a property that a side may not send is not required of it, wherever that is said.
#[test]
fn properties_of_the_other_side_are_required_nowhere() {
    const PETS: &str = r##"
openapi: 3.1.0
info: { title: pets, version: "1" }
paths:
  /a: { post: { requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/Inline" } } } }, responses: {} } }
  /b: { post: { requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/Shared" } } } }, responses: {} } }
  /c: { post: { requestBody: { content: { application/json: { schema: { $ref: "#/components/schemas/Beside" } } } }, responses: {} } }
components:
  schemas:
    Base: { type: object, properties: { id: { type: integer, readOnly: true }, name: { type: string } } }
    Needs: { type: object, required: [id, name] }
    Inline: { allOf: [{ $ref: "#/components/schemas/Base" }, { required: [id, name] }] }
    Shared: { allOf: [{ $ref: "#/components/schemas/Needs" }, { allOf: [{ $ref: "#/components/schemas/Base" }] }] }
    Beside: { allOf: [{ $ref: "#/components/schemas/Base", required: [id, name] }] }
"##;
    let origin = Origin::echo();
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: pets.yaml }} }}] }} }}
"#,
        origin.url()
    );
    let gateway = Gateway::start_beside(yaml, &[("pets.yaml", PETS)]);
    let json = "Content-Type: application/json\r\n";
    for path in ["/a", "/b", "/c"] {
        for (body, status) in
            [(r#"{"name":"rex"}"#, 200), (r#"{"name":"rex","id":1}"#, 400), ("{}", 400)]
        {
            let reply = send(&gateway, &format!("POST {path}"), json, body);
            assert_eq!(reply.status(), status, "{path} {body}");
        }
    }
}

const READ_TWICE: &str = r#"
openapi: 3.0.3
info: { title: roles, version: "1.0" }
paths:
  /roles:
    post:
      parameters:
        - { name: filter, in: query, content: { application/json: { schema: { type: object } } } }
        - { name: X-Filter, in: header, content: { application/json: { schema: { type: object } } } }
      requestBody:
        content:
          application/json: { schema: { type: object, properties: { role: { enum: [user] } } } }
          application/free+json: {}
          application/x-www-form-urlencoded:
            schema: { type: object, properties: { deep: { type: object } } }
      responses:
        "200": { description: ok, content: { application/json: { schema: { type: object } } } }
"#;

/// Issue 18.10: readers differ in which of two members of one name they take, so that a schema could see one and the
/// service the other.
#[test]
fn json_in_which_a_member_comes_twice_is_refused() {
    let origin = Origin::echo();
    let yaml = |origin: &Origin, keys: &str| {
        format!(
            r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: roles.yaml, {keys} }} }}] }} }}
"#,
            origin.url()
        )
    };
    let files = &[("roles.yaml", READ_TWICE)];
    let gateway = Gateway::start_beside(yaml(&origin, "response: false, verbose: true"), files);
    let many = (0..1000).map(|n| format!("\"k{n}\":{n},")).collect::<String>();
    let twice = "an object has a duplicate member";
    for (content_type, body, fault) in [
        ("application/json", r#"{"role":"user"}"#, ""),
        ("application/json", r#"{"role":"admin","role":"user"}"#, twice),
        ("application/json", r#"{"role":"user","rol\u0065":"user"}"#, twice),
        ("application/json", r#"{"role":"user","more":[{"a":{"b":1,"b":1}}]}"#, twice),
        ("application/json", r#"{"role":"user","more":[{"b":1},{"b":1}]}"#, ""),
        ("application/json", &format!("{{{many}\"k0\":0}}"), twice),
        ("application/json", &format!("{{{many}\"k\":0}}"), ""),
        ("application/free+json", r#"{"a":1,"a":2}"#, twice),
        ("application/free+json", "no JSON", ""),
        ("application/x-www-form-urlencoded", "deep={\"a\":1,\"a\":2}", "/deep: an object has"),
        ("application/x-www-form-urlencoded", "deep={\"a\":1}", ""),
    ] {
        let lines = format!("Content-Type: {content_type}\r\n");
        let reply = send(&gateway, "POST /roles", &lines, body);
        assert_eq!(reply.status(), if fault.is_empty() { 200 } else { 400 }, "{body}: {reply:?}");
        assert!(fault.is_empty() || errors(&reply)[0].contains(fault), "{body}: {reply:?}");
    }
    let good = r#"{"role":"user"}"#;
    for (target, line, status) in [
        ("/roles?filter={%22a%22:1}", "X-Filter: {\"a\":1}\r\n", 200),
        ("/roles?filter={%22a%22:1,%22a%22:2}", "", 400),
        ("/roles", "X-Filter: {\"a\":1,\"a\":2}\r\n", 400),
    ] {
        let lines = format!("Content-Type: application/json\r\n{line}");
        let reply = send(&gateway, &format!("POST {target}"), &lines, good);
        assert_eq!(reply.status(), status, "{target} {line}: {reply:?}");
    }
    // Errors of the service are its own fault, and are not shown.
    for (body, status) in [(r#"{"a":1}"#, 200), (r#"{"s3cret":1,"s3cret":2}"#, 502)] {
        let length = body.len();
        let origin = Origin::answering(format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
        ));
        let keys = "request: false, response: true, verbose: true";
        let gateway = Gateway::start_beside(yaml(&origin, keys), files);
        let reply = send(&gateway, "POST /roles", "Content-Type: application/json\r\n", "{}");
        assert_eq!(reply.status(), status, "{body}: {reply:?}");
        assert!(status == 200 || !reply.text().contains("s3cret"), "{reply:?}");
    }
}

/// From OpenAPI 3.1 on, members beside a reference also apply.
#[test]
fn both_a_reference_and_what_stands_beside_it_hold() {
    const BESIDE: &str = r##"
openapi: VERSION
info: { title: refs, version: "1" }
paths:
  /a:
    post:
      parameters:
        - { name: q, in: query, schema: { $ref: "#/components/schemas/Number", maximum: 5 } }
        - { name: l, in: query, explode: false, schema: { $ref: "#/components/schemas/List", maxItems: 1 } }
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: "#/components/schemas/Hop" } } }
      responses: { "200": { description: ok } }
components:
  schemas:
    Number: { type: integer }
    List: { type: array, items: { type: integer } }
    Hop: { $ref: "#/components/schemas/A", description: only words, required: [b] }
    A: { type: object, required: [a] }
"##;
    let origin = Origin::saying("ok");
    for (version, beside) in [("3.1.0", 400), ("3.0.3", 200)] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
             upstreams: {{ one: {{ targets: [\"{}\"] }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ openapi: {{ document: a.yaml, request: true }} }}], upstream: one }} }}\n",
            origin.url()
        );
        let document = BESIDE.replace("VERSION", version);
        let gateway = Gateway::start_beside(yaml, &[("a.yaml", &document)]);
        for (target, body, status) in [
            ("/a", r#"{"a":1,"b":2}"#, 200),
            ("/a", r#"{"a":1}"#, beside),
            ("/a", r#"{"b":1}"#, 400),
            ("/a?q=5&l=1", r#"{"a":1,"b":2}"#, 200),
            ("/a?q=6", r#"{"a":1,"b":2}"#, beside),
            ("/a?q=x", r#"{"a":1,"b":2}"#, 400),
            ("/a?l=1,2", r#"{"a":1,"b":2}"#, beside),
            ("/a?l=x", r#"{"a":1,"b":2}"#, 400),
        ] {
            let reply = gateway.wire().ask(format!(
                "POST {target} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
                body.len()
            ));
            assert_eq!(reply.status(), status, "{version} {target} {body}: {}", reply.text());
        }
    }
}
