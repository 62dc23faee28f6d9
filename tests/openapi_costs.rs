//! The cost of validating a message against a schema: alternatives within alternatives, and patterns that look back and forth.

use crate::harness::{Gateway, Message, Origin};

const DOCUMENT: &str = r##"
openapi: 3.1.0
info: { title: t, version: "1" }
paths:
  /query:
    post:
      requestBody: { required: true, content: { application/json: { schema: { $ref: "#/components/schemas/Expr" } } } }
      responses: { "200": { description: ok } }
  /names:
    post:
      requestBody: { required: true, content: { application/json: { schema: { type: object, patternProperties: { "^(p+p+)+(?=q)q$": true } } } } }
      responses: { "200": { description: ok } }
components:
  schemas:
    Expr: { oneOf: [ { $ref: "#/components/schemas/And" }, { $ref: "#/components/schemas/Or" }, { $ref: "#/components/schemas/Leaf" } ] }
    And: { type: object, required: [op, args], properties: { args: { type: array, items: { $ref: "#/components/schemas/Expr" } }, op: { enum: [and] } } }
    Or: { type: object, required: [op, args], properties: { args: { type: array, items: { $ref: "#/components/schemas/Expr" } }, op: { enum: [or] } } }
    Leaf: { type: object, required: [op, v], properties: { op: { enum: [leaf] }, v: { type: integer } } }
"##;

fn start(origin: &Origin, keys: &str) -> Gateway {
    let yaml = format!(
        r#"
listen: {{ public: {{ address: "127.0.0.1:0" }} }}
upstreams: {{ origin: {{ targets: ["{}"] }} }}
routes: {{ all: {{ match: {{ path: "/**" }}, upstream: origin, policies: [{{ openapi: {{ document: api.yaml, {keys} }} }}] }} }}
"#,
        origin.url()
    );
    Gateway::start_beside(yaml, &[("api.yaml", DOCUMENT)])
}

fn post(gateway: &Gateway, path: &str, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

fn nested(levels: usize, leaf: &str) -> String {
    format!("{}{leaf}{}", r#"{"op":"and","args":["#.repeat(levels), "]}".repeat(levels))
}

/// Each level doubled the cost of a message: 375 bytes took ten seconds, a few more all memory there was.
#[test]
fn alternatives_within_alternatives_have_one_budget_for_a_message() {
    const BAD: &str = r#"{"op":"leaf","v":"bad"}"#;
    let origin = Origin::echo();
    for keys in ["response: false, verbose: true", "response: false"] {
        let gateway = start(&origin, keys);
        for (levels, leaf, status) in
            [(3, r#"{"op":"leaf","v":1}"#, 200), (3, BAD, 400), (60, BAD, 400)]
        {
            let reply = post(&gateway, "/query", &nested(levels, leaf));
            assert_eq!(reply.status(), status, "{levels} {leaf}: {reply:?}");
            if levels == 60 && keys.contains("verbose") {
                assert!(reply.text().contains("takes too many steps"), "{reply:?}");
            }
        }
        // A large message that is good has the steps that it needs.
        let many = vec![nested(2, r#"{"op":"leaf","v":1}"#); 3_000].join(",");
        let reply = post(&gateway, "/query", &format!(r#"{{"op":"or","args":[{many}]}}"#));
        assert_eq!(reply.status(), 200, "{:.300}", reply.text());
    }
}

#[test]
fn patterns_that_backtrack_give_up_and_say_nothing_of_the_engine() {
    let origin = Origin::echo();
    let gateway = start(&origin, "response: false, verbose: true");
    let names: Vec<String> = (0..500).map(|n| format!("\"{}{n}\":1", "p".repeat(60))).collect();
    let reply = post(&gateway, "/names", &format!("{{{}}}", names.join(",")));
    assert!(!reply.text().to_lowercase().contains("backtrack"), "{reply:?}");
    assert_eq!(post(&gateway, "/names", r#"{"ppq":1}"#).status(), 200);
}
