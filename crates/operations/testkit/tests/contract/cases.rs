//! A case for each kind of policy: a configuration, and requests with their outcomes. Each new policy needs a case here.

/// A policy, and how to see that it works.
pub(crate) struct Case {
    /// The name of the policy.
    pub(crate) policy: &'static str,
    /// The items of the route's `policies`.
    pub(crate) policies: &'static str,
    /// More keys of the configuration.
    pub(crate) more: &'static str,
    /// The lines and the body of the upstream's reply.
    pub(crate) reply: (&'static str, &'static str),
    pub(crate) asks: &'static [Ask],
    /// Header lines whose values always differ.
    pub(crate) volatile: &'static [&'static str],
}

/// A request with its outcome.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    /// The method and the target: `METHOD TARGET`.
    pub(crate) start: &'static str,
    /// More header lines, each with its CRLF. `{token}` is a token for `alice`, `{certificate}` a client's certificate.
    pub(crate) lines: &'static str,
    pub(crate) body: &'static str,
    pub(crate) status: &'static str,
    pub(crate) shows: Shows,
}

#[derive(Clone, Copy)]
/// How to see that the policy has done its work.
pub(crate) enum Shows {
    /// The status.
    Status,
    /// A text in the request to the upstream.
    Above(&'static str),
    /// A text in the reply to the client.
    Below(&'static str),
}

const GET: Ask = Ask { start: "GET /", lines: "", body: "", status: "200", shows: Shows::Status };
const POST: Ask = Ask {
    start: "POST /",
    lines: "Content-Type: application/json\r\n",
    body: r#"{"a":1,"b":{"c":"two"}}"#,
    ..GET
};

const CASE: Case = Case {
    policy: "",
    policies: "",
    more: "",
    reply: ("Content-Type: application/json\r\n", r#"{"x":1,"y":[2,3]}"#),
    asks: &[],
    volatile: &[],
};

const SOAP: Ask = Ask {
    start: "POST /ws",
    lines: "Content-Type: text/xml; charset=utf-8\r\nSOAPAction: \"http://tempuri.org/Add\"\r\n",
    body: ADD,
    ..GET
};

const ADD: &str = r#"<?xml version="1.0"?><soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><Add xmlns="http://tempuri.org/"><intA>5</intA><intB>7</intB></Add></soap:Body></soap:Envelope>"#;
const ADD_SECURED: &str = r#"<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Header><w:Security xmlns:w="http://docs.oasis-open.org/wss/2004/01/oasis-200401-wss-wssecurity-secext-1.0.xsd"><w:UsernameToken><w:Username>alice</w:Username><w:Password>sesame</w:Password></w:UsernameToken></w:Security></soap:Header><soap:Body><Add xmlns="http://tempuri.org/"><intA>5</intA><intB>7</intB></Add></soap:Body></soap:Envelope>"#;
const ADD_WRONG: &str = r#"<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><Add xmlns="http://tempuri.org/"><intA>five</intA><intB>7</intB></Add></soap:Body></soap:Envelope>"#;
const ADDED: &str = r#"<soap:Envelope xmlns:soap="http://schemas.xmlsoap.org/soap/envelope/"><soap:Body><AddResponse xmlns="http://tempuri.org/"><AddResult>12</AddResult></AddResponse></soap:Body></soap:Envelope>"#;

/// A reply that is long enough to be compressed.
const LONG: &str = "all work and no play makes jack a dull boy, all work and no play makes jack a dull boy, all work and no play";

const IDP: &str =
    "issuers: { idp: { issuer: \"https://idp.test\", jwks: \"http://192.0.2.20/jwks.json\" } }";
/// A signature of the date only, so that it is valid for any method.
const SIGNED: &str = "Date: Sun, 29 Nov 2026 16:00:00 GMT\r\nAuthorization: hmac username=\"alice\", algorithm=\"hmac-sha256\", headers=\"date\", signature=\"Y/W1VOL1J1NMP7lW4NDP0RXoxHGRmUP6hkJ2RnTitRg=\"\r\n";
const BEARER: &str = "Authorization: Bearer {token}\r\n";

pub(crate) const CASES: &[Case] = &[
    Case {
        policy: "api_key",
        policies: "api_key: { header: X-Api-Key, keys: { alice: sesame } }",
        asks: &[
            Ask { lines: "X-Api-Key: sesame\r\n", body: "hello", start: "POST /", ..GET },
            Ask { lines: "X-Api-Key: other\r\n", status: "401", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "authenticate",
        policies: "authenticate: { any: [{ jwt: { issuers: [idp] } }, { api_key: { header: X-Api-Key, keys: { alice: sesame } } }, { basic: { users: { alice: sesame } } }] }",
        more: IDP,
        asks: &[
            Ask {
                lines: "Content-Type: application/json\r\nAuthorization: Bearer {token}\r\n",
                ..POST
            },
            Ask { lines: "X-Api-Key: sesame\r\n", ..GET },
            Ask { lines: "Authorization: Basic YWxpY2U6c2VzYW1l\r\n", ..GET },
            Ask {
                lines: "Authorization: Bearer a.b.c\r\nX-Api-Key: sesame\r\n",
                status: "401",
                ..GET
            },
            Ask { status: "401", shows: Shows::Below("www-authenticate: ApiKey"), ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "authorize",
        policies: "authorize: { rule: \"request.method == 'POST'\" }",
        asks: &[POST, Ask { status: "403", ..GET }],
        ..CASE
    },
    Case {
        policy: "backend_jwt",
        policies: "jwt: { issuers: [idp] }, backend_jwt: { keys: [key.pem] }",
        more: IDP,
        asks: &[Ask { lines: BEARER, shows: Shows::Above("x-jwt-assertion: ey"), ..GET }],
        // ECDSA signatures contain a random number.
        volatile: &["x-jwt-assertion"],
        ..CASE
    },
    Case {
        policy: "basic",
        policies: "basic: { users: { alice: sesame } }",
        asks: &[
            Ask { lines: "Authorization: Basic YWxpY2U6c2VzYW1l\r\n", ..POST },
            Ask { status: "401", shows: Shows::Below("www-authenticate: Basic"), ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "jwks",
        policies: "jwks: {}",
        asks: &[Ask { shows: Shows::Below("\"keys\""), ..GET }],
        ..CASE
    },
    Case {
        policy: "jwt",
        policies: "jwt: { issuers: [idp], claims_to_headers: { x-user: sub } }",
        more: IDP,
        asks: &[
            Ask {
                lines: "Content-Type: application/json\r\nAuthorization: Bearer {token}\r\n",
                shows: Shows::Above("x-user: alice"),
                ..POST
            },
            Ask { lines: "Authorization: Bearer a.b.c\r\n", status: "401", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "key_type",
        policies: "jwt: { issuers: [idp] }, key_type: { sandbox: sandbox }",
        more: IDP,
        asks: &[Ask { lines: BEARER, shows: Shows::Above("at 192.0.2.11"), ..GET }],
        ..CASE
    },
    Case {
        policy: "mutual_tls",
        policies: "mutual_tls: { names: [good.test], header: X-Client-Cert }",
        asks: &[
            Ask { lines: "X-Client-Cert: {certificate}\r\n", ..GET },
            Ask { lines: "X-Client-Cert: rubbish\r\n", status: "401", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "grpc_web",
        policies: "grpc_web: {}",
        reply: ("Content-Type: application/grpc\r\n", "\0\0\0\0\x02ok"),
        asks: &[
            Ask {
                start: "POST /a.B/C",
                lines: "Content-Type: application/grpc-web-text+proto\r\n",
                body: "AAAAAAJvaw==",
                shows: Shows::Above("content-type: application/grpc+proto"),
                ..GET
            },
            Ask {
                start: "POST /a.B/C",
                lines: "Content-Type: application/grpc-web+proto\r\n",
                body: "\0\0\0\0\x02ok",
                shows: Shows::Below("content-type: application/grpc-web+proto"),
                ..GET
            },
        ],
        ..CASE
    },
    Case {
        policy: "grpc_json",
        policies: "grpc_json: { descriptors: shop.pb }",
        reply: ("Content-Type: application/grpc\r\ngrpc-status: 0\r\n", "\0\0\0\0\x04\x0a\x02ok"),
        asks: &[
            Ask { start: "GET /v1/orders/7?note=3", shows: Shows::Below(r#"{"id":"ok"}"#), ..GET },
            Ask {
                start: "POST /v1/orders",
                body: r#"{"id":"a"}"#,
                shows: Shows::Above("\0\0\0\0\x03\x0a\x01a"),
                ..POST
            },
            Ask { start: "POST /v1/orders", body: r#"{"x":1}"#, status: "400", ..POST },
            Ask { start: "GET /v1/nothing", status: "404", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "forward_auth",
        policies: "forward_auth: { url: \"http://192.0.2.40:9000/verify\", headers: { take: [x-user] } }",
        asks: &[
            Ask { shows: Shows::Above("x-user: alice"), ..POST },
            Ask { lines: "X-Deny: 1\r\n", status: "403", shows: Shows::Below("go away"), ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "headers",
        policies: "headers: { request: { set: { X-A: \"b\" } }, response: { set: { X-C: \"d\" }, remove: [content-type] } }",
        asks: &[
            Ask { shows: Shows::Above("x-a: b"), ..POST },
            Ask { shows: Shows::Below("x-c: d"), ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "sse",
        policies: "sse: { events: 1000000, per: 1h, event_bytes_max: 100B, connections: 9 }",
        reply: ("Content-Type: text/event-stream\r\n", "data: 1\n\ndata: 2\n\n"),
        asks: &[Ask { shows: Shows::Below("data: 2"), ..GET }],
        ..CASE
    },
    Case {
        policy: "transform",
        policies: "transform: { query: { set: { q: \"1\" } }, json: { set: { b.c: 3 } }, response: { json: { remove: [x] } } }",
        asks: &[
            Ask { shows: Shows::Above(r#""c":3"#), ..POST },
            Ask { shows: Shows::Below("\n{\"y\":[2,3]}"), ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "canary",
        policies: "canary: { upstream: sandbox, header: X-Canary }",
        asks: &[
            Ask { lines: "X-Canary: always\r\n", shows: Shows::Above("at 192.0.2.11"), ..GET },
            POST,
        ],
        ..CASE
    },
    Case {
        policy: "correlation",
        policies: "correlation: { header: X-Trace, generator: counter, echo: true }",
        asks: &[
            Ask { shows: Shows::Above("x-trace: "), ..GET },
            Ask { lines: "X-Trace: mine\r\n", shows: Shows::Below("x-trace: mine"), ..GET },
        ],
        volatile: &["x-trace"],
        ..CASE
    },
    Case {
        policy: "for",
        policies: "api_key: { header: X-Api-Key, keys: { alice: sesame, bob: other } }, for: { subjects: [alice], policy: { headers: { request: { set: { x-plan: gold } } } } }",
        asks: &[
            Ask { lines: "X-Api-Key: sesame\r\n", shows: Shows::Above("x-plan: gold"), ..GET },
            Ask { lines: "X-Api-Key: other\r\n", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "hmac",
        policies: "hmac: { users: { alice: sesame }, headers: [date], clock_skew: 3650d }",
        asks: &[Ask { lines: SIGNED, ..GET }, Ask { status: "401", ..GET }],
        ..CASE
    },
    Case {
        policy: "mock",
        policies: "mock: { document: sums.yaml }",
        asks: &[
            Ask { start: "POST /sums", shows: Shows::Below("{\"sum\":3}"), ..POST },
            Ask { start: "GET /none", status: "404", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "redirect",
        policies: "redirect: { to: \"https://other.test/new\", status: 308 }",
        asks: &[Ask {
            status: "308",
            shows: Shows::Below("location: https://other.test/new"),
            ..POST
        }],
        ..CASE
    },
    Case {
        policy: "rate_limit",
        policies: "rate_limit: { requests: 100000, per: 1h, burst: 100000 }",
        asks: &[Ask { shows: Shows::Below("ratelimit: "), ..POST }, GET],
        // It contains the remaining quota.
        volatile: &["ratelimit"],
        ..CASE
    },
    Case {
        policy: "subscription",
        policies: "api_key: { header: x-api-key, keys: { ann: { key: k, application: app }, bob: b } }, subscription: { api: a }",
        more: "plans: { Measured: { bytes: 1GiB, per: 1h } }\napplications: { app: { subscriptions: { a: Measured } } }",
        asks: &[
            Ask { lines: "X-Api-Key: k\r\n", ..POST },
            Ask { lines: "X-Api-Key: b\r\n", status: "403", ..GET },
        ],
        ..CASE
    },
    Case { policy: "concurrency", policies: "concurrency: { requests: 1 }", asks: &[POST], ..CASE },
    Case {
        policy: "cors",
        policies: "cors: { origins: [\"https://app.test\"] }",
        asks: &[
            Ask {
                lines: "Content-Type: application/json\r\nOrigin: https://app.test\r\n",
                shows: Shows::Below("access-control-allow-origin: https://app.test"),
                ..POST
            },
            Ask {
                start: "OPTIONS /",
                lines: "Origin: https://app.test\r\nAccess-Control-Request-Method: POST\r\n",
                status: "204",
                ..GET
            },
        ],
        ..CASE
    },
    Case { policy: "cache", policies: "cache: { ttl: 1h }", asks: &[GET, POST], ..CASE },
    Case {
        policy: "compress",
        policies: "compress: { encodings: [gzip], bytes_min: 10B, types: [text/plain] }",
        reply: ("Content-Type: text/plain\r\n", LONG),
        asks: &[Ask {
            lines: "Accept-Encoding: gzip\r\n",
            shows: Shows::Below("content-encoding: gzip"),
            ..GET
        }],
        ..CASE
    },
    Case {
        policy: "ip_filter",
        policies: "ip_filter: { allow: [203.0.113.0/24] }",
        asks: &[
            Ask { lines: "X-Forwarded-For: 203.0.113.9\r\nContent-Type: text/plain\r\n", ..POST },
            Ask { status: "403", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "user_agent",
        policies: "user_agent: { deny: [curl] }",
        asks: &[
            Ask { lines: "User-Agent: tests\r\nContent-Type: text/plain\r\n", ..POST },
            Ask { lines: "User-Agent: curl/8\r\n", status: "403", ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "interceptor",
        policies: "interceptor: { request: { url: \"http://192.0.2.30:9000\", includes: [request_body] }, response: { url: \"http://192.0.2.30:9000\", includes: [response_body] } }",
        asks: &[
            Ask { shows: Shows::Above("x-seen: request"), ..POST },
            Ask { shows: Shows::Below("x-seen: response"), ..GET },
        ],
        ..CASE
    },
    Case {
        policy: "json_schema",
        policies: "json_schema: { body: sum.json, verbose: true, parameters: [{ name: n, place: query, schema: number.json }] }",
        asks: &[
            Ask { start: "POST /sums?n=5", ..POST },
            Ask { start: "POST /sums?n=five", status: "400", ..POST },
            Ask { start: "POST /sums", body: r#"{"a":"one"}"#, status: "400", ..POST },
        ],
        ..CASE
    },
    Case {
        policy: "openapi",
        policies: "openapi: { document: sums.yaml, response: true, verbose: true }",
        asks: &[
            Ask { start: "POST /sums", ..POST },
            Ask { start: "POST /sums", body: r#"{"a":"one"}"#, status: "400", ..POST },
        ],
        ..CASE
    },
    Case {
        policy: "soap",
        policies: "soap: { schema: calculator.wsdl, validate: [request, response], action: required, verbose: true }",
        reply: ("Content-Type: text/xml\r\n", ADDED),
        asks: &[
            SOAP,
            Ask { body: ADD_WRONG, status: "500", shows: Shows::Below("Fault>"), ..SOAP },
        ],
        ..CASE
    },
    Case {
        policy: "soap_rest",
        policies: "soap_rest: { wsdl: calculator.wsdl, prefix: /api }",
        reply: ("Content-Type: text/xml\r\n", ADDED),
        asks: &[
            Ask {
                start: "POST /api/Add",
                body: r#"{"intA":5,"intB":7}"#,
                shows: Shows::Below(r#"{"AddResult":12}"#),
                ..POST
            },
            Ask { start: "POST /api/Add", body: r#"{"intA":"five"}"#, status: "400", ..POST },
        ],
        ..CASE
    },
    Case {
        policy: "use",
        policies: "use: common",
        more: "policy_sets: { common: [headers: { request: { set: { X-A: \"b\" } } }] }",
        asks: &[Ask { shows: Shows::Above("x-a: b"), ..POST }],
        ..CASE
    },
    Case {
        policy: "websocket",
        policies: "websocket: { messages: 10, per: 1s, message_bytes_max: 64KiB, connections: 9 }",
        asks: &[POST, GET],
        ..CASE
    },
    Case {
        policy: "ws_security",
        policies: "ws_security: { users: { alice: sesame }, passwords: [text] }",
        reply: ("Content-Type: text/xml\r\n", ADDED),
        asks: &[
            Ask { body: ADD_SECURED, shows: Shows::Above("<soap:Header></soap:Header>"), ..SOAP },
            Ask { status: "401", shows: Shows::Below("wsse:InvalidSecurity"), ..SOAP },
        ],
        ..CASE
    },
    Case {
        policy: "xpath_route",
        policies: "xpath_route: { namespaces: { t: \"http://tempuri.org/\" }, cases: [{ xpath: \"//t:Add/t:intA\", equals: \"5\", upstream: sandbox }] }",
        reply: ("Content-Type: text/xml\r\n", ADDED),
        asks: &[Ask { shows: Shows::Above("at 192.0.2.11"), ..SOAP }],
        ..CASE
    },
    Case {
        policy: "xslt",
        policies: "xslt: { on: request, stylesheet: ten.xsl }, xslt: { on: response, stylesheet: rename.xsl }",
        reply: ("Content-Type: text/xml\r\n", ADDED),
        asks: &[Ask { shows: Shows::Above(">10</intB>"), ..SOAP }],
        ..CASE
    },
];
