//! `limits.memory`: the process stays within its limit, whatever the number of messages and their use.

use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use flate2::Compression;
use flate2::write::GzEncoder;

use crate::harness::{Gate, Gateway, Message, Origin, Peer, Wire, tidegate, until};
use crate::telemetry::metric;

const MIB: usize = 1 << 20;

/// The elements of a document of 1 MB, which is 1 KB in gzip. Its tree takes ten times as much.
const ELEMENTS: usize = 250_000;
const TREE_BYTES: usize = ELEMENTS * 40;

fn yaml(memory: &str, origin: &Origin, rest: &str) -> String {
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
         limits: {{ memory: {memory} }}\n\
         upstreams: {{ slow: {{ targets: [\"{}\"], timeout: {{ response: 100s }} }} }}\n{rest}",
        origin.url()
    )
}

fn flow(steps: &str) -> String {
    format!(
        "routes: {{ all: {{ match: {{ path: \"/**\" }}, flow: main }} }}\n\
         flows: {{ main: {{ timeout: 100s, limits: {{ body_bytes_max: 32MiB }}, steps: {steps} }} }}\n"
    )
}

/// A POST of a document of that many `<a/>`, compressed.
fn bomb(elements: usize) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(b"<r>").unwrap();
    (0..elements / 100).for_each(|_| gzip.write_all("<a/>".repeat(100).as_bytes()).unwrap());
    gzip.write_all(b"</r>").unwrap();
    let body = gzip.finish().unwrap();
    assert!(body.len() < elements / 100, "{}", body.len());
    let head = format!(
        "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: text/xml\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

/// An upstream that holds its replies back.
struct HeldBack {
    origin: Origin,
    gate: Gate,
    /// Requests that came.
    came: Arc<AtomicUsize>,
}

impl HeldBack {
    fn start() -> HeldBack {
        let (gate, came) = (Gate::default(), Arc::<AtomicUsize>::default());
        let (held, counted) = (gate.clone(), came.clone());
        let origin = Origin::start(move |peer: &mut Peer| {
            while peer.request().is_some() {
                counted.fetch_add(1, Ordering::Relaxed);
                held.wait();
                if !peer.try_send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok") {
                    return;
                }
            }
        });
        HeldBack { origin, gate, came }
    }

    fn came(&self) -> usize {
        self.came.load(Ordering::Relaxed)
    }
}

#[track_caller]
fn is_short_of_memory(reply: &Message, what: &str) {
    assert_eq!(reply.status(), 503, "{what}: {}", reply.text());
    assert!(reply.text().contains(r#""fault":"memory_full""#), "{what}: {}", reply.text());
    assert_eq!(reply.get("retry-after"), Some("1"), "{what}");
}

/// A later step needs the tree, so that it stays while the upstream takes its time.
/// A metric that counts, as a number of things.
#[allow(clippy::cast_possible_truncation, reason = "a count below 2^53")]
fn whole(metric: f64) -> usize {
    metric as usize
}

#[test]
fn small_requests_that_become_large_trees_stay_within_the_bound() {
    let limit = 64 * MIB;
    let slow = HeldBack::start();
    let steps = "[set: { kept: '$body' }, filter: { when: 'count($kept/*) > 5', then: [call: { upstream: slow, body: { text: small } }] }, respond: { text: '{{ count($kept/*) }}' }]";
    let gateway = Gateway::start(yaml("64MiB", &slow.origin, &flow(steps)));
    let before = gateway.peak_bytes();
    let request = bomb(ELEMENTS);
    let mut wires: Vec<Wire> = (0..20).map(|_| gateway.wire()).collect();
    wires.iter_mut().for_each(|wire| wire.send(&request));
    let refused =
        || metric(&gateway, "tidegate_faults_total{route=\"all\",reason=\"memory_full\"}");
    // All are refused or with the upstream.
    until("each request has its fate", || {
        whole(refused().unwrap_or_default()) + slow.came() >= wires.len()
    });
    let held = slow.came();
    assert!(held > 0 && held * TREE_BYTES <= limit, "{held} trees are held");
    let used = whole(metric(&gateway, "tidegate_memory_used_bytes").unwrap());
    assert!((held * TREE_BYTES..=limit).contains(&used), "{used} bytes for {held} trees");
    assert_eq!(metric(&gateway, "tidegate_memory_limit_bytes"), Some(limit as f64));
    assert!(metric(&gateway, "tidegate_memory_refused_total").unwrap() >= (20 - held) as f64);
    // The allocator's own memory and concurrent allocations of two workers are added.
    let peak = gateway.peak_bytes() - before;
    assert!(peak < limit + limit / 2, "{peak} bytes");
    slow.gate.open();
    let replies: Vec<Message> = wires.iter_mut().map(Wire::read_reply).collect();
    for reply in &replies {
        match reply.status() {
            200 => assert_eq!(reply.text(), ELEMENTS.to_string()),
            _ => is_short_of_memory(reply, "over the bound"),
        }
    }
    assert_eq!(replies.iter().filter(|reply| reply.status() == 200).count(), held);
    // Afterwards there is room again.
    let again = gateway.wire().ask(&request);
    assert_eq!((again.status(), again.text()), (200, ELEMENTS.to_string()));
    gateway.wait_for_log("limits.memory");
}

#[test]
fn a_tree_that_no_later_step_needs_is_gone_before_the_call() {
    let slow = HeldBack::start();
    let steps = "[filter: { when: 'count($body/*) > 5', then: [call: slow] }, respond: {}]";
    let gateway = Gateway::start(yaml("64MiB", &slow.origin, &flow(steps)));
    let request = bomb(ELEMENTS);
    let count = 8;
    assert!(count * TREE_BYTES > 64 * MIB);
    let mut wires: Vec<Wire> = (0..count).map(|_| gateway.wire()).collect();
    // One after the other, so that no two trees are made at once.
    for (at, wire) in wires.iter_mut().enumerate() {
        wire.send(&request);
        until("the upstream has it", || slow.came() > at);
    }
    let used = whole(metric(&gateway, "tidegate_memory_used_bytes").unwrap());
    assert!(used < 2 * TREE_BYTES, "{used} bytes for {count} requests");
    slow.gate.open();
    wires.iter_mut().for_each(|wire| assert_eq!(wire.read_reply().text(), "ok"));
}

/// Every place that buffers or parses a message has the same limit. Messages that only pass have none.
#[test]
fn whoever_keeps_a_message_in_memory_asks_for_room() {
    // Its replies have a content type, so that the policies read them.
    let origin = Origin::start(|peer| {
        while let Some(request) = peer.request() {
            let kind = request.get("content-type").unwrap_or("text/plain");
            let length = request.body.len();
            let head = format!("HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\n");
            peer.try_send(format!("{head}Content-Length: {length}\r\n\r\n"));
            peer.try_send(&request.body);
        }
    });
    let routes = "routes:
  passes: { match: { path: /passes }, upstream: slow }
  json: { match: { path: /json }, policies: [{ transform: { body_bytes_max: 32MiB, request: { json: { set: { /1: 1 } } } } }], upstream: slow }
  soap: { match: { path: /soap }, policies: [{ soap: { } }], upstream: slow }
  xpath: { match: { path: /xpath }, policies: [{ xpath_route: { cases: [{ xpath: /a, equals: x, upstream: slow }] } }], upstream: slow }
  reply: { match: { path: /reply }, policies: [{ transform: { body_bytes_max: 32MiB, response: { json: { set: { /1: 1 } } } } }], upstream: slow }
  flow: { match: { path: /flow }, flow: looks }
  queue: { match: { path: /queue }, flow: stores }
  hub: { match: { path: '/hub/**' }, hub: news }
flows:
  looks: { limits: { body_bytes_max: 32MiB }, steps: [payload: { text: '{{ $body }}' }, respond: {}] }
  stores: { limits: { body_bytes_max: 32MiB }, steps: [store: { queue: waiting }] }
  works: { steps: [respond: {}] }
queues: { waiting: { flow: works } }
hubs: { news: { topics: [sports], event_bytes_max: 16MiB } }
store: { path: store }
";
    let gateway = Gateway::start(yaml("2MiB", &origin, routes));
    let ask = |path: &str, bytes: usize| {
        let envelope = |text: &str| {
            let soap = "http://schemas.xmlsoap.org/soap/envelope/";
            format!("<s:Envelope xmlns:s=\"{soap}\"><s:Body><a>{text}</a></s:Body></s:Envelope>")
        };
        let (kind, body) = match path {
            "/soap" | "/xpath" => ("text/xml", envelope(&"x".repeat(bytes))),
            _ => ("application/json", format!("[\"{}\"]", "x".repeat(bytes))),
        };
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        gateway.wire().ask(head + &body)
    };
    assert_eq!(ask("/passes", 6 * MIB).status(), 200);
    for path in
        ["/json", "/soap", "/xpath", "/reply", "/flow", "/queue", "/hub/publish?topic=sports"]
    {
        let small = ask(path, 1000);
        assert_ne!(small.status(), 503, "{path}: {}", small.text());
        match path {
            // Their faults are SOAP's.
            "/soap" | "/xpath" => {
                let route = path.trim_start_matches('/');
                let label =
                    format!("tidegate_faults_total{{route=\"{route}\",reason=\"memory_full\"}}");
                let refused = ask(path, 6 * MIB);
                assert!(refused.status() >= 500, "{path}: {}", refused.text());
                assert_eq!(refused.get("retry-after"), Some("1"), "{path}");
                // An exchange is counted after its last byte has left.
                until(&format!("{label} is counted"), || metric(&gateway, &label) == Some(1.0));
            }
            _ => is_short_of_memory(&ask(path, 6 * MIB), path),
        }
    }
    assert_eq!(ask("/passes", 6 * MIB).status(), 200);
}

#[test]
fn the_bound_is_a_size_or_a_share() {
    let origin = Origin::silent();
    let gateway = Gateway::start(yaml(
        "25%",
        &origin,
        "routes: { a: { match: { path: / }, upstream: slow } }\n",
    ));
    let quarter = metric(&gateway, "tidegate_memory_limit_bytes").unwrap();
    gateway.rewrite(yaml(
        "50%",
        &origin,
        "routes: { a: { match: { path: / }, upstream: slow } }\n",
    ));
    until("the reload has changed it", || {
        let half = metric(&gateway, "tidegate_memory_limit_bytes").unwrap();
        (half / quarter - 2.0).abs() < 0.01
    });
    let rest = "listen: { public: { address: \"127.0.0.1:0\" } }\nroutes: { a: { match: { path: / }, respond: { status: 200 } } }\n";
    let file = gateway.path("other.yaml");
    let run = |command: &str, limits: &str| {
        std::fs::write(&file, format!("{limits}\n{rest}")).unwrap();
        tidegate(&[command, file.to_str().unwrap()])
    };
    let explained = run("explain", "").stdout;
    assert!(explained.contains("limits:\n  memory: \"60%\"\n"), "{explained}");
    for wrong in ["0%", "101%", "60", "100KiB", "much", "-1%"] {
        let said = run("check", &format!("limits: {{ memory: {wrong} }}"));
        assert_eq!(said.code, Some(1), "{wrong}: {said:?}");
        assert!(
            said.stderr.contains("`60%`") || said.stdout.contains("`60%`"),
            "{wrong}: {said:?}"
        );
    }
}
