//! No request stalls a worker: while one message takes seconds of work, a fixed reply on another connection of the same worker is
//! answered between (issue 42, finding 4 of the attacks).
//!
//! The table has each step of flows and each policy in the lists of `config`, with the worst known input. Those that do not read a
//! body are listed with the reason. This build is not optimised, and is ten to fifty times slower than the shipped one. So a wait
//! is compared with the duration of the whole attack: if the work does not pause, both are equal.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::grpc::shop;
use crate::harness::{Gateway, Message, Origin};
use crate::soap_rest::TYPES;

const JSON: &str = "application/json";
const XML: &str = "application/xml";
const SOAP: &str = "text/xml";

/// A wait below this is ignored, since the machine may do other work.
const WAIT_MAX: Duration = Duration::from_millis(500);

/// The longest wait is at most this part of an attack that takes longer.
const PART: u32 = 4;

/// Policies that look at no body, or only at bytes as they pass.
const LIGHT_POLICIES: &[(&str, &str)] = &[
    ("api_key", "a digest of one header, or of one field of a body of 64 KiB"),
    ("authenticate", "other policies, each in this table"),
    ("forward_auth", "sends a head, and reads a reply of bounded size"),
    ("backend_jwt", "signs what the gateway knows"),
    ("basic", "passwords are checked beside the workers"),
    ("jwks", "a fixed reply"),
    ("jwt", "one header, of at most as many bytes as a head"),
    ("key_type", "a claim"),
    ("mutual_tls", "a certificate of the handshake"),
    ("redirect", "a head"),
    ("for", "another policy, which is in this table"),
    ("mock", "a head"),
    ("hmac", "a head, and a digest of a body of bounded size"),
    ("correlation", "a head"),
    ("canary", "a head"),
    ("concurrency", "a count"),
    ("sse", "events as they pass"),
    ("websocket", "messages as they pass"),
    ("cors", "a head"),
    ("grpc_web", "pieces as they pass"),
    ("ip_filter", "an address"),
    ("user_agent", "a header, by expressions of linear time"),
    ("subscription", "a look-up in a map, and the counts of a few plans"),
    ("use", "other policies, each in this table"),
    ("cache", "a copy of what passes"),
];

/// Steps that do no work on a message.
const LIGHT_STEPS: &[(&str, &str)] = &[
    ("drop", "a fixed reply"),
    ("throttle", "a count"),
    ("sequence", "other steps, each in this table"),
];

/// A way to keep a worker busy.
#[derive(Clone)]
struct Attack {
    /// The policy or step.
    of: &'static str,
    /// The list of policies, or of steps.
    keys: &'static str,
    content_type: &'static str,
    body: String,
    /// The target of the request, below the route.
    target: &'static str,
}

fn attack(
    of: &'static str,
    keys: &'static str,
    content_type: &'static str,
    body: String,
) -> Attack {
    Attack { of, keys, content_type, body, target: "" }
}

fn elements(count: usize) -> String {
    format!("<r>{}</r>", "<a>1</a>".repeat(count))
}

fn numbers(count: usize) -> String {
    let numbers: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    format!("[{}]", numbers.join(","))
}

fn texts(count: usize, length: usize) -> String {
    format!("[{}\"\"]", format!("\"{}\",", "x".repeat(length)).repeat(count))
}

/// An order with items at the bottom of a deep nesting.
fn deep_order(count: usize) -> String {
    let items = r#"{"tags":["x"],"sizes":[-1,-1]},"#.repeat(count);
    let (open, close) = (r#"{"inner":"#.repeat(90), "}".repeat(90));
    format!(r#"{open}{{"items":[{items}{{}}]}}{close}"#)
}

fn patterns(count: usize) -> String {
    let item = |number| format!(r#"{{"s":"a","p":"\\p{{L}}{{1,8}}[a]{number}"}}"#);
    format!("[{}]", (0..count).map(item).collect::<Vec<_>>().join(","))
}

fn envelope(content: &str) -> String {
    format!(
        r#"<e:Envelope xmlns:e="http://schemas.xmlsoap.org/soap/envelope/"><e:Body>{content}</e:Body></e:Envelope>"#
    )
}

fn order(tags: usize) -> String {
    let tags = "<tag>x</tag>".repeat(tags);
    envelope(&format!(r#"<Order xmlns="urn:types"><number>1</number>{tags}</Order>"#))
}

/// A security header that is found good at its end.
fn tokens(others: usize) -> String {
    let namespace =
        "http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd";
    let others = "<w:UsernameToken s:x=\"1\"/>".repeat(others);
    envelope("<a/>").replace(
        "<e:Body>",
        &format!(
            "<e:Header><w:Security xmlns:w=\"{namespace}\" xmlns:s=\"urn:s\"><w:UsernameToken><w:Username>alice</w:Username>{others}<w:Password>sesame</w:Password></w:UsernameToken></w:Security></e:Header><e:Body>"
        ),
    )
}

/// The four of the finding, in the languages that expressions are in. What runs out of its budget ends with a fault.
fn expressions() -> Vec<Attack> {
    vec![
        attack(
            "set",
            "[set: { x: { cel: 'body.all(x, body.all(y, x != y || true))' } }, respond: { text: '{{ $x }}' }]",
            JSON,
            texts(300, 6_000),
        ),
        attack(
            "set",
            "[set: { x: { json: '$[?match(@.s, @.p)]' } }, respond: { text: '{{ $x }}' }]",
            JSON,
            patterns(300),
        ),
        attack(
            "set",
            "[set: { x: { xpath: 'count(//a[count(preceding::a) > 1000000000])' } }, respond: { text: '{{ $x }}' }]",
            XML,
            elements(2_000),
        ),
        attack(
            "set",
            "[set: { x: { xpath: 'count(//a[. = //b])' } }, respond: { text: '{{ $x }}' }]",
            XML,
            format!("<r>{}{}</r>", "<a>1</a>".repeat(1_500), "<b>2</b>".repeat(1_500)),
        ),
    ]
}

const SLOW: &str = "count(//a[count(preceding::a) > 1000000000])";

fn steps() -> Vec<Attack> {
    let xml = || elements(2_000);
    let wide = || elements(100_000);
    vec![
        attack(
            "call",
            "[call: { upstream: origin, path: '/{{ count(//a[count(preceding::a) > 9999999]) }}', method: GET }]",
            XML,
            xml(),
        ),
        attack(
            "respond",
            "[respond: { text: '{{ count(//a[count(preceding::a) > 9999999]) }}' }]",
            XML,
            xml(),
        ),
        attack(
            "fault",
            "[fault: { code: client, reason: '{{ count(//a[count(preceding::a) > 9999999]) }}' }]",
            XML,
            xml(),
        ),
        attack(
            "header",
            "[header: { set: { x-a: '{{ count(//a[count(preceding::a) > 9999999]) }}' } }, respond: { text: a }]",
            XML,
            xml(),
        ),
        attack(
            "soap_header",
            "[soap_header: { set: ['<a>{{ count(//tag[count(preceding::*) > 9999999]) }}</a>'] }, respond: {}]",
            SOAP,
            order(2_000).replace(" xmlns=\"urn:types\"", ""),
        ),
        attack(
            "payload",
            "[payload: { xml: '<x>{{ //a }}</x>' }, payload: { xml: '<x>{{ //a }}</x>' }, respond: {}]",
            XML,
            wide(),
        ),
        attack(
            "enrich",
            "[enrich: { source: { xml: '<b/>' }, target: //a, action: after }, respond: {}]",
            XML,
            wide(),
        ),
        attack("xslt", "[xslt: { stylesheet: slow.xsl }, respond: {}]", XML, xml()),
        attack("validate", "[validate: { schema: slow.xsd }, respond: { text: a }]", XML, wide()),
        attack(
            "validate",
            "[validate: { json_schema: slow.json }, respond: { text: a }]",
            JSON,
            numbers(60_000),
        ),
        attack("convert", "[convert: { to: json }, respond: {}]", XML, wide()),
        attack("convert", "[convert: { to: xml, root: r }, respond: {}]", JSON, numbers(200_000)),
        attack("convert", "[convert: { to: soap11 }, respond: {}]", XML, wide()),
        attack("convert", "[convert: { to: soap12 }, respond: {}]", JSON, numbers(100_000)),
        attack(
            "script",
            "[script: { jq: 'map(. + 1) | length' }, respond: {}]",
            JSON,
            numbers(100_000),
        ),
        attack(
            "script",
            "[script: { js: 'return message.map(x => x + 1).length;', values: { a: $body } }, respond: {}]",
            JSON,
            numbers(100_000),
        ),
        attack(
            "filter",
            "[filter: { when: { xpath: 'count(//a[count(preceding::a) > 9999999]) > 0' }, then: [drop: {}], else: [respond: { text: a }] }]",
            XML,
            xml(),
        ),
        attack(
            "switch",
            "[switch: { on: { xpath: 'count(//a[count(preceding::a) > 9999999])' }, cases: [{ matches: '^(1+)+$', steps: [drop: {}] }], default: [respond: { text: a }] }]",
            XML,
            xml(),
        ),
        attack(
            "foreach",
            "[foreach: { over: '//a[count(preceding::a) > 1500]', steps: [payload: { xml: '<b>{{ . }}</b>' }] }, respond: {}]",
            XML,
            xml(),
        ),
        attack(
            "split",
            "[split: { over: '//a[count(preceding::a) > 1950]', steps: [payload: { xml: '<b/>' }], gather: { take: $body, into: '<all/>' } }, respond: {}]",
            XML,
            xml(),
        ),
        attack(
            "scatter",
            "[scatter: { branches: [[payload: { xml: '<b>{{ count(//a[count(preceding::a) > 9999999]) }}</b>' }]], gather: { take: $body, into: '<all/>' } }, respond: {}]",
            XML,
            xml(),
        ),
        attack(
            "wire_tap",
            "[wire_tap: { steps: [payload: { xml: '<b>{{ count(//a[count(preceding::a) > 9999999]) }}</b>' }] }, respond: {}]",
            XML,
            xml(),
        ),
        attack(
            "log",
            "[log: { message: '{{ count(//a[count(preceding::a) > 9999999]) }}' }, respond: { text: a }]",
            XML,
            xml(),
        ),
        attack(
            "cache",
            "[cache: { key: '{{ count(//a[count(preceding::a) > 9999999]) }}', ttl: 1s, steps: [respond: { text: a }] }]",
            XML,
            xml(),
        ),
        attack(
            "store",
            "[enrich: { source: { xml: '<b/>' }, target: //a, action: after }, store: { queue: work }]",
            XML,
            wide(),
        ),
        attack(
            "transaction",
            "[transaction: { database: db, steps: [sql: { database: db, query: 'select $1 as x', arguments: [{ xpath: 'count(//a[count(preceding::a) > 9999999])' }], into: r }] }, respond: { text: a }]",
            XML,
            xml(),
        ),
        attack(
            "sql",
            "[sql: { database: db, query: 'select $1 as x', arguments: [{ xpath: 'count(//a[count(preceding::a) > 9999999])' }], into: r }, respond: { text: a }]",
            XML,
            xml(),
        ),
    ]
}

fn policies() -> Vec<Attack> {
    let heads = format!("/?{}", (0..60).map(|n| format!("a{n}={n}&")).collect::<String>());
    let target: &'static str = heads.leak();
    vec![
        Attack {
            target,
            ..attack(
                "authorize",
                r#"[authorize: { rule: "request.query.all(a, request.query.all(b, request.query.all(c, a != b || b != c || true)))" }]"#,
                JSON,
                String::new(),
            )
        },
        Attack {
            target,
            ..attack(
                "rate_limit",
                r#"[rate_limit: { requests: 1000, per: 1s, by: "cel:string(request.query.all(a, request.query.all(b, request.query.all(c, a != b || b != c || true))))" }]"#,
                JSON,
                String::new(),
            )
        },
        attack("headers", "[headers: { request: { set: { x-a: b } } }]", JSON, numbers(100_000)),
        attack(
            "transform",
            "[transform: { request: { json: { set: { \"/-\": 1, /0: 2 } } }, body_bytes_max: 8MiB }]",
            JSON,
            numbers(300_000),
        ),
        attack("compress", "[compress: {}]", JSON, numbers(300_000)),
        attack(
            "interceptor",
            "[interceptor: { request: { upstream: origin, includes: [request_body], body_bytes_max: 8MiB } }]",
            JSON,
            numbers(300_000),
        ),
        attack(
            "json_schema",
            "[json_schema: { body: slow.json, body_bytes_max: 8MiB }]",
            JSON,
            numbers(60_000),
        ),
        Attack {
            target: "/list",
            ..attack(
                "openapi",
                "[openapi: { document: api.yaml, base_path: /aAT, response: false, body_bytes_max: 8MiB }]",
                JSON,
                numbers(60_000),
            )
        },
        Attack {
            target: "/v1/orders",
            ..attack(
                "grpc_json",
                "[grpc_json: { descriptors: shop.pb, prefix: /aAT, body_bytes_max: 8MiB }]",
                JSON,
                deep_order(60_000),
            )
        },
        attack("soap", "[soap: { schema: types.wsdl, validate: [request] }]", SOAP, order(100_000)),
        Attack {
            target: "/Order",
            ..attack(
                "soap_rest",
                "[soap_rest: { wsdl: types.wsdl }]",
                JSON,
                format!(r#"{{"number":1,"tag":[{}"x"]}}"#, r#""x","#.repeat(100_000)),
            )
        },
        attack(
            "xpath_route",
            "[xpath_route: { cases: [{ xpath: 'count(//a[count(preceding::a) > 9999999])', equals: '1', upstream: origin }] }]",
            XML,
            elements(2_000),
        ),
        attack(
            "ws_security",
            "[ws_security: { users: { alice: sesame }, passwords: [text] }]",
            SOAP,
            tokens(40_000),
        ),
        attack("xslt", "[xslt: { stylesheet: slow.xsl, on: request }]", XML, elements(2_000)),
    ]
}

fn files() -> [(&'static str, String); 5] {
    let sheet = format!(
        r#"<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform"><xsl:template match="/"><x><xsl:value-of select="{}"/></x></xsl:template></xsl:stylesheet>"#,
        SLOW.replace('>', "&gt;")
    );
    let schema = r#"<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema"><xs:element name="r"><xs:complexType><xs:sequence><xs:element name="a" maxOccurs="unbounded"><xs:simpleType><xs:restriction base="xs:string"><xs:pattern value="([0-9]|1)+"/></xs:restriction></xs:simpleType></xs:element></xs:sequence></xs:complexType></xs:element></xs:schema>"#;
    let json = r#"{ "type": "array", "uniqueItems": true, "items": { "anyOf": [{ "type": "string", "pattern": "^(a+)+$" }, { "type": "number", "minimum": 0 }] } }"#;
    let api = format!(
        r#"{{ "openapi": "3.1.0", "info": {{ "title": "t", "version": "1" }}, "paths": {{ "/list": {{ "post": {{ "requestBody": {{ "required": true, "content": {{ "application/json": {{ "schema": {json} }} }} }}, "responses": {{ "200": {{ "description": "ok" }} }} }} }} }} }}"#
    );
    [
        ("slow.xsl", sheet),
        ("slow.xsd", schema.to_owned()),
        ("slow.json", json.to_owned()),
        ("api.yaml", api),
        ("types.wsdl", TYPES.to_owned()),
    ]
}

/// One gateway with one worker for all attacks of a kind. Each attack has its own route.
fn start(origin: &Origin, attacks: &[Attack], as_flow: bool) -> Gateway {
    let mut yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\nroutes:\n\
         \x20 fixed: {{ match: {{ path: /fixed }}, respond: {{ status: 204 }} }}\n",
        origin.url()
    );
    for (at, attack) in attacks.iter().enumerate() {
        let route = format!("  a{at}: {{ match: {{ path: \"/a{at}/**\" }}, strip_prefix: /a{at}, ");
        let end = if as_flow {
            format!("flow: f{at} }}\n")
        } else {
            let keys = attack.keys.replace("aAT", &format!("a{at}"));
            format!("policies: {keys}, upstream: origin }}\n")
        };
        yaml.extend([route, end]);
    }
    if as_flow {
        yaml.push_str("flows:\n");
        for (at, attack) in attacks.iter().enumerate() {
            writeln!(yaml, "  f{at}: {{ timeout: 300s, steps: {} }}", attack.keys).unwrap();
        }
        yaml.push_str(
            "  end: [drop: {}]\nstore: { path: store }\nqueues: { work: { flow: end } }\n\
             databases: { db: { url: \"sqlite:a.db\" } }\n",
        );
    }
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| fs::write(folder.path().join(name), bytes).unwrap();
    for (name, text) in files() {
        write(name, text.as_bytes());
    }
    write("shop.pb", &shop::set());
    write("tidegate.yaml", yaml.as_bytes());
    Gateway::start_of(folder, "tidegate.yaml")
}

/// Sends an attack, and requests the fixed reply meanwhile. Returns the duration of the attack and the longest wait.
fn run(gateway: &Gateway, at: usize, attack: &Attack) -> (Duration, Duration, Message) {
    let request = format!(
        "POST /a{at}{} HTTP/1.1\r\nHost: a\r\nContent-Type: {}\r\nContent-Length: {}\r\n\r\n{}",
        if attack.target.is_empty() { "/" } else { attack.target },
        attack.content_type,
        attack.body.len(),
        attack.body
    );
    let over = AtomicBool::new(false);
    let mut victim = gateway.wire();
    assert_eq!(victim.get("/fixed").status(), 204);
    thread::scope(|scope| {
        let asking = scope.spawn(|| {
            let mut longest = Duration::ZERO;
            while !over.load(Ordering::Relaxed) {
                let asked = Instant::now();
                assert_eq!(victim.get("/fixed").status(), 204);
                longest = longest.max(asked.elapsed());
            }
            longest
        });
        let sent = Instant::now();
        let reply = gateway.wire().ask(request);
        let took = sent.elapsed();
        over.store(true, Ordering::Relaxed);
        (took, asking.join().unwrap(), reply)
    })
}

#[track_caller]
fn no_attack_stalls(attacks: &[Attack], as_flow: bool) {
    let origin = Origin::echo();
    let gateway = start(&origin, attacks, as_flow);
    let mut stalled = String::new();
    for (at, attack) in attacks.iter().enumerate() {
        let (took, longest, reply) = run(&gateway, at, attack);
        let status = reply.status();
        eprintln!(
            "{} {status}: {took:?}, longest wait {longest:?}; {:.200}",
            attack.of,
            reply.text()
        );
        if longest > WAIT_MAX && longest * PART > took {
            writeln!(stalled, "{} {}: {longest:?} of {took:?}", attack.of, attack.keys).unwrap();
        }
    }
    assert!(stalled.is_empty(), "a fixed reply waited too long:\n{stalled}");
}

#[test]
fn expressions_of_every_language_let_others_run() {
    no_attack_stalls(&expressions(), true);
}

#[test]
fn every_step_lets_others_run() {
    no_attack_stalls(&steps(), true);
}

#[test]
fn every_policy_lets_others_run() {
    no_attack_stalls(&policies(), false);
}

/// A new policy or step has to be added here with its effect on a worker.
#[test]
fn the_tables_have_every_policy_and_every_step() {
    for (names, attacks, light) in [
        (config::Policy::NAMES, policies(), LIGHT_POLICIES),
        (config::Step::NAMES, [steps(), expressions()].concat(), LIGHT_STEPS),
    ] {
        let known: BTreeSet<&str> = names.iter().copied().collect();
        let light = light.iter().map(|(name, reason)| {
            assert!(!reason.is_empty());
            *name
        });
        let listed: BTreeSet<&str> = attacks.iter().map(|attack| attack.of).chain(light).collect();
        assert_eq!(listed, known);
    }
}
