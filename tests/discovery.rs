//! Targets that DNS names: records of SRV, and each address of a name.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::harness::{
    Authority, ClosedPort, Gate, Gateway, Manner, NameServer, Origin, Peer, Wire, tidegate, until,
};

const SERVICE: &str = "_orders._tcp.a.test";

const LOOPBACK: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A service that returns its name, and its port.
fn origin(name: &'static str) -> (Origin, u16) {
    let origin = Origin::start(move |peer| answer(peer, name));
    let port = origin.address().port();
    (origin, port)
}

/// 500 to a health check of a name that begins with `sick`.
fn answer(peer: &mut Peer, name: &str) {
    while let Some(request) = peer.request() {
        let status = if request.target() == "/health" && name.starts_with("sick") {
            "500 Oops"
        } else {
            "200 OK"
        };
        let host = request.get("host").unwrap_or_default();
        let body = format!("{name} {host}");
        let length = body.len();
        if !peer.try_send(format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")) {
            return;
        }
    }
}

/// A name server with records for ports of this machine: priority, weight, port.
fn server(records: &[(u16, u16, u16)]) -> NameServer {
    let server = NameServer::start();
    server.addresses("h.a.test", 1, &[LOOPBACK]);
    serve(&server, records);
    server
}

fn serve(server: &NameServer, records: &[(u16, u16, u16)]) {
    let records: Vec<_> = records.iter().map(|(p, w, port)| (*p, *w, *port, "h.a.test")).collect();
    server.srv(SERVICE, 1, &records);
}

fn text(server: &NameServer, targets: &str, upstream: &str) -> String {
    let address = server.address();
    format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\nworkers: 1\n\
         upstreams: {{ orders: {{ targets: [{targets}], dns: {{ servers: [\"{address}\"], refresh: 1s }}, timeout: {{ connect: 20s }}, {upstream} }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: orders, host: target }} }}\n"
    )
}

fn gateway(server: &NameServer, upstream: &str) -> Gateway {
    Gateway::start(text(server, &format!("\"srv+http://{SERVICE}\""), upstream))
}

/// The services that answer this many requests over one connection.
fn shares(gateway: &Gateway, requests: usize) -> BTreeMap<String, usize> {
    let mut wire = gateway.wire();
    let mut shares = BTreeMap::new();
    for _ in 0..requests {
        let reply = wire.get("/");
        let who = match reply.status() {
            200 => reply.text().split(' ').next().unwrap().to_owned(),
            status => status.to_string(),
        };
        *shares.entry(who).or_default() += 1;
    }
    shares
}

fn of<const N: usize>(expected: [(&str, usize); N]) -> BTreeMap<String, usize> {
    expected.into_iter().map(|(who, count)| (who.to_owned(), count)).collect()
}

fn metric(gateway: &Gateway, series: &str) -> u64 {
    let text = gateway.admin_get("/metrics").text();
    let line = text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0, |value| value.parse().unwrap())
}

fn failed_look_ups(gateway: &Gateway) -> u64 {
    metric(gateway, "tidegate_upstream_lookups_failed_total{upstream=\"orders\"}")
}

/// The URLs of the targets, and the reason if there are none.
fn targets(gateway: &Gateway) -> (Vec<String>, Option<String>) {
    let reply = gateway.admin_get("/upstreams").text();
    let upstreams: serde_json::Value = serde_json::from_str(&reply).unwrap();
    let urls = upstreams[0]["targets"].as_array().unwrap();
    let urls = urls.iter().map(|target| target["url"].as_str().unwrap().to_owned()).collect();
    (urls, upstreams[0]["no_targets_because"].as_str().map(str::to_owned))
}

#[test]
fn records_say_hosts_ports_and_weights() {
    let ((_a, a), (_b, b), (_c, c)) = (origin("a"), origin("b"), origin("c"));
    let server = server(&[(5, 30, a), (5, 10, b), (9, 1000, c)]);
    let gateway = gateway(&server, "");
    // The first request waits for the first look-up.
    let reply = gateway.wire().get("/");
    assert_eq!((reply.status(), reply.text()), (200, format!("a h.a.test:{a}")));
    assert_eq!(shares(&gateway, 39), of([("a", 29), ("b", 10)]));
    let (mut urls, none) = targets(&gateway);
    urls.sort_unstable();
    let mut expected = [a, b, c].map(|port| format!("http://h.a.test:{port}"));
    expected.sort_unstable();
    assert_eq!((urls, none), (expected.to_vec(), None));
    // Weights change where the targets stay.
    serve(&server, &[(5, 0, a), (5, 0, b)]);
    until("the weights are others", || shares(&gateway, 10) == of([("a", 5), ("b", 5)]));
}

/// RFC 2782: the next priority only when nothing of a better one can be reached, and back again.
#[test]
fn a_lower_priority_is_for_when_no_better_one_is_healthy() {
    // No connection outlives its port.
    let brief = |name: &str| {
        Origin::answering(format!(
            "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{name} ",
            name.len() + 1
        ))
    };
    let (first, second, (_c, c)) = (brief("a"), brief("b"), origin("c"));
    let (a, b) = (first.address().port(), second.address().port());
    let server = server(&[(20, 1, c), (10, 1, a), (10, 1, b)]);
    let gateway = gateway(&server, "");
    assert_eq!(shares(&gateway, 20), of([("a", 10), ("b", 10)]));
    // A port that is closed belongs to no other test.
    let closed = |origin: Origin| {
        let address = origin.address();
        drop(origin);
        ClosedPort::at(address)
    };
    let _first = closed(first);
    assert_eq!(shares(&gateway, 20).get("c"), None, "another of the best priority is left");
    let _second = closed(second);
    let failed = shares(&gateway, 20);
    assert!(failed.keys().all(|who| who != "502" && who != "503"), "{failed:?}");
    until("the worse priority has all", || shares(&gateway, 10) == of([("c", 10)]));
    let listener = TcpListener::bind((LOOPBACK, a)).unwrap();
    let _back = Origin::start_on(listener, |peer| answer(peer, "back"));
    until("the better priority is used again", || shares(&gateway, 10) == of([("back", 10)]));
}

/// Clients send GET and POST requests continuously, while the only target is repeatedly replaced. A request in progress at a
/// removed target is completed.
#[test]
fn records_change_under_load_and_no_request_fails() {
    let ((first, a), (second, b)) = (origin("a"), origin("b"));
    let server = server(&[(0, 1, a)]);
    let gateway = Arc::new(gateway(&server, "pool: { idle_max: 64 }"));
    let (stop, asked) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|n| {
            let (gateway, stop, asked) = (gateway.clone(), stop.clone(), asked.clone());
            thread::spawn(move || {
                let (mut wire, mut failed) = (gateway.wire(), Vec::new());
                while !stop.load(Ordering::Relaxed) {
                    let reply = match n % 2 {
                        0 => wire.get("/"),
                        _ => wire.ask("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi"),
                    };
                    asked.fetch_add(1, Ordering::Relaxed);
                    if reply.status() != 200 {
                        failed.push(reply);
                    }
                }
                failed
            })
        })
        .collect();
    for (port, origin, before) in [(b, &second, &first), (a, &first, &second), (b, &second, &first)]
    {
        origin.forget();
        serve(&server, &[(0, 1, port)]);
        origin.wait_for_requests(50);
        until("connections to a target that has left are closed", || before.open() == 0);
    }
    stop.store(true, Ordering::Relaxed);
    let failed: Vec<_> = clients.into_iter().flat_map(|client| client.join().unwrap()).collect();
    assert!(failed.is_empty(), "{} of {asked:?}: {failed:?}", failed.len());
}

#[test]
fn a_request_to_a_target_that_leaves_goes_on_to_its_end() {
    let gate = Gate::default();
    let held = gate.clone();
    let slow = Origin::start(move |peer| {
        while peer.request().is_some() {
            peer.send("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab");
            held.wait();
            peer.send("cd");
        }
    });
    let (_b, b) = origin("b");
    let server = server(&[(0, 1, slow.address().port())]);
    let gateway = gateway(&server, "");
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(wire.read_head().status(), 200);
    serve(&server, &[(0, 1, b)]);
    let other = vec![format!("http://h.a.test:{b}")];
    until("the other target is there", || targets(&gateway).0 == other);
    assert_eq!(shares(&gateway, 2), of([("b", 2)]));
    gate.open();
    assert_eq!(wire.read_exact(4), Some(b"abcd".to_vec()));
    until("its connection is closed", || slow.open() == 0);
    assert_eq!(wire.get("/").status(), 200);
}

/// If DNS fails, the last result stays in use. Only `.` means that there are no targets.
#[test]
fn an_outage_of_dns_changes_nothing() {
    let ((_a, a), (_b, b)) = (origin("a"), origin("b"));
    let server = server(&[(0, 1, a)]);
    let gateway = gateway(&server, "");
    assert_eq!(shares(&gateway, 3), of([("a", 3)]));
    let manners: [fn(&NameServer); 5] = [
        |server| server.behave(Manner::Silent),
        |server| server.behave(Manner::Failing),
        |server| server.behave(Manner::Cut),
        |server| server.remove(SERVICE),
        |server| server.srv(SERVICE, 1, &[]),
    ];
    for (number, misbehave) in manners.into_iter().enumerate() {
        let before = failed_look_ups(&gateway);
        misbehave(&server);
        until("look-ups fail", || failed_look_ups(&gateway) >= before + 2);
        assert_eq!(shares(&gateway, 3), of([("a", 3)]), "{number}");
        server.behave(Manner::Well);
        serve(&server, &[(0, 1, b)]);
        until("new records are used", || shares(&gateway, 1) == of([("b", 1)]));
        serve(&server, &[(0, 1, a)]);
        until("new records are used", || shares(&gateway, 1) == of([("a", 1)]));
    }
    for why in ["does not answer", "SERVFAIL", "cannot be read", "NXDOMAIN", "no such records"] {
        gateway.wait_for_log(why);
    }
    // RFC 2782: a host of `.` is not a host.
    server.srv(SERVICE, 1, &[(0, 0, 0, ".")]);
    until("the service is not available", || shares(&gateway, 1) == of([("503", 1)]));
    let reply = gateway.wire().get("/");
    assert!(reply.text().contains("No healthy upstream"), "{reply:?}");
    // An exchange is counted after its last byte has left.
    let faults = "tidegate_faults_total{route=\"all\",reason=\"no_target\"}";
    until("both are counted", || metric(&gateway, faults) == 2);
    gateway.wait_for_log("the service is not available");
    serve(&server, &[(0, 1, a)]);
    until("it is available again", || shares(&gateway, 1) == of([("a", 1)]));
}

#[test]
fn without_records_at_the_start_it_is_503_with_a_reason_until_there_are_some() {
    let (_a, a) = origin("a");
    let server = NameServer::start();
    server.addresses("h.a.test", 1, &[LOOPBACK]);
    let gateway = gateway(&server, "");
    let reply = gateway.wire().get("/");
    assert_eq!(reply.status(), 503, "{reply:?}");
    assert!(reply.text().contains("cannot be resolved"), "{reply:?}");
    let faults = "tidegate_faults_total{route=\"all\",reason=\"unresolved\"}";
    until("it is counted", || metric(&gateway, faults) == 1);
    gateway.wait_for_log("_orders._tcp.a.test: the name does not exist (NXDOMAIN)");
    let (urls, none) = targets(&gateway);
    assert!(urls.is_empty() && none.is_some_and(|none| none.contains("NXDOMAIN")));
    serve(&server, &[(0, 1, a)]);
    until("it is there", || shares(&gateway, 1) == of([("a", 1)]));
    assert_eq!(targets(&gateway), (vec![format!("http://h.a.test:{a}")], None));
}

/// Two listeners of one port, on two addresses.
fn twins() -> [TcpListener; 2] {
    loop {
        let first = TcpListener::bind((LOOPBACK, 0)).unwrap();
        let port = first.local_addr().unwrap().port();
        if let Ok(second) = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 2), port)) {
            return [first, second];
        }
    }
}

#[test]
fn each_address_of_a_name_is_a_target() {
    let [one, two] = twins();
    let port = one.local_addr().unwrap().port();
    let _one = Origin::start_on(one, |peer| answer(peer, "sick-one"));
    let two = Origin::start_on(two, |peer| answer(peer, "two"));
    let server = NameServer::start();
    let both = [LOOPBACK, IpAddr::from([127, 0, 0, 2])];
    server.addresses("h.a.test", 1, &both);
    let health = "addresses: each, health: { path: /health, interval: 50ms, unhealthy_after: 1 }";
    for (upstream, with_both) in [
        ("addresses: each", of([("sick-one", 10), ("two", 10)])),
        // Each has its own health.
        (health, of([("two", 20)])),
    ] {
        server.addresses("h.a.test", 1, &both);
        let gateway =
            Gateway::start(text(&server, &format!("\"http://h.a.test:{port}\""), upstream));
        until("both are looked up", || shares(&gateway, 20) == with_both);
        let reply = gateway.wire().get("/");
        assert!(reply.text().ends_with(&format!(" h.a.test:{port}")), "{reply:?}");
        let urls = both.map(|ip| format!("http://{ip}:{port}")).to_vec();
        assert_eq!(targets(&gateway).0, urls);
        server.addresses("h.a.test", 1, &both[..1]);
        until("one has left", || targets(&gateway).0 == urls[..1]);
        assert_eq!(shares(&gateway, 4).get("two"), None);
    }
    until("nothing is connected any more", || two.open() == 0);
}

/// The system's resolver reports no TTL, and has names that are not in DNS.
#[test]
fn each_address_is_looked_up_by_the_system_too() {
    let (_a, a) = origin("a");
    let text = format!(
        "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nadmin: {{ address: \"127.0.0.1:0\" }}\n\
         upstreams: {{ orders: {{ targets: [\"http://localhost:{a}\"], addresses: each }} }}\n\
         routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: orders }} }}\n"
    );
    let gateway = Gateway::start(text);
    assert_eq!(shares(&gateway, 4), of([("a", 4)]));
    assert!(targets(&gateway).0.contains(&format!("http://127.0.0.1:{a}")));
}

/// Hosts of records with several addresses each, a name with a CNAME, and a version of IP that alone fails.
#[test]
fn each_address_of_the_hosts_of_a_service_is_a_target() {
    let [one, two] = twins();
    let port = one.local_addr().unwrap().port();
    let (_one, _two) = (
        Origin::start_on(one, |peer| answer(peer, "one")),
        Origin::start_on(two, |peer| answer(peer, "two")),
    );
    let server = NameServer::start();
    server.addresses("real.a.test", 1, &[LOOPBACK, IpAddr::from([127, 0, 0, 2])]);
    server.alias("h.a.test", 1, "real.a.test");
    serve(&server, &[(0, 1, port)]);
    let gateway = gateway(&server, "addresses: each");
    assert_eq!(shares(&gateway, 10), of([("one", 5), ("two", 5)]));
    server.remove("real.a.test");
    let before = failed_look_ups(&gateway);
    until("look-ups fail", || failed_look_ups(&gateway) >= before + 2);
    assert_eq!(shares(&gateway, 10), of([("one", 5), ("two", 5)]));
}

/// A target that stays keeps its health, its ejection and the clients that are pinned to it, while others come and go.
#[test]
fn targets_that_stay_keep_their_state() {
    let ((sick, a), (_b, b), (_c, c)) = (origin("sick"), origin("b"), origin("c"));
    let server = server(&[(0, 1, a), (0, 1, b)]);
    let upstream =
        "sticky: { cookie: srv }, health: { path: /health, interval: 1h, unhealthy_after: 1 }";
    let gateway = gateway(&server, upstream);
    until("the sick one is known", || shares(&gateway, 10) == of([("b", 10)]));
    let pinned = gateway.wire().get("/");
    let cookie = pinned.get("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    sick.forget();
    serve(&server, &[(0, 1, a), (0, 1, b), (0, 100, c)]);
    until("the third is there", || shares(&gateway, 10).contains_key("c"));
    // The next check of the unhealthy one is in an hour, and it got none of these requests.
    assert_eq!(shares(&gateway, 50).get("sick"), None);
    assert!(sick.requests().is_empty(), "{:?}", sick.requests());
    let mut wire = gateway.wire();
    for _ in 0..10 {
        let asked = format!("GET / HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n");
        let reply = wire.ask(asked);
        assert!(reply.text().starts_with("b "), "{reply:?}");
        assert_eq!(reply.get("set-cookie"), None);
    }
    assert_eq!(gateway.log().matches("healthy=false").count(), 1, "{}", gateway.log());
}

/// A key keeps its target as long as the target stays.
#[test]
fn a_hash_moves_only_the_keys_of_a_target_that_has_left() {
    let origins = ["a", "b", "c"].map(origin);
    let ports = origins.each_ref().map(|(_, port)| (0, 1, *port));
    let server = server(&ports);
    let gateway = gateway(&server, "balance: { hash: { by: path } }");
    let places = |gateway: &Gateway| {
        let mut wire = gateway.wire();
        let who = |n| wire.get(&format!("/{n}")).text().split(' ').next().unwrap().to_owned();
        (0..60).map(who).collect::<Vec<String>>()
    };
    let before = places(&gateway);
    serve(&server, &ports[..2]);
    until("one has left", || targets(&gateway).0.len() == 2);
    for (before, after) in before.iter().zip(places(&gateway)) {
        assert!(after != "c" && (before == "c" || *before == after), "{before} {after}");
    }
    assert!(before.iter().any(|who| who == "c"));
}

/// A reload with other timeouts while DNS is unavailable keeps the results.
#[test]
fn a_reload_keeps_the_targets_that_dns_no_longer_names() {
    let (_a, a) = origin("a");
    let server = server(&[(0, 1, a)]);
    let gateway = gateway(&server, "");
    assert_eq!(shares(&gateway, 3), of([("a", 3)]));
    server.behave(Manner::Silent);
    let target = format!("\"srv+http://{SERVICE}\"");
    gateway.rewrite(text(&server, &target, "pool: { idle_max: 7 }"));
    gateway.wait_for_log("generation=2");
    assert_eq!(shares(&gateway, 3), of([("a", 3)]));
}

/// No certificate proves that an answer of DNS is true, so it proves only names that the operator wrote.
#[test]
fn over_tls_a_host_has_to_be_of_the_services_domain() {
    let authority = Authority::new();
    let tls = Origin::start_tls(authority.server("h.a.test", None), |peer| answer(peer, "tls"));
    let port = tls.address().port();
    let server = NameServer::start();
    for (host, keys, expected) in [
        ("h.a.test", "", 200),
        ("h.evil.test", "", 503),
        // Its certificate is for another name.
        ("other.a.test", "", 502),
        ("h.evil.test", ", server_name: h.a.test", 200),
    ] {
        server.addresses(host, 1, &[LOOPBACK]);
        server.srv(SERVICE, 1, &[(0, 1, port, host)]);
        let upstream = format!("tls: {{ ca: ca.pem{keys} }}");
        let text = text(&server, &format!("\"srv+https://{SERVICE}\""), &upstream);
        let gateway = Gateway::start_beside(text, &[("ca.pem", &authority.pem())]);
        let reply = gateway.wire().get("/");
        assert_eq!(reply.status(), expected, "{host}{keys}: {reply:?}");
        let told = "`h.evil.test` is not in `a.test`";
        if expected == 503 {
            // A request may come before the answer of the name server.
            gateway.wait_for_log(told);
        } else {
            assert!(!gateway.log().contains(told), "{}", gateway.log());
        }
    }
}

/// More targets than an upstream may have are not cut without a word.
#[test]
fn targets_beyond_the_bound_are_reported() {
    let server = NameServer::start();
    let records: Vec<_> = (1..=1005).map(|port| (0, 1, port, "127.0.0.1")).collect();
    server.srv(SERVICE, 60, &records);
    let gateway = gateway(&server, "");
    let left_out = "tidegate_upstream_targets_left_out{upstream=\"orders\"}";
    until("the rest is counted", || metric(&gateway, left_out) == 5);
    assert_eq!(targets(&gateway).0.len(), 1000);
    gateway.wait_for_log("DNS names more targets than the 1000");
}

/// HTTP/2 with prior knowledge, and the tunnel of a WebSocket, go the same way.
#[test]
fn http2_and_websockets_use_what_dns_names() {
    use crate::harness::frames::{END, data, head};
    let http2 = |name: &'static str| {
        Origin::start(move |peer| {
            peer.greet(&[]);
            while let Some((stream, _)) = peer.whole_stream() {
                peer.try_send(
                    [head(stream, 0, &[(":status", "200")]), data(stream, END, name)].concat(),
                );
            }
        })
    };
    let (a, b) = (http2("a"), http2("b"));
    let server = server(&[(0, 1, a.address().port())]);
    let gateway = gateway(&server, "protocol: http2");
    assert_eq!(shares(&gateway, 3), of([("a", 3)]));
    serve(&server, &[(0, 1, b.address().port())]);
    until("the other is used", || shares(&gateway, 1) == of([("b", 1)]));
    until("the connection to the first is closed", || a.open() == 0);

    let socket = Origin::start(|peer| {
        peer.request_head();
        peer.send(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
        );
        while let Some(bytes) = peer.read_exact(1) {
            peer.send(bytes);
        }
    });
    let server = self::server(&[(0, 1, socket.address().port())]);
    let gateway = self::gateway(&server, "");
    let mut wire = gateway.wire();
    wire.send("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: x3JJHMbDL1EzLkh9GBhXDw==\r\n\r\n");
    assert_eq!(wire.read_head().status(), 101);
    let (_b, b) = origin("b");
    serve(&server, &[(0, 1, b)]);
    until("the other is used", || shares(&gateway, 1) == of([("b", 1)]));
    echoes(&mut wire);
}

#[track_caller]
fn echoes(wire: &mut Wire) {
    wire.send("x");
    assert_eq!(wire.read_exact(1), Some(b"x".to_vec()), "a tunnel outlives its target in DNS");
}

/// Cases need no DNS, since stand-ins replace the services.
#[test]
fn cases_need_no_dns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    for targets in [format!("\"srv+http://{SERVICE}\""), "\"http://h.a.test:80\"".to_owned()] {
        let text = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\n\
             upstreams: {{ orders: {{ targets: [{targets}], addresses: each, dns: {{ servers: [\"192.0.2.1\"] }} }} }}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: orders }} }}\n\
             cases: {{ one: {{ request: {{ path: /a }}, calls: [{{ upstream: orders, reply: {{ body: hi }} }}], reply: {{ status: 200, body: hi }} }} }}\n"
        );
        std::fs::write(&path, text).unwrap();
        let run = tidegate(&[std::ffi::OsStr::new("test"), path.as_os_str()]);
        assert_eq!(run.code, Some(0), "{run:?}");
    }
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tidegate.yaml");
    let srv = "\"srv+http://_a._tcp.b.test\"";
    // The targets, other keys, what begins where the complaint is, the complaint, and whether it is an error.
    for (targets, keys, place, expected, code) in [
        (srv, "", "", "ok", 0),
        (
            "\"srv+http://_a._tcp.b.test\", \"http://b.test\"",
            "",
            srv,
            "cannot be combined with other targets",
            1,
        ),
        ("{ url: \"srv+http://_a._tcp.b.test\", weight: 2 }", "", srv, "cannot have a weight", 1),
        (srv, "balance: failover", srv, "`failover` has no effect on `srv+http:", 1),
        ("\"srv+http://_a._tcp.b.test:80\"", "", "\"srv", "has a port, but", 1),
        ("\"srv+http://_a._tcp.b.test/a\"", "", "\"srv", "has something after its name", 1),
        ("\"srv+http://u@b.test\"", "", "\"srv", "a user name or password", 1),
        ("\"srv+http://10.0.0.1\"", "", "\"srv", "which has no SRV records", 1),
        ("\"srv+https://[::1]\"", "", "\"srv", "which has no SRV records", 1),
        ("\"srv+http://a..test\"", "", "\"srv", "a name that is not valid in DNS", 1),
        ("\"srv+ftp://a.test\"", "", "\"srv", "is neither http nor https", 1),
        (
            "{ url: \"http://a.test\", weight: 2 }",
            "addresses: each",
            "\"http",
            "`http://a.test:80` cannot have a weight",
            1,
        ),
        (
            "\"http://a.test\"",
            "addresses: each, balance: failover",
            "each",
            "`failover` cannot be used",
            1,
        ),
        ("\"http://10.0.0.1\"", "addresses: each", "each", "every target is an address", 0),
        ("\"http://a.test\"", "addresses: all", "all", "`all`", 1),
        (srv, "dns: { servers: [] }", "[]", "no name server", 1),
        (srv, "dns: { servers: [ns.test] }", "ns.test", "is not an address", 1),
        (srv, "dns: { servers: [\"10.0.0.1:0\"] }", "\"10.0", "has a bad port", 1),
        (
            srv,
            "dns: { servers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4] }",
            "[1.1",
            "the maximum of 3",
            1,
        ),
        ("\"http://10.0.0.1\"", "dns: { servers: [1.1.1.1] }", "[1.1", "no name server is used", 0),
    ] {
        let line = format!("  orders: {{ targets: [ {targets} ], {keys} }}");
        let text = format!(
            "listen: {{ public: {{ address: \"127.0.0.1:0\" }} }}\nupstreams:\n{line}\n\
             routes: {{ all: {{ match: {{ path: \"/**\" }}, upstream: orders }} }}\n"
        );
        std::fs::write(&path, text).unwrap();
        let run = tidegate(&[std::ffi::OsStr::new("check"), path.as_os_str()]);
        let said = format!("{}{}", run.stdout, run.stderr);
        let at = format!(":3:{}: ", line.find(place).unwrap() + 1);
        let placed =
            place.is_empty() || said.lines().any(|of| of.contains(&at) && of.contains(expected));
        let is_right = run.code == Some(code) && said.contains(expected) && placed;
        assert!(is_right, "{targets} {keys}: {expected}: {run:?}");
    }
}

/// The order of questions: nothing is asked more often than once a second for each name.
#[test]
fn names_are_not_asked_for_more_often_than_they_may() {
    let (_a, a) = origin("a");
    let server = NameServer::start();
    server.addresses("h.a.test", 0, &[LOOPBACK]);
    server.srv(SERVICE, 0, &[(0, 1, a, "h.a.test")]);
    let began = std::time::Instant::now();
    let gateway = gateway(&server, "");
    until("it was looked up again", || server.asked(SERVICE) >= 3);
    assert!(began.elapsed() >= Duration::from_secs(2));
    assert_eq!(shares(&gateway, 1), of([("a", 1)]));
}
