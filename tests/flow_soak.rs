//! Faults of flows, many times: each request gets one reply and leaves no trace.
//!
//! `make soak` does it with ten thousand of each.

use std::fmt::Write as _;
use std::thread;

use crate::flow_limits::{BOMB, reply_of};
use crate::harness::{Gateway, Origin, until};
use crate::reload_soak::asked;
use crate::telemetry::metric;

/// Requests of each kind, by this many clients at once.
const REQUESTS: usize = 48;
const CLIENTS: usize = 16;

/// The limit of memory after all requests, relative to that after a tenth of them.
const GROWTH_MAX: f64 = 1.05;

/// Bytes that memory grows by while it settles: few requests do not fill it, and pages of the system are large.
const SETTLING_BYTES: f64 = 16_777_216.0;
const PAGE_BYTES: f64 = 2_097_152.0;

/// A path with the steps of its flow, the body sent to it, and the reply: its status and a part of its text.
struct Kind {
    name: &'static str,
    flow: &'static str,
    body: String,
    status: u16,
    text: &'static str,
}

fn kinds() -> [Kind; 12] {
    let kind = |name, flow, body: &str, status, text| {
        let body = body.to_owned();
        Kind { name, flow, body, status, text }
    };
    let deep = ["[".repeat(10_000), "]".repeat(10_000)].concat();
    let nest = ["<a>".repeat(100), "x".repeat(2000), "</a>".repeat(100)].concat();
    [
        kind("dead", "[{ call: dead }]", "<a/>", 502, "connect_failure"),
        kind(
            "hangs",
            "[scatter: { branches: [{ call: echo }, { call: silent }], gather: { take: $body, into: '<All/>', timeout: 30ms } }]",
            "<a/>",
            504,
            "gather_timeout",
        ),
        kind(
            "partly",
            "[scatter: { branches: [{ call: echo }, { call: silent }], gather: { take: $body, into: '<All/>', timeout: 200ms, partial: keep } }]",
            "<a/>",
            200,
            "<All><a/></All>",
        ),
        kind("garbage", "[{ call: garbage }]", "<a/>", 502, "fault"),
        kind(
            "endless",
            "[{ call: endless }, { respond: { text: '{{ $body }}' } }]",
            "<a/>",
            502,
            "reply_too_large",
        ),
        kind(
            "bomb",
            "[{ call: bomb }, { respond: { text: '{{ $body }}' } }]",
            "<a/>",
            502,
            "reply_invalid",
        ),
        kind("cut", "[{ call: cut }, { respond: { text: '{{ $body }}' } }]", "<a/>", 502, "fault"),
        kind("deep", "[respond: { text: '{{ $.a }}' }]", &deep, 400, "request_invalid"),
        kind(
            "large",
            "[respond: { text: '{{ $body }}' }]",
            &"x".repeat(100_000),
            413,
            "body_too_large",
        ),
        kind("many", "[payload: { xml: '<p>{{ $body//* }}</p>' }]", &nest, 500, "flow_failed"),
        kind(
            "markup",
            "[respond: { xml: '<p a=\"{{ $headers.x-text }}\">{{ $headers.x-text }}</p>' }]",
            "<a/>",
            200,
            "<p a=\"&lt;&quot;&#39;&amp;]]&gt;\">&lt;\"'&amp;]]&gt;</p>",
        ),
        kind("made", "[fault: { code: client, reason: 'no' }]", "<a/>", 400, "no"),
    ]
}

/// Services by name, which fail in the way of their names.
fn origins() -> Vec<(&'static str, Origin)> {
    let chunk = format!("1000\r\n{}\r\n", "x".repeat(4096));
    let endless = Origin::start(move |peer| {
        if peer.request().is_some() {
            peer.try_send(
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            while peer.try_send(&chunk) {}
        }
    });
    let cut = Origin::start(|peer| {
        if peer.request().is_some() {
            peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n<a>");
        }
    });
    vec![
        ("echo", Origin::echo()),
        ("silent", Origin::silent()),
        ("garbage", Origin::answering("no HTTP at all\r\n\r\n")),
        ("endless", endless),
        ("cut", cut),
        ("bomb", Origin::answering(reply_of("text/xml", BOMB))),
    ]
}

fn yaml(origins: &[(&str, Origin)], kinds: &[Kind]) -> String {
    let mut yaml = String::from(
        "listen: { public: { address: \"127.0.0.1:0\" } }\nadmin: { address: \"127.0.0.1:0\" }\nworkers: 1\nupstreams:\n  \
         dead: { targets: [\"http://127.0.0.1:1\"] }\n",
    );
    for (name, origin) in origins {
        let url = origin.url();
        writeln!(yaml, "  {name}: {{ targets: [\"{url}\"], timeout: {{ idle: 1s }} }}").unwrap();
    }
    yaml.push_str("routes:\n");
    for Kind { name, .. } in kinds {
        writeln!(yaml, "  {name}: {{ match: {{ path: /{name} }}, flow: {name} }}").unwrap();
    }
    yaml.push_str("flows:\n");
    for Kind { name, flow, .. } in kinds {
        let limits = "limits: { body_bytes_max: 64KiB }";
        writeln!(yaml, "  {name}: {{ {limits}, steps: {flow} }}").unwrap();
    }
    yaml
}

/// Sends this many requests of each kind, and as many whose client leaves while a branch hangs.
fn send(gateway: &Gateway, kinds: &[Kind], requests: usize) {
    thread::scope(|clients| {
        for client in 0..CLIENTS {
            clients.spawn(move || {
                for _ in (client..requests).step_by(CLIENTS) {
                    kinds.iter().for_each(|kind| ask(gateway, kind));
                    let mut wire = gateway.wire();
                    wire.send("POST /hangs HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx");
                }
            });
        }
    });
}

fn ask(gateway: &Gateway, kind: &Kind) {
    let Kind { name, body, status, text, .. } = kind;
    let content_type = match body.as_bytes() {
        [b'<', ..] => "text/xml",
        [b'[', ..] => "application/json",
        _ => "text/plain",
    };
    let length = body.len();
    let mut wire = gateway.wire();
    let reply = wire.ask(format!(
        "POST /{name} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX-Text: <\"'&]]>\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\n\r\n{body}"
    ));
    assert_eq!(reply.status(), *status, "{name}: {}", reply.text());
    assert!(reply.text().contains(text), "{name}: {}", reply.text());
    assert_eq!(wire.read_exact(1), None, "{name}: one reply");
}

/// Descriptors that the program has open.
fn descriptors(gateway: &Gateway) -> usize {
    std::fs::read_dir(format!("/proc/{}/fd", gateway.pid())).map_or(0, Iterator::count)
}

#[test]
fn faults_of_flows_leave_nothing_behind() {
    let requests = asked("TIDEGATE_SOAK_FAULTS", REQUESTS);
    let (kinds, origins) = (kinds(), origins());
    let gateway = Gateway::start(yaml(&origins, &kinds));
    let settle = || {
        until("no request and no connection of it is left", || {
            origins.iter().all(|(name, _)| {
                ["requests_active", "connections_open"].iter().all(|gauge| {
                    let sample = format!("tidegate_upstream_{gauge}{{upstream=\"{name}\"}}");
                    metric(&gateway, &sample).unwrap() < 0.5
                })
            }) && metric(&gateway, "tidegate_connections_open{listener=\"public\"}").unwrap() < 0.5
        });
    };
    send(&gateway, &kinds, requests.div_ceil(10).max(REQUESTS));
    settle();
    let (before, warm) = (descriptors(&gateway), gateway.resident_bytes() as f64);
    send(&gateway, &kinds, requests);
    settle();
    until("the descriptors are as before", || descriptors(&gateway) <= before);
    let end = gateway.resident_bytes() as f64;
    println!("{requests} of each: {:.1} MiB, then {:.1}", warm / 1_048_576.0, end / 1_048_576.0);
    let spare = if requests < 1000 { SETTLING_BYTES } else { PAGE_BYTES };
    assert!(end <= warm * GROWTH_MAX + spare, "{warm} bytes, then {end}");
}
