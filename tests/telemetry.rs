//! The metrics and the access log, as operators read them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::harness::{Authority, ClosedPort, Gate, Gateway, H2, Origin, Peer, Wire, full, until};

const LISTEN: &str = "listen: { public: { address: \"127.0.0.1:0\" } }\nadmin: { address: \"127.0.0.1:0\" }\nworkers: 2\n";

const LOG: &str = "telemetry: { access_log: { path: access.log } }\n";

/// One upstream `origin`, and routes as they are written.
fn routes(origin: &Origin, routes: &str) -> String {
    let address = origin.address();
    format!(
        "{LISTEN}upstreams: {{ origin: {{ targets: [\"http://{address}\"] }} }}\nroutes:\n{routes}"
    )
}

/// The value of one sample, such as `tidegate_workers` or `tidegate_requests_total{route="a",status_class="2xx"}`.
#[track_caller]
pub(crate) fn metric(gateway: &Gateway, sample: &str) -> Option<f64> {
    scrape(gateway).get(sample).copied()
}

/// All samples, by name and labels as they are written.
#[track_caller]
fn scrape(gateway: &Gateway) -> BTreeMap<String, f64> {
    let reply = gateway.admin_get("/metrics");
    assert_eq!(reply.status(), 200);
    samples(&reply.text())
}

fn samples(text: &str) -> BTreeMap<String, f64> {
    let samples = text.lines().filter(|line| !line.starts_with('#'));
    samples
        .map(|line| line.rsplit_once(' ').unwrap())
        .map(|(name, value)| (name.to_owned(), value.parse().unwrap()))
        .collect()
}

/// The lines of an access log file, once there are this many. More than that is a failure too.
#[track_caller]
fn lines(path: &Path, count: usize) -> Vec<String> {
    let read = || fs::read_to_string(path).unwrap_or_default();
    until(&format!("there are {count} lines"), || read().lines().count() >= count);
    let lines: Vec<String> = read().lines().map(str::to_owned).collect();
    assert_eq!(lines.len(), count, "{lines:#?}");
    lines
}

#[track_caller]
fn json_lines(path: &Path, count: usize) -> Vec<Value> {
    let parse =
        |line: &String| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
    lines(path, count).iter().map(parse).collect()
}

/// Parses a scrape according to OpenMetrics 1.0, and returns the families.
#[track_caller]
fn check_openmetrics(text: &str) -> BTreeSet<String> {
    let body = text.strip_suffix("# EOF\n").expect("the end is marked");
    let mut families = BTreeSet::new();
    let mut samples = BTreeSet::new();
    let (mut family, mut kind) = (String::new(), String::new());
    for line in body.lines() {
        if let Some(meta) = line.strip_prefix("# ") {
            let (word, rest) = meta.split_once(' ').unwrap();
            let (name, value) = rest.split_once(' ').unwrap();
            match word {
                "HELP" => assert!(!value.is_empty(), "{line}"),
                "TYPE" => kind = value.to_owned(),
                _ => panic!("{line}"),
            }
            if name != family {
                assert!(families.insert(name.to_owned()), "{name} is here in two places");
                family = name.to_owned();
            }
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        let name = sample.split('{').next().unwrap();
        let suffix = name.strip_prefix(&family).unwrap_or_else(|| panic!("{line} in {family}"));
        let suffixes: &[&str] = match kind.as_str() {
            "counter" => &["_total"],
            "gauge" => &[""],
            "info" => &["_info"],
            "histogram" => &["_bucket", "_sum", "_count"],
            _ => panic!("{family} is a {kind}"),
        };
        assert!(suffixes.contains(&suffix), "{line} in a {kind}");
        value.parse::<f64>().unwrap();
        check_labels(sample);
        assert!(samples.insert(sample.to_owned()), "{sample} is here twice");
    }
    families
}

/// `name{label="value",...}`: a quote or a backslash in a value is escaped, and a line end cannot be.
fn check_labels(sample: &str) {
    let Some((_, labels)) = sample.split_once('{') else { return };
    let mut rest = labels.strip_suffix('}').expect("a closing brace");
    while !rest.is_empty() {
        let (name, value) = rest.split_once("=\"").expect("a label");
        assert!(name.chars().all(|c| c.is_ascii_lowercase() || c == '_'), "{sample}");
        // An escaped quote is part of the value, and so is a character after an escaped backslash.
        let plain = value.replace("\\\\", "..").replace("\\\"", "..");
        let end = plain.find('"').expect("a closing quote");
        rest = value[end + 1..].trim_start_matches(',');
    }
}

#[test]
fn the_access_log_has_fields_of_the_operator() {
    let origin = Origin::answering(
        "HTTP/1.1 201 Created\r\nX-Kind: a\r\nX-Kind: b\r\nContent-Length: 0\r\n\r\n",
    );
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\nupstreams: {{ o: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ r: {{ match: {{ path: / }}, policies: [ {{ headers: {{ request: {{ remove: [x-team] }} }} }}, {{ api_key: {{ header: x-key, keys: {{ ann: hush }} }} }} ], upstream: o }} }}\n\
         telemetry: {{ access_log: {{ to: log.json, fields: {{ team: $headers.x-team, kind: $reply.headers.X-Kind, code: $status, who: $subject, tenant: $claims.tenant }} }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start(yaml);
    let asked = "GET / HTTP/1.1\r\nHost: a\r\nX-Team: blue \"1\"\r\nx-key: hush\r\n\r\n";
    assert_eq!(gateway.wire().ask(asked).status(), 201);
    assert_eq!(gateway.wire().get("/").status(), 401);
    let lines = || std::fs::read_to_string(gateway.path("log.json")).unwrap();
    until("both lines are there", || lines().lines().count() == 2);
    let lines: Vec<serde_json::Value> =
        lines().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let first = &lines[0];
    assert_eq!((&first["team"], &first["kind"]), (&"blue \"1\"".into(), &"a, b".into()), "{first}");
    assert_eq!(
        (&first["code"], &first["who"], first.get("tenant")),
        (&201.into(), &"ann".into(), None)
    );
    assert_eq!(
        (lines[1].get("team"), lines[1].get("kind"), &lines[1]["code"]),
        (None, None, &401.into())
    );

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.yaml");
    for (log, complaint) in [
        (
            "fields: { a: { cel: \"status > \" } }",
            "this expression cannot be a field of the access log",
        ),
        ("fields: { a: { cel: \"nosuch == 1\" } }", "there is no"),
        ("fields: { a: { json: \"$.a\" } }", "the access log has no body to query"),
        ("fields: { a: //b }", "it reads a body"),
        ("fields: { a: { xpath: \"string()\" } }", "it reads a body"),
        ("fields: { a: { xpath: \"concat($method, a/b)\" } }", "it reads a body"),
        ("fields: { a: { value: $status, required: true } }", "`required` has no effect"),
        ("fields: { status: $status }", "every line already has the field `status`"),
        ("fields: { a: $body.x }", "this expression cannot be a field of the access log"),
        ("fields: { a: plain }", "this expression cannot be a field of the access log"),
        ("format: \"{status}\", fields: { a: $status }", "`fields` cannot be combined"),
        ("path: stdout, to: stderr", "`path` and `to` are the same key"),
    ] {
        let text = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ r: {{ match: {{ path: / }}, respond: {{}} }} }}\ntelemetry: {{ access_log: {{ {log} }} }}\n"
        );
        std::fs::write(&file, text).unwrap();
        let run = crate::harness::tidegate(&["check", file.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{log}: {run:?}");
        assert!(run.stderr.contains(complaint), "{log}: {run:?}");
    }
}

#[test]
fn fields_of_the_access_log_may_be_expressions() {
    let origin = Origin::answering("HTTP/1.1 503 No\r\nX-Kind: a\r\nContent-Length: 0\r\n\r\n");
    let yaml = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nworkers: 1\nupstreams: {{ o: {{ targets: [\"{}\"] }} }}\n\
         routes: {{ r: {{ match: {{ path: /a }}, upstream: o }} }}\n\
         telemetry: {{ access_log: {{ to: log.json, fields: {{ failed: {{ cel: \"status >= 500\" }}, sum: {{ cel: \"status + 1\" }}, both: {{ cel: \"method + ' ' + path\" }}, joined: {{ xpath: \"concat($method, '-', $status + 1)\" }}, late: {{ xpath: \"$status >= 500\" }}, upper: {{ xpath: \"translate($headers.x-team, 'b', 'B')\" }}, team: $headers.x-team, kind: $reply.headers.x-kind, where: $route, from: $client, way: $path, zero: {{ cel: \"1 / (status - 503)\" }} }} }} }}\n",
        origin.url()
    );
    let gateway = Gateway::start(yaml);
    let asked = "GET /a?b=c HTTP/1.1\r\nHost: a\r\nX-Team: blue\r\n\r\n";
    assert_eq!(gateway.wire().ask(asked).status(), 503);
    let line = &json_lines(&gateway.path("log.json"), 1)[0];
    assert_eq!((&line["failed"], &line["sum"]), (&true.into(), &504.into()), "{line}");
    assert_eq!((&line["both"], &line["where"]), (&"GET /a".into(), &"r".into()), "{line}");
    assert_eq!((&line["joined"], &line["late"]), (&"GET-504".into(), &true.into()), "{line}");
    assert_eq!(line["upper"], "Blue", "{line}");
    assert_eq!((&line["team"], &line["kind"]), (&"blue".into(), &"a".into()), "{line}");
    assert_eq!((&line["from"], &line["way"]), (&"127.0.0.1".into(), &"/a".into()), "{line}");
    assert_eq!(line.get("zero"), None, "an expression that fails leaves its field out");
}

#[test]
fn the_metrics_are_openmetrics_text() {
    let origin = Origin::saying("hello");
    // A name that would break a label if it were not escaped.
    let gateway = Gateway::start(routes(
        &origin,
        "  'a \"b\" \\':  { match: { path: /a }, upstream: origin }\n",
    ));
    let mut wire = gateway.wire();
    assert_eq!((wire.get("/a").status(), wire.get("/b").status()), (200, 404));
    // The header of Prometheus.
    let accept =
        "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.2";
    let admin = gateway.admin();
    let scrape = Wire::connect(admin)
        .ask(format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\nAccept: {accept}\r\n\r\n"));
    assert_eq!(
        scrape.get("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = scrape.text();
    let families = check_openmetrics(&text);
    let expected = [
        "tidegate_build",
        "tidegate_workers",
        "tidegate_requests",
        "tidegate_request_duration_seconds",
        "tidegate_own_duration_seconds",
        "tidegate_upstream_duration_seconds",
        "tidegate_request_bytes",
        "tidegate_reply_bytes",
        "tidegate_faults",
        "tidegate_connections",
        "tidegate_connections_open",
        "tidegate_connections_refused",
        "tidegate_upstream_connections_open",
        "tidegate_upstream_connections_idle",
        "tidegate_upstream_connections_created",
        "tidegate_upstream_target_healthy",
        "tidegate_worker_requests",
        "tidegate_config_generation",
        "tidegate_plans_alive",
        "tidegate_config_reloads",
        "tidegate_access_log_dropped",
        "tidegate_audit_log_dropped",
        "tidegate_traces_dropped",
        "process_resident_memory_bytes",
        "process_cpu_seconds",
        "process_open_fds",
    ];
    for family in expected {
        assert!(families.contains(family), "no {family} in {families:?}");
    }
    assert!(
        text.contains(r#"tidegate_requests_total{route="a \"b\" \\",status_class="2xx"} 1"#),
        "{text}"
    );
}

/// The rules of `promtool check metrics`: each family is in one place and has a help and a type, and only counters end with `_total`.
#[test]
fn other_scrapers_get_the_text_format_of_prometheus() {
    let origin = Origin::saying("hello");
    let gateway =
        Gateway::start(routes(&origin, "  a: { match: { path: /a }, upstream: origin }\n"));
    assert_eq!(gateway.wire().get("/a").status(), 200);
    let scrape = gateway.admin_get("/metrics");
    assert_eq!(scrape.get("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let text = scrape.text();
    let (mut families, mut family, mut kind) = (BTreeSet::new(), String::new(), String::new());
    for line in text.lines() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, help) = help.split_once(' ').unwrap();
            assert!(!help.is_empty() && families.insert(name.to_owned()), "{line}");
            family = name.to_owned();
            continue;
        }
        if let Some(declared) = line.strip_prefix("# TYPE ") {
            let (name, declared) = declared.split_once(' ').unwrap();
            assert_eq!(name, family);
            assert!(["counter", "gauge", "histogram"].contains(&declared), "{line}");
            assert_eq!(name.ends_with("_total"), declared == "counter", "{line}");
            kind = declared.to_owned();
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').unwrap();
        value.parse::<f64>().unwrap();
        check_labels(sample);
        let suffix = sample.split('{').next().unwrap().strip_prefix(&family);
        let suffix = suffix.unwrap_or_else(|| panic!("{line} in {family}"));
        let suffixes: &[&str] =
            if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(suffixes.contains(&suffix), "{line} in a {kind}");
    }
    for family in ["tidegate_requests_total", "tidegate_build_info", "tidegate_memory_limit_bytes"]
    {
        assert!(families.contains(family), "no {family}");
    }
}

/// A hub's secrets may come in the query, and credentials in any spelling on any route.
#[test]
fn the_access_log_has_no_credential_of_a_query() {
    let gateway = Gateway::start(format!(
        "{LISTEN}{LOG}store: {{ path: store }}\nhubs: {{ news: {{ topics: [sports], callbacks: {{ allow: [\"127.0.0.0/8\"] }} }} }}\n\
         routes: {{ hub: {{ match: {{ path: \"/news/**\" }}, hub: news }}, any: {{ match: {{ path: \"/any/**\" }}, respond: {{ status: 200 }} }} }}\n"
    ));
    for target in [
        "/news?hub.mode=subscribe&hub.topic=sports&hub.callback=http%3A%2F%2F127.0.0.1%3A9%2Fhush%3Fkey%3Dhush&hub.secret=hush",
        "/news?hub.mode=subscribe&hub.topic=sports&HUB.Secret=hush&hub%2Esecret=hush&%68ub.callback=http://127.0.0.1:9/hush",
        "/any/a?access_token=hush&Access_Token=hush&access%5Ftoken=hush&ac%63ess_token=hush",
        "/any/a?x=1;api_key=hush",
        "/any/a;token=hush/b",
        "/any/a?next=https%3A%2F%2Fa.example%2F%3Ftoken%3Dhush&X-Amz-Signature=hush&sig=hush",
        "/nowhere?hub.secret=hush&client_secret=hush",
    ] {
        let reply = gateway
            .wire()
            .ask(format!("POST {target} HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
        assert!((200..500).contains(&reply.status()), "{target}: {}", reply.text());
    }
    let written = lines(&gateway.path("access.log"), 7);
    for line in &written {
        assert!(!line.contains("hush") && line.contains("=*"), "{line}");
    }
    assert!(written.iter().any(|line| line.contains("hub.topic=sports")), "{written:?}");
    assert!(!gateway.log().contains("hush"), "{}", gateway.log());
}

/// A value from a client in the log, with line breaks, an escape sequence and a forged line.
#[test]
fn nobody_can_write_a_line_of_the_programs_log() {
    let sheet = "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:template match=\"/\"><xsl:copy-of select=\"document(string(/a))\"/></xsl:template></xsl:stylesheet>";
    let ended = "<xsl:stylesheet version=\"1.0\" xmlns:xsl=\"http://www.w3.org/1999/XSL/Transform\"><xsl:template match=\"/\"><xsl:message terminate=\"yes\"><xsl:value-of select=\"/a\"/></xsl:message></xsl:template></xsl:stylesheet>";
    let yaml = format!(
        "{LISTEN}{LOG}routes:\n  \
         asks: {{ match: {{ path: /asks }}, policies: [{{ xslt: {{ on: request, stylesheet: asks.xsl }} }}], respond: {{ status: 200 }} }}\n  \
         ends: {{ match: {{ path: /ends }}, policies: [{{ xslt: {{ on: request, stylesheet: ends.xsl }} }}], respond: {{ status: 200 }} }}\n  \
         logs: {{ match: {{ path: /logs }}, flow: logs }}\n  \
         fails: {{ match: {{ path: /fails }}, flow: fails }}\n\
         flows:\n  logs: [log: {{ level: warn, message: '{{{{ $body }}}}' }}, respond: {{}}]\n  fails: [fault: {{ code: server, reason: '{{{{ $body }}}}' }}]\n"
    );
    let gateway = Gateway::start_beside(yaml, &[("asks.xsl", sheet), ("ends.xsl", ended)]);
    let body = "<a>one&#10;FORGED line&#13;&#x2028;FORGED&#x9b;31m\"quoted\"\\</a>";
    for path in ["/asks", "/ends", "/logs", "/fails"] {
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        let _ = gateway.wire().ask(head + body);
    }
    let written = json_lines(&gateway.path("access.log"), 4);
    until("all are told", || gateway.log().matches("FORGED").count() >= 4);
    let log = gateway.log();
    for line in log.lines() {
        assert!(!line.starts_with("FORGED"), "{log}");
        assert!(!line.contains(['\u{9b}', '\u{2028}', '\r']), "{log}");
    }
    assert!(log.contains("one\\nFORGED"), "{log}");
    // The access log escapes a cause once.
    let failed = written.iter().find(|line| line["route"] == "fails").unwrap();
    let cause = failed["cause"].as_str().unwrap_or_else(|| panic!("{failed}"));
    assert!(cause.contains("one\nFORGED") && cause.contains("\"quoted\"\\"), "{cause}");
}

#[test]
fn requests_are_counted_by_route_and_status_class() {
    let origin = Origin::start(|peer: &mut Peer| {
        while let Some(request) = peer.request() {
            let status = request.target().trim_start_matches('/').to_owned();
            peer.send(format!("HTTP/1.1 {status} X\r\nContent-Length: 7\r\n\r\n1234567"));
        }
    });
    let gateway = Gateway::start(routes(
        &origin,
        "  origin: { match: { path: \"/**\" }, upstream: origin }\n  fixed: { match: { path: /fixed }, respond: { body: hello } }\n",
    ));
    let mut wire = gateway.wire();
    for status in [200, 201, 301, 404, 500, 503] {
        let reply = wire
            .ask(format!("POST /{status} HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"));
        assert_eq!(reply.status(), status);
    }
    assert_eq!(wire.get("/fixed").text(), "hello");
    assert_eq!(gateway.wire().get("/a/../../b").status(), 400);
    let expected = [
        ("tidegate_requests_total{route=\"origin\",status_class=\"2xx\"}", 2.0),
        ("tidegate_requests_total{route=\"origin\",status_class=\"3xx\"}", 1.0),
        ("tidegate_requests_total{route=\"origin\",status_class=\"4xx\"}", 1.0),
        ("tidegate_requests_total{route=\"origin\",status_class=\"5xx\"}", 2.0),
        ("tidegate_requests_total{route=\"fixed\",status_class=\"2xx\"}", 1.0),
        ("tidegate_requests_total{route=\"(none)\",status_class=\"4xx\"}", 1.0),
        ("tidegate_faults_total{route=\"(none)\",reason=\"path_escapes\"}", 1.0),
        ("tidegate_request_bytes_total{route=\"origin\"}", 24.0),
        ("tidegate_reply_bytes_total{route=\"origin\"}", 42.0),
        ("tidegate_reply_bytes_total{route=\"fixed\"}", 5.0),
        ("tidegate_request_duration_seconds_count{route=\"origin\"}", 6.0),
        ("tidegate_own_duration_seconds_count{route=\"origin\"}", 6.0),
        ("tidegate_upstream_duration_seconds_count{route=\"origin\"}", 6.0),
        ("tidegate_request_duration_seconds_bucket{le=\"+Inf\",route=\"fixed\"}", 1.0),
    ];
    // An exchange is counted after its last byte has left.
    for (sample, value) in expected {
        until(&format!("{sample} is {value}: {:#?}", scrape(&gateway)), || {
            metric(&gateway, sample) == Some(value)
        });
    }
    // The reply of an origin is not a fault of the gateway's.
    assert_eq!(
        metric(&gateway, "tidegate_faults_total{route=\"origin\",reason=\"upstream_reset\"}"),
        None
    );
    let all = scrape(&gateway);
    let workers: f64 = ["0", "1"]
        .map(|n| all[&format!("tidegate_worker_requests_total{{worker=\"{n}\"}}")])
        .iter()
        .sum();
    assert_eq!(workers, 8.0);
}

#[test]
fn the_wait_for_the_upstream_is_told_apart() {
    const WAIT: Duration = Duration::from_millis(800);
    let origin = Origin::start(|peer: &mut Peer| {
        while peer.request().is_some() {
            thread::sleep(WAIT);
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc");
            thread::sleep(WAIT);
            peer.send("def");
        }
    });
    let gateway = Gateway::start(
        routes(&origin, "  slow: { match: { path: /slow }, upstream: origin }\n") + LOG,
    );
    assert_eq!(gateway.wire().get("/slow").text(), "abcdef");
    let sum = |name: &str| {
        metric(&gateway, &format!("tidegate_{name}_duration_seconds_sum{{route=\"slow\"}}"))
    };
    until("it is counted", || sum("request").is_some_and(|seconds| seconds > 0.0));
    let [total, own, upstream] = ["request", "own", "upstream"].map(|name| sum(name).unwrap());
    // Both waits, less the part of the origin's sleep before the gateway's clock was read.
    let wait = (2 * WAIT).as_secs_f64() * 0.75;
    assert!(upstream >= wait && total >= upstream && own < wait, "{total} {own} {upstream}");
    assert!((total - own - upstream).abs() < 0.001, "{total} is not {own} and {upstream}");
    let line = &json_lines(&gateway.path("access.log"), 1)[0];
    let [total, own, upstream] =
        ["duration_ms", "own_ms", "upstream_ms"].map(|name| line[name].as_f64().unwrap());
    assert!(upstream >= wait * 1e3 && (total - own - upstream).abs() < 0.01, "{line}");
}

/// The services that policies call are upstreams too.
#[test]
fn the_waits_for_all_upstreams_are_added_up() {
    const WAIT: Duration = Duration::from_millis(400);
    let slow = || {
        Origin::start(|peer: &mut Peer| {
            while peer.request().is_some() {
                thread::sleep(WAIT);
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}");
            }
        })
    };
    let (origin, service) = (slow(), slow());
    let route = format!(
        "  slow: {{ match: {{ path: /slow }}, upstream: origin, policies: [{{ interceptor: {{ request: {{ url: \"{}\" }} }} }}] }}\n",
        service.url()
    );
    let gateway = Gateway::start(routes(&origin, &route) + LOG);
    assert_eq!(gateway.wire().get("/slow").status(), 200);
    let line = &json_lines(&gateway.path("access.log"), 1)[0];
    let [total, own, upstream] =
        ["duration_ms", "own_ms", "upstream_ms"].map(|name| line[name].as_f64().unwrap());
    let wait = (2 * WAIT).as_secs_f64() * 1e3 * 0.75;
    assert!(upstream >= wait && (total - own - upstream).abs() < 0.01, "{line}");
    assert_eq!(line["upstream_target"], origin.url());
}

/// The three ways of handling a body: buffered by a policy, streamed, or kept for a retry.
#[test]
fn the_wait_for_the_client_is_told_apart() {
    const WAIT: Duration = Duration::from_millis(800);
    let origin = Origin::echo();
    let policies = "policies: [{ soap: { envelope: off, action: off } }]";
    let route = format!(
        "  slow: {{ match: {{ path: /slow }}, upstream: origin, {policies} }}\n  plain: {{ match: {{ path: /plain }}, upstream: origin }}\n"
    );
    let gateway = Gateway::start(routes(&origin, &route) + LOG);
    let mut wire = gateway.wire();
    for (count, line) in ["POST /slow", "POST /plain", "PUT /plain"].into_iter().enumerate() {
        wire.send(format!(
            "{line} HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Length: 8\r\n\r\n"
        ));
        for piece in ["<a>", "</", "a>\n"] {
            thread::sleep(WAIT);
            wire.send(piece);
        }
        assert_eq!(wire.read_reply().status(), 200);
        let told = &json_lines(&gateway.path("access.log"), count + 1)[count];
        let [total, own, upstream] =
            ["duration_ms", "own_ms", "upstream_ms"].map(|name| told[name].as_f64().unwrap());
        let wait = (3 * WAIT).as_secs_f64() * 1e3 * 0.75;
        assert!(total >= wait && own.max(upstream) < wait / 2.0, "{line}: {told}");
    }
}

#[test]
fn connections_and_pools_are_counted() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer| {
            while peer.request().is_some() {
                gate.wait();
                peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
            }
        }
    });
    let gateway =
        Gateway::start(routes(&origin, "  a: { match: { path: /a }, upstream: origin }\n"));
    let (mut first, second) = (gateway.wire(), gateway.wire());
    first.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(1);
    let wait_for = |sample: &str, value: f64| {
        until(&format!("{sample} is {value}"), || metric(&gateway, sample) == Some(value));
    };
    wait_for("tidegate_connections_open{listener=\"public\"}", 2.0);
    for (sample, value) in
        [("connections_open", 1.0), ("connections_idle", 0.0), ("requests_active", 1.0)]
    {
        wait_for(&format!("tidegate_upstream_{sample}{{upstream=\"origin\"}}"), value);
    }
    gate.open();
    assert_eq!(first.read_reply().text(), "ok");
    for (sample, value) in
        [("connections_open", 1.0), ("connections_idle", 1.0), ("requests_active", 0.0)]
    {
        wait_for(&format!("tidegate_upstream_{sample}{{upstream=\"origin\"}}"), value);
    }
    drop((first, second));
    wait_for("tidegate_connections_open{listener=\"public\"}", 0.0);
    let all = scrape(&gateway);
    assert_eq!(all["tidegate_connections_total{listener=\"public\"}"], 2.0);
    assert_eq!(all["tidegate_upstream_connections_created_total{upstream=\"origin\"}"], 1.0);
    assert_eq!(all["tidegate_workers"], 2.0);
    assert_eq!(all["tidegate_config_generation"], 1.0);
    assert!(
        all["process_resident_memory_bytes"] > 1e6 && all["process_threads"] >= 3.0,
        "{all:#?}"
    );
}

#[test]
fn a_fault_has_its_reason_in_reply_log_and_metrics() {
    let origin = Origin::start(|peer: &mut Peer| {
        while let Some(request) = peer.request() {
            match request.target() {
                "/malformed" => peer.send("HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"),
                "/slow" => {
                    // Sends nothing until the gateway has closed.
                    peer.is_closed();
                }
                _ => return,
            }
        }
    });
    let nobody = ClosedPort::any();
    let gateway = Gateway::start(
        routes(
            &origin,
            "  reset: { match: { path: /reset }, upstream: origin }\n  malformed: { match: { path: /malformed }, upstream: origin }\n  \
             slow: { match: { path: /slow }, upstream: slow }\n  down: { match: { path: /down }, upstream: down }\n",
        )
        .replace(
            "upstreams: {",
            &format!(
                "upstreams: {{ slow: {{ targets: [\"http://{}\"], timeout: {{ response: 50ms }} }}, down: {{ targets: [\"http://{}\"] }},",
                origin.address(),
                nobody.address
            ),
        ) + LOG,
    );
    let cases = [
        ("down", 502, "connect_failure", nobody.address),
        ("reset", 502, "upstream_reset", origin.address()),
        ("malformed", 502, "upstream_malformed", origin.address()),
        ("slow", 504, "upstream_timeout", origin.address()),
    ];
    let mut wire = gateway.wire();
    for (count, (route, status, reason, target)) in cases.into_iter().enumerate() {
        let reply = wire.get(&format!("/{route}"));
        assert_eq!(
            (reply.status(), reply.get("content-type")),
            (status, Some("application/problem+json")),
            "{route}"
        );
        let problem: Value = serde_json::from_slice(&reply.body).unwrap();
        assert_eq!((&problem["status"], &problem["fault"]), (&status.into(), &reason.into()));
        // The address of the upstream is not shown outside.
        assert!(!reply.text().contains(&target.port().to_string()), "{reply:?}");
        let line = &json_lines(&gateway.path("access.log"), count + 1)[count];
        assert_eq!(
            (&line["status"], &line["fault"], &line["route"]),
            (&status.into(), &reason.into(), &route.into())
        );
        assert_eq!(line["request_id"].as_str(), reply.get("x-request-id"));
        assert_eq!(line["upstream_target"], format!("http://{target}"), "{line}");
        assert!(line["cause"].as_str().unwrap().contains(&target.to_string()), "{line}");
        gateway.wait_for_log(&format!("fault=\"{reason}\""));
        let sample = format!("tidegate_faults_total{{route=\"{route}\",reason=\"{reason}\"}}");
        assert_eq!(metric(&gateway, &sample), Some(1.0));
    }
}

#[test]
fn a_json_line_tells_the_exchange() {
    let authority = Authority::new();
    let identity = authority.issue("a.test");
    let origin = Origin::saying("hello");
    let yaml = routes(&origin, "  all: { match: { path: \"/all/**\" }, upstream: origin }\n").replace(
        "public: {",
        "secure: { address: \"127.0.0.1:0\", tls: { certificate: cert.pem, key: key.pem }, trusted_proxies: [127.0.0.1] }, public: {",
    ) + LOG;
    let files = [("cert.pem", identity.certificate.as_str()), ("key.pem", identity.key.as_str())];
    let gateway = Gateway::start_beside(yaml, &files);
    let path = gateway.path("access.log");

    let reply = gateway.wire().ask(
        "POST /all/x?y=z HTTP/1.1\r\nHost: A.test:80\r\nUser-Agent: tester/1\r\nX-Request-Id: mine-7\r\nX-Forwarded-For: 203.0.113.9\r\n\
         Content-Length: 3\r\n\r\nabc",
    );
    assert_eq!((reply.text().as_str(), reply.get("x-request-id")), ("hello", Some("mine-7")));
    let line = &json_lines(&path, 1)[0];
    let expected = [
        ("client", "127.0.0.1".into()),
        ("method", "POST".into()),
        ("path", "/all/x?y=z".into()),
        ("protocol", "HTTP/1.1".into()),
        ("status", 200.into()),
        ("request_bytes", 3.into()),
        ("reply_bytes", 5.into()),
        ("route", "all".into()),
        ("upstream", "origin".into()),
        ("upstream_target", format!("http://{}", origin.address()).into()),
        ("request_id", "mine-7".into()),
        ("user_agent", "tester/1".into()),
        ("tls", Value::Null),
        ("fault", Value::Null),
    ];
    for (field, value) in expected {
        assert_eq!(line[field], value, "{field} in {line}");
    }
    assert!(line["host"].as_str().unwrap().eq_ignore_ascii_case("a.test:80"), "{line}");
    let time = line["time"].as_str().unwrap();
    assert!(time.len() == 24 && time.starts_with("20") && time.ends_with('Z'), "{time}");

    // Over HTTP/2 and TLS, from a proxy that is believed.
    let h2 = H2::connect_tls(gateway.address("secure"), "a.test", authority.trust());
    let request =
        hyper::Request::get("https://a.test/all/2").header("x-forwarded-for", "203.0.113.9");
    let reply = h2.ask(request.body(full("")).unwrap());
    assert_eq!(reply.status, 200);
    let line = &json_lines(&path, 2)[1];
    assert_eq!(
        (&line["protocol"], &line["tls"], &line["client"]),
        (&"HTTP/2".into(), &"TLSv1.3".into(), &"203.0.113.9".into())
    );
    // One that was made is on the reply too.
    let id = line["request_id"].as_str().unwrap();
    assert!(!id.is_empty() && reply.headers["x-request-id"] == id, "{line}");
}

#[test]
fn a_template_makes_the_line() {
    let origin = Origin::saying("hello");
    let log = "telemetry: { access_log: { format: '{client} \"{method} {path} {protocol}\" {status} {reply_bytes} {route} {fault} {{\"{user_agent}\"}}', path: stdout } }\n";
    let gateway =
        Gateway::start(routes(&origin, "  a: { match: { path: /a }, upstream: origin }\n") + log);
    let mut wire = gateway.wire();
    wire.ask("GET /a HTTP/1.1\r\nHost: a\r\nUser-Agent: x \"y\" \\\r\n\r\n");
    wire.ask("GET /b HTTP/1.1\r\nHost: a\r\n\r\n");
    gateway.wait_for_output("/b");
    let output = gateway.output();
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[0], r#"127.0.0.1 "GET /a HTTP/1.1" 200 5 a - {"x \x22y\x22 \x5c"}"#);
    assert!(
        lines[1].starts_with(r#"127.0.0.1 "GET /b HTTP/1.1" 404 "#)
            && lines[1].ends_with(r#" - no_route {"-"}"#),
        "{}",
        lines[1]
    );
    assert_eq!(lines.len(), 2);
}

#[test]
fn a_renamed_file_is_opened_again_on_sighup() {
    let gateway = Gateway::start(format!(
        "{LISTEN}routes: {{ a: {{ match: {{ path: \"/**\" }}, respond: {{}} }} }}\n{LOG}"
    ));
    let (log, old) = (gateway.path("access.log"), gateway.path("access.log.1"));
    let mut wire = gateway.wire();
    wire.get("/one");
    lines(&log, 1);
    fs::rename(&log, &old).unwrap();
    wire.get("/two");
    // It writes to the old file until it is told to reopen it.
    lines(&old, 2);
    gateway.signal(Signal::HUP);
    until("the file is there again", || log.exists());
    wire.get("/three");
    assert!(lines(&log, 1)[0].contains("/three"));
    lines(&old, 2);
}

#[test]
fn a_reload_moves_the_access_log() {
    let yaml = |log: &str| {
        format!("{LISTEN}routes: {{ a: {{ match: {{ path: \"/**\" }}, respond: {{}} }} }}\n{log}")
    };
    let gateway = Gateway::start(yaml(LOG));
    let mut wire = gateway.wire();
    wire.get("/one");
    lines(&gateway.path("access.log"), 1);
    let put = |log: &str| assert_eq!(crate::reload::put(&gateway, &yaml(log)).status(), 200);
    put("telemetry: { access_log: { path: other.log } }\n");
    wire.get("/two");
    assert!(lines(&gateway.path("other.log"), 1)[0].contains("/two"));
    put("");
    wire.get("/three");
    put(LOG);
    wire.get("/four");
    assert!(lines(&gateway.path("access.log"), 2)[1].contains("/four"));
    lines(&gateway.path("other.log"), 1);
    // If a file cannot be opened, the plan is refused and the log continues.
    let refused = crate::reload::put(
        &gateway,
        &yaml("telemetry: { access_log: { path: none/access.log } }\n"),
    );
    assert_eq!(refused.status(), 422, "{refused:?}");
    wire.get("/five");
    assert!(lines(&gateway.path("access.log"), 3)[2].contains("/five"));
}

/// Bytes that would end a line, forge one, or reach a terminal.
#[test]
fn hostile_bytes_cannot_forge_a_line() {
    let hostile: &[u8] = b"x\"}\t\\n{\"status\":200} \xe2\x80\xa8\xc2\x85\xff\xfe \xe2\x80\xae";
    let agent = [&b"GET /a\"},'`{|?b=\" HTTP/1.1\r\nHost: a\r\nX-Request-Id: \"}\\ \x80 {\r\nUser-Agent: "[..], hostile, b"\r\n\r\n"].concat();
    let requests: [(&[u8], u16); 4] = [
        (&agent, 200),
        (b"GET /a%0a%0d HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"G\x1b[2JT /\n HTTP/1.1\r\nHost: \x00\r\n\r\n", 400),
        (b"M!#$%&'*+-.^_`|~ / HTTP/1.1\r\nHost: a\r\n\r\n", 501),
    ];
    for format in ["", "format: '{status} {method} {path} {request_id} {user_agent} {cause}', "] {
        let gateway = Gateway::start(format!(
            "{LISTEN}routes: {{ a: {{ match: {{ path: \"/**\" }}, respond: {{}} }} }}\ntelemetry: {{ access_log: {{ {format}path: access.log }} }}\n"
        ));
        let path = gateway.path("access.log");
        for (count, (request, status)) in requests.into_iter().enumerate() {
            assert_eq!(gateway.wire().ask(request).status(), status, "{}", request.escape_ascii());
            let line = lines(&path, count + 1).pop().unwrap();
            let strange =
                |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{202e}' | '\u{fffd}');
            assert!(!line.contains(strange), "{line:?}");
            if format.is_empty() {
                let line: Value = serde_json::from_str(&line).unwrap();
                assert_eq!(line["status"], status, "{line}");
                let agent = line["user_agent"].as_str().unwrap_or_default();
                assert!(
                    count > 0
                        || agent.starts_with("x\"}\t\\n{\"status\":200} \u{2028}\u{85}\\xff\\xfe"),
                    "{agent:?}"
                );
            } else {
                assert!(line.starts_with(&status.to_string()), "{line}");
            }
        }
    }
}

/// A request that the gateway cannot read is an exchange too.
#[test]
fn every_exchange_is_one_line() {
    let gate = Gate::default();
    let origin = Origin::start({
        let gate = gate.clone();
        move |peer: &mut Peer| {
            while let Some(request) = peer.request() {
                match request.target() {
                    "/broken" => {
                        peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
                        return;
                    }
                    "/ws" => {
                        peer.send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n");
                        let line = peer.read_until(b"\n").unwrap();
                        peer.send(line);
                        gate.wait();
                        return;
                    }
                    _ => peer.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"),
                }
            }
        }
    });
    let yaml = routes(&origin, "  all: { match: { path: \"/o/**\" }, strip_prefix: /o, limits: { body_bytes_max: 10B }, upstream: origin }\n")
        .replace("public: {", "public: { timeout: { head: 1500ms },");
    let gateway = Gateway::start(yaml + LOG);
    let path = gateway.path("access.log");
    let mut seen = 0;
    let mut next = |what: &str| {
        seen += 1;
        let line = json_lines(&path, seen).pop().unwrap();
        assert_eq!(line["client"], "127.0.0.1", "{what}: {line}");
        (line["status"].as_u64().unwrap(), line["fault"].as_str().unwrap_or("-").to_owned(), line)
    };

    let answered: &[(&str, u64, &str)] = &[
        ("GET /o/ HTTP/1.1\r\nHost: a\r\n\r\n", 200, "-"),
        ("HEAD /o/ HTTP/1.1\r\nHost: a\r\n\r\n", 200, "-"),
        ("GET /none HTTP/1.1\r\nHost: a\r\n\r\n", 404, "no_route"),
        ("GET /../o HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path_escapes"),
        ("GET /o%2Fa HTTP/1.1\r\nHost: a\r\n\r\n", 400, "path_ambiguous"),
        ("GET /o HTTP/1.1\r\n\r\n", 400, "malformed"),
        ("GET /o HTTP/1.1\r\nHost : a\r\n\r\n", 400, "malformed"),
        ("\x16\x03\x01\x02\x00\x01\r\n\r\n", 400, "malformed"),
        ("GET /o HTTP/3.0\r\nHost: a\r\n\r\n", 505, "version_unsupported"),
        ("TRACE /o HTTP/1.1\r\nHost: a\r\n\r\n", 405, "method_refused"),
        ("POST /o/ HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\n", 413, "body_too_large"),
        // The body is never complete.
        ("GET /o/ HTTP/1.1\r\nHost:", 408, "request_timeout"),
    ];
    for (request, status, fault) in answered {
        let reply = gateway.wire().ask(request);
        let (logged, reason, line) = next(request);
        assert_eq!(
            (u64::from(reply.status()), logged, reason.as_str()),
            (*status, *status, *fault),
            "{request:?}: {line}"
        );
        assert_eq!(line["request_id"].as_str(), reply.get("x-request-id"), "{request:?}: {line}");
    }

    let long = format!("GET /o/{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(20_000));
    assert_eq!(gateway.wire().ask(long).status(), 414);
    assert_eq!(next("a target that is too long").0, 414);

    // The upstream breaks off.
    assert!(!gateway.wire().get("/o/broken").whole);
    let (status, fault, _) = next("the upstream broke off");
    assert_eq!((status, fault.as_str()), (200, "upstream_reset"));

    // A tunnel is one, when it ends.
    let mut wire = gateway.wire();
    wire.send("GET /o/ws HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    assert_eq!(wire.read_head().status(), 101);
    wire.send("line\n");
    assert_eq!(wire.read_until(b"\n").as_deref(), Some(&b"line\n"[..]));
    gate.open();
    assert!(wire.is_closed());
    drop(wire);
    let (status, _, line) = next("a tunnel");
    assert_eq!(
        (status, &line["request_bytes"], &line["reply_bytes"]),
        (101, &5.into(), &5.into()),
        "{line}"
    );

    // Over HTTP/2.
    let h2 = H2::connect(gateway.address("public"));
    assert_eq!(h2.get("http://a.test/o/").status, 200);
    assert_eq!(next("over HTTP/2").0, 200);
    let refused =
        hyper::Request::builder().method("TRACE").uri("http://a.test/o/").body(full("")).unwrap();
    assert_eq!(h2.ask(refused).status, 405);
    assert_eq!(next("a method over HTTP/2").0, 405);

    // Connections without a request are not logged.
    drop(Wire::connect(gateway.address("public")));
    assert_eq!(metric(&gateway, "tidegate_access_log_dropped_total"), Some(0.0));
    lines(&path, seen);
    let counted: f64 = scrape(&gateway)
        .iter()
        .filter(|(name, _)| name.starts_with("tidegate_requests_total"))
        .map(|(_, n)| n)
        .sum();
    assert_eq!(counted, seen as f64);
}

#[test]
fn a_client_that_leaves_is_told_apart() {
    let origin = Origin::start(|peer: &mut Peer| {
        let request = peer.request().unwrap();
        if request.target() == "/half" {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf");
        }
        // Sends nothing more until the gateway has closed.
        peer.is_closed();
    });
    let gateway = Gateway::start(
        routes(&origin, "  all: { match: { path: \"/**\" }, upstream: origin }\n") + LOG,
    );
    let path = gateway.path("access.log");
    let next = |count: usize| json_lines(&path, count).pop().unwrap();

    // Over HTTP/2, a client resets the stream.
    let h2 = H2::connect(gateway.address("public"));
    let asked = h2
        .sender
        .clone()
        .send_request(hyper::Request::get("http://a.test/").body(full("")).unwrap());
    origin.wait_for_requests(1);
    drop(asked);
    let line = next(1);
    assert_eq!((&line["status"], &line["fault"]), (&499.into(), &"client_gone".into()), "{line}");

    let half = hyper::Request::get("http://a.test/half").body(full("")).unwrap();
    let reply = h2.block_on(h2.sender.clone().send_request(half)).unwrap();
    assert_eq!(reply.status(), 200);
    drop(reply);
    let line = next(2);
    assert_eq!((&line["status"], &line["fault"]), (&200.into(), &"client_gone".into()), "{line}");

    // Before the reply began.
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    origin.wait_for_requests(3);
    wire.reset();
    let line = next(3);
    assert_eq!((&line["status"], &line["fault"]), (&499.into(), &"client_gone".into()), "{line}");

    // Within the body.
    let mut wire = gateway.wire();
    wire.send("GET /half HTTP/1.1\r\nHost: a\r\n\r\n");
    wire.read_head();
    assert_eq!(wire.read_exact(4).as_deref(), Some(&b"half"[..]));
    wire.reset();
    let line = next(4);
    assert_eq!((&line["status"], &line["fault"]), (&200.into(), &"client_gone".into()), "{line}");
    assert_eq!(line["reply_bytes"], 4, "{line}");

    // The upstream's request is cancelled.
    until("the origin is left alone", || origin.open() == 0);
    assert_eq!(
        metric(&gateway, "tidegate_faults_total{route=\"all\",reason=\"client_gone\"}"),
        Some(4.0)
    );
}

/// Waits during which the client left, or a flow abandoned a call, do not count as work of the gateway.
#[test]
fn waits_that_nobody_ends_are_told_apart() {
    const WAIT: Duration = Duration::from_secs(1);
    let origin = Origin::start(|peer: &mut Peer| {
        let Some(head) = peer.request_head() else { return };
        if head.target().ends_with("/half") {
            peer.send(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{",
            );
        }
        // Sends nothing more until the gateway has closed.
        peer.read_to_end();
    });
    let gateway = Gateway::start(
        routes(
            &origin,
            "  plain: { match: { path: \"/plain/**\" }, upstream: origin }\n  \
               whole: { match: { path: \"/whole/**\" }, upstream: origin, policies: [{ soap: { envelope: off, action: off } }] }\n  \
               reply: { match: { path: \"/reply/**\" }, upstream: origin, policies: [{ transform: { response: { json: { remove: [a] } } } }] }\n  \
               flow: { match: { path: \"/flow/**\" }, flow: asks }\n  \
               short: { match: { path: \"/short/**\" }, flow: gives_up }\n  \
               scatter: { match: { path: \"/scatter/**\" }, flow: scatters }\n\
             flows:\n  \
               asks: [{ call: origin }, { set: { a: $body } }, { respond: {} }]\n  \
               gives_up: [{ call: { upstream: origin, timeout: 1s } }, { respond: {} }]\n  \
               scatters: [{ scatter: { branches: [{ call: origin }, { call: origin }], gather: { into: <a/>, timeout: 1s } } }, { respond: {} }]\n",
        ) + LOG,
    );
    let path = gateway.path("access.log");
    let mut count = 0;
    let mut told = |line: &str, status: u16, waited_for: &str| {
        count += 1;
        let told = json_lines(&path, count).pop().unwrap();
        assert_eq!(told["status"], status, "{line}: {told}");
        let [total, own, upstream] =
            ["duration_ms", "own_ms", "upstream_ms"].map(|name| told[name].as_f64().unwrap());
        let wait = WAIT.as_secs_f64() * 1e3;
        assert!(total >= wait * 0.9 && own < wait / 2.0, "{line}: {told}");
        match waited_for {
            "upstream" => assert!(upstream >= wait * 0.75, "{line}: {told}"),
            _ => assert!(upstream < wait / 2.0, "{line}: {told}"),
        }
    };
    for (line, body, waited_for) in [
        ("GET /plain", "", "upstream"),
        ("GET /reply", "", "upstream"),
        ("GET /reply/half", "", "upstream"),
        ("GET /flow", "", "upstream"),
        ("GET /flow/half", "", "upstream"),
        ("POST /plain", "Content-Length: 9\r\n\r\nhalf", "client"),
        ("PUT /plain", "Content-Length: 9\r\n\r\nhalf", "client"),
        ("POST /whole", "Content-Type: text/xml\r\nContent-Length: 9\r\n\r\n<a", "client"),
        ("POST /flow", "Content-Length: 9\r\n\r\nhalf", "client"),
        ("POST /flow", "Content-Type: text/xml\r\nContent-Length: 9\r\n\r\n<a", "client"),
    ] {
        let mut wire = gateway.wire();
        let body = if body.is_empty() { "\r\n" } else { body };
        origin.forget();
        wire.send(format!("{line} HTTP/1.1\r\nHost: a\r\n{body}"));
        if waited_for == "upstream" {
            // The exchange begins later than the request is sent, by as much as a busy machine takes.
            origin.wait_for_requests(1);
        }
        thread::sleep(WAIT);
        wire.reset();
        told(line, 499, waited_for);
    }
    let h2 = H2::connect(gateway.address("public"));
    let sender = h2.sender.clone();
    for target in ["/plain", "/reply/half", "/flow"] {
        let request = hyper::Request::get(format!("http://a.test{target}")).body(full("")).unwrap();
        origin.forget();
        let asked = sender.clone().send_request(request);
        origin.wait_for_requests(1);
        thread::sleep(WAIT);
        drop(asked);
        told(target, 499, "upstream");
    }
    for target in ["/short", "/scatter"] {
        assert_eq!(gateway.wire().get(target).status(), 504);
        told(target, 504, "upstream");
    }
}

#[test]
fn a_log_that_nobody_reads_holds_up_no_request() {
    let gateway = Gateway::start(
        "listen:\n  public: { address: \"127.0.0.1:0\" }\n  proxied: { address: \"127.0.0.1:0\", proxy_protocol: true }\n\
         workers: 1\nroutes: { all: { match: { path: \"/**\" }, respond: {} } }\n",
    );
    let (public, proxied) = (gateway.address("public"), gateway.address("proxied"));
    gateway.wait_for_log("in service");
    let log = gateway.hold_log();
    // Each is a record of more than 100 bytes; a pipe holds 64 KiB, and its reader 8.
    for _ in 0..1_500 {
        let mut wire = Wire::connect(proxied);
        wire.try_send("nonsense without a header\r\n");
        wire.read_to_end();
    }
    assert_eq!(Wire::connect(public).get("/").status(), 200);
    drop(log);
    until("what waited is written once somebody reads", || {
        gateway.log().matches("connection refused").count() == 1_500
    });
}
