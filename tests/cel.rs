//! Issue 42: CEL over JSON, in flows and in rules of policies. Numbers mix and are exact, and what is absent is named.

use serde_json::json;

use crate::harness::{Gateway, Message, Origin, tidegate};
use crate::tokens::{EC, jwks, now};

const BODY: &str = r#"{"a":1,"b":2.5,"n":5,"m":5.0,"max":9223372036854775807,"over":18446744073709551617,"t":"5","list":[1,2.5]}"#;

fn yaml(flow: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows: {{ main: {flow} }}\n"
    )
}

fn post(gateway: &Gateway, body: &str) -> Message {
    let length = body.len();
    gateway.wire().ask(format!(
        "POST /?n=5 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    ))
}

/// The status and the text of a value in CEL; for a fault what `catch` learns of it.
fn ask(rule: &str, body: &str) -> (u16, String) {
    let value = format!("{{ set: {{ x: '5' }} }}, {{ set: {{ v: {{ cel: {rule:?} }} }} }}");
    let plain =
        Gateway::start(yaml(&format!("[{value}, {{ respond: {{ text: '{{{{ $v }}}}' }} }}]")));
    let reply = post(&plain, body);
    if reply.status() == 200 {
        return (200, reply.text());
    }
    let caught = "catch: [{ respond: { text: '{{ $error.kind }}: {{ $error.detail }}' } }]";
    let caught =
        Gateway::start(yaml(&format!("{{ steps: [{value}, {{ respond: {{}} }}], {caught} }}")));
    (reply.status(), post(&caught, body).text())
}

#[test]
fn numbers_of_a_message_mix_and_are_exact() {
    for (rule, expected) in [
        ("body.a + body.b", "3.5"),
        ("body.b * 2 - body.a", "4"),
        ("body.n / 2", "2.5"),
        ("body.m / 2", "2.5"),
        ("body.n % body.b", "0"),
        ("body.n == body.m && body.m in [5] && body.n in [5.0] && body.m < 5.5", "true"),
        ("body.max < 9223372036854775808.0 && body.max != 9223372036854775807.0", "true"),
        ("body.list.map(i, i * 2)", "[2,5]"),
        ("body.list == [1.0, 2.5]", "true"),
        ("body.over", "18446744073709551617"),
        ("body.over == 18446744073709551616.0", "false"),
        ("vars.x == 5", "false"),
        ("vars.x == '5' && int(vars.x) == body.m", "true"),
        ("default(body.none > 5, false)", "false"),
        ("body.none", ""),
    ] {
        assert_eq!(ask(rule, BODY), (200, expected.to_owned()), "{rule}");
    }
}

/// The fault belongs to the sender of the value: 400 for the client's, with the reason in `$error.detail` and in the
/// log.
#[test]
fn a_computation_that_fails_says_why() {
    for (rule, parts) in [
        ("body.none > 5", &["`body.none` is absent"][..]),
        ("body.none + body.a", &["`body.none` is absent"]),
        ("body.t > 5", &["`>`", "string", "int"]),
        ("vars.x < body.b", &["`<`", "string", "double"]),
        ("body.t + body.a", &["`+`", "string", "int"]),
        ("body.max + body.a", &["`+`", "does not fit into 64 bits"]),
        ("body.over + 1", &["`+`", "more than 64 bits"]),
        ("body.a / (body.a - 1)", &["division by zero"]),
    ] {
        let (status, said) = ask(rule, BODY);
        assert!(matches!(status, 400 | 500), "{rule}: {status}");
        assert!(parts.iter().all(|part| said.contains(part)), "{rule}: {said}");
    }
    assert_eq!(ask("body.none > 5", BODY).0, 400);
}

#[test]
fn a_text_that_is_compared_with_a_number_is_a_complaint() {
    for (rule, part) in [
        (
            "query.n == 5",
            "`query.n` is a text, which no number equals; write `\"5\"`, or `double(query.n)`",
        ),
        ("headers['x-n'] != 5.5", "`headers.x-n` is a text"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tidegate.yaml");
        let flow = format!("[{{ set: {{ v: {{ cel: {rule:?} }} }} }}, {{ respond: {{}} }}]");
        std::fs::write(&file, yaml(&flow)).unwrap();
        let run = tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{rule}");
        assert!((run.stdout.clone() + &run.stderr).contains(part), "{rule}: {}", run.stdout);
    }
    assert_eq!(ask("double(query.n) == 5 && (500 + size(body)) / 100 == 5", "[1]").1, "true");
}

/// A rule that cannot be evaluated refuses the request.
#[test]
fn a_rule_that_fails_refuses() {
    let origin = Origin::saying("in");
    let token = EC.token(&json!({
        "iss": "https://idp.test", "sub": "alice", "exp": now() + 600,
        "level": 3, "big": 9_007_199_254_740_993_u64, "name": "alice",
    }));
    let keys = jwks(&[&EC]);
    for (rule, status) in [
        ("claims.level == 3 && claims.level == 3.0 && claims.level in [3.0]", 200),
        ("claims.level + 0.5 == 3.5", 200),
        ("claims.big == 9007199254740992.0", 403),
        ("claims.big > 9007199254740992.0", 200),
        ("claims.none > 5", 403),
        ("claims.none", 403),
        ("!(claims.none > 5)", 403),
        ("!(claims.name > 5)", 403),
        ("claims.name == 3", 403),
        ("claims.level / 0 > 1", 403),
        ("!(claims.level / 0.0 < 1)", 403),
        ("default(claims.none > 5, false)", 403),
        ("default(claims.none < 5, true)", 200),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\n\
             upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
             issuers: {{ main: {{ issuer: \"https://idp.test\", keys: [keys.jwks] }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ jwt: {{ issuers: [main] }} }}, {{ authorize: {{ rule: {rule:?} }} }}], upstream: origin }} }}\n",
            origin.url()
        );
        let gateway = Gateway::start_beside(yaml, &[("keys.jwks", keys.as_str())]);
        let line = format!("Authorization: Bearer {token}\r\n");
        let reply = gateway.wire().ask(format!("GET / HTTP/1.1\r\nHost: a\r\n{line}\r\n"));
        assert_eq!(reply.status(), status, "{rule}");
    }
}

/// The reply's header `x-r`, set by an API of Micro Integrator with an expression, or by the branch that a condition takes.
fn imported(expression: &str, is_condition: bool) -> (String, Gateway) {
    let escaped = expression.replace('&', "&amp;").replace('<', "&lt;").replace('"', "&quot;");
    let branch =
        |word: &str| format!("<header name=\"X-R\" scope=\"transport\" value=\"{word}\"/>");
    let step = if is_condition {
        format!(
            "<filter xpath=\"{escaped}\"><then>{}</then><else>{}</else></filter>",
            branch("then"),
            branch("else")
        )
    } else {
        format!("<header name=\"X-R\" scope=\"transport\" expression=\"{escaped}\"/>")
    };
    let api = format!(
        "<api xmlns=\"http://ws.apache.org/ns/synapse\" name=\"A\" context=\"/a\"><resource methods=\"POST\" uri-template=\"/b\"><inSequence><variable name=\"x\" type=\"STRING\" value=\"5\"/>{step}<respond/></inSequence></resource></api>"
    );
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.xml");
    std::fs::write(&file, api).unwrap();
    let run = tidegate(&["import", "synapse", file.to_str().unwrap()]);
    // Only the headers of the request, which Synapse sends back with it, are not the same.
    assert_eq!(run.code, Some(3), "{expression}: {}", run.stderr);
    let others = run.stderr.lines().filter(|row| !row.starts_with("converted"));
    let others: Vec<&str> = others
        .filter(|row| row.starts_with("approximated") || row.starts_with("refused"))
        .collect();
    assert!(
        matches!(&others[..], [one] if one.contains(" respond ")),
        "{expression}: {}",
        run.stderr
    );
    let yaml = run.stdout.replace("127.0.0.1:8081", "127.0.0.1:0");
    let gateway = Gateway::start(&yaml);
    (yaml, gateway)
}

/// Issue 42: `${...}` of Micro Integrator has the same value here.
#[test]
fn expressions_of_micro_integrator_give_the_same() {
    for (expression, is_condition, expected) in [
        ("${payload.a + payload.b}", false, "3.5"),
        ("${payload.b * 2 - payload.a}", false, "4"),
        ("${payload.n / 2}", false, "2.5"),
        ("${payload.n % 2}", false, "1"),
        ("${(payload.a + 1) * payload.n}", false, "10"),
        ("${payload.t + 'x'}", false, "5x"),
        ("${payload.none + 1}", false, ""),
        ("${payload.t + 1}", false, ""),
        ("${payload.a > 0 ? 'yes' : 'no'}", false, "yes"),
        ("${length(payload.list) + 1}", false, "3"),
        ("${vars.x == 5}", true, "then"),
        ("${vars.x != 5}", true, "else"),
        ("${vars.x == '5'}", true, "then"),
        ("${payload.t == payload.n}", true, "then"),
        ("${payload.none > 5}", true, "else"),
        ("${payload.none < 5}", true, "else"),
        ("${vars.x > 4}", true, "else"),
        ("${payload.t < payload.t}", true, "else"),
        ("${payload.n >= payload.b}", true, "then"),
        ("${payload.nil == null}", true, "then"),
        ("${payload.a != null}", true, "then"),
        ("${headers[\"X-None\"] != 'a'}", true, "then"),
        ("${headers[\"X-None\"] == null}", true, "then"),
        ("${params.queryParams.n == 5}", true, "then"),
        ("${(payload.a == 1) && (payload.n > 4)}", true, "then"),
        ("${(payload.a == 1) || (payload.none == 1)}", true, "else"),
        ("${not(payload.a == 2)}", true, "then"),
        ("${!(payload.a == 1)}", true, "else"),
    ] {
        let (yaml, gateway) = imported(expression, is_condition);
        let body = r#"{"a":1,"b":2.5,"n":5,"t":"5","nil":null,"list":[1,2]}"#;
        let reply = gateway.wire().ask(format!(
            "POST /a/b?n=5 HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let given = reply.get("x-r").unwrap_or_default();
        assert_eq!((reply.status(), given), (200, expected), "{expression}: {yaml}");
    }
}
