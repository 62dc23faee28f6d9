//! `sse: { share }`: one stream of the upstream for many clients.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::json;

use crate::harness::{Gateway, H2, Origin, Peer, Plain, Wire, full, tidegate, until, whole};
use crate::sse::access_line;
use crate::telemetry::metric;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nX-Service: ticks\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A service with streams, to which a test writes.
struct Service {
    origin: Origin,
    open: Arc<Mutex<Vec<Sender<Option<String>>>>>,
}

impl Service {
    fn start() -> Service {
        let open = Arc::<Mutex<Vec<Sender<Option<String>>>>>::default();
        let streams = open.clone();
        let origin = Origin::start(move |peer: &mut Peer| {
            while let Some(request) = peer.request() {
                if request.target().ends_with("/none") {
                    peer.send("HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 7\r\n\r\nnothing");
                    continue;
                }
                let (sender, events) = channel();
                peer.send(HEAD);
                streams.lock().unwrap().push(sender);
                if !serve(peer, &events) {
                    return;
                }
            }
        });
        Service { origin, open }
    }

    /// Sends this text on the stream that was opened as the how manieth.
    fn send(&self, stream: usize, text: &str) {
        until("the stream is open", || self.open.lock().unwrap().len() > stream);
        self.open.lock().unwrap()[stream].send(Some(text.to_owned())).unwrap();
    }

    fn event(&self, stream: usize, id: usize) {
        self.send(stream, &event(id));
    }

    fn end(&self, stream: usize) {
        self.open.lock().unwrap()[stream].send(None).unwrap();
    }

    /// Waits until the gateway has left it, which it sees when it sends.
    fn is_left(&self, stream: usize) {
        until("the upstream is left", || {
            let _ = self.open.lock().unwrap()[stream].send(Some(event(0)));
            self.origin.open() == 0
        });
    }

    /// Breaks off.
    fn abort(&self, stream: usize) {
        self.open.lock().unwrap()[stream] = channel().0;
    }

    fn yaml(&self, keys: &str, more: &str) -> String {
        format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 2\n\
             upstreams: {{ origin: {{ targets: [\"{}\"] }} }}\n\
             routes:\n  all:\n    match: {{ path: \"/api/**\" }}\n    strip_prefix: /api\n    upstream: origin\n    \
             policies: [{{ sse: {{ {keys} }} }}]\n{more}",
            self.origin.url()
        )
    }

    fn gateway(&self, keys: &str) -> Gateway {
        Gateway::start(self.yaml(keys, ""))
    }
}

/// Sends events up to the end. False if the connection cannot be used any more.
fn serve(peer: &mut Peer, events: &Receiver<Option<String>>) -> bool {
    while let Ok(event) = events.recv() {
        match event {
            None => return peer.try_send("0\r\n\r\n"),
            Some(event) if peer.try_send(format!("{:x}\r\n{event}\r\n", event.len())) => {}
            Some(_) => return false,
        }
    }
    false
}

fn event(id: usize) -> String {
    format!("id: {id}\ndata: event {id}\n\n")
}

/// Opens a stream.
#[track_caller]
fn open(gateway: &Gateway, target: &str, lines: &str) -> Wire {
    let mut wire = gateway.wire();
    wire.send(format!("GET {target} HTTP/1.1\r\nHost: a\r\nCookie: private=1\r\n{lines}\r\n"));
    let head = wire.read_head();
    assert_eq!(head.status(), 200);
    assert_eq!(head.get("content-type"), Some("text/event-stream"));
    assert_eq!(head.get("x-service"), Some("ticks"));
    wire
}

/// Reads the events with these ids, in any chunks.
#[track_caller]
fn expect(wire: &mut Wire, ids: impl IntoIterator<Item = usize>) {
    let expected: String = ids.into_iter().map(event).collect();
    assert_eq!(text(wire, expected.len()), expected);
}

/// Reads this much of a stream, in any chunks.
#[track_caller]
fn text(wire: &mut Wire, len: usize) -> String {
    let mut came = Vec::new();
    while came.len() < len {
        let chunk = wire.read_chunk();
        came.extend(chunk.unwrap_or_else(|| panic!("the end, after {came:?}")));
    }
    String::from_utf8(came).unwrap()
}

#[test]
fn clients_of_one_path_share_a_stream() {
    let service = Service::start();
    let gateway = service.gateway("share: {}");
    let mut clients: Vec<Wire> = (0..20).map(|_| open(&gateway, "/api/a?b=1", "")).collect();
    let h2 = H2::connect(gateway.address("public"));
    let request = hyper::Request::get("http://a.test/api/a?b=1").body(full("")).unwrap();
    let by_h2 = h2.block_on(h2.sender.clone().send_request(request)).unwrap();
    for id in 1..=50 {
        service.event(0, id);
    }
    clients.iter_mut().for_each(|client| expect(client, 1..=50));
    let request = service.origin.request();
    assert_eq!((request.method(), request.target()), ("GET", "/a?b=1"));
    assert_eq!((request.get("cookie"), request.get("accept")), (None, Some("text/event-stream")));
    let mut other = open(&gateway, "/api/a?b=2", "");
    service.event(1, 1);
    expect(&mut other, [1]);
    assert!(clients[0].is_silent_for(Duration::from_millis(50)));

    // Comments are forwarded to all, and an event that arrives in parts is forwarded complete.
    service.send(0, ": ping\n\n");
    service.send(0, "data: in ");
    service.send(0, "parts\n\n");
    for client in &mut clients {
        let mut came = Vec::new();
        while came.len() < 24 {
            came.extend(client.read_chunk().unwrap());
        }
        assert_eq!(String::from_utf8(came).unwrap(), ": ping\n\ndata: in parts\n\n");
    }
    service.end(0);
    for client in &mut clients {
        assert_eq!(client.read_exact(5).as_deref(), Some(&b"0\r\n\r\n"[..]));
    }
    let by_h2 = h2.block_on(whole(by_h2)).expect("an end, and no reset");
    let all: String = (1..=50).map(event).collect();
    assert_eq!(by_h2.body, format!("{all}: ping\n\ndata: in parts\n\n"));
    // The next one opens it again.
    let mut again = open(&gateway, "/api/a?b=1", "");
    service.event(2, 7);
    expect(&mut again, [7]);
    assert_eq!(service.origin.requests().len(), 3);
}

/// An event goes to a client that waits for nothing else without its task, and counts as any other.
#[test]
fn what_passes_is_counted_whoever_writes_it() {
    let service = Service::start();
    let log = "telemetry: { access_log: { format: json, path: access.log } }\n";
    let gateway = Gateway::start(service.yaml("share: {}", log));
    let mut chunked = open(&gateway, "/api/a", "");
    let mut plain = gateway.wire();
    plain.send("GET /api/a HTTP/1.0\r\nHost: a\r\n\r\n");
    assert_eq!(plain.read_head().status(), 200);
    let mut len = 0;
    for id in 1..=50 {
        // One that has what came waits again, and needs no task for the next.
        service.event(0, id);
        expect(&mut chunked, [id]);
        let text = event(id);
        assert_eq!(plain.read_exact(text.len()).as_deref(), Some(text.as_bytes()));
        len += text.len();
    }
    // So does one that was asked for something else meanwhile.
    chunked.send("GET /api/a HTTP/1.1\r\nHost: a\r\n\r\n");
    service.event(0, 51);
    expect(&mut chunked, [51]);
    let text = event(51);
    assert_eq!(plain.read_exact(text.len()).as_deref(), Some(text.as_bytes()));
    len += text.len();
    service.end(0);
    assert_eq!(chunked.read_exact(5).as_deref(), Some(&b"0\r\n\r\n"[..]));
    assert_eq!(plain.read_to_end(), b"");
    for number in 1..=2 {
        let line = access_line(&gateway, number);
        assert_eq!((&line["events"], &line["reply_bytes"]), (&json!(51), &json!(len)), "{line}");
    }
    assert_eq!(metric(&gateway, "tidegate_sse_events_total{route=\"all\"}"), Some(102.0));
}

#[test]
fn events_without_an_id_come_again_behind_the_one_before() {
    let service = Service::start();
    let gateway = service.gateway("share: {}");
    let mut first = open(&gateway, "/api/a", "");
    let marked = format!("\u{feff}{}", event(1));
    let rest = format!("data: no id\n\n: nor here\n\n{}", event(2));
    let all = format!("{marked}{rest}");
    service.send(0, &all);
    assert_eq!(text(&mut first, all.len()), all);
    let mut back = open(&gateway, "/api/a", "Last-Event-ID: 1\r\n");
    assert_eq!(text(&mut back, rest.len()), rest);
    let mut last = open(&gateway, "/api/a", "Last-Event-ID: 2\r\n");
    service.event(0, 3);
    expect(&mut last, [3]);
}

#[test]
fn events_that_come_with_the_answer_reach_whoever_asked() {
    let origin = Origin::start(|peer: &mut Peer| {
        while peer.request().is_some() {
            let chunk = |id| format!("{:x}\r\n{}\r\n", event(id).len(), event(id));
            peer.send(format!("{HEAD}{}{}", chunk(1), chunk(2)));
        }
    });
    let service = Service { origin, open: Arc::default() };
    let gateway = service.gateway("share: {}");
    for at in 0..20 {
        expect(&mut open(&gateway, &format!("/api/{at}"), ""), 1..=2);
    }
}

#[test]
fn a_client_that_comes_back_gets_what_it_missed() {
    let service = Service::start();
    let gateway = service.gateway("share: { replay: 5, linger: 1m }");
    let mut first = open(&gateway, "/api/a", "");
    (1..=8).for_each(|id| service.event(0, id));
    expect(&mut first, 1..=8);
    for (last, from) in [("6", 7), ("8", 9), ("3", 4), ("2", 4), ("x", 4)] {
        let mut back = open(&gateway, "/api/a", &format!("Last-Event-ID: {last}\r\n"));
        expect(&mut back, from..=8);
    }
    let mut new = open(&gateway, "/api/a", "");
    drop(first);
    service.event(0, 9);
    expect(&mut new, [9]);
    assert_eq!(service.origin.requests().len(), 1);
}

#[test]
fn a_stream_without_clients_lingers_and_ends() {
    let service = Service::start();
    let gateway = service.gateway("share: { linger: 2s }");
    let mut first = open(&gateway, "/api/a", "");
    service.event(0, 1);
    expect(&mut first, [1]);
    drop(first);
    std::thread::sleep(Duration::from_millis(100));
    let mut second = open(&gateway, "/api/a", "Last-Event-ID: 0\r\n");
    expect(&mut second, [1]);
    // Longer than the stream would have lingered.
    std::thread::sleep(Duration::from_millis(2100));
    service.event(0, 2);
    expect(&mut second, [2]);
    assert_eq!(service.origin.requests().len(), 1);
    drop(second);
    service.is_left(0);
    let _third = open(&gateway, "/api/a", "");
    assert_eq!(service.origin.requests().len(), 2);
}

/// No client waits for the answer any more, so the upstream's request is cancelled.
#[test]
fn a_stream_that_was_never_answered_ends_without_clients_too() {
    let origin = Origin::start(|peer: &mut Peer| {
        let _ = peer.request();
        peer.read_to_end();
    });
    let route = "policies: [{ sse: { share: { linger: 100ms } } }]";
    let upstream = "timeout: { response: 1h }";
    let gateway = Plain { route, upstream, ..Plain::default() }.start(&origin);
    let mut wire = gateway.wire();
    wire.send("GET /a HTTP/1.1\r\nHost: a\r\n\r\n");
    until("the upstream is asked", || origin.requests().len() == 1);
    drop(wire);
    until("the upstream is left", || origin.open() == 0);
}

#[test]
fn a_client_that_falls_behind_ends_or_skips() {
    for (slow, ends) in [("drop", true), ("skip", false)] {
        let service = Service::start();
        let keys = format!("share: {{ replay: 10, slow: {slow} }}, event_bytes_max: 1MiB");
        let gateway = service.gateway(&keys);
        let mut slow = open(&gateway, "/api/a", "");
        let mut fast = open(&gateway, "/api/a", "");
        let large = format!("data: {}\n\n", "x".repeat(900_000));
        for _ in 0..60 {
            service.send(0, &large);
            let mut came = 0;
            while came < large.len() {
                came += fast.read_chunk().unwrap().len();
            }
        }
        service.event(0, 99);
        let mut text = String::new();
        while !text.ends_with(&event(99)) {
            match slow.read_chunk() {
                Some(chunk) if chunk.is_empty() => break,
                Some(chunk) => text.push_str(&String::from_utf8(chunk).unwrap()),
                None => break,
            }
        }
        assert_eq!(text.ends_with(&event(99)), !ends, "{} bytes", text.len());
        assert!(text.ends_with("\n\n"), "whole events");
        assert!(text.len() < 60 * large.len(), "some were missed");
    }
}

#[test]
fn headers_may_be_part_of_what_is_shared() {
    let service = Service::start();
    let gateway = service.gateway("share: { headers: [X-Tenant] }");
    let with = |tenant: &str| open(&gateway, "/api/a", &format!("X-Tenant: {tenant}\r\n"));
    let (mut a, mut also_a, mut b) = (with("a"), with("a"), with("b"));
    service.event(0, 1);
    service.event(1, 2);
    for (wire, id) in [(&mut a, 1), (&mut also_a, 1), (&mut b, 2)] {
        expect(wire, [id]);
    }
    let tenants: Vec<String> = service
        .origin
        .requests()
        .iter()
        .map(|request| request.get("x-tenant").unwrap().to_owned())
        .collect();
    assert_eq!(tenants, ["a", "b"]);
}

#[test]
fn quotas_are_of_each_client() {
    let service = Service::start();
    let gateway = service.gateway("share: {}, events: 2, per: 1h, by: header:x-who");
    let (mut a, mut b) =
        (open(&gateway, "/api/a", "X-Who: a\r\n"), open(&gateway, "/api/a", "X-Who: b\r\n"));
    (1..=3).for_each(|id| service.event(0, id));
    for wire in [&mut a, &mut b] {
        expect(wire, [1, 2]);
        assert_eq!(wire.read_exact(5).as_deref(), Some(&b"0\r\n\r\n"[..]));
    }
    let refused = gateway.wire().ask("GET /api/a HTTP/1.1\r\nHost: a\r\nX-Who: a\r\n\r\n");
    assert_eq!(refused.status(), 429);
    // The third event may still be in transit. After this client has read it, a new stream gets only the fourth.
    let mut late = open(&gateway, "/api/a", "X-Who: late\r\nLast-Event-ID: 2\r\n");
    expect(&mut late, [3]);
    let mut c = open(&gateway, "/api/a", "X-Who: c\r\n");
    service.event(0, 4);
    expect(&mut c, [4]);
    assert_eq!(service.origin.requests().len(), 1);
}

#[test]
fn connections_are_of_each_client() {
    let service = Service::start();
    let gateway = service.gateway("share: {}, connections: 1, by: header:x-who");
    let mut a = open(&gateway, "/api/a", "X-Who: a\r\n");
    let _b = open(&gateway, "/api/a", "X-Who: b\r\n");
    let ask = "GET /api/a HTTP/1.1\r\nHost: a\r\nX-Who: a\r\n\r\n";
    assert_eq!(gateway.wire().ask(ask).status(), 429);
    service.event(0, 1);
    expect(&mut a, [1]);
    drop(a);
    until("its place is free", || {
        service.event(0, 2);
        let mut wire = gateway.wire();
        wire.send(ask);
        wire.read_head().status() == 200
    });
}

#[test]
fn a_broken_upstream_ends_all_its_clients() {
    let service = Service::start();
    let gateway = service.gateway("share: {}, event_bytes_max: 1KiB");
    let clients = |stream: usize| {
        let mut both = [open(&gateway, "/api/a", ""), open(&gateway, "/api/a", "")];
        service.event(stream, 1);
        both.iter_mut().for_each(|client| expect(client, [1]));
        both
    };
    // An endless event: after the last complete one.
    let mut both = clients(0);
    service.send(0, &format!("data: {}", "x".repeat(2000)));
    for client in &mut both {
        assert_eq!(client.read_to_end(), b"", "a reconnect would not help, so it is a cut");
    }
    service.is_left(0);
    let ends = "tidegate_stream_ends_total{route=\"all\",reason=\"too_large\"}";
    assert_eq!(metric(&gateway, ends), Some(2.0));

    // An end within an event: what came of it is passed on, as without `share`.
    let mut both = clients(1);
    service.send(1, "data: ha");
    assert!(both[0].is_silent_for(Duration::from_millis(20)), "it is not an event yet");
    service.end(1);
    for client in &mut both {
        assert_eq!(client.read_chunk().as_deref(), Some(&b"data: ha"[..]));
        assert_eq!(client.read_exact(5).as_deref(), Some(&b"0\r\n\r\n"[..]));
    }

    // One that breaks off does not look complete.
    let both = clients(2);
    service.send(2, "data: ha");
    service.abort(2);
    for mut client in both {
        assert_eq!(client.read_to_end(), b"");
    }
    let mut again = open(&gateway, "/api/a", "");
    service.event(3, 5);
    expect(&mut again, [5]);
}

/// The ring exists once, and each client that does not read additionally holds at most its last batch.
#[test]
fn slow_clients_hold_little() {
    const CLIENTS: usize = 100;
    let service = Service::start();
    let gateway = service.gateway("share: { replay: 10, slow: skip }, event_bytes_max: 64KiB");
    let mut fast = open(&gateway, "/api/a", "");
    let _slow: Vec<Wire> = (0..CLIENTS).map(|_| open(&gateway, "/api/a", "")).collect();
    let large = format!("data: {}\n\n", "x".repeat(60_000));
    let mut send = |count: usize| {
        for _ in 0..count {
            service.send(0, &large);
            let mut came = 0;
            while came < large.len() {
                came += fast.read_chunk().unwrap().len();
            }
        }
    };
    send(1);
    let before = gateway.resident_bytes();
    // Far more than sockets take.
    send(300);
    let grown = gateway.resident_bytes().saturating_sub(before);
    assert!(grown < CLIENTS * 64 * 1024 + (8 << 20), "{} bytes a client", grown / CLIENTS);
}

#[test]
fn answers_that_are_no_stream_go_to_those_who_wait() {
    let service = Service::start();
    let gateway = service.gateway("share: {}");
    for _ in 0..3 {
        let reply = gateway.wire().get("/api/none");
        assert_eq!((reply.status(), &*reply.text()), (404, "nothing"));
    }
    assert_eq!(service.origin.requests().len(), 3, "they are not kept");
    let post = gateway
        .wire()
        .ask("POST /api/none HTTP/1.1\r\nHost: a\r\nCookie: c=1\r\nContent-Length: 1\r\n\r\nx");
    assert_eq!(post.status(), 404);
    assert_eq!(service.origin.requests()[3].get("cookie"), Some("c=1"), "only GET is shared");
    let closed = Origin::start(|_| {});
    let yaml = service.yaml("share: {}", "").replace(&service.origin.url(), &closed.url());
    let gateway = Gateway::start(yaml);
    assert_eq!(gateway.wire().get("/api/a").status(), 502);
}

#[test]
fn a_reload_leaves_a_shared_stream_alone() {
    let service = Service::start();
    let gateway = service.gateway("share: {}");
    let mut before = open(&gateway, "/api/a", "");
    service.event(0, 1);
    crate::reload::put_ok(
        &gateway,
        &service.yaml("share: {}", "plans: { p: { unlimited: true } }\n"),
    );
    let mut after = open(&gateway, "/api/a", "Last-Event-ID: 0\r\n");
    service.event(0, 2);
    expect(&mut before, [1, 2]);
    expect(&mut after, [1, 2]);
    assert_eq!(service.origin.requests().len(), 1);
}

#[test]
fn a_stream_that_lingers_for_no_time_ends_with_its_last_client() {
    let service = Service::start();
    let gateway = service.gateway("share: { linger: 0s }");
    let mut client = open(&gateway, "/api/a", "");
    service.event(0, 1);
    expect(&mut client, [1]);
    drop(client);
    service.is_left(0);
}

#[test]
fn a_header_that_is_set_and_not_shared_is_warned_of() {
    let folder = tempfile::tempdir().unwrap();
    for (headers, is_warned) in [("[]", true), ("[X-A]", false)] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n\
             upstreams: {{ a: {{ targets: [\"http://127.0.0.1:1\"] }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{{ headers: {{ request: {{ set: {{ x-a: b }} }} }} }}, \
             {{ sse: {{ share: {{ headers: {headers} }} }} }}], upstream: a }} }}\n"
        );
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, yaml).unwrap();
        let run = tidegate(&["check", path.to_str().unwrap()]);
        assert_eq!(run.code, Some(0), "{}", run.stderr);
        let said = "the shared stream is requested without `x-a`";
        assert_eq!(run.stderr.contains(said), is_warned, "{headers}: {}", run.stderr);
    }
}

#[test]
fn what_cannot_be_shared_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    for (policies, upstream, said) in [
        (
            "{ interceptor: { request: { upstream: a } } }, { sse: { share: {} } }",
            "a",
            "`interceptor` changes the request for each client",
        ),
        ("{ sse: { share: {} } }", "{ a: 1, b: 1 }", "a shared stream needs one upstream"),
        ("{ sse: { share: { headers: [\"a b\"] } } }", "a", "`a b` is not a header name"),
        ("{ sse: { share: { replay: 0 } } }", "a", "expected a whole number from 1 to 1000000"),
        ("{ sse: { share: { slow: wait } } }", "a", "write `drop` or `skip`"),
        (
            "{ sse: { share: { headers: [Connection] } } }",
            "a",
            "the gateway sets `Connection` of a shared stream itself",
        ),
    ] {
        let yaml = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n\
             upstreams: {{ a: {{ targets: [\"http://127.0.0.1:1\"] }}, b: {{ targets: [\"http://127.0.0.1:1\"] }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, policies: [{policies}], upstream: {upstream} }} }}\n"
        );
        let path = folder.path().join("a.yaml");
        std::fs::write(&path, yaml).unwrap();
        let run = tidegate(&["check", path.to_str().unwrap()]);
        assert_eq!(run.code, Some(1), "{policies}");
        assert!(
            run.stderr.contains(said) && run.stderr.contains("a.yaml:3:"),
            "{policies}: {}",
            run.stderr
        );
    }
}

/// A service whose streams end after this many events, and which continues after the id in the request.
fn replaying(events: usize, each: usize) -> Origin {
    Origin::start(move |peer: &mut Peer| {
        while let Some(request) = peer.request() {
            let last = request.get("last-event-id").map_or(0, |id| id.parse().unwrap());
            let ids = (last + 1)..=events.min(last + each);
            let chunk = |id| format!("{:x}\r\n{}\r\n", event(id).len(), event(id));
            let chunks: String = ids.map(chunk).collect();
            peer.send(format!("{HEAD}{chunks}0\r\n\r\n"));
        }
    })
}

/// Reads the events of one stream up to its end.
fn ids(wire: &mut Wire) -> Vec<usize> {
    let mut text = Vec::new();
    while let Some(chunk) = wire.read_chunk().filter(|chunk| !chunk.is_empty()) {
        text.extend(chunk);
    }
    let text = String::from_utf8(text).unwrap();
    text.lines().filter_map(|line| line.strip_prefix("id: ")?.parse().ok()).collect()
}

fn again(gateway: &Gateway, target: &str, last: usize) -> Wire {
    match last {
        0 => open(gateway, target, ""),
        last => open(gateway, target, &format!("Last-Event-ID: {last}\r\n")),
    }
}

#[test]
fn nothing_is_lost_where_the_upstream_ends_its_streams() {
    let origin = replaying(88, 20);
    let service = Service { origin, open: Arc::default() };
    let gateway = service.gateway("share: {}");
    // The first one is always ahead of the second.
    let (mut fast, mut slow) = (Vec::new(), Vec::new());
    while fast.len() < 88 {
        let came = ids(&mut again(&gateway, "/api/a", fast.last().copied().unwrap_or(0)));
        assert!(!came.is_empty());
        fast.extend(came);
        if fast.len() > 20 && slow.len() + 20 < fast.len() {
            let mut wire = again(&gateway, "/api/a", slow.last().copied().unwrap_or(0).max(1));
            slow.extend(ids(&mut wire));
        }
    }
    assert_eq!(fast, (1..=88).collect::<Vec<_>>());
    while slow.last() != Some(&88) {
        let came = ids(&mut again(&gateway, "/api/a", slow.last().copied().unwrap()));
        assert!(!came.is_empty());
        slow.extend(came);
    }
    slow.dedup();
    assert_eq!(slow, (2..=88).collect::<Vec<_>>());
}

#[test]
fn nothing_is_lost_when_clients_come_back_after_a_restart_or_a_reload() {
    let service = Service::start();
    let gateway = service.gateway("share: {}");
    let asked = |stream: usize| {
        until("it is asked", || service.origin.requests().len() > stream);
        service.origin.requests()[stream].get("last-event-id").map(str::to_owned)
    };
    // They were at different events.
    let mut ahead = again(&gateway, "/api/a", 20);
    let mut behind = again(&gateway, "/api/a", 15);
    let mut also_behind = again(&gateway, "/api/a", 15);
    assert_eq!((asked(0).as_deref(), asked(1).as_deref()), (Some("20"), Some("15")));
    service.event(0, 21);
    (16..=21).for_each(|id| service.event(1, id));
    expect(&mut ahead, [21]);
    expect(&mut behind, 16..=21);
    expect(&mut also_behind, 16..=21);
    assert_eq!(service.origin.requests().len(), 2, "one stream for one place");
    // The settings change, and with them the stream.
    crate::reload::put_ok(&gateway, &service.yaml("share: { replay: 7 }", ""));
    let _back = again(&gateway, "/api/a", 21);
    assert_eq!(asked(2).as_deref(), Some("21"));
}

/// A failure and the end of the time that it lingers are ends too.
#[test]
fn a_stream_that_is_opened_again_goes_on_where_it_was() {
    let service = Service::start();
    let gateway = service.gateway("share: { linger: 50ms }");
    let mut client = open(&gateway, "/api/a", "");
    (1..=3).for_each(|id| service.event(0, id));
    expect(&mut client, 1..=3);
    service.send(0, "id: 4\ndata: ha");
    service.abort(0);
    assert_eq!(client.read_to_end(), b"");
    let mut back = again(&gateway, "/api/a", 2);
    service.event(1, 4);
    expect(&mut back, 3..=4);
    drop(back);
    service.is_left(1);
    // The service sent something that has no id but 0 until it saw that it was left.
    let mut back = again(&gateway, "/api/a", 4);
    service.event(2, 5);
    let came = String::from_utf8(back.read_chunk().unwrap()).unwrap();
    assert!(came.starts_with(&event(5)) || came.starts_with(&event(0)), "{came}");
    let asked =
        |stream: usize| service.origin.requests()[stream].get("last-event-id").map(str::to_owned);
    assert_eq!((asked(0), asked(1).as_deref()), (None, Some("3")));
    assert!(asked(2).is_some_and(|id| id == "4" || id == "0"));
}

/// An upstream that does not know the ids of other streams gets a separate request for this client.
#[test]
fn an_answer_to_the_id_of_others_is_not_for_a_new_client() {
    let origin = Origin::start(|peer: &mut Peer| {
        while let Some(request) = peer.request() {
            match request.get("last-event-id") {
                Some(_) => peer.send("HTTP/1.1 410 Gone\r\nContent-Length: 0\r\n\r\n"),
                None => {
                    peer.send(format!("{HEAD}{:x}\r\n{}\r\n0\r\n\r\n", event(1).len(), event(1)))
                }
            }
        }
    });
    let service = Service { origin, open: Arc::default() };
    let gateway = service.gateway("share: {}");
    for _ in 0..2 {
        assert_eq!(ids(&mut open(&gateway, "/api/a", "")), [1]);
    }
    let told = gateway.wire().ask("GET /api/a HTTP/1.1\r\nHost: a\r\nLast-Event-ID: 9\r\n\r\n");
    assert_eq!(told.status(), 410);
}

/// Streams that linger are those of the client that opened them, so one that opens and leaves many has few.
#[test]
fn streams_that_linger_count_for_the_client_that_opened_them() {
    let service = Service::start();
    for (keys, most) in [("", 17), (", connections: 3", 4)] {
        let keys = format!("share: {{ linger: 1h }}, by: header:x-who{keys}");
        let gateway = service.gateway(&keys);
        let before = service.open.lock().unwrap().len();
        for number in 0..60 {
            let mut wire = open(&gateway, &format!("/api/x?u={number}"), "X-Who: a\r\n");
            service.event(before + number, 1);
            expect(&mut wire, [1]);
        }
        until("all but a few are left", || {
            let streams = service.open.lock().unwrap();
            streams[before..].iter().for_each(|stream| drop(stream.send(Some(event(2)))));
            drop(streams);
            service.origin.open() <= most
        });
        drop(gateway);
        until("all are left", || {
            let streams = service.open.lock().unwrap();
            streams[before..].iter().for_each(|stream| drop(stream.send(Some(event(2)))));
            drop(streams);
            service.origin.open() == 0
        });
    }
}

/// All places of the upstream are used by streams without readers.
#[test]
fn a_stream_that_lingers_makes_room_for_a_client() {
    let service = Service::start();
    let yaml = service.yaml("share: { linger: 1h }, by: header:x-who", "");
    let targets = format!("targets: [\"{}\"]", service.origin.url());
    let yaml = yaml.replace(&targets, &format!("{targets}, breaker: {{ requests: 3 }}"));
    let gateway = Gateway::start(yaml);
    for number in 0..3 {
        let who = format!("X-Who: {number}\r\n");
        let mut wire = open(&gateway, &format!("/api/x?u={number}"), &who);
        service.event(number, 1);
        expect(&mut wire, [1]);
    }
    let mut kept: Vec<Wire> = Vec::new();
    for number in 3..6 {
        let mut wire = open(&gateway, &format!("/api/y?u={number}"), "X-Who: new\r\n");
        service.event(number, 1);
        expect(&mut wire, [1]);
        kept.push(wire);
    }
    let refused = gateway.wire().ask("GET /api/z HTTP/1.1\r\nHost: a\r\nX-Who: last\r\n\r\n");
    assert_eq!(refused.status(), 503, "these are read");
}
