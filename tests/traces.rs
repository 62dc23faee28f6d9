//! Distributed traces: spans at a collector, ids in headers and logs, and what happens where the collector does not take them.

use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::span::SpanKind;
use rustix::process::Signal;
use serde_json::Value;

use crate::harness::collector::{Collector, attribute};
use crate::harness::{ClosedPort, Gateway, Message, Origin, Wire, tidegate, until};
use crate::hubs::{hub, publish};
use crate::telemetry::metric;
use crate::websub::{LOOPBACK, confirming, delivered, subscribe};

const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// A gateway with traces; `keys` are more keys of `traces`.
fn yaml(collector: &str, keys: &str, origin: &Origin, more: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
         telemetry: {{ traces: {{ otlp: \"{collector}\" {keys} }}, access_log: {{ to: access.log }} }}\n{more}",
        origin.url()
    )
}

const ROUTES: &str = "routes: { items: { match: { path: \"/items/{id}\" }, upstream: origin } }\n";

#[track_caller]
fn start(collector: &Collector, keys: &str, origin: &Origin, more: &str) -> Gateway {
    Gateway::start(yaml(&collector.url(), keys, origin, more))
}

fn asked(gateway: &Gateway, path: &str, lines: &str) -> Message {
    gateway.wire().ask(format!("GET {path} HTTP/1.1\r\nHost: a.test:8080\r\n{lines}\r\n"))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The spans of a kind, once there are as many.
#[track_caller]
fn spans(collector: &Collector, kind: SpanKind, count: usize) -> Vec<Span> {
    let of_kind = || {
        let all = collector.spans();
        all.into_iter().filter(|span| span.kind == kind as i32).collect::<Vec<_>>()
    };
    until(&format!("there are {count} spans of {kind:?}"), || of_kind().len() >= count);
    let found = of_kind();
    assert_eq!(found.len(), count, "{found:#?}");
    found
}

fn attr(span: &Span, name: &str) -> Option<String> {
    attribute(&span.attributes, name)
}

/// The ids of a `traceparent`, and its flags.
#[track_caller]
fn ids(request: &Message) -> (String, String, String) {
    let value = request.get("traceparent").unwrap_or_else(|| panic!("{request:?}"));
    let parts: Vec<&str> = value.split('-').collect();
    assert_eq!((parts.len(), parts[0]), (4, "00"), "{value}");
    (parts[1].to_owned(), parts[2].to_owned(), parts[3].to_owned())
}

fn line(gateway: &Gateway, at: usize) -> Value {
    let lines = || std::fs::read_to_string(gateway.path("access.log")).unwrap_or_default();
    until("the line is there", || lines().lines().count() > at);
    serde_json::from_str(lines().lines().nth(at).unwrap()).unwrap()
}

#[test]
fn a_request_has_a_span_and_each_call_of_an_upstream_too() {
    for collector in [Collector::http(), Collector::grpc()] {
        let origin = Origin::answering(OK);
        let keys = ", attributes: { env: prod, service.name: shop }, request_headers: [X-Team], headers: { authorization: hush }";
        let gateway = start(&collector, keys, &origin, ROUTES);
        let lines = format!(
            "traceparent: 00-{TRACE}-{PARENT}-01\r\ntracestate: a=b\r\nbaggage: c=d\r\nUser-Agent: t/1\r\nX-Team: blue\r\nX-Team: red\r\n"
        );
        assert_eq!(asked(&gateway, "/items/7?a=b&token=hush", &lines).status(), 200);
        let server = spans(&collector, SpanKind::Server, 1).remove(0);
        let client = spans(&collector, SpanKind::Client, 1).remove(0);
        assert_eq!(
            (hex(&server.trace_id), hex(&server.parent_span_id)),
            (TRACE.into(), PARENT.into())
        );
        assert_eq!(server.name, "GET /items/{id}");
        assert_eq!(
            (hex(&client.trace_id), &client.parent_span_id),
            (TRACE.into(), &server.span_id)
        );
        assert_eq!(client.name, "GET");
        assert!(
            server.start_time_unix_nano <= client.start_time_unix_nano,
            "{server:?} {client:?}"
        );
        assert!(client.end_time_unix_nano <= server.end_time_unix_nano, "{server:?} {client:?}");
        assert!(server.status.is_none() && client.status.is_none());
        let address = origin.address();
        for (span, name, value) in [
            (&server, "http.request.method", "GET"),
            (&server, "http.route", "/items/{id}"),
            (&server, "url.path", "/items/7"),
            (&server, "url.query", "a=b&token=*"),
            (&server, "url.scheme", "http"),
            (&server, "http.response.status_code", "200"),
            (&server, "server.address", "a.test"),
            (&server, "server.port", "8080"),
            (&server, "network.protocol.version", "1.1"),
            (&server, "client.address", "127.0.0.1"),
            (&server, "network.peer.address", "127.0.0.1"),
            (&server, "user_agent.original", "t/1"),
            (&server, "http.request.header.x-team", "blue|red"),
            (&client, "http.request.method", "GET"),
            (&client, "server.address", "127.0.0.1"),
            (&client, "server.port", &address.port().to_string()),
            (&client, "url.full", &format!("http://{address}/items/7?a=b&token=*")),
            (&client, "http.response.status_code", "200"),
        ] {
            assert_eq!(attr(span, name).as_deref(), Some(value), "{name}: {span:#?}");
        }
        let sent = origin.request();
        let (trace, span, flags) = ids(&sent);
        assert_eq!((trace, span, flags.as_str()), (TRACE.into(), hex(&client.span_id), "01"));
        assert_eq!((sent.get("tracestate"), sent.get("baggage")), (Some("a=b"), Some("c=d")));
        let line = line(&gateway, 0);
        assert_eq!(line["trace_id"], TRACE);
        assert_eq!(line["span_id"], hex(&server.span_id));
        let resource = &collector.resources()[0].attributes;
        assert_eq!(attribute(resource, "service.name").as_deref(), Some("shop"));
        assert_eq!(attribute(resource, "env").as_deref(), Some("prod"));
        assert!(attribute(resource, "service.instance.id").is_some());
        let authorization = collector.origin.requests()[0].get("authorization").map(str::to_owned);
        assert_eq!(authorization.as_deref(), Some("hush"));
    }
}

#[test]
fn the_client_decides_about_sampling_and_else_the_share() {
    let (collector, origin) = (Collector::http(), Origin::answering(OK));
    let gateway = start(&collector, ", sample: 0", &origin, ROUTES);
    assert_eq!(asked(&gateway, "/items/1", "").status(), 200);
    let (trace, span, flags) = ids(&origin.requests()[0]);
    assert_eq!(flags, "00");
    let first = line(&gateway, 0);
    assert_eq!((&first["trace_id"], &first["span_id"]), (&trace.into(), &span.into()));
    let traced = |flags: &str| format!("traceparent: 00-{TRACE}-{PARENT}-{flags}\r\n");
    assert_eq!(asked(&gateway, "/items/2", &traced("00")).status(), 200);
    let (trace, span, flags) = ids(&origin.requests()[1]);
    assert_eq!((trace.as_str(), flags.as_str()), (TRACE, "00"));
    assert_ne!(span, PARENT);
    assert_eq!(asked(&gateway, "/items/3", &traced("01")).status(), 200);
    let server = spans(&collector, SpanKind::Server, 1).remove(0);
    assert_eq!(attr(&server, "url.path").as_deref(), Some("/items/3"));
    // With an invalid header, or without one, a new trace is started.
    for bad in [
        "traceparent: 00-0-1-01\r\n",
        "traceparent: ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n",
        "traceparent: \r\n",
        "",
    ] {
        origin.forget();
        let lines = format!("{bad}tracestate: a=b\r\n");
        assert_eq!(asked(&gateway, "/items/4", &lines).status(), 200);
        let sent = origin.request();
        let (trace, _, flags) = ids(&sent);
        assert!(trace != TRACE && flags == "00", "{sent:?}");
        assert_eq!(sent.get("tracestate"), None, "it belongs to the other trace");
    }
    // Some of a hundred are sampled, and not all.
    let half = Collector::http();
    let gateway = start(&half, ", sample: 0.5", &origin, ROUTES);
    (0..100).for_each(|at| assert_eq!(asked(&gateway, &format!("/items/{at}"), "").status(), 200));
    gateway.signal(Signal::TERM);
    gateway.wait_for_exit();
    let sampled = half.spans().iter().filter(|span| span.kind == SpanKind::Server as i32).count();
    assert!((10..=90).contains(&sampled), "{sampled}");
}

#[test]
fn ids_pass_in_the_formats_that_are_named() {
    let (collector, origin) = (Collector::http(), Origin::answering(OK));
    let b3 = format!("b3: {TRACE}-{PARENT}-1\r\n");
    let lines = format!("x-b3-traceid: {PARENT}\r\nx-b3-spanid: {PARENT}\r\nx-b3-sampled: 1\r\n");
    let w3c = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let gateway = start(&collector, ", propagate: [b3, w3c]", &origin, ROUTES);
    let sent = |gateway: &Gateway, lines: &str| {
        origin.forget();
        assert_eq!(asked(gateway, "/items/1", lines).status(), 200);
        origin.request()
    };
    let request = sent(&gateway, &b3);
    let (trace, span, _) = ids(&request);
    assert_eq!(trace, TRACE);
    assert_eq!(request.get("b3"), Some(format!("{TRACE}-{span}-1").as_str()));
    let request = sent(&gateway, &lines);
    assert_eq!(ids(&request).0, format!("{}{PARENT}", "0".repeat(16)));
    assert_eq!(request.get("x-b3-traceid"), None, "in place of those that came");
    // The first format in the list decides.
    let other = w3c.replace(TRACE, &"1".repeat(32));
    assert_eq!(ids(&sent(&gateway, &format!("{other}{b3}"))).0, TRACE);
    let gateway = start(&collector, ", propagate: [b3multi]", &origin, ROUTES);
    let request = sent(&gateway, &format!("{w3c}b3: 0\r\n"));
    assert_eq!(request.get("x-b3-sampled"), Some("0"));
    assert_eq!(request.get("x-b3-traceid").map(str::len), Some(32));
    assert_eq!(request.get("traceparent"), Some(&w3c["traceparent: ".len()..w3c.len() - 2]));
    // A format that is not in use passes unchanged.
    let gateway = start(&collector, "", &origin, ROUTES);
    assert_eq!(sent(&gateway, &b3).get("b3"), Some(&b3["b3: ".len()..b3.len() - 2]));
}

#[test]
fn failures_and_strange_requests_are_told() {
    let (collector, closed) = (Collector::http(), ClosedPort::any());
    let origin = Origin::answering("HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n");
    let more = format!(
        "{ROUTES}  away: {{ match: {{ path: /away }}, upstream: away }}\n  made: {{ match: {{ path: /made, methods: [GET, BREW] }}, respond: {{ status: 200 }} }}\n"
    );
    let more = more
        .replace("routes: { items:", "routes:\n  items:")
        .replace("upstream: origin } }\n", "upstream: origin }\n");
    let upstreams = format!(
        "upstreams: {{ away: {{ targets: [\"http://{}\"], retry: {{ attempts: 0 }} }}, origin: {{ targets: [\"{}\"], retry: {{ attempts: 1, on: [503] }} }} }}",
        closed.address,
        origin.url()
    );
    let all = yaml(&collector.url(), "", &origin, &more);
    let all: Vec<&str> = all
        .lines()
        .map(|line| if line.starts_with("upstreams:") { &*upstreams } else { line })
        .collect();
    let gateway = Gateway::start(all.join("\n"));
    assert_eq!(asked(&gateway, "/items/1", "").status(), 503);
    let tries = spans(&collector, SpanKind::Client, 2);
    assert_eq!(attr(&tries[0], "http.request.resend_count"), None);
    assert_eq!(attr(&tries[1], "http.request.resend_count").as_deref(), Some("1"));
    assert_ne!(tries[0].span_id, tries[1].span_id);
    let sent: Vec<String> = origin.requests().iter().map(|request| ids(request).1).collect();
    assert_eq!(sent, [hex(&tries[0].span_id), hex(&tries[1].span_id)]);
    for span in tries.iter().chain(&spans(&collector, SpanKind::Server, 1)) {
        assert_eq!(attr(span, "error.type").as_deref(), Some("503"), "{span:?}");
        assert_eq!(span.status.as_ref().map(|status| status.code), Some(2));
    }
    assert_eq!(asked(&gateway, "/away", "").status(), 502);
    let away = spans(&collector, SpanKind::Client, 3).remove(2);
    assert_eq!(attr(&away, "error.type").as_deref(), Some("connect_failure"), "{away:?}");
    let brewed = gateway.wire().ask("BREW /made HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(brewed.status(), 200);
    assert_eq!(asked(&gateway, "/nowhere", "").status(), 404);
    let servers = spans(&collector, SpanKind::Server, 4);
    assert_eq!(attr(&servers[1], "error.type").as_deref(), Some("connect_failure"));
    assert_eq!(servers[2].name, "HTTP /made");
    assert_eq!(attr(&servers[2], "http.request.method").as_deref(), Some("_OTHER"));
    assert_eq!(attr(&servers[2], "http.request.method_original").as_deref(), Some("BREW"));
    let lost = &servers[3];
    assert_eq!((lost.name.as_str(), attr(lost, "http.route"), &lost.status), ("GET", None, &None));
    let trace = hex(&servers[1].trace_id);
    gateway.wait_for_log(&format!("trace_id=\"{trace}\""));
}

#[test]
fn policies_that_wait_and_steps_of_flows_have_spans() {
    let (collector, origin) = (Collector::http(), Origin::answering(OK));
    let more = "routes:\n  guarded: { match: { path: /guarded }, upstream: origin, policies: [ { forward_auth: { upstream: origin } } ] }\n  flow: { match: { path: /flow }, flow: two }\n  plain: { match: { path: /plain }, flow: one }\n\
                flows:\n  two: { steps: [ { call: { upstream: origin, into: first }, name: ask }, { filter: { when: $method, then: [ { call: origin }, { call: origin } ] } } ] }\n  one: { steps: [ { call: origin } ] }\n";
    let gateway = start(&collector, "", &origin, more);
    assert_eq!(asked(&gateway, "/guarded", "").status(), 200);
    let policy = spans(&collector, SpanKind::Internal, 1).remove(0);
    let calls = spans(&collector, SpanKind::Client, 2);
    let server = spans(&collector, SpanKind::Server, 1).remove(0);
    assert_eq!((policy.name.as_str(), &policy.parent_span_id), ("forward_auth", &server.span_id));
    assert_eq!(calls[0].parent_span_id, policy.span_id);
    assert_eq!(calls[1].parent_span_id, server.span_id);
    assert_eq!(asked(&gateway, "/flow", "").status(), 200);
    let steps = spans(&collector, SpanKind::Internal, 5);
    let server = spans(&collector, SpanKind::Server, 2).remove(1);
    let named = |name: &str| steps.iter().filter(|span| span.name == name).collect::<Vec<_>>();
    let (ask, filter) = (named("ask")[0], named("filter")[0]);
    assert_eq!((&ask.parent_span_id, &filter.parent_span_id), (&server.span_id, &server.span_id));
    assert!(named("call").iter().all(|call| call.parent_span_id == filter.span_id), "{steps:#?}");
    let calls = spans(&collector, SpanKind::Client, 5);
    assert_eq!(calls[2].parent_span_id, ask.span_id);
    assert!(
        calls[3..]
            .iter()
            .all(|call| named("call").iter().any(|step| step.span_id == call.parent_span_id))
    );
    assert_eq!(asked(&gateway, "/plain", "").status(), 200);
    let step = spans(&collector, SpanKind::Internal, 6).remove(5);
    let call = spans(&collector, SpanKind::Client, 6).remove(5);
    assert_eq!((step.name.as_str(), &call.parent_span_id), ("call", &step.span_id));
    let (collector, more) = (Collector::http(), more);
    let gateway = start(&collector, ", steps: false", &origin, more);
    assert_eq!(asked(&gateway, "/flow", "").status(), 200);
    spans(&collector, SpanKind::Server, 1);
    let steps: Vec<Span> = collector.spans();
    assert!(steps.iter().all(|span| span.kind != SpanKind::Internal as i32), "{steps:#?}");
}

#[test]
fn runs_of_queues_and_deliveries_have_links_to_what_caused_them() {
    let (collector, origin) = (Collector::http(), Origin::answering(OK));
    let more = "store: { path: data }\nqueues: { jobs: { flow: work } }\n\
                flows:\n  put: { steps: [ { store: { queue: jobs } } ] }\n  work: { steps: [ { call: origin } ] }\n\
                routes:\n  put: { match: { path: /put }, flow: put }\n";
    let gateway = start(&collector, "", &origin, more);
    let put = gateway.wire().ask("POST /put HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi");
    assert_eq!(put.status(), 202);
    let run = spans(&collector, SpanKind::Consumer, 1).remove(0);
    let server = spans(&collector, SpanKind::Server, 1).remove(0);
    assert_eq!(run.name, "process jobs");
    assert_ne!(run.trace_id, server.trace_id);
    assert!(run.parent_span_id.is_empty());
    assert_eq!(
        (&run.links[0].trace_id, &run.links[0].span_id),
        (&server.trace_id, &server.span_id)
    );
    let call = spans(&collector, SpanKind::Client, 1).remove(0);
    assert_eq!(call.trace_id, run.trace_id);
    assert_eq!(ids(&origin.request()).0, hex(&run.trace_id));
}

#[test]
fn a_delivery_has_a_link_to_what_published_its_event() {
    let (collector, callback) = (Collector::http(), confirming());
    let traces = format!("telemetry: {{ traces: {{ otlp: \"{}\" }} }}\n", collector.url());
    let gateway = Gateway::start(format!("{}{traces}", hub(LOOPBACK)));
    subscribe(&gateway, &callback.url(), "");
    let id = publish(&gateway, "sports", "one");
    until("it is delivered", || delivered(&callback).len() == 1);
    let of_publisher = |span: &Span| {
        span.kind == SpanKind::Server as i32
            && attr(span, "url.path").as_deref() == Some("/news/publish")
    };
    let of_delivery = |span: &Span| span.kind == SpanKind::Client as i32 && !span.links.is_empty();
    until("both spans are there", || {
        let spans = collector.spans();
        spans.iter().any(of_publisher) && spans.iter().any(of_delivery)
    });
    let spans = collector.spans();
    let publisher = spans.iter().find(|span| of_publisher(span)).unwrap();
    let delivery = spans.iter().find(|span| of_delivery(span)).unwrap();
    let link = &delivery.links[0];
    assert_eq!((&link.trace_id, &link.span_id), (&publisher.trace_id, &publisher.span_id));
    assert_ne!(delivery.trace_id, publisher.trace_id);
    assert!(delivery.parent_span_id.is_empty(), "{delivery:?}");
    let sent = &delivered(&callback)[0];
    let (trace, span, flags) = ids(sent);
    assert_eq!((trace, span), (hex(&delivery.trace_id), hex(&delivery.span_id)));
    assert_eq!((flags.as_str(), sent.get("x-hub-event-id")), ("01", Some(id.as_str())));
    // Readers see the event without it.
    let read = gateway.wire().get("/news/topics/sports?after=0");
    assert!(!read.text().contains("traceparent") && read.get("traceparent").is_none(), "{read:?}");
}

#[test]
fn buckets_have_exemplars_in_openmetrics_alone() {
    let (collector, origin) = (Collector::http(), Origin::answering(OK));
    let gateway = start(&collector, ", sample: 0", &origin, ROUTES);
    let scrape = |accept: &str| {
        let admin = gateway.admin();
        let request = format!("GET /metrics HTTP/1.1\r\nHost: {admin}\r\n{accept}\r\n");
        Wire::connect(admin).ask(request).text()
    };
    let openmetrics = "Accept: application/openmetrics-text\r\n";
    assert_eq!(asked(&gateway, "/items/1", "").status(), 200);
    assert!(!scrape(openmetrics).contains("trace_id"), "nothing is sampled");
    assert_eq!(
        asked(&gateway, "/items/1", &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n")).status(),
        200
    );
    until("an exemplar is there", || scrape(openmetrics).contains("trace_id"));
    let text = scrape(openmetrics);
    let line =
        text.lines().find(|line| line.contains("trace_id")).unwrap_or_else(|| panic!("{text}"));
    let (sample, exemplar) = line.split_once(" # ").unwrap();
    assert!(
        sample.starts_with("tidegate_request_duration_seconds_bucket{")
            && sample.contains("route=\"items\""),
        "{line}"
    );
    assert!(exemplar.starts_with(&format!("{{trace_id=\"{TRACE}\",span_id=\"")), "{line}");
    assert_eq!(text.matches("trace_id").count(), 1);
    assert!(text.ends_with("# EOF\n"));
    assert!(!scrape("").contains("trace_id"));
}

#[test]
fn a_collector_that_does_not_take_spans_costs_spans_alone() {
    let origin = Origin::answering(OK);
    let dropped = |gateway: &Gateway| metric(gateway, "tidegate_traces_dropped_total").unwrap();
    let page =
        "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>hi</html>";
    for collector in [
        Collector::answering_http("HTTP/1.1 400 No\r\nContent-Length: 0\r\n\r\n"),
        Collector::answering_http(page),
        Collector::answering_http("SSH-2.0-OpenSSH_9.9\r\n\r\n"),
        Collector::answering_grpc("16"),
    ] {
        let gateway = start(&collector, "", &origin, ROUTES);
        assert_eq!(asked(&gateway, "/items/1", "").status(), 200);
        until("both spans are counted as lost", || dropped(&gateway) == 2.0);
        gateway.wait_for_log("spans cannot be sent");
    }
    // One that is unavailable, and one that never answers: spans above the queue's limit are dropped.
    let (closed, silent) = (ClosedPort::any(), Origin::silent());
    for url in
        [format!("http://{}", closed.address), silent.url(), format!("grpc://{}", silent.address())]
    {
        let gateway = Gateway::start(yaml(&url, "", &origin, ROUTES));
        let mut wire = gateway.wire();
        until("spans are dropped", || {
            for at in 0..500 {
                assert_eq!(wire.get(&format!("/items/{at}")).status(), 200);
            }
            dropped(&gateway) > 0.0
        });
    }
}

#[test]
fn a_collector_that_comes_back_gets_what_waited_and_the_last_spans_at_the_end() {
    let origin = Origin::answering(OK);
    let (collector, elsewhere) = (Collector::http(), Collector::http());
    let gateway = start(&collector, "", &origin, ROUTES);
    assert_eq!(asked(&gateway, "/items/1", "").status(), 200);
    gateway.rewrite(yaml(&elsewhere.url(), "", &origin, ROUTES));
    gateway.wait_for_log("generation=2");
    assert_eq!(asked(&gateway, "/items/2", "").status(), 200);
    gateway.signal(Signal::TERM);
    gateway.wait_for_exit();
    spans(&collector, SpanKind::Server, 1);
    assert_eq!(spans(&elsewhere, SpanKind::Server, 1)[0].name, "GET /items/{id}");
}

#[test]
fn settings_that_cannot_be_are_complaints() {
    for (traces, complaint) in [
        ("{}", "the key `otlp` is missing"),
        ("{ otlp: \"localhost:4317\" }", "has no scheme"),
        ("{ otlp: \"http://a\", sample: 2 }", "expected a number from 0 to 1"),
        ("{ otlp: \"http://a\", sample: 1% }", "expected a number from 0 to 1"),
        ("{ otlp: \"http://a\", propagate: [jaeger] }", "unknown value `jaeger`"),
        ("{ otlp: \"http://a\", propagate: [] }", "no trace headers"),
        ("{ otlp: \"http://a\", request_headers: [\"a b\"] }", "is not a valid header name"),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.yaml");
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nroutes: {{ a: {{ match: {{ path: / }}, respond: {{ status: 200 }} }} }}\ntelemetry: {{ traces: {traces} }}\n"
        );
        std::fs::write(&file, yaml).unwrap();
        let run = tidegate(&[std::path::Path::new("check"), &file]);
        assert_eq!(run.code, Some(1), "{traces}: {run:?}");
        assert!(run.stderr.contains(complaint), "{traces}: {run:?}");
    }
}
